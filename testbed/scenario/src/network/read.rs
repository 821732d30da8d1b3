//! Reads the `network` table and checks that the result hangs together.

use crate::quantities::Quantity;
use sluice_formats::document::{Item, Table, Value};
use sluice_formats::problem::{E_DUP, E_LIMIT, E_MISSING, E_NET, E_RANGE, E_REF};
use sluice_formats::quantity::Rational;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use sluice_schedule::{Nanos, Rate};

use super::keys::{Defaults, MAX_HOSTS, MAX_NODES, gpus, three_rates, uplinks};
use super::{Cable, Host, LinkIx, Network, NodeIx};

const MAX_CABLES: usize = 1_000_000;
/// Delay of a cable that names none.
const DELAY: Nanos = Nanos(5_000);

/// Reads `network`. `None` when nothing usable came out; the collector has the reasons.
pub(crate) fn read(t: Table<'_>, base: &Path) -> Option<Network> {
    let before = t.item.collector.count();
    let defaults = Defaults {
        delay: t.get("delay_us").and_then(|i| i.micros()).unwrap_or(DELAY),
        loss: t.chance("loss").unwrap_or(0.0),
    };
    t.require("kind")?;
    let kinds = [("star", 0), ("three-tier", 1), ("explicit", 2), ("file", 3), ("topology", 4)];
    let kind = t.choice("kind", &kinds)?;
    let network = match kind {
        0 => star(&t, defaults),
        1 => three_tier(&t, defaults),
        2 => explicit(&t, defaults),
        3 => super::import::lingjun(&t, defaults, base),
        _ => super::topology::read(&t, defaults, base),
    };
    t.finish();
    let network = network?;
    if t.item.collector.count() == before {
        check(&network, &t);
    }
    Some(network)
}

fn star(t: &Table<'_>, d: Defaults) -> Option<Network> {
    let hosts = t.require("hosts").and_then(|i| i.int(&(1..=MAX_HOSTS)));
    let gpus = gpus(t);
    let rate = t.require("gbps").and_then(|i| i.gbps());
    // Each card of a host has a switch of its own.
    let rails = t.int32("rails", 1..=16).unwrap_or(1);
    let (hosts, rate) = (hosts?, rate?);
    let cable = |host, rail| d.cable(format!("h{host}"), format!("s{rail}"), rate);
    let cables: Vec<Cable> = (0..hosts).flat_map(|host| (0..rails).map(move |rail| cable(host, rail))).collect();
    let hosts = (0..hosts).map(|i| Host { name: format!("h{i}"), gpus, rack: 0, edge: 0 }).collect();
    let switches = (0..rails).map(|rail| format!("s{rail}")).collect();
    Some(Network { rails, ..Network::build("star", hosts, switches, &cables) })
}

fn three_tier(t: &Table<'_>, d: Defaults) -> Option<Network> {
    let size = |key| t.require(key).and_then(|i| i.int(&(1..=MAX_HOSTS)));
    let (per_rack, per_edge, edges) = (size("servers_per_rack"), size("racks_per_edge"), size("edges"));
    let (gpus, rates, up) = (gpus(t), three_rates(t), uplinks(t));
    let aggregations = t.int("aggregations", 1..=256).unwrap_or(1);
    let (per_rack, per_edge, edges, rates, up) = (per_rack?, per_edge?, edges?, rates?, up?);
    let racks = per_edge * edges;
    if per_rack * racks > MAX_HOSTS {
        t.fail(E_LIMIT, format!("{} hosts", per_rack * racks), "at most 4096 hosts");
        return None;
    }
    let cable = |a: String, b: String, rate: Rate| d.cable(a, b, rate);
    let mut cables = Vec::new();
    let mut hosts = Vec::new();
    for rack in 0..racks {
        for i in 0..per_rack {
            let name = format!("h{}", rack * per_rack + i);
            cables.push(cable(name.clone(), format!("t{rack}"), rates[0]));
            hosts.push(Host { name, gpus, rack: rack as usize, edge: (rack / per_edge) as usize });
        }
    }
    for rack in 0..racks {
        for _ in 0..up[0] {
            cables.push(cable(format!("t{rack}"), format!("e{}", rack / per_edge), rates[1]));
        }
    }
    if edges * aggregations * up[1] + cables.len() as u64 > MAX_CABLES as u64 {
        t.fail(E_LIMIT, "too many cables", "at most 1000000 cables");
        return None;
    }
    for edge in 0..edges {
        for g in 0..aggregations {
            for _ in 0..up[1] {
                cables.push(cable(format!("e{edge}"), format!("g{g}"), rates[2]));
            }
        }
    }
    let names = |prefix: &str, n: u64| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let switches = [names("t", racks), names("e", edges), names("g", aggregations)].concat();
    Some(Network::build("three-tier", hosts, switches, &cables))
}

