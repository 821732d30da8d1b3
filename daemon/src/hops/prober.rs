//! Which flow is asked next at which distance, and what an answer says: the brain of probes. No I/O, no clock.
//!
//! One probe a second in all. A flow is asked for at the distance where most paths part, until its path is known, and again
//! now and then afterwards; flows whose path is known take turns with those whose path is not. Nobody is asked farther away
//! than the topology says that switches lie, and nobody at a distance unless a switch of the distance before has
//! answered from there: a topology that is wrong is noticed before a probe could reach the other end.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sluice_ebpf::Sequence;
use sluice_schedule::{Action, Connection, FlowId, HolderId, LinkId, Nanos};

use super::segment;
use crate::topology::path::Ladder;

/// From one probe to the next.
pub const PAUSE: Nanos = Nanos::from_millis(1_000);
/// A flow is asked for when it has lived so long.
const LIVES: Nanos = Nanos::from_millis(2_000);
/// An answer comes within this time or not at all.
const ANSWERS: Nanos = Nanos::from_millis(3_000);
/// A flow that was asked for in vain is asked for again after this time; twice as long after each.
const RETRY: Nanos = Nanos::from_millis(4_000);
/// So often the pause is doubled.
const DOUBLINGS: u32 = 4;
/// After so many probes in vain to one distance, what was found there does not count any more.
const FORGET_AFTER: u32 = 4;
/// Flows that are followed at most.
const MAX_FLOWS: usize = 65_536;

/// A flow whose path may be asked for.
#[derive(Clone, Debug)]
pub struct Subject {
    pub flow: FlowId,
    pub connection: Connection,
    /// Where its connection stands; `None`: nobody measures it now, so that it is not asked for, and what is known of it
    /// stands.
    pub sequence: Option<Sequence>,
    pub ladder: Rc<Ladder>,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub flow: FlowId,
    pub connection: Connection,
    pub sequence: Sequence,
    /// How many switches it may come to.
    pub hop_limit: u8,
    /// The number of its packet.
    pub id: u16,
}

/// What was asked and answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub asked: u64,
    pub answered: u64,
    pub unanswered: u64,
}

/// Where to ask for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Its path is known as far as anybody answers; this only looks whether it still is so.
    known: bool,
    rung: usize,
    hop_limit: u8,
}

/// A probe that may be answered.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    probe: Probe,
    /// Of the flow's ladder, where it should end.
    rung: usize,
    since: Nanos,
}

#[derive(Debug)]
struct Followed {
    subject: Subject,
    /// Not before this time.
    due: Nanos,
    /// Probes without an answer since the last one.
    open: u32,
    /// How often a known path was looked at again.
    looks: usize,
    /// Probes without an answer since the last one, by rung.
    silent: BTreeMap<usize, u32>,
    /// The switches that it was seen to pass, by rung.
    passes: BTreeMap<usize, HolderId>,
    /// What the shell was told: by which link it leaves a switch.
    told: BTreeMap<HolderId, LinkId>,
}

/// The brain of probes.
#[derive(Debug, Default)]
pub struct Prober {
    repeat: Nanos,
    flows: BTreeMap<FlowId, Followed>,
    under_way: Vec<UnderWay>,
    last: Option<Nanos>,
    /// When it was last told which flows there are.
    told: Option<Nanos>,
    last_id: u16,
    /// The last one was for a flow whose path is not known.
    was_new: bool,
    /// Switches that answered at the distance where the topology has them.
    proved: BTreeSet<HolderId>,
    counts: Counts,
    news: Vec<Action>,
}

impl Prober {
    /// Paths that are known are looked at again after `repeat`.
    pub fn new(repeat: Nanos) -> Prober {
        Prober { repeat, ..Prober::default() }
    }

    pub fn set_repeat(&mut self, repeat: Nanos) {
        self.repeat = repeat;
    }

    /// The topology may be another: where switches are has to be proved again.
    pub fn doubt(&mut self) {
        self.proved.clear();
    }

    /// May there be another probe, and was it not looked for one lately? Then [`Prober::follow`] and [`Prober::next`].
    pub fn is_ready(&self, now: Nanos) -> bool {
        self.may_ask(now) && self.told.is_none_or(|told| now.minus(told) >= PAUSE)
    }

    fn may_ask(&self, now: Nanos) -> bool {
        self.last.is_none_or(|last| now.minus(last) >= PAUSE)
    }

