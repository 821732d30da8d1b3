//! Progressive filling: the water rises; full links and caps settle flows one after the other.
//!
//! A heap holds the level at which each link fills and each flow bends or reaches its limit. What a link carries grows
//! ever more slowly, so an old entry is never too late: it is looked at again when its turn comes.

use std::cmp::Reverse;

use super::lines::Line;
use super::{NOTHING, Share, Stand};

impl Share {
    pub(super) fn fill_all(&mut self) {
        let flows = self.entries.len();
        self.rates.clear();
        self.rates.resize(flows, 0.0);
        self.lines.clear();
        self.lines.resize(flows, Line::default());
        self.limits.clear();
        self.limits.resize(flows, 0.0);
        self.stands.clear();
        self.stands.resize(flows, Stand::Later);
        self.order_by_class();
        self.index_links();
        self.index_ties();
        let mut from = 0;
        while from < flows {
            let class = self.classes[self.order[from] as usize];
            let mut to = from + 1;
            while to < flows && self.classes[self.order[to] as usize] == class {
                to += 1;
            }
            self.fill(from, to);
            from = to;
        }
    }

    /// Flows by class, then index. A flow tied to one of a less urgent class counts as of that class.
    fn order_by_class(&mut self) {
        let flows = self.entries.len();
        self.classes.clear();
        self.classes.extend(self.entries.iter().map(|e| e.class));
        self.order.clear();
        self.order.extend(0..flows as u32);
        let first = self.classes.first().copied().unwrap_or(0);
        if self.classes.iter().all(|&c| c == first) {
            return;
        }
        let mut again = !self.ties.is_empty();
        while again {
            again = false;
            for flow in 0..flows as u32 {
                for at in self.ties_of(flow) {
                    let pred = self.classes[self.ties[at].pred as usize];
                    if self.classes[flow as usize] < pred {
                        self.classes[flow as usize] = pred;
                        again = true;
                    }
                }
            }
        }
        let classes = &self.classes;
        self.order.sort_unstable_by_key(|&f| (classes[f as usize], f));
    }

    /// For each link its flows in the order of filling.
    fn index_links(&mut self) {
        self.on_link.clear();
        self.on_link.resize(self.hops.len(), 0);
        for &link in &self.hops {
            self.loads[link as usize].to += 1;
        }
        let mut at = 0;
        for load in &mut self.loads {
            let count = std::mem::replace(&mut load.to, at);
            load.from = at;
            at += count;
        }
        for i in 0..self.order.len() {
            let flow = self.order[i];
            for hop in self.hops_of(flow) {
                let load = &mut self.loads[self.hops[hop] as usize];
                self.on_link[load.to as usize] = flow;
                load.to += 1;
            }
        }
    }

    /// For each flow those that are tied to it.
    fn index_ties(&mut self) {
        if self.ties.is_empty() {
            return;
        }
        let flows = self.entries.len();
        self.next_from.clear();
        self.next_from.resize(flows + 1, 0);
        for tie in &self.ties {
            self.next_from[tie.pred as usize + 1] += 1;
        }
        for f in 0..flows {
            self.next_from[f + 1] += self.next_from[f];
        }
        self.next.clear();
        self.next.resize(self.ties.len(), 0);
        for flow in (0..flows as u32).rev() {
            for at in self.ties_of(flow) {
                let pred = self.ties[at].pred as usize;
                // Filled from the back; `next_from` of the pred is put right below.
                self.next_from[pred + 1] -= 1;
                self.next[self.next_from[pred + 1] as usize] = flow;
            }
        }
        // Each entry now stands at its own beginning, one place too far to the right.
        self.next_from.remove(0);
        self.next_from.push(self.ties.len() as u32);
    }

    /// One class on what the earlier ones left.
    fn fill(&mut self, from: usize, to: usize) {
        self.level = 0.0;
        self.heap.clear();
        self.used.clear();
        for i in from..to {
            let flow = self.order[i];
            self.begin(flow);
        }
        if !self.ties.is_empty() {
            for i in from..to {
                let flow = self.order[i];
                if !self.ties_of(flow).is_empty() {
                    self.bend_from(flow, false);
                }
            }
        }
        for i in 0..self.used.len() {
            let link = self.used[i];
            if let Some(level) = self.fills_at(link) {
                self.heap.push(Reverse((level.to_bits(), link)));
            }
        }
        let links = self.loads.len() as u32;
        while let Some(Reverse((bits, id))) = self.heap.pop() {
            let level = f64::from_bits(bits).max(self.level);
            if id < links {
                match self.fills_at(id) {
                    Some(later) if later > level => self.plan(later, id),
                    Some(_) => {
                        self.level = level;
                        self.full(id);
                    }
                    None => {}
                }
            } else {
                self.level = level;
                self.visit(id - links);
            }
        }
        for i in from..to {
            let flow = self.order[i];
            if self.stands[flow as usize] == Stand::Growing {
                let rate = self.lines[flow as usize].at(self.level).min(self.limits[flow as usize]);
                self.settle(flow, rate);
            }
        }
        self.stack.clear();
        self.leave_the_rest();
    }

