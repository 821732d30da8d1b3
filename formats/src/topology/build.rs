//! From what a file says to what it means: defaults, exact quantities, expanded links; every rule of the format.

mod groups;
mod nodes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ipnet::IpNet;

use super::{File, GroupEntry, Link, LinkEntry, MAX_LINKS, Node, Route, RouteEntry, Text, Topology};
use crate::json::escaped;
use crate::problem::{
    BAD_COST, Code, DUPLICATE_NODE, E_LIMIT, E_MISSING, E_NET, E_RANGE, MAX_PROBLEMS, NON_POSITIVE_BANDWIDTH, Problem,
    Problems, UNKNOWN_NODE,
};
use crate::quantity::{self, Capacity, Misread, Rational, Unit};

/// Bytes of a name at most.
const MAX_NAME: usize = 256;
/// Addresses of one host at most.
const MAX_ADDRESSES: usize = 16;
/// Addresses of one switch's ports at most.
const MAX_PORT_ADDRESSES: usize = 2048;

pub fn build(file: File, name: &str) -> Result<Topology, Problems> {
    let mut builder = Builder::default();
    let nodes = builder.nodes(&file);
    builder.check_weights(&nodes);
    let links = builder.links(&file.links, file.groups.as_deref());
    let groups = if builder.errors.is_empty() { builder.groups(file.groups.as_deref(), &links) } else { Vec::new() };
    let routes = builder.routing(&file, &links);
    if builder.errors.is_empty() {
        builder.check_common_denominator(&links, &groups);
    }
    match Problems::collect(builder.errors, name) {
        Some(errors) => Err(errors),
        None => {
            let unit = builder.unit.unwrap_or(Unit::Abstract);
            Ok(Topology { file, nodes, links, groups, routes, unit, by_id: builder.by_id })
        }
    }
}

#[derive(Default)]
struct Builder {
    errors: Vec<Problem>,
    by_id: HashMap<Text, usize>,
    /// The node that has each network, by its index.
    by_network: HashMap<IpNet, usize>,
    /// Of the first quantity that has one.
    unit: Option<Unit>,
    /// Quantities that occur again and again are read once.
    capacities: HashMap<Text, (Capacity, Option<Unit>)>,
}

impl Builder {
    fn refuse(&mut self, error: Problem) {
        if self.errors.len() < MAX_PROBLEMS {
            self.errors.push(error);
        }
    }
    fn misread(&mut self, key: String, found: &str, misread: Misread) {
        let error = Problem::new(E_RANGE, key, format!("not {}", misread.what)).found(found);
        self.refuse(error.allowed(misread.allowed).help(misread.help));
    }

    fn nodes(&mut self, file: &File) -> Vec<Node> {
        let none = BTreeMap::new();
        let boxes = file.boxes.as_ref().unwrap_or(&none);
        let mut nodes = Vec::with_capacity(file.nodes.len());
        for (i, entry) in file.nodes.iter().enumerate() {
            let at = format!("/nodes/{i}");
            self.name(&format!("{at}/id"), &entry.id);
            if let Some(first) = self.by_id.insert(entry.id.clone(), i) {
                let error =
                    Problem::new(DUPLICATE_NODE, format!("{at}/id"), "two nodes have this id").found(&*entry.id);
                self.refuse(error.allowed("every id once").help(format!("the other is /nodes/{first}")));
                self.by_id.insert(entry.id.clone(), first);
            }
            let forwards = matches!(entry.kind, super::Kind::Switch | super::Kind::Nic);
            nodes.push(Node {
                id: entry.id.clone(),
                kind: entry.kind,
                can: self.can(&at, entry.kind, entry.can.as_ref()),
                weight: self.weight(&at, entry),
                buffer: self.buffer(&at, entry),
                networks: if forwards { Vec::new() } else { self.networks(i, entry) },
                exchange: if forwards { self.exchange(&at, entry) } else { None },
                port_addresses: self.port_addresses(i, entry, forwards),
                machine: boxes.get(&entry.id).cloned(),
            });
        }
        for (id, machine) in boxes {
            let key = format!("/box/{}", escaped(id));
            if !self.by_id.contains_key(id) {
                self.unknown(key.clone(), id);
            }
            self.name(&key, machine);
        }
        nodes
    }

    fn name(&mut self, key: &str, name: &str) {
        if name.is_empty() || name.len() > MAX_NAME {
            let error = Problem::new(E_RANGE, key, "not a name").found(name);
            self.refuse(error.allowed(format!("1 to {MAX_NAME} bytes")));
        }
    }

    fn unknown(&mut self, key: String, id: &str) {
        // Looking for the nearest of a hundred thousand ids would take longer than the rest of the file.
        let near = self.by_id.len() <= 512 && self.errors.len() < MAX_PROBLEMS;
        let help = near.then(|| crate::problem::hint(id, self.by_id.keys().map(|id| &**id)));
        let error = Problem::new(UNKNOWN_NODE, key, "no node has this id").found(id).allowed("an id of /nodes");
        self.refuse(error.help(help.flatten().unwrap_or_default()));
    }

