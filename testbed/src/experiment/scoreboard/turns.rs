//! Which runs a scoreboard wants, in which order, and how long those that are missing will take.

use std::fmt;
use std::time::Duration;

use sluice_report::scoreboard::{Load, Record};

/// One run of a scoreboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) case: String,
    pub(super) load: Load,
    pub(super) policy: String,
    /// From 1.
    pub(super) turn: usize,
}

impl Key {
    /// Its file's name without the extension.
    pub(super) fn file_stem(&self) -> String {
        let policy = self.policy.replace([':', '@'], "-");
        format!("{}.{}.{policy}.{}", self.case, self.load, self.turn)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, turn {}, {}", self.case, self.load, self.turn, self.policy)
    }
}

/// How long a run took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spent {
    case: String,
    seconds: f64,
}

impl Spent {
    pub(super) fn of(record: &Record) -> Spent {
        Spent { case: record.case.clone(), seconds: record.seconds }
    }
}

/// Turn after turn through all cases, so that an early table has all of them. The policies of a turn run one after the
/// other; each turn another one begins, so that none has always the machine that another has left.
pub(super) fn turns(cases: &[(&str, &[Load])], policies: &[String], pairs: usize) -> Vec<Key> {
    let mut keys = Vec::new();
    for turn in 1..=pairs {
        for (case, loads) in cases {
            for load in *loads {
                let rotated = policies.iter().cycle().skip(turn - 1).take(policies.len());
                let key = |policy: &String| Key { case: (*case).to_owned(), load: *load, policy: policy.clone(), turn };
                keys.extend(rotated.map(key));
            }
        }
    }
    keys
}

/// The time of what is missing: each run takes the mean of its case's runs, or of all where the case has none. `None`
/// before the first run is over.
pub(super) fn left(spent: &[Spent], missing: &[Key]) -> Option<Duration> {
    let mean = |of: &dyn Fn(&&Spent) -> bool| {
        let seconds: Vec<f64> = spent.iter().filter(of).map(|s| s.seconds).collect();
        (!seconds.is_empty()).then(|| sluice_report::stats::mean(&seconds))
    };
    let all = mean(&|_| true)?;
    let seconds: f64 = missing.iter().map(|key| mean(&|s| s.case == key.case).unwrap_or(all)).sum();
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_has_every_run_and_another_policy_begins() {
        let loads: [&[Load]; 2] = [&[Load::Quiet, Load::Busy], &[Load::Quiet]];
        let policies = ["a", "b", "c"].map(str::to_owned);
        let keys = turns(&[("x", loads[0]), ("y", loads[1])], &policies, 4);
        assert_eq!(keys.len(), 4 * 3 * 3);
        let mut stems: Vec<String> = keys.iter().map(Key::file_stem).collect();
        stems.sort_unstable();
        stems.dedup();
        assert_eq!(stems.len(), keys.len(), "each has a file of its own");
        let begins = |turn: usize| keys.iter().find(|k| k.turn == turn).map(|k| k.policy.as_str());
        assert_eq!([1, 2, 3, 4].map(begins), [Some("a"), Some("b"), Some("c"), Some("a")]);
        // The runs of a pair follow each other.
        for pair in keys.chunks(3) {
            assert!(pair.iter().all(|k| (&k.case, k.load, k.turn) == (&pair[0].case, pair[0].load, pair[0].turn)));
        }
        assert!(turns(&[("x", loads[1])], &[], 3).is_empty());
    }

    #[test]
    fn time_left_is_that_of_the_case_where_it_is_known() {
        let spent = |case: &str, seconds| Spent { case: case.into(), seconds };
        let key = |case: &str| Key { case: case.into(), load: Load::Quiet, policy: "a".into(), turn: 1 };
        assert_eq!(left(&[], &[key("x")]), None);
        let done = [spent("x", 10.0), spent("x", 20.0), spent("y", 60.0)];
        assert_eq!(left(&done, &[key("x"), key("x"), key("z")]), Some(Duration::from_secs(15 + 15 + 30)));
        assert_eq!(left(&done, &[]), Some(Duration::ZERO));
    }
}
