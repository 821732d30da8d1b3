//! Small measured experiments on a real fabric; each gives one JSON document with its own comparison.
//!
//! `sluice-experiment NAME` runs one. They need root, and take from ten seconds to two minutes.

pub mod beside;
pub mod capacity;
pub mod cost;
pub mod direct;
pub mod fail_open;
pub mod forest;
pub mod live;
pub mod mix;
pub mod pair;
pub mod real;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sluice_report::PolicyRun;
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::fabric::FabricSpec;
use crate::job::{Arch, PlanFile};
use crate::run::{
    Binaries, FixedQueue, JobPlan, Placement, Policy, Queue, RunError, RunPlan, Session, Silent, run_once,
};

/// What every experiment is given.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The programs.
    pub binaries: &'a Binaries,
    /// Where files go; must exist.
    pub dir: PathBuf,
    /// Set from outside to stop early.
    pub stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// One run in a directory of its own.
    ///
    /// # Errors
    /// As [`run_once`].
    pub fn run(
        &self,
        plan: &RunPlan,
        queue: &mut dyn Queue,
        policy: &Policy,
        name: &str,
    ) -> Result<PolicyRun, RunError> {
        let dir = self.dir.join(name);
        std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        let session = Session { binaries: self.binaries, dir, stop: self.stop };
        run_once(plan, queue, policy, &session, &mut Silent)
    }
}

/// One job with a member on every host, which does one collective again and again: by a plan or otherwise.
struct Collectives<'a> {
    /// The job's name.
    name: &'a str,
    /// How; [`Arch::Plan`] with the plan's file.
    arch: Arch,
    file: &'a Path,
    fabric: &'a FabricSpec,
    /// Data of a round.
    bytes: Bytes,
    rounds: u64,
    /// Part of every link that daemons leave free.
    reserve: f64,
}

impl Collectives<'_> {
    /// Runs it under a policy.
    fn run(&self, bench: &Bench<'_>, policy: &Policy) -> Result<PolicyRun, RunError> {
        let hosts = &self.fabric.hosts;
        let plan = PlanFile { file: self.file.to_owned(), ranks: hosts.clone() };
        let job = JobPlan {
            id: self.name.into(),
            model: String::new(),
            arch: self.arch,
            workers: hosts.len(),
            servers: 0,
            fanout: 2,
            plan: (self.arch == Arch::Plan).then_some(plan),
            bytes: self.bytes,
            iterations: self.rounds,
            compute: vec![Nanos::from_millis(100)],
            overlap: 0.0,
            arrival: Nanos::ZERO,
        };
        let plan = RunPlan {
            name: self.name.into(),
            fabric: self.fabric.clone(),
            jobs: vec![job],
            reserve: self.reserve,
            // The floor is for flows that wait for other jobs; small flows of a plan must not be lifted by it.
            floor: Some(Rate::mbps(1)),
            ..RunPlan::default()
        };
        let place = Placement { workers: (0..hosts.len()).collect(), servers: Vec::new() };
        let name = format!("{}-{}", self.name, policy.to_string().replace([':', '@'], "-"));
        bench.run(&plan, &mut FixedQueue::new(vec![place]), policy, &name)
    }
}
