//! A hand-driven world: few flows, max–min by repeated filling, events one after the other. Slow and plain; the real
//! engine is elsewhere, and these tests do not need it.

use sluice_scenario::settings::TimeMode;
use sluice_scenario::workload::{Queue, Started, arrival_order, round_flows};
use sluice_scenario::{CrossFlow, Scenario};
use sluice_schedule::Nanos;

use crate::scheduler::{Change, Orders, Scheduler};
use crate::world::{Flow, FlowIx, FlowPhase, JobIx, JobPhase, JobState, Predecessor, World};

/// A scheduler that orders nothing.
pub struct Plain;

impl Scheduler for Plain {
    fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
}

/// A world and what is to come.
pub struct Mini<'a> {
    pub world: World<'a>,
    pub orders: Orders,
    queue: Queue<'a>,
    arrivals: Vec<usize>,
    cross: Vec<(CrossFlow, Option<FlowIx>, bool)>,
    changes: Vec<Change>,
    faults: Vec<(Nanos, bool, usize)>,
}

const DONE: f64 = 1e-3;

impl<'a> Mini<'a> {
    pub fn new(scenario: &'a Scenario) -> Mini<'a> {
        let mut arrivals = arrival_order(scenario);
        arrivals.reverse();
        let mut faults: Vec<(Nanos, bool, usize)> = Vec::new();
        for (n, fault) in scenario.faults.iter().enumerate() {
            faults.push((fault.at, false, n));
            if let Some(lasts) = fault.lasts {
                faults.push((fault.at.plus(lasts), true, n));
            }
        }
        faults.sort_by_key(|(at, over, n)| std::cmp::Reverse((*at, *over, *n)));
        let world = World {
            scenario,
            now: Nanos::ZERO,
            capacity: scenario.network.links.iter().map(|l| l.rate.0 as f64 / 8.0).collect(),
            jobs: vec![JobState::default(); scenario.jobs.len()],
            flows: Vec::new(),
            running: Vec::new(),
            fluid: Default::default(),
        };
        let cross = scenario.cross_flows.iter().map(|flow| (flow.clone(), None, false)).collect();
        let (queue, orders, changes) = (Queue::new(scenario), Orders::default(), Vec::new());
        Mini { world, orders, queue, arrivals, cross, changes, faults }
    }

    /// Runs until every job has ended, or `end`; JCTs in seconds by job, infinite for those that have not ended.
    pub fn run(&mut self, scheduler: &mut dyn Scheduler, end: Nanos) -> Vec<f64> {
        let slots = self.world.scenario.time.mode != TimeMode::Event;
        let slot = self.world.scenario.time.slot;
        loop {
            self.instant(slots);
            let edge = self.world.now.0.is_multiple_of(slot.0);
            if edge {
                self.changes.push(Change::SlotEdge);
            }
            let woken = scheduler.wake().is_some_and(|at| at <= self.world.now);
            if (edge || !slots && !self.changes.is_empty()) || woken {
                let changes = std::mem::take(&mut self.changes);
                scheduler.decide(&self.world, &changes, &mut self.orders);
                self.forget(&changes);
            }
            self.share();
            if self.world.jobs.iter().all(|job| job.ended.is_some()) || self.world.now >= end {
                break;
            }
            self.advance(self.next(scheduler.wake(), slot).min(end));
        }
        let scenario = self.world.scenario;
        let jct = |(job, state): (&sluice_scenario::Job, &JobState)| {
            state.ended.map_or(f64::INFINITY, |at| at.minus(job.arrival).as_secs_f64())
        };
        scenario.jobs.iter().zip(&self.world.jobs).map(jct).collect()
    }

    /// Flows of jobs that ended were told; their places stay unused.
    fn forget(&mut self, told: &[Change]) {
        for change in told {
            if let Change::JobEnded(job) = change {
                let range = self.world.jobs[job.0].flows.clone();
                self.world.flows[range].iter_mut().for_each(|flow| (flow.job, flow.phase) = (None, FlowPhase::Idle));
            }
        }
    }

    fn instant(&mut self, slots: bool) {
        let now = self.world.now;
        while self.faults.last().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, over, n)) = self.faults.pop() else { break };
            self.changes.push(Change::Fault { fault: self.world.scenario.faults[n].clone(), over });
        }
        let mut again = true;
        while std::mem::take(&mut again) {
            for ix in 0..self.world.flows.len() {
                let flow = &mut self.world.flows[ix];
                if flow.phase == FlowPhase::Active && flow.job.is_some() && flow.bytes - flow.sent < DONE {
                    (flow.sent, flow.phase, flow.rate) = (flow.bytes, FlowPhase::Done, 0.0);
                    self.changes.push(Change::FlowEnded(FlowIx(ix)));
                    again = true;
                }
            }
            for at in 0..self.world.running.len() {
                again |= self.end_round(self.world.running[at]);
            }
            self.world.running.retain(|job| self.world.jobs[job.0].ended.is_none());
            while self.arrivals.last().is_some_and(|&job| self.world.scenario.jobs[job].arrival <= now) {
                let Some(job) = self.arrivals.pop() else { break };
                self.queue.enter(job);
            }
            for started in self.queue.serve() {
                self.start(started);
                again = true;
            }
            for at in 0..self.world.running.len() {
                again |= self.begin_round(self.world.running[at]);
            }
            let edge = now.0.is_multiple_of(self.world.scenario.time.slot.0);
            for ix in 0..self.world.flows.len() {
                let flow = &self.world.flows[ix];
                let fed = flow.preds.iter().all(|p| !p.after || self.world.flows[p.flow.0].phase == FlowPhase::Done);
                if flow.phase == FlowPhase::Waiting && fed && (!slots || edge) {
                    self.world.flows[ix].phase = FlowPhase::Active;
                    self.changes.push(Change::FlowActive(FlowIx(ix)));
                    again = true;
                }
            }
        }
        self.cross_flows();
    }

    fn cross_flows(&mut self) {
        let now = self.world.now;
        for (cross, place, over) in &mut self.cross {
            if place.is_none() && cross.start <= now {
                let path = self.world.scenario.path("", "cross", cross.src, cross.dst).unwrap_or_default();
                let (src, dst) = (cross.src, cross.dst);
                let flow = Flow { src, dst, path, bytes: f64::INFINITY, phase: FlowPhase::Active, ..Flow::default() };
                self.world.flows.push(flow);
                *place = Some(FlowIx(self.world.flows.len() - 1));
                self.changes.extend(place.map(Change::CrossBegan));
            }
            if let Some(ix) = *place
                && !*over
                && cross.end <= now
            {
                *over = true;
                self.world.flows[ix.0].phase = FlowPhase::Done;
                self.changes.push(Change::CrossEnded(ix));
            }
        }
    }

    fn start(&mut self, started: Started) {
        let job = JobIx(started.job);
        let facts = &self.world.scenario.jobs[job.0];
        let all = round_flows(facts, &started.placement);
        let first = self.world.flows.len();
        let mut places = vec![None; all.len()];
        let moving = places.iter_mut().zip(&all).filter(|(_, flow)| !flow.local());
        for (next, (place, _)) in (first..).zip(moving) {
            *place = Some(FlowIx(next));
        }
        for flow in all.iter().filter(|flow| !flow.local()) {
            let preds = flow.preds.iter().filter_map(|pred| {
                let ratio = flow.bytes as f64 / all[pred.flow].bytes as f64;
                Some(Predecessor { flow: places[pred.flow]?, after: pred.after, lead: pred.lead as f64, ratio })
            });
            let path = self.world.scenario.path(&facts.id, &flow.name, flow.src, flow.dst).unwrap_or_default();
            self.world.flows.push(Flow {
                job: Some(job),
                name: flow.name.clone(),
                ends: Some((flow.from, flow.to)),
                src: flow.src,
                dst: flow.dst,
                path,
                bytes: flow.bytes as f64,
                preds: preds.collect(),
                ..Flow::default()
            });
        }
        let state = &mut self.world.jobs[job.0];
        state.flows = first..self.world.flows.len();
        state.placement = started.placement;
        state.started = Some(self.world.now);
        state.phase = JobPhase::Computing(self.world.now.plus(facts.compute));
        self.world.running.push(job);
        self.changes.push(Change::JobStarted(job));
    }

    fn begin_round(&mut self, job: JobIx) -> bool {
        let now = self.world.now;
        let state = &mut self.world.jobs[job.0];
        if !matches!(state.phase, JobPhase::Computing(until) if until <= now) {
            return false;
        }
        (state.phase, state.round_began) = (JobPhase::Communicating, Some(now));
        for flow in &mut self.world.flows[state.flows.clone()] {
            (flow.sent, flow.phase) = (0.0, FlowPhase::Waiting);
        }
        self.changes.push(Change::RoundBegan(job));
        true
    }

    fn end_round(&mut self, job: JobIx) -> bool {
        let state = &mut self.world.jobs[job.0];
        let over = |flow: &Flow| flow.phase == FlowPhase::Done;
        if state.phase != JobPhase::Communicating || !self.world.flows[state.flows.clone()].iter().all(over) {
            return false;
        }
        state.rounds += 1;
        self.changes.push(Change::RoundEnded(job));
        let facts = &self.world.scenario.jobs[job.0];
        if state.rounds == u64::from(facts.iterations) {
            (state.phase, state.ended) = (JobPhase::Ended, Some(self.world.now));
            self.queue.release(job.0);
            self.changes.push(Change::JobEnded(job));
        } else {
            state.phase = JobPhase::Computing(self.world.now.plus(facts.compute));
        }
        true
    }

    fn tight(&self, flow: &Flow) -> impl Iterator<Item = f64> + '_ {
        let sent = flow.sent;
        let bound = flow.preds.clone().into_iter().filter(|pred| !pred.after);
        bound.filter_map(move |pred| {
            let by = &self.world.flows[pred.flow.0];
            let at_bound = sent >= pred.lead + pred.ratio * by.sent - 1.0;
            (at_bound && by.phase != FlowPhase::Done).then_some(pred.ratio * by.rate)
        })
    }

    /// Max–min under the caps; flows at their bound are capped at their predecessor's rate, until nothing moves.
    fn share(&mut self) {
        let active: Vec<usize> =
            (0..self.world.flows.len()).filter(|&ix| self.world.flows[ix].phase == FlowPhase::Active).collect();
        let caps: Vec<f64> = active.iter().map(|&ix| self.orders.get(FlowIx(ix)).cap).collect();
        self.world.flows.iter_mut().for_each(|flow| flow.rate = f64::INFINITY);
        for _ in 0..4 * active.len() + 4 {
            let bounded: Vec<f64> = active
                .iter()
                .zip(&caps)
                .map(|(&ix, cap)| self.tight(&self.world.flows[ix]).fold(*cap, f64::min))
                .collect();
            let rates = self.fill(&active, &bounded);
            let mut moved = false;
            for (&ix, rate) in active.iter().zip(rates) {
                moved |= (self.world.flows[ix].rate - rate).abs() > 1e-6 * rate.max(1.0);
                self.world.flows[ix].rate = rate;
            }
            if !moved {
                break;
            }
        }
        self.world.flows.iter_mut().filter(|f| f.phase != FlowPhase::Active).for_each(|f| f.rate = 0.0);
    }

    fn fill(&self, active: &[usize], caps: &[f64]) -> Vec<f64> {
        let mut rates = vec![0.0; active.len()];
        let mut left = self.world.capacity.clone();
        let mut rising: Vec<usize> = (0..active.len()).collect();
        while !rising.is_empty() {
            let mut on = vec![0_u32; left.len()];
            rising.iter().flat_map(|&n| &self.world.flows[active[n]].path).for_each(|l| on[l.0] += 1);
            let shares = left.iter().zip(&on).filter(|(_, on)| **on > 0).map(|(left, on)| left / f64::from(*on));
            let step = shares.chain(rising.iter().map(|&n| caps[n] - rates[n])).fold(f64::INFINITY, f64::min).max(0.0);
            for &n in &rising {
                rates[n] += step;
                self.world.flows[active[n]].path.iter().for_each(|l| left[l.0] -= step);
            }
            let full = |l: &sluice_scenario::LinkIx| left[l.0] <= 1.0;
            rising.retain(|&n| caps[n] - rates[n] > 1e-3 && !self.world.flows[active[n]].path.iter().any(full));
        }
        rates
    }

    /// When the rates may change next.
    fn next(&self, wake: Option<Nanos>, slot: Nanos) -> Nanos {
        let now = self.world.now;
        let mut next = Nanos((now.0 / slot.0 + 1) * slot.0);
        let mut soonest = |at: Nanos| next = next.min(at.max(now.plus(Nanos(1))));
        wake.into_iter().for_each(&mut soonest);
        self.faults.last().into_iter().for_each(|(at, ..)| soonest(*at));
        self.arrivals.last().into_iter().for_each(|&job| soonest(self.world.scenario.jobs[job].arrival));
        for (cross, place, over) in &self.cross {
            if !*over {
                soonest(if place.is_none() { cross.start } else { cross.end });
            }
        }
        for job in &self.world.running {
            if let JobPhase::Computing(until) = self.world.jobs[job.0].phase {
                soonest(until);
            }
        }
        for flow in self.world.flows.iter().filter(|flow| flow.phase == FlowPhase::Active) {
            let mut seconds = flow.remaining() / flow.rate;
            for pred in flow.preds.iter().filter(|pred| !pred.after) {
                let by = &self.world.flows[pred.flow.0];
                let (gap, closing) = (pred.lead + pred.ratio * by.sent - flow.sent, flow.rate - pred.ratio * by.rate);
                if by.phase != FlowPhase::Done && closing > 1.0 && gap > 1.0 {
                    seconds = seconds.min(gap / closing);
                }
            }
            if seconds.is_finite() {
                soonest(now.plus(Nanos((seconds * 1e9).ceil() as u64)));
            }
        }
        next
    }

    fn advance(&mut self, to: Nanos) {
        let seconds = to.minus(self.world.now).as_secs_f64();
        for flow in self.world.flows.iter_mut().filter(|flow| flow.phase == FlowPhase::Active) {
            flow.sent = (flow.sent + flow.rate * seconds).min(flow.bytes);
        }
        self.world.now = to;
    }
}
