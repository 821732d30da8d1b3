//! Lengths of time as people write them: `500ms`, `60s`, `10m`, `2h`.

use sluice_schedule::Nanos;

/// Longest time that is taken: a year.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Reads a length of time; a bare number is seconds.
///
/// # Errors
/// A sentence with the value seen and what is allowed.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("`{text}` is not a length of time; write a number with ms, s, m, h or d, for example 60s");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let scale = match unit.trim() {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * scale;
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(format!("`{text}` is too long; at most 366d is taken"));
    }
    Ok(Nanos((seconds * 1e9).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_spellings() {
        for (text, ns) in
            [("500ms", 500_000_000), ("60s", 60_000_000_000), ("2", 2_000_000_000), ("1.5m", 90_000_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Nanos(ns)));
        }
        for wrong in ["", "s", "-1s", "1y", "1 s s", "1e9", "9999999d", "1..2s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = parse_duration(&text);
        }
    }
}
