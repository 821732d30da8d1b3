//! Where this host stands: its links, who has which address, and the path of a flow as the brain wants it.
//!
//! A host may have several cards, each a link of its own with its own rate: by which one a flow leaves the kernel's routes
//! say, and by which one it comes, its address.
//!
//! With switches configured, the links a switch keeps are part of a path; without, the receiving host's daemon keeps
//! the table of its own ingress and stands in for them. A cable that leads straight to another host has one sender, which
//! keeps its table: there it is the whole path.
//!
//! Where hosts forward, as sites do, a cable has many senders: the host it leaves keeps its table, and a path is every
//! cable of its route, which the topology gives. The receiver's ingress is the last of it, not because anything is short
//! there, but so that the receiver hears how far the flow is.

mod ground;
mod keepers;
mod ladders;
mod routes;
mod ways;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use foldhash::HashMap;
use ipnet::IpNet;
use sluice_formats::network;
use sluice_formats::quantity::gbps;
use sluice_schedule::switch::LinkConfig;
use sluice_schedule::{HolderId, Hop, HostId, LinkId, Rate};

use sluice_wire::attach::Places;

use crate::config::Config;
use crate::config::value::Named;
use crate::interfaces::Interface;
use crate::topology::Topology;
use keepers::Keepers;
pub use routes::{By, Known, Learned, Told, load};
use ways::PathKey;
pub use ways::Way;

/// Paths kept at most; past that they are worked out anew each time.
const MAX_PATHS: usize = 4096;

/// A link by which this host sends and receives.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnLink {
    /// Of the card; VLANs on one card are one link.
    pub name: String,
    /// Of all its interfaces.
    pub addresses: Vec<IpAddr>,
    /// The interfaces whose traffic it carries.
    interfaces: Vec<String>,
    /// Part of it that is left free, where it has one of its own.
    pub reserve: Option<f64>,
    /// Payload rate; `None`: not known, so flows there are left alone.
    pub capacity: Option<Rate>,
    pub egress: LinkId,
    /// Where it receives, if no switch keeps that.
    pub ingress: LinkId,
}

/// A link that is said to carry so many times what its card does is said wrongly, by a unit or a digit. Less may be the card:
/// virtual ones tell any number.
const OVERSTATED: u64 = 4;

/// A link that the configuration or the topology says to carry far more than its card does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overstated {
    /// The card.
    pub name: String,
    /// What it is said to carry.
    pub told: Rate,
    /// What the driver says.
    pub speed: Rate,
}

impl std::fmt::Display for OwnLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.capacity {
            Some(capacity) => write!(f, "{} at {capacity}", self.name),
            None => write!(f, "{} at an unknown rate", self.name),
        }
    }
}

/// By which interface the kernel sends from one address to another.
type RouteOf = fn(IpAddr, IpAddr) -> Option<String>;

/// The network as this host needs it.
#[derive(Debug)]
pub struct Fabric {
    pub host: HostId,
    /// Its own links; the first one is the one other hosts know.
    pub links: Vec<OwnLink>,
    /// Of them, those that are said to carry far more than their cards do.
    pub overstated: Vec<Overstated>,
    topology: Option<Arc<Topology>>,
    node: Option<usize>,
    switches: BTreeSet<HolderId>,
    /// Of them, those that are spoken to by datagrams.
    datagrams: BTreeSet<HolderId>,
    /// Of those, the ones that datagrams pass on their way.
    inband: BTreeSet<HolderId>,
    peer_networks: Vec<IpNet>,
    peer_port: Option<u16>,
    only: Vec<IpNet>,
    /// The node's addresses in the topology; containers may have one that no interface here has.
    own: Vec<IpNet>,
    /// Addresses of all interfaces, so that those of unmanaged ones are not taken for a container's.
    beside: Vec<IpAddr>,
    ways: RefCell<HashMap<PathKey, Way>>,
    ladders: ladders::Ladders,
    /// What is known of single flows.
    pub learned: Learned,
    /// What a file says of them.
    pub told: Option<Arc<Told>>,
    /// By which own link what goes from one address to another leaves, as far as somebody asked.
    leaves_by: RefCell<HashMap<(IpAddr, IpAddr), Option<usize>>>,
    route: RouteOf,
    /// Hosts at the other end of a cable, with the own link that the cable is.
    cables: BTreeMap<HostId, usize>,
    /// Who keeps links between switches, where hosts do.
    keepers: Arc<Keepers>,
    /// Do hosts forward, along routes that the topology gives?
    forwards: bool,
    names: BTreeMap<HostId, String>,
}

impl Fabric {
    /// From the configuration, what it names, and the interfaces there are.
    pub fn new(config: &Config, topology: Option<Arc<Topology>>, interfaces: &[Interface]) -> Fabric {
        Fabric::made(config, topology, interfaces, None)
    }

