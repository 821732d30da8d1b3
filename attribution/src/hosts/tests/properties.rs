//! A naive reference that asks at every millisecond anew, and what holds for any input.

use proptest::prelude::*;
use sluice_schedule::{Bytes, FlowId, Rate};

use super::super::*;
use super::{JOB, SLOT, host, moves, ms};
use crate::seen::{FlowSeen, Held, Limits};

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
