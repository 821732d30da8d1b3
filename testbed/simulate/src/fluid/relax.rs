//! Between slot edges: rates hold, but a flow at its bound goes no faster than what it depends on.

use std::ops::Range;

use super::{Fluid, TIGHT};

impl Fluid {
    /// Rates of the flows in `slots` at `now`: what the edge decided, or less where a predecessor is slower. Takes no
    /// bandwidth from anybody, so nothing else changes.
    pub(crate) fn relax(&mut self, slots: Range<usize>, now: u64) {
        self.search += 1;
        let begin = self.changed.len();
        // Ties never run in a circle, so this ends after as many rounds as the longest chain has links.
        let mut again = true;
        while again {
            again = false;
            for slot in slots.clone() {
                again |= self.relax_one(slot as u32, now);
            }
        }
        for slot in slots {
            if self.flows[slot].on {
                self.note_tight(slot as u32, now);
            }
        }
        for i in begin..self.changed.len() {
            self.plan_with_followers(self.changed[i], now);
        }
    }

    fn relax_one(&mut self, slot: u32, now: u64) -> bool {
        let flow = &self.flows[slot as usize];
        if !flow.on {
            return false;
        }
        let mut rate = flow.decided;
        let sent = flow.sent_at(now);
        for dep in &flow.preds {
            let pred = &self.flows[dep.pred as usize];
            if dep.after || pred.done || dep.bound(pred, now) - sent >= TIGHT {
                continue;
            }
            let rides = pred.on && dep.granule == 0.0 && flow.keep > 0.0;
            rate = rate.min(if rides { dep.ratio * pred.speed() / flow.keep } else { 0.0 });
        }
        if rate == flow.rate {
            return false;
        }
        // The edge has to look at it again.
        self.network.slow(slot, rate);
        self.flows[slot as usize].set_rate(rate, now);
        self.changed.push(slot);
        true
    }
}
