//! Cases worked out by hand, a naive reference that asks at every millisecond anew, and what holds for any input.

use proptest::prelude::*;
use sluice_schedule::{Bytes, FlowId, Rate};

use super::*;
use crate::seen::{ArrivalSeen, FlowSeen, Held, JobBytes, JobSeen, Limits, LinkSeen, Mark};

const JOB: JobId = JobId(1);
/// ms
const SLOT: u64 = 60;

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A host of a ring in one slot: it sends to `next`, receives from `before`, over links of 1 Gbit/s.
fn slot(number: u64, host: &str, next: &str, before: &str) -> Seen {
    let link = |name: String, inwards| LinkSeen { name, capacity: Rate::mbps(1000), inwards, ..LinkSeen::default() };
    Seen {
        from: ms(number * SLOT),
        to: ms((number + 1) * SLOT),
        jobs: vec![
            JobSeen { id: JOB, name: "a".into(), ..JobSeen::default() },
            JobSeen { id: JobId(2), name: "b".into(), ..JobSeen::default() },
        ],
        peers: vec![next.into(), before.into()],
        links: vec![
            link(format!("{host}:eth0"), false),
            link(format!("{next}:in"), false),
            link(format!("{host}:in"), true),
        ],
        flows: vec![FlowSeen {
            flow: FlowId(1),
            peer: 0,
            path: vec![0, 1],
            segment: Bytes(1448),
            limits: Some(Limits::default()),
            ..FlowSeen::default()
        }],
        arrivals: vec![ArrivalSeen { peer: 1, link: Some(2), ..ArrivalSeen::default() }],
        ..Seen::default()
    }
}

/// Bytes at this part of the link's rate in a slot, in and out.
fn moves(slot: &mut Seen, part: f64) {
    let bytes = Rate::mbps(1000).times(part).over(slot.length());
    slot.flows[0].delivered = bytes;
    slot.arrivals[0].received = bytes;
    for link in &mut slot.links {
        link.jobs.push(JobBytes { job: 0, bytes });
    }
}

fn mark(slot: &mut Seen, at: u64, round: u64, ended: bool) {
    slot.jobs[0].marks.push(Mark { at: ms(at), round, ended });
}

/// Slots of a host whose round 1 begins at `began` ms and ends at 600 ms, where round 0 ended at 0.
fn host(name: &str, next: &str, before: &str, began: u64, each: impl Fn(u64, &mut Seen)) -> Vec<Seen> {
    let mut slots: Vec<Seen> = (0..10).map(|number| slot(number, name, next, before)).collect();
    mark(&mut slots[0], 0, 0, true);
    mark(&mut slots[(began / SLOT) as usize], began, 1, false);
    mark(&mut slots[9], 600, 1, true);
    slots.iter_mut().enumerate().for_each(|(number, slot)| each(number as u64, slot));
    slots
}

fn idle(slot: &mut Seen) {
    slot.flows[0].limits = Some(Limits { idle: slot.length(), ..Limits::default() });
}

fn asked(hosts: &Hosts, host: &str) -> Report {
    let all = hosts.iterations(host, JOB);
    assert_eq!(all.len(), 1, "one whole iteration");
    hosts.report(host, JOB, &all)
}

/// Per cent, whole numbers, the longest first.
fn per_cent(report: &Report) -> Vec<(Cause, u64)> {
    let total = report.shares.total();
    let list = report.shares.longest_first().into_iter();
    list.map(|(cause, time)| (cause.clone(), (time / total * 100.0).round() as u64))
        .filter(|(_, part)| *part > 0)
        .collect()
}

fn one(slots: Vec<Seen>) -> Report {
    let mut hosts = Hosts::default();
    hosts.add("h0", slots);
    asked(&hosts, "h0")
}

#[test]
fn compute_and_a_link_that_is_full_with_the_own_bytes() {
    let report =
        one(host("h0", "h1", "h2", 240, |number, slot| if number >= 4 { moves(slot, 1.0) } else { idle(slot) }));
    assert_eq!(per_cent(&report), [(Cause::Link { link: "h0:eth0".into() }, 60), (Cause::Compute, 40)]);
    assert_eq!((report.took(), report.rounds, report.confidence), (ms(600), 1, 1.0));
}

