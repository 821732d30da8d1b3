//! The ports of switches out of a `topology.json`: the part of that format a table holder needs.
//!
//! A switch's port number is the place of the link among the links that leave the switch, in file order; hosts count the
//! same way.

use std::collections::VecDeque;
use std::path::Path;

use ipnet::IpNet;
use sluice_formats::problem::Problems;
use sluice_formats::topology::{self, Kind};
use sluice_schedule::Rate;
use sluice_wire::attach::Places;

use super::PortConfig;

/// Entries of the table of distances at most; a larger fabric has no routes for the UDP format.
const MAX_DISTANCES: usize = 64 << 20;

/// A link that leaves a node.
struct Port {
    to: usize,
    wire: Rate,
}

/// A host as the switches see it.
struct Destination {
    networks: Vec<IpNet>,
    /// Links from each node to the host; `u32::MAX`: none leads there.
    distance: Vec<u32>,
}

/// A directed graph with the addresses of its hosts.
pub struct Topology {
    file: topology::Topology,
    out: Vec<Vec<Port>>,
    hosts: Vec<Destination>,
}

impl Topology {
    pub fn load(path: &Path) -> Result<Topology, Problems> {
        let file = topology::Topology::load(path)?;
        file.with_rates(&path.display().to_string())?;
        Ok(Topology::new(file))
    }

    fn new(file: topology::Topology) -> Topology {
        let mut out: Vec<Vec<Port>> = file.nodes().iter().map(|_| Vec::new()).collect();
        for link in file.links() {
            let wire = link.capacity.bits_per_second().map_or(Rate::MAX, Rate);
            out[link.from].push(Port { to: link.to, wire });
        }
        let hosts = destinations(&file);
        Topology { file, out, hosts }
    }

    /// Where its hosts are attached.
    pub fn places(&self) -> Places {
        Places::of(&self.file)
    }

    /// The ports of a switch, if there is one of this name.
    pub fn ports(&self, switch: &str) -> Option<Vec<PortConfig>> {
        let at = self.file.node(switch).filter(|node| self.file.nodes()[*node].kind == Kind::Switch)?;
        let port = |(id, port): (usize, &Port)| {
            let nearer = |host: &&Destination| {
                host.distance[at] != u32::MAX && host.distance[port.to].checked_add(1) == Some(host.distance[at])
            };
            let routes = self.hosts.iter().filter(nearer).flat_map(|host| host.networks.iter().copied());
            let to = self.file.nodes()[port.to].id.to_string();
            PortConfig { id: id as u32, to, wire: port.wire, background: Rate::ZERO, routes: routes.collect() }
        };
        Some(self.out[at].iter().enumerate().map(port).collect())
    }
}

/// The hosts' addresses and how far every node is from each of them, counted in links.
fn destinations(file: &topology::Topology) -> Vec<Destination> {
    let nodes = file.nodes();
    let hosts = || nodes.iter().enumerate().filter(|(_, node)| node.kind == Kind::Host);
    if hosts().count().saturating_mul(nodes.len()) > MAX_DISTANCES {
        return Vec::new();
    }
    let mut into = vec![Vec::new(); nodes.len()];
    file.links().iter().for_each(|link| into[link.to].push(link.from));
    let destination = |(at, node): (usize, &topology::Node)| {
        let mut distance = vec![u32::MAX; nodes.len()];
        distance[at] = 0;
        let mut queue = VecDeque::from([at]);
        while let Some(here) = queue.pop_front() {
            for &from in &into[here] {
                // Hosts do not forward.
                if distance[from] == u32::MAX && nodes[from].kind != Kind::Host {
                    distance[from] = distance[here] + 1;
                    queue.push_back(from);
                }
            }
        }
        Destination { networks: node.networks.clone(), distance }
    };
    hosts().map(destination).collect()
}

#[cfg(test)]
mod tests {
    use sluice_formats::network;

    use super::*;

    #[test]
    fn ports_count_the_links_that_leave_and_route_by_distance() {
        let text = r#"{ "sluice_topology": 1, "name": "t", "nodes": [
            {"id": "h0", "kind": "host", "addresses": ["10.0.0.1"]}, {"id": "h1", "kind": "host", "addresses": ["10.0.0.2"]},
            {"id": "s0", "kind": "switch"}, {"id": "s1", "kind": "switch"}],
          "links": [ {"from": "h0", "to": "s0", "capacity": "1Gbit/s", "duplex": true},
            {"from": "h1", "to": "s1", "capacity": "1/2 Gbit/s", "duplex": true},
            {"from": "s0", "to": "s1", "capacity": "1GB/s", "duplex": true, "count": 2} ] }"#;
        let topology = Topology::new(topology::Topology::read(text.as_bytes(), "t.json").unwrap());
        let ports = topology.ports("s0").unwrap();
        assert_eq!(ports.iter().map(|p| (p.id, p.to.as_str())).collect::<Vec<_>>(), [(0, "h0"), (1, "s1"), (2, "s1")]);
        assert_eq!(ports[1].wire, Rate::mbps(8000));
        let far = "10.0.0.2".parse().unwrap();
        let leads = |port: &PortConfig| port.routes.iter().any(|route| network::contains(route, far));
        assert_eq!(ports.iter().map(leads).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(topology.ports("s1").unwrap()[0].wire, Rate::mbps(500));
        assert!(topology.ports("h0").is_none());
    }
}
