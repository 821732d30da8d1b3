//! Numbers with units, as benchmarks print them: read, compared with a bar, summed up over repeats.

use std::fmt;

/// Times by unit, in seconds.
const TIMES: [(&str, f64); 4] = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// A number and its unit. Times are seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    value: f64,
    unit: String,
}

impl Quantity {
    pub(crate) fn seconds(value: f64) -> Quantity {
        Quantity { value, unit: "s".to_owned() }
    }

    /// The first number in a text, with the word behind it as its unit: `102.34ms`, `25.2 µs, p99`, `93.8 %`.
    pub(crate) fn first(text: &str) -> Option<Quantity> {
        let begin = text.find(|c: char| c.is_ascii_digit())?;
        let sign = text.get(..begin)?.ends_with(['-', '−']);
        let rest = text.get(begin..)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let value: f64 = rest.get(..end)?.trim_end_matches('.').parse().ok()?;
        let word = rest.get(end..)?;
        let word = word.strip_prefix(' ').unwrap_or(word);
        let unit: String = word.chars().take_while(|c| c.is_alphabetic() || *c == '/' || *c == '%').collect();
        Some(Quantity { value: if sign { -value } else { value }, unit: String::new() }.or_in(&unit))
    }

    /// In this unit, if it has none.
    pub(crate) fn or_in(self, unit: &str) -> Quantity {
        match TIMES.iter().find(|(name, _)| *name == unit) {
            _ if !self.unit.is_empty() => self,
            Some((_, seconds)) => Quantity::seconds(self.value * seconds),
            None => Quantity { value: self.value, unit: unit.to_owned() },
        }
    }

    /// True when the bar is `≤` or `≥` a quantity of this unit and this is on the wrong side of it.
    pub(crate) fn misses(&self, bar: &str) -> bool {
        let limit = |sign: char| bar.strip_prefix(sign).and_then(Quantity::first).filter(|q| q.unit == self.unit);
        // 60 · 1e-6 is not 60e-6 to the last bit.
        let above = |a: f64, b: f64| a - b > 1e-9 * b.abs();
        limit('≤').is_some_and(|most| above(self.value, most.value))
            || limit('≥').is_some_and(|least| above(least.value, self.value))
    }

    /// The median of several runs, and how far they lie apart.
    pub(crate) fn summary(mut runs: Vec<Quantity>) -> Result<(Quantity, String), String> {
        runs.sort_by(|a, b| a.value.total_cmp(&b.value));
        let (Some(least), Some(middle), Some(most)) = (runs.first(), runs.get(runs.len() / 2), runs.last()) else {
            return Err("nothing was measured".to_owned());
        };
        if runs.iter().any(|run| run.unit != middle.unit) {
            return Err(format!("units differ between runs: {runs:?}"));
        }
        let spread = match runs.len() {
            1 => "one run".to_owned(),
            n if least == most => format!("the same in {n} runs"),
            n => format!("{least} to {most} in {n} runs"),
        };
        Ok((middle.clone(), spread))
    }
}

impl fmt::Display for Quantity {
    /// Four digits that count, without zeros at the end; times in the unit that suits them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = if self.unit == "s" {
            let fits = TIMES.iter().rev().find(|(_, seconds)| self.value.abs() >= *seconds).unwrap_or(&TIMES[0]);
            (self.value / fits.1, fits.0)
        } else {
            (self.value, self.unit.as_str())
        };
        let digits = match value.abs() {
            v if v >= 1000.0 => 0,
            v if v >= 100.0 => 1,
            v if v >= 10.0 => 2,
            _ => 3,
        };
        let shown = format!("{value:.digits$}");
        let shown = if digits > 0 { shown.trim_end_matches('0').trim_end_matches('.') } else { &shown };
        write!(f, "{shown}{}{unit}", if unit.is_empty() { "" } else { " " })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        Quantity::first(text).map_or_else(|| "nothing".to_owned(), |q| q.to_string())
    }

    #[test]
    fn the_first_number_is_read_with_its_unit() {
        for (text, is) in [
            (" in 102.34ms", "102.3 ms"),
            (" 25.2 µs, p99 3 µs", "25.2 µs"),
            ("  4.138 s     3.6 s", "4.138 s"),
            (": 93.8 % of", "93.8 %"),
            (" −4.25 %", "-4.25 %"),
            ("0.999 s", "999 ms"),
            (" 12.", "12"),
            (" 1500 events", "1500 events"),
            ("none", "nothing"),
            ("1.2.3", "nothing"),
        ] {
            assert_eq!(read(text), is, "{text}");
        }
    }

    #[test]
    fn a_bar_is_missed_on_its_wrong_side_only() {
        let value = Quantity::seconds(60e-6);
        assert!(value.misses("≤ 50 µs") && value.misses("≥ 1 ms"));
        for bar in ["≤ 60 µs", "≤ 1 s", "≥ 10 ns", "", "the build before 50 µs", "≤ 50 %"] {
            assert!(!value.misses(bar), "{bar}");
        }
    }

    #[test]
    fn runs_become_their_median_and_how_far_they_lie_apart() {
        let runs = [3.0, 1.0, 2.0].map(Quantity::seconds).to_vec();
        assert_eq!(Quantity::summary(runs), Ok((Quantity::seconds(2.0), "1 s to 3 s in 3 runs".into())));
        assert_eq!(Quantity::summary(vec![Quantity::seconds(2.0)]), Ok((Quantity::seconds(2.0), "one run".into())));
        let same = [2.0, 2.0].map(Quantity::seconds).to_vec();
        assert_eq!(Quantity::summary(same), Ok((Quantity::seconds(2.0), "the same in 2 runs".into())));
        assert!(Quantity::summary(Vec::new()).is_err());
        let mixed = ["1 s", "2 %"].map(|text| Quantity::first(text).expect("a quantity")).to_vec();
        assert!(Quantity::summary(mixed).is_err());
    }
}
