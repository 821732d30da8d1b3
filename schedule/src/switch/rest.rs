//! Sums of the promises that a view does not list, so that no host thinks a link emptier than it is.
//!
//! Promises come in order of rank. Those of one job of the asker make one sum: it has to know what its own job has there.
//! All others are summed while they lie between the same two of the asker's own promises and in the same octave of keys, so
//! that what goes before each of its flows is exact. Of very many sums the last ones become one.

use crate::message::{FlowPromise, LinkView, PromiseSum};
use crate::units::{JobId, Rate};

/// Which promises of other jobs make one sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    /// How many own promises come before.
    own_before: u32,
    of_plan: bool,
    ordinary: bool,
    octave: u32,
}

/// Sums of own jobs, and of others, at most.
const MAX_OF_EITHER: usize = LinkView::MAX_SUMS / 2 - 1;

/// Collects what a view does not list.
#[derive(Debug)]
pub(super) struct Rest<'a> {
    /// Jobs that the asker has a part in, sorted.
    own_jobs: &'a [JobId],
    own_before: u32,
    /// One for each own job.
    of_jobs: Vec<PromiseSum>,
    /// Of all others, best rank first.
    of_others: Vec<PromiseSum>,
    /// The class of the last of them.
    class: Option<Class>,
}

impl<'a> Rest<'a> {
    pub(super) fn new(own_jobs: &'a [JobId]) -> Rest<'a> {
        Rest { own_jobs, own_before: 0, of_jobs: Vec::new(), of_others: Vec::new(), class: None }
    }

    /// The next promise in order of rank is the asker's.
    pub(super) fn own(&mut self) {
        self.own_before += 1;
    }

    /// The next promise in order of rank, with its rates from the current slot on.
    pub(super) fn add(&mut self, promise: &FlowPromise, rates: impl Iterator<Item = Rate>) {
        // Flows of a plan are ranked one by one, and one more job than there is room for counts as somebody else's.
        let own = self.own_jobs.binary_search(&promise.job).is_ok() && !promise.rank().is_of_plan();
        match if own { self.sum_of_job(promise) } else { None } {
            Some(sum) => put(sum, promise, rates),
            None => put(self.sum_of_others(promise), promise, rates.take(1)),
        }
    }

    pub(super) fn into_sums(mut self) -> Vec<PromiseSum> {
        self.of_jobs.append(&mut self.of_others);
        self.of_jobs
    }

    fn sum_of_job(&mut self, promise: &FlowPromise) -> Option<&mut PromiseSum> {
        let known = self.of_jobs.iter().position(|sum| sum.sum.job == promise.job);
        if known.is_none() && self.of_jobs.len() < MAX_OF_EITHER {
            self.of_jobs.push(opened(promise, true));
            return self.of_jobs.last_mut();
        }
        known.and_then(|at| self.of_jobs.get_mut(at))
    }

    fn sum_of_others(&mut self, promise: &FlowPromise) -> &mut PromiseSum {
        let rank = promise.rank();
        let class = Class {
            own_before: self.own_before,
            of_plan: rank.is_of_plan(),
            ordinary: rank.ordinary,
            octave: if rank.ordinary { rank.key.0.checked_ilog2().unwrap_or(0) } else { 0 },
        };
        if self.of_others.is_empty() || self.class != Some(class) && self.of_others.len() < MAX_OF_EITHER {
            self.class = Some(class);
            self.of_others.push(opened(promise, false));
        }
        let last = self.of_others.len() - 1;
        &mut self.of_others[last]
    }
}

impl LinkView {
    /// The same with one more sum in place of the list, where the list would make a message too long.
    pub fn sum_list(&mut self) {
        let mut flows = std::mem::take(&mut self.flows).into_iter();
        let Some(best) = flows.next() else { return };
        let mut sum = opened(&best, false);
        for promise in std::iter::once(best).chain(flows) {
            put(&mut sum, &promise, std::iter::once(promise.rate(0)));
        }
        self.rest.push(sum);
    }
}

/// A sum of nothing that begins with this promise, which is the best of it.
fn opened(promise: &FlowPromise, of_job: bool) -> PromiseSum {
    let FlowPromise { job, promoted, key, t0, .. } = *promise;
    PromiseSum { flows: 0, of_job, sum: FlowPromise { job, promoted, key, t0, ..FlowPromise::default() } }
}

fn put(to: &mut PromiseSum, promise: &FlowPromise, rates: impl Iterator<Item = Rate>) {
    let PromiseSum { flows, sum, .. } = to;
    sum.takes = sum.takes.plus(promise.takes);
    sum.demand = sum.demand.plus(promise.demand);
    sum.delivered = sum.delivered.plus(promise.delivered);
    for (ahead, rate) in rates.enumerate() {
        *flows += u32::from(ahead == 0 && rate > Rate::ZERO);
        match sum.rates.get_mut(ahead) {
            Some(sum) => *sum = sum.plus(rate),
            None => sum.rates.push(rate),
        }
    }
}
