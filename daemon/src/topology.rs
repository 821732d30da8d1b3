//! Who has which address, and which links a flow takes: the part of `topology.json` that a running host needs.
//!
//! A host maps the address at the other end of a socket to a node, and the pair of nodes to links. Where several
//! shortest paths exist nobody outside the switches knows which one a flow takes, so only the links that *all* of them
//! have in common are scheduled: on a leaf–spine fabric the sender's cable and the receiver's cable. Planners read the
//! same file with more of its keys; what they alone use is checked for its type nowhere here.

mod parse;
mod path;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path as FsPath;

use ipnet::IpNet;
use sluice_formats::network;
use sluice_schedule::{HolderId, HostId, LinkId, Nanos, Rate};

use crate::config::Problems;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Sends and receives, never forwards.
    Host,
    /// Forwards.
    Switch,
    /// Anything the daemon has no use for.
    Other,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub id: String,
    /// What it is.
    pub kind: NodeKind,
    /// A host's networks, in file order.
    pub networks: Vec<IpNet>,
    /// A switch's `host:port`, if it has one.
    pub exchange: Option<String>,
}

/// A directed link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Index of the node it leaves.
    pub from: usize,
    /// Index of the node it enters.
    pub to: usize,
    /// Rate on the wire; [`Rate::MAX`]: unlimited.
    pub capacity: Rate,
    /// One way.
    pub latency: Nanos,
    /// Index of the link among those that leave `from`, counted from 0.
    pub port: u32,
}

/// Nodes, links and addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Its name.
    pub name: String,
    /// In file order.
    pub nodes: Vec<Node>,
    /// Entries in file order; within an entry copy by copy, forward before backward.
    pub links: Vec<Link>,
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    by_name: HashMap<String, usize>,
    by_address: HashMap<IpAddr, usize>,
    wide: Vec<(IpNet, usize)>,
    explicit: HashMap<(usize, usize), Vec<usize>>,
}

impl Topology {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Problems`] with JSON pointers, all at once.
    pub fn load(path: &FsPath) -> Result<Topology, Problems> {
        parse::load(path)
    }
    /// Reads a text; `path` is only for messages.
    ///
    /// # Errors
    /// [`Problems`] with JSON pointers, all at once.
    pub fn parse(path: &FsPath, text: &str) -> Result<Topology, Problems> {
        parse::parse(path, text)
    }
    /// The index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
    /// The host that has this address.
    pub fn host_of(&self, address: IpAddr) -> Option<usize> {
        let address = address.to_canonical();
        let exact = self.by_address.get(&address).copied();
        exact.or_else(|| {
            let inside = self.wide.iter().filter(|(wide, _)| network::contains(wide, address));
            inside.max_by_key(|(wide, _)| wide.prefix_len()).map(|(_, node)| *node)
        })
    }
    /// Where a host answers other hosts: its first address inside one of `networks`, else its first single address.
    pub fn exchange_address(&self, node: usize, networks: &[IpNet]) -> Option<IpAddr> {
        let networks_of_node = &self.nodes.get(node)?.networks;
        let singles: Vec<IpAddr> = networks_of_node.iter().filter_map(network::single).collect();
        let inside = singles.iter().find(|address| networks.iter().any(|known| network::contains(known, **address)));
        inside.or(if networks.is_empty() { singles.first() } else { None }).copied()
    }
    /// The id of a link: a switch numbers its links by port, a host's n-th cable sends as `2n`.
    pub fn link_id(&self, link: usize) -> Option<LinkId> {
        let link = self.links.get(link)?;
        let node = self.nodes.get(link.from)?;
        Some(match node.kind {
            NodeKind::Switch => LinkId::new(HolderId::of(&node.id).0, link.port),
            _ => LinkId::new(HostId::of(&node.id).0, link.port.saturating_mul(2)),
        })
    }
    /// The links that every path from host `from` to host `to` has in common, in order.
    pub fn common_links(&self, from: usize, to: usize) -> Vec<usize> {
        match self.explicit.get(&(from, to)) {
            Some(links) => links.clone(),
            None => path::common(self, from, to),
        }
    }
    /// How many links leave a host, and to which other hosts one of them leads straight: its number among them, from 0.
    /// Two links to one host are none, as nobody knows which of them a flow takes.
    pub fn cables(&self, node: usize) -> (usize, BTreeMap<HostId, usize>) {
        let out = self.out.get(node).map_or(&[][..], Vec::as_slice);
        let mut straight: BTreeMap<HostId, Option<usize>> = BTreeMap::new();
        for (at, link) in out.iter().enumerate() {
            let to = &self.nodes[self.links[*link].to];
            if to.kind == NodeKind::Host {
                straight.entry(HostId::of(&to.id)).and_modify(|cable| *cable = None).or_insert(Some(at));
            }
        }
        (out.len(), straight.into_iter().filter_map(|(to, cable)| Some((to, cable?))).collect())
    }
    /// Rates of the cables by which a host sends, in order.
    pub fn sending_rates(&self, node: usize) -> Vec<Rate> {
        self.out.get(node).map_or(&[][..], Vec::as_slice).iter().map(|link| self.links[*link].capacity).collect()
    }
}

#[cfg(test)]
mod tests;
