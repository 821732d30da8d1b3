//! Lengths of time as people write them: `500ms`, `60s`, `10m`, `2h`.

use sluice_formats::quantity;
use sluice_schedule::Nanos;

/// Longest time that is taken: a year.
const LONGEST: Nanos = Nanos(366 * 86_400 * 1_000_000_000);

/// Reads a length of time; a bare number is seconds.
///
/// # Errors
/// A sentence with the value seen and what is allowed.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("`{text}` is not a length of time; write a number with ms, s, m, h or d, for example 60s");
    let seconds = quantity::duration(text).ok().filter(|seconds| !seconds.is_negative()).ok_or_else(wrong)?;
    let time = seconds.to_units(1_000_000_000).map(Nanos).filter(|time| *time <= LONGEST);
    time.ok_or_else(|| format!("`{text}` is too long; at most 366d is taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings() {
        for (text, ns) in
            [("500ms", 500_000_000), ("60s", 60_000_000_000), (" 2 s ", 2_000_000_000), (".5m", 30_000_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Nanos(ns)));
        }
        for wrong in ["", "s", "-1s", "1y", "1 s s", "1e9", "9999999d", "1..2s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
