//! `srpt-p`: least remaining round first, promoted when old. The default.
//!
//! Every link is offered to the rounds in one order that all hosts share. A flow's *offer* is what better-ranked rounds
//! of other jobs leave of its tightest link, divided among its own job's flows there. All flows of a job run at the
//! least offer any of them has (minimum allocation for desired duration), because a collective moves at its slowest
//! flow. One that takes nothing has the offer of its links all the same: it may wait for those that would wait for it.
//! Offers depend on better ranks only, so with fixed keys the rates settle (no oscillation), and a dip heals one exchange
//! after its cause is gone (offers, not rates, are compared).
//!
//! Every flow with demand keeps the link's floor; the order of rounds shares out the rest.
//!
//! Flows of plans of rates, weights and orders come before all rounds, each with a rank of its own. One has the rate that
//! its plan gives it, less where its links carry less than the plan counted on: then all rates shrink alike, as weights.
//! One with a place in an order takes what better places leave, once its turn has come. What nobody was promised goes to
//! those that may take it in proportion to their rates, before it goes to rounds.

mod granted;

use super::{FlowScene, Grant, JobScene, LinkScene, Other, Planned, Policy, Scene, Why, forecast, resize};
use crate::message::Rank;
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
    /// Next promise of another host whose fill counts.
    next_filled: usize,
    /// What the fill gave better ranks, here and on other hosts.
    filled: Rate,
    /// Rates of the flows of plans here that still wait for their part of the fill.
    waiting: Rate,
}

