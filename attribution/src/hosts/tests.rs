//! Cases worked out by hand; what holds for any input is in [`properties`].

mod properties;

use sluice_schedule::{Bytes, FlowId, Rate};

use super::*;
use crate::seen::{ArrivalSeen, FlowSeen, JobBytes, JobSeen, Limits, LinkSeen, Mark};

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
