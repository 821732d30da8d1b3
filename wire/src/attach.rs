//! Where hosts are attached, by the topology: from which addresses each may speak, how much it can send at all, and which
//! links lie on its ways.
//!
//! Ways are the shortest ones that pass no other host, and those that the file gives. They are worked out once, when the file
//! is read; hosts with the same neighbours share them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_formats::network;
use sluice_formats::topology::{Kind, Topology};
use sluice_schedule::switch::{Attached, Attachment};
use sluice_schedule::{HolderId, HostId, LinkId, Rate};

/// Distances that are worked out at most; in a larger fabric every link counts as one on everybody's way.
const MAX_DISTANCES: usize = 64 << 20;
/// Nothing leads there.
const NOWHERE: u32 = u32::MAX;

/// The hosts of a topology, with what each may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    hosts: BTreeMap<HostId, Place>,
    /// Single addresses, and whose they are.
    by_address: HashMap<IpAddr, HostId>,
    /// Ranges, the narrowest first.
    by_network: Vec<(IpNet, HostId)>,
    /// Of each group of hosts with the same neighbours the distance of every node.
    groups: Vec<Vec<u32>>,
    /// The links that leave each switch, in order of their ports.
    leaving: HashMap<HolderId, Leaving>,
}

#[derive(Clone, Debug, PartialEq)]
struct Place {
    node: usize,
    name: String,
    /// Payload.
    access: Rate,
    /// `None`: its ways are not worked out.
    group: Option<usize>,
    /// Links of the ways that the file gives.
    given: Vec<LinkId>,
}

/// The links that leave a switch.
#[derive(Clone, Debug, PartialEq)]
struct Leaving {
    node: usize,
    to: Vec<usize>,
}

impl Places {
    /// What a topology with rates says.
    pub fn of(topology: &Topology) -> Places {
        let nodes = topology.nodes();
        let mut out: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        let (mut access, mut port) = (vec![Rate::ZERO; nodes.len()], Vec::with_capacity(topology.links().len()));
        for link in topology.links() {
            let rate = link.capacity.bits_per_second().map_or(Rate::MAX, Rate).payload();
            access[link.from] = access[link.from].plus(rate);
            port.push(u32::try_from(out[link.from].len()).unwrap_or(u32::MAX));
            out[link.from].push(link.to);
        }
        let is_host = |node: usize| nodes[node].kind == Kind::Host;
        let mut places = Places::default();
        let hosts: Vec<usize> = (0..nodes.len()).filter(|node| is_host(*node)).collect();
        let mut groups: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for &node in &hosts {
            let mut neighbours = out[node].clone();
            neighbours.sort_unstable();
            neighbours.dedup();
            let next = groups.len();
            let group = *groups.entry(neighbours).or_insert(next);
            let name = nodes[node].id.to_string();
            let place = Place { node, name, access: access[node], group: Some(group), given: Vec::new() };
            let id = HostId::of(&nodes[node].id);
            places.hosts.insert(id, place);
            for known in &nodes[node].networks {
                match network::single(known) {
                    Some(address) => _ = places.by_address.insert(address.to_canonical(), id),
                    None => places.by_network.push((*known, id)),
                }
            }
        }
        places.by_network.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        if groups.len().saturating_mul(nodes.len()) <= MAX_DISTANCES {
            let mut distances: Vec<Vec<u32>> = vec![Vec::new(); groups.len()];
            for (neighbours, group) in &groups {
                distances[*group] = from(neighbours, &out, is_host);
            }
            places.groups = distances;
        } else {
            places.hosts.values_mut().for_each(|place| place.group = None);
        }
        for route in topology.routes() {
            let given = route.links.iter().filter_map(|link| {
                let (of, port) = (topology.links().get(*link)?.from, *port.get(*link)?);
                (nodes[of].kind == Kind::Switch).then(|| LinkId::new(HolderId::of(&nodes[of].id).0, port))
            });
            let given: Vec<LinkId> = given.collect();
            let id = nodes.get(route.src).map(|node| HostId::of(&node.id));
            if let Some(place) = id.and_then(|id| places.hosts.get_mut(&id)) {
                place.given.extend(given);
            }
        }
        for (node, of) in nodes.iter().enumerate().filter(|(_, node)| node.kind == Kind::Switch) {
            places.leaving.insert(HolderId::of(&of.id), Leaving { node, to: out[node].clone() });
        }
        places
    }

