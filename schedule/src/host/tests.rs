//! The brains of hosts and switch on a fluid star: what the policies promise, checked in virtual time.

mod boots;
mod edges;
mod fair_floor;
mod follows;
mod gaps;
mod properties;
mod silence;
mod strangers;
mod surplus;
mod terms;
mod waits;
mod words;
mod world;

use super::*;
use crate::event::{JobSpec, Pattern};
use crate::policy::Why;
use crate::units::{HostId, Rate, Slot};
use world::{Ring, World};

fn lone_host() -> Host {
    Host::new(HostConfig { reserve: 0.0, ..HostConfig::new(HostId::of("h0"), crate::BootId(1)) })
}

fn at(ms: u64) -> Now {
    let time = Nanos::from_millis(ms);
    Now { mono: time, wall: time, slot: Slot((ms / 60) as u32), into_slot: Nanos::from_millis(ms % 60) }
}

fn flow(host: &mut Host, name: u64, job: &str, mbps: u64) -> FlowId {
    let id = FlowId(u64::from(HostId::of("h0").0) << 32 | name);
    let egress = crate::Hop { link: LinkId::egress(HostId::of("h0")), capacity: Rate::mbps(mbps), holder: None };
    let job = JobId::of(job);
    host.handle(at(0), Event::JobSeen(JobSpec { job, pattern: Pattern::Ring }));
    host.handle(at(0), Event::FlowOpened(FlowSpec { flow: id, job, path: vec![egress], ..FlowSpec::default() }));
    id
}

fn orders(host: &mut Host, now: Now) -> Vec<(FlowId, Rate)> {
    let mut actions = Vec::new();
    host.decide(now, &mut actions);
    let orders = actions.into_iter().filter_map(|action| match action {
        Action::Order { flow, rate, .. } => Some((flow, rate)),
        _ => None,
    });
    orders.collect()
}

/// Every flow has sent what it was ordered since the last time, which is remembered.
fn keep_up(host: &mut Host, last: &mut u64, ms: u64) {
    let time = Nanos::from_millis(ms - std::mem::replace(last, ms));
    let sends = host.flows().filter(|f| f.demand > Bytes::ZERO);
    let progress = sends.map(|f| FlowProgress {
        flow: f.spec.flow,
        delivered: f.delivered.plus(f.order.over(time)),
        rate: f.order,
        queued: Bytes::ZERO,
        rtt: Nanos::ZERO,
    });
    let progress = progress.collect();
    host.handle(at(ms), Event::Progress(progress));
}

#[test]
fn the_shorter_round_goes_first_and_the_longer_keeps_the_floor() {
    let mut host = lone_host();
    let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
    host.handle(at(1), Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(90_000_000))] });
    assert_eq!(orders(&mut host, at(1)).iter().find(|o| o.0 == long).map(|o| o.1), Some(Rate::mbps(1000)));
    host.handle(at(2), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(10_000_000))] });
    let now = orders(&mut host, at(2));
    assert_eq!(now, [(long, Rate::mbps(10)), (short, Rate::mbps(990))], "lowered before raised");
}

#[test]
fn a_full_send_buffer_is_demand_and_a_few_stray_bytes_are_not() {
    for (queued, expected) in [(Bytes(1_000_000), Rate::mbps(990)), (Bytes(10_000), Rate::mbps(10))] {
        let mut host = lone_host();
        let (told, unseen) = (flow(&mut host, 1, "told", 1000), flow(&mut host, 2, "unseen", 1000));
        host.handle(at(1), Event::RoundBegan { job: JobId::of("told"), flows: vec![(told, Bytes(90_000_000))] });
        let progress = FlowProgress { flow: unseen, queued, ..FlowProgress::default() };
        host.handle(at(1), Event::Progress(vec![progress]));
        let now = orders(&mut host, at(1));
        assert_eq!(now.iter().find(|o| o.0 == unseen).map(|o| o.1), Some(expected), "{queued} queued: {now:?}");
    }
}

