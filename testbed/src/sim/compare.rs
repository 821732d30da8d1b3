//! Schedulers side by side on the same jobs: "x is so many per cent lower than y", refused when the jobs differ.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::log::Outcome;
use crate::run::result::{mean, percentile};
use crate::scenario::Scenario;

/// The completion times of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// The scheduler as it was asked for.
    pub policy: String,
    /// Seconds from arrival to end, by job id; jobs that did not end are left out.
    pub jct_s: BTreeMap<String, f64>,
}

impl Side {
    /// What a run of a scenario gave.
    pub fn of(policy: &str, scenario: &Scenario, outcome: &Outcome) -> Side {
        let jct = |log: &super::log::JobLog| log.ended.map(|e| e.minus(log.arrival).as_secs_f64());
        let jobs = scenario.jobs.iter().zip(&outcome.jobs);
        let jct_s = jobs.filter_map(|(job, log)| Some((job.id.clone(), jct(log)?))).collect();
        Side { policy: policy.to_owned(), jct_s }
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
        /// The job.
        job: String,
        /// Where it ended.
        there: String,
        /// Where it did not.
        here: String,
    },
    /// There is nothing to compare.
    #[error("no job ended under {0}: there is nothing to compare; give the scenario a later time.end_s")]
    Empty(String),
}

/// One scheduler in the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The scheduler.
    pub policy: String,
    /// Mean JCT, seconds.
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
    for side in sides {
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
        Side { policy: policy.into(), jct_s: jobs.iter().map(|&(id, s)| (id.to_owned(), s)).collect() }
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
}
