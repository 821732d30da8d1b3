//! Kind `sends`: chunks over links in epochs, replayed with latency, transmission, switches and buffers.
//!
//! A send that begins in epoch k has arrived by the end of epoch k + w and can be sent on from epoch k + w + 1. A switch
//! has what arrived for the one epoch after. What is checked here is the schedule; the time model is [`timing`], the
//! chunks and who wants them [`demand`], what nodes hold [`stock`], room for other nodes' data [`room`], bounds [`bounds`]
//! and [`mod@gateway`].

mod bounds;
mod demand;
mod gateway;
mod room;
mod stock;
mod timing;
mod useless;

use std::collections::{BTreeMap, HashSet};

use super::Report;
use super::achieved::{Achieved, Exactness, Quantity};
use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Certificate, CertificateKind, Content, Decimal, Plan, Sends};
use demand::{Demand, Work};
use sluice_formats::quantity::Rational;
use stock::Stock;
pub use timing::Pace;
use timing::{Route, Timing};

const MAX_EPOCHS: u64 = 1 << 40;
/// Parts of a second in which schedules say when they end.
const MICROSECONDS: u64 = 1_000_000;

/// Checks the sends and when they say they end; gives the epochs.
pub fn check(plan: &Plan, fabric: &Fabric<'_>, sends: &Sends, report: &mut Report) -> Result<Achieved, Violation> {
    if !fabric.groups().is_empty() {
        let message = "limits that links share: this kind of plan knows nothing of them";
        return Err(Violation::new(Code::UnsupportedField, "/topology/inline/groups", message));
    }
    let timing = Timing::new(plan, fabric, &sends.model)?;
    let demand = Demand::new(plan, fabric, &sends.model)?;
    let replay = Replay { plan, fabric, sends, timing: &timing, demand: &demand };
    let flights = replay.flights()?;
    replay.capacity(&flights)?;
    let last = replay.run(&flights)?;
    if !fabric.ignores_buffers {
        room::check(fabric, &timing, &demand, &flights)?;
    }
    let (count, triples, finish) = (flights.len(), demand.chunks.wanted.len(), last.map_or(0, |last| last + 1));
    let chunks = demand.chunks.count();
    let met = match demand.work {
        Work::Copy => format!("all {triples} demands are met"),
        Work::Reduce => format!("all {chunks} sums are complete, with every input once,"),
        Work::ReduceThenCopy => {
            format!("all {chunks} sums are complete, with every input once, and all {triples} demands for them are met")
        }
    };
    report.proved.push(format!("{met} by {count} sends, in {finish} epochs"));
    report.proved.push("no link carries more in an epoch than it can, and nobody sends what it does not have".into());
    if !timing.divisible {
        let nodes = fabric.topology.nodes();
        // No sum is sent in vain: what is in it is nowhere else.
        let copies: Vec<&Flight> = flights.iter().filter(|flight| !flight.reduces).collect();
        let useless = useless::useless(&copies, &demand, |node| !timing.is_switch(node), |node| nodes[node].can.copy);
        if let Some(first) = useless.first() {
            let count = useless.len();
            report
                .warnings
                .push(format!("{count} of the sends bring nothing that anybody needs, first {}", at(*first, "")));
        }
    }
    finishes(plan, sends, &timing, finish, report)?;
    let value = Rational::from(finish);
    Ok(Achieved { value, quantity: Quantity::Epochs, exactness: Exactness::Exact })
}

/// The lower bound in epochs that a certificate of this kind stands for; `None` where it cannot be recomputed.
pub fn bound(plan: &Plan, fabric: &Fabric<'_>, certificate: &Certificate) -> Result<Option<Rational>, Violation> {
    let Content::Sends(sends) = &plan.body.content else { return Ok(None) };
    let timing = Timing::new(plan, fabric, &sends.model)?;
    let demand = Demand::new(plan, fabric, &sends.model)?;
    let epochs = match certificate.kind {
        CertificateKind::Gateway if demand.work == Work::ReduceThenCopy => {
            let message = "a certificate of kind `gateway` says nothing about an all-reduce";
            return Err(Violation::new(Code::BadCertificate, "/claim/certificate/kind", message));
        }
        CertificateKind::Cut => bounds::cut(fabric, &timing, &demand, &fabric.side_of_cut(plan, certificate)?)?,
        CertificateKind::Distance => bounds::distance(fabric, &timing, &demand)?,
        CertificateKind::Gateway => gateway::gateway(fabric, &timing, &demand)?,
        _ => bounds::port(fabric, &timing, &demand)?,
    };
    Ok(epochs.map(Rational::from))
}

