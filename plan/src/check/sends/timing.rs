//! The time model of epochs: how long a chunk takes over a link, and how many may begin.
//!
//! Ratios are rounded with a tolerance of 10⁻⁹, because epoch lengths are often themselves rounded.

use std::collections::HashMap;

use num_integer::Integer as _;
use num_traits::ToPrimitive as _;

use super::Flight;
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use crate::plan::{Decimal, Model, Plan};
use sluice_formats::quantity::{Capacity, Rational, Unit};
use sluice_formats::topology::Kind;

/// Epochs that a transfer may take at most.
const MAX_EPOCHS: u64 = 1 << 32;

/// What a send goes over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// A link, by its index.
    Link(usize),
    /// Two links, by their indices, with a switch between that is not a node of its own here.
    Via {
        switch: usize,
        /// The link into it.
        into: usize,
        /// The link out of it.
        out: usize,
    },
}

/// What every link does with a chunk.
#[derive(Debug)]
struct Lane {
    /// Additional epochs for latency.
    delta: u64,
    /// Epochs to push a chunk through.
    kappa: u64,
    /// Chunks per epoch, from epoch to epoch; the last repeats.
    rates: Vec<Rational>,
    /// Seconds of latency.
    alpha: Rational,
}

/// How fast a link is, stragglers counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Seconds.
    pub latency: Rational,
    /// Seconds per byte; where capacities vary, in the first epoch.
    pub per_byte: Rational,
}

/// The model of a plan on its topology.
#[derive(Debug)]
pub struct Timing {
    /// Seconds of an epoch.
    pub tau: Rational,
    /// Units of a chunk: its bytes where it may be cut, else one.
    pub units: u64,
    /// May chunks be cut?
    pub divisible: bool,
    chunk: Rational,
    free_second_hop: bool,
    hyper_edges: bool,
    theta: Rational,
    lanes: Vec<Lane>,
    switches: Vec<bool>,
    links: HashMap<(usize, usize), usize>,
}

impl Timing {
    /// Reads the model, and what it makes of every link.
    pub fn new(plan: &Plan, fabric: &Fabric<'_>, model: &Model) -> Result<Timing, Violation> {
        let bad = |key: &str, message: &str| Violation::new(Code::BadModel, format!("/content/model/{key}"), message);
        let topology = fabric.topology;
        if topology.unit() == Unit::Abstract {
            let message = "chunks have bytes and epochs seconds: the capacities need units";
            return Err(Violation::new(Code::UnsupportedField, "/topology/inline/links", message));
        }
        let (tau, chunk) = (model.tau.value().clone(), model.chunk.value().clone());
        if !tau.is_positive() {
            return Err(bad("tau", "an epoch takes time"));
        }
        if !chunk.is_positive() {
            return Err(bad("chunk", "a chunk has bytes"));
        }
        let theta = model.theta.clone().unwrap_or(Rational::ZERO);
        if theta.is_negative() {
            return Err(bad("theta", "below zero"));
        }
        let divisible = model.divisible == Some(true);
        let units = match chunk.to_u64() {
            _ if !divisible => 1,
            Some(units) => units,
            None => return Err(bad("chunk", "a chunk that is cut into bytes has a whole number of them")),
        };
        let mut timing = Timing {
            tau,
            units,
            divisible,
            chunk: chunk.clone(),
            free_second_hop: model.free_second_hop == Some(true),
            hyper_edges: model.hyper_edges == Some(true),
            theta,
            lanes: Vec::with_capacity(topology.links().len()),
            switches: topology.nodes().iter().map(|node| matches!(node.kind, Kind::Switch | Kind::Nic)).collect(),
            links: HashMap::new(),
        };
        let slow = Slow::new(plan, fabric, model)?;
        for (i, link) in topology.links().iter().enumerate() {
            let refuse = |message: &str| {
                let (from, to) = (fabric.id(link.from), fabric.id(link.to));
                let message = format!("{from} → {to}: {message}");
                Violation::new(Code::UnsupportedField, "/topology/inline/links", message)
            };
            if link.from == link.to || timing.links.insert((link.from, link.to), i).is_some() {
                return Err(refuse("a link from a node to itself, or two between the same nodes"));
            }
            let (add, times) = slow.of(i, link.from, link.to);
            let chunks = |capacity: &Capacity| -> Option<Rational> {
                let rate = &(capacity.finite()? * &timing.tau);
                (rate.checked_div(&chunk)?).checked_div(&times)
            };
            let nominal = chunks(&link.capacity).filter(Rational::is_positive);
            let nominal = nominal.ok_or_else(|| refuse("a capacity that is not finite and above zero"))?;
            let alpha = &link.latency + &add;
            let delta = timing.delta(&alpha).ok_or_else(|| refuse("a latency of too many epochs"))?;
            let kappa = nominal.recip().and_then(|epochs| ceiling(&epochs)).map(|epochs| epochs.max(1));
            let kappa = kappa.ok_or_else(|| refuse("a chunk takes too many epochs"))?;
            let varying = link.per_epoch.as_ref().filter(|_| !fabric.ignores_epochs);
            let rates = match varying {
                None => vec![nominal],
                Some(_) if kappa > 1 && !divisible => {
                    return Err(refuse("a capacity that varies needs chunks that fit into one epoch"));
                }
                Some(list) => list.iter().map(chunks).collect::<Option<Vec<_>>>().unwrap_or_default(),
            };
            if rates.is_empty() {
                return Err(refuse("a capacity without limit in some epoch"));
            }
            timing.lanes.push(Lane { delta, kappa: if divisible { 1 } else { kappa }, rates, alpha });
        }
        if timing.hyper_edges {
            let chain = topology.links().iter().find(|link| timing.switches[link.from] && timing.switches[link.to]);
            if let Some(link) = chain {
                let message = format!("switches in a row, {} and {}", fabric.id(link.from), fabric.id(link.to));
                return Err(bad("hyper_edges", &message));
            }
        }
        Ok(timing)
    }

