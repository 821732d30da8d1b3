//! topology.json, version 1, as far as hosts and switches need it: bounded, and every mistake with its JSON pointer.

use std::path::Path;

use serde_json::{Map, Value};
use sluice_formats::network;
use sluice_schedule::{Nanos, Rate};

use super::{Link, Node, NodeKind, Topology};
use crate::config::{Code, Problem, Problems};

/// Bytes of a file at most.
const MAX_BYTES: u64 = 64 << 20;
/// Nesting at most.
const MAX_DEPTH: usize = 64;
/// Nodes at most.
const MAX_NODES: usize = 100_000;
/// Links at most, after `count` and `duplex`.
const MAX_LINKS: usize = 1_000_000;
/// Addresses of one host at most.
const MAX_ADDRESSES: usize = 16;
/// Problems after which the rest is not worth reading.
const MAX_PROBLEMS: usize = 50;

pub fn load(path: &Path) -> Result<Topology, Problems> {
    let one = |problem: Problem| Problems(vec![problem.in_file(path)]);
    let meta = std::fs::metadata(path)
        .map_err(|error| one(Problem::new(Code::E_MISSING, "", format!("cannot read the topology: {error}"))))?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        let problem = Problem::new(Code::E_PARSE, "", "not a topology file").found(format!("{} bytes", meta.len()));
        return Err(one(problem.allowed("a regular file of at most 64 MB")));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| one(Problem::new(Code::E_PERM, "", format!("cannot read the topology: {error}"))))?;
    parse(path, &text)
}

pub fn parse(path: &Path, text: &str) -> Result<Topology, Problems> {
    let mut reader = Reader { path, problems: Vec::new(), topology: Topology::default() };
    match serde_json::from_str::<Value>(text) {
        Err(error) => {
            let mut problem = Problem::new(Code::E_PARSE, "", format!("not JSON: {error}")).in_file(path);
            (problem.line, problem.column) = (error.line(), error.column());
            reader.problems.push(problem);
        }
        Ok(value) if depth_exceeds(&value, MAX_DEPTH) => {
            reader.refuse(Code::E_PARSE, "", "nested too deeply".into(), "", "64 levels");
        }
        Ok(value) => reader.root(&value),
    }
    if reader.problems.is_empty() { Ok(reader.topology) } else { Err(Problems(reader.problems)) }
}

struct Reader<'a> {
    path: &'a Path,
    problems: Vec<Problem>,
    topology: Topology,
}

