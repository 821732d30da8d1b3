//! What held a job back in a part of a slot, as far as the host that saw it can tell: causes, and hosts that it waited for.
//!
//! Outside rounds it computed. In a round the flow that ends last decides, since nobody waits for the others: by the kernel's
//! count it was idle, or its receiver took nothing, or the own buffer was too small, or else the network limited it. Once it
//! is through, or while it is idle, what still has to come is what the host waits for.

use std::collections::BTreeMap;

use sluice_schedule::{Bytes, FlowId, JobId, Nanos};

use crate::network::{self, Asked, Loss, On, Taken};
use crate::rounds::{Iteration, between, overlap};
use crate::seen::{ArrivalSeen, FlowSeen, Seen};
use crate::share::Cause;

/// A process that leaves more than this unread, and more than came in the slot, has something to do that it does not do.
const UNREAD: Bytes = Bytes(64 << 10);
/// Who leaves this part of what came in a slot, and more than [`UNREAD`], does not keep up ...
const LEFT: f64 = 0.1;
/// ... if it is so for this part of the time: whoever computes reads all at once when it is done.
const OFTEN: f64 = 1.0 / 3.0;
/// Fewer bytes than this in a slot are words of a library.
const WORDS: Bytes = Bytes(8 << 10);
/// What is said of a part without the kernel's counts is worth this.
const GUESS: f64 = 0.5;

/// Why time went, or whom it was waited for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Done(Cause),
    /// Its bytes went over this link at the link's rate, which was full to this part.
    Sends(String, f64),
    /// For another host, whose window was shut or from which nothing came; what that did in this time says why.
    Waits {
        peer: String,
        shut: bool,
    },
}

/// A part of a slot, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Blame {
    /// Why, and for how long, ns.
    pub parts: Vec<(Part, f64)>,
    /// Time of which the kernel's counts are known, ns.
    pub known: f64,
}

impl Blame {
    fn add(&mut self, part: Part, time: f64) {
        if time > 0.0 {
            self.parts.push((part, time));
        }
    }

    /// `idle`: what it is if nothing on the way held it back.
    fn network(&mut self, taken: Taken, idle: impl FnOnce() -> Part) {
        if taken.idle > 0.0 {
            self.add(idle(), taken.idle);
        }
        if let Some((link, time, full)) = taken.own {
            self.add(Part::Sends(link, full), time);
        }
        taken.others.into_iter().for_each(|(cause, time)| self.add(Part::Done(cause), time));
    }
}

/// What holds over a whole round of a job on one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// The flow that ends last.
    critical: Option<FlowId>,
    /// When each peer's bytes last came.
    arrivals: BTreeMap<String, Nanos>,
    /// When each flow last delivered something, and what it lost.
    flows: BTreeMap<FlowId, (Nanos, Loss)>,
    /// Whose bytes came last, or who took the last of this host's.
    last: Option<String>,
    /// Of a job whose rounds are inferred: whose bytes still came when its own were through, and until when.
    late: Option<(String, Nanos)>,
    /// The receiver of the flow that ends last leaves unread what comes from here.
    left: bool,
}

