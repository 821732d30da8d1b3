//! Flows of plans of rates, weights and orders: what their plan gives them, and what they take of the rest.

use super::{Shared, count_better, left_over, trusted};
use crate::message::Rank;
use crate::policy::{FlowScene, Grant, Planned, Scene, Why};
use crate::units::Rate;

/// Gives a flow what its plan has for it. One whose turn has not come has at once what it will have then, since it sends
/// nothing before, and a slow flow hears of a new order only with its next segment; nobody counts on it. One that ends in a
/// moment goes on as it does, and nobody counts on it either.
pub(super) fn give(scene: &Scene, shared: &mut [Shared], at: usize, grant: Grant, out: &mut [Planned]) {
    let flow = &scene.flows[at];
    let rank = scene.jobs[flow.job].rank;
    let (mut own, mut offer) = (grant.rate, Rate::MAX);
    for &l in &flow.links {
        let (link, shared) = (&scene.links[l], &mut shared[l]);
        count_better(link, shared, rank);
        let above_floors = link.usable.minus(Rate(link.floor.0.saturating_mul(link.active)));
        let left = link.floor.plus(above_floors.minus(shared.used)).min(link.usable);
        offer = offer.min(trusted(link, left, || link.usable.share(link.active.max(1))));
        // A link that carries less than the plan counted on gives each of its flows so much less.
        if link.configured > Rate::ZERO {
            own = own.min(grant.rate.split(link.usable.0.min(link.configured.0), link.configured.0));
        }
    }
    let by_place =
        if grant.ordered && (grant.ready || grant.waits()) { offer.min(flow.max_rate()) } else { Rate::ZERO };
    let planned = &mut out[at];
    planned.rate = own.max(by_place).max(flow.floor);
    planned.offer = if grant.ordered { offer.max(own) } else { own }.max(flow.floor);
    planned.why = match () {
        () if grant.waits() => Why::Predecessor,
        () if planned.rate <= own => Why::Plan,
        () if planned.rate <= flow.floor => Why::Rank,
        () if planned.rate >= flow.max_rate() => Why::Uptake,
        () => Why::LinkCap,
    };
    if !grant.counts() {
        return;
    }
    for &l in &flow.links {
        let above_floor = planned.rate.minus(scene.links[l].floor);
        shared[l].used = shared[l].used.plus(above_floor);
        shared[l].all = shared[l].all.plus(planned.rate);
    }
}

/// Does a flow share with its like, in proportion to their rates, what nobody was promised?
fn by_rate(grant: Grant) -> bool {
    grant.fills && grant.ready && !grant.ordered
}

/// Writes down who waits for a part of what nobody was promised.
pub(super) fn wait(scene: &Scene, shared: &mut [Shared], out: &[Planned]) {
    for (flow, planned) in scene.flows.iter().zip(out).filter(|(flow, _)| flow.grant.is_some_and(by_rate)) {
        flow.links.iter().for_each(|&l| shared[l].waiting = shared[l].waiting.plus(planned.rate));
    }
}

