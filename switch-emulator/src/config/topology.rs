//! The ports of switches out of a `topology.json`: the part of that format a table holder needs.
//!
//! A switch's port number is the place of the link among the links that leave the switch, in file order; hosts count the
//! same way. Keys that only planners use are not looked at.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use ipnet::IpNet;
use serde::Deserialize;
use sluice_formats::network;
use sluice_schedule::Rate;

use super::PortConfig;
use super::problem::{Code, Problem};

/// Bytes of a file at most.
const BYTES: u64 = 64 << 20;
/// Links at most, after `count` and `duplex`.
const LINKS: usize = 1_000_000;
/// Entries of the table of distances at most; a larger fabric has no routes for the UDP format.
const DISTANCES: usize = 64 << 20;

#[derive(Deserialize)]
struct File {
    sluice_topology: u64,
    nodes: Vec<Node>,
    links: Vec<Link>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    kind: String,
    #[serde(default)]
    addresses: Vec<String>,
}

#[derive(Deserialize)]
struct Link {
    from: String,
    to: String,
    capacity: String,
    #[serde(default = "one")]
    count: usize,
    #[serde(default)]
    duplex: bool,
}

fn one() -> usize {
    1
}

/// A directed graph with the addresses of its hosts.
pub struct Topology {
    names: Vec<String>,
    switches: HashMap<String, usize>,
    out: Vec<Vec<(usize, Rate)>>,
    /// Per host: its addresses, and every node's distance to it.
    hosts: Vec<(Vec<IpNet>, Vec<u32>)>,
}

impl Topology {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Topology, Box<Problem>> {
        let refuse = |code, message: String| {
            Box::new(Problem::of_file(code, path, message, "check the file with `sluice topology show`"))
        };
        let length =
            std::fs::metadata(path).map_err(|e| refuse(Code::Perm, format!("cannot read the topology: {e}")))?;
        if length.len() > BYTES {
            return Err(refuse(Code::Range, format!("the topology has {} bytes; allowed 0 to {BYTES}", length.len())));
        }
        let text = std::fs::read(path).map_err(|e| refuse(Code::Perm, format!("cannot read the topology: {e}")))?;
        let file = serde_json::from_slice(&text).map_err(|e| refuse(Code::Parse, format!("not a topology: {e}")))?;
        Topology::build(file).map_err(|(code, message)| refuse(code, message))
    }

    fn build(file: File) -> Result<Topology, (Code, String)> {
        if file.sluice_topology != 1 {
            return Err((Code::Version, format!("/sluice_topology is {}; allowed 1", file.sluice_topology)));
        }
        let (mut index, mut switches) = (HashMap::new(), HashMap::new());
        for (at, node) in file.nodes.iter().enumerate() {
            if index.insert(node.id.as_str(), at).is_some() {
                return Err((Code::Dup, format!("/nodes/{at}/id: two nodes are called {}", node.id)));
            }
            if node.kind == "switch" {
                switches.insert(node.id.clone(), at);
            }
        }
        let mut out = vec![Vec::new(); file.nodes.len()];
        let mut total = 0_usize;
        for (at, link) in file.links.iter().enumerate() {
            let find = |name: &str| {
                index.get(name).copied().ok_or_else(|| (Code::Ref, format!("/links/{at}: there is no node {name}")))
            };
            let (from, to) = (find(&link.from)?, find(&link.to)?);
            let Some(capacity) = rate(&link.capacity) else {
                let allowed = "a positive number with a unit such as Gbit/s or GB/s, or \"unlimited\"";
                return Err((Code::Range, format!("/links/{at}/capacity is {:?}; allowed {allowed}", link.capacity)));
            };
            total = total.saturating_add(link.count.saturating_mul(2));
            if link.count == 0 || total > LINKS {
                return Err((Code::Range, format!("/links/{at}/count: allowed 1 and more, {LINKS} links in all")));
            }
            for _ in 0..link.count {
                out[from].push((to, capacity));
                if link.duplex {
                    out[to].push((from, capacity));
                }
            }
        }
        let hosts = routes(&file.nodes, &out);
        Ok(Topology { names: file.nodes.into_iter().map(|node| node.id).collect(), switches, out, hosts })
    }

    /// The ports of a switch, if there is one of this name.
    pub fn ports(&self, switch: &str) -> Option<Vec<PortConfig>> {
        let at = *self.switches.get(switch)?;
        let port = |(id, &(to, wire)): (usize, &(usize, Rate))| {
            let nearer = |(_, distance): &&(Vec<IpNet>, Vec<u32>)| {
                distance[at] != u32::MAX && distance[to].checked_add(1) == Some(distance[at])
            };
            let routes = self.hosts.iter().filter(nearer).flat_map(|(addresses, _)| addresses.iter().copied());
            let (id, to) = (id as u32, self.names[to].clone());
            PortConfig { id, to, wire, background: Rate::ZERO, routes: routes.collect() }
        };
        Some(self.out[at].iter().enumerate().map(port).collect())
    }
}

