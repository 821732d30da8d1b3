//! Numbers and words for people. What is not known is `-`.

use sluice_schedule::{Bytes, Nanos, Rate};

pub const UNKNOWN: &str = "-";

/// `1.25 Gbit/s`.
pub fn rate(bps: Option<u64>) -> String {
    bps.map_or(UNKNOWN.into(), |bps| Rate(bps).to_string())
}

/// `210 MB`.
pub fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or(UNKNOWN.into(), |bytes| Bytes(bytes).to_string())
}

/// `412 ms`.
pub fn time(ns: Option<u64>) -> String {
    ns.map_or(UNKNOWN.into(), |ns| Nanos(ns).to_string())
}

/// `62 %`, one digit below 10 %, two from 99 % on (where they are the point).
pub fn percent(ratio: Option<f64>) -> String {
    match ratio.map(|ratio| ratio * 100.0) {
        None => UNKNOWN.into(),
        Some(p) if !p.is_finite() => UNKNOWN.into(),
        Some(p) if p > 99.0 && p < 100.0 => format!("{p:.2} %"),
        Some(p) if p != 0.0 && p.abs() < 10.0 => format!("{p:.1} %"),
        Some(p) => format!("{p:.0} %"),
    }
}

/// `29 170 451`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// `3 d 4 h`, `4 h 12 min`, `12 min`, `41 s`.
pub fn age(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        s if s >= 86_400 => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
        s if s >= 3600 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        s if s >= 60 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// One character per ratio: `▇▇▆▅▂▁` (0 is a blank, above 1 is `!`).
pub fn strip(ratios: impl Iterator<Item = f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |ratio: f64| match ratio {
        r if r.is_nan() || r <= 0.0 => '·',
        r if r > 1.005 => '!',
        r => BARS.get(((r * 8.0).ceil() as usize).clamp(1, 8) - 1).copied().unwrap_or('█'),
    };
    ratios.map(bar).collect()
}

/// Rates of the next slots in Gbit/s, at most `most`: `1.2 1.2 0.4 0 …`.
pub fn next_gbps(rates: &[u64], most: usize) -> String {
    let one = |bps: &u64| match *bps as f64 / 1e9 {
        0.0 => "0".to_owned(),
        g if g < 9.95 => format!("{g:.1}"),
        g => format!("{g:.0}"),
    };
    let shown: Vec<String> = rates.iter().take(most).map(one).collect();
    match (shown.is_empty(), rates.len() > most) {
        (true, _) => UNKNOWN.into(),
        (false, true) => format!("{} …", shown.join(" ")),
        (false, false) => shown.join(" "),
    }
}

/// The text, or `-` if it is empty.
pub fn word(text: &str) -> String {
    if text.is_empty() { UNKNOWN.into() } else { text.to_owned() }
}

/// `0x1a3`: a flow id without its leading zeros.
pub fn flow_id(id: &str) -> String {
    let short = id.trim_start_matches('0');
    format!("0x{}", if short.is_empty() { "0" } else { short })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(29_170_451), "29 170 451");
        assert_eq!(grouped(999), "999");
        assert_eq!(percent(Some(0.62)), "62 %");
        assert_eq!(percent(Some(0.9998)), "99.98 %");
        assert_eq!(percent(Some(0.008)), "0.8 %");
        assert_eq!(percent(None), "-");
        assert_eq!(age(273_600_000_000_000), "3 d 4 h");
        assert_eq!(next_gbps(&[1_250_000_000, 0, 25_000_000_000], 2), "1.2 0 …");
        assert_eq!(strip([0.0, 0.1, 1.0, 1.2].into_iter()), "·▁█!");
        assert_eq!(flow_id("00000000000001a3"), "0x1a3");
    }
}
