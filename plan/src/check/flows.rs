//! Kinds `rates`, `weights` and `order`: flows on fixed routes, in chains that wait for each other.
//!
//! What all three share: routes that lead from source to destination, chains without gaps, waiting that comes to an end. A group's
//! flows run one after the other, so they share what the largest of them needs.
//!
//! | module | is |
//! | --- | --- |
//! | `ring` | which collectives are a ring all-reduce |
//! | `waits` | who waits for whom, and when each ends that begins as soon as it may |
//! | `fixed`, `instance` | the numbers that replays count in, and the flows in them |
//! | `replay`, `fill`, `priority` | a replay from event to event, and the rules by which flows share links in it |
//! | `times` | the claimed times against these |
//! | `completion` | what rows of links and collectives prove of the mean time |

mod completion;
mod fill;
mod fixed;
mod instance;
mod priority;
mod replay;
mod ring;
mod times;
mod waits;

pub use completion::bound;
pub use fill::Fill;
pub use fixed::{Fixed, OutOfRange};
pub use instance::Instance;
pub use priority::Priority;
pub use times::{Times, check_times};
pub use waits::Waits;

use std::collections::{BTreeMap, HashMap};

use super::Report;
use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Execution, Flow, Plan};
use replay::Rule;
use sluice_formats::quantity::{Capacity, Rational, Unit};

/// A group of a collective: its flows run one after the other.
pub type Group = (u64, u64);

/// The flows of a plan, looked up.
pub struct Chains<'a> {
    /// All of them, as in the file.
    pub flows: &'a [Flow],
    /// By collective and group, the places of the flows in their order.
    pub groups: BTreeMap<Group, Vec<usize>>,
    /// Per flow the rate it has alone on its route; `None`: no link limits it.
    pub alone: Vec<Option<Rational>>,
    /// Each waits for the one before it in its chain, and for those it names.
    pub waits: Waits,
    /// The flows, none before one that it waits for.
    pub order: Vec<usize>,
}

/// Where a flow stands in the file.
pub fn at(place: usize, key: &str) -> String {
    format!("/content/flows/{place}{key}")
}

impl From<OutOfRange> for Violation {
    fn from(_: OutOfRange) -> Violation {
        let message = "sizes, rates, weights or times lie too far apart to be counted together: one of them is less than \
                       2⁻³² of the largest of its kind, or times are beyond 2⁵¹ of the shortest";
        Violation::new(Code::TooFine, "/content/flows", message)
    }
}

impl<'a> Chains<'a> {
    /// Checks routes, chains and who waits for whom.
    pub fn new(plan: &Plan, fabric: &Fabric<'_>, flows: &'a [Flow], report: &mut Report) -> Result<Self, Violation> {
        if fabric.topology.unit() == Unit::Abstract {
            let message = "flows have bytes and take seconds: the capacities need units";
            return Err(Violation::new(Code::UnsupportedField, "/topology/inline/links", message));
        }
        if !fabric.groups().is_empty() {
            let message = "limits that links share: this kind of plan knows nothing of them";
            return Err(Violation::new(Code::UnsupportedField, "/topology/inline/groups", message));
        }
        if flows.is_empty() {
            return Err(Violation::new(Code::MissingData, "/content/flows", "no flow at all"));
        }
        let (mut groups, mut alone) = (BTreeMap::<Group, Vec<usize>>::new(), Vec::with_capacity(flows.len()));
        let mut ids = HashMap::new();
        let mut visited: HashMap<usize, usize> = HashMap::new();
        for (place, flow) in flows.iter().enumerate() {
            let bad = |key: &str, message: &str| Err(Violation::new(Code::BadFlow, at(place, key), message));
            if ids.insert(flow.id, place).is_some() {
                return bad("/id", "two flows with one id");
            }
            if !flow.size.value().is_positive() {
                return bad("/size", "a flow of no bytes");
            }
            if flow.release_s.as_ref().is_some_and(|release| release.value().is_negative()) {
                return bad("/release_s", "a release before the beginning");
            }
            alone.push(route(plan, fabric, place, flow, &mut visited)?);
            groups.entry((flow.collective, flow.group)).or_default().push(place);
        }
        for places in groups.values_mut() {
            places.sort_by_key(|place| flows[*place].order);
            let gap = (0_u64..).zip(places.iter()).find(|(order, place)| flows[**place].order != *order);
            if let Some((order, place)) = gap {
                let message = format!("the orders of a group are 0, 1, 2 and so on, and {order} comes next");
                return Err(Violation::new(Code::NotAChain, at(*place, "/order"), message));
            }
        }
        let waits = waits(flows, &groups, &ids)?;
        let Some(order) = waits.order() else {
            return Err(Violation::new(Code::BadOrder, "/content/flows", "flows wait for each other in a circle"));
        };
        let (n, count) = (flows.len(), groups.len());
        report.proved.push(format!("{n} flows in {count} chains, each on a route from its source to its destination"));
        let chains = Chains { flows, groups, alone, waits, order };
        ring::check(plan, &chains, report)?;
        Ok(chains)
    }

