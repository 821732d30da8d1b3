//! The instance form in JSON: links and flows with their ids, sizes in MB and capacities in MB/s.
//!
//! `{"name", "nodes", "links": [{"id", "src", "dst", "cap"}], "flows": [{"id", "collective", "group", "order", "src",
//! "dst", "size", "path": [link ids]}]}`, all ids from 0 without a gap and in any order; of a flow also `"release_s"`, and of
//! the whole `"deps": [[a, b]]` instead of the dependencies of the chains. A number is read to the nearest float from its
//! text, and written with the fewest digits that read back as the same.

pub(crate) mod file;
#[cfg(test)]
mod tests;

use file::{File, Flow, Link};
use sluice_formats::json::{Json as _, Limits, Reader, Writer};
use sluice_formats::problem::{Problem, Problems};

use crate::instance::{self, Instance, MAX_FLOWS};
use crate::refusal::Refusal;

/// Bytes of a file at most.
pub const MAX_BYTES: usize = 64_000_000;
/// What the text may be; flows are counted when it has been read, under their own name.
const LIMITS: Limits = Limits { bytes: MAX_BYTES, elements: 32_000_000, charged: (u64::MAX, "elements") };

/// Reads an instance; `file` is the name used in messages.
///
/// # Errors
/// `TooLarge`, the `E_…` codes of the text, then `DuplicateId`, `GapInIds` and what [`Instance::new`] refuses, with a pointer to
/// the link or flow.
pub fn read(bytes: &[u8], file: &str) -> Result<Instance, Problems> {
    Ok(read_with_text(bytes, file)?.1)
}

/// The same, and what stands in the file.
pub(crate) fn read_with_text(bytes: &[u8], file: &str) -> Result<(File, Instance), Problems> {
    let refused = |refusal: Refusal, key: String| Problems::from(Problem { key, ..refusal.problem() }).in_file(file);
    if bytes.len() > MAX_BYTES {
        let refusal = Refusal::TooLarge { what: "bytes", found: bytes.len(), allowed: MAX_BYTES };
        return Err(refused(refusal, String::new()));
    }
    let form = Reader::new(bytes, LIMITS, file)?.document(File::read)?.0;
    if form.flows.len() > MAX_FLOWS {
        let refusal = Refusal::TooLarge { what: "flows", found: form.flows.len(), allowed: MAX_FLOWS };
        return Err(refused(refusal, "/flows".to_owned()));
    }
    let link_places = places("link", "links", form.links.iter().map(|link| index(link.id)));
    let link_places = link_places.map_err(|(refusal, key)| refused(refusal, key))?;
    let flow_places = places("flow", "flows", form.flows.iter().map(|flow| index(flow.id)));
    let flow_places = flow_places.map_err(|(refusal, key)| refused(refusal, key))?;
    let links = link_places.iter().map(|&place| link(&form.links[place])).collect();
    let flows = flow_places.iter().map(|&place| flow(&form.flows[place])).collect();
    let deps = form.deps.as_ref().map(|deps| deps.iter().map(|(a, b)| (index(*a), index(*b))).collect());
    let instance = Instance::new(&*form.name, index(form.nodes), links, flows, deps).map_err(|refusal| {
        let key = pointer(&refusal, &link_places, &flow_places);
        refused(refusal, key)
    })?;
    Ok((form, instance))
}

/// Writes an instance, one link or flow a line.
pub fn write(instance: &Instance) -> String {
    let link = |(id, link): (usize, &instance::Link)| Link {
        cap: link.capacity.into(),
        dst: link.to as u64,
        id: id as u64,
        src: link.from as u64,
    };
    let flow = |(id, flow): (usize, &instance::Flow)| Flow {
        collective: flow.collective as u64,
        dst: flow.to as u64,
        group: flow.group as u64,
        id: id as u64,
        order: flow.order as u64,
        path: flow.path.iter().map(|&link| link as u64).collect(),
        release_s: (flow.release > 0.0).then(|| flow.release.into()),
        size: flow.size.into(),
        src: flow.from as u64,
    };
    let pairs = instance.has_named_dependencies().then(|| instance.dependencies());
    let file = File {
        deps: pairs.map(|pairs| pairs.map(|(a, b)| (a as u64, b as u64)).collect()),
        flows: instance.flows().iter().enumerate().map(flow).collect(),
        links: instance.links().iter().enumerate().map(link).collect(),
        name: instance.name().into(),
        nodes: instance.nodes() as u64,
    };
    Writer::lines(&file, None)
}

/// A number of the file as an index; one that does not fit is beyond every list.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn link(link: &Link) -> instance::Link {
    instance::Link { from: index(link.src), to: index(link.dst), capacity: link.cap.value }
}

fn flow(flow: &Flow) -> instance::Flow {
    instance::Flow {
        collective: index(flow.collective),
        group: index(flow.group),
        order: index(flow.order),
        from: index(flow.src),
        to: index(flow.dst),
        size: flow.size.value,
        path: flow.path.iter().map(|&link| index(link)).collect(),
        release: flow.release_s.as_ref().map_or(0.0, |release| release.value),
    }
}

/// For each id the place in the file of what has it; or why ids are not 0, 1, 2 … once each, and where.
fn places(
    what: &'static str,
    list: &str,
    ids: impl ExactSizeIterator<Item = usize>,
) -> Result<Vec<usize>, (Refusal, String)> {
    let count = ids.len();
    let mut places = vec![usize::MAX; count];
    for (place, id) in ids.enumerate() {
        let key = || format!("/{list}/{place}/id");
        match places.get_mut(id) {
            Some(known) if *known == usize::MAX => *known = place,
            Some(_) => return Err((Refusal::DuplicateId { what, id }, key())),
            None => return Err((Refusal::GapInIds { what, id, count }, key())),
        }
    }
    Ok(places)
}

/// Where in the file the thing stands that a refusal names.
fn pointer(refusal: &Refusal, links: &[usize], flows: &[usize]) -> String {
    let place = |list: &str, places: &[usize], id: usize, key: &str| match places.get(id) {
        Some(place) => format!("/{list}/{place}{key}"),
        None => format!("/{list}"),
    };
    match *refusal {
        Refusal::BadSize { flow, .. } => place("flows", flows, flow, "/size"),
        Refusal::BadRelease { flow, .. } => place("flows", flows, flow, "/release_s"),
        Refusal::BadRoute { flow, .. } => place("flows", flows, flow, "/path"),
        Refusal::SelfFlow { flow, .. } | Refusal::Cycle { flow } => place("flows", flows, flow, ""),
        Refusal::BadCapacity { link, .. } => place("links", links, link, "/cap"),
        Refusal::BadLink { link, .. } => place("links", links, link, ""),
        Refusal::GapInIds { what: "flow", .. } => "/deps".to_owned(),
        Refusal::Range { what: "capacities", .. } => "/links".to_owned(),
        Refusal::NoFlows
        | Refusal::EmptyCollective { .. }
        | Refusal::GapInIds { .. }
        | Refusal::NotAChain { .. }
        | Refusal::Range { .. } => "/flows".to_owned(),
        _ => String::new(),
    }
}