impl Reader<'_> {
    fn refuse(&mut self, code: Code, pointer: &str, message: String, found: &str, allowed: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            let problem = Problem::new(code, pointer, message).found(found).allowed(allowed).in_file(self.path);
            self.problems.push(problem);
        }
    }

    fn root(&mut self, value: &Value) {
        let Some(root) = value.as_object() else {
            return self.refuse(Code::E_PARSE, "", "the topology is not an object".into(), kind(value), "an object");
        };
        match root.get("sluice_topology") {
            Some(version) if version.as_u64() == Some(1) => {}
            version => {
                let found = version.map(Value::to_string).unwrap_or_default();
                self.refuse(Code::E_VERSION, "/sluice_topology", "unknown version".into(), &found, "1");
            }
        }
        for key in root.keys() {
            if !["sluice_topology", "name", "nodes", "links", "groups", "box", "routing"].contains(&key.as_str()) {
                self.refuse(
                    Code::E_KEY,
                    &format!("/{key}"),
                    format!("unknown key `{key}`"),
                    key,
                    "a key of the format",
                );
            }
        }
        self.topology.name = root.get("name").and_then(Value::as_str).unwrap_or("").chars().take(256).collect();
        let nodes = self.list(root, "nodes", MAX_NODES);
        for (i, node) in nodes.iter().enumerate() {
            self.node(&format!("/nodes/{i}"), node);
        }
        self.topology.out = vec![Vec::new(); self.topology.nodes.len()];
        self.topology.into = vec![Vec::new(); self.topology.nodes.len()];
        let links = self.list(root, "links", MAX_LINKS);
        for (i, link) in links.iter().enumerate() {
            self.link(&format!("/links/{i}"), link);
        }
        if let Some(routing) = root.get("routing") {
            self.routing(routing);
        }
    }

    fn list<'v>(&mut self, root: &'v Map<String, Value>, key: &str, most: usize) -> &'v [Value] {
        match root.get(key).map(Value::as_array) {
            Some(Some(list)) if list.len() <= most => list,
            Some(Some(list)) => {
                let (found, allowed) = (format!("{} entries", list.len()), format!("at most {most}"));
                self.refuse(Code::E_RANGE, &format!("/{key}"), format!("too many {key}"), &found, &allowed);
                &[]
            }
            Some(None) => {
                self.refuse(Code::E_RANGE, &format!("/{key}"), format!("{key} is not a list"), "", "a list");
                &[]
            }
            None => {
                self.refuse(Code::E_MISSING, &format!("/{key}"), format!("{key} is missing"), "", "a list");
                &[]
            }
        }
    }

    fn node(&mut self, pointer: &str, value: &Value) {
        let id = value.get("id").and_then(Value::as_str).unwrap_or("");
        if id.is_empty() || id.len() > 256 {
            return self.refuse(
                Code::E_MISSING,
                &format!("{pointer}/id"),
                "a node has no id".into(),
                id,
                "1 to 256 bytes",
            );
        }
        let word = value.get("kind").and_then(Value::as_str).unwrap_or("");
        let kind = match word {
            "host" => NodeKind::Host,
            "switch" => NodeKind::Switch,
            "gpu" | "nic" | "memory" | "site" => NodeKind::Other,
            _ => {
                let allowed = "gpu, nic, switch, memory, host, site";
                return self.refuse(Code::E_RANGE, &format!("{pointer}/kind"), "unknown kind".into(), word, allowed);
            }
        };
        let index = self.topology.nodes.len();
        if self.topology.by_name.insert(id.to_owned(), index).is_some() {
            self.refuse(Code::E_DUP, &format!("{pointer}/id"), format!("two nodes are called {id}"), id, "unique ids");
        }
        let mut node = Node { id: id.to_owned(), kind, networks: Vec::new(), exchange: None };
        let at = format!("{pointer}/addresses");
        let addresses = match value.get("addresses").map(Value::as_array) {
            None => &[][..],
            Some(Some(list)) if list.len() <= MAX_ADDRESSES => list,
            Some(_) => return self.refuse(Code::E_RANGE, &at, "addresses".into(), "", "a list of at most 16 texts"),
        };
        for (i, address) in addresses.iter().enumerate() {
            let at = format!("{at}/{i}");
            let text = address.as_str().unwrap_or("");
            if kind == NodeKind::Switch {
                match text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
                    Some(_) if text.len() <= 260 => node.exchange = Some(text.to_owned()),
                    _ => self.refuse(Code::E_RANGE, &at, "not an address of a switch".into(), text, "host:port"),
                }
                continue;
            }
            let Some(network) = network::parse(text) else {
                self.refuse(Code::E_RANGE, &at, "not an address".into(), text, "IPv4, IPv6 or address/bits");
                continue;
            };
            let taken = if let Some(address) = network::single(&network) {
                self.topology.by_address.insert(address, index)
            } else {
                let same = self.topology.wide.iter().find(|(known, _)| *known == network).map(|(_, node)| *node);
                self.topology.wide.push((network, index));
                same
            };
            if let Some(other) = taken.filter(|other| *other != index) {
                let other = self.topology.nodes.get(other).map_or("", |node| &node.id).to_owned();
                self.refuse(Code::E_DUP, &at, format!("{text} belongs to {other} too"), text, "one host per address");
            }
            node.networks.push(network);
        }
        if kind == NodeKind::Host && node.networks.is_empty() {
            self.refuse(Code::E_MISSING, &at, format!("host {id} has no address"), "", "1 to 16 addresses");
        }
        self.topology.nodes.push(node);
    }

    fn link(&mut self, pointer: &str, value: &Value) {
        let mut end = |key: &str| {
            let name = value.get(key).and_then(Value::as_str).unwrap_or("");
            let node = self.topology.by_name.get(name).copied();
            if node.is_none() {
                self.refuse(Code::E_REF, &format!("{pointer}/{key}"), "no such node".into(), name, "an id of /nodes");
            }
            node
        };
        let (Some(from), Some(to)) = (end("from"), end("to")) else { return };
        let text = value.get("capacity").and_then(Value::as_str).unwrap_or("");
        let Some(capacity) = rate(text) else {
            let allowed = "a number above 0 with a unit like \"25Gbit/s\" or \"3GB/s\", or \"unlimited\"";
            return self.refuse(Code::E_RANGE, &format!("{pointer}/capacity"), "no capacity".into(), text, allowed);
        };
        let latency = match value.get("latency").map(|latency| latency.as_str().and_then(duration)) {
            None => Nanos::ZERO,
            Some(Some(latency)) => latency,
            Some(None) => {
                let found = value.get("latency").map(Value::to_string).unwrap_or_default();
                let allowed = "a number with ns, us, ms or s";
                return self.refuse(Code::E_RANGE, &format!("{pointer}/latency"), "not a time".into(), &found, allowed);
            }
        };
        let count = value.get("count").map_or(Some(1), Value::as_u64).filter(|n| (1..=4096).contains(n));
        let duplex = value.get("duplex").map_or(Some(false), Value::as_bool);
        let (Some(count), Some(duplex)) = (count, duplex) else {
            let allowed = "count 1 to 4096, duplex true or false";
            return self.refuse(Code::E_RANGE, pointer, "count or duplex".into(), &value.to_string(), allowed);
        };
        for _ in 0..count {
            self.directed(from, to, capacity, latency);
            if duplex {
                self.directed(to, from, capacity, latency);
            }
        }
        if self.topology.links.len() > MAX_LINKS {
            self.topology.links.truncate(MAX_LINKS);
            self.refuse(Code::E_RANGE, pointer, "too many links".into(), "", "at most 1000000 after count and duplex");
        }
    }

    fn directed(&mut self, from: usize, to: usize, capacity: Rate, latency: Nanos) {
        let topology = &mut self.topology;
        let (Some(out), Some(into)) = (topology.out.get_mut(from), topology.into.get_mut(to)) else { return };
        if topology.links.len() > MAX_LINKS {
            return;
        }
        let index = topology.links.len();
        let port = u32::try_from(out.len()).unwrap_or(u32::MAX);
        topology.links.push(Link { from, to, capacity, latency, port });
        out.push(index);
        into.push(index);
    }

    fn routing(&mut self, value: &Value) {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or("ecmp");
        if !["ecmp", "explicit"].contains(&kind) {
            return self.refuse(Code::E_RANGE, "/routing/kind", "unknown routing".into(), kind, "ecmp, explicit");
        }
        let none = Vec::new();
        let paths = value.get("paths").and_then(Value::as_array).unwrap_or(&none);
        for (i, path) in paths.iter().take(MAX_LINKS).enumerate() {
            let pointer = format!("/routing/paths/{i}");
            let name = |key: &str| path.get(key).and_then(Value::as_str).unwrap_or("");
            let via = path.get("via").and_then(Value::as_array).unwrap_or(&none);
            let via = via.iter().map(|hop| hop.as_str().unwrap_or(""));
            let names: Vec<&str> = [name("src")].into_iter().chain(via).chain([name("dst")]).collect();
            let nodes: Option<Vec<usize>> = names.iter().map(|name| self.topology.node(name)).collect();
            let Some(nodes) = nodes else {
                self.refuse(Code::E_REF, &pointer, "a path names no node".into(), &names.join(" "), "ids of /nodes");
                continue;
            };
            let link = |pair: &[usize]| {
                self.topology.out[pair[0]].iter().copied().find(|l| self.topology.links[*l].to == pair[1])
            };
            let links: Option<Vec<usize>> = nodes.windows(2).map(link).collect();
            match links {
                Some(links) => {
                    self.topology.explicit.insert((nodes[0], nodes[nodes.len() - 1]), links);
                }
                None => {
                    self.refuse(Code::E_NET, &pointer, "two nodes of a path have no link".into(), &names.join(" "), "")
                }
            }
        }
    }
}

