//! Scenarios under schedulers, by name, on as many threads as are given. Which thread runs what changes no result.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use sluice_report::simulated::SimResult;
use sluice_scenario::{Policy, Scenario};
use thiserror::Error;

use super::error::SimError;
use super::limit;
use super::log::Outcome;
use super::policy::static_order::{MAX_JOBS, SearchError, StaticOrder, best_order};
use super::policy::{PolicyError, build};
use super::scheduler::Scheduler;
use super::sluice::SluiceScheduler;
pub use super::watch::Running;
use super::watch::Watch;

/// Between two looks at what runs.
const LOOK: Duration = Duration::from_millis(100);

/// One scenario under one scheduler.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// The scenario to run.
    pub scenario: &'a Scenario,
    /// The scheduler under which it runs.
    pub policy: Policy,
    /// Measure where its time goes.
    pub profile: bool,
}

/// What a task gave.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The figures of the run.
    pub result: SimResult,
    /// Observations behind them; those of `fair` for `bound`.
    pub outcome: Outcome,
}

/// Why a task gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunsError {
    /// The simulation ended without a result.
    #[error("{policy}: {error}")]
    Sim {
        /// The scheduler that ran.
        policy: String,
        /// Why the run failed.
        error: SimError,
    },
    /// There is no such scheduler to run.
    #[error("{policy}: {error}")]
    Policy {
        /// The scheduler that was asked for.
        policy: String,
        /// Why it cannot be made.
        error: PolicyError,
    },
    /// All orders of so many jobs cannot be tried.
    #[error("static: {0}")]
    Search(String),
}

impl RunsError {
    /// Exit status of a program that ends with this error.
    pub fn exit_status(&self) -> u8 {
        match self {
            RunsError::Sim { error, .. } => error.exit_status(),
            RunsError::Policy { .. } | RunsError::Search(_) => 2,
        }
    }
    /// True when somebody stopped it.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RunsError::Sim { error: SimError::Cancelled { .. }, .. })
    }
}

/// Looks on from the thread that called [`all`].
pub trait Observer {
    /// About ten times a second: what runs now, in order.
    fn look(&mut self, running: &[Running]);
    /// A task is over. False: start no other, and stop those that run.
    fn over(&mut self, task: usize, ran: Result<Ran, RunsError>) -> bool;
}

/// Can these tasks be run at all? Asked before the first event.
///
/// # Errors
/// The first that cannot.
pub fn check(tasks: &[Task<'_>]) -> Result<(), RunsError> {
    tasks.iter().try_for_each(|task| match task.policy.name.as_str() {
        "sluice" | "bound" => Ok(()),
        "static" if task.scenario.schedulers.options.static_search && task.scenario.jobs.len() > MAX_JOBS => {
            Err(RunsError::Search(SearchError::<SimError>::TooMany(task.scenario.jobs.len()).to_string()))
        }
        _ => baseline(task).map(drop),
    })
}

/// Runs all tasks and says how each ended, in the order in which they end. Cancelled when `stop` becomes true.
pub fn all(tasks: &[Task<'_>], threads: NonZeroUsize, stop: &AtomicBool, observer: &mut dyn Observer) {
    let watches: Vec<Watch> = tasks.iter().map(|task| Watch::new(task.profile)).collect();
    let (next, ending) = (AtomicUsize::new(0), AtomicBool::new(stop.load(Ordering::Relaxed)));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.get().min(tasks.len()) {
            let sender = sender.clone();
            let (next, ending, watches) = (&next, &ending, &watches);
            scope.spawn(move || {
                while !ending.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(task), Some(watch)) = (tasks.get(at), watches.get(at)) else { break };
                    if sender.send(Event::Begun(at)).is_err()
                        || sender.send(Event::Over(at, Box::new(one(task, watch)))).is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut running: Vec<usize> = Vec::new();
        loop {
            if stop.load(Ordering::Relaxed) || ending.load(Ordering::Relaxed) {
                ending.store(true, Ordering::Relaxed);
                watches.iter().for_each(Watch::cancel);
            }
            match receiver.recv_timeout(LOOK) {
                Ok(Event::Begun(at)) => running.push(at),
                Ok(Event::Over(at, ran)) => {
                    running.retain(|&r| r != at);
                    if !observer.over(at, *ran) {
                        ending.store(true, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    running.sort_unstable();
                    observer.look(&running.iter().map(|&task| watches[task].running(task)).collect::<Vec<_>>());
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

enum Event {
    Begun(usize),
    Over(usize, Box<Result<Ran, RunsError>>),
}

/// Runs one task on this thread.
///
/// # Errors
/// A scheduler that is not there, a stall, a limit, a stop through `watch`.
pub fn one(task: &Task<'_>, watch: &Watch) -> Result<Ran, RunsError> {
    let began = Instant::now();
    let scenario = task.scenario;
    let simulate = |scheduler: &mut dyn Scheduler| {
        super::run(scenario, scheduler, watch)
            .map_err(|error| RunsError::Sim { policy: task.policy.to_string(), error })
    };
    let mut note = None;
    let outcome = match task.policy.name.as_str() {
        "sluice" => simulate(&mut SluiceScheduler::new(scenario, &task.policy))?,
        "bound" => {
            let fair = Task { scenario, policy: Policy { name: "fair".into(), variant: None }, profile: false };
            simulate(&mut *baseline(&fair)?)?
        }
        "static" if scenario.schedulers.options.static_search => {
            let (order, outcome) = search(scenario, &simulate)?;
            note = Some(format!("the order with the smallest mean of all: {}", order.join(", ")));
            outcome
        }
        _ => simulate(&mut *baseline(task)?)?,
    };
    let mut result = super::result::result(scenario, &task.policy, &outcome, began.elapsed());
    if task.policy.name == "bound" {
        let isolated = std::mem::take(&mut result.result.figures);
        result.result.figures = limit::figures(scenario, &outcome, isolated);
        result.result.counters.clear();
        note = Some("no schedule: what none can beat, jobs on the hosts and paths they have under fair".into());
    }
    if task.policy.name == "fair" && task.policy.variant.is_some() {
        note = Some("here the same as fair, ideal equal shares; congestion controls differ on the testbed only".into());
    }
    result.result.notes.extend(note);
    Ok(Ran { result, outcome })
}

fn baseline(task: &Task<'_>) -> Result<Box<dyn Scheduler>, RunsError> {
    build(&task.policy, task.scenario).map_err(|error| RunsError::Policy { policy: task.policy.to_string(), error })
}

/// The best order and its run.
fn search(
    scenario: &Scenario,
    simulate: &dyn Fn(&mut dyn Scheduler) -> Result<Outcome, RunsError>,
) -> Result<(Vec<String>, Outcome), RunsError> {
    let ids: Vec<String> = scenario.jobs.iter().map(|job| job.id.clone()).collect();
    let mean = |order: &[String]| {
        let outcome = simulate(&mut StaticOrder::new(order))?;
        Ok(super::metrics::figures(scenario, &outcome).jct_mean_s)
    };
    let (order, _) = best_order(&ids, mean).map_err(|error| match error {
        SearchError::Run(error) => error,
        many => RunsError::Search(many.to_string()),
    })?;
    let outcome = simulate(&mut StaticOrder::new(&order))?;
    Ok((order, outcome))
}

#[cfg(test)]
mod tests;