    fn delta(&self, alpha: &Rational) -> Option<u64> {
        let epochs = alpha.checked_div(&self.tau)?;
        if epochs <= self.theta { Some(0) } else { ceiling(&epochs) }
    }

    /// How fast a link is.
    pub fn pace(&self, link: usize) -> Pace {
        let lane = &self.lanes[link];
        let chunk = lane.rates.first().and_then(|rate| self.tau.checked_div(rate));
        let per_byte = chunk.and_then(|chunk| chunk.checked_div(&self.chunk)).unwrap_or(Rational::ZERO);
        Pace { latency: lane.alpha.clone(), per_byte }
    }
    /// Is it a switch, which stores nothing?
    pub fn is_switch(&self, node: usize) -> bool {
        self.switches[node]
    }
    /// Bytes of a unit.
    pub fn bytes_of_unit(&self) -> Rational {
        if self.divisible { Rational::ONE } else { self.chunk.clone() }
    }
    /// Do chunks cross switches in one go?
    pub fn hyper_edges(&self) -> bool {
        self.hyper_edges
    }

    /// The link, or the two of a hyper-edge, that a send goes over.
    pub fn route(
        &self,
        fabric: &Fabric<'_>,
        from: usize,
        to: usize,
        via: Option<usize>,
        place: usize,
    ) -> Result<Route, Violation> {
        let no_link = |from, to| {
            let message = format!("no link leads from {} to {}", fabric.id(from), fabric.id(to));
            Violation::new(Code::NoLink, super::at(place, "/to"), message)
        };
        let link = |from, to| self.links.get(&(from, to)).copied().ok_or_else(|| no_link(from, to));
        match via {
            None => {
                let link = link(from, to)?;
                if self.hyper_edges && (self.switches[from] || self.switches[to]) {
                    let message = "in this model a send goes through a switch, which `via` names";
                    return Err(Violation::new(Code::BadSend, super::at(place, ""), message));
                }
                Ok(Route::Link(link))
            }
            Some(switch) => {
                let direct = self.links.contains_key(&(from, to));
                if !self.hyper_edges || !self.switches[switch] || direct || from == to {
                    let message = "`via` names a switch between nodes without a link, in a model of hyper-edges";
                    return Err(Violation::new(Code::BadSend, super::at(place, "/via"), message));
                }
                Ok(Route::Via { switch, into: link(from, switch)?, out: link(switch, to)? })
            }
        }
    }

