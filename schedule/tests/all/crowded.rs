//! Links with more promises than a view lists, and jobs with more hosts than are told of one by one.

use proptest::prelude::*;
use sluice_schedule::host::{Host, HostConfig, PolicyName};
use sluice_schedule::message::{Announcement, Crowd, Feedback, FlowPromise, JobStatus, LinkView, PromiseSum, Rank};
use sluice_schedule::policy::{FlowScene, JobScene, LinkScene, Other, Policy, Scene, SrptP};
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::{
    Action, BootId, Bytes, Event, FlowId, FlowSpec, HolderId, Hop, HostId, JobId, LinkId, Nanos, Now, Rate, Slot,
    deciding,
};

const LINK: LinkId = LinkId::new(9, 0);
const HORIZON: usize = 4;
/// The host that looks.
const ASKER: u32 = 1;

fn switch() -> Switch {
    let link = LinkConfig { link: LINK, capacity: Rate::mbps(100_000), ..LinkConfig::default() };
    let mut switch = Switch::new(BootId(7), Limits { horizon: HORIZON, ..Limits::default() }, &[link]);
    switch.expire(Slot(0).offset(-3));
    switch.expire(Slot(1));
    switch
}

/// A promise as drawn: host, job, key, promoted, and rates.
#[derive(Clone, Debug)]
struct Drawn {
    host: u32,
    job: u64,
    promoted: bool,
    key: u64,
    mbps: Vec<u64>,
    demand: u64,
}

fn drawn(hosts: u32) -> impl Strategy<Value = Drawn> {
    let numbers = (1..hosts, 0_u64..30, any::<bool>(), 1_u64..1 << 40, 0_u64..1000);
    (numbers, prop::collection::vec(0_u64..30, 1..=HORIZON)).prop_map(|((host, job, late, key, demand), mbps)| {
        // Few rounds are promoted, and all flows of a job have its round's rank.
        Drawn { host, job, promoted: late && job < 2, key: key >> (job % 30), mbps, demand }
    })
}

fn promise(nth: usize, drawn: &Drawn, key: u64) -> FlowPromise {
    let rates: Vec<Rate> = drawn.mbps.iter().map(|mbps| Rate::mbps(*mbps)).collect();
    FlowPromise {
        flow: FlowId(u64::from(drawn.host) << 32 | nth as u64),
        job: JobId(drawn.job),
        promoted: drawn.promoted,
        key: Nanos(key),
        t0: Nanos((1 << 60) + key),
        takes: rates[0].plus(Rate::mbps(drawn.mbps.len() as u64)),
        rates,
        demand: Bytes(drawn.demand + 7),
        delivered: Bytes(drawn.demand / 2),
        links: vec![LINK],
        ..FlowPromise::default()
    }
}

fn says(host: u32, flows: Vec<FlowPromise>) -> Announcement {
    let host = HostId(host);
    Announcement { host, boot: BootId(1), seq: 1, slot: Slot(1), flows, watch: vec![LINK], ..Announcement::default() }
}

