//! `srpt-p`: least remaining round first, promoted when old. The default.
//!
//! Every link is offered to the rounds in one order that all hosts share. A flow's *offer* is what better-ranked rounds
//! of other jobs leave of its tightest link, divided among its own job's flows there. All flows of a job run at the
//! least offer any of them has (minimum allocation for desired duration), because a collective moves at its slowest
//! flow. Offers depend on better ranks only, so with fixed keys the rates settle (no oscillation), and a dip heals one
//! exchange after its cause is gone (offers, not rates, are compared).
//!
//! Every flow with demand keeps the link's floor; the order of rounds shares out the rest.

use super::{LinkScene, Planned, Policy, Rank, Scene, Why, forecast, resize};
use crate::units::{JobId, Rate};

/// The policy; it has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct SrptP;

/// How far one link has been shared out, in the order of ranks.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    /// Next promise of another host to count.
    next: usize,
    /// Above the floors, granted to better-ranked rounds of other jobs.
    used: Rate,
    /// The same with every promise and every own grant, whatever its rank: what the fill must leave alone.
    all: Rate,
    /// Flows that the job at hand has there on this host.
    here: u64,
    /// What each of them is offered, once that is worked out.
    offer: Option<Rate>,
}

impl Policy for SrptP {
    fn plan(&mut self, scene: &Scene, out: &mut Vec<Planned>) {
        resize(out, scene.flows.len());
        let mut shared: Vec<Shared> = scene.links.iter().map(opening).collect();
        let mut first = 0;
        while first < scene.flows.len() {
            let job = scene.flows[first].job;
            let len = scene.flows[first..].iter().take_while(|f| f.job == job).count();
            plan_job(scene, &mut shared, first..first + len, out);
            first += len;
        }
        // What the fill adds is promised to nobody: whoever wants it by rank may have it at once.
        for (flow, planned) in scene.flows.iter().zip(out.iter_mut()) {
            forecast(scene, planned.rate, flow.remaining(), &mut planned.rates);
        }
        if scene.work_conserving {
            fill(scene, &mut shared, out);
        }
    }
}

fn opening(link: &LinkScene) -> Shared {
    let all = link.others.iter().fold(Rate::ZERO, |sum, other| sum.plus(other.rate));
    Shared { all, ..Shared::default() }
}

/// Gives one job's flows their offers and the job its common rate.
fn plan_job(scene: &Scene, shared: &mut [Shared], flows: std::ops::Range<usize>, out: &mut [Planned]) {
    let job = &scene.jobs[scene.flows[flows.start].job];
    for &l in scene.flows[flows.clone()].iter().flat_map(|flow| &flow.links) {
        shared[l].here += 1;
    }
    let mut common = job.peer_offer;
    for i in flows.clone() {
        let offers = scene.flows[i].links.iter().map(|&l| {
            let (link, shared) = (&scene.links[l], &mut shared[l]);
            if shared.offer.is_none() {
                count_better(link, shared, job.rank);
                shared.offer = Some(link_offer(link, shared, job.job));
            }
            shared.offer.unwrap_or(Rate::MAX)
        });
        out[i].offer = offers.min().unwrap_or(Rate::MAX);
        common = common.min(out[i].offer);
    }
    for i in flows {
        let flow = &scene.flows[i];
        let planned = &mut out[i];
        planned.rate = common.max(flow.floor).min(planned.offer.max(flow.floor));
        planned.why = reason(scene, planned, flow, job.peer_offer);
        for &l in &flow.links {
            let above_floor = planned.rate.minus(scene.links[l].floor);
            shared[l].used = shared[l].used.plus(above_floor);
            shared[l].all = shared[l].all.plus(planned.rate);
            (shared[l].here, shared[l].offer) = (0, None);
        }
    }
}

/// Counts other hosts' promises of better rank on a link; ranks come in ascending order, so each is counted once.
fn count_better(link: &LinkScene, shared: &mut Shared, rank: Rank) {
    while let Some(other) = link.others.get(shared.next) {
        if other.rank >= rank {
            break;
        }
        if other.rank.2 != rank.2 {
            shared.used = shared.used.plus(other.rate.minus(link.floor));
        }
        shared.next += 1;
    }
}

/// What better ranks leave of a link for each of the job's flows there.
fn link_offer(link: &LinkScene, shared: &Shared, job: JobId) -> Rate {
    let others_here = link.others.iter().filter(|other| other.rank.2 == job).count() as u64;
    let here = (shared.here + others_here).max(1);
    let above_floors = link.usable.minus(Rate(link.floor.0.saturating_mul(link.active)));
    let by_rank = link.floor.plus(above_floors.minus(shared.used).share(here));
    if link.trust >= 1.0 {
        return by_rank;
    }
    // An old view is worth less: the offer moves from what ranks leave towards an equal share of the link.
    let conservative = link.usable.share(link.active.max(1));
    by_rank.times(link.trust).plus(conservative.times(1.0 - link.trust))
}

fn reason(scene: &Scene, planned: &Planned, flow: &super::FlowScene, peer_offer: Rate) -> Why {
    let local = flow.links.iter().any(|&l| !scene.links[l].own && scene.links[l].trust <= 0.0);
    match planned {
        p if p.rate <= flow.floor && p.offer <= flow.floor => Why::Rank,
        p if p.rate < p.offer && peer_offer <= p.rate => Why::Job,
        p if p.rate < p.offer => Why::Job,
        _ if local => Why::LocalTable,
        _ => Why::LinkCap,
    }
}

/// Gives what nobody was promised to whoever has demand, in order of rank. On a link that other hosts use too, each
/// flow takes its share of the rest only, since others see the same rest at the same moment. So an order never holds a
/// flow back while its whole path has room.
fn fill(scene: &Scene, shared: &mut [Shared], out: &mut [Planned]) {
    for (flow, planned) in scene.flows.iter().zip(out.iter_mut()) {
        let rest = flow.links.iter().fold(Rate::MAX, |rest, &l| {
            let link = &scene.links[l];
            let free = link.usable.minus(shared[l].all);
            let share = if link.own { free } else { free.share(link.active) };
            if link.trust >= 1.0 { rest.min(share) } else { Rate::ZERO }
        });
        // Less than a hundredth of the flow's rate is not worth an order.
        if rest == Rate::MAX || rest.0.saturating_mul(100) <= planned.rate.0 {
            continue;
        }
        planned.rate = planned.rate.plus(rest);
        planned.why = Why::WorkConserving;
        for &l in flow.links.iter().filter(|&&l| scene.links[l].own) {
            shared[l].all = shared[l].all.plus(rest);
        }
    }
}