    fn links(&mut self, entries: &[LinkEntry], groups: Option<&[GroupEntry]>) -> Vec<Link> {
        let expanded = entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(copies(entry)));
        if expanded > MAX_LINKS {
            let error = Problem::new(E_LIMIT, "/links", "too many links").found(format!("{expanded} links"));
            self.refuse(error.allowed(format!("at most {MAX_LINKS} after count and duplex")));
            return Vec::new();
        }
        self.unit = self.unit_of(entries, groups);
        let mut links = Vec::with_capacity(usize::try_from(expanded).unwrap_or(0));
        for (i, entry) in entries.iter().enumerate() {
            let at = format!("/links/{i}");
            if let Some(link) = self.link(&at, i, entry) {
                let back = Link { from: link.to, to: link.from, ..link.clone() };
                for _ in 0..entry.count.unwrap_or(1) {
                    links.push(link.clone());
                    if entry.duplex == Some(true) {
                        links.push(back.clone());
                    }
                }
            }
        }
        links
    }

    /// The unit of the first capacity that has one; `None` where all are unlimited.
    fn unit_of(&self, entries: &[LinkEntry], groups: Option<&[GroupEntry]>) -> Option<Unit> {
        let unit = |text: &Text| Capacity::parse(text).ok()?.1;
        let links = entries.iter().filter(|entry| &*entry.capacity != "unlimited");
        links
            .map(|entry| &entry.capacity)
            .chain(groups.iter().copied().flatten().map(|group| &group.capacity))
            .find_map(unit)
    }

    fn link(&mut self, at: &str, index: usize, entry: &LinkEntry) -> Option<Link> {
        let mut end = |key: &str, id: &Text| {
            let node = self.by_id.get(id).copied();
            if node.is_none() {
                self.unknown(format!("{at}/{key}"), id);
            }
            node
        };
        let (from, to) = (end("from", &entry.from), end("to", &entry.to));
        if from.is_some() && from == to && entry.duplex == Some(true) {
            let error =
                Problem::new(E_RANGE, format!("{at}/duplex"), "a link from a node to itself has no other direction");
            self.refuse(error.found("true").allowed("false"));
        }
        if entry.count == Some(0) {
            let error = Problem::new(E_RANGE, format!("{at}/count"), "no links at all").found("0").allowed("1 or more");
            self.refuse(error.help("leave the entry out"));
        }
        let capacity = self.capacity(format!("{at}/capacity"), &entry.capacity, false);
        let latency = self.latency(at, entry);
        let cost = self.cost(at, entry);
        let per_epoch = self.per_epoch(at, entry);
        Some(Link {
            from: from?,
            to: to?,
            capacity: capacity?,
            latency: latency?,
            cost: cost?,
            entry: index,
            per_epoch,
        })
    }

    /// A capacity; `closed`: may it be zero?
    fn capacity(&mut self, key: String, text: &Text, closed: bool) -> Option<Capacity> {
        let (capacity, unit) = match self.capacities.get(text) {
            Some(known) => known.clone(),
            None => match Capacity::parse(text) {
                Ok(read) => {
                    self.capacities.insert(text.clone(), read.clone());
                    read
                }
                Err(misread) => {
                    self.misread(key, text, misread);
                    return None;
                }
            },
        };
        if let Some(unit) = unit
            && self.differs(&key, text, unit)
        {
            return None;
        }
        let value = capacity.finite();
        if value.is_some_and(|value| value.is_negative() || (value.is_zero() && !closed)) {
            let error = Problem::new(NON_POSITIVE_BANDWIDTH, key, "a capacity of nothing is no link").found(&**text);
            let allowed = if closed { "0 or more" } else { "more than 0" };
            self.refuse(error.allowed(allowed).help("leave the link out"));
            return None;
        }
        if matches!(unit, Some(Unit::Bytes(_))) && value.is_some_and(|value| value.to_units(8).is_none()) {
            let error = Problem::new(E_RANGE, key, "more than a rate can be").found(&**text);
            self.refuse(error.allowed("less than 2^64 bit/s, or \"unlimited\""));
            return None;
        }
        Some(capacity)
    }

    /// Does one quantity have a unit and another none? Says so.
    fn differs(&mut self, key: &str, text: &str, unit: Unit) -> bool {
        let first = *self.unit.get_or_insert(unit);
        let differs = (first == Unit::Abstract) != (unit == Unit::Abstract);
        if differs {
            let allowed = match first {
                Unit::Abstract => "no unit, as in the first capacity",
                Unit::Bytes(_) => "a unit, as in the first capacity",
            };
            let error = Problem::new(E_RANGE, key, "either every quantity has a unit or none").found(text);
            self.refuse(error.allowed(allowed));
        }
        differs
    }

    fn latency(&mut self, at: &str, entry: &LinkEntry) -> Option<Rational> {
        let Some(text) = &entry.latency else { return Some(Rational::ZERO) };
        let key = format!("{at}/latency");
        match quantity::latency(text) {
            Ok((seconds, _)) if seconds.is_negative() => {
                self.refuse(Problem::new(E_RANGE, key, "a negative time").found(&**text).allowed("0s or more"));
                None
            }
            Ok((seconds, has_unit)) => {
                let (message, allowed) = match self.unit {
                    Some(Unit::Abstract) if has_unit => ("a time with unit in a graph without units", "a plain number"),
                    Some(Unit::Bytes(_)) if !has_unit => ("a time without unit", "ns, us, ms or s behind it"),
                    _ => return Some(seconds),
                };
                self.refuse(Problem::new(E_RANGE, key, message).found(&**text).allowed(allowed));
                None
            }
            Err(misread) => {
                self.misread(key, text, misread);
                None
            }
        }
    }

    fn cost(&mut self, at: &str, entry: &LinkEntry) -> Option<Rational> {
        let Some(text) = &entry.cost else { return Some(Rational::ONE) };
        let key = format!("{at}/cost");
        let (code, message): (Code, &str) = match Rational::parse(text) {
            Ok(cost) if !cost.is_negative() => return Some(cost),
            Ok(_) => (BAD_COST, "a negative cost"),
            Err(_) => (E_RANGE, "not a cost"),
        };
        self.refuse(Problem::new(code, key, message).found(&**text).allowed("a decimal or a fraction p/q, 0 or more"));
        None
    }

    fn per_epoch(&mut self, at: &str, entry: &LinkEntry) -> Option<Arc<[Capacity]>> {
        let list = entry.capacity_per_epoch.as_ref()?;
        let key = format!("{at}/capacity_per_epoch");
        if list.is_empty() {
            let error = Problem::new(E_RANGE, key, "no epoch at all").found("[]").allowed("at least one capacity");
            self.refuse(error.help("leave the key out"));
            return None;
        }
        let mut capacity = |(i, text)| self.capacity(format!("{key}/{i}"), text, true);
        list.iter().enumerate().map(&mut capacity).collect::<Option<Vec<_>>>().map(Arc::from)
    }

    /// Every consumer adds capacities up or scales them to whole numbers.
    fn check_common_denominator(&mut self, links: &[Link], groups: &[super::Group]) {
        let of_links = links
            .iter()
            .flat_map(|link| std::iter::once(&link.capacity).chain(link.per_epoch.iter().flat_map(|list| list.iter())));
        let capacities = of_links.chain(groups.iter().map(|group| &group.capacity)).filter_map(Capacity::finite);
        if quantity::common_denominator(capacities).is_none() {
            let error = Problem::new(E_LIMIT, "/links", "the capacities have no reasonable common denominator");
            self.refuse(error.allowed("one of at most 4096 bits").help("round the capacities"));
        }
    }

    fn routing(&mut self, file: &File, links: &[Link]) -> Vec<Route> {
        let Some(routing) = &file.routing else { return Vec::new() };
        let paths = routing.paths.as_deref().unwrap_or_default();
        if routing.kind == Some(super::RoutingKind::Explicit) && routing.paths.is_none() {
            let error = Problem::new(E_MISSING, "/routing/paths", "explicit routing without paths");
            self.refuse(error.allowed("a list of {src, dst, via}"));
        }
        // Of parallel links the first.
        let known = if paths.is_empty() { &[] } else { links };
        let between = known.iter().enumerate().rev().map(|(i, link)| ((link.from, link.to), i)).collect();
        paths.iter().enumerate().filter_map(|(i, path)| self.route(i, path, &between)).collect()
    }

    fn route(&mut self, index: usize, path: &RouteEntry, between: &HashMap<(usize, usize), usize>) -> Option<Route> {
        let at = format!("/routing/paths/{index}");
        let via = path.via.iter().flatten().enumerate().map(|(j, id)| (format!("{at}/via/{j}"), id));
        let ends = [(format!("{at}/src"), &path.src)].into_iter().chain(via).chain([(format!("{at}/dst"), &path.dst)]);
        let mut nodes = Vec::new();
        for (key, id) in ends {
            match self.by_id.get(id) {
                Some(node) => nodes.push(*node),
                None => self.unknown(key, id),
            }
        }
        if nodes.len() < path.via.iter().flatten().count() + 2 {
            return None;
        }
        let links: Option<Vec<usize>> =
            nodes.windows(2).map(|pair| between.get(&(*pair.first()?, *pair.last()?)).copied()).collect();
        if links.is_none() && self.errors.is_empty() {
            let error = Problem::new(E_NET, at, "two nodes of a path have no link between them");
            let names = [&path.src].into_iter().chain(path.via.iter().flatten()).chain([&path.dst]);
            let found = names.map(|id| &**id).collect::<Vec<_>>().join(" ");
            self.refuse(error.found(found).allowed("a link from each node to the next"));
        }
        Some(Route { src: *nodes.first()?, dst: *nodes.last()?, links: links? })
    }
}

fn copies(entry: &LinkEntry) -> u64 {
    u64::from(entry.count.unwrap_or(1)) * if entry.duplex == Some(true) { 2 } else { 1 }
}
