//! Work-conserving fill: what nobody scheduled in the current slot goes to flows with demand.
//!
//! In proportion to their later-slot rates first, because those are the bytes that can be brought forward; then in
//! equal parts to whoever can take more, so that a round ends before the slot does; what rounding and caps left over
//! goes in the order of reservations. No link is promised more than it has, and no flow is raised above its ceiling,
//! or above what its predecessors feed it. What is sent earlier is taken off the end of the schedule.

use super::{Hop, Problem, Schedule, Why, predecessor_limit};
use crate::units::{Bytes, Nanos, Rate};

/// Rounds of sharing before the rest is given out in order.
const ROUNDS: usize = 8;

/// Memory that is kept from decision to decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    /// By place in the order: weight in the present round, the most the flow may have in it, and the most at all.
    weight: Vec<u64>,
    cap: Vec<Rate>,
    most: Vec<Rate>,
    raised: Vec<Rate>,
    share: Vec<Rate>,
    /// Per link: sum of weights.
    sum: Vec<u128>,
}

/// Raises current-slot rates; `planned` holds the sums of own flows by link × slot and is kept up to date for slot 0.
pub(super) fn fill(
    problem: &Problem,
    horizon: usize,
    order: &[usize],
    planned: &mut [Rate],
    scratch: &mut Scratch,
    out: &mut [Schedule],
) {
    let later = |f: &usize| out[*f].rates[1..].iter().fold(0_u64, |sum, rate| sum.saturating_add(rate.0));
    scratch.weight.clear();
    scratch.weight.extend(order.iter().map(later));
    scratch.most.clear();
    scratch.most.extend(order.iter().map(|&f| {
        let flow = &problem.flows[f];
        flow.ceiling.min(predecessor_limit(flow, problem.rest))
    }));
    scratch.raised.clear();
    scratch.raised.extend(order.iter().map(|&f| out[f].rates[0]));

    scratch.cap.clear();
    scratch.cap.extend(order.iter().zip(&scratch.most).map(|(&f, most)| {
        let bytes = out[f].rates[1..].iter().fold(Bytes::ZERO, |sum, rate| sum.plus(rate.over(problem.slot)));
        out[f].rates[0].plus(Rate::needed(bytes, problem.rest)).min(*most)
    }));
    share_out(problem, horizon, order, planned, scratch);
    scratch.weight.fill(1);
    scratch.cap.clone_from(&scratch.most);
    share_out(problem, horizon, order, planned, scratch);
    for (at, &f) in order.iter().enumerate() {
        let room = room(problem, horizon, f, planned).min(scratch.most[at].minus(scratch.raised[at]));
        raise(problem, horizon, f, room, planned, &mut scratch.raised[at]);
    }

    for (at, &f) in order.iter().enumerate() {
        let schedule = &mut out[f];
        let before = schedule.rates[0];
        if scratch.raised[at] > before {
            let brought = scratch.raised[at].over(problem.rest).minus(before.over(problem.rest));
            schedule.rates[0] = scratch.raised[at];
            schedule.filled = scratch.raised[at].minus(before);
            schedule.why = Why::WorkConserving;
            shorten(&mut schedule.rates[1..], problem.slot, brought);
        }
    }
}

/// Shares what is left of the own links by weight, again and again, until no flow can take its share.
fn share_out(problem: &Problem, horizon: usize, order: &[usize], planned: &mut [Rate], scratch: &mut Scratch) {
    for _ in 0..ROUNDS {
        scratch.sum.clear();
        scratch.sum.resize(problem.links.len(), 0);
        for (at, &f) in order.iter().enumerate() {
            if scratch.cap[at] <= scratch.raised[at] || room(problem, horizon, f, planned) == Rate::ZERO {
                scratch.weight[at] = 0;
            }
            for hop in problem.flows[f].path {
                scratch.sum[hop.link] += u128::from(scratch.weight[at]);
            }
        }
        // All shares are of what is left now; handing them out must not shrink the ones that follow.
        scratch.share.clear();
        for (at, &f) in order.iter().enumerate() {
            let weight = u128::from(scratch.weight[at]);
            if weight == 0 {
                scratch.share.push(Rate::ZERO);
                continue;
            }
            let own = problem.flows[f].path.iter().filter(|hop| problem.links[hop.link].own);
            let of_link = |hop: &Hop| {
                let left = u128::from(left(problem, horizon, hop, Rate::ZERO, planned).0);
                Rate(u64::try_from(left * weight / scratch.sum[hop.link].max(1)).unwrap_or(u64::MAX))
            };
            scratch.share.push(own.map(of_link).min().unwrap_or(Rate::ZERO));
        }
        let mut given = false;
        for (at, &f) in order.iter().enumerate() {
            let most = scratch.cap[at].minus(scratch.raised[at]);
            let more = scratch.share[at].min(most).min(room(problem, horizon, f, planned));
            given |= more > Rate::ZERO;
            raise(problem, horizon, f, more, planned, &mut scratch.raised[at]);
        }
        if !given {
            break;
        }
    }
}

fn raise(problem: &Problem, horizon: usize, f: usize, more: Rate, planned: &mut [Rate], rate: &mut Rate) {
    *rate = rate.plus(more);
    for hop in problem.flows[f].path {
        let sum = &mut planned[hop.link * horizon];
        *sum = sum.plus(more);
    }
}

/// What every link of a flow's path has left in the current slot; nothing for a flow without an own link, which
/// nothing here would hold back.
fn room(problem: &Problem, horizon: usize, f: usize, planned: &[Rate]) -> Rate {
    let flow = &problem.flows[f];
    let (path, old) = (flow.path, flow.old.first().copied().unwrap_or(Rate::ZERO));
    if !path.iter().any(|hop| problem.links[hop.link].own) {
        return Rate::ZERO;
    }
    path.iter().map(|hop| left(problem, horizon, hop, old, planned)).min().unwrap_or(Rate::ZERO)
}

/// What one link has left in the current slot beside all that is promised or taken there. `old`: what of its load is the
/// flow's own.
fn left(problem: &Problem, horizon: usize, hop: &Hop, old: Rate, planned: &[Rate]) -> Rate {
    let link = &problem.links[hop.link];
    let others = hop.load(0).minus(old).plus(hop.siblings).plus(link.filled);
    link.usable.minus(others.plus(planned[hop.link * horizon]))
}

/// Takes bytes that were brought forward off the end.
fn shorten(later: &mut [Rate], slot: Nanos, mut brought: Bytes) {
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