    /// Who keeps which link is a long calculation in a large network: what was found `before` for the same one stays.
    fn made(
        config: &Config,
        topology: Option<Arc<Topology>>,
        interfaces: &[Interface],
        before: Option<&Fabric>,
    ) -> Fabric {
        let host = HostId::of(&config.node.name);
        let node = topology.as_ref().and_then(|topology| topology.node(&config.node.name));
        let rates =
            topology.as_ref().zip(node).map(|(topology, node)| topology.sending_rates(node)).unwrap_or_default();
        let own_networks = topology.as_ref().zip(node).map(|(t, n)| t.networks(n).to_vec()).unwrap_or_default();
        let (mut links, mut overstated) = (Vec::<OwnLink>::new(), Vec::new());
        let selected = selected(config, interfaces, &own_networks, rates.len());
        // As many links as cables: they are the cables, in order. Else the slowest cable is what is certain.
        let slowest = rates.iter().copied().min();
        let cable = |at: usize| if rates.len() == selected.len() { rates.get(at).copied() } else { slowest };
        for (at, &interface) in selected.iter().enumerate() {
            if let Some(link) = links.iter_mut().find(|link| link.name == interface.card) {
                link.addresses.extend(&interface.addresses);
                link.interfaces.push(interface.name.clone());
                continue;
            }
            let entry = config.links.iter().find(|link| link.name == interface.name);
            let configured = entry.and_then(|link| gbps(link.gbps?).ok()).map(Rate);
            let told = configured.or_else(|| cable(at));
            let mut wire = told.or(interface.speed);
            if let (Some(told), Some(speed)) = (told, interface.speed)
                && told.0 / OVERSTATED >= speed.0
            {
                overstated.push(Overstated { name: interface.card.clone(), told, speed });
                // A link that is thought larger than it is keeps a queue full.
                wire = Some(speed);
            }
            let port = 2 * links.len() as u32;
            links.push(OwnLink {
                name: interface.card.clone(),
                addresses: interface.addresses.clone(),
                interfaces: vec![interface.name.clone()],
                reserve: entry.map(|link| link.reserve),
                capacity: wire.map(Rate::payload),
                egress: LinkId::new(host.0, port),
                ingress: LinkId::new(host.0, port + 1),
            });
        }
        let cables = topology.as_ref().zip(node).map(|(t, n)| t.cables(n)).filter(|cables| cables.count == links.len());
        let forwards = cables.is_some() && topology.as_ref().is_some_and(|topology| topology.forwards());
        let names = topology.iter().flat_map(|topology| topology.hosts());
        let peer_port = config.peer.listen.first().map(SocketAddr::port);
        let mut fabric = Fabric {
            host,
            links,
            overstated,
            node,
            switches: config.switches.iter().map(|switch| HolderId::of(&switch.name)).collect(),
            datagrams: config.by_datagrams().map(|switch| HolderId::of(&switch.name)).collect(),
            inband: config.in_band().map(|switch| HolderId::of(&switch.name)).collect(),
            peer_networks: config.peer.networks.clone(),
            peer_port,
            only: config.capture.peers.clone(),
            own: own_networks,
            beside: interfaces.iter().flat_map(|interface| interface.addresses.clone()).collect(),
            ways: RefCell::default(),
            ladders: ladders::Ladders::default(),
            learned: Learned::default(),
            told: None,
            leaves_by: RefCell::default(),
            route: sluice_route::interface,
            cables: cables.map(|cables| cables.straight).unwrap_or_default(),
            keepers: Arc::default(),
            forwards,
            names: names.map(|name| (HostId::of(name), name.to_owned())).collect(),
            topology,
        };
        if let Some(topology) = fabric.topology.as_ref().filter(|_| fabric.hosts_keep_all()) {
            let speaks = |node| topology.exchange_address(node, &[]).is_some();
            let known =
                before.filter(|before| before.topology.as_ref().is_some_and(|known| Arc::ptr_eq(known, topology)));
            let known = known.filter(|before| before.hosts_keep_all()).map(|before| before.keepers.clone());
            fabric.keepers = known.unwrap_or_else(|| Arc::new(Keepers::of(topology, speaks)));
        }
        fabric
    }

    /// The same network, with the interfaces that there are now.
    pub fn with_interfaces(&self, config: &Config, interfaces: &[Interface]) -> Fabric {
        Fabric::made(config, self.topology.clone(), interfaces, Some(self)).with_routes(self.told.clone())
    }

    /// The same network with what a file says of routes.
    pub fn with_routes(mut self, told: Option<Arc<Told>>) -> Fabric {
        self.told = told;
        self
    }