    /// Epochs after its beginning in which the receiver can send it on.
    pub fn usable_after(&self, fabric: &Fabric<'_>, route: &Route) -> u64 {
        match route {
            Route::Link(link) => {
                let (of, lane) = (&fabric.topology.links()[*link], &self.lanes[*link]);
                let free = self.free_second_hop && self.switches[of.from] && !self.switches[of.to];
                if free { lane.delta } else { lane.delta + lane.kappa }
            }
            Route::Via { into, out, .. } => {
                // Latencies add up; only a latency that was accepted for each link may be too long for both.
                let alpha = &self.lanes[*into].alpha + &self.lanes[*out].alpha;
                self.delta(&alpha).unwrap_or(MAX_EPOCHS) + self.kappa(fabric, route)
            }
        }
    }
    /// Epochs to push a chunk through.
    pub fn kappa(&self, _: &Fabric<'_>, route: &Route) -> u64 {
        match route {
            Route::Link(link) => self.lanes[*link].kappa,
            Route::Via { into, out, .. } => self.lanes[*into].kappa.max(self.lanes[*out].kappa),
        }
    }
    /// Chunks that a switch of hyper-edges carries at a time.
    pub fn lanes(&self, fabric: &Fabric<'_>, switch: usize) -> u64 {
        let links = fabric.topology.links();
        let into = links.iter().filter(|link| link.to == switch).count();
        let out = links.iter().filter(|link| link.from == switch).count();
        into.min(out) as u64
    }
    /// Chunks that may begin on a link in a row of `kappa` epochs from this one, or parts of a chunk where chunks are
    /// cut.
    fn most(&self, link: usize, epoch: u64) -> Rational {
        let lane = &self.lanes[link];
        let place = usize::try_from(epoch).unwrap_or(usize::MAX).min(lane.rates.len() - 1);
        let rate = &lane.rates[place];
        if self.divisible { rate.clone() } else { floor(&(rate * &Rational::from(lane.kappa))) }
    }
    /// Does what a link carries change from epoch to epoch?
    pub fn varies(&self, link: usize) -> bool {
        self.lanes[link].rates.len() > 1
    }
    /// How much can begin on a link in its epochs 0 to `epochs` − 1, in chunks.
    pub fn most_until(&self, link: usize, epochs: u64) -> Rational {
        let lane = &self.lanes[link];
        let known = (lane.rates.len() as u64 - 1).min(epochs);
        let mut most = &self.most(link, known) * &Rational::from((epochs - known).div_ceil(lane.kappa));
        for epoch in 0..known {
            most += &self.most(link, epoch);
        }
        most
    }

    /// The epoch in which the last of these chunks begins on a link at the earliest, if each waits from its epoch on and
    /// they come in order; `None` if some never can. What may be cut begins in parts.
    pub fn last_start(&self, link: usize, releases: &[u64]) -> Option<u64> {
        let lane = &self.lanes[link];
        let settled = lane.rates.len() as u64 - 1;
        if self.divisible {
            // In the epoch `now` there is room for `room` more.
            let (mut now, mut room) = (0, self.most(link, 0));
            for release in releases {
                if *release > now {
                    (now, room) = (*release, self.most(link, *release));
                }
                let mut left = Rational::ONE;
                while left > room {
                    left = &left - &room;
                    let rate = self.most(link, now + 1);
                    // From there on all epochs are alike, and as many as there must be are skipped.
                    let skipped = match left.checked_div(&rate).filter(|_| now + 1 >= settled) {
                        None if now + 1 >= settled => return None,
                        None => 0,
                        Some(epochs) => exact_ceiling(&epochs)?.saturating_sub(1),
                    };
                    left = &left - &(&rate * &Rational::from(skipped));
                    (now, room) = (now + 1 + skipped, rate);
                }
                room = &room - &left;
            }
            return Some(now);
        }
        let mut starts: Vec<u64> = Vec::with_capacity(releases.len());
        for (i, release) in releases.iter().enumerate() {
            let mut at = (*release).max(starts.last().copied().unwrap_or(0));
            loop {
                let most = self.most(link, at).to_u64().unwrap_or(u64::MAX);
                let first = match most {
                    0 if at >= settled => return None,
                    0 => at + 1,
                    // The one so many places before must be out of the window.
                    most => i
                        .checked_sub(usize::try_from(most).unwrap_or(usize::MAX))
                        .map_or(0, |old| starts[old] + lane.kappa),
                };
                if first <= at {
                    break;
                }
                at = first;
            }
            starts.push(at);
        }
        starts.last().copied()
    }

