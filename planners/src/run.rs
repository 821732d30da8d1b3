//! The terms under which a planner runs: how many threads, who watches, when it must end, and how it is called off.
//!
//! Results do not depend on the number of threads: work is split by index and put together in index order.

use sluice_formats::problem::{Code, Problem};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// The code of work that somebody called off.
pub const CANCELLED: Code = "CANCELLED";
/// The code of work whose deadline passed before there was a result.
pub const TIME_LIMIT: Code = "TimeLimit";

/// The parts of planners' work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// ForestColl: the best rate and its bottleneck cut; counted in sinks tested.
    Optimum,
    /// ForestColl: the best rate for a fixed number of trees; counted in candidates tested.
    FixedK,
    /// ForestColl: trying a construction from the fabric's symmetry; counted in sizes tried.
    Symmetry,
    /// ForestColl: replacing switches by direct links; counted in switches.
    SwitchRemoval,
    /// ForestColl: packing trees; counted in trees, with their weights.
    TreeConstruction,
    /// ForestColl: finding the physical path of every tree edge; counted in trees.
    PathRecovery,
    /// ForestColl: verifying the finished forest; counted in forests.
    Verification,
    /// ForestColl: the linear program of all-reduce; counted in rounds of cuts, whose number is not known before.
    AllReduceProgram,
    /// Breadth-first schedules: the least loads, then the sends; counted in receivers.
    Schedule,
    /// Finder: the best graphs of a size and degree; counted in values of graphs that were computed.
    Finder,
    /// Search: graphs tried at random; counted in graphs.
    Search,
    /// TE-CCL: orders of chunks tried; counted in orders.
    Greedy,
    /// TE-CCL: integer programs; not counted.
    Program,
    /// Fluid programs: the master program and its columns; counted in rounds, whose number is not known before.
    FluidMaster,
    /// All-to-all rates: the first-order method; counted in passes over all sources.
    AllToAll,
    /// Wide-area allocation: methods of the portfolio; counted in methods.
    Methods,
    /// Wide-area allocation: methods on generated instances; counted in pairs of these.
    Sweep,
}

/// How far the work is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The part that is being done.
    pub stage: Stage,
    /// So many steps of it are done.
    pub done: u64,
    /// Of so many; 0 where that is not known.
    pub total: u64,
    /// What it is about, for people: a size, a bound; often nothing.
    pub about: fmt::Arguments<'a>,
}

/// Why work ended before there was a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Somebody called it off.
    #[error("cancelled")]
    Cancelled,
    /// The deadline passed before there was anything to give back.
    #[error("time ran out")]
    TimeLimit,
}

impl Stopped {
    /// The stable code, as results write it.
    pub fn code(self) -> Code {
        match self {
            Stopped::Cancelled => CANCELLED,
            Stopped::TimeLimit => TIME_LIMIT,
        }
    }
    /// How a planner says it: in its word for being called off, or that there was not time enough for this.
    pub(crate) fn said(self, cancelled: &str, wanted: &str) -> String {
        match self {
            Stopped::Cancelled => cancelled.to_owned(),
            Stopped::TimeLimit => format!("time ran out before there was {wanted}; allow more time"),
        }
    }
    /// The problem that this is.
    pub fn problem(self) -> Problem {
        Problem::new(self.code(), "", self.said("cancelled", "a plan"))
    }
}

/// The terms under which a planner runs.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// How many threads may work, 1 or more; the result is the same for any number.
    pub threads: usize,
    /// Who watches. Called from the planning thread, often: be quick.
    pub watch: &'a (dyn Fn(Progress<'_>) + Sync),
    /// Set to true by another thread, it ends the work without a result.
    pub cancel: &'a AtomicBool,
    /// When to end with the best result there is, or without any; `None`: never.
    pub deadline: Option<Instant>,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Run<'static> {
    /// Nobody watches, nobody calls it off, and there is time without end.
    pub fn quiet(threads: usize) -> Self {
        Self { threads, watch: &|_| {}, cancel: &NEVER, deadline: None }
    }
}

impl Run<'_> {
    /// Has somebody called the work off?
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Has the deadline passed?
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Ends work that has no result before it is done.
    ///
    /// # Errors
    /// [`Stopped`], if it was called off or the deadline has passed.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        if self.is_late() { Err(Stopped::TimeLimit) } else { Ok(()) }
    }

    /// Tells the watcher how far a stage is.
    pub fn tell(&self, stage: Stage, done: u64, total: u64, about: fmt::Arguments<'_>) {
        (self.watch)(Progress { stage, done, total, about });
    }

    /// Tells the watcher, after looking whether the work is to end.
    pub(crate) fn report(&self, stage: Stage, done: usize, total: usize) -> Result<(), Stopped> {
        self.check()?;
        self.tell(stage, done as u64, total as u64, format_args!(""));
        Ok(())
    }

    /// `work` for every index below `count`, each thread with a state of its own; the results in index order.
    ///
    /// # Errors
    /// [`Stopped`], if it was called off or the deadline passed meanwhile.
    pub fn each<S, T: Send>(
        &self,
        count: usize,
        state: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, usize) -> T + Sync,
    ) -> Result<Vec<T>, Stopped> {
        let worker = |indices: &mut dyn Iterator<Item = usize>| {
            let mut own = state();
            indices.map(|index| (index, work(&mut own, index))).collect::<Vec<_>>()
        };
        let mut parts: Vec<_> = self.share(count, worker)?.into_iter().flatten().collect();
        parts.sort_unstable_by_key(|&(index, _)| index);
        Ok(parts.into_iter().map(|(_, result)| result).collect())
    }

    /// The indices below `count` shared out among the threads as they come for them; what each thread makes of its own.
    pub(crate) fn share<T: Send>(
        &self,
        count: usize,
        worker: impl Fn(&mut dyn Iterator<Item = usize>) -> T + Sync,
    ) -> Result<Vec<T>, Stopped> {
        let next = AtomicUsize::new(0);
        let work = || {
            let next = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < count && self.check().is_ok());
            worker(&mut std::iter::from_fn(next))
        };
        let parts = std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads.min(count)).map(|_| scope.spawn(work)).collect();
            let mut parts = vec![work()];
            for other in others {
                match other.join() {
                    Ok(part) => parts.push(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            parts
        });
        self.check()?;
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn results_stand_in_index_order_for_any_number_of_threads() {
        for threads in [1, 2, 7] {
            let squares = Run::quiet(threads).each(50, || (), |(), index| index * index).expect("not stopped");
            assert_eq!(squares, (0..50).map(|index| index * index).collect::<Vec<_>>());
        }
        assert_eq!(Run::quiet(3).each(0, || (), |(), index| index), Ok(Vec::new()));
    }

    #[test]
    fn work_ends_when_it_is_called_off_or_late() {
        let cancel = AtomicBool::new(false);
        let run = Run { cancel: &cancel, ..Run::quiet(2) };
        let stopped = run.each(
            1_000_000,
            || (),
            |(), index| {
                assert!(index < 100_000, "the flag is looked at before every index");
                cancel.store(true, Ordering::Relaxed);
            },
        );
        assert_eq!(stopped, Err(Stopped::Cancelled));
        let past = Instant::now().checked_sub(Duration::from_millis(1));
        let late = Run { deadline: past.or_else(|| Some(Instant::now())), ..Run::quiet(1) };
        assert_eq!(late.report(Stage::Optimum, 0, 1), Err(Stopped::TimeLimit));
        let early = Run { deadline: Some(Instant::now() + Duration::from_secs(3600)), ..Run::quiet(1) };
        assert_eq!(early.check(), Ok(()));
    }
}