    /// Has this become of `before`, and is it another? Where a link is missing it has not: a card without its address for a
    /// moment would put another network in its place.
    pub fn follows(&self, before: &Fabric) -> bool {
        let stays = |link: &OwnLink| self.links.iter().any(|other| other.name == link.name);
        self.links != before.links && before.links.iter().all(stays)
    }

    /// What it was made of.
    pub fn topology(&self) -> Option<&Arc<Topology>> {
        self.topology.as_ref()
    }

    /// Where hosts are attached, for the tables that this host keeps.
    pub fn places(&self) -> Option<Arc<Places>> {
        let topology = self.topology.as_ref().filter(|_| self.nic_mode())?;
        Some(Arc::new(Places::of(&topology.file)))
    }

    /// Has the topology this node?
    pub fn is_in_topology(&self) -> bool {
        self.node.is_some()
    }

    /// Do hosts keep the tables of their own links, because no switch is configured, or only such that are spoken to in
    /// band, which know no ranks?
    pub fn nic_mode(&self) -> bool {
        self.switches.is_subset(&self.inband) && self.peer_port.is_some() && self.node.is_some()
    }

    /// Do hosts keep the tables of links between switches too, because these are spoken to in band? Then switches only tell by
    /// which way a flow goes.
    pub fn hosts_keep_all(&self) -> bool {
        self.nic_mode() && !self.switches.is_empty()
    }

    /// Do switches on the way leave their signatures in announcements?
    pub fn is_in_band(&self) -> bool {
        !self.inband.is_empty()
    }

    /// Do hosts keep the tables of cables that others' flows cross too, because hosts forward?
    pub fn forwards(&self) -> bool {
        self.forwards && self.nic_mode() && self.switches.is_empty()
    }

    /// The links whose tables this host keeps for others; none where switches do.
    pub fn kept(&self) -> Vec<LinkConfig> {
        if !self.nic_mode() {
            return Vec::new();
        }
        let config = |link, capacity, attached| LinkConfig { link, capacity, cross: Rate::ZERO, attached };
        let own = self.links.iter().filter(|_| self.forwards());
        let egress = own.filter_map(|link| Some(config(link.egress, link.capacity?, Some(self.host))));
        let inside = self.topology.iter().flat_map(|topology| {
            let kept = self.keepers.kept_by(self.host.holder());
            // Nobody is there who would see what of it is not managed.
            kept.filter_map(|at| Some(config(topology.link_id(at)?, topology.links[at].capacity.payload(), None)))
        });
        let ingress = self.ingresses().into_iter().map(|hop| config(hop.link, hop.capacity, Some(self.host)));
        ingress.chain(egress).chain(inside).collect()
    }

    fn keeper(&self) -> Option<HolderId> {
        Some(self.host.holder())
    }

    /// The cables on the way to a host, where hosts forward.
    fn route(&self, to: HostId) -> Option<(&Topology, &[usize])> {
        let (topology, from, to) = self.ends(to).filter(|_| self.forwards())?;
        Some((topology, topology.route(from, to)?))
    }

    /// The host with this address; one nobody named has its address as name.
    pub fn host_of(&self, address: IpAddr) -> HostId {
        let named = self.topology.as_ref().and_then(|t| t.host_of(address).map(|node| HostId::of(t.name(node))));
        named.unwrap_or_else(|| HostId::of(&address.to_canonical().to_string()))
    }

    /// A host's name, if the topology has it.
    pub fn name_of(&self, host: HostId) -> Option<&str> {
        self.names.get(&host).map(String::as_str)
    }

    /// The own link with this address, as its place in [`Fabric::links`]. An address of this node that no interface has
    /// is a container's with a network namespace of its own; it sends by the first link.
    pub fn link_of(&self, local: IpAddr) -> Option<usize> {
        let local = local.to_canonical();
        let found = self.links.iter().position(|link| link.addresses.contains(&local));
        let contained = || self.own.iter().any(|own| network::contains(own, local)) && !self.beside.contains(&local);
        found.or_else(|| (!self.links.is_empty() && contained()).then_some(0))
    }

    /// The own link by which a flow leaves, as its place in [`Fabric::links`]: the cable to the other host, if there is
    /// one; where there are several links the one that the kernel's routes lead by; else the one with its address.
    pub fn link_between(&self, local: IpAddr, remote: IpAddr) -> Option<usize> {
        let ends = (local.to_canonical(), remote.to_canonical());
        let mut known = self.leaves_by.borrow_mut();
        if known.len() >= MAX_PATHS {
            known.clear();
        }
        *known.entry(ends).or_insert_with(|| self.leaves_by(ends))
    }

