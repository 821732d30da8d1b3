//! The simulation itself: virtual time jumps from instant to instant; at each the things of `simulation.md` section 3.1
//! happen in their order, then the scheduler is asked, then rates are computed once.
//!
//! | module | is |
//! | --- | --- |
//! | [`jobs`] | a job's life: start, compute, round, end |
//! | [`flows`] | flows that begin, end, reach bounds and marks; cross traffic |
//! | [`ask`] | the scheduler: what it is told and how its orders take effect |
//! | [`alone`] | how long a round takes without others |
//! | [`frozen`] | hosts assigned as if every job ended at its isolated run time |

mod alone;
mod ask;
mod changes;
mod compute;
mod flows;
mod frozen;
mod jobs;
mod round;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Range;

use sluice_scenario::route::Router;
use sluice_scenario::settings::TimeMode;
use sluice_scenario::workload::{CrossEvents, Queue, arrival_order};
use sluice_scenario::{Fault, Scenario};
use sluice_schedule::Nanos;

use self::alone::Alone;
use self::changes::Changes;
use self::jobs::Running;
use self::slots::Slots;
use super::error::SimError;
use super::fluid::{Agenda, Fluid, Grid, NEVER};
use super::log::{JobLog, LinkLog, Outcome, Timeline};
use super::profile::Stopwatch;
use super::scheduler::{Change, Orders, Rounds, Scheduler};
use super::watch::Watch;
use super::world::{FlowIx, JobIx, JobState, World};

/// Events between two looks at the watch.
const LOOK: u64 = 4096;
/// Calls of the scheduler, with nothing else in the future, after which a simulation counts as stalled.
const PATIENCE: u64 = 10_000;

/// Runs a scenario under a scheduler to its end.
///
/// # Errors
/// [`SimError`]: a stall, a limit, or a stop through `watch`.
pub fn run(scenario: &Scenario, scheduler: &mut dyn Scheduler, watch: &Watch) -> Result<Outcome, SimError> {
    run_with(scenario, scheduler, watch, false)
}

/// As [`run`]; with `whole`, every change shares out the whole network anew, which must give the same.
pub(super) fn run_with(
    scenario: &Scenario,
    scheduler: &mut dyn Scheduler,
    watch: &Watch,
    whole: bool,
) -> Result<Outcome, SimError> {
    let frozen = if scenario.placement.freeze { Some(frozen::assign(scenario)?) } else { None };
    let mut engine = Engine::new(scenario, frozen.as_ref().unwrap_or(scenario), scheduler);
    if whole {
        engine.world.fluid.network.share_whole();
    }
    engine.clock = Stopwatch::new(watch.profiles());
    engine.run(scheduler, watch)?;
    engine.log.counters = scheduler.counters();
    engine.log.decisions = scheduler.decision_times().to_vec();
    engine.log.profile = engine.clock.profile();
    Ok(engine.log)
}

/// What the engine knows of a flow beyond the world and the fluid.
#[derive(Clone, Debug)]
struct FlowState {
    /// Number of the flow in the order of creation.
    serial: u64,
    /// Flows that begin after this one.
    afters: Box<[u32]>,
    /// How many flows this one begins after.
    predecessors: u32,
    /// How many of those have not ended in this round.
    awaited: u32,
    /// Bytes it had delivered when it went over to its present path.
    counted: f64,
    /// What it can send at most whatever the scheduler says (cross traffic with a rate).
    own_cap: f64,
}

impl Default for FlowState {
    fn default() -> FlowState {
        FlowState {
            serial: 0,
            afters: Box::default(),
            predecessors: 0,
            awaited: 0,
            counted: 0.0,
            own_cap: f64::INFINITY,
        }
    }
}

/// A fault begins or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FaultEdge {
    /// Virtual time, ns.
    at: u64,
    over: bool,
    /// Its index in the scenario.
    fault: usize,
}

