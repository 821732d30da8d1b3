//! Names, ports, addresses and next hops of a fabric, worked out before anything exists. Pure.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use sluice_schedule::Rate;

use super::{FabricError, FabricSpec, delays, route};

/// Address of the management bridge.
pub const MANAGEMENT_BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 1);
/// The network of all management addresses.
pub const MANAGEMENT_NETWORK: &str = "10.255.0.0/16";
/// The networks of all addresses of hosts' cards, switches and containers.
pub const DATA_NETWORKS: &str = "10.64.0.0/10";
/// Most nodes one machine is asked to carry.
pub const MAX_NODES: usize = 64;

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRef {
    /// The node: hosts first, then switches, in the spec's order.
    pub node: usize,
    /// The port's number at that node, from 0 in cable order.
    pub port: usize,
    /// Its device: `eth0…` at hosts, `p0…` at switches.
    pub device: String,
    /// Its MAC address, six bytes in hexadecimal with colons.
    pub mac: String,
}

/// A directed link: what leaves one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectedLink {
    /// Index of the cable.
    pub cable: usize,
    /// The port it leaves by.
    pub from: PortRef,
    /// The port it arrives at.
    pub to: PortRef,
}

/// A fabric's ports, addresses and routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Node names, hosts first.
    pub nodes: Vec<String>,
    /// How many of them are hosts.
    pub hosts: usize,
    /// Cards of each host with an address of its own.
    pub rails: usize,
    /// Two directed links per cable: 2c is a→b, 2c+1 is b→a.
    pub links: Vec<DirectedLink>,
    /// `next[node][host]`: the directed links that lead one hop nearer, all shortest paths; empty at the host itself.
    pub next: Vec<Vec<Vec<usize>>>,
}

impl Layout {
    /// Works it out.
    ///
    /// # Errors
    /// Names that are double or unknown, rates of zero, more than [`MAX_NODES`] nodes, memories and links of groups that do
    /// not exist, a link in two groups, a delay that cannot be had, routes that are none or disagree, hosts without a way
    /// between them. Where there are neither switches nor routes, only neighbours have one: hosts do not forward, except
    /// those that are memories.
    pub fn of(spec: &FabricSpec) -> Result<Layout, FabricError> {
        let nodes: Vec<String> = spec.hosts.iter().chain(&spec.switches).cloned().collect();
        if spec.hosts.is_empty() || nodes.len() > MAX_NODES {
            return Err(FabricError::Spec(format!(
                "{} hosts and {} switches; allowed are 1 to {MAX_NODES} together, one host at least",
                spec.hosts.len(),
                spec.switches.len()
            )));
        }
        let mut index = BTreeMap::new();
        for (i, name) in nodes.iter().enumerate() {
            if index.insert(name.as_str(), i).is_some() {
                return Err(FabricError::Spec(format!("two nodes are named {name:?}")));
            }
        }
        if !(576..=65_535).contains(&spec.mtu) {
            return Err(FabricError::Spec(format!("mtu = {}; allowed are 576 to 65535", spec.mtu)));
        }
        let mut ports = vec![0_usize; nodes.len()];
        let mut links = Vec::with_capacity(spec.cables.len() * 2);
        for (c, cable) in spec.cables.iter().enumerate() {
            let mut end = |name: &str, side: u8| -> Result<PortRef, FabricError> {
                let node = *index.get(name).ok_or_else(|| {
                    FabricError::Spec(format!("cable {c} ends at {name:?}, which is neither a host nor a switch"))
                })?;
                let port = ports[node];
                ports[node] += 1;
                let prefix = if node < spec.hosts.len() { "eth" } else { "p" };
                let mac = format!("02:51:{:02x}:{:02x}:00:{side:02x}", c >> 8 & 0xff, c & 0xff);
                Ok(PortRef { node, port, device: format!("{prefix}{port}"), mac })
            };
            let a = end(&cable.a, 0)?;
            let b = end(&cable.b, 1)?;
            if cable.ab.0 < 8_000 || cable.ba.0 < 8_000 || a.node == b.node {
                return Err(FabricError::Spec(format!(
                    "cable {c} ({}–{}) needs two ends and at least 8 kbit/s each way; it has {} and {}",
                    cable.a, cable.b, cable.ab, cable.ba
                )));
            }
            links.push(DirectedLink { cable: c, from: a.clone(), to: b.clone() });
            links.push(DirectedLink { cable: c, from: b, to: a });
        }
        check_shared(spec, links.len())?;
        delays::check(spec)?;
        let edges: Vec<(usize, usize)> = links.iter().map(|l| (l.from.node, l.to.node)).collect();
        let forwards = |node: usize| node >= spec.hosts.len() || spec.memories.contains(&node);
        let next = if spec.routes.is_empty() {
            route::next_hops(nodes.len(), spec.hosts.len(), &edges, forwards)
        } else {
            route::along(nodes.len(), spec.hosts.len(), &edges, &spec.routes).map_err(FabricError::Spec)?
        };
        for (from, to) in (0..spec.hosts.len()).flat_map(|a| (0..spec.hosts.len()).map(move |b| (a, b))) {
            if from != to && !(spec.switches.is_empty() && spec.routes.is_empty()) && next[from][to].is_empty() {
                return Err(FabricError::Spec(format!("no way from {} to {}", nodes[from], nodes[to])));
            }
        }
        check_rails(spec, &ports, &links)?;
        Ok(Layout { nodes, hosts: spec.hosts.len(), rails: spec.rails, links, next })
    }

