//! Flows that begin, end, reach bounds and marks; cross traffic.

use sluice_scenario::CrossFlow;
use sluice_scenario::settings::TimeMode;
use sluice_share::Path;

use super::{Engine, FlowState};
use crate::fluid::Moving;
use crate::scheduler::Change;
use crate::world::{Flow, FlowIx, FlowPhase, JobIx};

impl Engine<'_> {
    /// Step 1 of an instant: flows that have delivered everything end. Bounds, marks and holds that are due, too.
    pub(super) fn flows_due(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        self.world.fluid.due(self.now, &mut due);
        due.sort_unstable_by_key(|&slot| self.flow_states[slot as usize].serial);
        // Twice, so that a flow behind a flow that was put back is put back with it.
        for _ in 0..2 {
            for &slot in &due {
                if !self.world.fluid.has_ended(slot, self.now) {
                    self.world.fluid.snap(slot, self.now);
                }
            }
        }
        for &slot in &due {
            self.log.events += 1;
            if self.world.fluid.has_ended(slot, self.now) {
                self.flow_ended(slot);
            } else if self.world.fluid.flows[slot as usize].stops <= self.now {
                self.cross_ended(slot);
            } else {
                if self.world.fluid.passes(slot, self.now) {
                    let flow = FlowIx(slot as usize);
                    self.orders.unmark(flow);
                    self.world.fluid.flows[slot as usize].mark = f64::INFINITY;
                    self.changes.flow(self.flow_states[slot as usize].serial, Change::Passed(flow));
                }
                self.world.fluid.network.touch(slot);
            }
        }
        while let Some(job) = self.marks.pop(self.now) {
            let job = JobIx(job as usize);
            self.log.events += 1;
            self.orders.unmark_job(job);
            self.changes.job(self.rank[job.0], Change::JobPassed(job));
        }
        if self.mode != TimeMode::Event && !self.now.is_multiple_of(self.slot) {
            let began = self.clock.begin();
            self.hold_to_bounds(&due);
            self.clock.shared(began);
        }
        self.due = due;
    }

    /// Inside a slot rates hold, except that nobody goes past what it depends on.
    fn hold_to_bounds(&mut self, due: &[u32]) {
        for &slot in due {
            if let Some(job) = self.world.flows[slot as usize].job {
                self.world.fluid.relax(self.world.jobs[job.0].flows.clone(), self.now);
            }
            if self.world.fluid.flows[slot as usize].on {
                self.world.fluid.plan(slot, self.now);
            }
        }
    }

    /// A flow delivered its last byte of this round.
    fn flow_ended(&mut self, slot: u32) {
        let at = slot as usize;
        self.log.flow_ends += 1;
        self.halt_flow(slot, true);
        self.changes.flow(self.flow_states[at].serial, Change::FlowEnded(FlowIx(at)));
        for i in 0..self.flow_states[at].afters.len() {
            let next = self.flow_states[at].afters[i];
            let awaited = &mut self.flow_states[next as usize].awaited;
            *awaited -= 1;
            if *awaited == 0 && self.world.flows[next as usize].phase == FlowPhase::Waiting {
                self.ready.push(next);
            }
        }
        if let Some(job) = self.world.flows[at].job {
            let open = &mut self.jobs[job.0].open;
            *open -= 1;
            if *open == 0 {
                self.over.push_back(job);
            }
        }
    }

    /// Takes a flow off the network, complete or as far as it got.
    pub(super) fn halt_flow(&mut self, slot: u32, complete: bool) {
        let at = slot as usize;
        if complete {
            self.world.fluid.flows[at].sent = self.world.fluid.flows[at].bytes;
            self.world.fluid.flows[at].at = self.now;
        }
        self.leave_links(slot);
        self.world.fluid.stop(slot, self.now, complete);
        self.trace(at, 0.0);
        let seen = &mut self.world.flows[at];
        seen.phase = if complete { FlowPhase::Done } else { FlowPhase::Idle };
        (seen.sent, seen.rate) = (self.world.fluid.flows[at].sent, 0.0);
        if seen.job.is_some() {
            self.log.active.step(self.now, -1);
        }
    }

    pub(super) fn begin_flow(&mut self, slot: u32) {
        let at = slot as usize;
        self.log.events += 1;
        self.world.flows[at].phase = FlowPhase::Active;
        self.world.fluid.start(slot, self.now);
        self.flow_states[at].counted = 0.0;
        self.enter_links(slot);
        if self.world.flows[at].job.is_some() {
            self.log.active.step(self.now, 1);
            self.changes.flow(self.flow_states[at].serial, Change::FlowActive(FlowIx(at)));
        }
    }

    /// For the figures: a flow is on its links from now on.
    pub(super) fn enter_links(&mut self, slot: u32) {
        let own = self.world.flows[slot as usize].job.map(|j| &mut self.jobs[j.0].links);
        self.log.flow_on(self.world.fluid.network.path(slot), own, self.now);
    }

    /// For the figures: it is not, and this is what it delivered over them.
    pub(super) fn leave_links(&mut self, slot: u32) {
        let sent = self.world.fluid.flows[slot as usize].sent_at(self.now);
        let own = self.world.flows[slot as usize].job.map(|j| &mut self.jobs[j.0].links);
        let before = std::mem::replace(&mut self.flow_states[slot as usize].counted, sent);
        self.log.flow_off(self.world.fluid.network.path(slot), own, sent - before, self.now);
    }

    /// Puts a flow into a place, with the default order.
    pub(super) fn put(&mut self, slot: usize, flow: Flow, moving: Moving, path: Path, state: FlowState) {
        if self.world.flows.len() <= slot {
            self.world.flows.resize_with(slot + 1, Flow::default);
            self.flow_states.resize_with(slot + 1, FlowState::default);
        }
        self.world.flows[slot] = flow;
        self.flow_states[slot] = FlowState { serial: self.serial, ..state };
        self.serial += 1;
        self.world.fluid.put(slot as u32, moving, path);
        self.orders.reset(FlowIx(slot));
        self.order(FlowIx(slot));
    }

    /// Cross traffic whose time has come.
    pub(super) fn cross_begins(&mut self) {
        while self.cross.peek().is_some_and(|c| c.start.0 <= self.now) {
            if let Some(cross) = self.cross.next() {
                self.begin_cross(&cross);
            }
        }
    }

    fn begin_cross(&mut self, cross: &CrossFlow) {
        let name = format!("cross{}", self.crossed);
        self.crossed += 1;
        let Some(path) = self.router.path("cross", &name, cross.src, cross.dst) else { return };
        if cross.end.0 <= self.now || path.is_empty() {
            return;
        }
        let own_cap = cross.rate.map_or(f64::INFINITY, |r| r.0 as f64 / 8.0);
        let links = self.world.fluid.network.path_of(path.iter().map(|l| l.0 as u32));
        let range = self.slots.take(1);
        let slot = range.start;
        let loss = super::round::loss_on(self.scenario, &path);
        let moving = Moving { bytes: f64::INFINITY, keep: 1.0, stops: cross.end.0, ..Moving::default() };
        let seen = Flow { name, src: cross.src, dst: cross.dst, path, bytes: f64::INFINITY, loss, ..Flow::default() };
        self.put(slot, seen, moving, links, FlowState { own_cap, ..FlowState::default() });
        self.crossing.push(slot as u32);
        self.begin_flow(slot as u32);
        self.changes.flow(self.flow_states[slot].serial, Change::CrossBegan(FlowIx(slot)));
    }

    fn cross_ended(&mut self, slot: u32) {
        self.halt_flow(slot, false);
        self.crossing.retain(|&c| c != slot);
        self.changes.flow(self.flow_states[slot as usize].serial, Change::CrossEnded(FlowIx(slot as usize)));
        self.freed.push((None, slot as usize..slot as usize + 1));
    }
}