/// When a send is under way, between which nodes, for whoever shows it.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Its place in the file.
    pub at: usize,
    /// The epoch in which it starts.
    pub epoch: u64,
    /// Epochs in which it is pushed through.
    pub busy: u64,
    /// The first epoch in which the receiver can send it on.
    pub usable: u64,
    /// Index of the node that sends.
    pub from: usize,
    /// Index of the node that receives.
    pub to: usize,
    /// Index of the link that it leaves by.
    pub link: usize,
    /// Index of the link by which it leaves the switch of a hyper-edge.
    pub out: Option<usize>,
    /// Index of the node that the chunk comes from.
    pub source: usize,
    /// The chunk's number there.
    pub number: u64,
    /// The units of the chunk that it carries; of a whole one that is 0 to 1.
    pub lo: u64,
    pub hi: u64,
    /// Is the chunk wanted where it goes?
    pub wanted: bool,
    /// Does the receiver add it to what it holds?
    pub reduces: bool,
}

/// Seconds of latency of every link, and seconds per byte.
pub fn paces(plan: &Plan, fabric: &Fabric<'_>, sends: &Sends) -> Result<Vec<Pace>, Violation> {
    let timing = Timing::new(plan, fabric, &sends.model)?;
    Ok((0..fabric.topology.links().len()).map(|link| timing.pace(link)).collect())
}

/// Looks all sends up, by epoch; whether they keep the rules is not asked.
pub fn timed(plan: &Plan, fabric: &Fabric<'_>, sends: &Sends) -> Result<Vec<Timed>, Violation> {
    let timing = Timing::new(plan, fabric, &sends.model)?;
    let demand = Demand::new(plan, fabric, &sends.model)?;
    let flights = Replay { plan, fabric, sends, timing: &timing, demand: &demand }.flights()?;
    let timed = |flight: &Flight| Timed {
        at: flight.at,
        epoch: flight.epoch,
        busy: timing.kappa(fabric, &flight.route),
        usable: flight.usable,
        from: flight.from,
        to: flight.to,
        link: match flight.route {
            Route::Link(link) | Route::Via { into: link, .. } => link,
        },
        out: match flight.route {
            Route::Link(_) => None,
            Route::Via { out, .. } => Some(out),
        },
        source: demand.chunks.source(flight.chunk).unwrap_or(flight.from),
        number: sends.sends[flight.at].entry.chunk,
        lo: flight.lo,
        hi: flight.hi,
        wanted: demand.chunks.wanted.contains(&(flight.to, flight.chunk)),
        reduces: flight.reduces,
    };
    Ok(flights.iter().map(timed).collect())
}

/// A send with everything about it looked up.
#[derive(Clone, Debug)]
struct Flight {
    /// Its place in the file.
    at: usize,
    epoch: u64,
    from: usize,
    to: usize,
    route: Route,
    /// The first epoch in which the receiver has it.
    usable: u64,
    /// Number of the chunk, as [`Demand`] counts them.
    chunk: u64,
    /// The units of it.
    lo: u64,
    hi: u64,
    /// Is it a sum, which the sender gives away?
    reduces: bool,
}

fn at(place: usize, key: &str) -> String {
    format!("/content/sends/{place}{key}")
}

struct Replay<'a> {
    plan: &'a Plan,
    fabric: &'a Fabric<'a>,
    sends: &'a Sends,
    timing: &'a Timing,
    demand: &'a Demand,
}

