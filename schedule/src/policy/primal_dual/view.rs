//! What the links of a path look like to one flow: what is left there, and at which price.
//!
//! Flows of a job that plan one after another see the same others on a link, so what was worked out for one serves the
//! next: whoever plans on a link looks at it first, and what is planned there is taken off what is left. Most flows plan
//! in few slots, and only those are touched.

use super::{Config, FlowView, Hop, Link, Problem, Schedule};
use crate::greedy::MAX_SLOTS;
use crate::price::Price;
use crate::units::{JobId, Rate};

/// What one flow finds on its path.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// Per slot of the horizon.
    pub price: Vec<Price>,
    pub headroom: Vec<Rate>,
    /// The most its links can bear in the current slot, whatever others promised on those that are shared.
    pub hard: Rate,
    /// Nobody else is on the path in the current slot.
    pub alone: bool,
}

impl Path {
    /// A path without links.
    pub fn clear(&mut self, horizon: usize) {
        self.price.clear();
        self.price.resize(horizon, Price::ZERO);
        self.headroom.clear();
        self.headroom.resize(horizon, Rate::MAX);
        (self.hard, self.alone) = (Rate::MAX, true);
    }
}

/// What flows of one job find on a link in one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// What other hosts' flows of other jobs and all own flows planned so far leave of it.
    left: Rate,
    /// A flow's share of what flows of other jobs leave; to the letter there is no such bound.
    share: Rate,
    /// For what flows of other jobs have.
    price: Price,
}

/// Whose view of a link is in the table: the flow and which hop of its path.
#[derive(Clone, Copy, Debug)]
struct Seen {
    flow: usize,
    hop: usize,
    /// No flow of another job is there in the current slot.
    alone: bool,
}

/// All links as those see them who last planned there. Tables are by link × slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Views {
    horizon: usize,
    /// Own flows planned so far.
    planned: Vec<Rate>,
    /// The same without flows of the job that last planned there.
    of_others: Vec<Rate>,
    cells: Vec<Cell>,
    /// Per link: whose cells these are.
    seen: Vec<Option<Seen>>,
    /// Flows of one job that plan one after another are a run: which one this is, and which one was last on each link.
    run: usize,
    last_run: Vec<usize>,
    /// Flows of the job at hand that planned in an earlier run.
    earlier: Vec<usize>,
}

impl Views {
    /// Nothing is planned, and nobody has looked.
    pub fn clear(&mut self, links: usize, horizon: usize) {
        self.horizon = horizon.clamp(1, MAX_SLOTS);
        for table in [&mut self.planned, &mut self.of_others] {
            table.clear();
            table.resize(links * self.horizon, Rate::ZERO);
        }
        self.cells.clear();
        self.cells.resize(links * self.horizon, Cell::default());
        self.seen.clear();
        self.seen.resize(links, None);
        self.run = 0;
        self.last_run.clear();
        self.last_run.resize(links, 0);
    }

    /// Own flows' sum on a link in the current slot.
    pub fn planned_now(&self, link: usize) -> Rate {
        self.planned[link * self.horizon]
    }

    /// The next flows to plan are of this job; those of it that have planned are among the ones that are done.
    pub fn begin_job(&mut self, problem: &Problem, job: JobId, done: &[usize]) {
        self.run += 1;
        self.earlier.clear();
        self.earlier.extend(done.iter().filter(|&&f| problem.flows[f].job == job));
    }

    /// Sets aside what other jobs have on a link, before the first flow of a run plans there.
    fn set_aside(&mut self, problem: &Problem, link: usize, out: &[Schedule]) {
        if std::mem::replace(&mut self.last_run[link], self.run) == self.run {
            return;
        }
        let row = link * self.horizon..(link + 1) * self.horizon;
        let of_others = &mut self.of_others[row.clone()];
        of_others.copy_from_slice(&self.planned[row]);
        for &f in &self.earlier {
            for _ in problem.flows[f].path.iter().filter(|hop| hop.link == link) {
                of_others.iter_mut().zip(&out[f].rates).for_each(|(sum, rate)| *sum = sum.minus(*rate));
            }
        }
    }

