//! `sluice topology show`: nodes and links by class, so that a thousand GPUs fit on a screen.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_formats::quantity::{Capacity, Rational, Unit};
use sluice_formats::topology::{Topology, draw};
use sluice_planners::{Progress, Run};

use super::alltoall::{self, AllToAll};
use super::args::ShowArgs;
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::output;
use crate::plan::watch::Watch;
use crate::plan::{files, form};
use crate::table::Table;

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    name: String,
    sha256: String,
    unit: Option<&'static str>,
    nodes: usize,
    links: usize,
    boxes: usize,
    groups: usize,
    /// As much bandwidth in as out at every node?
    balanced: bool,
    node_classes: Vec<Nodes>,
    link_classes: Vec<Links>,
    group_classes: Vec<Groups>,
    #[serde(skip_serializing_if = "Option::is_none")]
    all_to_all: Option<AllToAll>,
}

/// Nodes that are alike.
#[derive(Debug, Serialize)]
struct Nodes {
    kind: &'static str,
    count: usize,
    weight: u64,
    can: Vec<&'static str>,
    #[serde(rename = "in")]
    into: String,
    out: String,
    first: String,
}

/// Directed links that are alike.
#[derive(Debug, Serialize)]
struct Links {
    from: &'static str,
    to: &'static str,
    capacity: String,
    cost: String,
    count: usize,
    first: String,
}

/// Joint limits that are alike.
#[derive(Debug, Serialize)]
struct Groups {
    capacity: String,
    /// How many each of them limits.
    links: usize,
    count: usize,
    first: String,
}

pub fn run(global: &Global, args: &ShowArgs) -> Result<(), Failure> {
    let topology = form::read(&args.file, args.form, &args.forms)?;
    match &args.svg {
        Some(path) if files::is_standard(path) => return output::print(&draw::svg(&topology)),
        Some(path) => files::write(path, &draw::svg(&topology))?,
        None => {}
    }
    if !global.quiet {
        let mut shown = shown(&topology);
        if args.all_to_all {
            shown.all_to_all = Some(all_to_all(global, &topology, &files::name(&args.file))?);
        }
        output::one(global, &shown, || text(&shown))?;
    }
    Ok(())
}

/// The all-to-all rate, shown on the way as any planner's work is.
fn all_to_all(global: &Global, topology: &Topology, file: &str) -> Result<AllToAll, Failure> {
    let watch = Watch::new(!global.quiet);
    let tell = |progress: Progress<'_>| watch.progress(progress);
    let run = Run { threads: 1, watch: &tell, cancel: interrupt::flag(), deadline: None };
    let found = alltoall::of(topology, file, &run);
    watch.finish();
    found
}

fn shown(topology: &Topology) -> Shown {
    let none = || vec![Capacity::Finite(Rational::ZERO); topology.nodes().len()];
    let (mut into, mut out) = (none(), none());
    for link in topology.links() {
        out[link.from] = out[link.from].plus(&link.capacity);
        into[link.to] = into[link.to].plus(&link.capacity);
    }
    let unit = topology.unit();
    // Classes come in the order of their first members.
    let mut node_classes: Vec<Nodes> = Vec::new();
    let mut places = BTreeMap::new();
    for (i, node) in topology.nodes().iter().enumerate() {
        let can = [("store", node.can.store), ("copy", node.can.copy), ("reduce", node.can.reduce)];
        let can: Vec<&str> = can.into_iter().filter(|(_, able)| *able).map(|(word, _)| word).collect();
        let (inward, outward) = (unit.write(&into[i]), unit.write(&out[i]));
        let key = (node.kind, node.weight, can.clone(), inward.clone(), outward.clone());
        let place = *places.entry(key).or_insert(node_classes.len());
        match node_classes.get_mut(place) {
            Some(class) => class.count += 1,
            None => node_classes.push(Nodes {
                kind: node.kind.word(),
                count: 1,
                weight: node.weight,
                can,
                into: inward,
                out: outward,
                first: node.id.to_string(),
            }),
        }
    }
    let (link_classes, group_classes) = (link_classes(topology), group_classes(topology));
    let boxes: std::collections::HashSet<_> =
        topology.nodes().iter().filter_map(|node| node.machine.as_ref()).collect();
    Shown {
        schema: 1,
        name: topology.name().to_owned(),
        sha256: topology.digest(),
        unit: match unit {
            Unit::Abstract => None,
            Unit::Bytes(unit) => Some(unit.word()),
        },
        nodes: topology.nodes().len(),
        links: topology.links().len(),
        boxes: boxes.len(),
        groups: topology.groups().len(),
        balanced: into == out,
        node_classes,
        link_classes,
        group_classes,
        all_to_all: None,
    }
}

