//! The scenario's network in the product's words: ids of hosts, holders, links and flows, and the path a daemon knows.
//!
//! In production ids are hashes of names; here they are node indices plus one, so that no two collide and a message finds
//! its way back. A daemon knows the topology but not which of several equal-cost paths a connection took, so a path is
//! the links that all shortest paths share; where the scenario gives the path, or hosts are to know it, it is that one.

use std::collections::HashMap;

use sluice_scenario::route::next_hops;
use sluice_scenario::scheduler::SluiceOptions;
use sluice_scenario::{LinkIx, NodeIx, Scenario, Tables};
use sluice_schedule::{FlowId, HolderId, Hop, HostId, LinkId};

use crate::world::{Flow, FlowIx};

const MAX_PATHS: usize = 1 << 20;

/// Ids of hosts and links, who keeps the tables of which, and the paths between hosts.
#[derive(Debug)]
pub(super) struct Fabric {
    pub tables: Tables,
    hosts: usize,
    known_routes: bool,
    paths: HashMap<(Option<LinkIx>, Option<LinkIx>), Vec<Hop>>,
    links: Vec<LinkId>,
}

pub(super) fn host_id(node: usize) -> HostId {
    HostId(u32::try_from(node + 1).unwrap_or(u32::MAX))
}

/// A node as keeper of tables.
pub(super) fn holder_id(node: usize) -> HolderId {
    host_id(node).holder()
}

/// The node behind an id.
pub(super) fn node_of(id: u32) -> usize {
    (id as usize).saturating_sub(1)
}

/// A flow by its sender and its place in the world.
pub(super) fn flow_id(sender: usize, flow: FlowIx) -> FlowId {
    FlowId(u64::from(host_id(sender).0) << 32 | (flow.0 as u64 & 0xffff_ffff))
}

/// The place in the world of a flow.
pub(super) fn flow_ix(id: FlowId) -> FlowIx {
    FlowIx((id.0 & 0xffff_ffff) as usize)
}

impl Fabric {
    /// The network of this scenario.
    pub fn new(scenario: &Scenario, options: &SluiceOptions) -> Fabric {
        let (tables, known_routes) = (options.tables, options.known_routes);
        let network = &scenario.network;
        let mut links = vec![LinkId::default(); network.links.len()];
        for node in 0..network.nodes() {
            // A host's ports are numbered as the daemon does it: egress and ingress by turns.
            let step = if network.is_host(NodeIx(node)) { 2 } else { 1 };
            for (port, link) in network.out(NodeIx(node)).iter().enumerate() {
                links[link.0] = LinkId::new(host_id(node).0, (port * step) as u32);
            }
        }
        Fabric { tables, hosts: network.hosts.len(), known_routes, paths: HashMap::new(), links }
    }

    /// Is this node a host?
    pub fn is_host(&self, node: usize) -> bool {
        node < self.hosts
    }

    /// All switches, if they keep the tables.
    pub fn switches(&self, scenario: &Scenario) -> Vec<HolderId> {
        let nodes = if self.tables == Tables::Switch { self.hosts..scenario.network.nodes() } else { 0..0 };
        nodes.map(holder_id).collect()
    }

    /// The id of a link.
    pub fn link(&self, link: LinkIx) -> LinkId {
        self.links.get(link.0).copied().unwrap_or_default()
    }

    /// The links by which a host receives, one for each card, with their keepers.
    pub fn ingress(&self, scenario: &Scenario, host: usize) -> Vec<Hop> {
        let into = scenario.network.out(NodeIx(host)).iter().map(|&out| LinkIx(out.0 ^ 1));
        match self.tables {
            Tables::Nic => into.filter_map(|link| self.nic_ingress(scenario, host, link)).collect(),
            Tables::Switch => {
                into.filter_map(|link| self.hop(scenario, link)).filter(|hop| hop.holder.is_some()).collect()
            }
            Tables::Own => Vec::new(),
        }
    }

    /// The path of a flow as its sender's daemon knows it, the own egress first.
    pub fn path(&mut self, scenario: &Scenario, flow: &Flow) -> Vec<Hop> {
        if self.known_routes && self.tables == Tables::Switch {
            return flow.path.iter().filter_map(|&link| self.hop(scenario, link)).collect();
        }
        // Hosts know by which of its cards a flow leaves one and by which it comes to the other.
        let ends = (flow.path.first().copied(), flow.path.last().copied());
        if let Some(known) = self.paths.get(&ends) {
            return known.clone();
        }
        let common = match scenario.routing.given(flow.src, flow.dst) {
            Some(given) => given.to_vec(),
            None => common(scenario, flow),
        };
        let mut path: Vec<Hop> = Vec::with_capacity(common.len());
        if self.tables != Tables::Switch {
            let egress = flow.path.first().and_then(|&link| self.hop(scenario, link));
            let last = flow.path.last().filter(|_| self.tables == Tables::Nic);
            path.extend(egress.into_iter().chain(last.and_then(|&link| self.nic_ingress(scenario, flow.dst.0, link))));
        } else {
            // Where several own links lead there, the daemon sees by which one the socket sends.
            let own = |link: &LinkIx| scenario.network.link(*link).is_some_and(|l| scenario.network.is_host(l.from));
            let egress = flow.path.first().copied();
            let links = egress.into_iter().chain(common.into_iter().filter(|link| !own(link)));
            path.extend(links.filter_map(|link| self.hop(scenario, link)));
        }
        if self.paths.len() < MAX_PATHS {
            self.paths.insert(ends, path.clone());
        }
        path
    }

