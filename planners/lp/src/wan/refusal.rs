//! Why a solver has no allocation, schedule or bound.

use sluice_formats::problem::Code;
use sluice_planners::Stopped;
use sluice_solver::Failed;

/// Why there is no answer. [`Refusal::code`] gives the stable name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The instance is none for this method.
    #[error(transparent)]
    Instance(#[from] sluice_planners_wan::Refusal),
    /// A solver came to another end than an optimum.
    #[error("the solver ended with {status} after {iterations} iterations, gap {gap:.1e}; please report the instance")]
    Solver {
        /// How it ended, in its own words.
        status: String,
        /// Its steps until then; 0 where it does not count any.
        iterations: u32,
        /// The distance of its value and its bound, as a share of the value; NaN where there are none.
        gap: f64,
    },
    /// Somebody called it off, or the deadline passed before there was anything.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Refusal {
    /// The name that scripts go by: it stays the same when the text changes.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Instance(refusal) => refusal.code(),
            Refusal::Solver { .. } => "Solver",
            Refusal::Stopped(stopped) => stopped.code(),
        }
    }

    /// Of a solver that ended before it began.
    pub(crate) fn solver(status: impl Into<String>) -> Refusal {
        Refusal::Solver { status: status.into(), iterations: 0, gap: f64::NAN }
    }
}

impl From<Failed> for Refusal {
    fn from(failed: Failed) -> Refusal {
        Refusal::solver(failed.status)
    }
}
