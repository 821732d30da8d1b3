//! Network kind `topology`: the host and switch nodes of a `topology.json`, version 1.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use sluice_schedule::{Nanos, Rate};

use super::read::{Defaults, MAX_HOSTS, gpus, id_of};
use super::{Cable, Host, Network};
use crate::exact::Ratio;
use crate::problem::{Code, Log};
use crate::table::{GIGA, Item, Table};
use crate::tree::from_json;

/// Most bytes of a topology file.
const MAX_BYTES: u64 = 64 << 20;

/// Reads the file that `file` names; every host has the network's `gpus`.
pub(crate) fn read(t: &Table<'_>, d: Defaults, base: &Path) -> Option<Network> {
    let gpus = gpus(t);
    let item = t.require("file")?;
    let path = base.join(item.text()?);
    let text = match crate::trace::read_text(&path, MAX_BYTES) {
        Ok(text) => text,
        Err(e) => {
            item.fail(Code::Net, format!("{}: {e}", path.display()), "a readable topology.json");
            return None;
        }
    };
    let log = Log::new(&path.display().to_string(), None);
    let node = from_json(&text, &log);
    let network = Table::root(&node, &log).and_then(|root| nodes_and_links(root, gpus, d));
    for problem in log.into_problems() {
        t.log.push(problem);
    }
    network
}

fn nodes_and_links(root: Table<'_>, gpus: u32, d: Defaults) -> Option<Network> {
    root.require("sluice_topology").and_then(|i| i.int(&(1..=1)));
    // These say nothing about host-to-host traffic, or are the scenario's own business.
    for key in ["name", "box", "routing"] {
        root.get(key);
    }
    if root.list("groups").is_some_and(|g| !g.is_empty()) {
        root.fail(Code::Net, "groups limit several links together", "a topology without groups: not supported here");
    }
    let (mut hosts, mut switches, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    root.require("nodes");
    for item in root.list("nodes").unwrap_or_default() {
        let Some(row) = item.table() else { continue };
        let id = row.require("id").and_then(|i| id_of(&i));
        row.require("kind");
        let kind = row.choice("kind", &[("host", true), ("switch", false)]);
        for key in ["can", "weight", "buffer", "addresses"] {
            row.get(key);
        }
        row.finish();
        let (Some(id), Some(is_host)) = (id, kind) else { continue };
        if !seen.insert(id.clone()) {
            item.fail(Code::Dup, format!("node {id:?} stands twice"), "each id once");
        } else if is_host {
            hosts.push(Host { name: id, gpus, rack: 0, edge: 0 });
        } else {
            switches.push(id);
        }
    }
    if hosts.is_empty() || hosts.len() as u64 > MAX_HOSTS || seen.len() > 65_536 {
        root.fail(Code::Limit, format!("{} hosts, {} nodes", hosts.len(), seen.len()), "1 to 4096 hosts, 65536 nodes");
        return None;
    }
    let cables = links(&root, d, &seen);
    root.finish();
    Some(Network::build("topology", hosts, switches, &cables))
}

/// Directed links are paired into cables: duplex entries are one, and each one-way entry waits for its opposite.
fn links(root: &Table<'_>, d: Defaults, nodes: &HashSet<String>) -> Vec<Cable> {
    let mut cables = Vec::new();
    let mut waiting: BTreeMap<(String, String), Vec<Cable>> = BTreeMap::new();
    root.require("links");
    for item in root.list("links").unwrap_or_default() {
        let Some(row) = item.table() else { continue };
        let end = |key| {
            let end = row.require(key)?;
            let name = end.text()?;
            if !nodes.contains(name) {
                end.fail(Code::Ref, format!("no node {name:?}"), "an id of nodes");
            }
            Some(name.to_owned())
        };
        let (from, to) = (end("from"), end("to"));
        let rate = row.require("capacity").and_then(|i| capacity(&i));
        let delay = row.get("latency").and_then(|i| latency(&i)).unwrap_or(d.delay);
        let count = row.int("count", 1..=64).unwrap_or(1);
        let duplex = row.flag("duplex").unwrap_or(false);
        row.get("cost");
        row.finish();
        let (Some(from), Some(to), Some(rate)) = (from, to, rate) else { continue };
        if from == to {
            item.fail(Code::Net, format!("a link from {from:?} to itself"), "two different nodes");
            continue;
        }
        for _ in 0..count {
            let cable = Cable { delay, ..d.cable(from.clone(), to.clone(), rate) };
            if duplex {
                cables.push(cable);
            } else if let Some(opposite) = waiting.get_mut(&(to.clone(), from.clone())).and_then(Vec::pop) {
                cables.push(Cable { back: rate, ..opposite });
            } else {
                waiting.entry((from.clone(), to.clone())).or_default().push(cable);
            }
        }
    }
    if let Some((from, to)) = waiting.iter().find(|(_, w)| !w.is_empty()).map(|(k, _)| k) {
        root.fail(Code::Net, format!("the link {from:?} to {to:?} has no way back"), "links in both directions");
    }
    cables
}

fn split_unit(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e').unwrap_or(text.len());
    (text.get(..at).unwrap_or_default().trim(), text.get(at..).unwrap_or_default())
}

fn capacity(item: &Item<'_>) -> Option<Rate> {
    let allowed =
        "a number with B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s";
    let text = item.text()?;
    let (number, unit) = split_unit(text);
    let bits: u64 = match unit {
        "B/s" => 8,
        "kB/s" => 8_000,
        "MB/s" => 8_000_000,
        "GB/s" => 8 * GIGA,
        "TB/s" => 8_000 * GIGA,
        "KiB/s" => 8 << 10,
        "MiB/s" => 8 << 20,
        "GiB/s" => 8 << 30,
        "bit/s" => 1,
        "kbit/s" => 1_000,
        "Mbit/s" => 1_000_000,
        "Gbit/s" => GIGA,
        "Tbit/s" => 1_000 * GIGA,
        _ => {
            item.fail(Code::Parse, format!("{text:?} has no unit of a rate"), allowed);
            return None;
        }
    };
    let rate = Ratio::parse(number).ok().and_then(|r| r.to_u64(bits)).filter(|&b| b > 0 && b <= 100_000 * GIGA);
    if rate.is_none() {
        item.fail(Code::Range, format!("{text:?} is no capacity"), allowed);
    }
    rate.map(Rate)
}

fn latency(item: &Item<'_>) -> Option<Nanos> {
    let text = item.text()?;
    let (number, unit) = split_unit(text);
    let nanos = match unit {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(GIGA),
        _ => None,
    };
    let time = nanos.and_then(|n| Ratio::parse(number).ok()?.to_u64(n)).filter(|&n| n <= 10 * GIGA);
    if time.is_none() {
        item.fail(Code::Range, format!("{text:?} is no latency"), "a number with ns, us, ms or s, at most 10s");
    }
    time.map(Nanos)
}
