//! Capacities, times and sizes with units: the words of the files, with the right spelling for the wrong ones.

use std::fmt;

use super::{NotANumber, Rational};

/// Bytes of a quantity's text at most.
const MAX_TEXT: usize = 600;

/// A unit: its word and how many base units (B/s, s, B) it is, as p/q.
struct Word {
    word: &'static str,
    p: u64,
    q: u64,
}

const fn word(word: &'static str, p: u64, q: u64) -> Word {
    Word { word, p, q }
}

const CAPACITIES: &[Word] = &[
    word("B/s", 1, 1),
    word("kB/s", 1_000, 1),
    word("MB/s", 1_000_000, 1),
    word("GB/s", 1_000_000_000, 1),
    word("TB/s", 1_000_000_000_000, 1),
    word("KiB/s", 1 << 10, 1),
    word("MiB/s", 1 << 20, 1),
    word("GiB/s", 1 << 30, 1),
    word("bit/s", 1, 8),
    word("kbit/s", 125, 1),
    word("Mbit/s", 125_000, 1),
    word("Gbit/s", 125_000_000, 1),
    word("Tbit/s", 125_000_000_000, 1),
];
const TIMES: &[Word] = &[
    word("ns", 1, 1_000_000_000),
    word("us", 1, 1_000_000),
    word("ms", 1, 1_000),
    word("s", 1, 1),
    // The micro sign and the Greek letter.
    word("\u{b5}s", 1, 1_000_000),
    word("\u{3bc}s", 1, 1_000_000),
];
/// Units of time that no file has: an `m` there would be a slip for `ms`.
const LONG_TIMES: &[Word] = &[word("m", 60, 1), word("min", 60, 1), word("h", 3_600, 1), word("d", 86_400, 1)];
const SIZES: &[Word] = &[
    word("B", 1, 1),
    word("kB", 1_000, 1),
    word("MB", 1_000_000, 1),
    word("GB", 1_000_000_000, 1),
    word("TB", 1_000_000_000_000, 1),
    word("KiB", 1 << 10, 1),
    word("MiB", 1 << 20, 1),
    word("GiB", 1 << 30, 1),
    word("TiB", 1 << 40, 1),
];

/// A unit of capacity, such as `GB/s`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CapacityUnit(usize);

/// In what the numbers of a topology are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Without unit: an abstract graph.
    Abstract,
    /// Bytes per second, written in this unit.
    Bytes(CapacityUnit),
}

/// How much a link or a group carries: bytes per second, or abstract units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// No limit of its own.
    Unlimited,
    /// Bytes per second, or abstract units.
    Finite(Rational),
}

/// A quantity nobody can read: what may stand there, and the right spelling where the wrong one is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {what}; allowed: {allowed}")]
pub struct Misread {
    /// What it should be: `a capacity`.
    pub what: &'static str,
    /// What may stand there.
    pub allowed: &'static str,
    /// What to write instead, or empty.
    pub help: String,
}

const CAPACITY: Misread = Misread {
    what: "a capacity",
    allowed: "a decimal or a fraction p/q with B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, bit/s, kbit/s, Mbit/s, \
              Gbit/s or Tbit/s, or \"unlimited\"",
    help: String::new(),
};
const TIME: Misread =
    Misread { what: "a time", allowed: "a decimal or a fraction p/q with ns, us, ms or s", help: String::new() };
const DURATION: Misread = Misread {
    what: "a length of time",
    allowed: "a number with ns, us, ms, s, m, h or d, or a plain number of seconds",
    help: String::new(),
};
const SIZE: Misread = Misread {
    what: "a size",
    allowed: "a decimal or a fraction p/q with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, or a plain number of bytes",
    help: String::new(),
};

impl CapacityUnit {
    /// The unit with this word.
    pub fn parse(word: &str) -> Option<CapacityUnit> {
        CAPACITIES.iter().position(|unit| unit.word == word).map(CapacityUnit)
    }
    /// Its word as files have it: `GB/s`.
    pub fn word(self) -> &'static str {
        CAPACITIES[self.0].word
    }
    /// Bytes per second in one of it.
    pub fn bytes_per_second(self) -> Rational {
        scale(&CAPACITIES[self.0])
    }
}