impl Round {
    /// Of a host, by its slots and by those of whoever it sends to.
    pub fn of<'a>(
        host: &str,
        slots: &[Seen],
        job: JobId,
        iteration: &Iteration,
        record: &dyn Fn(&str) -> &'a [Seen],
    ) -> Round {
        let mut round = Round::default();
        let mut bytes: BTreeMap<FlowId, u64> = BTreeMap::new();
        let mut receiver = None;
        for slot in between(slots, iteration.began, iteration.to) {
            let Some(at) = slot.place(job) else { continue };
            for flow in slot.flows.iter().filter(|flow| flow.job == at) {
                let (last, loss) = round.flows.entry(flow.flow).or_default();
                *bytes.entry(flow.flow).or_default() += flow.delivered.0;
                if flow.delivered > WORDS {
                    *last = slot.to;
                    receiver = Some(slot.peer_name(flow.peer).to_owned());
                }
                let segments = flow.delivered.0 as f64 / flow.segment.0.max(1) as f64;
                let before = loss.delivered;
                loss.resent += flow.resent as f64;
                loss.delivered += segments;
                if loss.delivered > 0.0 {
                    // Weighted by what was delivered meanwhile.
                    loss.queueing = (loss.queueing * before + flow.queueing.0 as f64 * segments) / loss.delivered;
                    loss.rtt_min = (loss.rtt_min * before + flow.rtt_min.0 as f64 * segments) / loss.delivered;
                }
            }
            for arrival in slot.arrivals.iter().filter(|arrival| arrival.job == at && arrival.received > WORDS) {
                round.arrivals.insert(slot.peer_name(arrival.peer).to_owned(), slot.to);
            }
        }
        round.late = late(between(slots, iteration.from, iteration.began), job);
        let ends = round.flows.iter().map(|(flow, (last, _))| (*last, bytes.get(flow).copied().unwrap_or(0), *flow));
        round.critical = ends.max().map(|(.., flow)| flow);
        let came = round.arrivals.iter().max_by_key(|(name, last)| (**last, std::cmp::Reverse(*name)));
        round.last = came.map(|(name, _)| name.clone()).or(receiver);
        let to = between(slots, iteration.began, iteration.to).iter().find_map(|slot| {
            let flow = slot.flows.iter().find(|flow| Some(flow.flow) == round.critical)?;
            Some(slot.peer_name(flow.peer))
        });
        round.left = to.is_some_and(|to| leaves(between(record(to), iteration.began, iteration.to), job, host));
        round
    }

    /// How long the bytes that decide take of a slot at the rate of their slowest link, ns.
    pub fn sending(&self, seen: &Seen, job: JobId) -> f64 {
        let Some(at) = seen.place(job) else { return 0.0 };
        let mine = seen.flows.iter().find(|flow| Some(flow.flow) == self.critical && flow.job == at);
        mine.map_or(0.0, |flow| {
            let rates = flow.path.iter().filter_map(|link| seen.link(*link)).map(|link| link.capacity);
            let slowest = rates.filter(|rate| rate.0 > 0).min();
            slowest.map_or(0.0, |rate| flow.delivered.at(rate).0 as f64)
        })
    }

    /// The peer whose bytes come last, if some still come after this time.
    fn awaited(&self, from: Nanos) -> Option<&str> {
        let still = self.arrivals.iter().filter(|(_, last)| **last > from);
        still.max_by_key(|(name, last)| (**last, std::cmp::Reverse(*name))).map(|(name, _)| name.as_str())
    }
}

/// Did a process leave unread what came from this host, for much of the time in which it came?
fn leaves(slots: &[Seen], job: JobId, from: &str) -> bool {
    let (mut came, mut left) = (0.0, 0.0);
    for slot in slots {
        let Some(at) = slot.place(job) else { continue };
        let mine = || slot.arrivals.iter().filter(|of| of.job == at && slot.peer_name(of.peer) == from);
        let is_left = |of: &ArrivalSeen| of.unread > UNREAD && of.unread.0 as f64 > LEFT * of.received.0 as f64;
        let length = slot.length().0 as f64;
        if mine().any(is_left) {
            left += length;
        }
        if mine().any(|of| of.received > WORDS || of.unread > UNREAD) {
            came += length;
        }
    }
    left > 0.0 && left >= OFTEN * came
}

/// Whose bytes came without a pause from the first of these slots on, and until when: where nobody says when a job computes, a
/// round seems over once its own bytes are through.
fn late(slots: &[Seen], job: JobId) -> Option<(String, Nanos)> {
    let mut late = None;
    for slot in slots {
        let at = slot.place(job)?;
        if !slot.jobs.get(at as usize)?.inferred {
            return None;
        }
        let came = slot.arrivals.iter().filter(|arrival| arrival.job == at && arrival.received > WORDS);
        let Some(most) = came.max_by_key(|arrival| (arrival.received, std::cmp::Reverse(arrival.peer))) else { break };
        late = Some((slot.peer_name(most.peer).to_owned(), slot.to));
    }
    late
}

/// The host to which a flow goes, as that saw the same slot, if its records are at hand.
pub(crate) type There<'a> = &'a dyn Fn(&str) -> Option<&'a Seen>;

