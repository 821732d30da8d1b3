//! Fabrics by rule: machines that are sold, data-centre networks, and the graphs of textbooks.
//!
//! Every family gives an ordinary [`Topology`], built through the same checks as a file. All links are duplex with one
//! capacity for both directions (except the one-way ring), so every fabric is Eulerian: each node takes in what it
//! gives out.

mod boxes;
mod dgx_rail;
mod graphs;
mod networks;

pub use boxes::{Wiring, dgx_a100, dgx_h100, mi250};
pub use dgx_rail::{Variant, dgx_a100_rail};
pub use graphs::{complete, hypercube, ring, star, torus};
pub use networks::{LeafSpine, Rails, fat_tree, leaf_spine, rail_optimised};

use std::collections::BTreeMap;

use super::{File, Kind, LinkEntry, MAX_LINKS, NodeEntry, Text, Topology, Version};
use crate::problem::{E_LIMIT, E_RANGE, Problem, Problems};
use crate::quantity::{Capacity, Rational, Unit};

/// A fabric in the making.
struct Draft {
    file: File,
}

impl Draft {
    fn new(name: String) -> Draft {
        let file = File {
            boxes: None,
            groups: None,
            links: Vec::new(),
            name: Some(name.into()),
            nodes: Vec::new(),
            routing: None,
            version: Version,
        };
        Draft { file }
    }
    /// Adds a node and gives its id back, for its links.
    fn node(&mut self, id: impl Into<Text>, kind: Kind) -> Text {
        let id = id.into();
        self.file.nodes.push(NodeEntry {
            addresses: None,
            buffer: None,
            can: None,
            id: id.clone(),
            kind,
            port_addresses: None,
            weight: None,
        });
        id
    }
    /// Adds a node of a machine.
    fn node_in(&mut self, machine: &Text, id: impl Into<Text>, kind: Kind) -> Text {
        let id = self.node(id, kind);
        self.file.boxes.get_or_insert_with(BTreeMap::new).insert(id.clone(), machine.clone());
        id
    }
    fn duplex(&mut self, a: &Text, b: &Text, capacity: &Text) {
        self.link(a, b, capacity).duplex = Some(true);
    }
    /// Adds a link both ways that costs nothing.
    fn free_duplex(&mut self, a: &Text, b: &Text, capacity: &Text) {
        let entry = self.link(a, b, capacity);
        (entry.duplex, entry.cost) = (Some(true), Some("0".into()));
    }
    /// Adds a link one way.
    fn one_way(&mut self, from: &Text, to: &Text, capacity: &Text) {
        self.link(from, to, capacity);
    }
    fn link(&mut self, from: &Text, to: &Text, capacity: &Text) -> &mut LinkEntry {
        self.file.links.push_mut(LinkEntry {
            capacity: capacity.clone(),
            capacity_per_epoch: None,
            cost: None,
            count: None,
            duplex: None,
            from: from.clone(),
            latency: None,
            to: to.clone(),
        })
    }
    fn build(self) -> Result<Topology, Problems> {
        Topology::build(self.file, "")
    }
}

/// Refuses a parameter outside its range.
fn range(name: &'static str, value: u64, least: u64, most: u64) -> Result<(), Problems> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let error = Problem::new(E_RANGE, name, format!("`{name}` is out of range")).found(value.to_string());
    Err(error.allowed(format!("{least} to {most}")).into())
}

/// Refuses a fabric of too many directed links before it is made.
fn limit(links: u128) -> Result<(), Problems> {
    if links <= u128::from(MAX_LINKS) {
        return Ok(());
    }
    let error = Problem::new(E_LIMIT, "", "the fabric would be too large").found(format!("{links} directed links"));
    Err(error.allowed(format!("at most {MAX_LINKS}")).help("take fewer or smaller boxes").into())
}

fn capacity(name: &'static str, text: &str) -> Result<(Rational, Unit), Problems> {
    let error = |error: Problem| Problems::from(error.found(text));
    match Capacity::parse(text) {
        Ok((Capacity::Finite(base), Some(unit))) if base.is_positive() => Ok((base, unit)),
        Ok((Capacity::Unlimited, _)) | Ok((_, None)) => {
            Err(error(Problem::new(E_RANGE, name, format!("`{name}` needs a limit")).allowed("a finite capacity")))
        }
        Ok(_) => Err(error(Problem::new(E_RANGE, name, format!("`{name}` is nothing")).allowed("more than 0"))),
        Err(misread) => {
            let message = format!("`{name}` is not {}", misread.what);
            Err(error(Problem::new(E_RANGE, name, message).allowed(misread.allowed).help(misread.help)))
        }
    }
}

#[cfg(test)]
mod tests;
