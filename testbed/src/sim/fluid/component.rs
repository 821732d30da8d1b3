//! Shares out anew the flows that hang together with a change, through links or dependencies.

use super::{Dep, Fluid, TIGHT};

impl Fluid {
    /// New rates at `now` for everything that hangs together with what was touched since the last time; false if
    /// nothing was.
    pub(in crate::sim) fn share(&mut self, now: u64) -> bool {
        if self.dirty_flows.is_empty() && self.dirty_links.is_empty() {
            return false;
        }
        self.find();
        self.build(now);
        self.share.solve();
        self.take_rates(now);
        true
    }

    /// Flows that are on and connected with a touched flow or link, in order of slot, in `part`.
    fn find(&mut self) {
        self.search += 1;
        self.part.clear();
        std::mem::swap(&mut self.seeds, &mut self.dirty_flows);
        self.dirty_flows.clear();
        for i in 0..self.seeds.len() {
            self.reach(self.seeds[i]);
        }
        let mut links = std::mem::take(&mut self.dirty_links);
        for &link in &links {
            self.reach_link(link);
        }
        links.clear();
        self.dirty_links = links;
        if self.whole {
            (0..self.flows.len() as u32).for_each(|slot| self.reach(slot));
        }
        let mut at = 0;
        while at < self.part.len() {
            let slot = self.part[at] as usize;
            at += 1;
            let (from, to) = self.flows[slot].path;
            for hop in from..to {
                self.reach_link(self.hops[hop as usize]);
            }
            for i in 0..self.flows[slot].preds.len() {
                self.reach(self.flows[slot].preds[i].pred);
            }
            for i in 0..self.flows[slot].succs.len() {
                self.reach(self.flows[slot].succs[i]);
            }
        }
        // Sums run in order of slot, whatever the way a flow was found.
        self.part.sort_unstable();
    }

    fn reach(&mut self, slot: u32) {
        let flow = &mut self.flows[slot as usize];
        if flow.on && flow.found != self.search {
            flow.found = self.search;
            self.part.push(slot);
        }
    }

    fn reach_link(&mut self, link: u32) {
        let found = &mut self.link_found[link as usize];
        if *found == self.search {
            return;
        }
        *found = self.search;
        for i in 0..self.on_link[link as usize].len() {
            self.reach(self.on_link[link as usize][i]);
        }
    }

    /// Puts `part` to the problem of sharing.
    fn build(&mut self, now: u64) {
        self.share.clear();
        for (place, &slot) in self.part.iter().enumerate() {
            self.flows[slot as usize].place = place as u32;
        }
        // Links get their places in the order of the sorted flows; one that has its place is no longer "found".
        for &slot in &self.part {
            let (from, to) = self.flows[slot as usize].path;
            for &link in &self.hops[from as usize..to as usize] {
                let place = &mut self.link_place[link as usize];
                if self.link_found[link as usize] == self.search {
                    self.link_found[link as usize] = self.search - 1;
                    *place = self.share.link(self.capacity[link as usize]);
                }
            }
        }
        for i in 0..self.part.len() {
            let slot = self.part[i];
            let (from, to) = self.flows[slot as usize].path;
            for &link in &self.hops[from as usize..to as usize] {
                self.share.hop(self.link_place[link as usize]);
            }
            let held = self.flows[slot as usize].hold > now;
            let mut cap = if held { 0.0 } else { self.flows[slot as usize].cap };
            self.tie(slot, now, &mut cap);
            let flow = &self.flows[slot as usize];
            self.share.flow(flow.class, flow.weight, cap);
        }
    }

    /// Ties a flow to the predecessors at whose bound it is.
    fn tie(&mut self, slot: u32, now: u64, cap: &mut f64) {
        let flow = &self.flows[slot as usize];
        if flow.preds.is_empty() {
            return;
        }
        let sent = flow.sent_at(now);
        for dep in &flow.preds {
            let pred = &self.flows[dep.pred as usize];
            if dep.after || pred.done || dep.bound(pred, now) - sent >= TIGHT {
                continue;
            }
            if pred.on && dep.granule == 0.0 && flow.keep > 0.0 {
                self.share.tie(pred.place, dep.ratio * pred.keep / flow.keep);
            } else {
                *cap = 0.0;
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
            !dep.after && !pred.done && speed >= pred_speed * (1.0 - 1e-9) && dep.bound(pred, now) - sent < TIGHT
        };
        let tight = flow.preds.iter().any(holds);
        self.tell_tight(slot, now, tight);
    }

    fn tell_tight(&mut self, slot: u32, now: u64, tight: bool) {
        let flow = &mut self.flows[slot as usize];
        if flow.tight == tight {
            return;
        }
        if tight {
            (flow.tight, flow.tight_since) = (true, now);
        } else {
            self.loose(slot, now);
        }
    }

    /// Rates that changed take effect; events of those flows, of what depends on them, and of what was touched.
    fn take_rates(&mut self, now: u64) {
        let before = self.changed.len();
        for i in 0..self.part.len() {
            let slot = self.part[i];
            let rate = self.share.rate(i);
            let flow = &mut self.flows[slot as usize];
            flow.decided = rate;
            if rate != flow.rate {
                flow.sent = flow.sent_at(now);
                (flow.at, flow.rate) = (now, rate);
                self.changed.push(slot);
            }
        }
        for i in 0..self.part.len() {
            self.note_tight(self.part[i], now);
        }
        for i in before..self.changed.len() {
            self.plan_with_followers(self.changed[i], now);
        }
        for i in 0..self.seeds.len() {
            if self.flows[self.seeds[i] as usize].on {
                self.plan_once(self.seeds[i], now);
            }
        }
    }
}