/// A rate like `"25Gbit/s"`, `"7/2 GB/s"`, `"unlimited"`, in bit/s.
pub fn rate(text: &str) -> Option<Rate> {
    if text == "unlimited" {
        return Some(Rate::MAX);
    }
    let (number, unit) = split(text)?;
    let bits = match unit {
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
    let value = (number * bits).round();
    (1.0..=1e17).contains(&value).then_some(Rate(value as u64))
}

fn duration(text: &str) -> Option<Nanos> {
    let (number, unit) = split(text)?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let value = (number * nanos).round();
    (0.0..=1e12).contains(&value).then_some(Nanos(value as u64))
}

/// A number (decimal or fraction) and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    let digits = |c: char| c.is_ascii_digit() || ".eE+-/".contains(c);
    let text = text.get(..64).unwrap_or(text).trim();
    // The slash of "/s" belongs to the unit, so the number ends before the first letter that is no exponent.
    let end = text.find(|c: char| !digits(c) || (c == 'E' || c == 'e')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = match number.split_once('/') {
        Some((above, below)) => {
            above.trim().parse::<f64>().ok()? / below.trim().parse::<f64>().ok().filter(|b| *b > 0.0)?
        }
        None => number.trim().parse::<f64>().ok()?,
    };
    number.is_finite().then_some((number, unit.trim()))
}

fn depth_exceeds(value: &Value, most: usize) -> bool {
    match value {
        Value::Array(list) => most == 0 || list.iter().any(|value| depth_exceeds(value, most - 1)),
        Value::Object(map) => most == 0 || map.values().any(|value| depth_exceeds(value, most - 1)),
        _ => false,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
