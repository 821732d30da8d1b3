//! Work-conserving fill: what nobody scheduled in the current slot goes to flows with demand.
//!
//! In proportion to their later-slot rates first, because those are the bytes that can be brought forward; then in
//! equal parts to whoever can take more, so that a round ends before the slot does; what rounding and caps left over
//! goes in the order of reservations. No link is promised more than it has, and no flow is raised above its ceiling,
//! or above what its predecessors feed it. What is sent earlier is taken off the end of the schedule.

use std::ops::Range;

use super::{Problem, Schedule, Why, predecessor_limit};
use crate::units::{Bytes, Nanos, Rate};

/// Rounds of sharing before the rest is given out in order.
pub(super) const ROUNDS: usize = 8;

/// Memory that is kept from decision to decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    takers: Vec<Taker>,
    /// The paths of the takers, one after another.
    hops: Vec<Hop>,
    on_links: Vec<OnLink>,
}

/// A flow that could take more. On a busy link there are few of them or none.
#[derive(Clone, Debug)]
struct Taker {
    flow: usize,
    /// Its place among all hops.
    path: Range<usize>,
    /// Weight in the present round; none: it takes no more.
    weight: u64,
    /// The most the flow may have in the present round, and the most at all.
    cap: Rate,
    most: Rate,
    raised: Rate,
    share: Rate,
}

/// A link of a taker's path, in the current slot.
#[derive(Clone, Copy, Debug)]
struct Hop {
    link: usize,
    /// What is left there beside all that other hosts' flows promised or take.
    leave: Rate,
    /// The same with the flow's own old promise among the others', where it is an own link: what is shared out by weight.
    shared: Option<Rate>,
}

/// What the takers make of a link.
#[derive(Clone, Copy, Debug)]
struct OnLink {
    /// The sum of own flows in the current slot.
    taken: Rate,
    weights: u128,
}

/// Raises current-slot rates. `planned`: the sum of own flows on a link in the current slot.
pub(super) fn fill(
    problem: &Problem,
    order: &[usize],
    planned: impl Fn(usize) -> Rate,
    scratch: &mut Scratch,
    out: &mut [Schedule],
) {
    let Scratch { takers, hops, on_links } = scratch;
    on_links.clear();
    on_links.extend((0..problem.links.len()).map(|link| OnLink { taken: planned(link), weights: 0 }));
    takers.clear();
    hops.clear();
    for &f in order {
        takers.extend(taker(problem, f, &out[f], hops, on_links));
    }
    if takers.is_empty() {
        return;
    }
    share_out(takers, hops, on_links);
    for taker in takers.iter_mut() {
        (taker.weight, taker.cap) = (1, taker.most);
    }
    share_out(takers, hops, on_links);
    for taker in takers.iter_mut() {
        let path = &hops[taker.path.clone()];
        let more = room(path, on_links).min(taker.most.minus(taker.raised));
        taker.raise(path, on_links, more);
    }

    for taker in takers.iter() {
        let schedule = &mut out[taker.flow];
        let before = schedule.rates[0];
        if taker.raised > before {
            let brought = taker.raised.over(problem.rest).minus(before.over(problem.rest));
            schedule.rates[0] = taker.raised;
            schedule.filled = taker.raised.minus(before);
            schedule.why = Why::WorkConserving;
            shorten(&mut schedule.rates[1..], problem.slot, brought);
        }
    }
}

