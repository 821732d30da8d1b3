//! What is written down while a simulation runs: raw observations, from which [`super::metrics`] makes figures.

use sluice_scenario::Placement;
use sluice_schedule::Nanos;

use super::profile::Profile;
use super::world::JobIx;

/// One iteration of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// When its compute phase began.
    pub compute: Nanos,
    /// When the communication began.
    pub began: Nanos,
    /// When the last flow ended.
    pub ended: Nanos,
}

/// What happened to one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobLog {
    /// When it entered the queue.
    pub arrival: Nanos,
    /// When it got its GPUs.
    pub started: Option<Nanos>,
    /// When its last round ended.
    pub ended: Option<Nanos>,
    /// The hosts on which the job runs.
    pub placement: Placement,
    /// Every round that ended.
    pub rounds: Vec<Round>,
    /// Network flows in a round.
    pub flows: usize,
    /// A round of the job alone.
    pub isolated_round: Nanos,
    /// The whole run of the job alone, from start to end.
    pub isolated_run: Nanos,
    /// Flow-nanoseconds in which a flow could not go faster than what it depends on.
    pub stalled: u64,
}

/// What went over one directed link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkLog {
    /// Bytes delivered over it, of jobs and of cross traffic.
    pub bytes: f64,
    /// Those of cross traffic.
    pub cross_bytes: f64,
    /// Nanoseconds in which any flow was active on it.
    pub busy: u64,
    /// Nanoseconds in which flows of two or more jobs were.
    pub shared: u64,
    /// Nanoseconds in which a flow of any job was.
    pub busy_jobs: u64,
    flows: u32,
    jobs: u32,
    since: u64,
}

impl LinkLog {
    fn settle(&mut self, now: u64) {
        let dt = now - self.since;
        self.since = now;
        self.busy += if self.flows > 0 { dt } else { 0 };
        self.busy_jobs += if self.jobs > 0 { dt } else { 0 };
        self.shared += if self.jobs > 1 { dt } else { 0 };
    }
}

/// A number over time: its integral and its largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// Σ value · nanoseconds.
    pub integral: f64,
    /// The largest value that was noted.
    pub most: u64,
    now: u64,
    since: u64,
}

impl Level {
    /// The number is so much larger or smaller from now on.
    pub(super) fn step(&mut self, now: u64, by: i64) {
        self.integral += self.now as f64 * (now - self.since) as f64;
        self.since = now;
        self.now = self.now.saturating_add_signed(by);
        self.most = self.most.max(self.now);
    }
}

/// No timeline is longer: what comes later is left out, and the file says so.
const MAX_CHANGES: usize = 20_000_000;

/// From this time on a flow has this rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateChange {
    /// Virtual time of the change.
    pub at: Nanos,
    /// The job whose flow it is.
    pub job: JobIx,
    /// Which of the job's network flows.
    pub flow: u32,
    /// Bytes per second; 0 when it has ended.
    pub rate: f64,
}

/// Changes of rates, the optional part of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The changes in the order of time.
    pub changes: Vec<RateChange>,
    /// Whether there were more than are kept.
    pub cut: bool,
}

impl Timeline {
    pub(super) fn push(&mut self, change: RateChange) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(change);
        } else {
            self.cut = true;
        }
    }
}

/// Everything that was observed in one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Every job, as in [`sluice_scenario::Scenario::jobs`].
    pub jobs: Vec<JobLog>,
    /// Every link, as in [`sluice_scenario::Network::links`].
    pub links: Vec<LinkLog>,
    /// Where virtual time stopped.
    pub end: Nanos,
    /// Events handled: arrivals, ends of compute phases, begins and ends of flows, bounds and marks reached.
    pub events: u64,
    /// How many flows ended.
    pub flow_ends: u64,
    /// Running jobs over time.
    pub running: Level,
    /// Active flows of jobs over time.
    pub active: Level,
    /// Every change of a rate, where the scenario wants it (`output.timeline`).
    pub timeline: Option<Timeline>,
    /// The scheduler's own counters, by name.
    pub counters: Vec<(&'static str, f64)>,
    /// Seconds of the machine's clock that decisions took.
    pub decisions: Vec<f64>,
    /// Where the run's time went, if that was asked for.
    pub profile: Option<Profile>,
}

impl Outcome {
    /// A flow of `job` (place in its own list of links) began on these links.
    pub(super) fn flow_on(&mut self, path: &[u32], own: Option<&mut OwnLinks>, now: u64) {
        let mut own = own;
        for &link in path {
            let log = &mut self.links[link as usize];
            log.settle(now);
            log.flows += 1;
            if own.as_deref_mut().is_some_and(|o| o.enter(link)) {
                log.jobs += 1;
            }
        }
    }

    /// A flow left these links, with so many bytes delivered over them since it began there.
    pub(super) fn flow_off(&mut self, path: &[u32], own: Option<&mut OwnLinks>, bytes: f64, now: u64) {
        let mut own = own;
        for &link in path {
            let log = &mut self.links[link as usize];
            log.settle(now);
            log.flows -= 1;
            log.bytes += bytes;
            match own.as_deref_mut() {
                Some(own) => log.jobs -= u32::from(own.leave(link)),
                None => log.cross_bytes += bytes,
            }
        }
    }

    /// The run is over at `now`.
    pub(super) fn close(&mut self, now: u64) {
        self.end = Nanos(now);
        self.links.iter_mut().for_each(|l| l.settle(now));
        self.running.step(now, 0);
        self.active.step(now, 0);
    }
}

/// The links that a job's flows use, and how many of its active flows are on each.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnLinks {
    links: Box<[u32]>,
    active: Box<[u32]>,
}

impl OwnLinks {
    /// For flows over these links, named as often as one likes.
    pub(super) fn new(mut links: Vec<u32>) -> OwnLinks {
        links.sort_unstable();
        links.dedup();
        OwnLinks { active: vec![0; links.len()].into_boxed_slice(), links: links.into_boxed_slice() }
    }

    /// True when the job was not on this link.
    fn enter(&mut self, link: u32) -> bool {
        let Ok(at) = self.links.binary_search(&link) else { return false };
        self.active[at] += 1;
        self.active[at] == 1
    }

    /// True when the job is no longer on this link.
    fn leave(&mut self, link: u32) -> bool {
        let Ok(at) = self.links.binary_search(&link) else { return false };
        self.active[at] -= 1;
        self.active[at] == 0
    }
}
