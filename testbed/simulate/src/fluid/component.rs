//! Shares out anew the flows whose rates may change, and no others.
//!
//! A flow is held back by its own cap, by the bound that a predecessor sets, or by a full link. So a change reaches other
//! flows only through full links and bounds: from what was touched, those are followed to the flows they lead to. The
//! flows found share what the others leave; if that fills a link that was not full, its flows are found too, and all are
//! shared out again. The rates are those of the whole network shared out from scratch.
//!
//! One thing depends on when a flow is looked at: less than a byte before its bound it counts as there. So a flow that
//! closes in slowly and is looked at for another reason rides from then on, a part of a byte early.

use super::{Dep, Fluid, Moving, TIGHT};

/// From this part of its capacity on a link counts as full. More than rounding adds up to over a long run: a link that
/// is called full too early only makes more flows be looked at.
const FULL: f64 = 1.0 - 1e-6;
/// Flows with more predecessors than this are taken to be held by each: looking costs more.
const MANY: usize = 8;
/// After so many times the rest that hangs together is taken as a whole.
const TRIES: u32 = 6;

/// What a sharing knows of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkRecord {
    /// In which search all of its flows were taken in.
    closed: u64,
    /// In which problem it has its place, and which.
    built: u64,
    place: u32,
    /// Bytes per second that flows outside the problem send over it.
    outside: f64,
}

impl Fluid {
    /// New rates at `now` for everything that may change by what was touched since the last time; false if nothing was.
    pub(crate) fn share(&mut self, now: u64) -> bool {
        if self.dirty_flows.is_empty() && self.dirty_links.is_empty() {
            return false;
        }
        self.begin_search();
        for tries in 0.. {
            self.follow(now, tries >= TRIES);
            self.build(now);
            self.share.solve();
            if !self.close_filled() {
                break;
            }
        }
        self.take_rates(now);
        true
    }

    /// True if this link may hold back the flows on it.
    pub(super) fn is_full(&self, link: u32) -> bool {
        self.load[link as usize] >= self.capacity[link as usize] * FULL
    }

    /// Gives a flow its rate from `now` on.
    pub(super) fn set_rate(&mut self, slot: u32, rate: f64, now: u64) {
        let flow = &mut self.flows[slot as usize];
        flow.sent = flow.sent_at(now);
        let more = rate - flow.rate;
        (flow.at, flow.rate) = (now, rate);
        let (from, to) = flow.path;
        for hop in from..to {
            self.load[self.hops[hop as usize] as usize] += more;
        }
        self.changed.push(slot);
    }

    /// Touched flows, and those of touched links.
    fn begin_search(&mut self) {
        self.search += 1;
        self.part.clear();
        self.looked = 0;
        std::mem::swap(&mut self.seeds, &mut self.dirty_flows);
        self.dirty_flows.clear();
        for i in 0..self.seeds.len() {
            let slot = self.seeds[i];
            self.reach(slot);
            self.guess(slot);
        }
        while let Some(link) = self.dirty_links.pop() {
            self.close(link);
        }
        if self.whole {
            (0..self.flows.len() as u32).for_each(|slot| self.reach(slot));
            (0..self.link_records.len() as u32).for_each(|link| self.close(link));
        }
    }

    /// A touched flow without a cap and without a full link will fill one: most likely the narrowest.
    fn guess(&mut self, slot: u32) {
        let flow = &self.flows[slot as usize];
        if !flow.on || flow.cap.is_finite() || self.path(slot).iter().any(|&link| self.is_full(link)) {
            return;
        }
        let share = |link: u32| self.capacity[link as usize] / self.on_link[link as usize].len() as f64;
        let narrowest = self.path(slot).iter().copied().min_by(|&a, &b| share(a).total_cmp(&share(b)));
        if let Some(link) = narrowest {
            self.close(link);
        }
    }

    /// From the flows found so far to those that they hold back or that hold them back. With `all` through every link
    /// and every dependency.
    fn follow(&mut self, now: u64, all: bool) {
        if all {
            self.looked = 0;
        }
        while let Some(&slot) = self.part.get(self.looked) {
            self.looked += 1;
            let flow = &self.flows[slot as usize];
            let (from, to) = flow.path;
            for hop in from..to {
                let link = self.hops[hop as usize];
                if all || self.is_full(link) {
                    self.close(link);
                }
            }
            let sent = self.flows[slot as usize].sent_at(now);
            for i in 0..self.flows[slot as usize].preds.len() {
                let flow = &self.flows[slot as usize];
                let dep = &flow.preds[i];
                if all || flow.preds.len() > MANY || tied(&self.flows, dep, sent, now) {
                    self.reach(dep.pred);
                }
            }
            for i in 0..self.flows[slot as usize].succs.len() {
                let next = self.flows[slot as usize].succs[i];
                if self.found[next as usize] != self.search && (all || self.rides_on(next, slot, now)) {
                    self.reach(next);
                }
            }
        }
        // Sums run in order of slot, whatever the way a flow was found.
        self.part.sort_unstable();
        self.looked = self.part.len();
    }