    /// Address of host `i` on the data network.
    pub fn host_address(&self, i: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, (i / 250) as u8, (i % 250 + 1) as u8)
    }

    /// Address of a card of host `i`, the first of which is the host's.
    pub fn rail_address(&self, i: usize, rail: usize) -> Ipv4Addr {
        let [_, _, high, low] = self.host_address(i).octets();
        if rail == 0 { self.host_address(i) } else { Ipv4Addr::new(10, 80 + rail as u8, high, low) }
    }

    /// The addresses of all cards of host `i`, if it has several.
    pub fn rails_of(&self, i: usize) -> Vec<Ipv4Addr> {
        let rails = if self.rails > 1 { self.rails } else { 0 };
        (0..rails).map(|rail| self.rail_address(i, rail)).collect()
    }

    /// Address at a port: of a host's card, or of a switch.
    pub fn port_address(&self, port: &PortRef) -> Ipv4Addr {
        if port.node < self.hosts {
            self.rail_address(port.node, if self.rails > 1 { port.port } else { 0 })
        } else {
            self.address(port.node)
        }
    }

    /// Address of switch `i`, the next hop of its neighbours.
    pub fn switch_address(&self, i: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, (i / 250) as u8, (i % 250 + 1) as u8)
    }

    /// Address of node `i` on the data network, hosts first.
    pub fn address(&self, node: usize) -> Ipv4Addr {
        if node < self.hosts { self.host_address(node) } else { self.switch_address(node - self.hosts) }
    }

    /// A link's name for reports: `h0->s0`, with the cable's number where two nodes share several.
    pub fn link_name(&self, link: usize) -> String {
        let l = &self.links[link];
        let twins = self.links.iter().filter(|o| o.from.node == l.from.node && o.to.node == l.to.node).count();
        let name = format!("{}->{}", self.nodes[l.from.node], self.nodes[l.to.node]);
        if twins > 1 { format!("{name}#{}", l.cable) } else { name }
    }
}

