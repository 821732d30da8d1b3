//! `srpt-p`: least remaining round first, promoted when old. The default.
//!
//! Every link is offered to the rounds in one order that all hosts share. A flow's *offer* is what better-ranked rounds
//! of other jobs leave of its tightest link, divided among its own job's flows there. All flows of a job run at the
//! least offer any of them has (minimum allocation for desired duration), because a collective moves at its slowest
//! flow. Offers depend on better ranks only, so with fixed keys the rates settle (no oscillation), and a dip heals one
//! exchange after its cause is gone (offers, not rates, are compared).
//!
//! Every flow with demand keeps the link's floor; the order of rounds shares out the rest.

use super::{JobScene, LinkScene, Planned, Policy, Rank, Scene, Why, forecast, resize};
use crate::units::{Bytes, Rate, Share};

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
    /// Their shares together, in parts of a share.
    parts: u64,
    /// What one with a full share is offered, once that is worked out.
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
    for flow in &scene.flows[flows.clone()] {
        for &l in &flow.links {
            shared[l].here += 1;
            shared[l].parts += flow.share.parts();
        }
    }
    let mut common = job.peer_offer;
    for i in flows.clone() {
        let offers = scene.flows[i].links.iter().map(|&l| {
            let (link, shared) = (&scene.links[l], &mut shared[l]);
            if shared.offer.is_none() {
                count_better(link, shared, job.rank);
                shared.offer = Some(link_offer(link, shared, job));
            }
            shared.offer.unwrap_or(Rate::MAX)
        });
        let full = offers.min().unwrap_or(Rate::MAX);
        out[i].offer = full.for_share(scene.flows[i].share);
        common = common.min(full);
    }
    for i in flows {
        let flow = &scene.flows[i];
        let planned = &mut out[i];
        planned.rate = common.for_share(flow.share).max(flow.floor).min(planned.offer.max(flow.floor));
        planned.why = reason(scene, planned, flow, job.peer_offer.for_share(flow.share));
        for &l in &flow.links {
            let above_floor = planned.rate.minus(scene.links[l].floor);
            shared[l].used = shared[l].used.plus(above_floor);
            shared[l].all = shared[l].all.plus(planned.rate);
            (shared[l].here, shared[l].parts, shared[l].offer) = (0, 0, None);
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

/// What better ranks leave of a link for each of the job's flows there that has a full share.
fn link_offer(link: &LinkScene, shared: &Shared, job: &JobScene) -> Rate {
    let of_job = || link.others.iter().filter(|other| other.rank.2 == job.job);
    let here = (shared.here + of_job().count() as u64).max(1);
    // Other hosts' flows say how much they carry by their demand.
    let others = of_job().map(|other| Share::of(other.demand.0, job.full.0).parts());
    let all_alike = job.full == Bytes::ZERO;
    let parts = if all_alike { here * Share::FULL.parts() } else { shared.parts + others.sum::<u64>() };
    let above_floors = link.usable.minus(Rate(link.floor.0.saturating_mul(link.active)));
    let for_job = Rate(link.floor.0.saturating_mul(here)).plus(above_floors.minus(shared.used));
    let by_rank = for_job.split(Share::FULL.parts(), parts);
    if link.trust >= 1.0 {
        return by_rank;
    }
    // An old view is worth less: the offer moves from what ranks leave towards an equal share of the link.
    let equal = Rate(link.usable.share(link.active.max(1)).0.saturating_mul(here));
    let conservative = equal.split(Share::FULL.parts(), parts);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{FlowScene, JobScene, Other};
    use crate::units::{FlowId, JobId, Nanos};
    use proptest::prelude::*;

    const JOB: JobId = JobId(7);

    /// A job that follows a plan: per flow its parts and its second link; the own egress is link 0. `foreign` are the
    /// parts of the job's flows of other hosts on each other link.
    fn scene(usable: &[u64], flows: &[(u64, usize)], foreign: &[Vec<u64>]) -> Scene {
        let most = flows.iter().map(|f| f.0).chain(foreign.iter().flatten().copied()).max().unwrap_or(1);
        let rank: Rank = (true, Nanos(1), JOB);
        let link = |(l, usable): (usize, &u64)| {
            let others = foreign.get(l).into_iter().flatten();
            let other = |parts: &u64| Other { rank, rate: Rate::ZERO, demand: Bytes(parts * 1000) };
            let others: Vec<Other> = others.map(other).collect();
            let here = flows.iter().filter(|f| l == 0 || f.1 == l).count();
            let active = (here + others.len()) as u64;
            LinkScene {
                usable: Rate(*usable),
                own: l == 0,
                others,
                trust: 1.0,
                fresh: true,
                active,
                ..LinkScene::default()
            }
        };
        let flow = |(i, &(parts, to)): (usize, &(u64, usize))| FlowScene {
            flow: FlowId(i as u64),
            links: vec![0, to],
            demand: Bytes(parts * 1000),
            share: Share::of(parts, most),
            ..FlowScene::default()
        };
        Scene {
            slot: Nanos::from_millis(60),
            horizon: 4,
            links: usable.iter().enumerate().map(link).collect(),
            jobs: vec![JobScene { job: JOB, rank, peer_offer: Rate::MAX, full: Bytes(most * 1000) }],
            flows: flows.iter().enumerate().map(flow).collect(),
            ..Scene::default()
        }
    }

    #[test]
    fn a_plans_flows_run_in_proportion_to_what_they_carry() {
        // 3 + 1 parts leave by 400; on the way of the larger one another host's flow of 3 parts shares 300.
        let scene = scene(&[400_000_000, 300_000_000, 1_000_000_000], &[(3, 1), (1, 2)], &[vec![], vec![3], vec![]]);
        let mut out = Vec::new();
        SrptP.plan(&scene, &mut out);
        let mbps: Vec<u64> = out.iter().map(|planned| planned.rate.0.div_ceil(1_000_000)).collect();
        assert_eq!(mbps, [150, 50]);
        assert_eq!(out[0].offer.0.div_ceil(1_000_000), 150);
        // What its own links would give the small one is its part of the egress.
        assert_eq!(out[1].offer.0.div_ceil(1_000_000), 100);
    }

    proptest! {
        /// Against the definition: the largest rates in proportion to the parts that fit every link.
        #[test]
        fn the_common_pace_is_that_of_the_tightest_link(
            usable in prop::collection::vec(1_000_000_u64..1_000_000_000, 4),
            flows in prop::collection::vec((1_u64..100, 1_usize..4), 1..8),
            foreign in prop::collection::vec(prop::collection::vec(1_u64..100, 0..4), 3),
        ) {
            let foreign = [vec![vec![]], foreign].concat();
            let scene = scene(&usable, &flows, &foreign);
            let mut out = Vec::new();
            SrptP.plan(&scene, &mut out);
            let crosses = |l: usize, f: &(u64, usize)| l == 0 || f.1 == l;
            let pace = (0..4).filter(|&l| flows.iter().any(|f| crosses(l, f))).map(|l| {
                let parts: u64 = flows.iter().filter(|f| crosses(l, f)).map(|f| f.0).chain(foreign[l].iter().copied()).sum();
                usable[l] as f64 / parts as f64
            });
            let pace = pace.fold(f64::INFINITY, f64::min);
            for (planned, (parts, _)) in out.iter().zip(&flows) {
                let due = pace * *parts as f64;
                // Shares are rounded to 2^-20 of the largest.
                prop_assert!((planned.rate.0 as f64 - due).abs() <= due * 1e-3 + 200.0, "{} for {due}", planned.rate);
            }
        }
    }
}