fn link_classes(topology: &Topology) -> Vec<Links> {
    let mut classes: Vec<Links> = Vec::new();
    let mut places = BTreeMap::new();
    for link in topology.links() {
        let (from, to) = (&topology.nodes()[link.from], &topology.nodes()[link.to]);
        let (capacity, cost) = (topology.unit().write(&link.capacity), link.cost.to_string());
        let place = *places.entry((from.kind, to.kind, capacity.clone(), cost.clone())).or_insert(classes.len());
        match classes.get_mut(place) {
            Some(class) => class.count += 1,
            None => classes.push(Links {
                from: from.kind.word(),
                to: to.kind.word(),
                capacity,
                cost,
                count: 1,
                first: format!("{} → {}", from.id, to.id),
            }),
        }
    }
    classes
}

fn group_classes(topology: &Topology) -> Vec<Groups> {
    let mut classes: Vec<Groups> = Vec::new();
    let mut places = BTreeMap::new();
    for group in topology.groups() {
        let (capacity, links) = (topology.unit().write(&group.capacity), group.links.len());
        let place = *places.entry((capacity.clone(), links)).or_insert(classes.len());
        match classes.get_mut(place) {
            Some(class) => class.count += 1,
            None => classes.push(Groups { capacity, links, count: 1, first: group.name.to_string() }),
        }
    }
    classes
}

fn text(shown: &Shown) -> String {
    let name = if shown.name.is_empty() { "a fabric without name" } else { &shown.name };
    let mut text = format!("{name}: {} nodes, {} directed links", shown.nodes, shown.links);
    for (count, one, several) in [(shown.boxes, "box", "boxes"), (shown.groups, "group", "groups")] {
        if count > 0 {
            text += &format!(", {count} {}", if count == 1 { one } else { several });
        }
    }
    text += if shown.balanced { "; balanced\n" } else { "; not balanced: some nodes have more in than out, or less\n" };
    text += &format!("SHA-256 {}\n", shown.sha256);
    text += &shown.all_to_all.as_ref().map(AllToAll::text).unwrap_or_default();
    text.push('\n');
    let mut nodes = Table::of("NODES  >COUNT  >IN  >OUT  >WEIGHT  CAN  FIRST");
    for class in &shown.node_classes {
        let can = if class.can.is_empty() { "forward".into() } else { class.can.join(" ") };
        let (into, out) = (class.into.clone(), class.out.clone());
        let (count, weight) = (class.count.to_string(), class.weight.to_string());
        nodes.row(vec![class.kind.into(), count, into, out, weight, can, class.first.clone()]);
    }
    // Most fabrics leave the costs as they are, and then there is nothing to compare.
    let has_costs = shown.link_classes.iter().any(|class| class.cost != "1");
    let heads = if has_costs { "LINKS  >COUNT  >CAPACITY  >COST  FIRST" } else { "LINKS  >COUNT  >CAPACITY  FIRST" };
    let mut links = Table::of(heads);
    for class in &shown.link_classes {
        let ends = format!("{} → {}", class.from, class.to);
        let cost = has_costs.then(|| class.cost.clone());
        let cells = [ends, class.count.to_string(), class.capacity.clone()];
        links.row(cells.into_iter().chain(cost).chain([class.first.clone()]).collect());
    }
    text += &(nodes.render(output::width()) + "\n" + &links.render(output::width()));
    if !shown.group_classes.is_empty() {
        let mut groups = Table::of("GROUPS  >COUNT  >CAPACITY  FIRST");
        for class in &shown.group_classes {
            let cells = [format!("{} links", class.links), class.count.to_string(), class.capacity.clone()];
            groups.row(cells.into_iter().chain([class.first.clone()]).collect());
        }
        text += &("\n".to_owned() + &groups.render(output::width()));
    }
    text
}