/// The hosts' addresses and how far every node is from each of them, counted in links.
fn routes(nodes: &[Node], out: &[Vec<(usize, Rate)>]) -> Vec<(Vec<IpNet>, Vec<u32>)> {
    let hosts = || nodes.iter().enumerate().filter(|(_, node)| node.kind == "host");
    if hosts().count().saturating_mul(nodes.len()) > DISTANCES {
        return Vec::new();
    }
    let mut into = vec![Vec::new(); nodes.len()];
    for (from, links) in out.iter().enumerate() {
        links.iter().for_each(|(to, _)| into[*to].push(from));
    }
    let host = |(at, node): (usize, &Node)| {
        let addresses = node.addresses.iter().filter_map(|text| network::parse(text)).collect();
        let mut distance = vec![u32::MAX; nodes.len()];
        distance[at] = 0;
        let mut queue = VecDeque::from([at]);
        while let Some(here) = queue.pop_front() {
            for &from in &into[here] {
                // Hosts do not forward.
                if distance[from] == u32::MAX && nodes[from].kind != "host" {
                    distance[from] = distance[here] + 1;
                    queue.push_back(from);
                }
            }
        }
        (addresses, distance)
    };
    hosts().map(host).collect()
}

/// A capacity: a decimal or a fraction, with a unit.
fn rate(text: &str) -> Option<Rate> {
    if text == "unlimited" {
        return Some(Rate::MAX);
    }
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = (text[..at].trim(), &text[at..]);
    let bits: f64 = match unit {
        "bit/s" => 1.0,
        "kbit/s" => 1e3,
        "Mbit/s" => 1e6,
        "Gbit/s" => 1e9,
        "Tbit/s" => 1e12,
        "B/s" => 8.0,
        "kB/s" => 8e3,
        "MB/s" => 8e6,
        "GB/s" => 8e9,
        "TB/s" => 8e12,
        "KiB/s" => 8.0 * 1024.0,
        "MiB/s" => 8.0 * 1_048_576.0,
        "GiB/s" => 8.0 * 1_073_741_824.0,
        _ => return None,
    };
    let value: f64 = match number.split_once('/') {
        Some((a, b)) => a.trim().parse::<f64>().ok()? / b.trim().parse::<f64>().ok()?,
        None => number.parse().ok()?,
    };
    let rate = value * bits;
    (1.0..=1e18).contains(&rate).then_some(Rate(rate.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_count_the_links_that_leave_and_route_by_distance() {
        let text = r#"{ "sluice_topology": 1, "name": "t", "nodes": [
            {"id": "h0", "kind": "host", "addresses": ["10.0.0.1"]}, {"id": "h1", "kind": "host", "addresses": ["10.0.0.2"]},
            {"id": "s0", "kind": "switch"}, {"id": "s1", "kind": "switch"}],
          "links": [ {"from": "h0", "to": "s0", "capacity": "1Gbit/s", "duplex": true},
            {"from": "h1", "to": "s1", "capacity": "1/2 Gbit/s", "duplex": true},
            {"from": "s0", "to": "s1", "capacity": "1GB/s", "duplex": true, "count": 2} ] }"#;
        let topology = Topology::build(serde_json::from_str(text).unwrap()).ok().unwrap();
        let ports = topology.ports("s0").unwrap();
        assert_eq!(ports.iter().map(|p| (p.id, p.to.as_str())).collect::<Vec<_>>(), [(0, "h0"), (1, "s1"), (2, "s1")]);
        assert_eq!(ports[1].wire, Rate::mbps(8000));
        let far = "10.0.0.2".parse().unwrap();
        let leads = |port: &PortConfig| port.routes.iter().any(|route| network::contains(route, far));
        assert_eq!(ports.iter().map(leads).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(topology.ports("s1").unwrap()[0].wire, Rate::mbps(500));
        assert!(topology.ports("h0").is_none());
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        let build = |text: &str| Topology::build(serde_json::from_str(text).unwrap()).err().unwrap().1;
        let text = r#"{"sluice_topology": 1, "nodes": [], "links": [{"from": "a", "to": "b", "capacity": "1Gbit/s"}]}"#;
        assert_eq!(build(text), "/links/0: there is no node a");
        let nodes = r#""nodes": [{"id": "a", "kind": "switch"}, {"id": "b", "kind": "host"}]"#;
        let link = r#""links": [{"from": "a", "to": "b", "capacity": "0Gbit/s"}]"#;
        assert!(build(&format!("{{\"sluice_topology\": 1, {nodes}, {link}}}")).starts_with("/links/0/capacity"));
        assert!(build(r#"{"sluice_topology": 2, "nodes": [], "links": []}"#).contains("allowed 1"));
    }
}