    /// The host that has this address.
    pub fn at(&self, address: IpAddr) -> Option<HostId> {
        let address = address.to_canonical();
        let exact = self.by_address.get(&address).copied();
        exact.or_else(|| {
            self.by_network.iter().find(|(network, _)| network::contains(network, address)).map(|(_, host)| *host)
        })
    }

    /// Is this host in the topology?
    pub fn has(&self, host: HostId) -> bool {
        self.hosts.contains_key(&host)
    }

    /// Has any host an address here?
    pub fn has_addresses(&self) -> bool {
        !self.by_address.is_empty() || !self.by_network.is_empty()
    }

    /// The name of a host.
    pub fn name(&self, host: HostId) -> Option<&str> {
        self.hosts.get(&host).map(|place| place.name.as_str())
    }

    /// What a holder of the tables of this switch has to know of all hosts.
    pub fn seen_from(&self, switch: HolderId) -> Attached {
        let leaving = self.leaving.get(&switch);
        let mut shared: HashMap<usize, Arc<[LinkId]>> = HashMap::new();
        let place = |place: &Place| {
            let reach = leaving.zip(place.group).map(|(leaving, group)| {
                let own = leaving.to.contains(&place.node) || !place.given.is_empty();
                if own {
                    return self.reach(switch, leaving, group, Some(place));
                }
                shared.entry(group).or_insert_with(|| self.reach(switch, leaving, group, None)).clone()
            });
            Attachment { access: place.access, reach }
        };
        let mut place = place;
        Attached { hosts: self.hosts.iter().map(|(id, host)| (*id, place(host))).collect(), others: false }
    }

    /// What whoever keeps other tables has to know: how much each host can send.
    pub fn anywhere(&self) -> Attached {
        let place = |place: &Place| Attachment { access: place.access, reach: None };
        Attached { hosts: self.hosts.iter().map(|(id, host)| (*id, place(host))).collect(), others: false }
    }

    /// The links of a switch that lead away from a group of hosts, sorted.
    fn reach(&self, switch: HolderId, leaving: &Leaving, group: usize, of: Option<&Place>) -> Arc<[LinkId]> {
        let distance = |node: usize| self.groups.get(group).and_then(|all| all.get(node)).copied().unwrap_or(NOWHERE);
        let here = distance(leaving.node);
        let own = of.map(|place| place.node);
        let away = leaving
            .to
            .iter()
            .enumerate()
            .filter(|(_, to)| here != NOWHERE && here.checked_add(1) == Some(distance(**to)) && Some(**to) != own);
        let mut links: Vec<LinkId> =
            away.map(|(port, _)| LinkId::new(switch.0, u32::try_from(port).unwrap_or(u32::MAX))).collect();
        let given = of.into_iter().flat_map(|place| place.given.iter().copied());
        links.extend(given.filter(|link| link.node() == switch.0));
        links.sort_unstable();
        links.dedup();
        links.into()
    }
}

