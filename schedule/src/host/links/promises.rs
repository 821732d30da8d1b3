//! Other hosts' promises on a link: what they come to, and how much a new view of them differs from the one before.

use super::super::change::{Change, counted_on};
use super::{Link, Links, ViewState};
use crate::event::Now;
use crate::message::{FlowPromise, Rank};
use crate::policy::{JobLoad, Other};
use crate::units::{HolderId, JobId, LinkId, Nanos, Rate};

/// How much bandwidth moved between two views of those that have something left to send; `None` if other rounds are there, or
/// they come in another order.
fn moved(now: Nanos, was: &[Other], is: &[Other]) -> Option<Rate> {
    if !rounds(was).map(round).eq(rounds(is).map(round)) {
        return None;
    }
    let takes = |round: &[Other]| round.iter().fold(Rate::ZERO, |sum, other| sum.plus(other.rate).plus(other.filled));
    let end = |round: &[Other]| round.iter().map(|other| other.until).max().unwrap_or_default();
    let by = |(was, is): (&[Other], &[Other])| {
        let by = Rate(takes(was).0.abs_diff(takes(is).0));
        if counted_on(now, end(was), end(is)) { takes(was).max(by) } else { by }
    };
    Some(rounds(was).zip(rounds(is)).map(by).fold(Rate::ZERO, Rate::plus))
}

fn rounds(others: &[Other]) -> impl Iterator<Item = &[Other]> {
    others.chunk_by(|a, b| a.rank == b.rank)
}

/// Which round it is, and whether it was promoted.
fn round(of: &[Other]) -> Option<(bool, JobId)> {
    of.first().map(|other| (other.rank.ordinary, other.rank.job))
}

impl Links {
    /// Does any path, or what this host receives by, cross this link?
    pub fn know(&self, link: LinkId) -> bool {
        self.index.contains_key(&link)
    }

    /// Takes the silence of a holder for an empty table (a mutant).
    pub fn forget_silent(&mut self) {
        let Links { all, holders, .. } = self;
        let state = |holder: Option<HolderId>| holder.and_then(|holder| holders.get(&holder)).map(|view| view.state);
        let silent = |link: &&mut Link| state(link.holder).is_some_and(|state| state != ViewState::Fresh);
        all.iter_mut().filter(silent).for_each(Link::forget);
    }
}

impl Link {
    /// Reduces a new view to what every decision needs; says how much its promises differ from the ones before.
    pub(super) fn take_promises(&mut self, now: Now) -> Change {
        let before = std::mem::take(&mut self.others);
        self.foreign.clear();
        self.jobs.clear();
        let view = std::mem::take(&mut self.view);
        let listed = view.flows.iter().map(|promise| (promise, 1, true));
        let summed = view.rest.iter().map(|rest| (&rest.sum, rest.flows, rest.of_job));
        let mut others = Vec::with_capacity(before.len());
        for (promise, flows, of_job) in listed.chain(summed) {
            let rate = promise.rate(0);
            if let Some(more) = flows.checked_sub(1).filter(|_| rate > Rate::ZERO) {
                let filled = promise.takes.minus(rate);
                let &FlowPromise { demand, until, .. } = promise;
                others.push(Other { more, rank: promise.rank(), rate, filled, demand, until });
            }
            if of_job {
                self.take_round(promise);
                self.take_load(promise, flows, view.load.len());
            }
        }
        // A holder whose clock is a little behind is still in the slot before, which is over here.
        let over = usize::from(now.slot.since(self.view_slot) > 0);
        let sum = view.load.get(over).copied().unwrap_or(Rate::ZERO);
        if view.flows.is_empty() && view.rest.is_empty() && sum > Rate::ZERO {
            others.push(Other { rank: Rank::OF_SUMS, rate: sum, ..Other::default() });
        }
        if !view.rest.is_empty() {
            others.sort_by_key(|other| other.rank);
        }
        (self.view, self.others) = (view, others);
        if self.others == before {
            return Change::None;
        }
        let left =
            |others: &[Other]| -> Vec<Other> { others.iter().filter(|other| !other.over(now.wall)).copied().collect() };
        match moved(now.wall, &left(&before), &left(&self.others)) {
            None => Change::Large,
            Some(by) => {
                self.moved = self.moved.plus(by);
                Change::moving(self.moved, self.capacity())
            }
        }
    }

    /// How much more or less is left there than before to managed flows.
    pub(super) fn left_otherwise(&mut self, before: Rate) -> Change {
        let left = self.capacity().minus(self.cross(1.0));
        if left == before {
            return Change::None;
        }
        self.moved = self.moved.plus(Rate(left.0.abs_diff(before.0)));
        Change::moving(self.moved, self.capacity())
    }

    /// Adds what a promise, or a sum of many, has in each slot to what its job has.
    fn take_load(&mut self, promise: &FlowPromise, flows: u32, slots: usize) {
        if !self.keeps_jobs || promise.rate(0) == Rate::ZERO && promise.rates.len() < 2 {
            return;
        }
        let at = match self.jobs.binary_search_by_key(&promise.job, |job| job.job) {
            Ok(at) => at,
            Err(at) => {
                self.jobs.insert(at, JobLoad { job: promise.job, flows: 0, load: vec![Rate::ZERO; slots] });
                at
            }
        };
        let job = &mut self.jobs[at];
        job.flows += u64::from(flows) * u64::from(promise.rate(0) > Rate::ZERO);
        for (ahead, sum) in job.load.iter_mut().enumerate() {
            *sum = sum.plus(promise.rate(ahead));
        }
    }
}