struct Engine<'a> {
    scenario: &'a Scenario,
    world: World<'a>,
    orders: Orders,
    queue: Queue<'a>,
    router: Router<'a>,
    alone: Alone,
    how: Rounds,
    efficiency: f64,
    flow_states: Vec<FlowState>,
    slots: Slots,
    serial: u64,
    jobs: Vec<Running>,
    timers: Agenda,
    /// Jobs with a mark: when the sum of their flows reaches it.
    marks: Agenda,
    /// Jobs in order of arrival, how many of them have entered the queue, and each job's place in that order.
    arrivals: Vec<usize>,
    entered: usize,
    rank: Vec<u32>,
    cross: Peekable<CrossEvents>,
    crossing: Vec<u32>,
    crossed: u64,
    /// Begins and ends of faults, in order.
    faults: VecDeque<FaultEdge>,
    changes: Changes,
    /// Places of jobs and cross flows that have gone, free once the scheduler was told.
    freed: Vec<(Option<JobIx>, Range<usize>)>,
    /// Rounds whose last flow has ended; flows whose predecessors have.
    over: VecDeque<JobIx>,
    ready: Vec<u32>,
    /// Jobs that have ended and still hold their GPUs.
    left: Vec<JobIx>,
    due: Vec<u32>,
    marked: Vec<JobIx>,
    told: Vec<FlowIx>,
    now: u64,
    slot: u64,
    mode: TimeMode,
    edge: u64,
    wake: u64,
    /// The scheduler has put a managed flow into a class of its own.
    classes: bool,
    ended: usize,
    idle: u64,
    log: Outcome,
    clock: Stopwatch,
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario, placed: &'a Scenario, scheduler: &dyn Scheduler) -> Engine<'a> {
        let capacity: Vec<f64> = scenario.network.links.iter().map(|l| l.rate.0 as f64 / 8.0).collect();
        let slot = scenario.time.slot.0.max(1);
        let grid = Grid { ends_at: (scenario.time.mode == TimeMode::PaperSlot).then_some(slot) };
        let arrivals = arrival_order(scenario);
        let mut rank = vec![0; arrivals.len()];
        for (place, &job) in arrivals.iter().enumerate() {
            rank[job] = place as u32;
        }
        let mut faults: Vec<FaultEdge> = Vec::new();
        for (fault, Fault { at, lasts, .. }) in scenario.faults.iter().enumerate() {
            faults.push(FaultEdge { at: at.0, over: false, fault });
            faults.extend(lasts.map(|l| FaultEdge { at: at.plus(l).0, over: true, fault }));
        }
        faults.sort_unstable();
        let jobs = scenario.jobs.len();
        let log = Outcome {
            jobs: scenario.jobs.iter().map(|j| JobLog { arrival: j.arrival, ..JobLog::default() }).collect(),
            links: vec![LinkLog::default(); scenario.network.links.len()],
            timeline: scenario.output.timeline.then(Timeline::default),
            ..Outcome::default()
        };
        let world = World {
            scenario,
            now: Nanos::ZERO,
            fluid: Fluid::new(capacity.iter().copied(), grid),
            capacity,
            jobs: vec![JobState::default(); jobs],
            flows: Vec::new(),
            running: Vec::new(),
        };
        Engine {
            scenario,
            world,
            orders: Orders::default(),
            queue: Queue::new(placed),
            router: Router::new(&scenario.routing, &scenario.network, scenario.seed),
            alone: Alone::default(),
            how: scheduler.rounds(),
            efficiency: scheduler.efficiency().clamp(f64::MIN_POSITIVE, 1.0),
            flow_states: Vec::new(),
            slots: Slots::default(),
            serial: 0,
            jobs: vec![Running::default(); jobs],
            timers: Agenda::default(),
            marks: Agenda::default(),
            arrivals,
            entered: 0,
            rank,
            cross: CrossEvents::new(scenario).peekable(),
            crossing: Vec::new(),
            crossed: 0,
            faults: faults.into(),
            changes: Changes::default(),
            freed: Vec::new(),
            over: VecDeque::new(),
            ready: Vec::new(),
            left: Vec::new(),
            due: Vec::new(),
            marked: Vec::new(),
            told: Vec::new(),
            now: 0,
            slot,
            mode: scenario.time.mode,
            edge: 0,
            wake: NEVER,
            classes: false,
            ended: 0,
            idle: 0,
            log,
            clock: Stopwatch::default(),
        }
    }

    fn run(&mut self, scheduler: &mut dyn Scheduler, watch: &Watch) -> Result<(), SimError> {
        let end = self.scenario.time.end.map_or(NEVER, |e| e.0);
        let mut look = 0;
        loop {
            self.happen()?;
            self.ask(scheduler);
            if self.ended == self.jobs.len() {
                break;
            }
            if self.log.events >= look {
                look = self.log.events + LOOK;
                if watch.tell(self.log.events, self.now, self.ended as u64) {
                    return Err(SimError::Cancelled { at: Nanos(self.now), events: self.log.events });
                }
            }
            if self.log.events > self.scenario.time.max_events {
                return Err(SimError::Events { at: Nanos(self.now), events: self.log.events });
            }
            let next = self.next(scheduler)?;
            if next > end {
                self.now = self.now.max(end);
                break;
            }
            debug_assert!(next >= self.now);
            self.now = next;
        }
        watch.tell(self.log.events, self.now, self.ended as u64);
        self.finish();
        Ok(())
    }

    /// The next instant at which anything happens.
    fn next(&mut self, scheduler: &dyn Scheduler) -> Result<u64, SimError> {
        let work = self.world.fluid.next().min(self.timers.next()).min(self.marks.next()).min(self.next_arrival());
        let outside = self.cross.peek().map_or(NEVER, |c| c.start.0).min(self.faults.front().map_or(NEVER, |f| f.at));
        self.edge = self.next_edge(scheduler);
        // Unmanaged traffic and faults may go on for ever; they alone are no progress.
        let stuck = work == NEVER || (self.timers.next() == NEVER && self.next_arrival() == NEVER && !self.any_hope());
        self.idle = if stuck { self.idle + 1 } else { 0 };
        let asked = self.edge.min(self.wake);
        if stuck && (self.idle > PATIENCE || (asked == NEVER && work == NEVER && outside == NEVER)) {
            return Err(SimError::Stall { at: Nanos(self.now), jobs: self.in_rounds() });
        }
        Ok(work.min(outside).min(asked))
    }

    fn next_arrival(&self) -> u64 {
        let job = self.arrivals.get(self.entered).and_then(|&j| self.scenario.jobs.get(j));
        job.map_or(NEVER, |j| j.arrival.0.max(self.now))
    }

    /// True when a managed flow moves, or will when its hold ends.
    fn any_hope(&self) -> bool {
        let flows = || self.world.running.iter().flat_map(|j| self.world.jobs[j.0].flows.clone());
        flows().map(|f| &self.world.fluid.flows[f]).any(|f| f.on && (f.rate > 0.0 || f.hold > self.now))
    }

    fn in_rounds(&self) -> Vec<String> {
        let name = |j: &JobIx| self.scenario.jobs.get(j.0).map(|j| j.id.clone());
        let begun = |j: &&JobIx| self.world.jobs.get(j.0).is_some_and(|s| s.round_began.is_some());
        self.world.running.iter().filter(begun).filter_map(name).collect()
    }

    /// The next slot edge that matters: in the slot modes while anything waits for one, in event mode while jobs run and
    /// the scheduler wants to know.
    fn next_edge(&self, scheduler: &dyn Scheduler) -> u64 {
        let wanted = match self.mode {
            TimeMode::Event => scheduler.needs().edges && !self.world.running.is_empty(),
            TimeMode::Slot | TimeMode::PaperSlot => {
                self.world.fluid.active() > 0 && scheduler.needs().edges
                    || !self.changes.is_empty()
                    || self.world.fluid.network.is_dirty()
            }
        };
        if wanted { (self.now / self.slot + 1).saturating_mul(self.slot) } else { NEVER }
    }

    /// Everything of this instant, in order, until nothing changes.
    fn happen(&mut self) -> Result<(), SimError> {
        self.flows_due();
        loop {
            let mut quiet = true;
            while let Some(job) = self.over.pop_front() {
                quiet = false;
                self.round_over(job);
            }
            quiet &= !self.arrive()?;
            while let Some(job) = self.timers.pop(self.now) {
                quiet = false;
                self.compute_over(JobIx(job as usize));
            }
            for i in 0..self.ready.len() {
                self.begin_flow(self.ready[i]);
            }
            self.ready.clear();
            if quiet && self.over.is_empty() {
                break;
            }
        }
        self.cross_begins();
        while let Some(FaultEdge { over, fault, .. }) = self.faults.pop_front_if(|f| f.at <= self.now) {
            self.changes.other(Change::Fault { fault: self.scenario.faults[fault].clone(), over });
        }
        Ok(())
    }

    /// Jobs whose time has come enter the queue, and the queue is served; true if anything happened.
    fn arrive(&mut self) -> Result<bool, SimError> {
        let before = self.entered;
        while let Some(&job) = self.arrivals.get(self.entered) {
            if self.scenario.jobs.get(job).is_none_or(|j| j.arrival.0 > self.now) {
                break;
            }
            self.queue.enter(job);
            self.entered += 1;
            self.log.events += 1;
        }
        let freed = self.jobs_left();
        if self.entered == before && !freed {
            return Ok(false);
        }
        for started in self.queue.serve() {
            self.start_job(JobIx(started.job), started.placement)?;
        }
        Ok(true)
    }

    /// Virtual time is over: what is still under way is counted as far as it got.
    fn finish(&mut self) {
        for slot in 0..self.world.fluid.flows.len() as u32 {
            if self.world.fluid.flows[slot as usize].on {
                self.halt_flow(slot, false);
            }
        }
        self.log.close(self.now);
    }
}
