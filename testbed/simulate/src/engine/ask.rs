//! The scheduler: when it is asked, what it is shown, and how its orders take effect.

use sluice_scenario::LinkIx;
use sluice_scenario::settings::TimeMode;
use sluice_schedule::Nanos;

use super::Engine;
use crate::fluid::NEVER;
use crate::log::RateChange;
use crate::scheduler::{Change, Scheduler};
use crate::world::{FlowIx, JobIx};

impl Engine<'_> {
    /// Asks the scheduler if it is time to, and computes rates.
    pub(super) fn ask(&mut self, scheduler: &mut dyn Scheduler) {
        // Before the scheduler is asked: then the places of jobs that have ended are given away.
        self.count_stalls();
        let woken = self.wake <= self.now;
        let on_edge = self.now.is_multiple_of(self.slot);
        let edge = on_edge && (self.edge == self.now || self.mode != TimeMode::Event);
        let speaks = self.mode == TimeMode::Event || on_edge;
        if edge && scheduler.needs().edges && (self.world.fluid.active() > 0 || !self.world.running.is_empty()) {
            self.changes.other(Change::SlotEdge);
        }
        if woken && speaks {
            self.changes.other(Change::Woken);
        }
        if speaks {
            if !self.changes.is_empty() {
                self.decide(scheduler);
            }
            let began = self.clock.begin();
            self.world.fluid.share(self.now);
            self.clock.shared(began);
        } else if woken {
            // Between edges it may act on what it has heard; what changed is told at the edge.
            self.show(scheduler);
            let began = self.clock.begin();
            scheduler.decide(&self.world, &[Change::Woken], &mut self.orders);
            self.clock.decided(began);
            self.obey();
        }
        if woken || speaks {
            self.wake = scheduler.wake().map_or(NEVER, |w| if w.0 > self.now { w.0 } else { NEVER });
        }
        self.follow_marks();
    }

    fn decide(&mut self, scheduler: &mut dyn Scheduler) {
        self.show(scheduler);
        let changes = self.changes.take();
        let began = self.clock.begin();
        scheduler.decide(&self.world, changes, &mut self.orders);
        self.clock.decided(began);
        self.obey();
        for (job, range) in self.freed.drain(..) {
            if let Some(job) = job {
                self.world.jobs[job.0].flows = 0..0;
            }
            for slot in range.clone() {
                self.world.flows[slot] = Default::default();
            }
            self.slots.give_back(range);
        }
    }

    /// Brings what the scheduler sees up to date.
    fn show(&mut self, scheduler: &dyn Scheduler) {
        self.world.now = Nanos(self.now);
        if !scheduler.needs().progress {
            return;
        }
        for i in 0..self.world.running.len() {
            for slot in self.world.jobs[self.world.running[i].0].flows.clone() {
                self.show_flow(slot);
            }
        }
        for i in 0..self.crossing.len() {
            self.show_flow(self.crossing[i] as usize);
        }
    }

    fn show_flow(&mut self, slot: usize) {
        let flow = &self.world.fluid.flows[slot];
        if flow.on {
            let seen = &mut self.world.flows[slot];
            (seen.sent, seen.rate) = (flow.sent_at(self.now), flow.rate);
        }
    }

    /// Takes over the orders, marks and paths that the scheduler changed.
    fn obey(&mut self) {
        self.told.clear();
        let mut told = std::mem::take(&mut self.told);
        self.orders.swap_changed(&mut told);
        for &flow in &told {
            if flow.0 < self.world.fluid.flows.len() {
                self.order(flow);
            }
        }
        self.told = told;
        for (flow, path) in self.orders.take_routed() {
            self.route(flow, path);
        }
        self.orders.take_marked_jobs(&mut self.marked);
    }

    /// Gives a flow's order, or the default, to the fluid.
    pub(super) fn order(&mut self, flow: FlowIx) {
        let order = self.orders.get(flow);
        let managed = self.world.flows[flow.0].job.is_some();
        if managed && order.class > 0 && !self.classes {
            self.classes = true;
            for i in 0..self.crossing.len() {
                self.order(FlowIx(self.crossing[i] as usize));
            }
        }
        let own_cap = self.flow_states[flow.0].own_cap;
        // Elastic unmanaged flows stand beside the most urgent managed ones where there are classes.
        let class = if !managed && self.classes && own_cap.is_infinite() { order.class.max(1) } else { order.class };
        debug_assert!(order.weight > 0.0 && order.weight.is_finite() && !order.cap.is_nan(), "{order:?}");
        let weight = if order.weight > 0.0 && order.weight.is_finite() { order.weight } else { f64::MIN_POSITIVE };
        let cap = if order.cap >= 0.0 { order.cap.min(own_cap) } else { 0.0 };
        let mark = self.orders.mark_of(flow);
        let moving = &mut self.world.fluid.flows[flow.0];
        let new = (class, weight, cap, order.hold.0, mark);
        if new != (moving.class, moving.weight, moving.cap, moving.hold, moving.mark) {
            (moving.class, moving.weight, moving.cap, moving.hold, moving.mark) = new;
            if moving.on {
                self.world.fluid.network.touch(flow.0 as u32);
            }
        }
    }

    /// Sends a flow over other links; what it delivered so far counts for the old ones.
    fn route(&mut self, flow: FlowIx, path: Vec<LinkIx>) {
        let slot = flow.0 as u32;
        let known = flow.0 < self.world.fluid.flows.len() && path.iter().all(|l| l.0 < self.world.capacity.len());
        debug_assert!(known, "{flow:?} over {path:?}");
        let job = self.world.flows.get(flow.0).and_then(|f| f.job);
        let Some(job) = job.filter(|_| known) else { return };
        self.leave_all_links(job);
        let links = self.world.fluid.network.path_of(path.iter().map(|l| l.0 as u32));
        self.world.fluid.network.reroute(slot, links);
        let loss = super::round::loss_on(self.scenario, &path);
        self.world.fluid.set_keep(slot, (1.0 - loss) * self.efficiency, self.now);
        let seen = &mut self.world.flows[flow.0];
        (seen.path, seen.loss) = (path, loss);
        self.enter_all_links(job);
    }

    /// Plans when the marked jobs whose flows changed pass their marks.
    fn follow_marks(&mut self) {
        for i in 0..self.world.fluid.changed.len() {
            let slot = self.world.fluid.changed[i] as usize;
            self.trace(slot, self.world.fluid.flows[slot].rate);
            if let Some(job) = self.world.flows[slot].job
                && self.orders.mark_of_job(job).is_finite()
            {
                self.marked.push(job);
            }
        }
        self.world.fluid.changed.clear();
        self.marked.sort_unstable();
        self.marked.dedup();
        while let Some(job) = self.marked.pop() {
            let (sent, rate) = self.progress(job);
            let left = self.orders.mark_of_job(job) - sent;
            let at = if left.is_finite() && rate > 0.0 {
                self.now.saturating_add(((left / rate * 1e9 - 1e-3).ceil()).max(1.0) as u64)
            } else {
                NEVER
            };
            self.marks.set(job.0 as u32, at);
        }
    }

    /// Notes a change of a rate, where a log is wanted.
    pub(super) fn trace(&mut self, slot: usize, rate: f64) {
        let Some(timeline) = &mut self.log.timeline else { return };
        if let Some(job) = self.world.flows[slot].job {
            let flow = (slot - self.world.jobs[job.0].flows.start) as u32;
            timeline.push(RateChange { at: Nanos(self.now), job, flow, rate });
        }
    }

    /// Bytes that a job's flows have delivered in this round, and bytes per second at which they go on.
    pub(super) fn progress(&self, job: JobIx) -> (f64, f64) {
        let flows = self.world.jobs[job.0].flows.clone().map(|slot| &self.world.fluid.flows[slot]);
        flows.fold((0.0, 0.0), |(sent, rate), f| (sent + f.sent_at(self.now), rate + f.speed()))
    }

    fn count_stalls(&mut self) {
        for i in 0..self.world.fluid.stalled.len() {
            let (slot, ns) = self.world.fluid.stalled[i];
            if let Some(job) = self.world.flows[slot as usize].job {
                self.log.jobs[job.0].stalled += ns;
            }
        }
        self.world.fluid.stalled.clear();
    }
}
