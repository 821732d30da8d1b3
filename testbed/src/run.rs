//! Runs a workload on a real fabric under one or several policies and collects what happened.
//!
//! One run: build the fabric, start `sluice-switch` and one `sluiced` per host if the policy wants them, start jobs as
//! they arrive and find room, sample links, and wait for the last job. Everything a policy may not change is fixed in
//! the [`RunPlan`] first. The scenario format, placement and reports are not here.

mod all;
mod binaries;
mod breaking;
pub mod convert;
pub mod daemons;
pub mod inband;
pub(crate) mod launch;
mod log;
mod measure;
pub mod mltcp;
pub mod pages;
mod pins;
mod plan;
mod policy;
mod process;
mod session;
mod switches;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::AtomicBool;

use thiserror::Error;

pub use all::{Bar, Options, run};
pub use binaries::Binaries;
pub use plan::{FixedQueue, JobPlan, Placement, Queue, RunPlan};
pub use policy::Policy;
pub(crate) use process::alive;
pub use session::{Observer, Silent, run_once};

use crate::fabric::FabricError;

/// What a run needs beside the plan.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    /// Paths of the programs that it starts.
    pub binaries: &'a Binaries,
    /// Where job files, configurations and logs go; must exist.
    pub dir: PathBuf,
    /// Set from outside to stop early.
    pub stop: &'a AtomicBool,
}

/// Why a run failed.
#[derive(Debug, Error)]
pub enum RunError {
    /// The fabric could not be built, or not be changed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The congestion control of a policy is none that the kernel has, and could not be registered.
    #[error(transparent)]
    Mltcp(#[from] mltcp::MltcpError),
    /// A program of ours was not found.
    #[error("cannot find the program `{name}` in {looked}; build it (cargo build -p {package}) or set SLUICE_BIN_DIR")]
    Program {
        /// File name of the program.
        name: &'static str,
        /// The package that builds it.
        package: &'static str,
        /// Where it was looked for.
        looked: String,
    },
    /// A policy's name is not known here.
    #[error("policy {seen:?} is not known on the testbed; allowed are {allowed}")]
    Policy {
        /// The name that was asked for.
        seen: String,
        /// All names that are known here.
        allowed: &'static str,
    },
    /// The plan contradicts itself.
    #[error("plan: {0}")]
    Plan(String),
    /// A job's process failed.
    #[error("job {job}, member {rank} on {host}: {what}")]
    Job {
        /// Id of the job in the plan.
        job: String,
        /// Its place among the members, workers first.
        rank: usize,
        /// Name of the host it ran on; empty if that is not known.
        host: String,
        /// What it said of itself, or how it ended.
        what: String,
    },
    /// A daemon or switch failed.
    #[error("{name} on {host}: {what}")]
    Daemon {
        /// File name of the program.
        name: &'static str,
        /// Name of the host, or `switches`.
        host: String,
        /// What happened, with the last lines it wrote.
        what: String,
    },
    /// The run took longer than allowed.
    #[error("after {seconds:.0} s {left} of {jobs} jobs had not ended (first: {first})")]
    TooLong {
        /// How long it ran.
        seconds: f64,
        /// How many jobs had not ended.
        left: usize,
        /// How many jobs the plan has.
        jobs: usize,
        /// Id of the first unfinished one.
        first: String,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, as a phrase that begins with a verb.
        what: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct KillOnDrop(pub(crate) Child);

impl KillOnDrop {
    /// Kills it now, and takes its status away.
    pub(crate) fn end(&mut self) {
        // Either fails when it has ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), RunError> {
    std::fs::write(path, text).map_err(RunError::io(format!("writing {}", path.display())))
}

impl RunError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> RunError {
        let what = what.into();
        move |source| RunError::Io { what, source }
    }
}
