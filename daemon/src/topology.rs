//! Who has which address, and which links a flow takes: the part of `topology.json` that a running host needs.
//!
//! A host maps the address at the other end of a socket to a node, and the pair of nodes to links. Where several
//! shortest paths exist only the switches know which one a flow takes. Until one of them has told, or a file has, only the
//! links that *all* paths have in common are scheduled: on a leaf–spine fabric the sender's cable and the receiver's cable. Planners read the
//! same file with more of its keys, by the same reader.

pub mod path;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path as FsPath;

use foldhash::HashMap;
use ipnet::IpNet;
use sluice_formats::problem::Problems;
use sluice_formats::topology::Kind;
use sluice_formats::{network, topology};
use sluice_schedule::{HolderId, HostId, LinkId, Rate};

use path::{Ladder, Shared};

/// A directed link; a cable of both directions is two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index of the node it leaves.
    pub from: usize,
    /// Index of the node it enters.
    pub to: usize,
    /// Rate on the wire; [`Rate::MAX`]: unlimited.
    pub capacity: Rate,
    /// Its number among the links that leave `from`, from 0 in file order.
    pub port: u32,
}

/// The links that leave a host.
#[derive(Clone, Debug, Default)]
pub struct Cables {
    /// How many, those to switches included.
    pub count: usize,
    /// Other hosts to which one of them leads straight, with its number among them, from 0. Two links to one host are
    /// none, as nobody knows which of them a flow takes.
    pub straight: BTreeMap<HostId, usize>,
}

/// Nodes, links and addresses.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The file, as planners see it.
    pub file: topology::Topology,
    /// Entries in file order; within an entry copy by copy, forward before backward.
    pub links: Vec<Link>,
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    by_address: HashMap<IpAddr, usize>,
    /// The switch whose port has an address.
    by_port: HashMap<IpAddr, usize>,
    wide: Vec<(IpNet, usize)>,
    explicit: HashMap<(usize, usize), Vec<usize>>,
    by_id: HashMap<LinkId, usize>,
}

