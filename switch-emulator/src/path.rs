//! Which of this process's switches a flow passes: what forwarding does in the fabric, followed here by the ports' routes.
//!
//! Longest prefix first; among equally good ports the flow's 5-tuple chooses, as in ECMP. The first switch is the one
//! whose port leads to the flow's source; if no port says so, the only switch there is.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_formats::network;
use sluice_schedule::{HolderId, LinkId, units::fnv1a32};
use sluice_wire::udp::Tuple;

use crate::config::SwitchConfig;

/// Switches on one path at most.
const HOPS: usize = 16;

/// One switch on a path, and the link by which the flow leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the switch in the configuration.
    pub switch: usize,
    pub holder: HolderId,
    pub link: LinkId,
}

/// The routes of all switches.
#[derive(Debug)]
pub struct Paths {
    switches: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    holder: HolderId,
    ports: Vec<Port>,
}

#[derive(Debug)]
struct Port {
    link: LinkId,
    next: Option<usize>,
    routes: Vec<IpNet>,
}

impl Paths {
    pub fn new(switches: &[SwitchConfig]) -> Paths {
        let index: HashMap<&str, usize> = switches.iter().enumerate().map(|(at, s)| (s.name.as_str(), at)).collect();
        let node = |switch: &SwitchConfig| {
            let ports = switch.ports.iter().map(|port| Port {
                link: switch.link(port),
                next: index.get(port.to.as_str()).copied(),
                routes: port.routes.clone(),
            });
            Node { holder: switch.holder(), ports: ports.collect() }
        };
        Paths { switches: switches.iter().map(node).collect() }
    }

    /// The switches a flow passes, in order.
    pub fn of(&self, tuple: &Tuple) -> Vec<Hop> {
        let mut hops = Vec::new();
        let mut here = self.entry(tuple.source.into());
        while let Some(at) = here.filter(|at| hops.iter().all(|hop: &Hop| hop.switch != *at) && hops.len() < HOPS) {
            let node = &self.switches[at];
            let Some(port) = best(&node.ports, tuple.destination.into(), hash(tuple)) else { break };
            hops.push(Hop { switch: at, holder: node.holder, link: port.link });
            here = port.next;
        }
        hops
    }

    fn entry(&self, source: IpAddr) -> Option<usize> {
        let attached = |node: &Node| {
            let ports = node.ports.iter().filter(|port| port.next.is_none());
            ports.filter_map(|port| prefix(port, source)).max()
        };
        let best = self.switches.iter().enumerate().filter_map(|(at, node)| Some((attached(node)?, at)));
        let only = (self.switches.len() == 1).then_some(0);
        best.max_by_key(|(prefix, _)| *prefix).map(|(_, at)| at).or(only)
    }
}

fn prefix(port: &Port, address: IpAddr) -> Option<u8> {
    port.routes.iter().filter(|route| network::contains(route, address)).map(IpNet::prefix_len).max()
}

fn best(ports: &[Port], destination: IpAddr, hash: u32) -> Option<&Port> {
    let longest = ports.iter().filter_map(|port| prefix(port, destination)).max()?;
    let equal: Vec<&Port> = ports.iter().filter(|port| prefix(port, destination) == Some(longest)).collect();
    equal.get(hash as usize % equal.len().max(1)).copied()
}

fn hash(tuple: &Tuple) -> u32 {
    let mut bytes = [0; 13];
    bytes[..4].copy_from_slice(&tuple.source.octets());
    bytes[4..8].copy_from_slice(&tuple.destination.octets());
    bytes[8..10].copy_from_slice(&tuple.source_port.to_be_bytes());
    bytes[10..12].copy_from_slice(&tuple.destination_port.to_be_bytes());
    bytes[12] = tuple.protocol;
    fnv1a32(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PortConfig;
    use sluice_schedule::Rate;

    fn switch(name: &str, ports: &[(u32, &str, &[&str])]) -> SwitchConfig {
        let port = |(id, to, routes): &(u32, &str, &[&str])| PortConfig {
            id: *id,
            to: (*to).into(),
            wire: Rate::mbps(1000),
            background: Rate::ZERO,
            routes: routes.iter().map(|route| network::parse(route).unwrap()).collect(),
        };
        SwitchConfig { name: name.into(), ports: ports.iter().map(port).collect(), interfaces: vec![] }
    }

    fn tuple(source: &str, destination: &str, source_port: u16) -> Tuple {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Tuple { source, destination, source_port, destination_port: 1, protocol: 6, cookie: 0 }
    }

    #[test]
    fn a_flow_is_followed_through_leaf_and_spine() {
        let up: &[&str] = &["0.0.0.0/0"];
        let paths = Paths::new(&[
            switch("leaf0", &[(0, "h0", &["10.0.0.1"]), (1, "spine0", up), (2, "spine1", up)]),
            switch("leaf1", &[(0, "h1", &["10.0.1.1"]), (1, "spine0", up), (2, "spine1", up)]),
            switch("spine0", &[(0, "leaf0", &["10.0.0.0/24"]), (1, "leaf1", &["10.0.1.0/24"])]),
            switch("spine1", &[(0, "leaf0", &["10.0.0.0/24"]), (1, "leaf1", &["10.0.1.0/24"])]),
        ]);
        let switches = |t: &Tuple| paths.of(t).iter().map(|hop| hop.switch).collect::<Vec<_>>();
        let taken: Vec<_> = (0..32).map(|port| switches(&tuple("10.0.0.1", "10.0.1.1", port))).collect();
        assert!(taken.contains(&vec![0, 2, 1]) && taken.contains(&vec![0, 3, 1]), "{taken:?}");
        assert!(taken.iter().all(|path| path.len() == 3));
        assert_eq!(paths.of(&tuple("10.0.0.1", "10.0.1.1", 5)), paths.of(&tuple("10.0.0.1", "10.0.1.1", 5)));
        assert!(paths.of(&tuple("10.9.0.1", "10.0.1.1", 5)).is_empty());
    }

    #[test]
    fn a_loop_of_routes_ends() {
        let paths = Paths::new(&[
            switch("a", &[(0, "b", &["0.0.0.0/0"]), (1, "h", &["10.0.0.1"])]),
            switch("b", &[(0, "a", &["0.0.0.0/0"])]),
        ]);
        assert_eq!(paths.of(&tuple("10.0.0.1", "10.0.9.9", 5)).len(), 2);
    }
}
