//! The import form `wan`: an instance in one JSON file becomes a topology of sites and a file of flows.
//!
//! What is wrong with it is said in the words of [`crate::form`]. Numbers go from text to text: no float comes between.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use sluice_formats::json::{Decimal, Names, Size, Text, Version, Writer};
use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::{File, Kind, LinkEntry, NodeEntry, Topology};
use sluice_plan::plan::{Flow, Flows};

use crate::form;
use crate::form::file::{File as Instance, Flow as Entry, Link, Number};
use crate::from_topology::Wanted;

/// Reads the form; `file` is the name used in messages. Ids are the numbers as text, links keep theirs as indices.
///
/// # Errors
/// Those of [`form::read`], and `E_RANGE` for a number of more digits than a file takes.
pub fn read(bytes: &[u8], file: &str) -> Result<(Topology, Wanted), Problems> {
    let mut instance = form::read_with_text(bytes, file)?.0;
    let exact = Exact { file, places: places(instance.flows.iter().map(|flow| flow.id)) };
    let link_places = places(instance.links.iter().map(|link| link.id));
    instance.links.sort_by_key(|link| link.id);
    instance.flows.sort_by_key(|flow| flow.id);
    let capacity = |link: &Link| {
        let place = link_places.get(&link.id).copied().unwrap_or_default();
        Ok(written(&exact.of(&link.cap, || format!("/links/{place}/cap"))?))
    };
    let capacities = instance.links.iter().map(capacity).collect::<Result<Vec<String>, Problems>>()?;
    let topology = Topology::build(topology(&instance, &capacities), file)?;
    let mut names = Names::default();
    let flows = instance.flows.iter().map(|entry| flow(entry, &mut names, &exact));
    let flows = flows.collect::<Result<Vec<Flow>, Problems>>()?;
    let flows = Flows { deps: instance.deps, flows, version: Version };
    Ok((topology, Wanted { flows, names, file: file.to_owned() }))
}

/// Where in the file each id stands.
fn places(ids: impl Iterator<Item = u64>) -> HashMap<u64, usize> {
    ids.zip(0..).collect()
}

/// Reads numbers exactly.
struct Exact<'a> {
    file: &'a str,
    /// Places of flows by id.
    places: HashMap<u64, usize>,
}

impl Exact<'_> {
    fn of(&self, number: &Number, key: impl FnOnce() -> String) -> Result<Rational, Problems> {
        let refuse = || {
            let error = Problem::new(E_RANGE, key(), "more digits than a file takes").allowed("a shorter number");
            Problems::from(error).in_file(self.file)
        };
        number.exact().ok_or_else(refuse)
    }
    fn of_flow(&self, flow: &Entry, number: &Number, key: &str) -> Result<Rational, Problems> {
        let place = self.places.get(&flow.id).copied().unwrap_or_default();
        self.of(number, || format!("/flows/{place}/{key}"))
    }
}

/// As a quantity begins: a decimal where one of forty digits is the number, else a fraction.
fn written(number: &Rational) -> String {
    let decimal = Writer::compact(&Decimal::from(number), None);
    if decimal.contains('e') { number.to_string() } else { decimal }
}

fn topology(instance: &Instance, capacities: &[String]) -> File {
    let ids: Vec<Text> = (0..instance.nodes).map(|node| node.to_string().into()).collect();
    let id = |node: u64| usize::try_from(node).ok().and_then(|node| ids.get(node)).cloned().unwrap_or_default();
    let node = |id: &Text| NodeEntry {
        addresses: None,
        buffer: None,
        can: None,
        id: id.clone(),
        kind: Kind::Site,
        port_addresses: None,
        weight: None,
    };
    let link = |(link, capacity): (&Link, &String)| LinkEntry {
        capacity: format!("{capacity}MB/s").into(),
        capacity_per_epoch: None,
        cost: None,
        count: None,
        duplex: None,
        from: id(link.src),
        latency: None,
        to: id(link.dst),
    };
    File {
        boxes: None,
        groups: None,
        links: instance.links.iter().zip(capacities).map(link).collect(),
        name: Some(instance.name.clone()),
        nodes: ids.iter().map(node).collect(),
        routing: None,
        version: Version,
    }
}

fn flow(entry: &Entry, names: &mut Names, exact: &Exact<'_>) -> Result<Flow, Problems> {
    let size = exact.of_flow(entry, &entry.size, "size")?;
    let size = Size::parse(&format!("{}MB", written(&size))).map_err(|misread| {
        let error = Problem::new(E_RANGE, "/flows", format!("not {}", misread.what));
        Problems::from(error.allowed(misread.allowed).help(misread.help)).in_file(exact.file)
    })?;
    let release = |release| exact.of_flow(entry, release, "release_s");
    let release = entry.release_s.as_ref().map(release).transpose()?;
    Ok(Flow {
        collective: entry.collective,
        dst: names.intern(&entry.dst.to_string()),
        group: entry.group,
        id: entry.id,
        order: entry.order,
        // Ids of links are their indices, and there are at most a million.
        path: entry.path.iter().filter_map(|link| u32::try_from(*link).ok()).collect(),
        pred: None,
        rank: None,
        rate: None,
        release_s: release.as_ref().map(Decimal::from),
        size,
        src: names.intern(&entry.src.to_string()),
        start_s: None,
    })
}