    /// True if a flow may be at the bound that `pred` sets.
    fn rides_on(&self, slot: u32, pred: u32, now: u64) -> bool {
        let flow = &self.flows[slot as usize];
        if !flow.on || flow.preds.len() > MANY {
            return flow.on;
        }
        let sent = flow.sent_at(now);
        flow.preds.iter().any(|dep| dep.pred == pred && tied(&self.flows, dep, sent, now))
    }

    fn reach(&mut self, slot: u32) {
        let found = &mut self.found[slot as usize];
        if *found != self.search && self.flows[slot as usize].on {
            *found = self.search;
            self.part.push(slot);
        }
    }

    /// All flows of a link are shared out anew.
    fn close(&mut self, link: u32) {
        let closed = &mut self.link_records[link as usize].closed;
        if *closed == self.search {
            return;
        }
        *closed = self.search;
        for &slot in &self.on_link[link as usize] {
            let found = &mut self.found[slot as usize];
            if *found != self.search {
                *found = self.search;
                self.part.push(slot);
            }
        }
    }

    /// Puts `part` to the problem of sharing.
    fn build(&mut self, now: u64) {
        self.share.clear();
        self.problem += 1;
        self.open.clear();
        for (place, &slot) in self.part.iter().enumerate() {
            self.place[slot as usize] = place as u32;
        }
        for i in 0..self.part.len() {
            let slot = self.part[i];
            let flow = &self.flows[slot as usize];
            let (from, to) = flow.path;
            for &link in &self.hops[from as usize..to as usize] {
                let record = &mut self.link_records[link as usize];
                let closed = record.closed == self.search;
                if record.built != self.problem {
                    record.built = self.problem;
                    record.place = self.share.link(self.capacity[link as usize]);
                    if !closed {
                        record.outside = self.load[link as usize];
                        self.open.push(link);
                    }
                }
                if !closed {
                    record.outside -= flow.rate;
                }
                self.share.hop(record.place);
            }
            let mut cap = if flow.hold > now { 0.0 } else { flow.cap };
            if !flow.preds.is_empty() {
                let sent = flow.sent_at(now);
                for dep in flow.preds.iter().filter(|dep| tied(&self.flows, dep, sent, now)) {
                    let pred = &self.flows[dep.pred as usize];
                    if pred.on && dep.granule == 0.0 && flow.keep > 0.0 {
                        self.share.tie(self.place[dep.pred as usize], dep.ratio * pred.keep / flow.keep);
                    } else {
                        cap = 0.0;
                    }
                }
            }
            self.share.flow(flow.class, flow.weight, cap);
        }
        for &link in &self.open {
            let record = &self.link_records[link as usize];
            self.share.narrow(record.place, self.capacity[link as usize] - record.outside.max(0.0));
        }
    }

    /// Takes in all flows of the links that were not full and would be; true if there are any.
    fn close_filled(&mut self) -> bool {
        let mut any = false;
        for i in 0..self.open.len() {
            let link = self.open[i];
            let left = self.share.left(self.link_records[link as usize].place);
            if left <= self.capacity[link as usize] * (1.0 - FULL) {
                self.close(link);
                any = true;
            }
        }
        any
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

    /// Rates that changed take effect; bounds and events of those flows, of what depends on them, and of what was
    /// touched.
    fn take_rates(&mut self, now: u64) {
        let before = self.changed.len();
        for i in 0..self.part.len() {
            let slot = self.part[i];
            let rate = self.share.rate(i);
            let flow = &mut self.flows[slot as usize];
            flow.decided = rate;
            if rate != flow.rate {
                self.set_rate(slot, rate, now);
            }
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

/// True if a flow that has sent so much is at the bound of this dependency.
fn tied(flows: &[Moving], dep: &Dep, sent: f64, now: u64) -> bool {
    let pred = &flows[dep.pred as usize];
    !dep.after && !pred.done && dep.bound(pred, now) - sent < TIGHT
}
