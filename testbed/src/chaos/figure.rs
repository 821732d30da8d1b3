//! What a row measured, held against its bars: pure.

use serde::Serialize;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Milliseconds; bars of these are widened on a machine whose timers are late.
    #[serde(rename = "ms")]
    Ms,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Part of something.
    #[serde(rename = "ratio")]
    Ratio,
    /// Things.
    #[serde(rename = "count")]
    Count,
    /// Payload Mbit/s.
    #[serde(rename = "Mbit/s")]
    Mbps,
    /// Memory.
    #[serde(rename = "MiB")]
    Mib,
    /// Memory gained per hour.
    #[serde(rename = "MiB/h")]
    MibPerHour,
    /// Processor time.
    #[serde(rename = "us")]
    Us,
}

impl Unit {
    /// As it stands behind a number.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Ms => " ms",
            Unit::Seconds => " s",
            Unit::Ratio | Unit::Count => "",
            Unit::Mbps => " Mbit/s",
            Unit::Mib => " MiB",
            Unit::MibPerHour => " MiB/h",
            Unit::Us => " µs",
        }
    }
}

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// This.
    Exactly(f64),
    /// It is shown and promises nothing.
    Shown,
}

/// One figure of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured, where.
    pub what: String,
    /// What it was.
    pub seen: f64,
    /// In what.
    pub unit: Unit,
    /// What it must be, before any widening.
    pub bar: Bar,
    /// Whatever else belongs to it: a line of a log, what something was refused with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Figure {
    fn new(what: impl Into<String>, seen: f64, unit: Unit, bar: Bar) -> Figure {
        Figure { what: what.into(), seen, unit, bar, note: String::new() }
    }

    /// With an upper bar.
    pub fn at_most(what: impl Into<String>, seen: f64, unit: Unit, bar: f64) -> Figure {
        Figure::new(what, seen, unit, Bar::AtMost(bar))
    }

    /// With a lower bar.
    pub fn at_least(what: impl Into<String>, seen: f64, unit: Unit, bar: f64) -> Figure {
        Figure::new(what, seen, unit, Bar::AtLeast(bar))
    }

    /// A count that must be this one.
    pub fn exactly(what: impl Into<String>, seen: usize, bar: usize) -> Figure {
        Figure::new(what, seen as f64, Unit::Count, Bar::Exactly(bar as f64))
    }

    /// Something that must be so; 1 or 0.
    pub fn holds(what: impl Into<String>, seen: bool) -> Figure {
        Figure::new(what, f64::from(u8::from(seen)), Unit::Count, Bar::Exactly(1.0))
    }

    /// Without a bar.
    pub fn shown(what: impl Into<String>, seen: f64, unit: Unit) -> Figure {
        Figure::new(what, seen, unit, Bar::Shown)
    }

    /// With a note.
    pub fn noted(self, note: impl Into<String>) -> Figure {
        Figure { note: note.into(), ..self }
    }

    /// Is it as it must be, where times may be later by so much?
    pub fn passes(&self, slack_ms: f64) -> bool {
        let slack = if self.unit == Unit::Ms { slack_ms } else { 0.0 };
        match self.bar {
            Bar::AtMost(bar) => self.seen <= bar + slack,
            Bar::AtLeast(bar) => self.seen >= bar - slack,
            Bar::Exactly(bar) => (self.seen - bar).abs() <= f64::EPSILON,
            Bar::Shown => self.seen.is_finite(),
        }
    }

    /// The bar as people read it.
    pub fn bar_text(&self) -> String {
        let unit = self.unit.word();
        match self.bar {
            Bar::AtMost(bar) => format!("≤ {}{unit}", short(bar)),
            Bar::AtLeast(bar) => format!("≥ {}{unit}", short(bar)),
            Bar::Exactly(bar) => format!("{}{unit}", short(bar)),
            Bar::Shown => "shown".into(),
        }
    }

    /// The value as people read it.
    pub fn seen_text(&self) -> String {
        format!("{}{}", short(self.seen), self.unit.word())
    }
}

/// A number with three digits or so that matter.
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v == 0.0 || v.fract() == 0.0 && v < 1e15 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All figures are within their bars.
    Passed,
    /// One is not.
    Failed,
    /// Something that the row needs did not work.
    Broken,
    /// This machine lacks something, or nobody gave it: not a pass.
    NotRun,
    /// Timers were too late in three tries: not a pass.
    TooBusy,
}

