//! The network of a scenario as nodes and directed links, whatever kind the file named. `read` reads it.

mod import;
mod keys;
pub(crate) mod read;
mod topology;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use sluice_schedule::{Nanos, Rate};

/// Index of a node: hosts first, then switches, each in the order of their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub usize);

/// Index of a directed link. Cable c is links 2c (a to b) and 2c + 1 (b to a).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIx(pub usize);

/// A host with its place in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its id in the file.
    pub name: String,
    /// GPUs, 0 or more.
    pub gpus: u32,
    /// The rack it stands in: hosts with the same first switch.
    pub rack: usize,
    /// The group of racks behind one edge or aggregation switch; 0 where the kind has none.
    pub edge: usize,
}

/// One direction of a cable.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The node that sends into it.
    pub from: NodeIx,
    /// The node that it leads to.
    pub to: NodeIx,
    /// Bits per second that it carries, above zero.
    pub rate: Rate,
    /// Time a bit takes from one end to the other.
    pub delay: Nanos,
    /// Probability that a packet is lost, 0 to 1.
    pub loss: f64,
    /// Number of the cable, in file order; orders parallel cables.
    pub cable: usize,
}

/// Hosts, switches and links.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The kind the file named.
    pub kind: &'static str,
    /// Cards of every host over which its flows are spread; 1 where nothing is said.
    pub rails: u32,
    /// Hosts in order of id; node index = place here.
    pub hosts: Vec<Host>,
    /// Switch names in order of id; node index = number of hosts + place here.
    pub switches: Vec<String>,
    /// Both directions of every cable; link index = place here.
    pub links: Vec<Link>,
    /// Links that leave each node, sorted by (neighbour, cable).
    out: Vec<Vec<LinkIx>>,
    index: BTreeMap<String, NodeIx>,
}

/// A cable before node indices exist.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    pub(crate) a: String,
    pub(crate) b: String,
    pub(crate) forward: Rate,
    pub(crate) back: Rate,
    pub(crate) delay: Nanos,
    pub(crate) loss: f64,
}

impl Network {
    /// Builds the network; cables whose ends do not exist are left out (the reader has reported them).
    pub(crate) fn build(
        kind: &'static str,
        mut hosts: Vec<Host>,
        mut switches: Vec<String>,
        cables: &[Cable],
    ) -> Network {
        hosts.sort_by(|a, b| by_id(&a.name, &b.name));
        switches.sort_by(|a, b| by_id(a, b));
        let names = hosts.iter().map(|h| &h.name).chain(&switches);
        let index: BTreeMap<String, NodeIx> = names.enumerate().map(|(i, n)| (n.clone(), NodeIx(i))).collect();
        let mut links = Vec::with_capacity(cables.len() * 2);
        for (cable, c) in cables.iter().enumerate() {
            let (Some(&a), Some(&b)) = (index.get(&c.a), index.get(&c.b)) else { continue };
            let link = |from, to, rate| Link { from, to, rate, delay: c.delay, loss: c.loss, cable };
            links.push(link(a, b, c.forward));
            links.push(link(b, a, c.back));
        }
        let mut out = vec![Vec::new(); hosts.len() + switches.len()];
        for (i, link) in links.iter().enumerate() {
            if let Some(list) = out.get_mut(link.from.0) {
                list.push(LinkIx(i));
            }
        }
        for list in &mut out {
            list.sort_by_key(|&LinkIx(i)| links.get(i).map(|l| (l.to, l.cable)));
        }
        let mut network = Network { kind, rails: 1, hosts, switches, links, out, index };
        if kind != "three-tier" && kind != "file" {
            network.racks_by_first_switch();
        }
        network
    }

    /// Stands in for a network that could not be read; every name is a host of it.
    pub(crate) fn unknown() -> Network {
        Network::build("unknown", Vec::new(), Vec::new(), &[])
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.kind == "unknown"
    }

    fn racks_by_first_switch(&mut self) {
        for i in 0..self.hosts.len() {
            let first = self.out(NodeIx(i)).iter().filter_map(|&l| self.link(l)).map(|l| l.to.0).min();
            if let Some(host) = self.hosts.get_mut(i) {
                host.rack = first.unwrap_or(i);
            }
        }
    }

    /// Number of hosts and switches.
    pub fn nodes(&self) -> usize {
        self.hosts.len() + self.switches.len()
    }

    /// True when the node is a host.
    pub fn is_host(&self, node: NodeIx) -> bool {
        node.0 < self.hosts.len()
    }

    /// The node with this id.
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        self.index.get(name).copied()
    }

    /// The id of a node; `"?"` for an index that does not exist.
    pub fn name(&self, node: NodeIx) -> &str {
        let host = self.hosts.get(node.0).map(|h| h.name.as_str());
        host.or_else(|| self.switches.get(node.0.checked_sub(self.hosts.len())?).map(String::as_str)).unwrap_or("?")
    }

    /// The link with this index.
    pub fn link(&self, link: LinkIx) -> Option<&Link> {
        self.links.get(link.0)
    }

    /// Links that leave a node, sorted by (neighbour, cable).
    pub fn out(&self, node: NodeIx) -> &[LinkIx] {
        self.out.get(node.0).map_or(&[], Vec::as_slice)
    }

    /// What a host can send: the sum of its links.
    pub fn nic(&self, host: NodeIx) -> Rate {
        self.out(host).iter().filter_map(|&l| self.link(l)).fold(Rate::ZERO, |sum, l| sum.plus(l.rate))
    }
}

/// Order of ids: letters, then number, so that `h10` comes after `h9`.
pub fn by_id(a: &str, b: &str) -> Ordering {
    let split = |s: &str| {
        let letters = s.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (letters, s.get(letters..).and_then(|d| d.parse::<u128>().ok()))
    };
    let ((na, da), (nb, db)) = (split(a), split(b));
    a.get(..na).cmp(&b.get(..nb)).then(da.cmp(&db)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_order_by_letters_then_number() {
        let mut ids = ["h10", "h9", "s0", "h1", "a", "h"];
        ids.sort_by(|a, b| by_id(a, b));
        assert_eq!(ids, ["a", "h", "h1", "h9", "h10", "s0"]);
    }
}