/// A flow as taker, with its path appended to the hops; none if it may not have more, or a link of its path is full, which
/// stays so. A flow without an own link takes nothing either: nothing here would hold it back.
fn taker(problem: &Problem, f: usize, schedule: &Schedule, hops: &mut Vec<Hop>, on_links: &[OnLink]) -> Option<Taker> {
    let flow = &problem.flows[f];
    let first = hops.len();
    let old = flow.old.first().copied().unwrap_or(Rate::ZERO);
    hops.extend(flow.path.iter().map(|hop| {
        let link = &problem.links[hop.link];
        let beside = |load: Rate| link.usable.minus(load.plus(hop.siblings).plus(link.filled));
        let load = hop.load(0);
        Hop { link: hop.link, leave: beside(load.minus(old)), shared: link.own.then(|| beside(load)) }
    }));
    let path = &hops[first..];
    let now = schedule.rates[0];
    let held = path.iter().any(|hop| hop.shared.is_some());
    let most = || flow.ceiling.min(predecessor_limit(flow, problem.rest));
    let room = if held { room(path, on_links) } else { Rate::ZERO };
    let Some(most) = (room > Rate::ZERO).then(most).filter(|most| *most > now) else {
        hops.truncate(first);
        return None;
    };
    let later = schedule.rates[1..].iter().filter(|rate| **rate > Rate::ZERO);
    let weight = later.clone().fold(0_u64, |sum, rate| sum.saturating_add(rate.0));
    let bytes = later.fold(Bytes::ZERO, |sum, rate| sum.plus(rate.over(problem.slot)));
    let cap = now.plus(Rate::needed(bytes, problem.rest)).min(most);
    Some(Taker { flow: f, path: first..hops.len(), weight, cap, most, raised: now, share: Rate::ZERO })
}

/// Shares what is left of the own links by weight, again and again, until no flow can take its share.
fn share_out(takers: &mut [Taker], hops: &[Hop], on_links: &mut [OnLink]) {
    for _ in 0..ROUNDS {
        on_links.iter_mut().for_each(|on_link| on_link.weights = 0);
        for taker in takers.iter_mut().filter(|taker| taker.weight > 0) {
            let path = &hops[taker.path.clone()];
            if taker.cap <= taker.raised || room(path, on_links) == Rate::ZERO {
                taker.weight = 0;
            }
            for hop in path {
                on_links[hop.link].weights += u128::from(taker.weight);
            }
        }
        // All shares are of what is left now; handing them out must not shrink the ones that follow.
        for taker in takers.iter_mut().filter(|taker| taker.weight > 0) {
            let of_link = |hop: &Hop| {
                let OnLink { taken, weights } = on_links[hop.link];
                let left = u128::from(hop.shared?.minus(taken).0);
                Some(Rate(u64::try_from(left * u128::from(taker.weight) / weights.max(1)).unwrap_or(u64::MAX)))
            };
            taker.share = hops[taker.path.clone()].iter().filter_map(of_link).min().unwrap_or(Rate::ZERO);
        }
        let mut given = false;
        for taker in takers.iter_mut().filter(|taker| taker.weight > 0) {
            let path = &hops[taker.path.clone()];
            let most = taker.cap.minus(taker.raised);
            let more = taker.share.min(most).min(room(path, on_links));
            given |= more > Rate::ZERO;
            taker.raise(path, on_links, more);
        }
        if !given {
            break;
        }
    }
}

impl Taker {
    fn raise(&mut self, path: &[Hop], on_links: &mut [OnLink], more: Rate) {
        self.raised = self.raised.plus(more);
        for hop in path {
            let taken = &mut on_links[hop.link].taken;
            *taken = taken.plus(more);
        }
    }
}

/// What every link of a path has left in the current slot.
fn room(path: &[Hop], on_links: &[OnLink]) -> Rate {
    path.iter().map(|hop| hop.leave.minus(on_links[hop.link].taken)).min().unwrap_or(Rate::ZERO)
}

/// Takes bytes that were brought forward off the end.
pub(super) fn shorten(later: &mut [Rate], slot: Nanos, mut brought: Bytes) {
    for rate in later.iter_mut().rev() {
        let bytes = rate.over(slot);
        if bytes > brought {
            *rate = Rate::needed(bytes.minus(brought), slot);
            return;
        }
        brought = brought.minus(bytes);
        *rate = Rate::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_brought_forward_is_taken_off_the_end() {
        let slot = Nanos::from_millis(60);
        let mut rates = [Rate::mbps(100), Rate::ZERO, Rate::mbps(80)];
        shorten(&mut rates, slot, Rate::mbps(30).over(slot));
        assert_eq!(rates, [Rate::mbps(100), Rate::ZERO, Rate::mbps(50)]);
        shorten(&mut rates, slot, Rate::mbps(90).over(slot));
        assert_eq!(rates, [Rate::mbps(60), Rate::ZERO, Rate::ZERO]);
        shorten(&mut rates, slot, Rate::mbps(900).over(slot));
        assert_eq!(rates, [Rate::ZERO; 3]);
    }
}
