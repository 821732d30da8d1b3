//! A flow's rate as a line over the level of the water: straight until a tie, a cap or a full link bends it.
//!
//! While nothing has stopped it a flow's rate is the smallest of weight · level and ratio · rate of each flow it is tied
//! to. Every one of those grows ever more slowly, so a flow changes to a flatter line or stops, and never speeds up.

use super::{Share, Stand};

/// rate = `base` + `speed` · level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) base: f64,
    pub(super) speed: f64,
}

impl Line {
    pub(super) fn at(self, level: f64) -> f64 {
        self.base + self.speed * level
    }

    /// The level at which this line reaches `other` from below; infinite if it never does.
    fn meets(self, other: Line) -> f64 {
        let closing = self.speed - other.speed;
        if closing > 0.0 { (other.base - self.base) / closing } else { f64::INFINITY }
    }
}

/// Two values this near are one value.
const SAME: f64 = 1e-12;
/// Two lines were predicted to meet here: what parts them now is rounding.
const MET: f64 = 1e-9;

impl Share {
    /// The line a growing flow follows from this level on: the lowest, of equally low ones the flattest.
    pub(super) fn lowest_line(&self, flow: u32, tolerance: f64) -> Line {
        let level = self.level;
        let mut best = Line { base: 0.0, speed: self.entries[flow as usize].weight };
        for tie in &self.ties[self.ties_of(flow)] {
            let pred = self.lines[tie.pred as usize];
            let line = Line { base: tie.ratio * pred.base, speed: tie.ratio * pred.speed };
            let (value, lowest) = (line.at(level), best.at(level));
            let near = (value - lowest).abs() <= tolerance * lowest.abs();
            if if near { line.speed < best.speed } else { value < lowest } {
                best = line;
            }
        }
        best
    }

    /// Bends a flow's line if a tie asks for it, and those of the flows tied to it.
    pub(super) fn bend_from(&mut self, flow: u32, met: bool) {
        let mut tolerance = if met { MET } else { SAME };
        self.stack.push(flow);
        while let Some(flow) = self.stack.pop() {
            if self.stands[flow as usize] == Stand::Growing {
                let line = self.lowest_line(flow, tolerance);
                if line != self.lines[flow as usize] {
                    self.replace(flow, line);
                }
                self.expect(flow);
            }
            tolerance = SAME;
        }
    }

    /// Gives a growing flow another line and tells its links; those tied to it go on the stack.
    fn replace(&mut self, flow: u32, line: Line) {
        let old = std::mem::replace(&mut self.lines[flow as usize], line);
        for hop in self.hops_of(flow) {
            let load = &mut self.loads[self.hops[hop] as usize];
            load.base += line.base - old.base;
            load.speed += line.speed - old.speed;
        }
        self.push_followers(flow);
        if line.speed <= 0.0 {
            self.settle(flow, line.base);
        }
    }

    /// Puts the growing flows that are tied to this one on the stack.
    pub(super) fn push_followers(&mut self, flow: u32) {
        if self.ties.is_empty() {
            return;
        }
        let range = self.next_from[flow as usize] as usize..self.next_from[flow as usize + 1] as usize;
        for at in range {
            let follower = self.next[at];
            if self.stands[follower as usize] == Stand::Growing {
                self.stack.push(follower);
            }
        }
    }

    /// Plans the next level at which this flow reaches its limit or another line.
    pub(super) fn expect(&mut self, flow: u32) {
        if self.stands[flow as usize] != Stand::Growing {
            return;
        }
        let line = self.lines[flow as usize];
        let mut level = line.meets(Line { base: self.limits[flow as usize], speed: 0.0 });
        for tie in &self.ties[self.ties_of(flow)] {
            let pred = self.lines[tie.pred as usize];
            level = level.min(line.meets(Line { base: tie.ratio * pred.base, speed: tie.ratio * pred.speed }));
        }
        if level.is_finite() {
            // A line that was met just now and not taken is a hair further on; never the same place twice.
            let ahead = self.level + self.level * SAME;
            self.plan(if level > self.level { level } else { ahead }, self.loads.len() as u32 + flow);
        }
    }
}