    /// Does a link have room for these, which come by epoch? Else the first that is one too many.
    pub fn fits<'f>(&self, link: usize, flights: &[&'f Flight]) -> Result<(), &'f Flight> {
        if self.divisible {
            // Bytes, with a millionth of a chunk or one byte of rounding.
            let units = Rational::from(self.units);
            let slack = Rational::new(1, 1_000_000).map_or(Rational::ONE, |part| (&part * &units).max(Rational::ONE));
            let mut now = (u64::MAX, 0_u128);
            for flight in flights {
                if flight.epoch != now.0 {
                    now = (flight.epoch, 0);
                }
                now.1 += u128::from(flight.hi - flight.lo);
                let sum = Rational::from_big(now.1.into(), 1.into()).unwrap_or(Rational::ZERO);
                if sum > &(&self.most(link, flight.epoch) * &units) + &slack {
                    return Err(flight);
                }
            }
            return Ok(());
        }
        let kappa = self.lanes[link].kappa;
        let mut first = 0;
        for (i, flight) in flights.iter().enumerate() {
            while flights.get(first).is_some_and(|old| old.epoch + kappa <= flight.epoch) {
                first += 1;
            }
            if Rational::from((i - first + 1) as u64) > self.most(link, flight.epoch) {
                return Err(flight);
            }
        }
        Ok(())
    }
}

/// Links and nodes that are slower than the topology says.
struct Slow {
    links: HashMap<usize, (Rational, Rational)>,
    nodes: HashMap<usize, (Rational, Rational)>,
}

impl Slow {
    fn new(plan: &Plan, fabric: &Fabric<'_>, model: &Model) -> Result<Slow, Violation> {
        let mut slow = Slow { links: HashMap::new(), nodes: HashMap::new() };
        for (i, straggler) in model.stragglers.iter().flatten().enumerate() {
            let at = |key: &str| format!("/content/model/stragglers/{i}{key}");
            let bad = |key: &str, message: &str| Violation::new(Code::BadModel, at(key), message);
            let add = straggler.alpha_add.as_ref().map_or(Rational::ZERO, Decimal::value);
            let times = straggler.beta_mul.as_ref().map_or(Rational::ONE, Decimal::value);
            if add.is_negative() || !times.is_positive() {
                return Err(bad("", "a latency below zero, or a factor that is not above it"));
            }
            let known = match (straggler.link, straggler.node) {
                (Some(link), None) if (link as usize) < fabric.topology.links().len() => {
                    slow.links.insert(link as usize, (add, times))
                }
                (None, Some(node)) => slow.nodes.insert(fabric.node(plan, node, || at("/node"))?, (add, times)),
                _ => return Err(bad("", "names one link that is there, or one node")),
            };
            if known.is_some() {
                return Err(bad("", "the same link or node twice"));
            }
        }
        Ok(slow)
    }

    /// Seconds more of latency, and the factor of the time per byte; a slow node slows all its links.
    fn of(&self, link: usize, from: usize, to: usize) -> (Rational, Rational) {
        let all = [self.links.get(&link), self.nodes.get(&from), self.nodes.get(&to)];
        let nothing = (Rational::ZERO, Rational::ONE);
        all.into_iter().flatten().fold(nothing, |(add, times), more| (&add + &more.0, &times * &more.1))
    }
}

fn billionth() -> Rational {
    Rational::new(1, 1_000_000_000).unwrap_or(Rational::ZERO)
}

/// The next whole number, if it is not absurd.
fn exact_ceiling(value: &Rational) -> Option<u64> {
    let whole = value.numerator().div_ceil(&value.denominator()).to_i128()?.max(0);
    u64::try_from(whole).ok().filter(|whole| *whole <= MAX_EPOCHS)
}

/// The same with the tolerance.
fn ceiling(value: &Rational) -> Option<u64> {
    let below = value - &billionth();
    exact_ceiling(&below)
}

/// The whole number below.
fn floor(value: &Rational) -> Rational {
    let above = value + &billionth();
    Rational::from_big(above.numerator().div_floor(&above.denominator()), 1.into()).unwrap_or(Rational::ZERO)
}
