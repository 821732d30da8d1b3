//! Schedulers side by side on the same jobs: "x is so many per cent lower than y", refused when the jobs differ.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use thiserror::Error;

use crate::stats::{mean, percentile};

/// The completion times of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// The scheduler as it was asked for.
    pub policy: String,
    /// Seconds from arrival to end, by job id; jobs that did not end are left out.
    pub jct_s: BTreeMap<String, f64>,
    /// Name and seed of the scenario; jobs of different ones may have the same ids and be different jobs.
    pub from: Option<(String, u64)>,
}

/// A result as JSON, as far as a comparison needs it: a file of one run, or the document of several.
#[derive(Deserialize)]
struct Read {
    scenario: String,
    seed: u64,
    result: Option<ReadRun>,
    runs: Option<Vec<ReadRun>>,
}

#[derive(Deserialize)]
struct ReadRun {
    policy: String,
    jobs: Vec<ReadJob>,
}

#[derive(Deserialize)]
struct ReadJob {
    id: String,
    jct_s: f64,
}

impl Side {
    /// The runs in a result that was written earlier. Repeats of one policy become means per job.
    ///
    /// # Errors
    /// [`CompareError::Read`] for what is no result.
    pub fn read(bytes: &[u8]) -> Result<Vec<Side>, CompareError> {
        let read: Read = serde_json::from_slice(bytes).map_err(|e| CompareError::Read(e.to_string()))?;
        let runs: Vec<ReadRun> = read.result.into_iter().chain(read.runs.into_iter().flatten()).collect();
        if runs.is_empty() {
            return Err(CompareError::Read("it has neither result nor runs".into()));
        }
        let mut sides: Vec<(Side, BTreeMap<String, f64>)> = Vec::new();
        for run in runs {
            let mut mine = BTreeMap::new();
            for job in run.jobs {
                if !(job.jct_s.is_finite() && job.jct_s >= 0.0) {
                    return Err(CompareError::Read(format!("job {:?}: jct_s is {}, not a time", job.id, job.jct_s)));
                }
                if let Some(twice) = mine.insert(job.id.clone(), job.jct_s).map(|_| job.id) {
                    return Err(CompareError::Read(format!("job {twice:?} stands twice in {}", run.policy)));
                }
            }
            match sides.iter_mut().find(|(side, _)| side.policy == run.policy) {
                None => {
                    let ones = mine.keys().map(|id| (id.clone(), 1.0)).collect();
                    let from = Some((read.scenario.clone(), read.seed));
                    sides.push((Side { policy: run.policy, jct_s: mine, from }, ones));
                }
                Some((side, counts)) => {
                    for (id, jct_s) in mine {
                        *side.jct_s.entry(id.clone()).or_default() += jct_s;
                        *counts.entry(id).or_default() += 1.0;
                    }
                }
            }
        }
        let mean = |(mut side, counts): (Side, BTreeMap<String, f64>)| {
            side.jct_s.iter_mut().zip(counts.values()).for_each(|((_, sum), n)| *sum /= n);
            side
        };
        Ok(sides.into_iter().map(mean).collect())
    }
}

/// Why runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompareError {
    /// A job ended in one run only.
    #[error(
        "job {job:?} ended under {there} and not under {here}: means over different jobs say nothing; run both on one \
         scenario, without time.end_s or with a later one"
    )]
    Jobs {
        /// Id of the job.
        job: String,
        /// The scheduler under which it ended.
        there: String,
        /// The scheduler under which it did not.
        here: String,
    },
    /// The jobs were drawn from different scenarios or seeds.
    #[error(
        "{here} ran {mine} and {there} ran {other}: their jobs are different ones; compare runs of one scenario and seed"
    )]
    Scenarios {
        /// The scheduler that does not fit.
        here: String,
        /// Its scenario and seed.
        mine: String,
        /// The scheduler it was to be compared with, the first.
        there: String,
        /// Its scenario and seed.
        other: String,
    },
    /// A file that is no result of a run.
    #[error("no result of a run: {0}; give a file that `sluice sim run` wrote, or the output of --json")]
    Read(String),
    /// There is nothing to compare.
    #[error("no job ended under {0}: there is nothing to compare; give the scenario a later time.end_s")]
    Empty(String),
}

/// One scheduler in the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The scheduler, as it was asked for.
    pub policy: String,
    /// Mean of the JCT, seconds.
    pub mean_s: f64,
    /// 99th percentile of the JCT (nearest rank), seconds.
    pub p99_s: f64,
}

impl Row {
    /// By which part the mean is lower than another's: 1 − mean/mean; negative where it is higher.
    pub fn lower_than(&self, other: &Row) -> f64 {
        1.0 - self.mean_s / other.mean_s
    }
}

