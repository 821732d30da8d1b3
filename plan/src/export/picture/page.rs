//! A schedule of sends as one HTML page: the fabric with what each link carries, and who holds what, by epoch.
//!
//! What is under way is written once, as numbers; the page works out each epoch from them by a script of its own. It loads
//! nothing, and a policy inside it forbids that it does.

use std::collections::HashMap;

use serde::Serialize;

use crate::check::{Timed, timed};
use crate::export::refused;
use crate::plan::{Plan, Sends};
use sluice_formats::problem::{E_LIMIT, INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::topology::draw::{escape, layout};
use sluice_formats::topology::{Kind, Topology};

/// Sends in a page at most.
const MAX_SENDS: usize = 500_000;
const MAX_NODES: usize = 4_096;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
const BODY: &str = include_str!("page/page.html");

/// What the script reads; its names are short because the script knows them.
#[derive(Serialize)]
struct Data<'a> {
    /// Epochs until the last arrival, and microseconds of one.
    epochs: u64,
    tau_us: f64,
    /// Width and height of the fabric's picture.
    size: (f64, f64),
    nodes: Vec<Node<'a>>,
    /// Indices of those who take part.
    members: Vec<usize>,
    links: Vec<Link>,
    chunks: Vec<Chunk<'a>>,
    /// Three numbers for each send, by epoch: epochs after the one before, its link, its chunk. The link of a send that is
    /// added up is −1 − its number.
    sends: Vec<i64>,
    /// Two numbers for each send where chunks are cut: its first byte, and how many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pieces: Vec<u64>,
    /// Bytes of a chunk that is cut, else 1.
    units: f64,
}

/// Id, middle, whether it is a switch, and whether it copies and adds up.
#[derive(Serialize)]
struct Node<'a>(&'a str, f64, f64, bool, bool, bool);

/// From, to, the switch between or −1, epochs in which a chunk is pushed, epochs until it can be sent on.
#[derive(Serialize)]
struct Link(usize, usize, i64, u64, u64);

/// Whose it is, its number, and the tenant who wants it.
#[derive(Serialize)]
struct Chunk<'a>(usize, u64, &'a str);

/// Writes the page.
///
/// # Errors
/// `E_LIMIT` for more than a page holds; what the checker says where sends name nodes or links that are not there.
pub fn html(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<String, Problems> {
    let mut timed = timed(plan, topology, sends).map_err(|violation| refused(&violation))?;
    timed.sort_by_key(|send| (send.epoch, send.at));
    let nodes = topology.nodes().len();
    if timed.len() > MAX_SENDS || nodes > MAX_NODES {
        let error = Problem::new(E_LIMIT, "/content/sends", "too much for a page");
        let found = format!("{} sends between {nodes} nodes", timed.len());
        return Err(error.found(found).allowed(format!("at most {MAX_SENDS} between {MAX_NODES}")).into());
    }
    let data = serde_json::to_string(&data(plan, topology, sends, &timed));
    let data = data.map_err(|error| Problem::new(INTERNAL_INVARIANT, "", error.to_string()))?;
    // Ids may be anything: inside a script element nothing may look like its end.
    let data = data.replace('<', "\\u003c");
    let title = escape(&format!("{} on {}", plan.body.collective.word(), topology.name()));
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{BODY}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    ))
}

fn data<'a>(plan: &'a Plan, topology: &'a Topology, sends: &'a Sends, timed: &[Timed]) -> Data<'a> {
    let layout = layout(topology);
    let node = |(node, place): (&'a sluice_formats::topology::Node, &sluice_formats::topology::draw::Place)| {
        let switch = matches!(node.kind, Kind::Switch | Kind::Nic);
        Node(&node.id, tenth(place.x), tenth(place.y), switch, node.can.copy, node.can.reduce)
    };
    let members = match &plan.body.participants {
        Some(list) => list.iter().filter_map(|node| topology.node(plan.id(*node))).collect(),
        None => topology.compute(),
    };
    let cut = sends.model.divisible == Some(true);
    let (mut links, mut chunks) = (Numbered::default(), Numbered::default());
    let (mut written, mut pieces, mut last) = (Vec::with_capacity(3 * timed.len()), Vec::new(), 0);
    for send in timed {
        let entry = &*sends.sends[send.at].entry;
        let via = send.out.map_or(-1, |out| topology.links()[out].from as i64);
        let link = links.number((send.from, send.to, via, send.busy, send.usable - send.epoch));
        let chunk = chunks.number((send.source, send.number, entry.tenant.as_deref().unwrap_or_default()));
        let link = if send.reduces { -1 - link } else { link };
        written.extend([(send.epoch - last) as i64, link, chunk]);
        last = send.epoch;
        if cut {
            pieces.extend([send.lo, send.hi - send.lo]);
        }
    }
    Data {
        epochs: timed.iter().map(|send| send.usable).max().unwrap_or(0),
        tau_us: sends.model.tau.value().to_f64() * 1e6,
        size: (tenth(layout.width), tenth(layout.height)),
        nodes: topology.nodes().iter().zip(&layout.places).map(node).collect(),
        members,
        links: links.all.into_iter().map(|(from, to, via, busy, after)| Link(from, to, via, busy, after)).collect(),
        chunks: chunks.all.into_iter().map(|(source, number, tenant)| Chunk(source, number, tenant)).collect(),
        sends: written,
        pieces,
        units: if cut { sends.model.chunk.value().to_f64() } else { 1.0 },
    }
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Numbers in the order of first use.
struct Numbered<T> {
    all: Vec<T>,
    places: HashMap<T, i64>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { all: Vec::new(), places: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, of: T) -> i64 {
        let next = self.all.len() as i64;
        let place = *self.places.entry(of.clone()).or_insert(next);
        if place == next {
            self.all.push(of);
        }
        place
    }
}

#[cfg(test)]
mod tests;