impl fmt::Debug for CapacityUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Unit {
    /// A capacity in base units as a number of this unit.
    pub fn express(self, base: &Rational) -> Rational {
        match self {
            Unit::Abstract => base.clone(),
            Unit::Bytes(unit) => base / &unit.bytes_per_second(),
        }
    }
    /// A number of this unit in base units.
    pub fn base(self, number: &Rational) -> Rational {
        match self {
            Unit::Abstract => number.clone(),
            Unit::Bytes(unit) => number * &unit.bytes_per_second(),
        }
    }
    /// The capacity as a file writes it in this unit: `300GB/s`, `7/2GB/s`, `7/2`.
    pub fn write(self, capacity: &Capacity) -> String {
        match (capacity, self) {
            (Capacity::Unlimited, _) => "unlimited".into(),
            (Capacity::Finite(base), Unit::Abstract) => base.to_string(),
            (Capacity::Finite(base), Unit::Bytes(unit)) => format!("{}{}", self.express(base), unit.word()),
        }
    }
}

impl Capacity {
    /// Reads `300GB/s`, `7/2 GB/s`, `7/2`, `unlimited`: the capacity in base units and the unit it is given in, which
    /// is `None` for `unlimited`. The sign is not looked at: a file may close a link with zero.
    ///
    /// # Errors
    /// [`Misread`] with the right spelling where the wrong one is a known slip.
    pub fn parse(text: &str) -> Result<(Capacity, Option<Unit>), Misread> {
        if text == "unlimited" {
            return Ok((Capacity::Unlimited, None));
        }
        let (number, place) = read(text, &CAPACITY, CAPACITIES)?;
        let unit = place.map_or(Unit::Abstract, |place| Unit::Bytes(CapacityUnit(place)));
        Ok((Capacity::Finite(unit.base(&number)), Some(unit)))
    }
    /// The number in base units; `None`: no limit.
    pub fn finite(&self) -> Option<&Rational> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Finite(base) => Some(base),
        }
    }
    /// In bits per second, rounded half to even, at least 1 where there is any; `None`: no limit. Only for a capacity
    /// with a unit. A sum that 64 bits do not hold is their largest number; a file may not say as much of one link.
    pub fn bits_per_second(&self) -> Option<u64> {
        let base = self.finite()?;
        let bits = base.to_units(8).unwrap_or(u64::MAX);
        Some(if base.is_positive() { bits.max(1) } else { 0 })
    }
    /// The capacity of both together.
    pub fn plus(&self, other: &Capacity) -> Capacity {
        match (self, other) {
            (Capacity::Finite(a), Capacity::Finite(b)) => Capacity::Finite(a + b),
            _ => Capacity::Unlimited,
        }
    }
}

/// Reads a time in seconds; without a unit, which an abstract graph wants, the second part is false.
///
/// # Errors
/// [`Misread`].
pub fn latency(text: &str) -> Result<(Rational, bool), Misread> {
    let (number, place) = read(text, &TIME, TIMES)?;
    Ok((place.map_or_else(|| number.clone(), |place| &number * &scale(&TIMES[place])), place.is_some()))
}

/// Reads a length of time in seconds as people give it to a command: also in minutes, hours and days, also with blanks, an
/// exponent or no digit on one side of the point; a plain number is seconds. The sign is not looked at.
///
/// # Errors
/// [`Misread`].
pub fn duration(text: &str) -> Result<Rational, Misread> {
    let text = text.trim();
    let number = text.trim_end_matches(char::is_alphabetic);
    let scale = match text.strip_prefix(number).unwrap_or_default() {
        "" => Rational::ONE,
        unit => TIMES.iter().chain(LONG_TIMES).find(|word| word.word == unit).map(scale).ok_or(DURATION)?,
    };
    let number = number.trim_end();
    let number = number.strip_suffix('.').unwrap_or(number);
    let zero = if number.starts_with('.') { "0" } else { "" };
    Ok(&Rational::parse_setting(&format!("{zero}{number}")).map_err(|NotANumber| DURATION)? * &scale)
}