#[test]
fn another_job_on_the_own_link_is_named_and_strangers_are_told_apart_from_it() {
    let report = one(host("h0", "h1", "h2", 0, |_, slot| {
        moves(slot, 0.25);
        let rest = Rate::mbps(1000).times(0.5).over(slot.length());
        slot.links[0].jobs.push(JobBytes { job: 1, bytes: rest });
        slot.links[0].other = Rate::mbps(250);
    }));
    let link = || "h0:eth0".to_owned();
    let job = Cause::Job { link: link(), job: "b".into() };
    assert_eq!(
        per_cent(&report),
        [(job, 50), (Cause::Link { link: link() }, 25), (Cause::Unmanaged { link: link() }, 25)]
    );
}

#[test]
fn a_link_that_carries_less_than_is_known_is_a_path_and_with_losses_and_no_queue_it_is_loss() {
    let slow = |_, slot: &mut Seen| {
        moves(slot, 0.25);
        (slot.flows[0].queueing, slot.flows[0].queued) = (ms(20), Bytes(8 << 20));
    };
    let path = Cause::Path { to: "h1".into() };
    assert_eq!(per_cent(&one(host("h0", "h1", "h2", 0, slow)))[0], (path.clone(), 75));
    let drops = |number, slot: &mut Seen| {
        slow(number, slot);
        slot.flows[0].resent = 50;
    };
    assert_eq!(per_cent(&one(host("h0", "h1", "h2", 0, drops)))[0], (path, 75), "a queue that overflows loses too");
    let loses = |number, slot: &mut Seen| {
        drops(number, slot);
        slot.flows[0].queueing = Nanos(50_000);
    };
    assert_eq!(per_cent(&one(host("h0", "h1", "h2", 0, loses)))[0], (Cause::Loss { to: "h1".into() }, 75));
}

#[test]
fn a_receiver_that_takes_nothing_and_a_process_that_leaves_what_has_come() {
    let shut = |_, slot: &mut Seen| {
        moves(slot, 0.25);
        slot.flows[0].limits = Some(Limits { receiver: slot.length().scaled(0.75), ..Limits::default() });
    };
    assert_eq!(per_cent(&one(host("h0", "h1", "h2", 0, shut)))[0], (Cause::Peer { host: "h1".into() }, 75));
    let lazy = |_, slot: &mut Seen| {
        moves(slot, 0.25);
        slot.flows[0].limits = Some(Limits { idle: slot.length().scaled(0.75), ..Limits::default() });
        slot.arrivals[0].unread = Bytes(4 << 20);
    };
    assert_eq!(per_cent(&one(host("h0", "h1", "h2", 0, lazy)))[0], (Cause::OwnSender, 75));
}

#[test]
fn without_a_page_a_job_waits_while_bytes_still_come_and_computes_when_they_have() {
    let mut slots = host("h0", "h1", "h2", 300, |number, slot| if number >= 5 { moves(slot, 1.0) } else { idle(slot) });
    for slot in slots.iter_mut().take(3) {
        slot.arrivals[0].received = Bytes(1 << 20);
    }
    assert_eq!(one(slots.clone()).shares.of(&Cause::Compute), 300e6, "its page says so");
    slots.iter_mut().for_each(|slot| slot.jobs[0].inferred = true);
    let report = one(slots);
    assert_eq!(report.shares.of(&Cause::Compute), 120e6);
    assert_eq!(report.shares.of(&Cause::Peer { host: "h2".into() }), 180e6);
}

/// h0 waits for h2, h2 for h1, and h1 has the reason.
fn chain(reason: impl Fn(u64, &mut Seen) + Copy, began: u64) -> Hosts {
    let waits = |_, slot: &mut Seen| {
        moves(slot, 0.25);
        slot.flows[0].limits = Some(Limits { idle: slot.length().scaled(0.75), ..Limits::default() });
    };
    let mut hosts = Hosts::default();
    hosts.add("h0", host("h0", "h1", "h2", 0, waits));
    hosts.add("h2", host("h2", "h0", "h1", 0, waits));
    hosts.add("h1", host("h1", "h2", "h0", began, reason));
    hosts
}

#[test]
fn a_chain_of_hosts_that_wait_is_followed_to_its_end() {
    let slow = |_, slot: &mut Seen| {
        moves(slot, 0.25);
        (slot.flows[0].queueing, slot.flows[0].queued) = (ms(20), Bytes(8 << 20));
    };
    let hosts = chain(slow, 0);
    // Of three quarters of its time that h0 waits, an eighth falls to links that were full to a quarter, twice.
    assert_eq!(per_cent(&asked(&hosts, "h0"))[0], (Cause::Path { to: "h2".into() }, 64));
    // It computes while the others wait.
    let hosts = chain(|number, slot: &mut Seen| if number >= 5 { moves(slot, 1.0) } else { idle(slot) }, 300);
    let report = asked(&hosts, "h0");
    let waited = report.shares.of(&Cause::Peer { host: "h1".into() }) / 1e6;
    assert!((200.0..225.0).contains(&waited), "{waited} {:?}", per_cent(&report));
    assert_eq!(per_cent(&asked(&hosts, "h1"))[0].0, Cause::Compute, "asked there, it is its own");
}

