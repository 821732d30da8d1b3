//! What a plan of trees with demands of its own has to move: chunks of one source that the same nodes want, together.

use std::collections::{BTreeMap, HashMap};

use super::chunks::Chunks;
use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Plan, Tree};
use sluice_formats::quantity::Rational;

/// Chunks of one source that the same nodes want.
#[derive(Debug)]
pub struct Group {
    /// Index of the node they begin at.
    pub source: usize,
    /// Who wants them, in ascending order.
    pub ends: Vec<usize>,
    /// How many there are; each is a unit of M.
    pub units: u64,
}

/// All that is to be moved.
#[derive(Debug)]
pub struct Demand {
    /// By source, then ends.
    pub groups: Vec<Group>,
    /// Units of all groups, which are M.
    pub units: u64,
    /// Of each source the groups.
    of_source: HashMap<usize, Vec<usize>>,
    of_ends: HashMap<(usize, Vec<usize>), usize>,
}

impl Demand {
    /// Reads the demands of a plan. A collective has one chunk per source and destination unless it says otherwise, and
    /// what tenants weigh plays no part.
    pub fn new(plan: &Plan, fabric: &Fabric<'_>) -> Result<Demand, Violation> {
        let bad = |message: String| Violation::new(Code::BadDemands, "/demands", message);
        let Some(demands) = &plan.body.demands else {
            return Err(bad("a plan that is `custom` says who wants what".into()));
        };
        let chunks = Chunks::of_tenants(plan, fabric, demands, 1)?;
        let mut ends: Vec<Vec<usize>> = vec![Vec::new(); chunks.count() as usize];
        // By node, so that all ends are in ascending order.
        for (node, chunk) in &chunks.wanted {
            ends[*chunk as usize].push(*node);
        }
        let mut units: BTreeMap<(usize, Vec<usize>), u64> = BTreeMap::new();
        for (chunk, ends) in (0..).zip(ends) {
            let source = chunks.source(chunk).unwrap_or(0);
            if let Some(node) = ends.iter().chain([&source]).find(|node| !fabric.takes_part(**node)) {
                return Err(bad(format!("{} owns or wants a chunk and takes no part", fabric.id(*node))));
            }
            *units.entry((source, ends)).or_default() += 1;
        }
        if units.is_empty() {
            return Err(bad("nobody wants anything".into()));
        }
        let mut demand = Demand { groups: Vec::new(), units: 0, of_source: HashMap::new(), of_ends: HashMap::new() };
        for ((source, ends), units) in units {
            let next = demand.groups.len();
            demand.units += units;
            demand.of_source.entry(source).or_default().push(next);
            demand.of_ends.insert((source, ends.clone()), next);
            demand.groups.push(Group { source, ends, units });
        }
        Ok(demand)
    }

    /// The group that a tree from `root` serves: the one with its ends, or the only one of its root.
    pub fn served(
        &self,
        plan: &Plan,
        fabric: &Fabric<'_>,
        root: usize,
        tree: &Tree,
        at: &dyn Fn() -> String,
    ) -> Result<usize, Violation> {
        let wrong = |message: String| Err(Violation::new(Code::WrongEnds, format!("{}/ends", at()), message));
        let of_root = self.of_source.get(&root).map_or(&[][..], |groups| groups);
        let Some(list) = &tree.ends else {
            return match of_root {
                [group] => Ok(*group),
                [] => wrong(format!("nobody wants anything of {}", fabric.id(root))),
                _ => {
                    wrong(format!("{} has {} groups of ends; name those of this tree", fabric.id(root), of_root.len()))
                }
            };
        };
        let mut ends = Vec::with_capacity(list.len());
        for (i, end) in list.iter().enumerate() {
            ends.push(fabric.node(plan, *end, || format!("{}/ends/{i}", at()))?);
        }
        ends.sort_unstable();
        match self.of_ends.get(&(root, ends)) {
            Some(group) => Ok(*group),
            None => wrong(format!("no chunk of {} is for just these", fabric.id(root))),
        }
    }

    /// How much of M these groups are.
    pub fn part(&self, groups: impl Fn(&Group) -> bool) -> Rational {
        let units: u64 = self.groups.iter().filter(|group| groups(group)).map(|group| group.units).sum();
        Rational::new(units, self.units).unwrap_or(Rational::ZERO)
    }
}