    /// A flow of the present class begins to grow, unless its limit is 0.
    fn begin(&mut self, flow: u32) {
        let entry = self.entries[flow as usize];
        let mut limit = entry.cap.max(0.0);
        for tie in &self.ties[self.ties_of(flow)] {
            // A predecessor of a more urgent class has its rate already.
            if self.stands[tie.pred as usize] == Stand::Settled {
                limit = limit.min(tie.ratio * self.rates[tie.pred as usize]);
            }
        }
        self.limits[flow as usize] = limit;
        if limit <= 0.0 {
            self.stands[flow as usize] = Stand::Settled;
            return;
        }
        self.stands[flow as usize] = Stand::Growing;
        self.lines[flow as usize] = Line { base: 0.0, speed: entry.weight };
        for hop in self.hops_of(flow) {
            let link = self.hops[hop];
            let load = &mut self.loads[link as usize];
            if load.live == 0 {
                self.used.push(link);
            }
            load.live += 1;
            load.speed += entry.weight;
        }
        if limit.is_finite() {
            self.plan(limit / entry.weight, self.loads.len() as u32 + flow);
        }
    }

    /// The level at which a link is full; `None` while nothing on it grows.
    fn fills_at(&self, link: u32) -> Option<f64> {
        let load = &self.loads[link as usize];
        (load.live > 0 && load.speed > 0.0).then(|| (load.free - load.base).max(0.0) / load.speed)
    }

    pub(super) fn plan(&mut self, level: f64, id: u32) {
        // Levels are never negative, so their bits order like the numbers.
        self.heap.push(Reverse((level.max(0.0).to_bits(), id)));
    }

    /// A link is full: everything on it stops growing.
    fn full(&mut self, link: u32) {
        let load = self.loads[link as usize];
        for at in load.from..load.to {
            let flow = self.on_link[at as usize];
            match self.stands[flow as usize] {
                Stand::Growing => {
                    let rate = self.lines[flow as usize].at(self.level).min(self.limits[flow as usize]);
                    self.settle(flow, rate);
                }
                Stand::Settled => {}
                Stand::Later => break,
            }
        }
        self.bend_stack();
    }

    /// A flow's limit or the meeting of two lines has come, or comes later than it seemed.
    fn visit(&mut self, flow: u32) {
        if self.stands[flow as usize] != Stand::Growing {
            return;
        }
        let limit = self.limits[flow as usize];
        if self.lines[flow as usize].at(self.level) >= limit * (1.0 - 1e-14) {
            self.settle(flow, limit);
            self.bend_stack();
        } else {
            self.bend_from(flow, true);
        }
    }

    /// Bends the lines of everything on the stack.
    fn bend_stack(&mut self) {
        while let Some(flow) = self.stack.pop() {
            self.bend_from(flow, false);
        }
    }

    /// A flow has its rate; those tied to it go on the stack.
    pub(super) fn settle(&mut self, flow: u32, rate: f64) {
        let old = std::mem::replace(&mut self.lines[flow as usize], Line { base: rate, speed: 0.0 });
        self.stands[flow as usize] = Stand::Settled;
        self.rates[flow as usize] = rate;
        for hop in self.hops_of(flow) {
            let load = &mut self.loads[self.hops[hop] as usize];
            load.base += rate - old.base;
            load.live -= 1;
            load.speed = if load.live == 0 { 0.0 } else { load.speed - old.speed };
        }
        self.push_followers(flow);
    }

    /// What this class did not take is the next one's.
    fn leave_the_rest(&mut self) {
        for i in 0..self.used.len() {
            let load = &mut self.loads[self.used[i] as usize];
            let rest = load.free - load.base;
            load.free = if rest > NOTHING * load.capacity { rest } else { 0.0 };
            (load.base, load.speed, load.live) = (0.0, 0.0, 0);
            while load.from < load.to && self.stands[self.on_link[load.from as usize] as usize] == Stand::Settled {
                load.from += 1;
            }
        }
    }
}