#[test]
fn hosts_without_a_record_and_circles_end_with_the_one_that_was_waited_for() {
    let mut alone = chain(|_, _| {}, 0);
    alone.all.retain(|name, _| name == "h0");
    assert_eq!(per_cent(&asked(&alone, "h0"))[0], (Cause::Peer { host: "h2".into() }, 75));
    let circle = chain(
        |_, slot: &mut Seen| {
            moves(slot, 0.25);
            slot.flows[0].limits = Some(Limits { idle: slot.length().scaled(0.75), ..Limits::default() });
        },
        0,
    );
    let report = asked(&circle, "h0");
    assert_eq!(report.shares.total().round() as u64, ms(600).0);
}

#[test]
fn what_was_not_recorded_is_unknown_and_holes_end_what_is_cut() {
    let mut slots = host("h0", "h1", "h2", 0, |_, slot| moves(slot, 1.0));
    slots.remove(4);
    let report = one(slots.clone());
    assert_eq!(report.shares.of(&Cause::Unknown), ms(60).0 as f64);
    assert_eq!(report.confidence, 0.9);
    slots.drain(2..7);
    let mut hosts = Hosts::default();
    hosts.add("h0", slots);
    assert_eq!(hosts.iterations("h0", JOB), []);
    assert_eq!(hosts.report("h0", JOB, &[]), Report { confidence: 0.0, ..Report::default() });
    assert_eq!(hosts.jobs("h0")[&JOB], "a");
}

#[test]
fn of_two_that_wait_for_each_other_the_one_with_the_shut_window_has_the_bytes() {
    let shut = |_, slot: &mut Seen| {
        moves(slot, 0.25);
        slot.flows[0].limits = Some(Limits { receiver: slot.length().scaled(0.75), ..Limits::default() });
    };
    let idle = |_, slot: &mut Seen| {
        moves(slot, 0.25);
        slot.flows[0].limits = Some(Limits { idle: slot.length().scaled(0.75), ..Limits::default() });
    };
    let mut hosts = Hosts::default();
    hosts.add("h0", host("h0", "h1", "h1", 0, shut));
    hosts.add("h1", host("h1", "h0", "h0", 0, idle));
    assert_eq!(per_cent(&asked(&hosts, "h0"))[0].0, Cause::Peer { host: "h1".into() });
    assert_eq!(per_cent(&asked(&hosts, "h1"))[0].0, Cause::OwnSender, "asked there, it is its own");
}

#[test]
fn a_receiver_that_reads_now_and_then_is_no_path_though_its_late_acknowledgements_look_like_a_queue() {
    // h1 leaves a megabyte, which is less than came, in some slots; h0's flow to it is neither idle nor shut out.
    let hosts = |queueing: Nanos, left: fn(u64) -> bool| {
        let waits = |slot: &mut Seen| {
            moves(slot, 0.25);
            slot.flows[0].limits = Some(Limits { idle: slot.length().scaled(0.75), ..Limits::default() });
        };
        let mut hosts = Hosts::default();
        let sends = |_: u64, slot: &mut Seen| {
            moves(slot, 0.25);
            (slot.flows[0].queueing, slot.flows[0].queued) = (queueing, Bytes(8 << 20));
        };
        hosts.add("h0", host("h0", "h1", "h2", 0, sends));
        let reads = |number: u64, slot: &mut Seen| {
            waits(slot);
            slot.arrivals[0].unread = Bytes(if left(number) { 1 << 20 } else { 0 });
        };
        hosts.add("h1", host("h1", "h2", "h0", 0, reads));
        hosts.add("h2", host("h2", "h0", "h1", 0, |_, slot| waits(slot)));
        hosts
    };
    let (peer, path) = (Cause::Peer { host: "h1".into() }, Cause::Path { to: "h1".into() });
    // Its acknowledgements come late, or a small window hides that.
    for queueing in [ms(2), Nanos(50_000)] {
        let slow = hosts(queueing, |number| number % 2 == 0);
        for viewer in ["h0", "h2"] {
            assert_eq!(per_cent(&asked(&slow, viewer))[0].0, peer, "{queueing:?} {viewer}");
        }
    }
    let cut = hosts(ms(2), |number| number == 0);
    assert_eq!(
        per_cent(&asked(&cut, "h0"))[0],
        (path.clone(), 75),
        "it computed for a moment: the way is what is slow"
    );
    let alone = hosts(ms(2), |number| number % 2 == 0).only("h0");
    assert_eq!(per_cent(&asked(&alone, "h0"))[0].0, path, "alone it cannot tell");
}

