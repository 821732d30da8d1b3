//! The figures of one job, whoever ran it: real processes or the simulator.

use serde::{Deserialize, Serialize};

/// One job's times, in seconds from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobFigures {
    /// Its id in the scenario.
    pub id: String,
    /// Its model; empty where it has none.
    pub model: String,
    /// When it entered the queue.
    pub arrival_s: f64,
    /// When it got its GPUs and its first compute phase began.
    pub start_s: f64,
    /// When its last round ended.
    pub end_s: f64,
    /// End minus arrival.
    pub jct_s: f64,
    /// End minus start.
    pub run_time_s: f64,
    /// Start minus arrival.
    pub wait_s: f64,
    /// Mean time from a round's begin to its end; on the testbed without warm-up.
    pub round_s: f64,
    /// The time of all iterations by their number; on the testbed without warm-up.
    pub iteration_s: f64,
}

impl JobFigures {
    /// Of a job that arrived, started and ended at these times; its rounds and iterations are not known yet.
    pub fn new(id: &str, model: &str, arrival_s: f64, start_s: f64, end_s: f64) -> JobFigures {
        JobFigures {
            id: id.to_owned(),
            model: model.to_owned(),
            arrival_s,
            start_s,
            end_s,
            jct_s: end_s - arrival_s,
            run_time_s: end_s - start_s,
            wait_s: start_s - arrival_s,
            ..JobFigures::default()
        }
    }
}