impl Replay<'_> {
    /// All sends, by epoch; those of switches first, since what they send may arrive at once.
    fn flights(&self) -> Result<Vec<Flight>, Violation> {
        let mut flights = Vec::with_capacity(self.sends.sends.len());
        let mut seen = HashSet::new();
        for (place, send) in self.sends.sends.iter().enumerate() {
            let entry = &*send.entry;
            let node = |node, key: &str| self.fabric.node(self.plan, node, || at(place, key));
            let (from, to) = (node(entry.from, "/from")?, node(entry.to, "/to")?);
            let via = entry.via.map(|via| node(via, "/via")).transpose()?;
            if entry.epoch > MAX_EPOCHS {
                let message = format!("an epoch beyond {MAX_EPOCHS}");
                return Err(Violation::new(Code::BadSend, at(place, "/epoch"), message));
            }
            let route = self.timing.route(self.fabric, from, to, via, place)?;
            let source = node(entry.src, "/src")?;
            let chunk = self.demand.chunks.chunk(entry.tenant.as_deref(), source, entry.chunk).ok_or_else(|| {
                let message = format!("nobody wants chunk {} of {}", entry.chunk, self.fabric.id(source));
                Violation::new(Code::BadSend, at(place, ""), message)
            })?;
            let reduces = entry.reduces();
            let odd = match self.demand.work {
                Work::Copy if reduces => Some(("/op", "a send that adds up, for a collective that adds nothing up")),
                Work::Reduce if !reduces => {
                    Some(("/op", "a send that adds nothing up, for a collective that copies nothing"))
                }
                _ if reduces && from == source => Some(("/from", "the sum of this chunk ends where it would leave")),
                _ => None,
            };
            if let Some((key, message)) = odd {
                return Err(Violation::new(Code::BadSend, at(place, key), message));
            }
            let (lo, hi) = self.part(place)?;
            if !seen.insert((chunk, route.clone(), entry.epoch, lo)) {
                let message = "the same chunk over the same link in the same epoch";
                return Err(Violation::new(Code::DuplicateSend, at(place, ""), message));
            }
            let usable = entry.epoch + self.timing.usable_after(self.fabric, &route);
            flights.push(Flight { at: place, epoch: entry.epoch, from, to, route, usable, chunk, lo, hi, reduces });
        }
        flights.sort_by_key(|flight| (flight.epoch, !self.timing.is_switch(flight.from)));
        Ok(flights)
    }

    /// Which units of its chunk a send carries.
    fn part(&self, place: usize) -> Result<(u64, u64), Violation> {
        let (entry, units) = (&*self.sends.sends[place].entry, self.timing.units);
        match (self.timing.divisible, entry.offset.zip(entry.bytes)) {
            (false, None) => Ok((0, units)),
            (true, Some((offset, bytes))) => match offset.checked_add(bytes) {
                Some(end) if end <= units && bytes > 0 => Ok((offset, end)),
                _ => {
                    let message = format!("{bytes} bytes from {offset}: a chunk has {units}");
                    Err(Violation::new(Code::BadSend, at(place, "/bytes"), message))
                }
            },
            (divisible, _) => {
                let message =
                    if divisible { "chunks can be cut: say which bytes" } else { "chunks of this model are not cut" };
                Err(Violation::new(Code::BadSend, at(place, ""), message))
            }
        }
    }

    /// What every link and port may begin to carry.
    fn capacity(&self, flights: &[Flight]) -> Result<(), Violation> {
        let mut by_link: BTreeMap<usize, Vec<&Flight>> = BTreeMap::new();
        // Ports of the switch of a hyper-edge: out of a node, into a node, and the switch itself.
        let mut by_port: BTreeMap<(usize, usize, u8), Vec<&Flight>> = BTreeMap::new();
        for flight in flights {
            match flight.route {
                Route::Link(link) => by_link.entry(link).or_default().push(flight),
                Route::Via { switch, .. } => {
                    by_port.entry((switch, flight.from, 0)).or_default().push(flight);
                    by_port.entry((switch, flight.to, 1)).or_default().push(flight);
                    by_port.entry((switch, switch, 2)).or_default().push(flight);
                }
            }
        }
        for (link, on) in by_link {
            self.timing.fits(link, &on).map_err(|flight| {
                let of = &self.fabric.topology.links()[link];
                let (from, to) = (self.fabric.id(of.from), self.fabric.id(of.to));
                let message = format!("{from} → {to} cannot begin one more in epoch {}", flight.epoch);
                Violation::new(Code::Overload, at(flight.at, ""), message)
            })?;
        }
        for ((switch, _, side), on) in by_port {
            let most = if side == 2 { self.timing.lanes(self.fabric, switch) } else { 1 };
            // Epochs in which those that began are through again.
            let mut busy: BTreeMap<u64, u64> = BTreeMap::new();
            let mut active = 0;
            for flight in on {
                let done: Vec<u64> = busy.range(..=flight.epoch).map(|(end, _)| *end).collect();
                active -= done.iter().filter_map(|end| busy.remove(end)).sum::<u64>();
                active += 1;
                *busy.entry(flight.epoch + self.timing.kappa(self.fabric, &flight.route)).or_default() += 1;
                if active > most {
                    let switch = self.fabric.id(switch);
                    let message = format!("{switch} cannot carry one more at this port in epoch {}", flight.epoch);
                    return Err(Violation::new(Code::Overload, at(flight.at, ""), message));
                }
            }
        }
        Ok(())
    }

    /// Follows every chunk; gives the epoch by whose end the last demand is met.
    fn run(&self, flights: &[Flight]) -> Result<Option<u64>, Violation> {
        let mut stock = Stock::new(self.fabric, self.timing, self.demand);
        let mut due: BTreeMap<u64, Vec<&Flight>> = BTreeMap::new();
        let mut now = 0;
        for flight in flights {
            while let Some(first) = due.first_entry().filter(|first| *first.key() <= flight.epoch) {
                let (epoch, arrivals) = first.remove_entry();
                stock.pass()?;
                arrivals.into_iter().for_each(|arrival| stock.arrive(arrival));
                now = epoch;
            }
            if now < flight.epoch {
                stock.pass()?;
                now = flight.epoch;
            }
            stock.leave(flight)?;
            if flight.usable == flight.epoch {
                stock.arrive(flight);
            } else {
                due.entry(flight.usable).or_default().push(flight);
            }
            if stock.is_tired() {
                let message = "pieces so small that following them all would take too long";
                return Err(Violation::new(Code::TooFine, at(flight.at, ""), message));
            }
        }
        while let Some((_, arrivals)) = due.pop_first() {
            stock.pass()?;
            arrivals.into_iter().for_each(|arrival| stock.arrive(arrival));
        }
        stock.pass()?;
        stock.complete()?;
        Ok(stock.last())
    }
}