fn rate(promise: &FlowPromise, ahead: usize) -> u64 {
    promise.rate(ahead).0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What a view lists and what it sums is all that others promised: in all, of each of the asker's jobs in every slot, and
    /// before each of the asker's own promises; before any other rank it is never less.
    #[test]
    fn a_view_that_is_cut_leaves_nothing_out(all in prop::collection::vec(drawn(40), 60..300)) {
        let mut keys = std::collections::BTreeMap::new();
        let promises: Vec<FlowPromise> = all
            .iter()
            .enumerate()
            .map(|(nth, drawn)| promise(nth, drawn, *keys.entry(drawn.job).or_insert(drawn.key)))
            .collect();
        let mut switch = switch();
        for host in (1..40).rev() {
            let own = promises.iter().filter(|promise| promise.flow.sender() == HostId(host)).cloned();
            prop_assert!(switch.announce(Slot(1), &says(host, own.collect())).refused.is_none());
        }
        let (own, others): (Vec<_>, Vec<_>) = promises.iter().partition(|p| p.flow.sender() == HostId(ASKER));
        let view = &switch.feedback(Slot(1), HostId(ASKER)).expect("has a lease").links[0];
        let told = || view.flows.iter().chain(view.rest.iter().map(|rest| &rest.sum));
        prop_assert!(view.flows.len() == others.len().min(LinkView::MAX_FLOWS) && view.rest.len() <= LinkView::MAX_SUMS);
        prop_assert_eq!(told().map(|p| rate(p, 0)).sum::<u64>(), view.load[0].0);
        prop_assert_eq!(told().map(|p| p.takes.0).sum::<u64>(), others.iter().map(|p| p.takes.0).sum::<u64>());
        let sending = others.iter().filter(|p| rate(p, 0) > 0).count();
        let counted = view.flows.iter().filter(|p| rate(p, 0) > 0).count();
        prop_assert_eq!(counted + view.rest.iter().map(|rest| rest.flows as usize).sum::<usize>(), sending);

        let own_jobs: std::collections::BTreeSet<JobId> = own.iter().map(|p| p.job).collect();
        for job in &own_jobs {
            let all_of = |of: &mut dyn Iterator<Item = &FlowPromise>| {
                let mut sums = [0; HORIZON + 2];
                for p in of.filter(|p| p.job == *job) {
                    (0..HORIZON).for_each(|ahead| sums[ahead] += rate(p, ahead));
                    (sums[HORIZON], sums[HORIZON + 1]) = (sums[HORIZON] + p.demand.0, sums[HORIZON + 1] + p.delivered.0);
                }
                sums
            };
            let of_job = view.rest.iter().filter(|rest| rest.of_job).map(|rest| &rest.sum);
            prop_assert_eq!(all_of(&mut view.flows.iter().chain(of_job)), all_of(&mut others.iter().copied()));
        }
        // As a host reads it: whatever is not of its own job and has a better rank goes first.
        let before = |rank: Rank, job: JobId, of: &mut dyn Iterator<Item = &FlowPromise>| {
            of.filter(|p| p.job != job && p.rank() < rank).map(|p| rate(p, 0)).sum::<u64>()
        };
        for p in &own {
            let exact = before(p.rank(), p.job, &mut others.iter().copied());
            prop_assert_eq!(before(p.rank(), p.job, &mut told()), exact);
        }
        for p in &others {
            let exact = before(p.rank(), JobId(99), &mut others.iter().copied());
            prop_assert!(before(p.rank(), JobId(99), &mut told()) >= exact);
        }
    }
}

fn status(origin: u32, seq: u64, key: u64, offer: u64) -> JobStatus {
    let (job, key, offer) = (JobId(8), Nanos(key), Rate::mbps(offer));
    let (origin, boot) = (HostId(origin), BootId(1));
    JobStatus { job, origin, boot, seq, key, offer, t0: Nanos(1000), round_time: Nanos(5), ..JobStatus::default() }
}

fn tells(host: u32, seq: u64, key: u64, offer: u64) -> Announcement {
    let jobs = vec![status(host, seq, key, offer)];
    Announcement { seq, jobs, watch: Vec::new(), ..says(host, Vec::new()) }
}

