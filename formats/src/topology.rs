//! topology.json, version 1: nodes, directed links, shared limits, and what every node can do.
//!
//! A [`File`] is what a topology file says, with nothing filled in; it is what gets written and what the digest is made
//! of. A [`Topology`] is what it means: defaults filled in, quantities exact, parallel and duplex links expanded and
//! numbered. Every topology, also an imported or a generated one, is made by [`Topology::build`], so no other part of
//! this crate ever sees one that breaks the rules of the format.

mod build;
pub mod check;
mod digest;
pub mod draw;
mod file;
pub mod r#gen;
pub mod import;
pub mod reference;

pub use crate::json::{Nullable, Text, Version};
pub use digest::sha256_hex;
pub use file::{
    CanEntry, File, GroupEntry, Kind, LinkEntry, MemberEntry, NodeEntry, RouteEntry, RoutingEntry, RoutingKind, Weight,
};

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;

use crate::json::{Limits, Reader, Writer};
use crate::problem::{Problem, Problems, UNSUPPORTED_FIELD};
use crate::quantity::{Capacity, Rational, Unit};

/// Links at most, after `count` and `duplex`.
pub const MAX_LINKS: u64 = 1_000_000;
/// What a topology file may be.
const LIMITS: Limits = Limits { bytes: 64_000_000, elements: 32_000_000, charged: (MAX_LINKS, "link entries") };

/// What a node can do with data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Can {
    /// Keep data for later.
    pub store: bool,
    /// Send what it got to several others; of a switch: multicast.
    pub copy: bool,
    /// Add up what it got; of a switch: aggregation.
    pub reduce: bool,
}

/// A node. Its index is its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its id, unique in the topology.
    pub id: Text,
    /// What it is: whether it takes part, stores or only forwards.
    pub kind: Kind,
    /// What it can do.
    pub can: Can,
    /// The share of the data it holds if it takes part; 0 only receives.
    pub weight: u64,
    /// Bytes it may hold for others; `None`: unlimited.
    pub buffer: Option<Rational>,
    /// Where its sockets are, in file order; a switch and a NIC have none.
    pub networks: Vec<IpNet>,
    /// Where a switch or a NIC answers the daemons: `host:port`.
    pub exchange: Option<Text>,
    /// Addresses by which a switch that routes answers for itself.
    pub port_addresses: Vec<IpAddr>,
    /// The machine it belongs to.
    pub machine: Option<Text>,
}

impl Node {
    /// Does it take part in collectives unless the plan says otherwise?
    pub fn is_compute(&self) -> bool {
        self.kind.is_compute()
    }
}

/// A directed link. Its index is its place in the expanded list: entries in file order, within an entry copy by copy,
/// forward before backward.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Index of the node it leaves.
    pub from: usize,
    /// Index of the node it enters.
    pub to: usize,
    /// In bytes per second, or abstract units.
    pub capacity: Capacity,
    /// One way, in seconds, or abstract units.
    pub latency: Rational,
    /// The secondary objective's weight.
    pub cost: Rational,
    /// Index of the entry it comes from.
    pub entry: usize,
    /// Capacity in each epoch, the last repeats; `None`: always `capacity`.
    pub per_epoch: Option<Arc<[Capacity]>>,
}

/// A limit that several links share.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name, or `group N`.
    pub name: Text,
    /// In bytes per second, or abstract units.
    pub capacity: Capacity,
    /// Indices of its links, ascending.
    pub links: Vec<usize>,
}

/// The path that all flows between two nodes take.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Index of the node it begins at.
    pub src: usize,
    /// Index of the node it ends at.
    pub dst: usize,
    /// Indices of its links, in order; of parallel links the first.
    pub links: Vec<usize>,
}

/// Nodes, links, groups, routes.
#[derive(Clone, Debug)]
pub struct Topology {
    file: File,
    nodes: Vec<Node>,
    links: Vec<Link>,
    groups: Vec<Group>,
    routes: Vec<Route>,
    unit: Unit,
    by_id: HashMap<Text, usize>,
}

impl Topology {
    /// Reads a file.
    ///
    /// # Errors
    /// As [`Topology::read`], and a file that is absent, too large or not to be read.
    pub fn load(path: &Path) -> Result<Topology, Problems> {
        Topology::read(&crate::file::load(path, LIMITS.bytes as u64)?, &path.display().to_string())
    }
    /// Reads a topology; `file` is the name used in messages.
    ///
    /// # Errors
    /// All mistakes with their JSON pointers, in the order of the codes.
    pub fn read(bytes: &[u8], file: &str) -> Result<Topology, Problems> {
        Topology::build(File::read(bytes, file)?, file)
    }
    /// Fills in what the file leaves out, and refuses what breaks the rules of the format; `name` is the file's name in
    /// messages.
    ///
    /// # Errors
    /// All mistakes with their JSON pointers, in the order of the codes.
    pub fn build(file: File, name: &str) -> Result<Topology, Problems> {
        build::build(file, name)
    }
    /// What the file says.
    pub fn file(&self) -> &File {
        &self.file
    }
    /// Its name, or nothing.
    pub fn name(&self) -> &str {
        self.file.name.as_deref().unwrap_or("")
    }
    /// All nodes in file order, so that a place is an index.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    /// In the order of their indices.
    pub fn links(&self) -> &[Link] {
        &self.links
    }
    /// All limits that links share, in file order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
    /// The explicit paths, in file order.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }
    /// Does it say how fast its links are? One without units is a graph for planners: it has no rates.
    ///
    /// # Errors
    /// A problem in this file for hosts and switches, which need rates.
    pub fn with_rates(&self, file: &str) -> Result<(), Problems> {
        let finite = || self.links.iter().any(|link| link.capacity.finite().is_some());
        if self.unit != Unit::Abstract || !finite() {
            return Ok(());
        }
        let problem = Problem::new(UNSUPPORTED_FIELD, "/links/0/capacity", "a capacity without a unit is no rate");
        let found = self.file.links.first().map_or("", |link| &*link.capacity);
        let problem = problem.found(found).allowed("a unit behind every capacity").help("write `25Gbit/s` or `3GB/s`");
        Err(Problems::from(problem).in_file(file))
    }
    /// The unit of the first link that has one: the unit results are given in.
    pub fn unit(&self) -> Unit {
        self.unit
    }
    /// The index of the node with this id.
    pub fn node(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }
    /// The nodes that take part unless a plan says otherwise: gpu, host and site, in file order.
    pub fn compute(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].is_compute()).collect()
    }
    /// The topology as a file for people: keys sorted, one node or link per line.
    pub fn to_text(&self) -> String {
        Writer::lines(&self.file, None)
    }
    /// The topology as compact JSON, keys sorted, defaults not filled in: what the digest is made of.
    pub fn to_compact(&self) -> String {
        Writer::compact(&self.file, None)
    }
    /// SHA-256 of [`Topology::to_compact`], in hexadecimal.
    pub fn digest(&self) -> String {
        sha256_hex(self.to_compact().as_bytes())
    }
}

impl File {
    /// Reads what a file says, without looking at what it means.
    ///
    /// # Errors
    /// All mistakes of form with their JSON pointers, in the order of the codes.
    pub fn read(bytes: &[u8], file: &str) -> Result<File, Problems> {
        Reader::new(bytes, LIMITS, file)?.document(File::read_json).map(|(file, _)| file)
    }
}

#[cfg(test)]
mod tests;
