//! The records of several hosts of a job. What one host waits for another one did: its record says why, and so on to the end
//! of the chain. Of hosts without a record only that they were waited for is known.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use sluice_schedule::{JobId, Nanos};

use crate::blame::{Part, Round, blame};
use crate::record::Record;
use crate::rounds::{Iteration, between, iterations};
use crate::seen::Seen;
use crate::share::{Cause, Report, Shares};

/// Chains of hosts that wait for each other are followed so far ...
const MAX_CHAIN: usize = 64;
/// ... and as long as they hold back at least this part of the time that is looked at: each host may wait for several.
const LEAST_PART: f64 = 0.001;

/// What each of some hosts saw.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    all: BTreeMap<String, Vec<Seen>>,
}

/// A job's iterations on one host, and what holds over each.
struct Rounds {
    all: Vec<Iteration>,
    facts: RefCell<HashMap<usize, Rc<Round>>>,
}

/// The hosts of which each waits for the next, and the part of the first one's time that hangs on it.
struct Chain<'a> {
    hosts: BTreeSet<&'a str>,
    weight: f64,
}

/// What is found out of one job while its time is taken apart.
struct Search<'a> {
    hosts: &'a Hosts,
    job: JobId,
    rounds: RefCell<BTreeMap<&'a str, Rc<Rounds>>>,
}

impl Hosts {
    /// Takes a host's slots in, which are in the order of time.
    pub fn add(&mut self, host: &str, slots: Vec<Seen>) {
        self.all.insert(host.to_owned(), slots);
    }

    /// Takes a record in.
    pub fn take(&mut self, record: Record) {
        self.add(&record.host, record.slots);
    }

    /// One of them alone.
    #[must_use]
    pub fn only(&self, host: &str) -> Hosts {
        Hosts { all: self.all.iter().filter(|(name, _)| *name == host).map(|(n, s)| (n.clone(), s.clone())).collect() }
    }

    /// The hosts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// The jobs that a host saw, by their ids, with their names.
    pub fn jobs(&self, host: &str) -> BTreeMap<JobId, &str> {
        let slots = self.all.get(host).into_iter().flatten();
        slots.flat_map(|slot| &slot.jobs).map(|job| (job.id, job.name.as_str())).collect()
    }

    /// A job's whole iterations on a host.
    pub fn iterations(&self, host: &str, job: JobId) -> Vec<Iteration> {
        self.all.get(host).map_or_else(Vec::new, |slots| iterations(slots, job))
    }

    /// Where the time of these iterations of a job on a host went, on average.
    pub fn report(&self, host: &str, job: JobId, these: &[Iteration]) -> Report {
        let search = Search { hosts: self, job, rounds: RefCell::default() };
        let Some((host, _)) = self.all.get_key_value(host) else { return Report::default() };
        let (mut shares, mut known, mut sending) = (Shares::default(), 0.0, 0.0);
        for iteration in these {
            let round = Round::of(host, search.slots(host), job, iteration, &|name| search.slots(name));
            known += search.whole(host, iteration, &round, &mut shares);
            let slots = between(search.slots(host), iteration.began, iteration.to);
            sending += slots.iter().map(|slot| round.sending(slot, job)).sum::<f64>();
        }
        // What others waited for while they held this host up is its own.
        let own = Cause::Peer { host: host.clone() };
        let shares = shares.renamed(&own, Cause::OwnSender);
        let total = shares.total();
        let count = these.len().max(1) as f64;
        Report {
            rounds: these.len(),
            shares: shares.times(1.0 / count),
            sending: sending / count,
            confidence: if total > 0.0 { (known / total).min(1.0) } else { 0.0 },
        }
    }
}

impl<'a> Search<'a> {
    fn rounds(&self, host: &'a str) -> Rc<Rounds> {
        let mut rounds = self.rounds.borrow_mut();
        let new = || Rc::new(Rounds { all: self.hosts.iterations(host, self.job), facts: RefCell::default() });
        rounds.entry(host).or_insert_with(new).clone()
    }

