//! The scenario's network in the product's words: ids of hosts, holders, links and flows, and the path a daemon knows.
//!
//! In production ids are hashes of names; here they are node indices plus one, so that no two collide and a message finds
//! its way back. A daemon knows the topology but not which of several equal-cost paths a connection took, so a path is
//! the links that all shortest paths share, and those that switches have told; where the scenario gives the path, or hosts
//! are to know it, it is that one.

use std::collections::HashMap;
use std::net::SocketAddr;

use sluice_scenario::route::next_hops;
use sluice_scenario::scheduler::SluiceOptions;
use sluice_scenario::{LinkIx, NodeIx, Scenario, Tables};
use sluice_schedule::{Connection, FlowId, HolderId, Hop, HostId, LinkId};

use crate::world::{Flow, FlowIx};

const MAX_WAYS: usize = 1 << 20;

/// Ids of hosts and links, who keeps the tables of which, and the paths between hosts.
#[derive(Debug)]
pub(super) struct Fabric {
    pub tables: Tables,
    hosts: usize,
    known_routes: bool,
    learned_routes: bool,
    ways: HashMap<Ends, Way>,
    /// The links that switches told a flow's sender, at most one of each switch.
    learned: HashMap<FlowIx, Vec<LinkIx>>,
    links: Vec<LinkId>,
}

/// What a way depends on: the first link, the last and those that were learned.
type Ends = (Option<LinkIx>, Option<LinkIx>, Vec<LinkIx>);

/// What a daemon knows of a flow's way.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub path: Vec<Hop>,
    /// The switches that it can ask for more.
    pub forks: Vec<HolderId>,
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

/// What a flow's packets would show: addresses by node, ports by flow.
pub(super) fn connection(at: FlowIx, flow: &Flow) -> Connection {
    let end = |node: NodeIx, port| SocketAddr::from((((10_u32 << 24) + host_id(node.0).0).to_be_bytes(), port));
    Connection { source: end(flow.src, 32_768 | at.0 as u16), destination: end(flow.dst, 9_000), protocol: 6 }
}