/// What a flow of this rate may take beyond it.
pub(super) fn left(
    scene: &Scene,
    shared: &mut [Shared],
    flow: &FlowScene,
    grant: Grant,
    rank: Rank,
    rate: Rate,
) -> Rate {
    if !(grant.fills && grant.ready) || grant.ending {
        return Rate::ZERO;
    }
    let of = |&l: &usize| {
        let (link, shared) = (&scene.links[l], &mut shared[l]);
        // A plan says itself how its flows share what is left.
        let left = left_over(link, shared, rank, 1);
        if !by_rate(grant) {
            return left;
        }
        let alike = link.others.iter().filter(|other| other.rank == rank).map(|other| other.rate);
        let together = alike.fold(shared.waiting, Rate::plus);
        shared.waiting = shared.waiting.minus(rate);
        left.split(rate.0, together.0)
    };
    flow.links.iter().map(of).fold(Rate::MAX, Rate::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{JobScene, LinkScene, Other, Policy, SrptP};
    use crate::units::{Bytes, FlowId, JobId, Nanos};

    const JOB: JobId = JobId(7);

    fn grant(mbps: u64) -> Grant {
        Grant { rate: Rate::mbps(mbps), ready: true, ..Grant::default() }
    }

    /// One link of 100 Mbit/s for all flows, those with grants of the same plan and one of an ordinary round behind them.
    fn scene(grants: &[Grant], others: Vec<Other>) -> Scene {
        let rank = |place: usize, grant: &Grant| Rank::of_plan(if grant.ordered { place as u64 } else { 0 }, JOB);
        let mut jobs: Vec<JobScene> = grants
            .iter()
            .enumerate()
            .map(|(place, grant)| JobScene {
                job: JOB,
                rank: rank(place, grant),
                peer_offer: Rate::MAX,
                full: Bytes::ZERO,
            })
            .collect();
        let ordinary = Rank { ordinary: true, key: Nanos(1), job: JobId(9) };
        jobs.push(JobScene { job: JobId(9), rank: ordinary, peer_offer: Rate::MAX, full: Bytes::ZERO });
        let flow = |(at, grant): (usize, Option<Grant>)| FlowScene {
            flow: FlowId(at as u64),
            job: at,
            links: vec![0],
            demand: Bytes(1_000_000),
            grant,
            ..FlowScene::default()
        };
        let active = (grants.len() + 1 + others.len()) as u64;
        let link = LinkScene {
            usable: Rate::mbps(100),
            configured: Rate::mbps(100),
            others,
            trust: 1.0,
            fresh: true,
            active,
            ..LinkScene::default()
        };
        Scene {
            slot: Nanos::from_millis(60),
            horizon: 2,
            work_conserving: true,
            links: vec![link],
            flows: grants.iter().copied().map(Some).chain([None]).enumerate().map(flow).collect(),
            jobs,
            ..Scene::default()
        }
    }

    /// Of every flow what others may count on and what it takes, in Mbit/s.
    fn plan(scene: &Scene) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        SrptP.plan(scene, &mut out);
        let mbps = |rate: Rate| rate.0.div_ceil(1_000_000);
        out.iter().map(|planned| (mbps(planned.rates[0]), mbps(planned.rate))).collect()
    }

    #[test]
    fn rates_that_stay_leave_everything_else_to_rounds() {
        assert_eq!(plan(&scene(&[grant(30), grant(20)], vec![])), [(30, 30), (20, 20), (50, 50)]);
    }

    #[test]
    fn where_a_link_carries_less_all_rates_shrink_alike() {
        let mut scene = scene(&[grant(60), grant(40)], vec![]);
        scene.links[0].usable = Rate::mbps(50);
        assert_eq!(plan(&scene), [(30, 30), (20, 20), (0, 0)]);
    }

    #[test]
    fn what_is_left_goes_by_rate() {
        let fills = |mbps| Grant { fills: true, ..grant(mbps) };
        let mut of_plan = scene(&[fills(30), fills(10)], vec![]);
        // The round takes what is left before anybody fills.
        assert_eq!(plan(&of_plan), [(30, 30), (10, 10), (60, 60)]);
        of_plan.flows.pop();
        assert_eq!(plan(&of_plan), [(30, 75), (10, 25)]);
        // Whoever waits for another takes nothing beyond its rate, and keeps that.
        of_plan.flows[0].grant = Some(Grant { ready: false, ..fills(30) });
        assert_eq!(plan(&of_plan), [(30, 30), (10, 70)]);
        // Another host's flow of the plan has its part.
        let rank = Rank::of_plan(0, JOB);
        let other = Other { rank, rate: Rate::mbps(20), demand: Bytes(1), ..Other::default() };
        let mut of_plan = scene(&[fills(20)], vec![other]);
        of_plan.flows.pop();
        assert_eq!(plan(&of_plan), [(20, 50)]);
    }

    #[test]
    fn by_places_the_first_that_is_ready_has_the_link() {
        let ordered = |ready| Grant { ordered: true, ready, fills: true, ..Grant::default() };
        assert_eq!(plan(&scene(&[ordered(true), ordered(true)], vec![])), [(100, 100), (0, 0), (0, 0)]);
        // One that waits has its rate in hand, and keeps nobody from anything.
        assert_eq!(plan(&scene(&[ordered(false), ordered(true)], vec![])), [(0, 100), (100, 100), (0, 0)]);
        assert_eq!(plan(&scene(&[ordered(true), ordered(false)], vec![])), [(100, 100), (0, 0), (0, 0)]);
        // One of the same job on another host that has a better place counts, and one of a worse place does not.
        let other = |place| Other {
            rank: Rank::of_plan(place, JOB),
            rate: Rate::mbps(80),
            demand: Bytes(1),
            ..Other::default()
        };
        let behind = Grant { ordered: true, ready: true, ..Grant::default() };
        let mut of_plan = scene(&[behind], vec![other(0), other(5)]);
        of_plan.jobs[0].rank = Rank::of_plan(3, JOB);
        assert_eq!(plan(&of_plan)[0], (20, 20));
    }

    #[test]
    fn with_an_old_view_a_place_is_worth_less() {
        let ordered = Grant { ordered: true, ready: true, ..Grant::default() };
        let mut of_plan = scene(&[ordered], vec![]);
        of_plan.links[0].trust = 0.0;
        assert_eq!(plan(&of_plan)[0], (50, 50));
    }
}