/// Asks at every millisecond anew, from the beginning, and remembers nothing.
fn naive(hosts: &Hosts, host: &str, these: &[Iteration]) -> Shares {
    let mut shares = Shares::default();
    for iteration in these {
        for at in iteration.from.0 / 1_000_000..iteration.to.0 / 1_000_000 {
            for (cause, part) in naive_at(hosts, host, at, &[]).unwrap_or_else(|| vec![(Cause::Unknown, 1.0)]) {
                shares.add(cause, part * 1e6 / these.len() as f64);
            }
        }
    }
    shares.renamed(&Cause::Peer { host: host.into() }, Cause::OwnSender)
}

/// The causes of one millisecond, in sum 1; `None`: nothing is known of it.
fn naive_at(hosts: &Hosts, host: &str, at: u64, chain: &[&str]) -> Option<Vec<(Cause, f64)>> {
    let slots = hosts.all.get(host)?;
    let slot = slots.iter().find(|slot| slot.from <= ms(at) && ms(at) < slot.to)?;
    let all = iterations(slots, JOB);
    let iteration = all.iter().find(|i| i.from <= ms(at) && ms(at) < i.to)?;
    if ms(at) < iteration.began {
        return Some(vec![(Cause::Compute, 1.0)]);
    }
    let round = Round::of(host, slots, JOB, iteration, &|name| hosts.all.get(name).map_or(&[], Vec::as_slice));
    let there = |name: &str| hosts.all.get(name)?.iter().find(|slot| slot.from <= ms(at) && ms(at) < slot.to);
    let blame = blame(slot, JOB, iteration, (ms(at), ms(at + 1)), &round, &there);
    let mut out = Vec::new();
    for (part, time) in blame.parts {
        match part {
            Part::Done(cause) => out.push((cause, time)),
            Part::Sends(link, full) => {
                out.push((Cause::Link { link }, if chain.is_empty() { time } else { time * full }))
            }
            Part::Waits { peer, shut } => {
                let own = Cause::Peer { host: peer.clone() };
                let chain: Vec<&str> = chain.iter().copied().chain([host]).collect();
                if chain.contains(&peer.as_str()) {
                    let circle = if shut { peer } else { host.to_owned() };
                    out.push((Cause::Peer { host: circle }, time));
                    continue;
                }
                for (cause, part) in naive_at(hosts, &peer, at, &chain).unwrap_or_else(|| vec![(own.clone(), 1.0)]) {
                    let is_its = matches!(cause, Cause::Compute | Cause::OwnSender | Cause::Unknown);
                    out.push((if is_its { own.clone() } else { cause }, part * time));
                }
            }
        }
    }
    let total: f64 = out.iter().map(|(_, time)| time).sum();
    (total > 0.0).then(|| out.into_iter().map(|(cause, time)| (cause, time / total)).collect())
}

#[derive(Clone, Debug)]
struct Drawn {
    began: u64,
    slots: Vec<DrawnSlot>,
}

/// Parts of the link and of the time; whether something is unread; units resent, and which of the reasons holds it.
#[derive(Clone, Debug)]
struct DrawnSlot {
    link: f64,
    idle: f64,
    receiver: f64,
    buffer: f64,
    others: f64,
    unread: bool,
    resent: u64,
    held: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let part = || (0_u32..=20).prop_map(|part| f64::from(part) / 20.0);
    let slot = (part(), part(), part(), part(), part(), any::<bool>(), 0_u64..4, 0_u8..4).prop_map(
        |(link, idle, receiver, buffer, others, unread, resent, held)| DrawnSlot {
            link,
            idle,
            receiver,
            buffer,
            others,
            unread,
            resent,
            held,
        },
    );
    (0_u64..9, prop::collection::vec(slot, 10)).prop_map(|(began, slots)| Drawn { began: began * SLOT + 13, slots })
}