impl Fabric {
    /// The network of this scenario.
    pub fn new(scenario: &Scenario, options: &SluiceOptions) -> Fabric {
        let SluiceOptions { tables, known_routes, learned_routes, .. } = *options;
        let network = &scenario.network;
        let mut links = vec![LinkId::default(); network.links.len()];
        for node in 0..network.nodes() {
            // A host's ports are numbered as the daemon does it: egress and ingress by turns.
            let step = if network.is_host(NodeIx(node)) { 2 } else { 1 };
            for (port, link) in network.out(NodeIx(node)).iter().enumerate() {
                links[link.0] = LinkId::new(host_id(node).0, (port * step) as u32);
            }
        }
        let (ways, learned) = (HashMap::new(), HashMap::new());
        Fabric { tables, hosts: network.hosts.len(), known_routes, learned_routes, ways, learned, links }
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

    /// The way of a flow as its sender's daemon knows it, the own egress first.
    pub fn way(&mut self, scenario: &Scenario, at: FlowIx, flow: &Flow) -> Way {
        if self.known_routes && self.tables == Tables::Switch {
            let path = flow.path.iter().filter_map(|&link| self.hop(scenario, link)).collect();
            return Way { path, forks: Vec::new() };
        }
        // Hosts know by which of its cards a flow leaves one and by which it comes to the other.
        let learned = self.learned.get(&at).cloned().unwrap_or_default();
        let ends = (flow.path.first().copied(), flow.path.last().copied(), learned);
        if let Some(known) = self.ways.get(&ends) {
            return known.clone();
        }
        let (common, forks) = match scenario.routing.given(flow.src, flow.dst) {
            Some(given) => (given.to_vec(), Vec::new()),
            None => common(scenario, flow, &ends.2),
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
        let way = Way { path, forks: if self.learned_routes { forks } else { Vec::new() } };
        if self.ways.len() < MAX_WAYS {
            self.ways.insert(ends, way.clone());
        }
        way
    }

    /// A switch has told a flow's sender by which of its links the flow goes; `None`: that is not known any more.
    pub fn learn(&mut self, scenario: &Scenario, at: FlowIx, switch: usize, link: Option<LinkId>) {
        let out = scenario.network.out(NodeIx(switch));
        let learned = self.learned.entry(at).or_default();
        learned.retain(|known| !out.contains(known));
        learned.extend(out.iter().copied().find(|&known| Some(self.links[known.0]) == link));
        learned.sort_unstable();
    }

    /// A flow is gone.
    pub fn forget(&mut self, at: FlowIx) {
        self.learned.remove(&at);
    }

    /// By which of its links a switch sends a flow on.
    pub fn route(&self, scenario: &Scenario, switch: usize, flow: &Flow) -> Option<LinkId> {
        let leaves = |link: &&LinkIx| scenario.network.link(**link).is_some_and(|link| link.from.0 == switch);
        flow.path.iter().find(leaves).map(|&link| self.link(link))
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

/// The links on every shortest path between the cards that a flow leaves and comes by, and goes on by where that was
/// learned, in order: those that are alone at their distance. Then the switches on the way that have several.
fn common(scenario: &Scenario, flow: &Flow, learned: &[LinkIx]) -> (Vec<LinkIx>, Vec<HolderId>) {
    let network = &scenario.network;
    let (Some(&first), Some(&last)) = (flow.path.first(), flow.path.last()) else { return Default::default() };
    let (Some(out), Some(into)) = (network.link(first), network.link(last)) else { return Default::default() };
    if first == last {
        return (vec![first], Vec::new());
    }
    let (mut common, mut forks, dst) = (vec![first], Vec::new(), into.from);
    let nearer = next_hops(network, dst);
    let mut here = vec![out.to];
    for _ in 0..network.nodes() {
        if here.contains(&dst) {
            break;
        }
        let mut links: Vec<LinkIx> = here.iter().filter_map(|node| nearer.get(node.0)).flatten().copied().collect();
        links.sort_unstable();
        links.dedup();
        if let ([node], [_, _, ..]) = (&here[..], &links[..]) {
            forks.push(holder_id(node.0));
            if let Some(&told) = links.iter().find(|link| learned.contains(link)) {
                links = vec![told];
            }
        }
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
    (common, forks)
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
        let inside = fabric.way(&scenario, FlowIx(0), &flow(&scenario, 0, 1)).path;
        let holders: Vec<_> = inside.iter().map(|hop| hop.holder.map(|h| node_of(h.0))).collect();
        assert_eq!(holders, [None, Some(3)], "own egress, leaf to host");
        let sent = flow(&scenario, 0, 2);
        let across = fabric.way(&scenario, FlowIx(0), &sent).path;
        let holders: Vec<_> = across.iter().map(|hop| hop.holder.map(|h| node_of(h.0))).collect();
        assert_eq!(holders, [None, Some(4)], "which spine is not known");
        assert_eq!(fabric.ingress(&scenario, 2).first().map(|hop| hop.link), across.last().map(|hop| hop.link));
        let told = super::tests::fabric(&scenario, Tables::Switch, true).way(&scenario, FlowIx(0), &sent).path;
        let holders: Vec<_> = told.iter().map(|hop| hop.holder.map(|h| node_of(h.0))).collect();
        assert!(
            holders == [None, Some(3), Some(5), Some(4)] || holders == [None, Some(3), Some(6), Some(4)],
            "{holders:?}"
        );
    }

    #[test]
    fn what_a_switch_tells_closes_the_gap_until_it_is_forgotten() {
        let scenario = leaf_spine();
        let options = SluiceOptions { learned_routes: true, ..SluiceOptions::default() };
        let (mut fabric, sent) = (Fabric::new(&scenario, &options), flow(&scenario, 0, 2));
        let way = fabric.way(&scenario, FlowIx(0), &sent);
        assert_eq!((way.path.len(), way.forks), (2, vec![holder_id(3)]), "the leaf can be asked");
        let told = fabric.route(&scenario, 3, &sent);
        fabric.learn(&scenario, FlowIx(0), 3, told);
        let way = fabric.way(&scenario, FlowIx(0), &sent);
        let links: Vec<LinkId> = way.path.iter().map(|hop| hop.link).collect();
        assert_eq!(links, sent.path.iter().map(|&link| fabric.link(link)).collect::<Vec<_>>());
        assert_eq!(way.forks, [holder_id(3)], "it is asked again");
        assert_eq!(fabric.way(&scenario, FlowIx(1), &sent).path.len(), 2, "another flow");
        fabric.learn(&scenario, FlowIx(0), 3, Some(LinkId::new(holder_id(3).0, 77)));
        assert_eq!(fabric.way(&scenario, FlowIx(0), &sent).path.len(), 2, "no link of that switch");
    }

    #[test]
    fn hosts_keep_their_own_ingress_without_switches() {
        let scenario = leaf_spine();
        let mut fabric = fabric(&scenario, Tables::Nic, false);
        let path = fabric.way(&scenario, FlowIx(0), &flow(&scenario, 0, 2)).path;
        assert_eq!(path.len(), 2);
        assert_eq!(path[0].link, LinkId::egress(host_id(0)));
        assert_eq!((path[1].link, path[1].holder), (LinkId::ingress(host_id(2)), Some(holder_id(2))));
        assert_eq!(fabric.ingress(&scenario, 2), [path[1]]);
    }
}