    /// These are all flows there are to ask for. What was found of others is forgotten.
    pub fn follow(&mut self, now: Nanos, subjects: impl Iterator<Item = Subject>) {
        self.told = Some(now);
        let mut before = std::mem::take(&mut self.flows);
        for subject in subjects.take(MAX_FLOWS) {
            let same = |known: &Followed| {
                known.subject.connection == subject.connection && known.subject.ladder == subject.ladder
            };
            let flow = subject.flow;
            let followed = match before.remove(&flow) {
                Some(known) if same(&known) => Followed { subject, ..known },
                known => {
                    known.into_iter().for_each(|mut known| known.forget(&mut self.news));
                    Followed::new(subject, now.plus(LIVES))
                }
            };
            self.flows.insert(flow, followed);
        }
        before.into_values().for_each(|mut gone| gone.forget(&mut self.news));
    }

    /// The probe to send now, if there is one to send.
    pub fn next(&mut self, now: Nanos) -> Option<Probe> {
        self.expire(now);
        if !self.may_ask(now) {
            return None;
        }
        let (mut new, mut known) = (None, None);
        let may = |followed: &&Followed| followed.due <= now && followed.subject.sequence.is_some();
        for followed in self.flows.values().filter(may) {
            let Some(place) = followed.place(&self.proved) else { continue };
            let first = if place.known { &mut known } else { &mut new };
            if first.is_none_or(|(due, _, _)| followed.due < due) {
                *first = Some((followed.due, followed.subject.flow, place));
            }
        }
        let chosen = if self.was_new { known.or(new) } else { new.or(known) };
        let (_, flow, place) = chosen?;
        let followed = self.flows.get_mut(&flow)?;
        let (connection, sequence) = (followed.subject.connection, followed.subject.sequence?);
        // Zero is the kernel's to choose.
        self.last_id = self.last_id.wrapping_add(1).max(1);
        let probe = Probe { flow, connection, sequence, hop_limit: place.hop_limit, id: self.last_id };
        followed.due = now.plus(ANSWERS);
        followed.looks = followed.looks.wrapping_add(usize::from(place.known));
        (self.last, self.was_new) = (Some(now), !place.known);
        self.under_way.push(UnderWay { probe, rung: place.rung, since: now });
        self.counts.asked += 1;
        Some(probe)
    }

    /// A switch says that a packet's hop limit ended there.
    pub fn heard(&mut self, now: Nanos, switch: HolderId, exceeded: &segment::Exceeded) {
        let of = |UnderWay { probe, .. }: &UnderWay| {
            let sent = (probe.connection, segment::sequence(probe), probe.id);
            sent == (exceeded.connection, exceeded.sequence, exceeded.id)
        };
        let Some(at) = self.under_way.iter().position(of) else { return };
        let Some(followed) = self.flows.get_mut(&self.under_way[at].probe.flow) else { return };
        let rungs = &followed.subject.ladder.rungs;
        let Some(rung) = rungs.iter().position(|rung| rung.switches.contains(&switch)) else { return };
        let UnderWay { probe, .. } = self.under_way.swap_remove(at);
        self.counts.answered += 1;
        if distance(rungs.iter().take(rung + 1).filter(|rung| rung.answers).count()) == Some(probe.hop_limit) {
            self.proved.insert(switch);
        }
        followed.passes(rung, switch);
        followed.open = 0;
        let is_known = followed.place(&self.proved).is_some_and(|place| place.known);
        followed.due = if is_known { now.plus(self.repeat) } else { now };
        followed.tell(&mut self.news);
    }

    /// What is new since the last call.
    pub fn take_news(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.news)
    }

    /// What was asked and answered since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Gives up on what was not answered in time.
    fn expire(&mut self, now: Nanos) {
        for over in self.under_way.extract_if(.., |probe| now.minus(probe.since) >= ANSWERS) {
            self.counts.unanswered += 1;
            let Some(followed) = self.flows.get_mut(&over.probe.flow) else { continue };
            followed.due = now.plus(RETRY.times(1 << followed.open.min(DOUBLINGS)));
            followed.open = followed.open.saturating_add(1);
            let silent = followed.silent.entry(over.rung).or_default();
            *silent = silent.saturating_add(1);
            if *silent >= FORGET_AFTER && followed.passes.remove(&over.rung).is_some() {
                followed.tell(&mut self.news);
            }
        }
    }
}

impl Followed {
    fn new(subject: Subject, due: Nanos) -> Followed {
        let (silent, passes, told) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Followed { subject, due, open: 0, looks: 0, silent, passes, told }
    }