/// Refuses hosts with another number of cards than they should have, and switches that know each other beside rails.
fn check_rails(spec: &FabricSpec, ports: &[usize], links: &[DirectedLink]) -> Result<(), FabricError> {
    if spec.rails == 1 {
        return Ok(());
    }
    let hosts = spec.hosts.len();
    if !(1..=16).contains(&spec.rails) || ports[..hosts].iter().any(|ports| *ports != spec.rails) {
        let what = format!("{} rails need 1 to 16 of them, and as many cables at every host", spec.rails);
        return Err(FabricError::Spec(what));
    }
    let apart = |link: &DirectedLink| (link.from.node < hosts) != (link.to.node < hosts);
    if !links.iter().all(apart) || !spec.routes.is_empty() {
        return Err(FabricError::Spec(
            "with rails every cable leads from a host to a switch, and there are no routes".into(),
        ));
    }
    Ok(())
}

/// Refuses memories and groups that contradict themselves; `links`: how many there are.
fn check_shared(spec: &FabricSpec, links: usize) -> Result<(), FabricError> {
    let refuse = |what: String| Err(FabricError::Spec(what));
    if let Some(host) = spec.memories.iter().find(|host| **host >= spec.hosts.len()) {
        return refuse(format!("memory {host} is no host; there are {}", spec.hosts.len()));
    }
    let mut taken = vec![false; links];
    for (g, group) in spec.groups.iter().enumerate() {
        let name = &group.name;
        if group.links.is_empty() || group.rate < Rate(8_000) {
            let (links, rate) = (group.links.len(), group.rate);
            return refuse(format!("group {g} ({name}) has {links} links and {rate}; at least one and 8 kbit/s"));
        }
        for &link in &group.links {
            match taken.get_mut(link) {
                None => return refuse(format!("group {g} ({name}) names link {link}; there are {links}")),
                Some(true) => return refuse(format!("link {link} is in group {g} ({name}) and in another place")),
                Some(free) => *free = true,
            }
        }
    }
    Ok(())
}

/// Address `n` of the network of containers behind host `i`: a /24 of its own.
pub fn container_address(i: usize, n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 100 + (i / 250) as u8, (i % 250) as u8, n)
}

/// Address of node `i` (hosts first) on the management network.
pub fn management_address(i: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 255, (i / 250) as u8, (i % 250 + 1) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Group;
    use sluice_schedule::Bytes;

    #[test]
    fn a_star_has_one_next_hop_everywhere() {
        let layout = Layout::of(&FabricSpec::star(3, Rate::mbps(100), Bytes(100_000))).unwrap();
        assert_eq!(layout.nodes, ["h0", "h1", "h2", "s0"]);
        assert_eq!(layout.next[0][2].len(), 1);
        assert_eq!(layout.link_name(layout.next[3][2][0]), "s0->h2");
        assert_eq!(layout.links[3].from.device, "p1");
    }

    #[test]
    fn contradictions_are_named() {
        let mut spec = FabricSpec::star(2, Rate::mbps(100), Bytes(100_000));
        spec.cables[1].b = "s9".into();
        let said = Layout::of(&spec).unwrap_err().to_string();
        assert!(said.contains("s9"), "{said}");
        spec.cables.pop();
        let said = Layout::of(&spec).unwrap_err().to_string();
        assert!(said.contains("no way from h0 to h1"), "{said}");
    }

    #[test]
    fn groups_that_contradict_themselves_are_named() {
        for (links, said) in [(&[&[0, 6][..]][..], "link 6"), (&[&[0][..], &[0]], "another place"), (&[&[]], "0 links")]
        {
            let error = Layout::of(&star(links)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = Layout::of(&FabricSpec { memories: vec![3], ..star(&[]) }).unwrap_err().to_string();
        assert!(error.contains("memory 3"), "{error}");
    }

    fn star(links: &[&[usize]]) -> FabricSpec {
        let group = |links: &&[usize]| Group { name: "all".into(), links: links.to_vec(), rate: Rate::mbps(24) };
        FabricSpec { groups: links.iter().map(group).collect(), ..FabricSpec::star(3, Rate::mbps(10), Bytes(100_000)) }
    }
}
