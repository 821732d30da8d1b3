//! One rank of a training job: computes (waits), then really exchanges and reduces float buffers, and checks the sum.
//!
//! The process `sluice-job` is a thin shell around [`run`]. A job is described by a [`JobFile`], one for each of its
//! members; what happened comes out as one JSON line per event (`report`). Data moves as a pipeline: a rank
//! forwards what has arrived, in pieces of at most [`JobFile::write_bytes`], never more. What goes where is one
//! `Exchange`: ring, parameter server and tree in `collective`, the trees of a plan in `trees`, its steps in `steps`,
//! its flows in `transfers`.
//! Placement, start times and the network are `run`'s business.

mod buffer;
mod channels;
mod collective;
mod connect;
mod engine;
mod exchange;
mod file;
mod page;
mod plan;
pub(crate) mod report;
mod steps;
mod stream;
mod transfers;
mod trees;

pub use engine::{now, run};
pub use file::{Arch, JobFile, Member, PlanFile};

use thiserror::Error;

/// Why a job ended early.
#[derive(Debug, Error)]
pub enum JobError {
    /// The job file contradicts itself.
    #[error("job file: {field} = {seen}; {allowed}")]
    File {
        /// The key, or `standard input`.
        field: &'static str,
        /// The value that stands there.
        seen: String,
        /// What may stand there, as a phrase.
        allowed: String,
    },
    /// A peer could not be reached or went away.
    #[error("{peer}: {what}")]
    Peer {
        /// The other end: `member 3`.
        peer: String,
        /// How it failed, as a phrase that follows its name.
        what: String,
    },
    /// The reduced buffer is wrong.
    #[error("iteration {iteration}: element {element} is {seen}, the exact sum is {expected}")]
    Sum {
        /// In which iteration, from 0.
        iteration: u64,
        /// Index of the first wrong element.
        element: usize,
        /// The value that it has.
        seen: f32,
        /// What it should be.
        expected: f32,
    },
    /// A flow brought something else than what was sent.
    #[error("iteration {iteration}: word {word} of lane {lane} is {seen}, {expected} was sent")]
    Word {
        /// In which iteration, from 0.
        iteration: u64,
        /// The lane, as the plan counts them.
        lane: usize,
        /// Index of the first wrong word of the lane.
        word: usize,
        /// The value that it has.
        seen: f32,
        /// What it should be.
        expected: f32,
    },
    /// The plan cannot be carried out.
    #[error("{0}")]
    Plan(String),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, as a phrase: `making a timer`.
        what: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl JobError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> JobError {
        move |source| JobError::Io { what, source }
    }
    pub(crate) fn sys(what: &'static str) -> impl FnOnce(nix::Error) -> JobError {
        move |source| JobError::Io { what, source: source.into() }
    }
}