#[test]
fn what_a_flow_does_not_take_goes_to_the_next_and_comes_back() {
    let mut host = lone_host();
    let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
    host.handle(at(0), Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(900_000_000))] });
    host.handle(at(0), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(100_000_000))] });
    // Until 200 ms something that nobody sees lets only 200 Mbit/s of the short one through.
    let (mut now, mut sent) = ([Rate::ZERO; 2], [0.0_f64; 2]);
    let mut seen = Vec::new();
    for ms in 0..300 {
        for (id, rate) in orders(&mut host, at(ms)) {
            now[usize::from(id == short)] = rate;
        }
        let path = if ms < 200 { Rate::mbps(200) } else { Rate::mbps(1000) };
        let short_takes = now[1].min(path);
        let long_takes = now[0].min(Rate::mbps(1000).minus(short_takes));
        for (sent, rate) in sent.iter_mut().zip([long_takes, short_takes]) {
            *sent += rate.0 as f64 / 8000.0;
        }
        let progress =
            |flow, sent: f64, rate| FlowProgress { flow, delivered: Bytes(sent as u64), rate, ..Default::default() };
        let both = vec![progress(long, sent[0], long_takes), progress(short, sent[1], short_takes)];
        host.handle(at(ms), Event::Progress(both));
        seen.push(now);
    }
    assert_eq!(seen[10], [Rate::mbps(10), Rate::mbps(990)], "by rank");
    assert!((740..=790).contains(&(seen[100][0].0 / 1_000_000)), "{:?}", seen[100]);
    assert!(seen[100][1] >= Rate::mbps(240), "it may try a quarter more than it takes: {:?}", seen[100]);
    assert_eq!(seen[280], [Rate::mbps(10), Rate::mbps(990)], "by rank again");
}

#[test]
fn who_had_nothing_to_send_for_a_while_has_its_turn_at_once() {
    let mut host = lone_host();
    let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
    host.handle(at(0), Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(900_000_000))] });
    host.handle(at(0), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(100_000_000))] });
    let mut order = |ms, queued| {
        host.handle(at(ms), Event::Progress(vec![FlowProgress { flow: short, queued, ..Default::default() }]));
        orders(&mut host, at(ms));
        host.flows().find(|f| f.spec.flow == short).map_or(Rate::ZERO, |f| f.order)
    };
    (0..50).for_each(|ms| _ = order(ms, Bytes::ZERO)); // the job computes in the middle of its round
    assert_eq!(order(50, Bytes::ZERO), Rate::mbps(10));
    assert_eq!(order(51, Bytes(1_000_000)), Rate::mbps(990));
}

#[test]
fn an_old_round_is_promoted() {
    let mut host = lone_host();
    let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
    let began = Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(12_500_000))] };
    host.handle(at(0), began);
    orders(&mut host, at(0));
    // 100 ms of work; four times that and more have passed in which only shorter rounds were served.
    host.handle(at(990), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(1_000_000))] });
    let now = orders(&mut host, at(1000));
    assert!(now.iter().any(|&(id, rate)| id == long && rate >= Rate::mbps(900)), "{now:?}");
}

#[test]
fn a_long_round_is_held_for_half_its_patience_a_short_one_for_the_longest_wait() {
    for (mb, held_ms, over_ms) in [(125, 1900, 2100), (50, 1150, 1250)] {
        let mut host = lone_host();
        let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
        host.handle(at(0), Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(mb * 1_000_000))] });
        host.handle(at(1), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(10_000_000))] });
        orders(&mut host, at(1));
        for (ms, expected) in [(held_ms, 10), (over_ms, 990)] {
            orders(&mut host, at(ms));
            let order = host.flows().find(|f| f.spec.flow == long).map(|f| f.order);
            assert_eq!(order, Some(Rate::mbps(expected)), "{mb} MB after {ms} ms");
        }
    }
}