    /// The same, not remembered.
    fn leaves_by(&self, (local, remote): (IpAddr, IpAddr)) -> Option<usize> {
        let by_address = self.link_of(local)?;
        let to = self.host_of(remote);
        if let Some((topology, [first, ..])) = self.route(to) {
            return Some(topology.links[*first].port as usize).filter(|index| *index < self.links.len());
        }
        if let Some(cable) = self.cables.get(&to).filter(|index| **index < self.links.len()) {
            return Some(*cable);
        }
        if self.links.len() < 2 {
            return Some(by_address);
        }
        let named = (self.route)(local, remote);
        let asked = named.and_then(|name| self.links.iter().position(|link| link.interfaces.contains(&name)));
        Some(asked.unwrap_or(by_address))
    }

    /// Routes may have changed: the kernel is asked again.
    pub fn forget_routes(&self) {
        self.leaves_by.borrow_mut().clear();
    }

    /// Are the own links the node's cables, in order?
    fn has_rails(&self) -> bool {
        let cables = self.topology.as_ref().zip(self.node).map(|(topology, node)| topology.cables(node).count);
        cables == Some(self.links.len())
    }

    /// May a flow between these addresses be managed at all?
    pub fn covers(&self, local: IpAddr, remote: IpAddr) -> bool {
        let remote = remote.to_canonical();
        let foreign = !remote.is_loopback() && self.link_of(remote).is_none();
        let asked_for = self.only.is_empty() || self.only.iter().any(|only| network::contains(only, remote));
        let managed = |index: usize| self.links.get(index).is_some_and(|link| link.capacity.is_some());
        foreign && asked_for && self.link_between(local, remote).is_some_and(managed)
    }

    /// The links by which this host receives, one for each own link, with whoever keeps their tables; one for all where
    /// hosts forward. None where it is not known by which link what arrives.
    pub fn ingresses(&self) -> Vec<Hop> {
        (0..self.links.len()).filter_map(|at| self.ingress(at)).collect()
    }

    /// The link by which this host receives on an own link.
    pub fn ingress(&self, at: usize) -> Option<Hop> {
        let link = self.links.get(at)?;
        let (topology, node) = (self.topology.as_ref()?, self.node?);
        if self.forwards() {
            let capacity = topology.receiving_rate(node).payload();
            return (at == 0).then_some(Hop { link: link.ingress, capacity, holder: self.keeper() });
        }
        let back = topology.back(node, at).filter(|_| self.has_rails());
        if self.nic_mode() {
            // Other hosts know only of the first, if they cannot tell the cards apart.
            let capacity = back.map(|link| topology.links[link].capacity.payload()).or(link.capacity)?;
            return (at == 0 || back.is_some()).then_some(Hop { link: link.ingress, capacity, holder: self.keeper() });
        }
        self.switch_hop(topology, back?)
    }

    /// Where the daemon of a host answers in `nic` mode.
    pub fn exchange_address(&self, host: HolderId) -> Option<SocketAddr> {
        let topology = self.topology.as_ref()?;
        let name = self.names.get(&HostId(host.0))?;
        let address = topology.exchange_address(topology.node(name)?, &self.peer_networks)?;
        Some(SocketAddr::new(address, self.peer_port?))
    }

    fn ends(&self, to: HostId) -> Option<(&Topology, usize, usize)> {
        let topology = self.topology.as_deref()?;
        let to = topology.node(self.names.get(&to)?)?;
        Some((topology, self.node?, to))
    }
}

/// The interfaces whose traffic is managed: the named ones; else, where the node has so many addresses, those that carry the
/// first of them, one for each of its cables; else the one with its first address, else every one that looks like a card.
fn selected<'a>(config: &Config, interfaces: &'a [Interface], own: &[IpNet], cables: usize) -> Vec<&'a Interface> {
    let by_name = |name: &String| interfaces.iter().find(|interface| interface.name == *name);
    if !config.links.is_empty() {
        return config.links.iter().filter_map(|link| by_name(&link.name)).take(16).collect();
    }
    if config.capture.interfaces.iter().any(|name| name.name().is_some()) {
        return config.capture.interfaces.iter().filter_map(Named::name).filter_map(by_name).take(16).collect();
    }
    let carries = |own: &IpNet| {
        let has = |interface: &&Interface| interface.addresses.iter().any(|address| network::contains(own, *address));
        interfaces.iter().find(has)
    };
    let first = own.first().and_then(carries);
    let alike =
        own.iter().filter(|net| own.first().is_some_and(|first| first.addr().is_ipv4() == net.addr().is_ipv4()));
    let mut rails: Vec<&Interface> = alike.take(cables.min(16)).filter_map(carries).collect();
    rails.dedup_by_key(|interface| &interface.name);
    if cables > 1 && rails.len() == cables {
        return rails;
    }
    if let Some(interface) = first {
        return vec![interface];
    }
    interfaces.iter().filter(|interface| interface.looks_physical()).take(16).collect()
}

#[cfg(test)]
mod tests;
