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

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::run::{Binaries, Policy, PolicyRun, Queue, RunError, RunPlan, Session, Silent, run_once};

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
