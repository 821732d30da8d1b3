//! What the results of planners have in common: what they begin and end with, and numbers for people.

use serde::Serialize;
use serde_json::Value;
use sluice_formats::json::Writer;
use sluice_plan::plan::{Claim, Collective, Names};

use crate::failure::Failure;

/// What every result has, under its fixed names.
#[derive(Debug, Serialize)]
pub struct Head {
    schema: u32,
    planner: &'static str,
    pub collective: &'static str,
    claim: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
}

impl Head {
    /// `claim` is that of the plan, with the names of its nodes where it has any; `out` is where the plan was written.
    pub fn new(
        planner: &'static str,
        collective: Collective,
        claim: (&Claim, Option<&Names>),
        out: Option<String>,
    ) -> Result<Head, Failure> {
        let claim = serde_json::from_str(&Writer::compact(claim.0, claim.1)).map_err(Failure::failed)?;
        Ok(Head { schema: 1, planner, collective: collective.word(), claim, out })
    }

    /// The last lines for people: what was ignored, how long planning took, where the plan is.
    pub fn closing(&self, ignored: &str, took: f64) -> String {
        let wrote = self.out.clone().unwrap_or_default();
        let lines = [("ignored", ignored.to_owned()), ("took", seconds(took)), ("wrote", wrote)];
        let said = lines.into_iter().filter(|(_, said)| !said.is_empty());
        said.map(|(what, said)| format!("  {what:<12} {said}\n")).collect()
    }
}

/// Six digits, no zeros behind.
pub fn short(number: f64) -> String {
    let digits = (5 - number.abs().max(1.0).log10() as i32).clamp(0, 6) as usize;
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `2.885 ms`.
pub fn seconds(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 => (1e6, "us"),
        _ => (1e9, "ns"),
    };
    format!("{:.3} {unit}", seconds * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(short(1040.0 / 3.0), "346.667");
        assert_eq!(short(200.0), "200");
        assert_eq!(short(1.25), "1.25");
        assert_eq!(short(0.015), "0.015");
        assert_eq!(short(5_312_000.75), "5312001");
        assert_eq!(seconds(0.002_884_6), "2.885 ms");
        assert_eq!(seconds(3.0), "3.000 s");
        assert_eq!(seconds(4.2e-8), "42.000 ns");
    }
}