/// The table; `Display` prints it, each row against every other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// In the order given.
    pub rows: Vec<Row>,
}

/// Compares runs.
///
/// # Errors
/// [`CompareError`] when their jobs are not the same ones, or none.
pub fn compare(sides: &[Side]) -> Result<Comparison, CompareError> {
    let only = |there: &Side, here: &Side| {
        let job = there.jct_s.keys().find(|id| !here.jct_s.contains_key(*id))?.clone();
        Some(CompareError::Jobs { job, there: there.policy.clone(), here: here.policy.clone() })
    };
    let name = |side: &Side| side.from.as_ref().map_or("?".into(), |(name, seed)| format!("{name} with seed {seed}"));
    for side in sides {
        if let Some(first) = sides.first().filter(|first| first.from != side.from) {
            return Err(CompareError::Scenarios {
                here: side.policy.clone(),
                mine: name(side),
                there: first.policy.clone(),
                other: name(first),
            });
        }
        if side.jct_s.is_empty() {
            return Err(CompareError::Empty(side.policy.clone()));
        }
        if let Some(error) = sides.first().and_then(|first| only(first, side).or_else(|| only(side, first))) {
            return Err(error);
        }
    }
    let row = |side: &Side| {
        let mut all: Vec<f64> = side.jct_s.values().copied().collect();
        let mean_s = mean(&all);
        all.sort_by(f64::total_cmp);
        Row { policy: side.policy.clone(), mean_s, p99_s: percentile(&all, 0.99) }
    };
    Ok(Comparison { rows: sides.iter().map(row).collect() })
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|r| r.policy.chars().count()).max().unwrap_or(0).max(10);
        writeln!(f, "{:width$}  {:>10}  {:>10}  mean lower than", "scheduler", "mean JCT", "p99 JCT")?;
        for row in &self.rows {
            write!(f, "{:width$}  {:>8.3} s  {:>8.3} s ", row.policy, row.mean_s, row.p99_s)?;
            for other in self.rows.iter().filter(|o| o.policy != row.policy) {
                write!(f, " {} {:.1} %", other.policy, row.lower_than(other) * 100.0)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(policy: &str, jobs: &[(&str, f64)]) -> Side {
        Side { policy: policy.into(), jct_s: jobs.iter().map(|&(id, s)| (id.to_owned(), s)).collect(), from: None }
    }

    #[test]
    fn so_much_lower() {
        let c = compare(&[side("a", &[("x", 1.0), ("y", 2.0)]), side("b", &[("x", 2.0), ("y", 4.0)])]).expect("rows");
        assert_eq!((c.rows[0].mean_s, c.rows[1].p99_s), (1.5, 4.0));
        assert_eq!(c.rows[0].lower_than(&c.rows[1]), 0.5);
        assert_eq!(c.rows[1].lower_than(&c.rows[0]), -1.0);
        assert!(c.to_string().contains("b 50.0 %"));
    }

    #[test]
    fn other_jobs_are_refused() {
        let (a, b) = (side("a", &[("x", 1.0)]), side("b", &[("x", 1.0), ("y", 1.0)]));
        let error = compare(&[a.clone(), b.clone()]);
        let want = CompareError::Jobs { job: "y".into(), there: "b".into(), here: "a".into() };
        assert_eq!(error, Err(want.clone()));
        assert_eq!(compare(&[b, a.clone()]), Err(want));
        assert_eq!(compare(&[a, side("c", &[])]), Err(CompareError::Empty("c".into())));
    }
    #[test]
    fn results_are_read_and_other_scenarios_refused() {
        let run = |policy: &str, s: f64| format!(r#"{{"policy":"{policy}","jobs":[{{"id":"x","jct_s":{s}}}]}}"#);
        let file = |seed: u64| format!(r#"{{"scenario":"t","seed":{seed},"result":{}}}"#, run("a", 2.0));
        let several = format!(r#"{{"scenario":"t","seed":1,"runs":[{},{}]}}"#, run("b", 1.0), run("b", 3.0));
        let read = |text: &str| Side::read(text.as_bytes());
        let (a, b) = (read(&file(1)).expect("a"), read(&several).expect("b"));
        assert_eq!((b.len(), b[0].jct_s["x"]), (1, 2.0));
        assert!(compare(&[a[0].clone(), b[0].clone()]).is_ok());
        let other = read(&file(2)).expect("other");
        assert!(matches!(compare(&[a[0].clone(), other[0].clone()]), Err(CompareError::Scenarios { .. })));
        for wrong in
            ["", "{}", r#"{"scenario":"t","seed":1}"#, &file(1).replace("2}", "-2}"), &file(1).replace('2', "null")]
        {
            assert!(matches!(read(wrong), Err(CompareError::Read(_))), "{wrong}");
        }
    }
}