/// The claimed and the stated ends.
fn finishes(plan: &Plan, sends: &Sends, timing: &Timing, finish: u64, report: &mut Report) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let wrong = |at: &str, message: String| Err(Violation::new(Code::WrongFinish, at, message));
    let epochs = [("/claim/finish_epochs", claim.finish_epochs), ("/content/finish_epochs", sends.finish_epochs)];
    for (at, claimed) in epochs {
        if claimed.is_some_and(|claimed| claimed != finish) {
            return wrong(at, format!("the last demand is met in {finish} epochs"));
        }
    }
    let epoch_us = &timing.tau * &Rational::from(MICROSECONDS);
    let finish_us = &epoch_us * &Rational::from(finish);
    for (at, claimed, value) in [
        ("/claim/finish_us", &claim.finish_us, &finish_us),
        ("/content/finish_us", &sends.finish_us, &finish_us),
        ("/content/epoch_us", &sends.epoch_us, &epoch_us),
    ] {
        if claimed.as_ref().is_some_and(|claimed| !same(claimed, value)) {
            return wrong(at, format!("{value} µs"));
        }
    }
    if claim.finish_epochs.is_some() || claim.finish_us.is_some() {
        report.proved.push(format!("finish_epochs {finish}, finish_us {finish_us}"));
    }
    Ok(())
}

/// Is a number in a file this one? Exactly, unless no decimal is.
fn same(claimed: &Decimal, value: &Rational) -> bool {
    let mut rest = value.denominator();
    for prime in [2_u32, 5] {
        while (&rest % prime).bits() == 0 {
            rest /= prime;
        }
    }
    let exactness = if rest.bits() == 1 { Exactness::Exact } else { Exactness::Lp };
    exactness.same(&claimed.value(), value)
}