/// The distance of every node from these, by ways that pass no host but at their end.
fn from(begin: &[usize], out: &[Vec<usize>], is_host: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut distance = vec![NOWHERE; out.len()];
    let mut queue: VecDeque<usize> = VecDeque::new();
    for &node in begin {
        distance[node] = 0;
        queue.push_back(node);
    }
    while let Some(here) = queue.pop_front() {
        if is_host(here) {
            continue;
        }
        for &to in &out[here] {
            if distance[to] == NOWHERE {
                distance[to] = distance[here].saturating_add(1);
                queue.push_back(to);
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two leaves with two hosts each, two spines.
    fn leaf_spine(routes: &str) -> Places {
        let text = format!(
            r#"{{ "sluice_topology": 1, "name": "t", "nodes": [
            {{"id": "h0", "kind": "host", "addresses": ["10.0.0.1", "10.1.0.0/16"]}}, {{"id": "h1", "kind": "host", "addresses": ["10.1.2.3"]}},
            {{"id": "h2", "kind": "host"}}, {{"id": "h3", "kind": "host"}},
            {{"id": "l0", "kind": "switch"}}, {{"id": "l1", "kind": "switch"}}, {{"id": "s0", "kind": "switch"}}, {{"id": "s1", "kind": "switch"}}],
            "links": [
            {{"from": "h0", "to": "l0", "capacity": "10Gbit/s", "duplex": true}}, {{"from": "h1", "to": "l0", "capacity": "10Gbit/s", "duplex": true}},
            {{"from": "h2", "to": "l1", "capacity": "25Gbit/s", "duplex": true}}, {{"from": "h3", "to": "l1", "capacity": "25Gbit/s", "duplex": true}},
            {{"from": "l0", "to": "s0", "capacity": "40Gbit/s", "duplex": true}}, {{"from": "l0", "to": "s1", "capacity": "40Gbit/s", "duplex": true}},
            {{"from": "l1", "to": "s0", "capacity": "40Gbit/s", "duplex": true}}, {{"from": "l1", "to": "s1", "capacity": "40Gbit/s", "duplex": true}},
            {{"from": "s0", "to": "s1", "capacity": "40Gbit/s", "duplex": true}}
            ]{routes} }}"#
        );
        Places::of(&Topology::read(text.as_bytes(), "t.json").expect("valid"))
    }

    fn ports(places: &Places, switch: &str, host: &str) -> Vec<u32> {
        let attached = places.seen_from(HolderId::of(switch));
        let place = attached.hosts.get(&HostId::of(host)).expect("in the topology").clone();
        place.reach.expect("worked out").iter().map(|link| link.port()).collect()
    }

    #[test]
    fn a_host_reaches_what_leads_away_from_it_and_nothing_else() {
        let places = leaf_spine("");
        // Ports of a leaf: its two hosts, then the two spines.
        assert_eq!(ports(&places, "l0", "h0"), [1, 2, 3], "not its own port");
        assert_eq!(ports(&places, "l0", "h1"), [0, 2, 3]);
        assert_eq!(ports(&places, "l0", "h2"), [0, 1], "from the spines down, and not up again");
        assert_eq!(ports(&places, "l1", "h0"), [0, 1]);
        assert_eq!(ports(&places, "s0", "h0"), [1], "to the other leaf, and not back");
        let attached = places.seen_from(HolderId::of("s0"));
        assert_eq!(attached.hosts[&HostId::of("h2")].access, Rate::mbps(25_000).payload());
        assert!(!attached.others);
        let unknown = places.seen_from(HolderId::of("elsewhere"));
        assert!(unknown.hosts.values().all(|place| place.reach.is_none()));
    }

    #[test]
    fn a_way_that_the_file_gives_is_one() {
        let route = r#", "routing": {"kind": "explicit", "paths": [{"src": "h0", "dst": "h2", "via": ["l0", "s0", "s1", "l1"]}]}"#;
        let places = leaf_spine(route);
        assert_eq!(ports(&places, "s0", "h0"), [1, 2], "over the other spine");
        assert_eq!(ports(&places, "s0", "h1"), [1]);
    }

    #[test]
    fn an_address_belongs_to_the_narrowest_that_has_it() {
        let places = leaf_spine("");
        let at = |text: &str| {
            places.at(text.parse().expect("an address")).and_then(|host| places.name(host)).map(str::to_owned)
        };
        assert_eq!(at("10.0.0.1").as_deref(), Some("h0"));
        assert_eq!(at("10.1.9.9").as_deref(), Some("h0"));
        assert_eq!(at("10.1.2.3").as_deref(), Some("h1"));
        assert_eq!(at("::ffff:10.1.2.3").as_deref(), Some("h1"));
        assert_eq!(at("10.2.0.1"), None);
    }
}
