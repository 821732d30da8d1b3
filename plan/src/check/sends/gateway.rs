//! The lower bound of gateways: a link that is the only way for some demands lets their chunks through one after the
//! other, and the last of them still has to get from there to who wants it. What is added up is read backwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::bounds::Ways;
use super::demand::Demand;
use super::timing::{Route, Timing};
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};

/// Links that searches for ways may follow, and chunks that may wait at gateways, all together.
const MAX_SEARCH_STEPS: usize = 1 << 30;

/// A chunk at a gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    /// The first epoch in which it can be there.
    release: u64,
    /// Epochs from the gateway's far end to the farthest of the nodes that get it only over the gateway.
    tail: u64,
}

/// The epochs until the last chunk is through its gateway and where it is wanted; `None` where switches are no nodes,
/// or where it takes too long to say.
pub fn gateway(fabric: &Fabric<'_>, timing: &Timing, demand: &Demand) -> Result<Option<u64>, Violation> {
    let bad = |message: String| Violation::new(Code::BadCertificate, "/claim/certificate", message);
    let mut targets: BTreeMap<usize, BTreeMap<u64, Vec<usize>>> = BTreeMap::new();
    for (node, chunk) in &demand.chunks.wanted {
        if let Some(source) = demand.chunks.source(*chunk) {
            targets.entry(source).or_default().entry(*chunk).or_default().push(*node);
        }
    }
    let links = fabric.topology.links();
    let nodes = fabric.topology.nodes().len();
    let searches = targets.len().saturating_mul(nodes).saturating_mul(links.len());
    if timing.hyper_edges()
        || searches.saturating_add(demand.chunks.wanted.len().saturating_mul(nodes)) > MAX_SEARCH_STEPS
    {
        return Ok(None);
    }
    let ways = Ways::new(fabric, timing, demand);
    // By gateway, by chunk: the nodes that get it only over the gateway.
    let mut waiting: BTreeMap<usize, Vec<(u64, Vec<usize>)>> = BTreeMap::new();
    let mut releases: HashMap<(usize, usize), u64> = HashMap::new();
    for (source, chunks) in &targets {
        let (distance, tree) = ways.from(*source);
        let wanting: BTreeSet<usize> = chunks.values().flatten().copied().collect();
        if let Some(node) = wanting.iter().find(|node| distance[**node] == u64::MAX) {
            return Err(ways.no_way(fabric, *source, *node));
        }
        // A link that is the only way for anybody is on the shortest one.
        for gateway in tree.into_iter().flatten() {
            let reached = ways.reached_without(*source, gateway);
            if wanting.iter().all(|node| reached[*node]) {
                continue;
            }
            releases.insert((gateway, *source), distance[ways.ends(gateway).0]);
            let behind = chunks.iter().map(|(chunk, nodes)| {
                (*chunk, nodes.iter().copied().filter(|node| !reached[*node]).collect::<Vec<_>>())
            });
            waiting.entry(gateway).or_default().extend(behind.filter(|(_, nodes)| !nodes.is_empty()));
        }
    }
    if waiting.is_empty() {
        return Err(bad("no link is the only way for anything that is wanted".into()));
    }
    let mut most = 0;
    for (gateway, chunks) in waiting {
        let (onward, _) = ways.from(ways.ends(gateway).1);
        let job = |(chunk, nodes): (u64, Vec<usize>)| {
            let release = demand.chunks.source(chunk).and_then(|source| releases.get(&(gateway, source)));
            let tail = nodes.into_iter().map(|node| onward[node]).max();
            Job { release: release.copied().unwrap_or(0), tail: tail.unwrap_or(0) }
        };
        let mut jobs: Vec<Job> = chunks.into_iter().map(job).collect();
        jobs.sort_unstable();
        let releases: Vec<u64> = jobs.iter().map(|job| job.release).collect();
        let never = || bad(format!("{} never lets all of it through", fabric.id(ways.ends(gateway).0)));
        let last = timing.last_start(gateway, &releases).ok_or_else(never)?;
        let tail = jobs.iter().map(|job| job.tail).min().unwrap_or(0);
        most = most.max(last + timing.usable_after(fabric, &Route::Link(gateway)) + tail);
    }
    Ok(Some(most))
}