/// Reads a size in bytes; a plain number is bytes.
///
/// # Errors
/// [`Misread`] with the right spelling for `KB`, `mb` and the like.
pub fn size(text: &str) -> Result<Rational, Misread> {
    let (number, place) = read(text, &SIZE, SIZES)?;
    Ok(place.map_or_else(|| number.clone(), |place| &number * &scale(&SIZES[place])))
}

fn scale(word: &Word) -> Rational {
    Rational::new(word.p, word.q).unwrap_or(Rational::ONE)
}

/// The number, then the place of the unit among `words`, if there is one; one blank may stand between.
fn read(text: &str, kind: &Misread, words: &[Word]) -> Result<(Rational, Option<usize>), Misread> {
    if text.len() > MAX_TEXT {
        return Err(kind.clone());
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && !['.', '/', '-'].contains(&c)).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let value = Rational::parse(number).map_err(|NotANumber| {
        let mut misread = kind.clone();
        if !number.is_empty() && text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            misread.help = "write the number as 0.25, 12 or 7/2".into();
        }
        misread
    })?;
    match rest.strip_prefix(' ').unwrap_or(rest) {
        "" => Ok((value, None)),
        word => match words.iter().position(|unit| unit.word == word) {
            None => Err(misspelt(kind, words, word)),
            place => Ok((value, place)),
        },
    }
}

/// The error for an unknown unit, with the spelling that was probably meant.
fn misspelt(kind: &Misread, words: &[Word], found: &str) -> Misread {
    let mut misread = kind.clone();
    let meant = meant(found);
    if let Some(word) = words.iter().find(|word| meant.iter().any(|meant| meant == word.word)) {
        misread.help = match found {
            "KB" | "KB/s" => {
                let behind = word.word.strip_prefix('k').unwrap_or(word.word);
                format!("write `{}` for 1000 bytes or `Ki{behind}` for 1024", word.word)
            }
            _ => format!("write `{}`", word.word),
        };
    } else if found.starts_with(['e', 'E']) {
        misread.help = "exponents are not read: write the number out".into();
    }
    misread
}