fn made(drawn: &[Drawn]) -> Hosts {
    let mut hosts = Hosts::default();
    let count = drawn.len();
    for (at, of) in drawn.iter().enumerate() {
        let name = |at: usize| format!("h{}", at % count);
        let slots = host(&name(at), &name(at + 1), &name(at + count - 1), of.began, |number, slot| {
            let DrawnSlot { link, idle, receiver, buffer, others, unread, resent, held } =
                of.slots[number as usize].clone();
            moves(slot, link);
            let part = |part: f64| slot.length().scaled(part / 2.0);
            slot.flows[0].limits =
                (resent != 3).then(|| Limits { idle: part(idle), receiver: part(receiver), buffer: part(buffer) });
            slot.flows[0].queued = Bytes(u64::from(unread));
            slot.arrivals[0].unread = Bytes(if unread { 1 << 20 } else { 0 });
            slot.flows[0].resent = resent * 10;
            slot.flows[0].held = [Held::Not, Held::Others, Held::Waits, Held::Guard][usize::from(held)];
            slot.links[1].promised = Rate::mbps(1000).times(others);
            slot.flows[0].ordered = Rate::mbps(1000).times(link);
        });
        hosts.add(&name(at), slots);
    }
    hosts
}

/// What falls to parts that are too small to be followed may differ.
fn close(a: &Shares, b: &Shares) -> Result<(), TestCaseError> {
    for cause in a.iter().chain(b.iter()).map(|(cause, _)| cause) {
        let (a, b) = (a.of(cause), b.of(cause));
        prop_assert!((a - b).abs() <= 1e-2 * 600e6, "{cause:?}: {a} {b}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_whole_time_is_shared_out_as_the_naive_reference_does(drawn in prop::collection::vec(drawn(), 1..4)) {
        let hosts = made(&drawn);
        let all = hosts.iterations("h0", JOB);
        let report = hosts.report("h0", JOB, &all);
        prop_assert!((report.shares.total() - 600e6).abs() < 1.0, "{}", report.shares.total());
        prop_assert!((0.0..=1.0).contains(&report.confidence));
        close(&report.shares, &naive(&hosts, "h0", &all))?;
    }

    /// Whatever stands in whichever place of its list.
    #[test]
    fn the_order_of_lists_says_nothing(drawn in prop::collection::vec(drawn(), 2..4), turn in 1_usize..5) {
        let before = made(&drawn);
        let mut after = before.clone();
        for slot in after.all.values_mut().flatten() {
            let turned = |len: usize, at: u32| ((at as usize + turn) % len) as u32;
            let (jobs, peers, links) = (slot.jobs.len(), slot.peers.len(), slot.links.len());
            slot.jobs.rotate_right(turn % jobs);
            slot.peers.rotate_right(turn % peers);
            slot.links.rotate_right(turn % links);
            for flow in &mut slot.flows {
                (flow.job, flow.peer) = (turned(jobs, flow.job), turned(peers, flow.peer));
                flow.path.iter_mut().for_each(|link| *link = turned(links, *link));
            }
            for arrival in &mut slot.arrivals {
                (arrival.job, arrival.peer) = (turned(jobs, arrival.job), turned(peers, arrival.peer));
                arrival.link = arrival.link.map(|link| turned(links, link));
            }
            slot.links.iter_mut().flat_map(|link| &mut link.jobs).for_each(|of| of.job = turned(jobs, of.job));
            // A flow of another job and bytes of nobody change nothing either.
            slot.flows.insert(0, FlowSeen { job: turned(jobs, 1), flow: FlowId(9), ..FlowSeen::default() });
        }
        let all = before.iterations("h0", JOB);
        close(&before.report("h0", JOB, &all).shares, &after.report("h0", JOB, &all).shares)?;
    }

    /// The same at a tenth of the speed takes ten times as long, in the same parts.
    #[test]
    fn time_has_no_scale(drawn in prop::collection::vec(drawn(), 1..4)) {
        let before = made(&drawn);
        let mut after = before.clone();
        let longer = |time: &mut Nanos| *time = time.times(10);
        let slower = |rate: &mut Rate| *rate = Rate(rate.0 / 10);
        for slot in after.all.values_mut().flatten() {
            longer(&mut slot.from);
            longer(&mut slot.to);
            slot.jobs.iter_mut().flat_map(|job| &mut job.marks).for_each(|mark| longer(&mut mark.at));
            for link in &mut slot.links {
                [&mut link.capacity, &mut link.promised, &mut link.other].into_iter().for_each(slower);
            }
            for flow in &mut slot.flows {
                slower(&mut flow.ordered);
                if let Some(Limits { idle, receiver, buffer }) = &mut flow.limits {
                    [idle, receiver, buffer].into_iter().for_each(longer);
                }
            }
        }
        let report = |hosts: &Hosts| hosts.report("h0", JOB, &hosts.iterations("h0", JOB));
        close(&report(&before).shares, &report(&after).shares.times(0.1))?;
    }
}