    /// Where to ask for it; `None`: there is nothing that a probe could say.
    fn place(&self, proved: &BTreeSet<HolderId>) -> Option<Place> {
        let rungs = &self.subject.ladder.rungs;
        let left: Vec<usize> = self.candidates().iter().map(BTreeSet::len).collect();
        // Where most paths part first: what is known there says most of the rest.
        let by_choice = |count: &dyn Fn(usize) -> usize| {
            let mut choices: Vec<usize> = (0..rungs.len()).filter(|at| rungs[*at].answers && count(*at) > 1).collect();
            choices.sort_by_key(|at| std::cmp::Reverse(count(*at)));
            choices
        };
        let (mut unknown, all) = (by_choice(&|at| left[at]), by_choice(&|at| rungs[at].switches.len()));
        unknown.retain(|at| self.silent.get(at).is_none_or(|silent| *silent < FORGET_AFTER));
        let (known, choices, turn) =
            if unknown.is_empty() { (true, all, self.looks) } else { (false, unknown, self.open as usize) };
        let rung = *choices.get(turn % choices.len().max(1))?;
        let answering: Vec<usize> = (0..=rung).filter(|at| rungs[*at].answers).collect();
        let is_proved = |at: &usize| rungs[*at].switches.iter().any(|switch| proved.contains(switch));
        // One farther than where all before have answered.
        let steps = (answering.iter().take_while(|at| is_proved(at)).count() + 1).min(answering.len());
        Some(Place { known, rung: *answering.get(steps.checked_sub(1)?)?, hop_limit: distance(steps)? })
    }

    /// The switches that it may pass at each rung, by those that it was seen to pass.
    fn candidates(&self) -> Vec<BTreeSet<HolderId>> {
        let Ladder { rungs, steps } = &*self.subject.ladder;
        let seen = |(at, rung): (usize, &crate::topology::path::Rung)| match self.passes.get(&at) {
            Some(switch) => BTreeSet::from([*switch]),
            None => rung.switches.iter().copied().collect(),
        };
        let mut left: Vec<BTreeSet<HolderId>> = rungs.iter().enumerate().map(seen).collect();
        for (at, links) in steps.iter().enumerate() {
            let reached: BTreeSet<HolderId> =
                links.iter().filter(|link| left[at].contains(&link.from)).map(|link| link.to).collect();
            left[at + 1].retain(|switch| reached.contains(switch));
        }
        for (at, links) in steps.iter().enumerate().rev() {
            let leads: BTreeSet<HolderId> =
                links.iter().filter(|link| left[at + 1].contains(&link.to)).map(|link| link.from).collect();
            left[at].retain(|switch| leads.contains(switch));
        }
        left
    }

    /// It was seen to pass a switch.
    fn passes(&mut self, rung: usize, switch: HolderId) {
        self.silent.remove(&rung);
        if self.passes.insert(rung, switch).is_some_and(|before| before != switch)
            || self.candidates().iter().any(BTreeSet::is_empty)
        {
            // Its path is another one: nothing that was seen before counts.
            self.passes = BTreeMap::from([(rung, switch)]);
            self.silent.clear();
        }
    }

    /// Tells by which links it goes where several lead on, as far as that is new.
    fn tell(&mut self, news: &mut Vec<Action>) {
        let mut links = BTreeMap::new();
        let left = self.candidates();
        for (at, steps) in self.subject.ladder.steps.iter().enumerate().filter(|_| !self.passes.is_empty()) {
            let (Some(from), Some(to)) = (only(&left[at]), only(&left[at + 1])) else { continue };
            let onward: Vec<_> = steps.iter().filter(|step| step.from == from).collect();
            let mut taken = onward.iter().filter(|step| step.to == to);
            // Of parallel links nobody knows which.
            if let (Some(step), None, true) = (taken.next(), taken.next(), onward.len() > 1) {
                links.insert(from, step.link);
            }
        }
        let flow = self.subject.flow;
        let over = self.told.keys().filter(|holder| !links.contains_key(holder));
        news.extend(over.map(|holder| Action::Routed { flow, holder: *holder, link: None }));
        let new = links.iter().filter(|(holder, link)| self.told.get(holder) != Some(link));
        news.extend(new.map(|(holder, link)| Action::Routed { flow, holder: *holder, link: Some(*link) }));
        self.told = links;
    }

    fn forget(&mut self, news: &mut Vec<Action>) {
        self.passes.clear();
        self.tell(news);
    }
}

fn only(switches: &BTreeSet<HolderId>) -> Option<HolderId> {
    switches.first().copied().filter(|_| switches.len() == 1)
}

/// A hop limit that ends after so many switches.
fn distance(switches: usize) -> Option<u8> {
    u8::try_from(switches).ok().filter(|distance| *distance > 0)
}

#[cfg(test)]
mod tests;
