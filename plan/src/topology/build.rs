//! From what a file says to what it means: defaults, exact quantities, expanded links; every rule of the format.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::{
    Can, CanEntry, File, Group, GroupEntry, Kind, Link, LinkEntry, MOST_LINKS, MemberEntry, Node, NodeEntry, Text,
    Topology,
};
use crate::error::{
    BAD_COST, BAD_WEIGHTS, Code, DUPLICATE_NODE, E_KEY, E_LIMIT, E_MISSING, E_RANGE, EMPTY_GROUP, Error, Errors,
    MOST_ERRORS, NON_POSITIVE_BANDWIDTH, REPEATED_EDGE, UNKNOWN_EDGE, UNKNOWN_NODE,
};
use crate::json::escaped;
use crate::quantity::{self, Capacity, Misread, Rational, Unit};

/// Bytes of a name at most.
const MOST_NAME: usize = 256;
/// Addresses of one host at most.
const MOST_ADDRESSES: usize = 16;

pub fn build(file: File, name: &str) -> Result<Topology, Errors> {
    let mut builder = Builder::default();
    let nodes = builder.nodes(&file);
    builder.check_weights(&nodes);
    let links = builder.links(&file.links, file.groups.as_deref());
    let groups = if builder.errors.is_empty() { builder.groups(file.groups.as_deref(), &links) } else { Vec::new() };
    builder.routing(&file);
    match Errors::collect(builder.errors, name) {
        Some(errors) => Err(errors),
        None => {
            let unit = builder.unit.unwrap_or(Unit::Abstract);
            Ok(Topology { file, nodes, links, groups, unit, by_id: builder.by_id })
        }
    }
}

#[derive(Default)]
struct Builder {
    errors: Vec<Error>,
    by_id: HashMap<Text, usize>,
    /// Of the first quantity that has one.
    unit: Option<Unit>,
    /// Quantities that occur again and again are read once.
    capacities: HashMap<Text, (Capacity, Option<Unit>)>,
}

