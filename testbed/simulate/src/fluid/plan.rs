//! When something about a flow happens next: its end, its bound, its mark, the end of a hold.

use super::{Dep, Fluid, Moving, NEVER, TIGHT};

/// A time this little after a nanosecond is that nanosecond: what is less is rounding of floats, and would part events
/// that belong to one instant.
const SAME_NS: f64 = 1e-3;

/// The first nanosecond at which `bytes` more have been delivered.
fn after(now: u64, bytes: f64, speed: f64) -> u64 {
    let ns = (bytes / speed * 1e9 - SAME_NS).ceil();
    // Past the end of the clock is never; the conversion saturates.
    now.saturating_add(ns.max(0.0) as u64)
}

impl Dep {
    /// Bytes the flow may have delivered at `now`.
    pub(super) fn bound(&self, pred: &Moving, now: u64) -> f64 {
        let sent = pred.sent_at(now);
        if self.granule > 0.0 {
            // A message of which less than a byte is missing has arrived.
            let whole = ((sent + TIGHT) / self.granule).floor() * self.granule;
            return self.lead + self.ratio * whole.min(pred.bytes);
        }
        self.lead + self.ratio * sent
    }
}

impl Fluid {
    /// Notes bounds and plans the next event of a flow and of the flows that depend on it, once per search.
    pub(super) fn plan_with_followers(&mut self, slot: u32, now: u64) {
        self.plan_once(slot, now);
        for i in 0..self.flows[slot as usize].succs.len() {
            let next = self.flows[slot as usize].succs[i];
            if self.flows[next as usize].on {
                self.plan_once(next, now);
            }
        }
    }

    pub(super) fn plan_once(&mut self, slot: u32, now: u64) {
        let search = self.search;
        if std::mem::replace(&mut self.flows[slot as usize].planned, search) != search {
            self.note_tight(slot, now);
            self.plan(slot, now);
        }
    }

    /// Plans the next event of a flow that is on.
    pub(crate) fn plan(&mut self, slot: u32, now: u64) {
        let flow = &self.flows[slot as usize];
        let sent = flow.sent_at(now);
        let speed = flow.speed();
        let mut next = flow.stops;
        let mut ends = NEVER;
        if flow.hold > now {
            next = next.min(flow.hold);
        }
        if speed > 0.0 && flow.bytes.is_finite() {
            ends = after(now, (flow.bytes - sent).max(0.0), speed);
            if let Some(step) = self.grid.ends_at {
                ends = ends.div_ceil(step).saturating_mul(step);
            }
            next = next.min(ends);
        }
        if flow.mark.is_finite() && speed > 0.0 {
            // A mark that was passed before it was set is told at the next nanosecond.
            next = next.min(after(now, (flow.mark - sent).max(0.0), speed).max(now + 1));
        }
        for dep in &flow.preds {
            let pred = &self.flows[dep.pred as usize];
            if dep.after || pred.done {
                continue;
            }
            let gap = dep.bound(pred, now) - sent;
            let pred_speed = if pred.on { pred.speed() } else { 0.0 };
            if gap >= TIGHT {
                let closing = speed - if dep.granule > 0.0 { 0.0 } else { dep.ratio * pred_speed };
                // A flow that just rides along closes nothing but rounding.
                if closing > speed * 1e-12 {
                    next = next.min(after(now, gap, closing));
                }
            } else if dep.granule > 0.0 && pred_speed > 0.0 {
                let there = pred.sent_at(now);
                let message = (((there + TIGHT) / dep.granule).floor() + 1.0) * dep.granule;
                next = next.min(after(now, (message.min(pred.bytes) - there).max(0.0), pred_speed).max(now + 1));
            }
        }
        self.flows[slot as usize].ends = ends;
        self.agenda.set(slot, next);
    }

    /// A flow whose bound was due is put exactly there: the clock's nanosecond may have carried it past. Those that ride
    /// on it are put back with it.
    pub(crate) fn snap(&mut self, slot: u32, now: u64) {
        debug_assert!(self.stack.is_empty());
        self.stack.push(slot);
        while let Some(slot) = self.stack.pop() {
            let flow = &self.flows[slot as usize];
            if !flow.on {
                continue;
            }
            let reached = flow.sent_at(now);
            let mut sent = reached;
            for dep in &flow.preds {
                let pred = &self.flows[dep.pred as usize];
                if !dep.after && !pred.done {
                    sent = sent.min(dep.bound(pred, now));
                }
            }
            if sent < reached {
                let flow = &mut self.flows[slot as usize];
                (flow.sent, flow.at) = (sent.max(0.0), now);
                self.stack.extend(&self.flows[slot as usize].succs);
                self.network.touch(slot);
            }
        }
    }

    /// True when a flow's mark has come.
    pub(crate) fn passes(&self, slot: u32, now: u64) -> bool {
        let flow = &self.flows[slot as usize];
        flow.mark.is_finite() && flow.sent_at(now) + flow.speed() * 1e-9 >= flow.mark
    }
}