/// Checks an id of a node or a job.
pub(crate) fn id_of(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let ok = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let good = text.len() <= 64 && text.chars().all(ok) && text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !good {
        item.fail(
            E_RANGE,
            format!("{text:?} is no id"),
            "1 to 64 of a-z A-Z 0-9 . _ -, beginning with a letter or digit",
        );
    }
    good.then(|| text.to_owned())
}

fn explicit(t: &Table<'_>, d: Defaults) -> Option<Network> {
    let mut seen = HashSet::new();
    let mut hosts = Vec::new();
    let mut switches = Vec::new();
    t.require("hosts");
    for (key, is_host) in [("hosts", true), ("switches", false)] {
        for item in t.list(key).unwrap_or_default() {
            let Some(row) = item.table() else { continue };
            let id = row.require("id").and_then(|i| id_of(&i));
            let gpus = if is_host { gpus(&row) } else { 0 };
            row.finish();
            let Some(id) = id else { continue };
            if !seen.insert(id.clone()) {
                item.fail(E_DUP, format!("node {id:?} stands twice"), "each id once");
            } else if is_host {
                hosts.push(Host { name: id, gpus, rack: 0, edge: 0 });
            } else {
                switches.push(id);
            }
        }
    }
    if hosts.len() as u64 > MAX_HOSTS || seen.len() > MAX_NODES {
        t.fail(E_LIMIT, format!("{} hosts, {} nodes", hosts.len(), seen.len()), "4096 hosts, 65536 nodes");
        return None;
    }
    if hosts.is_empty() {
        t.fail(E_MISSING, "no host", "at least one host");
    }
    let mut cables = Vec::new();
    t.require("links");
    for item in t.list("links").unwrap_or_default() {
        let Some(row) = item.table() else { continue };
        read_link(&row, &item, d, &seen, &mut cables);
        row.finish();
    }
    Some(Network::build("explicit", hosts, switches, &cables))
}

fn read_link(row: &Table<'_>, item: &Item<'_>, d: Defaults, nodes: &HashSet<String>, cables: &mut Vec<Cable>) {
    let end = |key| {
        let end = row.require(key)?;
        let name = end.text()?;
        if !nodes.contains(name) {
            end.fail(E_REF, format!("no node {name:?}"), "an id of hosts or switches");
        }
        Some(name.to_owned())
    };
    let (a, b) = (end("a"), end("b"));
    let forward = row.require("gbps").and_then(|i| i.gbps());
    let back = row.get("gbps_back").and_then(|i| i.gbps()).or(forward);
    let count = row.int("count", 1..=64).unwrap_or(1);
    let delay = row.get("delay_us").and_then(|i| i.micros()).unwrap_or(d.delay);
    let loss = row.chance("loss").unwrap_or(d.loss);
    let (Some(a), Some(b), Some(forward), Some(back)) = (a, b, forward, back) else { return };
    if a == b {
        item.fail(E_NET, format!("a link from {a:?} to itself"), "two different nodes");
        return;
    }
    for _ in 0..count {
        if cables.len() < MAX_CABLES {
            cables.push(Cable { a: a.clone(), b: b.clone(), forward, back, delay, loss });
        }
    }
}