    fn slots(&self, host: &str) -> &'a [Seen] {
        self.hosts.all.get(host).map_or(&[], Vec::as_slice)
    }

    /// One iteration on one host; returns the time of which the kernel's counts are known, ns.
    fn whole(&self, host: &'a str, iteration: &Iteration, round: &Round, shares: &mut Shares) -> f64 {
        let slots = self.slots(host);
        let (mut known, mut covered) = (0.0, 0.0);
        for (begins, ends) in iteration.halves() {
            for slot in between(slots, begins, ends) {
                let (from, to) = (slot.from.max(begins), slot.to.min(ends));
                covered += to.minus(from).0 as f64;
                let mut chain = Chain { hosts: BTreeSet::new(), weight: 1.0 };
                known += self.part(host, slot, iteration, round, (from, to), &mut chain, shares);
            }
        }
        shares.add(Cause::Unknown, iteration.took().0 as f64 - covered);
        known
    }

    /// A part of a slot of an iteration.
    #[allow(clippy::too_many_arguments, reason = "one step of a recursion")]
    fn part(
        &self,
        host: &'a str,
        slot: &'a Seen,
        iteration: &Iteration,
        round: &Round,
        (from, to): (Nanos, Nanos),
        chain: &mut Chain<'a>,
        shares: &mut Shares,
    ) -> f64 {
        let there = |name: &str| {
            let all = between(self.slots(name), from, to);
            all.iter().max_by_key(|seen| seen.to.min(to).minus(seen.from.max(from)))
        };
        let blame = blame(slot, self.job, iteration, (from, to), round, &there);
        // Whoever waits for this host does not wait for what it sends as fast as its link lets it, unless that is full.
        let waited_for = !chain.hosts.is_empty();
        chain.hosts.insert(host);
        let (weight, whole) = (chain.weight, (to.minus(from).0 as f64).max(1.0));
        for (part, time) in blame.parts {
            match part {
                Part::Done(cause) => shares.add(cause, time),
                Part::Sends(link, full) => {
                    shares.add(Cause::Link { link }, if waited_for { time * full } else { time })
                }
                Part::Waits { peer, shut } => {
                    chain.weight = weight * time / whole;
                    // Two that wait for each other: who keeps its window shut has the bytes that it waits for.
                    let circle = if shut { peer.as_str() } else { host };
                    self.waited((peer.as_str(), circle), (from, to), time, chain, shares);
                }
            }
        }
        chain.weight = weight;
        chain.hosts.remove(host);
        blame.known
    }

    /// So long was waited for a host between these times: for what it did then. `circle`: whose that is if the host is one of
    /// those that wait for this one.
    fn waited(
        &self,
        (peer, circle): (&str, &str),
        (from, to): (Nanos, Nanos),
        time: f64,
        chain: &mut Chain<'a>,
        shares: &mut Shares,
    ) {
        let peers = || Cause::Peer { host: peer.to_owned() };
        let Some((host, slots)) = self.hosts.all.get_key_value(peer) else { return shares.add(peers(), time) };
        if chain.hosts.contains(host.as_str()) {
            return shares.add(Cause::Peer { host: circle.to_owned() }, time);
        }
        if chain.hosts.len() >= MAX_CHAIN || chain.weight < LEAST_PART {
            return shares.add(peers(), time);
        }
        let whole = (to.minus(from).0 as f64).max(1.0);
        let rounds = self.rounds(host);
        let first = rounds.all.partition_point(|iteration| iteration.to <= from);
        let mut left = time;
        for (index, iteration) in rounds.all.iter().enumerate().skip(first).take_while(|(_, i)| i.from < to) {
            let fresh = || Rc::new(Round::of(host, slots, self.job, iteration, &|name| self.slots(name)));
            let round = rounds.facts.borrow_mut().entry(index).or_insert_with(fresh).clone();
            for (begins, ends) in iteration.halves() {
                let (from, to) = (from.max(begins), to.min(ends));
                for slot in between(slots, from, to).iter().filter(|_| from < to) {
                    let part = (slot.from.max(from), slot.to.min(to));
                    let mut theirs = Shares::default();
                    self.part(host, slot, iteration, &round, part, chain, &mut theirs);
                    let total = theirs.total();
                    let time = time * part.1.minus(part.0).0 as f64 / whole;
                    for (cause, of) in theirs.iter() {
                        // What it did by itself is the peer's, whatever it was; what held it back holds us back too.
                        let its = matches!(cause, Cause::Compute | Cause::OwnSender | Cause::Unknown);
                        shares.add(if its { peers() } else { cause.clone() }, time * of / total);
                    }
                    left -= if total > 0.0 { time } else { 0.0 };
                }
            }
        }
        shares.add(peers(), left);
    }
}

#[cfg(test)]
mod tests;