    /// What a flow of the job at hand finds on its path. `pending`: floors of flows not planned yet, per link; `out`: what
    /// those got that have planned.
    pub fn look(
        &mut self,
        problem: &Problem,
        config: &Config,
        f: usize,
        pending: &[Rate],
        out: &[Schedule],
        path: &mut Path,
    ) {
        let flow = &problem.flows[f];
        path.clear(self.horizon);
        let priced = !(flow.due && config.repaired);
        for (h, hop) in flow.path.iter().enumerate() {
            let link = problem.links[hop.link];
            let seen = match self.seen[hop.link].filter(|seen| is_same(problem, seen, flow, hop)) {
                Some(seen) => {
                    self.last_run[hop.link] = self.run; // Of another run of the job only if no other job planned here since.
                    seen
                }
                None => {
                    self.set_aside(problem, hop.link, out);
                    let alone = self.look_at(config, problem.links[hop.link], flow, hop);
                    *self.seen[hop.link].insert(Seen { flow: f, hop: h, alone })
                }
            };
            let row = hop.link * self.horizon;
            let cells = &self.cells[row..row + self.horizon];
            for (cell, headroom) in cells.iter().zip(&mut path.headroom) {
                *headroom = (*headroom).min(cell.left).min(cell.share);
            }
            if priced {
                for (cell, price) in cells.iter().zip(&mut path.price) {
                    *price = price.plus(cell.price);
                }
            }
            let left = if link.own { cells[0].left.minus(pending[hop.link]) } else { cells[0].left };
            path.headroom[0] = path.headroom[0].min(left);
            path.hard = path.hard.min(if link.own { left } else { link.usable });
            path.alone &= seen.alone && self.planned[row] == self.of_others[row];
        }
    }

    /// Fills in a link's cells for a job's flows with this view of it; true if no flow of another job is there in the
    /// current slot.
    fn look_at(&mut self, config: &Config, link: Link, flow: &FlowView, hop: &Hop) -> bool {
        let row = hop.link * self.horizon..(hop.link + 1) * self.horizon;
        let own = self.planned[row.clone()].iter().zip(&self.of_others[row.clone()]);
        let (mut alone, mut last) = (true, None::<(Rate, Cell)>);
        for (t, ((&planned, &of_others), cell)) in own.zip(&mut self.cells[row]).enumerate() {
            let mut load = hop.load(t);
            if config.repaired {
                load = load.minus(flow.old.get(t).copied().unwrap_or(Rate::ZERO));
            }
            let others = load.plus(of_others);
            // Promises are the same for many slots in a row, and the price is the dearest thing here.
            let like_last = last.filter(|(before, _)| *before == others);
            let mut is = like_last.map_or_else(|| Cell::of(config, link, others, hop.sharers), |(_, cell)| cell);
            is.left = link.usable.minus(load.plus(planned));
            (*cell, last) = (is, Some((others, is)));
            alone &= t > 0 || others == Rate::ZERO;
        }
        alone
    }

    /// A flow that has looked takes these rates.
    pub fn take(&mut self, flow: &FlowView, rates: &[Rate]) {
        let Some(last) = rates.iter().rposition(|rate| *rate > Rate::ZERO) else { return };
        for hop in flow.path {
            let row = hop.link * self.horizon..(hop.link + 1) * self.horizon;
            let row = self.planned[row.clone()].iter_mut().zip(&mut self.cells[row]);
            for ((sum, cell), rate) in row.zip(&rates[..=last]) {
                *sum = sum.plus(*rate);
                cell.left = cell.left.minus(*rate);
            }
        }
    }
}

impl Cell {
    /// Where flows of other jobs have so much; what is left is another matter.
    fn of(config: &Config, link: Link, others: Rate, sharers: u64) -> Cell {
        let share = if config.repaired { link.usable.minus(others).share(sharers) } else { Rate::MAX };
        Cell { left: Rate::ZERO, share, price: config.curve.link(others, link.usable) }
    }
}

/// Does this hop look to the flow as it did to the one that last looked at the link?
fn is_same(problem: &Problem, seen: &Seen, flow: &FlowView, hop: &Hop) -> bool {
    let other = &problem.flows[seen.flow];
    let before = &other.path[seen.hop];
    let same = |a: &[Rate], b: &[Rate]| std::ptr::eq(a, b) || a == b;
    other.job == flow.job && before.sharers == hop.sharers && same(before.load, hop.load) && same(other.old, flow.old)
}