/// Every host has a link, and every host reaches every other (hosts do not forward).
pub(crate) fn check(network: &Network, t: &Table<'_>) {
    for (i, host) in network.hosts.iter().enumerate() {
        if network.out(NodeIx(i)).is_empty() && network.hosts.len() > 1 {
            t.fail(E_NET, format!("host {:?} has no link", host.name), "at least one");
        }
    }
    // Hosts with the same sets of islands of switches reach the same hosts; direct cables join pairs only.
    let island = islands(network);
    let of = |host: usize| -> BTreeMap<usize, ()> {
        let to = network.out(NodeIx(host)).iter().filter_map(|&l| network.link(l)).map(|l| l.to);
        to.filter(|&n| !network.is_host(n)).filter_map(|n| island.get(n.0)).map(|&c| (c, ())).collect()
    };
    let sets: Vec<BTreeMap<usize, ()>> = (0..network.hosts.len()).map(of).collect();
    let common = sets.first().is_some_and(|s| s.keys().any(|c| sets.iter().all(|o| o.contains_key(c))));
    if common {
        return;
    }
    for (a, sa) in sets.iter().enumerate() {
        for (b, sb) in sets.iter().enumerate().skip(a + 1) {
            let direct =
                || network.out(NodeIx(a)).iter().any(|&LinkIx(l)| network.links.get(l).is_some_and(|l| l.to.0 == b));
            if sa.keys().any(|c| sb.contains_key(c)) || direct() {
                continue;
            }
            let (a, b) = (network.name(NodeIx(a)), network.name(NodeIx(b)));
            t.fail(E_NET, format!("hosts {a:?} and {b:?} cannot reach each other"), "a path of switches");
            return;
        }
    }
}

/// Connected components of the switches, by node index.
fn islands(network: &Network) -> Vec<usize> {
    let mut island: Vec<usize> = (0..network.nodes()).collect();
    let mut seen = vec![false; network.nodes()];
    for start in network.hosts.len()..network.nodes() {
        let mut stack = vec![NodeIx(start)];
        while let Some(node) = stack.pop() {
            let Some(flag) = seen.get_mut(node.0) else { continue };
            if std::mem::replace(flag, true) {
                continue;
            }
            if let Some(slot) = island.get_mut(node.0) {
                *slot = start;
            }
            let next = network.out(node).iter().filter_map(|&l| network.link(l)).map(|l| l.to);
            stack.extend(next.filter(|&n| !network.is_host(n)));
        }
    }
    island
}

/// The top-level key `loss`: one number for all links, or a list of `{a, b, loss}`.
pub(crate) fn read_loss(item: &Item<'_>, network: &mut Network) {
    if !matches!(item.node.value, Value::List(_)) {
        if let Some(p) = item.number_in(&Rational::ZERO, &Rational::ONE, "a probability, or a list of {a, b, loss}") {
            network.links.iter_mut().for_each(|l| l.loss = p.to_f64());
        }
        return;
    }
    for entry in item.list().unwrap_or_default() {
        let Some(row) = entry.table() else { continue };
        let end = |key| {
            let end = row.require(key)?;
            let node = network.find(end.text()?);
            if node.is_none() {
                end.fail(E_REF, format!("no node {}", end.node.value.shown()), "an id of a host or switch");
            }
            node
        };
        let (a, b) = (end("a"), end("b"));
        let loss = row.require("loss").and_then(|i| i.number_in(&Rational::ZERO, &Rational::ONE, "from 0 to 1"));
        row.finish();
        let (Some(a), Some(b), Some(loss)) = (a, b, loss) else { continue };
        let mut hits = 0;
        for link in network.links.iter_mut().filter(|l| (l.from, l.to) == (a, b) || (l.from, l.to) == (b, a)) {
            link.loss = loss.to_f64();
            hits += 1;
        }
        if hits == 0 {
            entry.fail(E_REF, "no link between these nodes", "two neighbours");
        }
    }
}
