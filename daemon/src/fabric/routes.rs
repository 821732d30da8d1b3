//! By which of several equal links flows go, as far as that is known: what switches have told, what was found by probes, and
//! what a file says.
//!
//! The file is JSON: `{"sluice_routes": 1, "routes": [{"src": "10.0.0.1", "dst": "10.0.1.0/24", "src_port": 40000,
//! "dst_port": 9000, "via": ["leaf0", "spine1", "leaf1"]}]}`. The ports may be left out; `via` names switches that the flow
//! passes one after the other, perhaps not all of them. Of several entries that fit the first counts, and what a switch
//! says of itself goes before what a flow's own announcements were marked with ([`signature`]), that before what a probe has
//! found, and that before the file.

pub mod signature;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_formats::document::{Collector, Item, Node, Notation, Table};
use sluice_formats::problem::{E_LIMIT, E_MISSING, E_NET, E_REF, E_VERSION, Problem, Problems};
use sluice_formats::topology::Kind;
use sluice_formats::{file, network};
use sluice_schedule::{FlowId, HolderId, LinkId};
use sluice_wire::snapshot::PathSource;

use crate::config::Config;
use crate::monitor::tuple::Tuple;
use crate::topology::Topology;
use crate::topology::path::Shared;

/// Bytes of a file at most.
const MAX_BYTES: u64 = 16 << 20;
/// Entries of a file at most.
const MAX_ROUTES: usize = 65_536;
/// Of them, those for ranges of addresses, which are looked at one by one.
const MAX_WIDE: usize = 256;
/// Switches of a route at most.
const MAX_VIA: usize = 16;
/// Flows of which something learned is kept at most.
const MAX_FLOWS: usize = 65_536;

const NETWORK: &str = "an address or a range such as \"10.0.0.0/8\"";

/// One entry of the file.
#[derive(Debug)]
struct Entry {
    source: IpNet,
    destination: IpNet,
    source_port: Option<u16>,
    destination_port: Option<u16>,
    /// Links of the topology.
    links: Vec<usize>,
}

/// What a file says.
#[derive(Debug, Default)]
pub struct Told {
    entries: Vec<Entry>,
    exact: HashMap<(IpAddr, IpAddr), Vec<usize>>,
    wide: Vec<usize>,
}

/// Who says by which link a flow goes on; whoever counts more comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    Switch,
    Signature,
    Probe,
    File,
}

/// What was learned of this host's flows: at most one link of each switch from each that says so.
#[derive(Debug, Default)]
pub struct Learned(RefCell<BTreeMap<FlowId, Vec<(By, LinkId)>>>);

/// What the files say about the network that a configuration names.
#[derive(Debug, Default)]
pub struct Known {
    pub topology: Option<Arc<Topology>>,
    pub told: Option<Arc<Told>>,
}

/// Reads the files about the network that a configuration names.
///
/// # Errors
/// What is wrong with either, and routes without a topology.
pub fn load(config: &Config) -> Result<Known, Problems> {
    let topology = config.topology.as_deref().map(Topology::load).transpose()?;
    let told = match (&config.routes, &topology) {
        (Some(path), Some(topology)) => Some(Arc::new(Told::load(path, topology)?)),
        (Some(path), None) => {
            let message =
                format!("routes = {:?} speaks of switches that no topology names", path.display().to_string());
            let problem = Problem::new(E_MISSING, "topology", message).allowed("the path of a topology.json");
            return Err(problem.into());
        }
        (None, _) => None,
    };
    Ok(Known { topology: topology.map(Arc::new), told })
}

impl Told {
    fn load(path: &Path, topology: &Topology) -> Result<Told, Problems> {
        Told::parse(&path.display().to_string(), &file::load_text(path, MAX_BYTES)?, topology)
    }

    fn parse(name: &str, text: &str, topology: &Topology) -> Result<Told, Problems> {
        let collector = Collector::new(name, text, Notation::Json);
        let node = Node::parse(&collector);
        let mut told = Told::default();
        if collector.count() == 0
            && let Some(root) = Item::root(&node, &collector).table()
        {
            let version = root.require("sluice_routes");
            if let Some(version) = version.filter(|version| version.int(&(0..=u64::MAX)).is_some_and(|n| n != 1)) {
                version.fail(E_VERSION, "a version this program does not know", "1");
            }
            let list = root.require("routes").and_then(|list| list.list_of(MAX_ROUTES)).unwrap_or_default();
            for item in &list {
                if let Some(entry) = item.table().and_then(|table| read(&table, topology)) {
                    told.add(entry);
                }
                if told.wide.len() > MAX_WIDE {
                    let message = format!("more than {MAX_WIDE} routes are for ranges of addresses");
                    item.fail(E_LIMIT, message, "single addresses in all others");
                    break;
                }
            }
            root.finish();
        }
        Problems::of(collector.into_problems()).map_or(Ok(told), Err)
    }

    fn add(&mut self, entry: Entry) {
        let at = self.entries.len();
        match (network::single(&entry.source), network::single(&entry.destination)) {
            (Some(source), Some(destination)) => self.exact.entry((source, destination)).or_default().push(at),
            _ => self.wide.push(at),
        }
        self.entries.push(entry);
    }

    /// The links that the file gives for a connection.
    fn links(&self, tuple: &Tuple) -> &[usize] {
        let ends = (tuple.local_ip(), tuple.remote_ip());
        let fits = |at: &&usize| {
            let entry = &self.entries[**at];
            let port = |known: Option<u16>, real: u16| known.is_none_or(|known| known == real);
            network::contains(&entry.source, ends.0)
                && network::contains(&entry.destination, ends.1)
                && port(entry.source_port, tuple.local.1)
                && port(entry.destination_port, tuple.remote.1)
        };
        let exact = self.exact.get(&ends).into_iter().flatten().find(fits);
        let first = exact.into_iter().chain(self.wide.iter().find(fits)).min();
        first.map_or(&[], |at| &self.entries[*at].links)
    }
}