/// Takes the part of a slot between these times apart.
pub(crate) fn blame<'a>(
    seen: &'a Seen,
    job: JobId,
    iteration: &Iteration,
    (from, to): (Nanos, Nanos),
    round: &Round,
    there: There<'a>,
) -> Blame {
    let mut out = Blame::default();
    let compute = overlap(seen, from.max(iteration.from), to.min(iteration.began));
    match &round.late {
        Some((peer, until)) if seen.to <= *until => out.add(awaits(peer), compute),
        _ => out.add(Part::Done(Cause::Compute), compute),
    }
    out.known += compute;
    let time = overlap(seen, from.max(iteration.began), to.min(iteration.to));
    let Some(at) = seen.place(job).filter(|_| time > 0.0) else {
        out.add(Part::Done(Cause::Unknown), time);
        return out;
    };
    let length = (seen.length().0 as f64).max(1.0);
    // Of what was counted over the slot this part is in the round, and of that in turn this part is asked for.
    let in_round = overlap(seen, iteration.began, iteration.to).max(1.0);
    let share = time / in_round;
    let critical = round.critical.filter(|flow| round.flows.get(flow).is_some_and(|(last, _)| *last > seen.from));
    let flow = critical.and_then(|id| seen.flows.iter().find(|flow| flow.flow == id && flow.job == at));
    let Some(flow) = flow else {
        out.known += time;
        match &round.last {
            // All is through, and the round is not over: others are not done.
            Some(last) if round.awaited(seen.from).is_none() => out.add(awaits(last), time),
            _ => waits(seen, at, round, Asked { time, in_round: in_round / length, share }, &mut out),
        }
        return out;
    };
    let limits = flow.limits.map(|limits| {
        // What lies outside the round is idle as well.
        let outside = Nanos((length - in_round).max(0.0) as u64);
        (limits.idle.minus(outside).0 as f64, limits.receiver.0 as f64, limits.buffer.0 as f64)
    });
    out.known += if limits.is_some() { time } else { time * GUESS };
    let path: Vec<On<'_>> =
        flow.path.iter().filter_map(|link| Some(On { seen, link: seen.link(*link)?, job: at })).collect();
    let (idle, receiver, buffer) = limits.unwrap_or_else(|| (guessed_idle(flow, &path, in_round), 0.0, 0.0));
    let sum = idle + receiver + buffer;
    let scale = if sum > in_round { in_round / sum } else { 1.0 } * share;
    let (idle, receiver, buffer) = (idle * scale, receiver * scale, buffer * scale);
    let peer = seen.peer_name(flow.peer);
    let asked = Asked { time: idle, in_round: in_round / length, share };
    // What comes meanwhile comes all the time; of it as much falls into this part as this part is of the whole.
    waits(seen, at, round, Asked { share: share * idle / time, ..asked }, &mut out);
    out.add(Part::Waits { peer: peer.to_owned(), shut: true }, receiver);
    out.add(Part::Done(Cause::OwnSender), buffer);
    let network = (time - idle - receiver - buffer).max(0.0);
    let mut links = path;
    if let Some(other) = there(peer)
        && let Some(job) = other.place(job)
    {
        let inwards = other.links.iter().filter(|link| link.inwards && link.jobs.iter().any(|of| of.job == job));
        links.extend(inwards.map(|link| On { seen: other, link, job }));
    }
    if flow.held == crate::seen::Held::Waits
        && !links.iter().any(On::is_full)
        && let Some(peer) = round.awaited(seen.from)
    {
        // The scheduler holds it back for what it waits for.
        out.add(awaits(peer), network);
        return out;
    }
    let loss = round.flows.get(&flow.flow).map_or_else(Loss::default, |(_, loss)| *loss);
    let mut taken = network::causes(&links, Some((flow, loss)), peer, Asked { time: network, ..asked });
    if round.left && network::has_more(flow, seen.length()) {
        // What came lies unread, and is not acknowledged before it is read: that makes round trips longer as a queue does, and
        // stops a small window before the receiver's is shut.
        out.add(Part::Waits { peer: peer.to_owned(), shut: true }, taken.unexplained());
    }
    // It passes on what comes, as fast as it comes.
    let path = || Part::Done(Cause::Path { to: peer.to_owned() });
    out.network(taken, || round.awaited(seen.from).map_or_else(path, awaits));
    out
}

fn awaits(peer: &str) -> Part {
    Part::Waits { peer: peer.to_owned(), shut: false }
}

/// Without the kernel's count: what is empty at the slot's end has been so since its bytes were through.
fn guessed_idle(flow: &FlowSeen, path: &[On<'_>], in_round: f64) -> f64 {
    let fastest = path.iter().map(|on| on.link.capacity).filter(|rate| rate.0 > 0).min();
    let takes = fastest.map_or(0.0, |rate| flow.delivered.at(rate).0 as f64);
    if flow.queued == Bytes::ZERO { (in_round - takes).max(0.0) } else { 0.0 }
}

/// Nothing is to be sent in the round, for so long: what the host waits for, if for anything.
fn waits(seen: &Seen, job: u32, round: &Round, asked: Asked, out: &mut Blame) {
    let mine = || seen.arrivals.iter().filter(|arrival| arrival.job == job);
    let unread = mine().any(|arrival| arrival.unread > UNREAD.max(arrival.received));
    let Some(awaited) = round.awaited(seen.from).filter(|_| !unread) else {
        return out.add(Part::Done(Cause::OwnSender), asked.time);
    };
    let comes = mine().find(|arrival| seen.peer_name(arrival.peer) == awaited);
    let by = comes.and_then(|ArrivalSeen { link, .. }| seen.link((*link)?)).map(|link| On { seen, link, job });
    match by.filter(On::is_full) {
        Some(by) => out.network(network::causes(&[by], None, awaited, asked), || awaits(awaited)),
        None => out.add(awaits(awaited), asked.time),
    }
}
