//! Network kind `topology`: the host and switch nodes of a `topology.json`.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_formats::document::Table;
use sluice_formats::problem::{Problem, UNSUPPORTED_FIELD};
use sluice_formats::topology::{Kind, Topology};
use sluice_schedule::{Nanos, Rate};

use super::keys::{Defaults, MAX_HOSTS, MAX_NODES, gpus};
use super::{Cable, Host, Network};
use crate::quantities::GIGA;

/// Reads the file that `file` names; every host has the network's `gpus`.
pub(crate) fn read(t: &Table<'_>, d: Defaults, base: &Path) -> Option<Network> {
    let gpus = gpus(t);
    let path = base.join(t.require("file")?.text()?);
    let file = path.display().to_string();
    let topology = match Topology::load(&path).and_then(|topology| topology.with_rates(&file).map(|()| topology)) {
        Ok(topology) => topology,
        Err(problems) => {
            problems.into_all().into_iter().for_each(|problem| t.item.collector.push(problem));
            return None;
        }
    };
    let before = t.item.collector.count();
    let refuse = |key: String, message: &str, found: &str, allowed: &str| {
        let problem = Problem::new(UNSUPPORTED_FIELD, key, message).found(found).allowed(allowed);
        t.item.collector.push(problem.in_file(&file));
    };
    if !topology.groups().is_empty() {
        refuse("/groups".into(), "a scenario knows nothing of limits of several links", "groups", "no groups");
    }
    let (mut hosts, mut switches) = (Vec::new(), Vec::new());
    for (i, node) in topology.nodes().iter().enumerate() {
        match node.kind {
            Kind::Host => hosts.push(Host { name: node.id.to_string(), gpus, rack: 0, edge: 0 }),
            Kind::Switch => switches.push(node.id.to_string()),
            other => {
                let message = "a scenario's network has hosts and switches only";
                refuse(format!("/nodes/{i}/kind"), message, other.word(), "host, switch");
            }
        }
    }
    if hosts.is_empty() || hosts.len() as u64 > MAX_HOSTS || topology.nodes().len() > MAX_NODES {
        let found = format!("{} hosts, {} nodes", hosts.len(), topology.nodes().len());
        refuse("/nodes".into(), "not the size of a scenario's network", &found, "1 to 4096 hosts, 65536 nodes");
    }
    let cables = cables(&topology, d, &refuse);
    (t.item.collector.count() == before).then(|| Network::build("topology", hosts, switches, &cables))
}

/// Directed links are paired into cables: duplex entries are one, and each one-way entry waits for its opposite.
fn cables(topology: &Topology, d: Defaults, refuse: &impl Fn(String, &str, &str, &str)) -> Vec<Cable> {
    let entries = &topology.file().links;
    let mut cables = Vec::new();
    let mut waiting: BTreeMap<(usize, usize), Vec<Cable>> = BTreeMap::new();
    let mut links = topology.links().iter();
    while let Some(link) = links.next() {
        let at = format!("/links/{}", link.entry);
        let entry = entries.get(link.entry);
        let Some(bits) = link.capacity.bits_per_second() else {
            refuse(format!("{at}/capacity"), "a scenario's links have a rate", "unlimited", "a capacity with a unit");
            return cables;
        };
        if link.from == link.to {
            let id = &topology.nodes()[link.from].id;
            refuse(at, "a link from a node to itself carries nothing in a scenario", id, "two different nodes");
            return cables;
        }
        let said = entry.is_some_and(|entry| entry.latency.is_some());
        let delay = if said { Nanos(link.latency.to_units(GIGA).unwrap_or(u64::MAX)) } else { d.delay };
        let id = |node: usize| topology.nodes()[node].id.to_string();
        let cable = Cable { delay, ..d.cable(id(link.from), id(link.to), Rate(bits)) };
        if entry.is_some_and(|entry| entry.duplex == Some(true)) {
            // The way back is the next link.
            links.next();
            cables.push(cable);
        } else if let Some(opposite) = waiting.get_mut(&(link.to, link.from)).and_then(Vec::pop) {
            cables.push(Cable { back: Rate(bits), ..opposite });
        } else {
            waiting.entry((link.from, link.to)).or_default().push(cable);
        }
    }
    if let Some(((from, to), _)) = waiting.iter().find(|(_, waiting)| !waiting.is_empty()) {
        let (from, to) = (&topology.nodes()[*from].id, &topology.nodes()[*to].id);
        refuse("/links".into(), "a link without a way back", &format!("{from} to {to}"), "links in both directions");
    }
    cables
}