fn read(table: &Table<'_>, topology: &Topology) -> Option<Entry> {
    for key in ["src", "dst", "via"] {
        table.require(key);
    }
    let source = table.parse("src", NETWORK, network::parse);
    let destination = table.parse("dst", NETWORK, network::parse);
    let port = |key| table.int(key, 0..=u64::from(u16::MAX)).and_then(|port| u16::try_from(port).ok());
    let (source_port, destination_port) = (port("src_port"), port("dst_port"));
    let via = table.get("via").and_then(|via| via.list_of(MAX_VIA));
    table.finish();
    let mut nodes = Vec::new();
    for item in via.iter().flatten() {
        let name = item.text()?;
        match topology.node(name).filter(|node| topology.kind(*node) == Some(Kind::Switch)) {
            Some(node) => nodes.push(node),
            None => {
                item.fail(E_REF, format!("the topology has no switch {name:?}"), "the id of a switch");
                return None;
            }
        }
    }
    let mut links = Vec::new();
    for pair in nodes.windows(2) {
        match topology.between(pair[0], pair[1])[..] {
            [only] => links.push(only),
            ref all => {
                let (from, to) = (topology.name(pair[0]), topology.name(pair[1]));
                let message = format!("{} links lead from {from:?} to {to:?}", all.len());
                table.fail(E_NET, message, "neighbours with one link between them in via");
                return None;
            }
        }
    }
    Some(Entry { source: source?, destination: destination?, source_port, destination_port, links })
}

impl Learned {
    /// It is known now by which link of a switch a flow goes, and who says so; `None`: that is not known any more.
    pub fn learn(&self, flow: FlowId, holder: HolderId, link: Option<LinkId>, by: By) {
        let mut flows = self.0.borrow_mut();
        if flows.len() >= MAX_FLOWS && !flows.contains_key(&flow) {
            return;
        }
        let links = flows.entry(flow).or_default();
        links.retain(|(of, known)| *of != by || known.node() != holder.0);
        links.extend(link.map(|link| (by, link)));
        links.sort_unstable();
        if links.is_empty() {
            flows.remove(&flow);
        }
    }

    /// All the links of a flow's way that one has told of, in place of what he told before. False: it is the same.
    pub fn learn_way(&self, flow: FlowId, way: &[LinkId], by: By) -> bool {
        let mut flows = self.0.borrow_mut();
        let known = flows.get(&flow).map_or(&[][..], Vec::as_slice);
        let before: BTreeSet<LinkId> = known.iter().filter(|(of, _)| *of == by).map(|(_, link)| *link).collect();
        let now: BTreeSet<LinkId> = way.iter().copied().collect();
        if before == now || (known.is_empty() && flows.len() >= MAX_FLOWS) {
            return false;
        }
        let links = flows.entry(flow).or_default();
        links.retain(|(of, _)| *of != by);
        links.extend(now.into_iter().map(|link| (by, link)));
        links.sort_unstable();
        if links.is_empty() {
            flows.remove(&flow);
        }
        true
    }

    /// What another network had learned.
    pub fn take_over(&self, before: &Learned) {
        let known = before.0.borrow().clone();
        *self.0.borrow_mut() = known;
    }

    /// Forgets all flows but these.
    pub fn keep(&self, lives: impl Fn(FlowId) -> bool) {
        self.0.borrow_mut().retain(|flow, _| lives(*flow));
    }

    /// Forgets what one has said of all flows.
    pub fn forget(&self, by: By) {
        self.0.borrow_mut().retain(|_, links| {
            links.retain(|(of, _)| *of != by);
            !links.is_empty()
        });
    }

    /// The links by which a flow goes and who says so, those that count more first.
    pub fn links(&self, flow: FlowId, tuple: &Tuple, told: Option<&Told>, topology: &Topology) -> Vec<(usize, By)> {
        let learned = self.0.borrow();
        let of = |(by, link): &(By, LinkId)| Some((topology.find(*link)?, *by));
        let learned = learned.get(&flow).into_iter().flatten().filter_map(of);
        let told = told.map_or(&[][..], |told| told.links(tuple)).iter();
        learned.chain(told.map(|link| (*link, By::File))).collect()
    }
}

/// Who says by which of several equal paths a flow goes, of those who are needed for it the one who counts least.
pub(super) fn source(
    topology: &Topology,
    (from, to): (usize, usize),
    shared: &Shared,
    goes: &[(usize, By)],
) -> PathSource {
    if shared.forks.is_empty() {
        return PathSource::Only;
    }
    let mut here = from;
    for link in &shared.links {
        if topology.links[*link].from != here {
            return PathSource::Unknown;
        }
        here = topology.links[*link].to;
    }
    let chosen = shared.links.iter().filter(|link| shared.forks.contains(&topology.links[**link].from));
    let by = chosen.filter_map(|link| Some(goes.iter().find(|(known, _)| known == link)?.1)).max();
    match by.filter(|_| here == to) {
        Some(By::Switch) => PathSource::Switch,
        Some(By::Signature) => PathSource::Signature,
        Some(By::Probe) => PathSource::Probe,
        Some(By::File) => PathSource::File,
        None => PathSource::Unknown,
    }
}

#[cfg(test)]
mod tests;