#[test]
fn density_is_what_jobs_ask_for_however_long_they_wait() {
    let (round, compute) = (Bytes(12_500_000), Nanos::from_millis(100)); // 100 ms alone
    for (jobs, expected) in [(1, 0.5), (2, 1.0), (4, 2.0)] {
        let mut world = World::star(2, Rate::mbps(1000), Nanos::from_millis(1));
        (0..jobs).for_each(|i| world.add(Ring::new(&format!("j{i}"), &[0, 1], round, compute)));
        world.run(Nanos::from_millis(6000));
        let density = world.density(0, "j0");
        assert!((density / expected - 1.0).abs() < 0.1, "{jobs} jobs: {density}");
    }
}

#[test]
fn density_counts_jobs_that_only_other_hosts_send_for() {
    let (round, compute) = (Bytes(12_500_000), Nanos::from_millis(100));
    let mut world = World::star(3, Rate::mbps(1000), Nanos::from_millis(1));
    world.add(Ring::new("a", &[0, 1], round, compute));
    world.add(Ring::new("b", &[2, 1], round, compute));
    world.run(Nanos::from_millis(6000));
    // h0 and h2 meet on the way into h1 only.
    let density = world.density(0, "a");
    assert!((0.9..1.15).contains(&density), "{density}");
}

#[test]
fn a_round_that_one_host_promotes_is_promoted_on_all() {
    let mut host = lone_host();
    let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
    host.handle(at(0), Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(90_000_000))] });
    host.handle(at(0), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(10_000_000))] });
    let mut order = |seq, promoted| {
        let (job, origin, key) = (JobId::of("long"), HostId::of("h9"), Nanos(1));
        let status = crate::JobStatus { job, origin, seq, key, offer: Rate::MAX, promoted, ..Default::default() };
        let feedback = Feedback { jobs: vec![status], ..Feedback::default() };
        host.handle(at(1), Event::Feedback { holder: HolderId::of("s0"), feedback });
        orders(&mut host, at(1));
        host.flows().find(|f| f.spec.flow == long).map(|f| f.order)
    };
    assert_eq!(order(1, false), Some(Rate::mbps(10)));
    assert_eq!(order(2, true), Some(Rate::mbps(990)));
    assert_eq!(order(3, false), Some(Rate::mbps(10)));
}

/// A flow over the own egress and a link of this holder, with a round of a gigabyte.
fn sends_to(host: &mut Host, name: u64, holder: HolderId, now: Now) -> FlowId {
    let id = FlowId(u64::from(HostId::of("h0").0) << 32 | name);
    let (job, capacity) = (JobId::of("job"), Rate::mbps(1000));
    let egress = crate::Hop { link: LinkId::egress(HostId::of("h0")), capacity, holder: None };
    let down = crate::Hop { link: LinkId::new(holder.0, 0), capacity, holder: Some(holder) };
    host.handle(now, Event::FlowOpened(FlowSpec { flow: id, job, path: vec![egress, down], ..FlowSpec::default() }));
    host.handle(now, Event::RoundBegan { job, flows: vec![(id, Bytes(1_000_000_000))] });
    id
}

