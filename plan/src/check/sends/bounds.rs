//! Lower bounds on the number of epochs, from the model alone: how far chunks must go, and what a node can take in.
//!
//! A schedule that adds up, read backwards, is one that copies over links turned round: its bounds are those of the
//! copies. Nobody has the whole sum before the farthest input has come, and each chunk of an all-reduce comes to every
//! node at least once, to its own as a part of the sum and to others as the sum.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::demand::{Demand, Work};
use super::timing::{Route, Timing};
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Link;

/// Links that searches for ways may follow, all together.
const MAX_SEARCH_STEPS: usize = 1 << 30;
/// Epochs beyond which a bound says nothing any more.
const MAX_EPOCHS: u64 = 1 << 40;

/// The largest number of epochs that a chunk needs at least; `None` where switches are no nodes or it takes too long.
pub fn distance(fabric: &Fabric<'_>, timing: &Timing, demand: &Demand) -> Result<Option<u64>, Violation> {
    let mut targets: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (node, chunk) in &demand.chunks.wanted {
        if let Some(source) = demand.chunks.source(*chunk) {
            targets.entry(source).or_default().insert(*node);
        }
    }
    let links = fabric.topology.links();
    if timing.hyper_edges() || targets.len().saturating_mul(links.len()) > MAX_SEARCH_STEPS {
        return Ok(None);
    }
    let ways = Ways::new(fabric, timing, demand);
    let mut most = 0;
    for (source, targets) in targets {
        let (distance, _) = ways.from(source);
        for target in targets {
            if distance[target] == u64::MAX {
                return Err(ways.no_way(fabric, source, target));
            }
            most = most.max(distance[target]);
        }
    }
    Ok(Some(most))
}

/// The epochs until every node can have taken in as many chunks as it wants, or given out as many as it has to add to.
pub fn port(fabric: &Fabric<'_>, timing: &Timing, demand: &Demand) -> Result<Option<u64>, Violation> {
    if timing.hyper_edges() {
        return Ok(None);
    }
    let mut wanted: BTreeMap<usize, u64> = BTreeMap::new();
    for (node, _) in &demand.chunks.wanted {
        *wanted.entry(*node).or_default() += 1;
    }
    if demand.work == Work::ReduceThenCopy {
        for source in (0..demand.chunks.count()).filter_map(|chunk| demand.chunks.source(chunk)) {
            *wanted.entry(source).or_default() += 1;
        }
    }
    let mut into: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
    for (i, link) in fabric.topology.links().iter().enumerate() {
        let end = if demand.work == Work::Reduce { link.from } else { link.to };
        into.entry(end).or_default().push((i, timing.usable_after(fabric, &Route::Link(i))));
    }
    let mut most = 0;
    for (node, chunks) in wanted {
        let wanted = Rational::from(chunks);
        let enough = |epochs: u64| {
            let mut can = Rational::ZERO;
            for (link, after) in into.get(&node).into_iter().flatten() {
                // A send that is usable after u epochs may begin in epoch 0 to `epochs` − u.
                can += &timing.most_until(*link, (epochs + 1).saturating_sub(*after));
            }
            can >= wanted
        };
        let never = || {
            let message = format!("{} can never take in what it wants, or give out what it has", fabric.id(node));
            Violation::new(Code::BadCertificate, "/claim/certificate", message)
        };
        most = most.max(first(enough).ok_or_else(never)?);
    }
    Ok(Some(most))
}