impl Topology {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Problems`] with JSON pointers, all at once; also for a graph without rates.
    pub fn load(path: &FsPath) -> Result<Topology, Problems> {
        let file = topology::Topology::load(path)?;
        file.with_rates(&path.display().to_string())?;
        Ok(Topology::new(file))
    }
    /// Of a text that is a topology.
    #[cfg(any(test, feature = "testing"))]
    #[allow(clippy::expect_used, reason = "nothing that is shipped has it")]
    pub fn of_text(text: &str) -> Topology {
        Topology::new(topology::Topology::read(text.as_bytes(), "t.json").expect("valid"))
    }
    /// What a host needs of a topology with rates.
    pub fn new(file: topology::Topology) -> Topology {
        let nodes = file.nodes().len();
        let (mut out, mut into) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        let mut links = Vec::with_capacity(file.links().len());
        for (index, link) in file.links().iter().enumerate() {
            let leaving: &mut Vec<usize> = &mut out[link.from];
            let port = u32::try_from(leaving.len()).unwrap_or(u32::MAX);
            let capacity = link.capacity.bits_per_second().map_or(Rate::MAX, Rate);
            links.push(Link { from: link.from, to: link.to, capacity, port });
            leaving.push(index);
            into[link.to].push(index);
        }
        let (mut by_address, mut by_port, mut wide) = (HashMap::default(), HashMap::default(), Vec::new());
        for (index, node) in file.nodes().iter().enumerate() {
            by_port.extend(node.port_addresses.iter().map(|address| (*address, index)));
            for known in &node.networks {
                if let Some(address) = network::single(known) {
                    by_address.insert(address, index);
                } else {
                    wide.push((*known, index));
                }
            }
        }
        let explicit = file.routes().iter().map(|route| ((route.src, route.dst), route.links.clone())).collect();
        let by_id = HashMap::default();
        let mut topology = Topology { file, links, out, into, by_address, by_port, wide, explicit, by_id };
        topology.by_id = (0..topology.links.len()).filter_map(|link| Some((topology.link_id(link)?, link))).collect();
        topology
    }
    /// The name of a node; empty for an index that does not exist.
    pub fn name(&self, node: usize) -> &str {
        self.file.nodes().get(node).map_or("", |node| &node.id)
    }
    /// What a node is; `None` for an index that does not exist.
    pub fn kind(&self, node: usize) -> Option<Kind> {
        self.file.nodes().get(node).map(|node| node.kind)
    }
    /// The networks of a node, in file order.
    pub fn networks(&self, node: usize) -> &[IpNet] {
        self.file.nodes().get(node).map_or(&[], |node| &node.networks)
    }
    /// The names of all hosts, in file order.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.file.nodes().iter().filter(|node| node.kind == Kind::Host).map(|node| &*node.id)
    }
    /// The index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.file.node(name)
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
    /// The switch that answers for itself by this address.
    pub fn switch_at(&self, address: IpAddr) -> Option<HolderId> {
        self.by_port.get(&address.to_canonical()).map(|node| HolderId::of(self.name(*node)))
    }
    /// Is it known by which addresses a switch answers for itself?
    pub fn answers(&self, node: usize) -> bool {
        self.file.nodes().get(node).is_some_and(|node| !node.port_addresses.is_empty())
    }
    /// Does any switch say by which addresses it answers?
    pub fn has_port_addresses(&self) -> bool {
        !self.by_port.is_empty()
    }
    /// Where a host answers other hosts: its first address inside one of `networks`, else its first single address.
    pub fn exchange_address(&self, node: usize, networks: &[IpNet]) -> Option<IpAddr> {
        let singles: Vec<IpAddr> = self.networks(node).iter().filter_map(network::single).collect();
        let inside = singles.iter().find(|address| networks.iter().any(|known| network::contains(known, **address)));
        inside.or(if networks.is_empty() { singles.first() } else { None }).copied()
    }
    /// The id of a link: a switch numbers its links by port, a host's n-th cable sends as `2n`.
    pub fn link_id(&self, link: usize) -> Option<LinkId> {
        let link = self.links.get(link)?;
        let name = self.name(link.from);
        Some(match self.kind(link.from) {
            Some(Kind::Switch) => LinkId::new(HolderId::of(name).0, link.port),
            _ => LinkId::new(HostId::of(name).0, link.port.saturating_mul(2)),
        })
    }
    /// The link with this id.
    pub fn find(&self, id: LinkId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }
    /// The links that leave a node.
    pub fn leaving(&self, node: usize) -> &[usize] {
        self.out.get(node).map_or(&[], Vec::as_slice)
    }
    /// The links that lead from one node straight to another.
    pub fn between(&self, from: usize, to: usize) -> Vec<usize> {
        let out = self.out.get(from).map_or(&[][..], Vec::as_slice);
        out.iter().copied().filter(|link| self.links[*link].to == to).collect()
    }
    /// The number of the cable that an address of a host with several cables belongs to: of each family of addresses, the
    /// first of the node's is the first cable's, and so on. `None` for one behind them, which may be anywhere.
    pub fn rail_of(&self, node: usize, address: IpAddr) -> Option<usize> {
        let address = address.to_canonical();
        let singles = self.networks(node).iter().filter_map(network::single);
        let rail = singles.filter(|known| known.is_ipv4() == address.is_ipv4()).position(|known| known == address)?;
        Some(rail).filter(|rail| *rail < self.out.get(node).map_or(0, Vec::len))
    }
    /// The link that comes back along the cable by which a host sends.
    pub fn back(&self, node: usize, cable: usize) -> Option<usize> {
        let out = self.out.get(node)?;
        let to = self.links[*out.get(cable)?].to;
        let twins = out[..cable].iter().filter(|link| self.links[**link].to == to).count();
        self.into.get(node)?.iter().copied().filter(|link| self.links[*link].from == to).nth(twins)
    }
    /// What every path from one cable of host `from` to one of host `to` has in common, those two included, if it goes by
    /// the links of `goes` where it forks.
    pub fn shared_between(&self, from: (usize, usize), to: (usize, usize), goes: &[usize]) -> Option<Shared> {
        let first = *self.out.get(from.0)?.get(from.1)?;
        let last = self.back(to.0, to.1)?;
        if first == last {
            return Some(Shared { links: vec![first], forks: Vec::new() });
        }
        let mut shared = path::shared(self, self.links[first].to, self.links[last].from, goes);
        shared.links.insert(0, first);
        shared.links.push(last);
        Some(shared)
    }
    /// What every path from host `from` to host `to` has in common, if it goes by the links of `goes` where it forks.
    pub fn shared(&self, from: usize, to: usize, goes: &[usize]) -> Shared {
        match self.explicit.get(&(from, to)) {
            Some(links) => Shared { links: links.clone(), forks: Vec::new() },
            None => path::shared(self, from, to, goes),
        }
    }
    /// The switches at each distance on the shortest paths from one host to another; nothing where the file gives the route.
    pub fn ladder(&self, from: usize, to: usize) -> Ladder {
        if self.route(from, to).is_some() { Ladder::default() } else { path::ladder(self, from, to) }
    }
    /// The same from one cable of host `from` to one of host `to`.
    pub fn ladder_between(&self, from: (usize, usize), to: (usize, usize)) -> Option<Ladder> {
        let first = *self.out.get(from.0)?.get(from.1)?;
        let last = self.back(to.0, to.1)?;
        if first == last { None } else { Some(path::ladder(self, self.links[first].to, self.links[last].from)) }
    }
    /// The route from one host to another that the file gives, link by link.
    pub fn route(&self, from: usize, to: usize) -> Option<&[usize]> {
        self.explicit.get(&(from, to)).map(Vec::as_slice)
    }
    /// Does any route that the file gives lead through a host?
    pub fn forwards(&self) -> bool {
        let through = |link: &usize| self.kind(self.links[*link].from) == Some(Kind::Host);
        self.explicit.values().any(|links| links.iter().skip(1).any(through))
    }
    /// The rate of all links together by which a host receives.
    pub fn receiving_rate(&self, node: usize) -> Rate {
        let into = self.into.get(node).map_or(&[][..], Vec::as_slice);
        into.iter().map(|link| self.links[*link].capacity).fold(Rate::ZERO, Rate::plus)
    }
    /// The links by which a host sends; an index that does not exist has none.
    pub fn cables(&self, node: usize) -> Cables {
        let out = self.out.get(node).map_or(&[][..], Vec::as_slice);
        let mut straight: BTreeMap<HostId, Option<usize>> = BTreeMap::new();
        for (at, link) in out.iter().enumerate() {
            let to = self.links[*link].to;
            if self.kind(to) == Some(Kind::Host) {
                straight.entry(HostId::of(self.name(to))).and_modify(|cable| *cable = None).or_insert(Some(at));
            }
        }
        let straight = straight.into_iter().filter_map(|(to, cable)| Some((to, cable?))).collect();
        Cables { count: out.len(), straight }
    }
    /// Rates of the cables by which a host sends, in order.
    pub fn sending_rates(&self, node: usize) -> Vec<Rate> {
        self.out.get(node).map_or(&[][..], Vec::as_slice).iter().map(|link| self.links[*link].capacity).collect()
    }
}

#[cfg(test)]
mod tests;