#[test]
fn a_holder_whose_links_nobody_uses_is_told_so_once_and_believed_no_longer() {
    let (mut host, holder) = (lone_host(), HolderId::of("s0"));
    let said = |host: &mut Host, ms: u64| {
        let mut actions = Vec::new();
        host.decide(at(ms), &mut actions);
        let announced = actions.into_iter().filter_map(|action| match action {
            Action::Announce { announcement, .. } => Some((announcement.flows.len(), announcement.watch.len())),
            _ => None,
        });
        announced.collect::<Vec<_>>()
    };
    let first = sends_to(&mut host, 1, holder, at(0));
    assert_eq!(said(&mut host, 0), [(1, 1)]);
    let promise =
        crate::FlowPromise { flow: FlowId(7), key: Nanos(1), rates: vec![Rate::mbps(900)], ..Default::default() };
    let view = crate::LinkView {
        link: LinkId::new(holder.0, 0),
        capacity: Rate::mbps(1000),
        flows: vec![promise],
        ..crate::LinkView::default()
    };
    let feedback = Feedback { warm: true, links: vec![view], ..Feedback::default() };
    host.handle(at(1), Event::Feedback { holder, feedback });
    assert!(orders(&mut host, at(5)).iter().all(|o| o.1 <= Rate::mbps(110)), "the other goes first");
    host.handle(at(70), Event::FlowClosed(first));
    assert_eq!(said(&mut host, 70), [(0, 0)], "withdrawn");
    assert!((2..20).all(|slot| said(&mut host, slot * 60 + 10).is_empty()), "nothing to repeat");
    assert_eq!(host.views().count(), 0);
    let second = sends_to(&mut host, 2, holder, at(1_210));
    assert_eq!(said(&mut host, 1_210), [(1, 1)]);
    let order = host.flows().find(|f| f.spec.flow == second).map(|f| f.order);
    assert_eq!(order, Some(Rate::mbps(1000)), "what was promised a second ago is no news");
}

#[test]
fn what_another_flow_leaves_free_when_it_ends_is_taken_without_waiting_to_be_told() {
    let (mut host, holder) = (lone_host(), HolderId::of("s0"));
    let flow = sends_to(&mut host, 1, holder, at(0));
    orders(&mut host, at(0));
    let other = |until| crate::FlowPromise {
        flow: FlowId(7),
        key: Nanos(1),
        until,
        rates: vec![Rate::mbps(900)],
        ..Default::default()
    };
    let view = |until| crate::LinkView {
        link: LinkId::new(holder.0, 0),
        capacity: Rate::mbps(1000),
        flows: vec![other(until)],
        ..crate::LinkView::default()
    };
    let mut last = 0;
    let mut order = |ms, until: Option<u64>| {
        keep_up(&mut host, &mut last, ms);
        if let Some(until) = until {
            let links = vec![view(Nanos::from_millis(until))];
            let feedback = Feedback { warm: true, slot: at(ms).slot, links, ..Feedback::default() };
            host.handle(at(ms), Event::Feedback { holder, feedback });
        }
        orders(&mut host, at(ms));
        let order = host.flows().find(|f| f.spec.flow == flow).map_or(Rate::ZERO, |f| f.order);
        (order, host.due_in(at(ms)))
    };
    assert_eq!(order(5, Some(30)), (Rate::mbps(100), Some(Nanos::from_millis(25))), "it goes first, for 25 ms");
    assert_eq!(order(29, None), (Rate::mbps(100), Some(Nanos::from_millis(1))));
    assert_eq!(order(30, None), (Rate::mbps(1000), None), "over, and nothing else is due");
    assert_eq!(order(33, Some(50)), (Rate::mbps(100), Some(Nanos::from_millis(17))), "it is not, after all");
    assert_eq!(order(50, Some(0)), (Rate::mbps(100), None), "an end that is not known is waited for");
}

#[test]
fn a_flow_tells_its_end_and_again_when_that_moved() {
    let (mut host, holder) = (lone_host(), HolderId::of("s0"));
    let flow = sends_to(&mut host, 1, holder, at(0)); // 8 s of work
    let mut told = |ms, delivered, queued| {
        let progress = FlowProgress { flow, delivered, queued, ..FlowProgress::default() };
        host.handle(at(ms), Event::Progress(vec![progress]));
        let mut actions = Vec::new();
        host.decide(at(ms), &mut actions);
        actions.into_iter().find_map(|action| match action {
            Action::Announce { announcement, .. } => announcement.flows.first().map(|flow| flow.until.0 / 1_000_000),
            _ => None,
        })
    };
    assert_eq!(told(0, Bytes::ZERO, Bytes::ZERO), Some(8_000));
    assert_eq!(told(70, Bytes(2_000_000), Bytes::ZERO), Some(8_000), "54 ms late is nothing yet");
    assert_eq!(told(130, Bytes(500_000_000), Bytes::ZERO), Some(4_130), "further than it seemed");
    assert_eq!(told(190, Bytes(990_000_000), Bytes::ZERO), Some(270));
    assert_eq!(told(200, Bytes(990_500_000), Bytes::ZERO), None, "6 of 80 ms late");
    assert_eq!(
        told(206, Bytes(990_500_000), Bytes::ZERO),
        None,
        "12 of 76 ms late, which is told soon enough with the lease"
    );
    assert_eq!(told(241, Bytes(995_000_000), Bytes::ZERO), Some(282));
    assert_eq!(told(270, Bytes(998_000_000), Bytes::ZERO), Some(286), "it is near, and others are about to act on it");
    assert_eq!(told(273, Bytes(998_500_000), Bytes::ZERO), None, "1 ms is nothing");
    assert_eq!(told(280, Bytes(998_800_000), Bytes(5_000_000)), Some(0), "more is queued than was said to be left");
}

