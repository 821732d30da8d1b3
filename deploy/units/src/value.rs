//! Values of unit files: times, sizes, limits, capabilities. systemd takes more forms; our units need these.

use std::time::Duration;

use caps::Capability;

/// A time: `10s`, `100ms`, `5min`, or bare seconds.
pub fn time(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text.get(..end)?.parse().ok()?;
    match text.get(end..)? {
        "" | "s" | "sec" => Some(Duration::from_secs(number)),
        "ms" => Some(Duration::from_millis(number)),
        "min" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

/// Bytes: `512M`, `64K`, bare bytes. `infinity` has no number and is [`u64::MAX`].
pub fn size(text: &str) -> Option<u64> {
    if text == "infinity" {
        return Some(u64::MAX);
    }
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (text.get(..text.len() - 1)?, 10),
        b'M' => (text.get(..text.len() - 1)?, 20),
        b'G' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A limit of a process: what it has and how far it may raise it. Times are in microseconds, as the kernel counts those of
/// real-time threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What is in force.
    pub soft: u64,
    /// How far the process may raise it.
    pub hard: u64,
}

impl Limit {
    /// Reads `SOFT:HARD`, or one value for both.
    pub fn read(text: &str) -> Option<Limit> {
        let one = |text: &str| {
            let micros = |time: Duration| u64::try_from(time.as_micros()).ok();
            size(text).or_else(|| time(text).and_then(micros))
        };
        let (soft, hard) = text.split_once(':').unwrap_or((text, text));
        let (soft, hard) = (one(soft)?, one(hard)?);
        (soft <= hard).then_some(Limit { soft, hard })
    }
}

/// Capabilities by their names, `CAP_BPF`.
pub fn capabilities(text: &str) -> Option<Vec<Capability>> {
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(time("10s"), Some(Duration::from_secs(10)));
        assert_eq!(time("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(time("60"), Some(Duration::from_secs(60)));
        assert_eq!(size("256M"), Some(256 << 20));
        assert_eq!(size("infinity"), Some(u64::MAX));
        for text in ["", "s", "10 years", "-1", "M", "99999999999G"] {
            assert_eq!((time(text), size(text)), (None, None), "{text:?}");
        }
    }

    #[test]
    fn a_limit_is_soft_and_hard_and_the_soft_one_is_no_higher() {
        assert_eq!(Limit::read("100ms:infinity"), Some(Limit { soft: 100_000, hard: u64::MAX }));
        assert_eq!(Limit::read("65536"), Some(Limit { soft: 65_536, hard: 65_536 }));
        assert_eq!(Limit::read("2:1"), None);
        assert_eq!(Limit::read("some"), None);
    }

    #[test]
    fn capabilities_are_those_that_there_are() {
        assert_eq!(capabilities("CAP_BPF CAP_NET_RAW"), Some(vec![Capability::CAP_BPF, Capability::CAP_NET_RAW]));
        assert_eq!(capabilities(""), Some(Vec::new()));
        assert_eq!(capabilities("CAP_EVERYTHING"), None);
    }
}