#[test]
fn of_a_job_with_many_hosts_each_hears_what_decides_and_nothing_else() {
    let (hosts, mut switch) = (4096, switch());
    for host in 1..=hosts {
        switch.announce(Slot(1), &tells(host, 1, 1_000_000 + u64::from(host), 500 + u64::from(host % 97)));
    }
    let heard = switch.feedback(Slot(1), HostId(5)).expect("has a lease");
    assert_eq!(heard.crowds.len(), 1);
    assert_eq!(heard.crowds[0].hosts, hosts - 1);
    let origins: Vec<u32> = heard.jobs.iter().map(|status| status.origin.0).collect();
    assert_eq!(origins, [1, 97, hosts], "the first by id, the least offer, the longest round");
    // Who decides for all others hears of the next best itself.
    let longest = switch.feedback(Slot(1), HostId(hosts)).expect("has a lease");
    assert!(longest.jobs.iter().any(|status| status.origin.0 == hosts - 1), "{:?}", longest.jobs);

    let all: Vec<HostId> = switch.hosts().collect();
    let see = |switch: &mut Switch| {
        for host in &all {
            switch.feedback(Slot(1), *host);
        }
        switch.take_stale()
    };
    see(&mut switch);
    switch.announce(Slot(1), &tells(2000, 2, 900_000, 580));
    assert!(switch.take_stale().is_empty(), "what decides nothing is no news");
    switch.announce(Slot(1), &tells(hosts, 2, 2_000_000, 580));
    assert_eq!(switch.take_stale().len(), all.len() - 1, "the longest round is");
}

#[test]
fn up_to_sixteen_others_are_told_of_one_by_one() {
    let mut switch = switch();
    let most = deciding::MAX_TOLD as u32;
    for host in 1..=most {
        switch.announce(Slot(1), &tells(host, 1, 1000, 500));
    }
    let heard = switch.feedback(Slot(1), HostId(3)).expect("has a lease");
    assert!(heard.crowds.is_empty() && heard.jobs.len() == most as usize - 1);
    switch.announce(Slot(1), &tells(most + 1, 1, 1000, 500));
    let heard = switch.feedback(Slot(1), HostId(3)).expect("has a lease");
    assert!(heard.crowds.len() == 1 && heard.jobs.len() == 1, "all are equal: the first by id says it all");
}

/// What a host gives two flows of its own, of these jobs, on a link with these promises of others.
fn planned(usable: u64, own: [u64; 2], others: Vec<Other>) -> Vec<Rate> {
    let rank = |job: u64| Rank { ordinary: true, key: Nanos(job * 10), job: JobId(job) };
    let floor = Rate::mbps(1);
    let active = 2 + others.iter().map(Other::flows).sum::<u64>();
    let fresh = LinkScene { trust: 1.0, fresh: true, floor, active, ..LinkScene::default() };
    let shared = LinkScene { usable: Rate::mbps(usable), others, ..fresh.clone() };
    let egress = LinkScene { usable: Rate::mbps(400), own: true, active: 2, ..fresh };
    let job = |job| JobScene { job: JobId(job), rank: rank(job), peer_offer: Rate::MAX, full: Bytes::ZERO };
    let flow =
        |n: usize| FlowScene { job: n, links: vec![0, 1], demand: Bytes(1 << 30), floor, ..FlowScene::default() };
    let scene = Scene {
        slot: Nanos::from_millis(60),
        horizon: 2,
        work_conserving: true,
        links: vec![egress, shared],
        jobs: own.map(job).to_vec(),
        flows: vec![flow(0), flow(1)],
        ..Scene::default()
    };
    let mut out = Vec::new();
    SrptP.plan(&scene, &mut out);
    out.into_iter().map(|planned| planned.rate).collect()
}

proptest! {
    /// Promises that are only known in sum leave no more to a host's own flows than if it knew each of them.
    #[test]
    fn sums_in_place_of_promises_give_nothing_away(
        usable in 300_u64..2000, own in (1_u64..60, 61_u64..120),
        all in prop::collection::vec((1_u64..120, 1_u64..20, 0_u64..5), 70..120), cuts in prop::collection::vec(64_usize..120, 0..5),
    ) {
        let mut others: Vec<Other> = all
            .iter()
            .filter(|(job, ..)| *job != own.0 && *job != own.1)
            .map(|&(job, mbps, filled)| Other {
                rank: Rank { ordinary: true, key: Nanos(job * 10), job: JobId(job) },
                rate: Rate::mbps(mbps),
                filled: Rate::mbps(filled),
                demand: Bytes(1),
                ..Other::default()
            })
            .collect();
        others.sort_by_key(|other| other.rank);
        let mut cut: Vec<Other> = Vec::new();
        for (nth, other) in others.iter().enumerate() {
            match cut.last_mut().filter(|_| nth > 64 && !cuts.contains(&nth)) {
                Some(sum) => {
                    sum.more += 1;
                    (sum.rate, sum.filled) = (sum.rate.plus(other.rate), sum.filled.plus(other.filled));
                }
                None => cut.push(*other),
            }
        }
        let (known, summed) = (planned(usable, own.into(), others), planned(usable, own.into(), cut));
        // What the first is not given by its rank it may still fill, so only both together are sure to have no more.
        let total = |rates: &[Rate]| rates.iter().map(|rate| rate.0).sum::<u64>();
        prop_assert!(total(&summed) <= total(&known) + 1, "{summed:?} with sums, {known:?} with all");
    }
}