#[test]
fn a_job_is_met_at_one_switch_of_all_also_where_no_flow_goes() {
    let switches: Vec<HolderId> = (0..6).map(|n| HolderId::of(&format!("s{n}"))).collect();
    let own = switches[0];
    let mut host = Host::new(HostConfig { switches, ..lone_host().config });
    let told = |host: &mut Host, ms: u64| {
        let mut actions = Vec::new();
        host.decide(at(ms), &mut actions);
        let announced = actions.into_iter().filter_map(|action| match action {
            Action::Announce { holder, announcement: a } => {
                Some((holder, (a.flows.len(), a.watch.len(), a.jobs.len())))
            }
            _ => None,
        });
        announced.collect::<BTreeMap<_, _>>()
    };
    let met = |told: &BTreeMap<HolderId, (usize, usize, usize)>| {
        assert_eq!((told.len(), told[&own]), (2, (1, 1, 1)), "{told:?}");
        let (switch, said) = told.iter().find(|(holder, _)| **holder != own).expect("two of them");
        assert_eq!(*said, (0, 0, 1), "a status and nothing else");
        *switch
    };
    let flow = sends_to(&mut host, 1, own, at(0));
    let first = met(&told(&mut host, 0));
    assert_eq!(met(&told(&mut host, 70)), first, "said again in every slot");
    host.handle(at(71), Event::HolderLost(first));
    let second = met(&told(&mut host, 130));
    assert_ne!(second, first);
    host.handle(at(131), Event::HolderBack(first));
    let back = told(&mut host, 190);
    assert_eq!((back[&first].2, back[&second].2), (1, 0), "withdrawn where it is not met any more: {back:?}");
    assert_eq!(met(&told(&mut host, 250)), first);
    host.handle(at(251), Event::FlowClosed(flow));
    host.handle(at(251), Event::JobGone(JobId::of("job")));
    assert!(told(&mut host, 310).values().all(|said| *said == (0, 0, 0)), "withdrawn everywhere");
    assert!(told(&mut host, 370).is_empty(), "nothing to repeat");
}

#[test]
fn orders_on_the_own_link_never_exceed_it() {
    let mut host = lone_host();
    let flows: Vec<FlowId> = (0..64).map(|i| flow(&mut host, i, &format!("job{}", i % 7), 1000)).collect();
    for job in 0..7_u64 {
        let of_job = flows.iter().enumerate().filter(|(i, _)| *i as u64 % 7 == job);
        let demands = of_job.map(|(i, id)| (*id, Bytes(1_000_000 * (i as u64 + 1)))).collect();
        host.handle(at(job), Event::RoundBegan { job: JobId::of(&format!("job{job}")), flows: demands });
        orders(&mut host, at(job));
        let active: Rate = host.flows().filter(|f| f.demand > Bytes::ZERO).fold(Rate::ZERO, |sum, f| sum.plus(f.order));
        assert!(active <= Rate::mbps(1000), "{active}");
    }
}