impl Verdict {
    /// For tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "pass",
            Verdict::Failed => "FAIL",
            Verdict::Broken => "BROKEN",
            Verdict::NotRun => "not run",
            Verdict::TooBusy => "machine too busy",
        }
    }
}

/// One row, run: what is printed as one line of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// `chaos`, for whoever reads lines of several suites.
    pub suite: &'static str,
    /// The row, as `C5`.
    pub row: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// The same as a word that scripts ask for.
    pub pass: bool,
    /// Everything that was measured.
    pub figures: Vec<Figure>,
    /// What was left behind; must be empty.
    pub leaks: Vec<String>,
    /// Why it was not run, or what broke.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// How long the try that counts took.
    pub seconds: f64,
    /// Tries, the last of which counts.
    pub tries: usize,
    /// Of the choices that are drawn.
    pub seed: u64,
    /// Timers' lateness while it ran, p99, ms.
    pub lateness_p99_ms: f64,
    /// By how much bars in milliseconds were widened for that; 0: not at all.
    pub widened_ms: f64,
    /// The machine's load over a minute when it ended.
    pub load: f64,
}

impl Outcome {
    /// Lines for people.
    pub fn table(&self) -> String {
        let mut text = format!("{} {} ({:.0} s, load {:.1})\n", self.row, self.verdict.word(), self.seconds, self.load);
        for figure in &self.figures {
            let mark = if figure.passes(self.widened_ms) { " " } else { "!" };
            let note = if figure.note.is_empty() { String::new() } else { format!("  ({})", figure.note) };
            text += &format!("  {mark} {:<72} {:>14}  {}{note}\n", figure.what, figure.seen_text(), figure.bar_text());
        }
        if self.widened_ms > 0.0 {
            text += &format!("    timers were late by {:.0} ms (p99): bars in ms are wider by that\n", self.widened_ms);
        }
        for leak in &self.leaks {
            text += &format!("  ! left behind: {leak}\n");
        }
        if !self.why.is_empty() {
            text += &format!("    {}\n", self.why);
        }
        text
    }
}

/// The value below which this part of them lies; 0 of none. Sorts them.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * part).ceil() as usize).saturating_sub(1);
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// The value that `of` chooses of all, the least or the largest. NaN, which is within no bar, where one was not
/// measured and where there are none.
pub fn worst(values: impl IntoIterator<Item = f64>, of: fn(f64, f64) -> f64) -> f64 {
    let known = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { of(a, b) };
    values.into_iter().reduce(known).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_are_widened() {
        let time = Figure::at_most("silence", 260.0, Unit::Ms, 250.0);
        assert!(!time.passes(0.0) && time.passes(30.0));
        let part = Figure::at_most("overshoot", 0.2, Unit::Ratio, 0.1);
        assert!(!part.passes(30.0));
        assert!(Figure::exactly("left", 0, 0).passes(0.0) && !Figure::exactly("left", 1, 0).passes(1e9));
        assert!(Figure::at_least("rate", 5.0, Unit::Mbps, 5.0).passes(0.0));
        assert!(!Figure::shown("nothing was measured", f64::NAN, Unit::Ms).passes(0.0));
        assert!(!Figure::at_most("nothing was measured", f64::NAN, Unit::Ms, 1.0).passes(0.0));
    }

    #[test]
    fn numbers_are_short_and_quantiles_are_of_the_values() {
        let texts: Vec<String> = [0.0, 3.0, 250.0, 0.12345, 12.345, 1.2345, 1234.5].map(short).into();
        assert_eq!(texts, ["0", "3", "250", "0.123", "12.3", "1.23", "1234"]);
        let mut values = [3.0, 1.0, 2.0, 4.0];
        assert_eq!((quantile(&mut values, 0.5), quantile(&mut values, 1.0)), (2.0, 4.0));
        assert_eq!((quantile(&mut values, 0.99), quantile(&mut [], 0.5)), (4.0, 0.0));
        assert_eq!((worst(values, f64::min), worst(values, f64::max)), (1.0, 4.0));
        assert!(worst([], f64::max).is_nan());
        assert!([[1.0, f64::NAN], [f64::NAN, 1.0]].iter().all(|two| worst(*two, f64::max).is_nan()));
    }
}