    /// Refuses a place in an order that nobody would heed: a rank unless there are `ranks`, a start unless there are `starts`.
    pub fn heed(&self, ranks: bool, starts: bool) -> Result<(), Violation> {
        for (place, flow) in self.flows.iter().enumerate() {
            let keys = [("/rank", flow.rank.is_some() && !ranks), ("/start_s", flow.start_s.is_some() && !starts)];
            if let Some((key, _)) = keys.into_iter().find(|(_, unheeded)| *unheeded) {
                let message = "the way this plan is carried out takes no notice of it";
                return Err(Violation::new(Code::BadOrder, at(place, key), message));
            }
        }
        Ok(())
    }

    /// When each flow ends at its rate, if it begins as soon as it may; a flow without rate takes no time.
    pub fn ends(&self, instance: &Instance, rate: impl Fn(usize) -> Option<Fixed>) -> Result<Vec<Fixed>, OutOfRange> {
        self.waits.ends(&self.order, |flow| instance.release(flow), |flow| instance.takes(flow, rate(flow)))
    }

    /// The times of a replay by this rule. Where that takes too long: not shorter than every flow alone on its route, and not
    /// longer than `most`, if anything is known of that.
    pub fn replay(
        &self,
        instance: &Instance,
        rule: &mut dyn Rule,
        most: Option<&[Fixed]>,
    ) -> Result<Times, OutOfRange> {
        Ok(match replay::replay(instance, &self.waits, rule, replay::MOST_VISITS)? {
            Some(ends) => Times::exactly(instance.completion(&ends)),
            None => {
                let least = self.ends(instance, |flow| instance.transfers[flow].alone)?;
                Times { least: instance.completion(&least), most: most.map(|most| instance.completion(most)) }
            }
        })
    }
}

/// Each flow waits for the one before it in its group, and for those it names.
fn waits(flows: &[Flow], groups: &BTreeMap<Group, Vec<usize>>, ids: &HashMap<u64, usize>) -> Result<Waits, Violation> {
    let mut waits = Waits::new(flows.len());
    for places in groups.values() {
        places.windows(2).for_each(|pair| waits.add(pair[0], pair[1]));
    }
    for (place, flow) in flows.iter().enumerate() {
        for (i, id) in flow.pred.iter().flatten().enumerate() {
            match ids.get(id).filter(|other| **other != place) {
                Some(other) => waits.add(*other, place),
                None => {
                    let message = format!("there is no other flow {id}");
                    return Err(Violation::new(Code::BadOrder, at(place, &format!("/pred/{i}")), message));
                }
            }
        }
    }
    Ok(waits)
}

/// Checks a route; gives the least capacity on it.
fn route(
    plan: &Plan,
    fabric: &Fabric<'_>,
    place: usize,
    flow: &Flow,
    visited: &mut HashMap<usize, usize>,
) -> Result<Option<Rational>, Violation> {
    let src = fabric.node(plan, flow.src, || at(place, "/src"))?;
    let dst = fabric.node(plan, flow.dst, || at(place, "/dst"))?;
    let bad = |key: String, message: String| Err(Violation::new(Code::BadRoute, at(place, &key), message));
    if src == dst || flow.path.is_empty() {
        return bad("/path".into(), "a route leads from one node to another over at least one link".into());
    }
    let (mut here, mut alone) = (src, None::<Rational>);
    visited.insert(src, place);
    for (i, link) in flow.path.iter().enumerate() {
        let key = format!("/path/{i}");
        let Some(of) = fabric.topology.links().get(*link as usize).filter(|of| of.from == here) else {
            return bad(key, format!("link {link} does not leave {}", fabric.id(here)));
        };
        if visited.insert(of.to, place) == Some(place) {
            return bad(key, format!("the route comes to {} twice", fabric.id(of.to)));
        }
        here = of.to;
        if let Some(capacity) = of.capacity.finite() {
            alone = Some(alone.map_or(capacity.clone(), |least| least.min(capacity.clone())));
        }
    }
    if here != dst {
        return bad("/path".into(), format!("the route ends at {}", fabric.id(here)));
    }
    Ok(alone)
}

/// A rate that is finite and above zero.
pub fn positive(rate: &Capacity, at: impl FnOnce() -> String) -> Result<&Rational, Violation> {
    match rate.finite().filter(|rate| rate.is_positive()) {
        Some(rate) => Ok(rate),
        None => Err(Violation::new(Code::BadRate, at(), "a rate is finite and above zero")),
    }
}

/// Refuses a load above what a link can carry, by more than a millionth of it.
pub fn fits(fabric: &Fabric<'_>, link: usize, load: &Rational) -> Result<(), Violation> {
    let of = &fabric.topology.links()[link];
    let room = Rational::new(1_000_001, 1_000_000).unwrap_or(Rational::ONE);
    if of.capacity.finite().is_some_and(|capacity| *load > capacity * &room) {
        let (from, to) = (fabric.id(of.from), fabric.id(of.to));
        let message = format!("{from} → {to} would have to carry {:.0} bytes per second", load.to_f64());
        return Err(Violation::new(Code::Overload, "/content/flows", message));
    }
    Ok(())
}

/// A way to carry out that this kind of plan does not have.
pub fn unfit(execution: Execution, allowed: &str) -> Violation {
    let message = format!("`{}` does not fit this kind of plan; {allowed} does", execution.word());
    Violation::new(Code::BadExecution, "/content/execution", message)
}
