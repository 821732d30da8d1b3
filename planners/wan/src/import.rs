//! The import form `wan`: an instance in one JSON file becomes a topology of sites and a file of flows.
//!
//! What is wrong with it is said in the words of [`crate::form`]. Numbers go from text to text: no float comes between.

mod file;
#[cfg(test)]
mod tests;

use sluice_formats::json::{Json as _, Limits, Names, Reader, Size, Text, Version};
use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_formats::topology::{File, Kind, LinkEntry, NodeEntry, Topology};
use sluice_plan::plan::{Flow, Flows};

use crate::form::{self, MAX_BYTES};
use crate::from_topology::Wanted;
use file::{Entry, Instance, Link};

/// What the text may be. It is read a second time, when everything in it is known to be in order.
const LIMITS: Limits = Limits { bytes: MAX_BYTES, elements: 32_000_000, charged: (u64::MAX, "elements") };

/// Reads the form; `file` is the name used in messages. Ids are the numbers as text, links keep theirs as indices.
///
/// # Errors
/// Those of [`form::read`], and `E_RANGE` for a number of more digits than a file takes.
pub fn read(bytes: &[u8], file: &str) -> Result<(Topology, Wanted), Problems> {
    form::read(bytes, file)?;
    let mut instance = Reader::new(bytes, LIMITS, file)?.document(Instance::read)?.0;
    instance.links.sort_by_key(|link| link.id);
    instance.flows.sort_by_key(|flow| flow.id);
    let topology = Topology::build(topology(&instance), file)?;
    let mut names = Names::default();
    let flows = instance.flows.iter().map(|entry| flow(entry, &mut names)).collect::<Result<Vec<Flow>, Problems>>();
    let flows = flows.map_err(|problems| problems.in_file(file))?;
    let flows = Flows { deps: instance.deps, flows, version: Version };
    Ok((topology, Wanted { flows, names, file: file.to_owned() }))
}

fn topology(instance: &Instance) -> File {
    let ids: Vec<Text> = (0..instance.nodes).map(|node| node.to_string().into()).collect();
    let id = |node: u64| usize::try_from(node).ok().and_then(|node| ids.get(node)).cloned().unwrap_or_default();
    let node = |id: &Text| NodeEntry {
        addresses: None,
        buffer: None,
        can: None,
        id: id.clone(),
        kind: Kind::Site,
        weight: None,
    };
    let link = |link: &Link| LinkEntry {
        capacity: format!("{}MB/s", link.cap.written()).into(),
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
        links: instance.links.iter().map(link).collect(),
        name: Some(instance.name.clone()),
        nodes: ids.iter().map(node).collect(),
        routing: None,
        version: Version,
    }
}

fn flow(entry: &Entry, names: &mut Names) -> Result<Flow, Problems> {
    let size = Size::parse(&format!("{}MB", entry.size.written())).map_err(|misread| {
        let error = Problem::new(E_RANGE, "/flows", format!("not {}", misread.what));
        Problems::from(error.allowed(misread.allowed).help(misread.help))
    })?;
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
        release_s: entry.release_s.as_ref().map(|release| release.decimal()),
        size,
        src: names.intern(&entry.src.to_string()),
        start_s: None,
    })
}
