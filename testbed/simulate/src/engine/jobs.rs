//! A job's life: it gets its hosts, computes, communicates, and so on until its last round ends.

use sluice_scenario::Placement;
use sluice_scenario::settings::TimeMode;
use sluice_schedule::Nanos;

use super::{Engine, FlowState, compute, round};
use crate::error::SimError;
use crate::fluid::{Dep, Moving};
use crate::log::{OwnLinks, Round};
use crate::scheduler::{Change, Rounds};
use crate::world::{FlowPhase, JobIx, JobPhase, Predecessor};

/// What the engine knows about a job beyond the world.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    /// Flows of the round under way that have not ended.
    pub(super) open: u32,
    /// When the compute phase of this iteration began and ends.
    compute: (u64, u64),
    /// The round of this iteration is over; its compute, which overlaps it, is not.
    resting: bool,
    /// The links its flows use.
    pub(super) links: OwnLinks,
}

impl Engine<'_> {
    /// A job got its GPUs: its flows are made, its first compute phase begins.
    pub(super) fn start_job(&mut self, job: JobIx, placement: Placement) -> Result<(), SimError> {
        let spec = &self.scenario.jobs[job.0];
        let mut flows =
            |how| round::network_flows(self.scenario, spec, &placement, how, self.efficiency, &mut self.router);
        let made = flows(self.how)?;
        // Alone means alone under equal sharing, whatever this scheduler makes of a round.
        let alone = match self.how {
            Rounds::AsTheJobSays => None,
            Rounds::Staged { .. } => Some(flows(Rounds::AsTheJobSays)?),
        };
        let pieces: Vec<_> = alone.as_ref().unwrap_or(&made).iter().map(|(_, p)| p.clone()).collect();
        let isolated = self.alone.round(&pieces, &self.world.capacity);
        let log = &mut self.log.jobs[job.0];
        log.started = Some(Nanos(self.now));
        log.placement = placement.clone();
        log.flows = made.len();
        log.isolated_round = Nanos(isolated);
        log.isolated_run = Nanos(compute::isolated_run(self.scenario.seed, spec, isolated));
        self.log.running.step(self.now, 1);
        let range = self.slots.take(made.len());
        let first = range.start as u32;
        let mut afters: Vec<Vec<u32>> = vec![Vec::new(); made.len()];
        let mut succs: Vec<Vec<u32>> = vec![Vec::new(); made.len()];
        for (i, (_, piece)) in made.iter().enumerate() {
            for dep in &piece.deps {
                let list = if dep.after { &mut afters } else { &mut succs };
                list[dep.pred as usize].push(first + i as u32);
            }
        }
        self.jobs[job.0].links = OwnLinks::new(made.iter().flat_map(|(_, p)| p.path.iter().copied()).collect());
        for ((i, (mut seen, piece)), (afters, succs)) in made.into_iter().enumerate().zip(afters.into_iter().zip(succs))
        {
            let path = self.world.fluid.network.path_of(piece.path.iter().copied());
            let preds: Box<[Dep]> = piece.deps.iter().map(|d| Dep { pred: first + d.pred, ..*d }).collect();
            seen.job = Some(job);
            seen.preds = preds.iter().map(Predecessor::of).collect();
            let predecessors = piece.deps.iter().filter(|d| d.after).count() as u32;
            let (bytes, keep, succs) = (piece.bytes, piece.keep, succs.into_boxed_slice());
            let moving = Moving { bytes, keep, preds, succs, ..Moving::default() };
            let flow_state = FlowState { afters: afters.into_boxed_slice(), predecessors, ..FlowState::default() };
            self.put(range.start + i, seen, moving, path, flow_state);
        }
        let state = &mut self.world.jobs[job.0];
        state.placement = placement;
        state.started = Some(Nanos(self.now));
        state.flows = range;
        state.compute_s = spec.compute.as_secs_f64();
        state.isolated_round_s = Nanos(isolated).as_secs_f64();
        let rank = self.rank[job.0];
        let at = self.world.running.partition_point(|j| self.rank[j.0] < rank);
        self.world.running.insert(at, job);
        self.changes.job(rank, Change::JobStarted(job));
        self.compute(job);
        Ok(())
    }

    fn compute(&mut self, job: JobIx) {
        let spec = &self.scenario.jobs[job.0];
        let length = compute::length(self.scenario.seed, spec, self.world.jobs[job.0].rounds);
        let begins = self.now.saturating_add(compute::before_round(spec, length));
        let (begins, ends) = (self.on_grid(begins), self.on_grid(self.now.saturating_add(length)));
        self.jobs[job.0].compute = (self.now, ends);
        self.jobs[job.0].resting = false;
        self.world.jobs[job.0].phase = JobPhase::Computing(Nanos(begins));
        self.timers.set(job.0 as u32, begins);
    }

    /// In paper-slot mode compute phases end at slot edges.
    fn on_grid(&self, time: u64) -> u64 {
        if self.mode == TimeMode::PaperSlot { time.div_ceil(self.slot).saturating_mul(self.slot) } else { time }
    }

    /// The part of a compute phase that a timer was set for is over.
    pub(super) fn compute_over(&mut self, job: JobIx) {
        self.log.events += 1;
        if self.jobs[job.0].resting {
            return self.iterate(job);
        }
        let state = &mut self.world.jobs[job.0];
        state.phase = JobPhase::Communicating;
        state.round_began = Some(Nanos(self.now));
        let range = state.flows.clone();
        self.changes.job(self.rank[job.0], Change::RoundBegan(job));
        self.jobs[job.0].open = range.len() as u32;
        if range.is_empty() {
            self.over.push_back(job);
        }
        for slot in range.clone() {
            self.world.fluid.rewind(slot as u32, self.now);
            let seen = &mut self.world.flows[slot];
            (seen.phase, seen.sent, seen.rate) = (FlowPhase::Waiting, 0.0, 0.0);
            let state = &mut self.flow_states[slot];
            state.awaited = state.predecessors;
        }
        for slot in range {
            if self.flow_states[slot].awaited == 0 {
                self.ready.push(slot as u32);
            }
        }
    }

    /// The last flow of a round has ended.
    pub(super) fn round_over(&mut self, job: JobIx) {
        let state = &mut self.world.jobs[job.0];
        let began = state.round_began.take().unwrap_or(Nanos(self.now));
        state.rounds += 1;
        let (from, ends) = self.jobs[job.0].compute;
        self.log.jobs[job.0].rounds.push(Round { compute: Nanos(from), began, ended: Nanos(self.now) });
        for slot in state.flows.clone() {
            self.world.flows[slot].phase = FlowPhase::Idle;
            self.orders.unmark(super::FlowIx(slot));
        }
        self.orders.unmark_job(job);
        self.marks.remove(job.0 as u32);
        self.changes.job(self.rank[job.0], Change::RoundEnded(job));
        if ends > self.now {
            self.jobs[job.0].resting = true;
            self.world.jobs[job.0].phase = JobPhase::Computing(Nanos(ends));
            self.timers.set(job.0 as u32, ends);
        } else {
            self.iterate(job);
        }
    }

    /// Compute and round of an iteration are over: the next one, or the end.
    fn iterate(&mut self, job: JobIx) {
        if self.world.jobs[job.0].rounds < u64::from(self.scenario.jobs[job.0].iterations) {
            return self.compute(job);
        }
        let state = &mut self.world.jobs[job.0];
        state.phase = JobPhase::Ended;
        state.ended = Some(Nanos(self.now));
        self.log.jobs[job.0].ended = Some(Nanos(self.now));
        self.log.running.step(self.now, -1);
        self.ended += 1;
        let rank = self.rank[job.0];
        let at = self.world.running.partition_point(|j| self.rank[j.0] < rank);
        self.world.running.remove(at);
        self.freed.push((Some(job), state.flows.clone()));
        self.changes.job(rank, Change::JobEnded(job));
        self.left.push(job);
    }

    /// Gives back the GPUs of jobs that have ended; true if there were any.
    pub(super) fn jobs_left(&mut self) -> bool {
        let any = !self.left.is_empty();
        for job in self.left.drain(..) {
            self.queue.release(job.0);
        }
        any
    }

    /// For the figures: the job's active flows leave their links, because one of them will go another way.
    pub(super) fn leave_all_links(&mut self, job: JobIx) {
        for slot in self.world.jobs[job.0].flows.clone() {
            if self.world.fluid.flows[slot].on {
                self.leave_links(slot as u32);
            }
        }
    }

    /// And they are back, over the links they have now.
    pub(super) fn enter_all_links(&mut self, job: JobIx) {
        let slots = self.world.jobs[job.0].flows.clone();
        let links = slots.clone().flat_map(|s| self.world.fluid.network.path(s as u32).iter().copied()).collect();
        self.jobs[job.0].links = OwnLinks::new(links);
        for slot in slots {
            if self.world.fluid.flows[slot].on {
                self.enter_links(slot as u32);
            }
        }
    }
}
