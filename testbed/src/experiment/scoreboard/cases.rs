//! The cases of the scoreboard by name: a scenario, keys with other values, and the loads it is looked at under.

use std::path::{Path, PathBuf};

use sluice_report::scoreboard::Load;
use sluice_scenario::Set;

use super::ScoreboardError;

/// No cross traffic before a day has passed: none at all.
const ALONE: (&str, &str) = ("cross_traffic.start_s", "86400");
/// Two cards of half the rate each.
const RAILS: [(&str, &str); 2] = [("network.rails", "2"), ("network.gbps", "12.5")];

/// A case as the list has it.
struct Known {
    name: &'static str,
    scenario: &'static str,
    sets: &'static [(&'static str, &'static str)],
    loads: &'static [Load],
}

const KNOWN: [Known; 9] = [
    Known { name: "demo", scenario: "demo", sets: &[], loads: &[Load::Quiet, Load::Busy] },
    Known { name: "demo-alone", scenario: "demo", sets: &[ALONE], loads: &[Load::Quiet] },
    Known { name: "demo-rails", scenario: "demo", sets: &RAILS, loads: &[Load::Quiet] },
    Known { name: "testbed-6-25g", scenario: "testbed-6-25g", sets: &[], loads: &[Load::Quiet] },
    Known { name: "testbed-6-25g-alone", scenario: "testbed-6-25g", sets: &[ALONE], loads: &[Load::Quiet] },
    Known { name: "testbed-6-10g", scenario: "testbed-6-10g", sets: &[], loads: &[Load::Quiet] },
    Known { name: "testbed-6-25g-nic", scenario: "testbed-6-25g-nic", sets: &[], loads: &[Load::Quiet] },
    Known { name: "leaf-spine-12", scenario: "leaf-spine-12", sets: &[], loads: &[Load::Quiet] },
    Known { name: "two-rings", scenario: "two-rings", sets: &[], loads: &[Load::Quiet] },
];

/// A case that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) sets: Vec<Set>,
    loads: Vec<Load>,
}

impl Case {
    /// The loads that were asked for; where none were, its own.
    pub(super) fn loads(&self, asked: &[Load]) -> Vec<Load> {
        let mut loads = if asked.is_empty() { self.loads.clone() } else { asked.to_vec() };
        loads.sort_unstable();
        loads.dedup();
        loads
    }
}

/// Names of all cases.
pub(super) fn names() -> Vec<String> {
    KNOWN.iter().map(|known| known.name.to_owned()).collect()
}

/// The cases of these names, each once; all of them where there is no name.
pub(super) fn chosen(asked: &[String], scenarios: &Path) -> Result<Vec<Case>, ScoreboardError> {
    let all = names();
    let mut cases: Vec<Case> = Vec::new();
    for name in if asked.is_empty() { &all } else { asked } {
        let case = case(name, scenarios)?;
        if !cases.iter().any(|other| other.name == case.name) {
            cases.push(case);
        }
    }
    Ok(cases)
}

fn case(name: &str, scenarios: &Path) -> Result<Case, ScoreboardError> {
    if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
        let sets = known.sets.iter().map(|(key, value)| Set { key: (*key).to_owned(), value: (*value).to_owned() });
        let file = scenarios.join(format!("{}.toml", known.scenario));
        return Ok(Case { name: name.to_owned(), file, sets: sets.collect(), loads: known.loads.to_vec() });
    }
    let file = PathBuf::from(name);
    let is_scenario = file.extension().is_some_and(|ext| ext == "toml" || ext == "json");
    // Dots divide the parts of a record's file name.
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().replace('.', "-"));
    match stem {
        Some(stem) if is_scenario => Ok(Case { name: stem, file, sets: Vec::new(), loads: vec![Load::Quiet] }),
        _ => Err(ScoreboardError::Case { seen: name.to_owned(), allowed: names().join(", ") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::scoreboard::Ready;

    fn scenarios() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
    }

    #[test]
    fn every_case_runs_on_the_testbed_and_has_unmanaged_traffic_as_its_name_says() {
        let cases = chosen(&[], &scenarios()).expect("all cases");
        assert_eq!(cases.len(), KNOWN.len());
        for case in cases {
            let ready = Ready::of(case).expect("a scenario that runs");
            let name = &ready.case.name;
            let alone = name.ends_with("-alone") || name == "leaf-spine-12" || name == "two-rings";
            assert_eq!(ready.unmanaged(), !alone, "{name}");
            assert_eq!(ready.plan.fabric.rails, if name == "demo-rails" { 2 } else { 1 }, "{name}");
            let nic = ready.policy(&"sluice".parse().expect("a policy"));
            assert_eq!(nic.to_string(), if name.ends_with("-nic") { "sluice@nic" } else { "sluice" });
        }
    }

    #[test]
    fn without_cross_traffic_the_jobs_are_the_same() {
        let [with, without] = ["demo", "demo-alone"].map(|name| {
            let case = case(name, &scenarios()).expect("a case");
            Ready::of(case).expect("a scenario").scenario
        });
        assert_eq!(with.jobs, without.jobs);
    }

    #[test]
    fn a_file_is_a_case_and_another_word_is_none() {
        let cases = chosen(&["x/my.own.toml".into(), "demo".into(), "demo".into()], Path::new("dir")).expect("cases");
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["my-own", "demo"]);
        assert_eq!(cases[1].file, Path::new("dir/demo.toml"));
        assert_eq!(cases[1].loads(&[]), [Load::Quiet, Load::Busy]);
        assert_eq!(cases[1].loads(&[Load::Busy, Load::Busy]), [Load::Busy]);
        let said = chosen(&["demos".into()], Path::new("dir")).expect_err("no case").to_string();
        assert!(said.contains("\"demos\"") && said.contains("two-rings"), "{said}");
    }
}
