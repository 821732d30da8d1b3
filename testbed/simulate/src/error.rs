//! Why a simulation ended without a result.

use sluice_schedule::Nanos;
use thiserror::Error;

/// What went wrong at run time; the codes are those of `simulation.md` section 12.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimError {
    /// Jobs are in rounds and nothing will ever happen: the scheduler holds everything at rate 0.
    #[error(
        "E_STALL: at {:.6} s nothing moves any more and nothing will: {}; the scheduler gives their flows no rate \
         (look at its caps and holds)", at.as_secs_f64(), few(jobs)
    )]
    Stall {
        /// Virtual time of the failure.
        at: Nanos,
        /// Ids of the jobs in rounds.
        jobs: Vec<String>,
    },
    /// `time.max_events` is reached.
    #[error(
        "E_LIMIT: {events} events by {:.6} s: time.max_events is reached; raise it, or set time.end_s", at.as_secs_f64()
    )]
    Events {
        /// Virtual time reached.
        at: Nanos,
        /// How many events were handled.
        events: u64,
    },
    /// A round would have too many flows.
    #[error(
        "E_LIMIT: job {job:?} would have {flows} flows in a round, at most {most}: a ring that passes on whole chunks has \
         n · 2(n−1); use fewer workers, or dependency = \"pipelined\" (mcs: ring = \"chain\")"
    )]
    Flows {
        /// Id of the job.
        job: String,
        /// Flows it would have.
        flows: u64,
        /// Flows it may have.
        most: u64,
    },
    /// Two hosts that cannot reach each other.
    #[error("E_NET: job {job:?}: flow {flow} has no path from its sender to its receiver; mend network or routing")]
    NoPath {
        /// Id of the job.
        job: String,
        /// Name of the flow.
        flow: String,
    },
    /// [`super::Watch::cancel`] was called.
    #[error("stopped at {:.6} s of virtual time, after {events} events", at.as_secs_f64())]
    Cancelled {
        /// Virtual time reached.
        at: Nanos,
        /// How many events were handled.
        events: u64,
    },
}

impl SimError {
    /// Exit status of a program that ends with this error.
    pub fn exit_status(&self) -> u8 {
        match self {
            SimError::Stall { .. } => 3,
            SimError::Cancelled { .. } => 130,
            _ => 2,
        }
    }
}

fn few(jobs: &[String]) -> String {
    let shown = jobs.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
    match jobs.len() {
        0..=10 => format!("jobs {shown}"),
        more => format!("jobs {shown} and {} more", more - 10),
    }
}
