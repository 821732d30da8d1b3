//! What the flows in motion are to a sharing: a flow may send what its order says, and no faster than what it depends
//! on where it is at that bound.
//!
//! One thing depends on when a flow is looked at: less than a byte before its bound it counts as there. So a flow that
//! closes in slowly and is looked at for another reason rides from then on, a part of a byte early.

use sluice_share::{Claim, Claims};

use super::{Dep, Fluid, Moving, TIGHT};

/// A flow with more predecessors than this is taken to ride on each: looking costs more.
const MANY: usize = 8;

/// All flows as they are at one time.
struct FlowsNow<'a> {
    flows: &'a [Moving],
    now: u64,
}

impl Claims for FlowsNow<'_> {
    fn claim(&self, flow: u32) -> Claim {
        let &Moving { class, weight, cap, hold, .. } = &self.flows[flow as usize];
        Claim { class, weight, cap: if hold > self.now { 0.0 } else { cap } }
    }

    fn ties(&self, flow: u32, mut each: impl FnMut(u32, Option<f64>)) {
        let flow = &self.flows[flow as usize];
        if flow.preds.is_empty() {
            return;
        }
        let sent = flow.sent_at(self.now);
        for dep in flow.preds.iter().filter(|dep| tied(self.flows, dep, sent, self.now)) {
            let pred = &self.flows[dep.pred as usize];
            let flows_on = pred.on && dep.granule == 0.0 && flow.keep > 0.0;
            each(dep.pred, flows_on.then(|| dep.ratio * pred.keep / flow.keep));
        }
    }

    fn followers(&self, flow: u32) -> &[u32] {
        &self.flows[flow as usize].succs
    }

    fn rides(&self, flow: u32, to: u32) -> bool {
        let flow = &self.flows[flow as usize];
        let sent = flow.sent_at(self.now);
        flow.preds.len() > MANY || flow.preds.iter().any(|dep| dep.pred == to && tied(self.flows, dep, sent, self.now))
    }
}

impl Fluid {
    /// New rates at `now` for everything that may change by what was touched since the last time.
    /// Bounds and events of flows whose rates changed, of what depends on them, and of what was touched are planned.
    pub(crate) fn share(&mut self, now: u64) {
        if !self.network.share(&FlowsNow { flows: &self.flows, now }) {
            return;
        }
        self.search += 1;
        let before = self.changed.len();
        for (slot, rate) in self.network.shared() {
            let flow = &mut self.flows[slot as usize];
            flow.decided = rate;
            if rate != flow.rate {
                flow.set_rate(rate, now);
                self.changed.push(slot);
            }
        }
        for i in before..self.changed.len() {
            self.plan_with_followers(self.changed[i], now);
        }
        for i in 0..self.network.touched().len() {
            let slot = self.network.touched()[i];
            if self.flows[slot as usize].on {
                self.plan_once(slot, now);
            }
        }
    }

    /// Notes whether a flow is at a bound and goes as fast as it. One that is slower leaves the bound behind by itself.
    pub(super) fn note_tight(&mut self, slot: u32, now: u64) {
        let flow = &self.flows[slot as usize];
        if flow.preds.is_empty() {
            return;
        }
        let (sent, speed) = (flow.sent_at(now), flow.speed());
        let holds = |dep: &Dep| {
            let pred = &self.flows[dep.pred as usize];
            let pred_speed = if pred.on && dep.granule == 0.0 { dep.ratio * pred.speed() } else { 0.0 };
            speed >= pred_speed * (1.0 - 1e-9) && tied(&self.flows, dep, sent, now)
        };
        let tight = flow.preds.iter().any(holds);
        if tight && !flow.tight {
            let flow = &mut self.flows[slot as usize];
            (flow.tight, flow.tight_since) = (true, now);
        } else if !tight {
            self.loose(slot, now);
        }
    }
}

/// True if a flow that has sent so much is at the bound of this dependency.
fn tied(flows: &[Moving], dep: &Dep, sent: f64, now: u64) -> bool {
    let pred = &flows[dep.pred as usize];
    !dep.after && !pred.done && dep.bound(pred, now) - sent < TIGHT
}