/// Spellings seen in the wild: what they probably mean, as size, capacity or time.
fn meant(found: &str) -> Vec<String> {
    let plain: String = found.chars().filter(|c| !c.is_whitespace()).collect();
    let lower = plain.to_lowercase();
    let time = match lower.as_str() {
        "usec" | "microseconds" => Some("us"),
        "msec" | "milliseconds" => Some("ms"),
        "nsec" | "nanoseconds" => Some("ns"),
        "sec" | "seconds" | "second" => Some("s"),
        _ => None,
    };
    if let Some(time) = time {
        return vec![time.into()];
    }
    let per_second = lower.ends_with("/s") || lower.ends_with("ps") || lower.ends_with("/sec");
    let stem = lower.trim_end_matches("/sec").trim_end_matches("/s").trim_end_matches("ps");
    let stem = stem.trim_end_matches("bytes").trim_end_matches("byte").trim_end_matches("bits").trim_end_matches("bit");
    let stem = stem.trim_end_matches('b');
    let mut prefixes = ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].into_iter();
    let Some(prefix) = prefixes.find(|prefix| prefix.eq_ignore_ascii_case(stem)) else { return Vec::new() };
    // A small b is a bit where rates are meant; nobody means bits in a size.
    let bytes = plain.contains('B') || lower.contains("byte");
    let rate = format!("{prefix}{}/s", if bytes { "B" } else { "bit" });
    if per_second { vec![rate] } else { vec![format!("{prefix}B"), rate] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base(text: &str) -> String {
        match Capacity::parse(text).expect(text).0 {
            Capacity::Finite(base) => base.to_string(),
            Capacity::Unlimited => "unlimited".into(),
        }
    }

    #[test]
    fn capacities_become_bytes_per_second() {
        assert_eq!(base("300GB/s"), "300000000000");
        assert_eq!(base("7/2 GB/s"), "3500000000");
        assert_eq!(base("200Gbit/s"), "25000000000");
        assert_eq!(base("1bit/s"), "1/8");
        assert_eq!(base("0.5KiB/s"), "512");
        assert_eq!(base("7/2"), "7/2");
        assert_eq!(base("unlimited"), "unlimited");
        assert_eq!(Capacity::parse("7/2").unwrap().1, Some(Unit::Abstract));
    }

    #[test]
    fn they_are_shown_in_the_unit_of_the_input() {
        let (capacity, unit) = Capacity::parse("3.5 GB/s").unwrap();
        let unit = unit.unwrap();
        assert_eq!(unit.write(&capacity), "7/2GB/s");
        assert_eq!(unit.write(&Capacity::Unlimited), "unlimited");
        assert_eq!(unit.express(&Rational::from(1_000_000_000)), Rational::ONE);
    }

    #[test]
    fn times_and_sizes() {
        assert_eq!(latency("0.7us").unwrap(), (Rational::new(7, 10_000_000).unwrap(), true));
        assert_eq!(latency("3").unwrap(), (Rational::from(3), false));
        assert_eq!(size("4MiB").unwrap(), Rational::from(4 << 20));
        assert_eq!(size("25000").unwrap(), Rational::from(25_000));
        assert_eq!(size("1TB").unwrap(), Rational::from(1_000_000_000_000));
    }

    #[test]
    fn a_command_takes_times_as_people_write_them() {
        for (text, p, q) in [
            ("2", 2, 1),
            ("1.5m", 90, 1),
            ("5 min", 300, 1),
            (" .5h ", 1_800, 1),
            ("1.d", 86_400, 1),
            ("1/3 s", 1, 3),
            ("3µs", 3, 1_000_000),
            ("1e1", 10, 1),
        ] {
            assert_eq!(duration(text), Ok(Rational::new(p, q).expect("not over zero")), "{text}");
        }
        for text in ["", "s", ".", "1y", "1 s s", "1..2s", "5M", "nan", "inf"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(latency("5m").is_err() && latency("5h").is_err(), "files do not have them");
    }

    #[test]
    fn a_wrong_spelling_gets_the_right_one() {
        let help = |text: &str| Capacity::parse(text).expect_err(text).help;
        assert_eq!(help("25Gbps"), "write `Gbit/s`");
        assert_eq!(help("25 Gb/s"), "write `Gbit/s`");
        assert_eq!(help("25GBps"), "write `GB/s`");
        assert_eq!(help("25gbit/s"), "write `Gbit/s`");
        assert_eq!(help("1KB/s"), "write `kB/s` for 1000 bytes or `KiB/s` for 1024");
        assert_eq!(help("1e9B/s"), "exponents are not read: write the number out");
        assert_eq!(help("25Gbit"), "write `Gbit/s`");
        assert_eq!(help(".5GB/s"), "write the number as 0.25, 12 or 7/2");
        assert_eq!(size("1KB").expect_err("KB").help, "write `kB` for 1000 bytes or `KiB` for 1024");
        assert_eq!(size("1mb").expect_err("mb").help, "write `MB`");
        assert_eq!(size("3 megaparsec").expect_err("no").help, "");
        assert_eq!(latency("3usec").expect_err("usec").help, "write `us`");
        assert_eq!([latency("3µs"), latency("3μs")], [latency("3us"), latency("3us")]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "GB/s", "1/0GB/s", "nan", "inf", "--1GB/s", "1  GB/s", "1GB/s ", "0x1GB/s", &"1".repeat(1000)]
        {
            assert!(Capacity::parse(text).is_err(), "{text}");
            assert!(latency(text).is_err(), "{text}");
            assert!(size(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(p in 0_i64..=i64::MAX, q in 1_i64..=1_000_000, at in 0_usize..13) {
            let unit = Unit::Bytes(CapacityUnit(at));
            let capacity = Capacity::Finite(Rational::new(p, q).unwrap());
            prop_assert_eq!(Capacity::parse(&unit.write(&capacity)), Ok((capacity, Some(unit))));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9./]{0,5} ?[a-zA-Zµ/]{0,7}|.{0,20}") {
            let _ = (Capacity::parse(&text), latency(&text), duration(&text), size(&text));
        }
    }
}