proptest! {
    /// Whatever a holder says in sums and of crowds, a host neither breaks nor orders more than its own link has.
    #[test]
    fn no_sums_hurt_a_host(
        sums in prop::collection::vec((any::<u32>(), any::<bool>(), 0_u64..3, any::<bool>(), any::<[u64; 4]>(), prop::collection::vec(any::<u64>(), 0..6)), 0..70),
        load in prop::collection::vec(any::<u64>().prop_map(Rate), 0..12), crowds in prop::collection::vec((0_u64..3, any::<u32>()), 0..4),
        policy in prop::sample::select(vec![PolicyName::SrptP, PolicyName::PrimalDual, PolicyName::PrimalDualLiteral, PolicyName::Fair]),
    ) {
        let (me, leaf, capacity) = (HostId::of("h0"), HolderId::of("leaf"), Rate::mbps(1000));
        let now = Now { mono: Nanos(9), wall: Nanos(9), slot: Slot(1), into_slot: Nanos(9) };
        let mut host = Host::new(HostConfig { policy, ..HostConfig::new(me, BootId(1)) });
        let link = LinkId::new(leaf.0, 1);
        let path = vec![
            Hop { link: LinkId::egress(me), capacity, holder: None },
            Hop { link, capacity, holder: Some(leaf) },
        ];
        let flow = FlowId(u64::from(me.0) << 32 | 1);
        host.handle(now, Event::FlowOpened(FlowSpec { flow, job: JobId(1), path, ..FlowSpec::default() }));
        host.handle(now, Event::RoundBegan { job: JobId(1), flows: vec![(flow, Bytes(1 << 30))] });
        let rest = sums.into_iter().map(|(flows, of_job, job, promoted, [key, takes, demand, delivered], rates)| {
            let (job, key, takes) = (JobId(job), Nanos(key), Rate(takes));
            let (demand, delivered) = (Bytes(demand), Bytes(delivered));
            let rates = rates.into_iter().map(Rate).collect();
            let sum = FlowPromise { job, promoted, key, t0: key, takes, demand, delivered, rates, ..FlowPromise::default() };
            PromiseSum { flows, of_job, sum }
        });
        let view = LinkView { link, capacity, load, rest: rest.collect(), ..LinkView::default() };
        let crowds = crowds.into_iter().map(|(job, hosts)| Crowd { job: JobId(job), hosts }).collect();
        let feedback = Feedback { warm: true, slot: Slot(1), links: vec![view], crowds, ..Feedback::default() };
        host.handle(now, Event::Feedback { holder: leaf, feedback });
        let mut actions = Vec::new();
        host.decide(now, &mut actions);
        // Sums may leave the flow nothing in this slot, but they silence nobody.
        let told = |action: &Action| matches!(action, Action::Announce { announcement, .. } if announcement.flows.len() == 1);
        prop_assert!(actions.iter().any(told), "{actions:?}");
        for action in actions {
            if let Action::Order { rate, .. } = action {
                prop_assert!(rate > Rate::ZERO && rate <= capacity, "{rate}");
            }
        }
    }
}
