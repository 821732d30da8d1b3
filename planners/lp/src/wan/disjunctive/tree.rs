//! Branching on the order of pairs, depth first.

use super::jobs::{Jobs, Pair};
use super::order::{Mark, Order};
use super::settle::Settler;

/// The best starts so far, and what they come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    pub starts: Vec<f64>,
    /// The sum over owners of the last end.
    pub total: f64,
}

impl Best {
    /// Starts that are no earlier than they must be, in the order of these.
    pub fn of(jobs: &Jobs, starts: &[f64]) -> Best {
        let starts = jobs.shifted(&jobs.sequence(starts));
        Best { total: jobs.total(&starts), starts }
    }

    /// No starts.
    pub fn none() -> Best {
        Best { starts: Vec::new(), total: f64::INFINITY }
    }

    /// What is searched for is better than the best by more than this share of it.
    pub fn limit(&self, gap: f64) -> f64 {
        self.total - gap * self.total.abs()
    }
}

/// Why a search of a tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing in it is better than the best.
    Exhausted,
    /// So many branches were looked at as were granted.
    Spent,
    /// It was told to stop.
    Stopped,
}

/// A branch with its other side still to be looked at.
#[derive(Clone, Copy, Debug)]
struct Branch {
    mark: Mark,
    pair: usize,
    /// The pair's first job came first.
    straight: bool,
}

/// What searches of trees share.
#[derive(Debug)]
pub struct Tree {
    settler: Settler,
    /// By pair how often it made a branch fail, and one more.
    weights: Vec<f64>,
    /// Branches looked at, the beginnings of searches among them.
    pub nodes: u64,
}

impl Tree {
    /// For the jobs of an order, which is settled without a limit.
    pub fn new(order: &mut Order<'_>) -> Tree {
        let mut settler = Settler::new(order);
        settler.settle(order, f64::INFINITY);
        Tree { settler, weights: vec![1.0; order.pairs.len()], nodes: 0 }
    }

    /// May there be anything below the limit? What follows from it stays known.
    pub fn settle(&mut self, order: &mut Order<'_>, limit: f64) -> bool {
        self.settler.settle(order, limit)
    }

    /// Searches what is left open for starts better than the best, which it replaces. The order is afterwards what it
    /// was.
    pub fn search(
        &mut self,
        order: &mut Order<'_>,
        best: &mut Best,
        gap: f64,
        nodes: u64,
        stop: impl Fn(&Tree) -> bool,
    ) -> End {
        let base = order.mark();
        let last = self.nodes.saturating_add(nodes);
        self.nodes += 1;
        let mut branches: Vec<Branch> = Vec::new();
        let mut open = self.settle(order, best.limit(gap));
        let end = loop {
            if stop(self) {
                break End::Stopped;
            }
            if self.nodes > last {
                break End::Spent;
            }
            if open {
                match self.choose(order) {
                    Some(branch) => {
                        branches.push(branch);
                        open = self.take(order, branch, best.limit(gap));
                    }
                    None => {
                        found(order, best);
                        open = false;
                    }
                }
                continue;
            }
            let Some(branch) = branches.pop() else { break End::Exhausted };
            order.undo(branch.mark);
            open = self.take(order, Branch { straight: !branch.straight, ..branch }, best.limit(gap));
        };
        order.undo(base);
        end
    }

    /// The open pair with the least room for its weight, and the roomier of its orders.
    fn choose(&self, order: &Order<'_>) -> Option<Branch> {
        let room = |first: usize, then: usize| {
            let durations = &order.jobs.durations;
            order.latest(then) - durations[then] - order.end(first).max(order.head(then))
        };
        let mut choice: Option<(f64, Branch)> = None;
        for &pair in order.open() {
            let Pair { one, other } = order.pairs[pair];
            let (straight, back) = (room(one, other), room(other, one));
            let score = (straight + back) / self.weights[pair];
            // The order of open pairs depends on what was undone; the choice does not.
            if choice.is_none_or(|(least, branch)| score < least || score == least && pair < branch.pair) {
                choice = Some((score, Branch { mark: order.mark(), pair, straight: straight >= back }));
            }
        }
        choice.map(|(_, branch)| branch)
    }

    /// Goes down one side of a branch. False where nothing there is below the limit.
    fn take(&mut self, order: &mut Order<'_>, branch: Branch, limit: f64) -> bool {
        self.nodes += 1;
        let Pair { one, other } = order.pairs[branch.pair];
        let put = if branch.straight { order.put(one, other) } else { order.put(other, one) };
        let open = put && self.settler.settle(order, limit);
        if !open {
            self.weights[branch.pair] += 1.0;
        }
        open
    }
}

/// All orders are known: the earliest starts are a solution.
fn found(order: &Order<'_>, best: &mut Best) {
    let found = Best::of(order.jobs, &order.heads());
    if found.total < best.total {
        *best = found;
    }
}
