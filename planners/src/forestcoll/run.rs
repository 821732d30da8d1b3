//! How a computation runs: how many threads, who watches, and how it is called off.
//!
//! Results do not depend on the number of threads: work is split by index and put together in index order.

use super::Refusal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The parts of the work, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The best rate and its bottleneck cut; counted in sinks tested.
    Optimum,
    /// The best rate for a fixed number of trees; counted in candidates tested.
    FixedK,
    /// Trying a construction from the fabric's symmetry; counted in sizes tried.
    Symmetry,
    /// Replacing switches by direct links; counted in switches.
    SwitchRemoval,
    /// Packing trees; counted in trees, with their weights.
    TreeConstruction,
    /// Finding the physical path of every tree edge; counted in trees.
    PathRecovery,
    /// Checking the finished forest; counted in forests.
    Verification,
    /// The linear program of all-reduce; counted in rounds of cuts, whose number is not known before.
    AllReduceProgram,
}

/// Who wants to know how far the work is. Called from the planning thread, often: be quick.
pub trait Progress: Sync {
    /// `done` of `total` steps of `stage` are behind us; `total` is 0 where it is not known.
    fn progress(&self, stage: Stage, done: u64, total: u64);
}

/// Nobody watches.
impl Progress for () {
    fn progress(&self, _: Stage, _: u64, _: u64) {}
}

/// The terms under which a computation runs.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// How many threads may work, 1 or more; the result is the same for any number.
    pub threads: usize,
    /// Who watches.
    pub progress: &'a dyn Progress,
    /// Set to true by another thread, it ends the work with [`Refusal::Cancelled`].
    pub cancel: &'a AtomicBool,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Run<'static> {
    /// Nobody watches and nobody calls it off.
    pub fn quiet(threads: usize) -> Self {
        Self { threads, progress: &(), cancel: &NEVER }
    }
}

impl Run<'_> {
    /// Ends the work if it was called off.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.cancel.load(Ordering::Relaxed) { Err(Refusal::Cancelled) } else { Ok(()) }
    }

    /// Tells the watcher, after looking whether the work was called off.
    pub(super) fn report(&self, stage: Stage, done: usize, total: usize) -> Result<(), Refusal> {
        self.check()?;
        self.progress.progress(stage, done as u64, total as u64);
        Ok(())
    }

    /// `work` for every index below `count`, each thread with a state of its own; the results in index order.
    pub(super) fn each<S, T: Send>(
        &self,
        count: usize,
        state: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, usize) -> T + Sync,
    ) -> Result<Vec<T>, Refusal> {
        let next = AtomicUsize::new(0);
        let worker = || {
            let (mut own, mut done) = (state(), Vec::new());
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count || self.check().is_err() {
                    return done;
                }
                done.push((index, work(&mut own, index)));
            }
        };
        let mut parts = std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads.min(count)).map(|_| scope.spawn(worker)).collect();
            let mut parts = worker();
            for other in others {
                match other.join() {
                    Ok(part) => parts.extend(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            parts
        });
        self.check()?;
        parts.sort_unstable_by_key(|&(index, _)| index);
        Ok(parts.into_iter().map(|(_, result)| result).collect())
    }
}