impl Builder {
    fn refuse(&mut self, error: Error) {
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(error);
        }
    }
    fn misread(&mut self, key: String, found: &str, misread: Misread) {
        let error = Error::new(E_RANGE, key, format!("not {}", misread.what)).found(found);
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
                let error = Error::new(DUPLICATE_NODE, format!("{at}/id"), "two nodes have this id").found(&*entry.id);
                self.refuse(error.allowed("every id once").help(format!("the other is /nodes/{first}")));
                self.by_id.insert(entry.id.clone(), first);
            }
            self.addresses(&at, entry);
            nodes.push(Node {
                id: entry.id.clone(),
                kind: entry.kind,
                can: self.can(&at, entry.kind, entry.can.as_ref()),
                weight: self.weight(&at, entry),
                buffer: self.buffer(&at, entry),
                addresses: entry.addresses.clone().unwrap_or_default(),
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
        if name.is_empty() || name.len() > MOST_NAME {
            let error = Error::new(E_RANGE, key, "not a name").found(name);
            self.refuse(error.allowed(format!("1 to {MOST_NAME} bytes")));
        }
    }

    fn unknown(&mut self, key: String, id: &str) {
        // Looking for the nearest of a hundred thousand ids would take longer than the rest of the file.
        let near = if self.by_id.len() <= 4096 {
            crate::error::nearest(id, self.by_id.keys().map(|id| &**id)).map(str::to_owned)
        } else {
            None
        };
        let help = near.map(|near| format!("did you mean `{near}`?")).unwrap_or_default();
        let error = Error::new(UNKNOWN_NODE, key, "no node has this id").found(id).allowed("an id of /nodes");
        self.refuse(error.help(help));
    }

    fn can(&mut self, at: &str, kind: Kind, entry: Option<&CanEntry>) -> Can {
        let (store, copy, reduce) = match kind {
            Kind::Gpu | Kind::Host | Kind::Site => (true, true, true),
            Kind::Memory => (true, true, false),
            Kind::Switch | Kind::Nic => (false, false, false),
        };
        let Some(entry) = entry else { return Can { store, copy, reduce } };
        let mut one = |plain: (&str, Option<bool>), in_network: (&str, Option<bool>), default| {
            if matches!(kind, Kind::Switch | Kind::Nic) {
                if let (Some(a), Some(b)) = (plain.1, in_network.1)
                    && a != b
                {
                    let message = format!("`{}` and `{}` of a switch are one thing", plain.0, in_network.0);
                    let key = format!("{at}/can/{}", in_network.0);
                    self.refuse(Error::new(E_KEY, key, message).found(b.to_string()).allowed(a.to_string()));
                }
                return plain.1.or(in_network.1).unwrap_or(default);
            }
            if in_network.1.is_some() {
                let message = format!("`{}` is for switches and nics", in_network.0);
                let help = format!("write `{}`", plain.0);
                self.refuse(Error::new(E_KEY, format!("{at}/can/{}", in_network.0), message).help(help));
            }
            plain.1.unwrap_or(default)
        };
        let copy = one(("copy", entry.copy), ("multicast", entry.multicast), copy);
        let reduce = one(("reduce", entry.reduce), ("aggregate", entry.aggregate), reduce);
        Can { store: entry.store.unwrap_or(store), copy, reduce }
    }

    fn weight(&mut self, at: &str, entry: &NodeEntry) -> u64 {
        let weight = entry.weight.map_or(1, |weight| weight.0);
        u64::try_from(weight).unwrap_or_else(|_| {
            let error = Error::new(BAD_WEIGHTS, format!("{at}/weight"), "a negative weight").found(weight.to_string());
            self.refuse(error.allowed("0 or more"));
            0
        })
    }

    fn check_weights(&mut self, nodes: &[Node]) {
        let mut compute = nodes.iter().filter(|node| node.is_compute()).peekable();
        if compute.peek().is_some() && compute.all(|node| node.weight == 0) {
            let error = Error::new(BAD_WEIGHTS, "/nodes", "all weights are zero: nobody holds any data");
            self.refuse(error.allowed("at least one weight above 0"));
        }
    }

    fn buffer(&mut self, at: &str, entry: &NodeEntry) -> Option<Rational> {
        let text = entry.buffer.as_ref()?.0.as_ref()?;
        let key = format!("{at}/buffer");
        match quantity::size(text) {
            Ok(size) if !size.is_negative() => Some(size),
            Ok(_) => {
                self.refuse(Error::new(E_RANGE, key, "a negative size").found(&**text).allowed("0B or more, or null"));
                None
            }
            Err(misread) => {
                self.misread(key, text, misread);
                None
            }
        }
    }

    fn addresses(&mut self, at: &str, entry: &NodeEntry) {
        let Some(list) = &entry.addresses else { return };
        let forwards = matches!(entry.kind, Kind::Switch | Kind::Nic);
        let most = if forwards { 1 } else { MOST_ADDRESSES };
        if list.len() > most {
            let error = Error::new(E_LIMIT, format!("{at}/addresses"), "too many addresses");
            self.refuse(error.found(list.len().to_string()).allowed(format!("at most {most}")));
        }
        for (i, address) in list.iter().enumerate().take(most) {
            let good = if forwards { is_endpoint(address) } else { is_network(address) };
            if !good {
                let allowed = if forwards { "host:port" } else { "IPv4, IPv6 or address/bits" };
                let error = Error::new(E_RANGE, format!("{at}/addresses/{i}"), "not an address").found(&**address);
                self.refuse(error.allowed(allowed));
            }
        }
    }

    fn links(&mut self, entries: &[LinkEntry], groups: Option<&[GroupEntry]>) -> Vec<Link> {
        let expanded = entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(copies(entry)));
        if expanded > MOST_LINKS {
            let error = Error::new(E_LIMIT, "/links", "too many links").found(format!("{expanded} links"));
            self.refuse(error.allowed(format!("at most {MOST_LINKS} after count and duplex")));
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
                Error::new(E_RANGE, format!("{at}/duplex"), "a link from a node to itself has no other direction");
            self.refuse(error.found("true").allowed("false"));
        }
        if entry.count == Some(0) {
            let error = Error::new(E_RANGE, format!("{at}/count"), "no links at all").found("0").allowed("1 or more");
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
            let error = Error::new(NON_POSITIVE_BANDWIDTH, key, "a capacity of nothing is no link").found(&**text);
            let allowed = if closed { "0 or more" } else { "more than 0" };
            self.refuse(error.allowed(allowed).help("leave the link out"));
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
            let error = Error::new(E_RANGE, key, "either every quantity has a unit or none").found(text);
            self.refuse(error.allowed(allowed));
        }
        differs
    }

    fn latency(&mut self, at: &str, entry: &LinkEntry) -> Option<Rational> {
        let Some(text) = &entry.latency else { return Some(Rational::ZERO) };
        let key = format!("{at}/latency");
        match quantity::latency(text) {
            Ok((seconds, _)) if seconds.is_negative() => {
                self.refuse(Error::new(E_RANGE, key, "a negative time").found(&**text).allowed("0s or more"));
                None
            }
            Ok((seconds, has_unit)) => {
                let (message, allowed) = match self.unit {
                    Some(Unit::Abstract) if has_unit => ("a time with unit in a graph without units", "a plain number"),
                    Some(Unit::Bytes(_)) if !has_unit => ("a time without unit", "ns, us, ms or s behind it"),
                    _ => return Some(seconds),
                };
                self.refuse(Error::new(E_RANGE, key, message).found(&**text).allowed(allowed));
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
        self.refuse(Error::new(code, key, message).found(&**text).allowed("a decimal or a fraction p/q, 0 or more"));
        None
    }

    fn per_epoch(&mut self, at: &str, entry: &LinkEntry) -> Option<Arc<[Capacity]>> {
        let list = entry.capacity_per_epoch.as_ref()?;
        let key = format!("{at}/capacity_per_epoch");
        if list.is_empty() {
            let error = Error::new(E_RANGE, key, "no epoch at all").found("[]").allowed("at least one capacity");
            self.refuse(error.help("leave the key out"));
            return None;
        }
        let mut capacity = |(i, text)| self.capacity(format!("{key}/{i}"), text, true);
        list.iter().enumerate().map(&mut capacity).collect::<Option<Vec<_>>>().map(Arc::from)
    }

    fn groups(&mut self, entries: Option<&[GroupEntry]>, links: &[Link]) -> Vec<Group> {
        let entries = entries.unwrap_or_default();
        let mut between: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        if !entries.is_empty() {
            for (i, link) in links.iter().enumerate() {
                between.entry((link.from, link.to)).or_default().push(i);
            }
        }
        let mut groups = Vec::with_capacity(entries.len());
        let mut member_links = 0_u64;
        for (g, entry) in entries.iter().enumerate() {
            let at = format!("/groups/{g}");
            if entry.links.is_empty() {
                let error = Error::new(EMPTY_GROUP, format!("{at}/links"), "a group without links");
                self.refuse(error.found("[]").allowed("at least one link"));
            }
            let mut members = Vec::new();
            for (m, member) in entry.links.iter().enumerate() {
                let key = format!("{at}/links/{m}");
                for link in self.member(&key, member, &between) {
                    member_links += 1;
                    members.push((link, m));
                }
                // Groups that overlap are fine; a file of few bytes that means billions of members is not.
                if member_links > 8 * MOST_LINKS {
                    let error = Error::new(E_LIMIT, "/groups", "too many links in groups");
                    self.refuse(error.allowed(format!("at most {} in all", 8 * MOST_LINKS)));
                    return Vec::new();
                }
            }
            members.sort_unstable();
            if let Some(twice) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                let key = format!("{at}/links/{}", twice[1].1);
                let link = &links[twice[0].0];
                let error = Error::new(REPEATED_EDGE, key, "a link twice in one group");
                let found = format!("link {} from node {} to node {}", twice[0].0, link.from, link.to);
                self.refuse(error.found(found).allowed("every link once"));
            }
            if let Some(capacity) = self.capacity(format!("{at}/capacity"), &entry.capacity, false) {
                let name = entry.name.clone().unwrap_or_else(|| format!("group {g}").into());
                groups.push(Group { name, capacity, links: members.into_iter().map(|(link, _)| link).collect() });
            }
        }
        groups
    }

    /// The links that a member of a group means; says so if there are none.
    fn member(&mut self, key: &str, member: &MemberEntry, between: &HashMap<(usize, usize), Vec<usize>>) -> Vec<usize> {
        let node = |id: &Text| self.by_id.get(id).copied();
        let (from, to) = match (node(&member.from), node(&member.to)) {
            (Some(from), Some(to)) => (from, to),
            (None, _) => {
                self.unknown(format!("{key}/0"), &member.from);
                return Vec::new();
            }
            (_, None) => {
                self.unknown(format!("{key}/1"), &member.to);
                return Vec::new();
            }
        };
        let links = between.get(&(from, to)).map_or(&[][..], Vec::as_slice);
        let chosen = match member.index {
            None => links,
            Some(index) => links.get(index as usize..).and_then(|rest| rest.get(..1)).unwrap_or_default(),
        };
        if chosen.is_empty() {
            let found = format!("{} → {}", member.from, member.to);
            let error = Error::new(UNKNOWN_EDGE, key, "no such link").found(found);
            self.refuse(error.allowed(format!("one of the {} links of this pair", links.len())));
        }
        chosen.to_vec()
    }

    fn routing(&mut self, file: &File) {
        let Some(routing) = &file.routing else { return };
        let paths = routing.paths.as_deref().unwrap_or_default();
        if routing.kind == Some(super::RoutingKind::Explicit) && routing.paths.is_none() {
            let error = Error::new(E_MISSING, "/routing/paths", "explicit routing without paths");
            self.refuse(error.allowed("a list of {src, dst, via}"));
        }
        for (i, path) in paths.iter().enumerate() {
            let ends = [("src", &path.src), ("dst", &path.dst)].map(|(key, id)| (key.to_owned(), id));
            let via = path.via.iter().flatten().enumerate().map(|(j, id)| (format!("via/{j}"), id));
            for (key, id) in ends.into_iter().chain(via) {
                if !self.by_id.contains_key(id) {
                    self.unknown(format!("/routing/paths/{i}/{key}"), id);
                }
            }
        }
    }
}

/// Links an entry becomes.
fn copies(entry: &LinkEntry) -> u64 {
    u64::from(entry.count.unwrap_or(1)) * if entry.duplex == Some(true) { 2 } else { 1 }
}

/// `address` or `address/bits`?
fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.is_none_or(|bits| bits.len() <= 3 && bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

/// `host:port`?
fn is_endpoint(text: &str) -> bool {
    text.len() <= 260
        && text
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0))
}