#[test]
fn every_order_is_renewed_once_per_slot_and_silent_otherwise() {
    let mut host = lone_host();
    let id = flow(&mut host, 1, "a", 1000);
    host.handle(at(0), Event::RoundBegan { job: JobId::of("a"), flows: vec![(id, Bytes(1_000_000_000))] });
    assert_eq!(orders(&mut host, at(0)).len(), 1);
    assert_eq!(orders(&mut host, at(5)).len(), 0);
    assert_eq!(orders(&mut host, at(60)).len(), 1);
}

#[test]
fn a_job_runs_at_the_least_offer_of_its_flows() {
    let mut world = World::star(4, Rate::mbps(1000), Nanos::from_millis(1));
    // Ring a on h0 h1 h2; ring b on h2 h3: b is shorter and takes h2's egress, so all of a waits, not only h2's flow.
    world.add(Ring::new("a", &[0, 1, 2], Bytes(60_000_000), Nanos::ZERO));
    world.add(Ring::new("b", &[2, 3], Bytes(20_000_000), Nanos::ZERO));
    world.run(Nanos::from_millis(60));
    let of_a = world.promises("a");
    assert!(of_a.iter().all(|rate| *rate <= Rate::mbps(20)), "all of a waits while b runs: {of_a:?}");
    // Nobody else wants h0's and h1's links: what a flow gets there beyond its job's pace is not promised to anyone.
    assert!(world.orders("a").iter().any(|rate| *rate >= Rate::mbps(900)));
}

#[test]
fn two_rings_on_the_same_hosts_interleave() {
    let mut world = World::star(2, Rate::mbps(1000), Nanos::from_millis(1));
    let round = Bytes(12_500_000); // 100 ms alone
    world.add(Ring::new("a", &[0, 1], round, Nanos::from_millis(100)));
    world.add(Ring::new("b", &[0, 1], round, Nanos::from_millis(100)));
    world.run(Nanos::from_millis(6000));
    for job in ["a", "b"] {
        let mean = world.mean_iteration(job, 5);
        assert!(mean <= Nanos::from_millis(216), "{job}: {mean}, alone 200 ms");
    }
}

#[test]
fn links_are_not_over_promised_at_rest() {
    let mut world = World::star(6, Rate::mbps(1000), Nanos::from_millis(2));
    for (i, members) in [[0, 1, 2], [1, 2, 3], [2, 4, 5], [5, 0, 3], [4, 1, 0]].iter().enumerate() {
        world.add(Ring::new(&format!("j{i}"), members, Bytes(1_000_000_000 + i as u64 * 50_000_000), Nanos::ZERO));
    }
    world.run(Nanos::from_millis(300));
    for (link, promised) in world.promised() {
        assert!(promised <= Rate::mbps(1000), "{link}: {promised}");
    }
}

#[test]
fn shorter_rounds_first_beats_equal_share_on_a_mix() {
    let mix = |policy| {
        let mut world = World::star(6, Rate::mbps(500), Nanos::from_millis(2)).policy(policy);
        world.add(Ring::new("vgg19", &[0, 1, 2], Bytes(15_300_000), Nanos::from_millis(147)));
        world.add(Ring::new("gpt2", &[0, 4, 5], Bytes(32_000_000), Nanos::from_millis(400)));
        world.add(Ring::new("small", &[1, 2, 3], Bytes(2_700_000), Nanos::from_millis(75)));
        world.add(Ring::new("vgg16", &[3, 4, 5], Bytes(14_700_000), Nanos::from_millis(128)));
        world.run(Nanos::from_millis(20_000));
        ["vgg19", "gpt2", "small", "vgg16"].map(|job| world.mean_iteration(job, 5).as_secs_f64())
    };
    let (ours, equal) = (mix(PolicyName::SrptP), mix(PolicyName::Fair));
    let ratio: f64 = ours.iter().zip(equal).map(|(a, b)| a / b).sum::<f64>() / 4.0;
    assert!(ratio < 0.97, "srpt-p {ours:?} against fair {equal:?}: {ratio:.3}");
}