impl Policy for SrptP {
    fn plan(&mut self, scene: &Scene, out: &mut Vec<Planned>) {
        resize(out, scene.flows.len());
        let mut shared: Vec<Shared> = scene.links.iter().map(opening).collect();
        let mut first = 0;
        while first < scene.flows.len() {
            let job = scene.flows[first].job;
            let len = scene.flows[first..].iter().take_while(|f| f.job == job).count();
            match scene.flows[first].grant {
                Some(grant) => granted::give(scene, &mut shared, first, grant, out),
                None => plan_job(scene, &mut shared, first..first + len, out),
            }
            first += len;
        }
        // What the fill adds is promised to nobody: whoever wants it by rank may have it at once.
        for (flow, planned) in scene.flows.iter().zip(out.iter_mut()) {
            forecast(scene, planned.rate, flow.remaining(), &mut planned.rates);
            if !flow.grant.is_none_or(Grant::counts) {
                planned.rates.fill(Rate::ZERO);
            }
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
        let flow = &scene.flows[i];
        let offers = flow.links.iter().map(|&l| {
            let (link, shared) = (&scene.links[l], &mut shared[l]);
            if shared.offer.is_none() {
                count_better(link, shared, job.rank);
                shared.offer = Some(link_offer(link, shared, job));
            }
            shared.offer.unwrap_or(Rate::MAX)
        });
        let full = offers.min().unwrap_or(Rate::MAX);
        let full = if flow.stands { full } else { full.min(flow.max_rate().per_share(flow.share)) };
        out[i].offer = full.for_share(flow.share);
        common = common.min(full);
    }
    for i in flows {
        let flow = &scene.flows[i];
        let planned = &mut out[i];
        let most = planned.offer.max(flow.floor).min(flow.max_rate());
        planned.rate = common.for_share(flow.share).max(flow.floor).min(most);
        planned.why = reason(scene, planned, flow);
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
        if other.rank.job != rank.job || rank.is_of_plan() {
            shared.used = shared.used.plus(other.above(link.floor));
        }
        shared.next += 1;
    }
}

/// What better ranks leave of a link for each of the job's flows there that has a full share.
fn link_offer(link: &LinkScene, shared: &Shared, job: &JobScene) -> Rate {
    let of_job = || link.others.iter().filter(|other| other.rank.job == job.job);
    let here = (shared.here + of_job().map(Other::flows).sum::<u64>()).max(1);
    // Other hosts' flows say how much they carry by their demand.
    let others = of_job().map(|other| Share::of(other.demand.0 / other.flows(), job.full.0).parts() * other.flows());
    let all_alike = job.full == Bytes::ZERO;
    let parts = if all_alike { here * Share::FULL.parts() } else { shared.parts + others.sum::<u64>() };
    let above_floors = link.usable.minus(Rate(link.floor.0.saturating_mul(link.active)));
    let for_job = Rate(link.floor.0.saturating_mul(here)).plus(above_floors.minus(shared.used));
    let by_rank = for_job.split(Share::FULL.parts(), parts);
    trusted(link, by_rank, || {
        let equal = Rate(link.usable.share(link.active.max(1)).0.saturating_mul(here));
        equal.split(Share::FULL.parts(), parts)
    })
}

/// An old view is worth less: what ranks leave moves towards an equal share of the link.
fn trusted(link: &LinkScene, by_rank: Rate, equal: impl FnOnce() -> Rate) -> Rate {
    if link.trust >= 1.0 {
        return by_rank;
    }
    by_rank.times(link.trust).plus(equal().times(1.0 - link.trust))
}

fn reason(scene: &Scene, planned: &Planned, flow: &FlowScene) -> Why {
    let local = flow.links.iter().any(|&l| !scene.links[l].own && scene.links[l].trust <= 0.0);
    match planned {
        p if p.rate <= flow.floor && p.offer <= flow.floor => Why::Rank,
        p if p.rate >= flow.max_rate() => Why::Uptake,
        p if p.rate < p.offer => Why::Job,
        _ if local => Why::LocalTable,
        _ => Why::LinkCap,
    }
}

/// Shares out in order of rank what nobody was promised, so that an order never holds a flow back while its whole path has
/// room. On a link that other hosts use too, a host leaves to flows of better rank what the fill gave them there, as their
/// own hosts announce it. No flow is given more than what feeds it and its lead let it send: its rank alone decides what it
/// has for sure, so that it can make up for a lag. What the fill adds therefore depends on better ranks only, as offers do, and settles.
fn fill(scene: &Scene, shared: &mut [Shared], out: &mut [Planned]) {
    granted::wait(scene, shared, out);
    for (at, (flow, planned)) in scene.flows.iter().zip(out.iter_mut()).enumerate() {
        if at == 0 || scene.flows[at - 1].job != flow.job {
            let of_job = scene.flows[at..].iter().take_while(|other| other.job == flow.job);
            of_job.flat_map(|other| &other.links).for_each(|&l| shared[l].here += 1);
        }
        let rank = scene.jobs[flow.job].rank;
        let rest = match flow.grant {
            Some(grant) => granted::left(scene, shared, flow, grant, rank, planned.rate),
            None => {
                let left = flow.links.iter().map(|&l| {
                    let here = shared[l].here;
                    left_over(&scene.links[l], &mut shared[l], rank, here)
                });
                left.fold(Rate::MAX, Rate::min)
            }
        };
        flow.links.iter().for_each(|&l| shared[l].here -= 1);
        let most = flow.max_rate().min(flow.fed.unwrap_or(Rate::MAX));
        let rest = rest.min(most.minus(planned.rate));
        // Less than a hundredth of the flow's rate is not worth an order.
        if rest == Rate::MAX || rest.0.saturating_mul(100) <= planned.rate.0 {
            continue;
        }
        planned.rate = planned.rate.plus(rest);
        planned.why = match planned.rate {
            rate if rate >= flow.max_rate() => Why::Uptake,
            rate if flow.fed.is_some_and(|fed| rate >= fed) => Why::Predecessor,
            _ => Why::WorkConserving,
        };
        for &l in &flow.links {
            shared[l].filled = shared[l].filled.plus(rest);
        }
    }
}

/// What a flow of this rank may take of a link beyond what anybody was promised, if so many flows of its job on this host, it
/// included, still share that; ranks come in ascending order.
fn left_over(link: &LinkScene, shared: &mut Shared, rank: Rank, here: u64) -> Rate {
    if link.trust < 1.0 {
        return Rate::ZERO;
    }
    while let Some(other) = link.others.get(shared.next_filled).filter(|other| other.rank < rank) {
        if other.rank.job != rank.job || rank.is_of_plan() {
            shared.filled = shared.filled.plus(other.filled);
        }
        shared.next_filled += 1;
    }
    let free = link.usable.minus(shared.all).minus(shared.filled);
    if link.own {
        return free.share(here);
    }
    if link.others.first().is_some_and(|other| other.rank == Rank::OF_SUMS) {
        return free.share(link.active); // Nobody can tell who comes before.
    }
    if rank.is_of_plan() {
        return free; // It has its own part of that, by its rate.
    }
    // Other hosts of the job see the same rest at the same moment.
    let same = link.others.iter().filter(|other| other.rank.job == rank.job).map(Other::flows);
    free.share(here + same.sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{FlowId, JobId, Nanos};
    use proptest::prelude::*;

    const JOB: JobId = JobId(7);

    /// A job that follows a plan: per flow its parts and its second link; the own egress is link 0. `foreign` are the
    /// parts of the job's flows of other hosts on each other link.
    fn scene(usable: &[u64], flows: &[(u64, usize)], foreign: &[Vec<u64>]) -> Scene {
        let most = flows.iter().map(|f| f.0).chain(foreign.iter().flatten().copied()).max().unwrap_or(1);
        let rank = Rank { ordinary: true, key: Nanos(1), job: JOB };
        let link = |(l, usable): (usize, &u64)| {
            let others = foreign.get(l).into_iter().flatten();
            let other = |parts: &u64| Other { rank, demand: Bytes(parts * 1000), ..Other::default() };
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

    #[test]
    fn who_takes_little_sets_his_jobs_pace_and_who_waits_for_it_does_not() {
        let plan = |stands: bool| {
            let mut scene = scene(&[400_000_000; 3], &[(1, 1), (1, 2)], &[]);
            (scene.flows[0].worth, scene.flows[0].stands) = (Some(Rate::mbps(20)), stands);
            scene.flows.iter_mut().for_each(|flow| flow.floor = Rate::mbps(10));
            let mut out = Vec::new();
            SrptP.plan(&scene, &mut out);
            [out[0].rate, out[0].offer, out[1].rate]
        };
        assert_eq!(plan(false), [20, 20, 20].map(Rate::mbps));
        // What it takes is left to it all the same, and no more.
        assert_eq!(plan(true), [20, 200, 200].map(Rate::mbps));
    }

    #[test]
    fn whatever_others_say_they_take_costs_a_flow_only_what_the_fill_would_add() {
        // Promised 300 of its 400 by its job's other host; the link to the receiver has 1000 and one better-ranked flow.
        let plan = |filled: Rate| {
            let mut scene = scene(&[400_000_000, 1_000_000_000], &[(1, 1)], &[vec![], vec![]]);
            scene.work_conserving = true;
            scene.jobs[0].peer_offer = Rate::mbps(300);
            let better = Rank { ordinary: true, key: Nanos(0), job: JobId(1) };
            scene.links[1].others =
                vec![Other { rank: better, rate: Rate::mbps(100), filled, demand: Bytes(1), ..Other::default() }];
            let mut out = Vec::new();
            SrptP.plan(&scene, &mut out);
            (out[0].rates[0], out[0].rate)
        };
        assert_eq!(plan(Rate::ZERO), (Rate::mbps(300), Rate::mbps(400)));
        assert_eq!(plan(Rate::mbps(550)), (Rate::mbps(300), Rate::mbps(350)));
        assert_eq!(plan(Rate::MAX), (Rate::mbps(300), Rate::mbps(300)));
    }

    /// One flow for itself on a host: its own link's rate, the shared link it crosses, its job.
    type Lone = (u64, usize, usize);

    /// Every flow's host plans on what the others said last, until nobody says anything new: (rate, filled) of each.
    fn settled(usable: &[u64], flows: &[Lone]) -> Vec<(Rate, Rate)> {
        let rank = |job: usize| Rank { ordinary: true, key: Nanos(job as u64 + 1), job: JobId(job as u64) };
        let mut said = vec![(Rate::ZERO, Rate::ZERO, Rate::ZERO); flows.len()];
        for _ in 0..4 * flows.len() + 4 {
            let plan = |me: usize| {
                let (own, shared, job) = flows[me];
                let there = (0..flows.len()).filter(|&f| f != me && flows[f].1 == shared && said[f].0 > Rate::ZERO);
                let mut others: Vec<Other> = there
                    .map(|f| Other {
                        rank: rank(flows[f].2),
                        rate: said[f].0,
                        filled: said[f].1,
                        demand: Bytes(1),
                        ..Other::default()
                    })
                    .collect();
                others.sort_by_key(|other| other.rank);
                let active = others.len() as u64 + 1;
                let link = |usable, own, others, active| {
                    let usable = Rate(usable);
                    LinkScene { usable, own, others, active, trust: 1.0, fresh: true, ..LinkScene::default() }
                };
                let peers = (0..flows.len()).filter(|&f| f != me && flows[f].2 == job && said[f].2 > Rate::ZERO);
                let peer_offer = peers.map(|f| said[f].2).min().unwrap_or(Rate::MAX);
                let scene = Scene {
                    slot: Nanos::from_millis(60),
                    horizon: 1,
                    work_conserving: true,
                    links: vec![link(own, true, Vec::new(), 1), link(usable[shared], false, others, active)],
                    jobs: vec![JobScene { job: JobId(job as u64), rank: rank(job), peer_offer, full: Bytes::ZERO }],
                    flows: vec![FlowScene { links: vec![0, 1], demand: Bytes(1 << 30), ..FlowScene::default() }],
                    ..Scene::default()
                };
                let mut out = Vec::new();
                SrptP.plan(&scene, &mut out);
                // What is offered nothing is still promised something, or nobody would know that it is there.
                let promised = out[0].rates[0].max(Rate(1));
                (promised, out[0].rate.minus(promised), out[0].offer.max(Rate(1)))
            };
            said = (0..flows.len()).map(plan).collect();
        }
        said.into_iter().map(|(rate, filled, _)| (rate, filled)).collect()
    }

    /// The same with one mind: rounds in order, each at the pace of its slowest flow, then what is left in the same order.
    fn by_one_mind(usable: &[u64], flows: &[Lone]) -> Vec<(u64, u64)> {
        let mut left = usable.to_vec();
        let mut given = vec![(0, 0); flows.len()];
        let of = |job| (0..flows.len()).filter(move |&f| flows[f].2 == job);
        let jobs = flows.iter().map(|f| f.2 + 1).max().unwrap_or(0);
        for job in 0..jobs {
            let pace = of(job).map(|f| flows[f].0.min(left[flows[f].1])).min().unwrap_or(0);
            for f in of(job) {
                given[f].0 = pace;
                left[flows[f].1] -= pace;
            }
        }
        for f in (0..jobs).flat_map(of) {
            let (own, shared, _) = flows[f];
            given[f].1 = (own - given[f].0).min(left[shared]);
            left[shared] -= given[f].1;
        }
        given
    }

    proptest! {
        /// What hosts fill settles at what one mind would have given.
        #[test]
        fn the_fill_settles(
            usable in prop::collection::vec(100_000_000_u64..1_000_000_000, 3),
            jobs in prop::collection::vec((prop::collection::vec(50_000_000_u64..1_000_000_000, 3), 1_usize..8), 1..6),
        ) {
            // A job has one flow on each of some of the shared links.
            let flows: Vec<Lone> = jobs.iter().enumerate().flat_map(|(job, (own, set))| {
                (0..3).filter(move |l| set >> l & 1 == 1).map(move |l| (own[l], l, job))
            }).collect();
            let (settled, one_mind) = (settled(&usable, &flows), by_one_mind(&usable, &flows));
            for (f, ((rate, filled), due)) in settled.iter().zip(&one_mind).enumerate() {
                // A hundredth of a flow's rate is not worth an order, so those of worse rank may find that much more.
                let near = |is: u64, due: u64| is.abs_diff(due) as f64 <= 0.05 * (due as f64) + 20_000_000.0;
                prop_assert!(near(rate.0, due.0), "flow {f} of {flows:?} is promised {rate}, due {}", Rate(due.0));
                prop_assert!(near(filled.0, due.1), "flow {f} of {flows:?} fills {filled}, due {}", Rate(due.1));
            }
        }
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