    fn nic_ingress(&self, scenario: &Scenario, host: usize, link: LinkIx) -> Option<Hop> {
        let capacity = scenario.network.link(link)?.rate;
        let card = scenario.network.out(NodeIx(host)).iter().position(|out| out.0 ^ 1 == link.0)?;
        Some(Hop { link: LinkId::new(host_id(host).0, 2 * card as u32 + 1), capacity, holder: Some(holder_id(host)) })
    }

    fn hop(&self, scenario: &Scenario, link: LinkIx) -> Option<Hop> {
        let known = scenario.network.link(link)?;
        let holder = (!scenario.network.is_host(known.from)).then(|| holder_id(known.from.0));
        Some(Hop { link: self.link(link), capacity: known.rate, holder })
    }
}

/// The links on every shortest path between the cards that a flow leaves and comes by, in order: those that are alone at
/// their distance.
fn common(scenario: &Scenario, flow: &Flow) -> Vec<LinkIx> {
    let network = &scenario.network;
    let (Some(&first), Some(&last)) = (flow.path.first(), flow.path.last()) else { return Vec::new() };
    let (Some(out), Some(into)) = (network.link(first), network.link(last)) else { return Vec::new() };
    if first == last {
        return vec![first];
    }
    let (mut common, dst) = (vec![first], into.from);
    let nearer = next_hops(network, dst);
    let mut here = vec![out.to];
    for _ in 0..network.nodes() {
        if here.contains(&dst) {
            break;
        }
        let mut links: Vec<LinkIx> = here.iter().filter_map(|node| nearer.get(node.0)).flatten().copied().collect();
        links.sort_unstable();
        links.dedup();
        if let [only] = links[..] {
            common.push(only);
        }
        here = links.iter().filter_map(|&link| network.link(link)).map(|link| link.to).collect();
        here.sort_unstable();
        here.dedup();
        if here.is_empty() {
            break;
        }
    }
    common.push(last);
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_scenario::Notation;

    fn leaf_spine() -> Scenario {
        let text = r#"
            version = 1
            name = "x"
            [network]
            kind = "explicit"
            hosts = [{id = "h0", gpus = 1}, {id = "h1", gpus = 1}, {id = "h2", gpus = 1}]
            switches = [{id = "l0"}, {id = "l1"}, {id = "s0"}, {id = "s1"}]
            links = [{a = "h0", b = "l0", gbps = 10}, {a = "h1", b = "l0", gbps = 10}, {a = "h2", b = "l1", gbps = 10},
                {a = "l0", b = "s0", gbps = 10}, {a = "l0", b = "s1", gbps = 10}, {a = "l1", b = "s0", gbps = 10},
                {a = "l1", b = "s1", gbps = 10}]
            [[jobs]]
            id = "a"
            bytes = 1000
            compute_s = 1
            arch = "ring"
            workers = 2
            iterations = 1
            [scheduler]
            name = "sluice"
        "#;
        Scenario::parse(text, Notation::Toml, "x.toml", std::path::Path::new(".")).expect("a good scenario")
    }

    fn fabric(scenario: &Scenario, tables: Tables, known_routes: bool) -> Fabric {
        Fabric::new(scenario, &SluiceOptions { tables, known_routes, ..SluiceOptions::default() })
    }

    fn flow(scenario: &Scenario, src: usize, dst: usize) -> Flow {
        let (src, dst) = (NodeIx(src), NodeIx(dst));
        Flow { src, dst, path: scenario.path("a", "ring0", src, dst).unwrap_or_default(), ..Flow::default() }
    }

    #[test]
    fn a_path_has_the_links_that_every_equal_path_has() {
        let scenario = leaf_spine();
        let mut fabric = fabric(&scenario, Tables::Switch, false);
        let inside = fabric.path(&scenario, &flow(&scenario, 0, 1));
        let holders: Vec<_> = inside.iter().map(|hop| hop.holder.map(|h| node_of(h.0))).collect();
        assert_eq!(holders, [None, Some(3)], "own egress, leaf to host");
        let across = fabric.path(&scenario, &flow(&scenario, 0, 2));
        let holders: Vec<_> = across.iter().map(|hop| hop.holder.map(|h| node_of(h.0))).collect();
        assert_eq!(holders, [None, Some(4)], "which spine is not known");
        assert_eq!(fabric.ingress(&scenario, 2).first().map(|hop| hop.link), across.last().map(|hop| hop.link));
        let told = super::tests::fabric(&scenario, Tables::Switch, true).path(&scenario, &flow(&scenario, 0, 2));
        let holders: Vec<_> = told.iter().map(|hop| hop.holder.map(|h| node_of(h.0))).collect();
        assert!(
            holders == [None, Some(3), Some(5), Some(4)] || holders == [None, Some(3), Some(6), Some(4)],
            "{holders:?}"
        );
    }

    #[test]
    fn hosts_keep_their_own_ingress_without_switches() {
        let scenario = leaf_spine();
        let mut fabric = fabric(&scenario, Tables::Nic, false);
        let path = fabric.path(&scenario, &flow(&scenario, 0, 2));
        assert_eq!(path.len(), 2);
        assert_eq!(path[0].link, LinkId::egress(host_id(0)));
        assert_eq!((path[1].link, path[1].holder), (LinkId::ingress(host_id(2)), Some(holder_id(2))));
        assert_eq!(fabric.ingress(&scenario, 2), [path[1]]);
    }
}