/// The epochs until what the nodes inside have for others is out and where it is wanted, or, of sums, what others have to
/// add for them is in; `None` where switches are no
/// nodes or it takes too long.
pub fn cut(fabric: &Fabric<'_>, timing: &Timing, demand: &Demand, inside: &[bool]) -> Result<Option<u64>, Violation> {
    let bad = |message: &str| Err(Violation::new(Code::BadCertificate, "/claim/certificate/nodes", message));
    if demand.work == Work::ReduceThenCopy {
        return bad("a cut in epochs says nothing about an all-reduce");
    }
    let mut crossing: BTreeSet<u64> = BTreeSet::new();
    let (mut sources, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (node, chunk) in &demand.chunks.wanted {
        let source = demand.chunks.source(*chunk).filter(|source| inside[*source]);
        if let Some(source) = source.filter(|_| !inside[*node]) {
            crossing.insert(*chunk);
            sources.insert(source);
            targets.insert(*node);
        }
    }
    if crossing.is_empty() {
        return bad("nothing has to leave these nodes");
    }
    let links = fabric.topology.links();
    if timing.hyper_edges() || (sources.len() + links.len()).saturating_mul(links.len()) > MAX_SEARCH_STEPS {
        return Ok(None);
    }
    let ways = Ways::new(fabric, timing, demand);
    let nearest = |found: Vec<u64>| found.into_iter().min().unwrap_or(u64::MAX);
    let from: Vec<Vec<u64>> = sources.iter().map(|source| ways.from(*source).0).collect();
    // By link out of it: what may begin on it in so many epochs, and how many it loses.
    let mut out: Vec<(usize, u64)> = Vec::new();
    for i in 0..links.len() {
        let (begin, end) = ways.ends(i);
        if !inside[begin] || inside[end] {
            continue;
        }
        let onward = ways.from(end).0;
        let release = nearest(from.iter().map(|distance| distance[begin]).collect());
        let tail = nearest(targets.iter().map(|target| onward[*target]).collect());
        if release < u64::MAX && tail < u64::MAX {
            let waits = if timing.varies(i) { 0 } else { release };
            out.push((i, waits + timing.usable_after(fabric, &Route::Link(i)) + tail));
        }
    }
    let wanted = Rational::from(crossing.len() as u64);
    let enough = |epochs: u64| {
        let mut can = Rational::ZERO;
        out.iter().for_each(|(link, lost)| can += &timing.most_until(*link, (epochs + 1).saturating_sub(*lost)));
        can >= wanted
    };
    match first(enough) {
        Some(epochs) => Ok(Some(epochs)),
        None => bad("what these nodes have for others can never leave them"),
    }
}

/// The first number of epochs, 1 or more, that is enough; `None` where none is that says anything.
fn first(enough: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut no, mut yes) = (0, 1);
    while !enough(yes) {
        (no, yes) = (yes, yes * 2);
        if yes > MAX_EPOCHS {
            return None;
        }
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if enough(middle) { yes = middle } else { no = middle }
    }
    Some(yes)
}

/// The links that leave each node, with the epochs they take; turned round for what is only added up.
pub struct Ways {
    /// Link, the node it enters, epochs.
    near: Vec<Vec<(usize, usize, u64)>>,
    /// Where each link begins and ends.
    ends: Vec<(usize, usize)>,
    turned: bool,
}

impl Ways {
    /// All links of a topology.
    pub fn new(fabric: &Fabric<'_>, timing: &Timing, demand: &Demand) -> Ways {
        let links = fabric.topology.links();
        let turned = demand.work == Work::Reduce;
        let ends = |link: &Link| if turned { (link.to, link.from) } else { (link.from, link.to) };
        let ends: Vec<(usize, usize)> = links.iter().map(ends).collect();
        let mut near = vec![Vec::new(); fabric.topology.nodes().len()];
        for (i, (from, to)) in ends.iter().enumerate() {
            near[*from].push((i, *to, timing.usable_after(fabric, &Route::Link(i))));
        }
        Ways { near, ends, turned }
    }

    /// Where a link begins and ends.
    pub fn ends(&self, link: usize) -> (usize, usize) {
        self.ends[link]
    }

    /// For a chunk that has to get from one node to the other and cannot.
    pub fn no_way(&self, fabric: &Fabric<'_>, source: usize, target: usize) -> Violation {
        let (from, to) = if self.turned { (target, source) } else { (source, target) };
        let message = format!("no way leads from {} to {}", fabric.id(from), fabric.id(to));
        Violation::new(Code::BadCertificate, "/claim/certificate", message)
    }

    /// Epochs to every node, `u64::MAX` where no way leads, and the last link of a shortest way there.
    pub fn from(&self, source: usize) -> (Vec<u64>, Vec<Option<usize>>) {
        let (mut distance, mut last) = (vec![u64::MAX; self.near.len()], vec![None; self.near.len()]);
        distance[source] = 0;
        let mut queue = BinaryHeap::from([Reverse((0, source))]);
        while let Some(Reverse((so_far, node))) = queue.pop() {
            if so_far > distance[node] {
                continue;
            }
            for (link, to, epochs) in &self.near[node] {
                let there = so_far.saturating_add(*epochs);
                if there < distance[*to] {
                    (distance[*to], last[*to]) = (there, Some(*link));
                    queue.push(Reverse((there, *to)));
                }
            }
        }
        (distance, last)
    }

    /// Which nodes are reached when one link is gone.
    pub fn reached_without(&self, source: usize, gone: usize) -> Vec<bool> {
        let mut reached = vec![false; self.near.len()];
        reached[source] = true;
        let mut queue = vec![source];
        while let Some(node) = queue.pop() {
            for (_, to, _) in self.near[node].iter().filter(|(link, ..)| *link != gone) {
                if !std::mem::replace(&mut reached[*to], true) {
                    queue.push(*to);
                }
            }
        }
        reached
    }
}
