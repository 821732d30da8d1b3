//! Paths of flows: all shortest ones by hop count, one of them by a hash that every implementation agrees on
//! (`simulation.md` section 2.4).

use std::collections::{HashMap, VecDeque};

use sluice_schedule::units::fnv1a64;

use super::network::{LinkIx, Network, NodeIx};
use super::problem::Code;
use super::random::mix;
use super::table::Table;

/// Which of `choices` candidates a flow takes at a node.
pub fn choose(seed: u64, job: &str, flow: &str, node: &str, choices: usize) -> usize {
    let hash = mix(fnv1a64(format!("{seed}|{job}|{flow}|{node}").as_bytes()));
    usize::try_from(hash % choices.max(1) as u64).unwrap_or(0)
}

/// Explicit paths, by (source, destination); pairs that are not listed go by ECMP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routing {
    given: HashMap<(NodeIx, NodeIx), Vec<LinkIx>>,
}

impl Routing {
    /// The links a flow takes, in order; empty between a host and itself, `None` where there is no path.
    pub fn path(
        &self,
        network: &Network,
        seed: u64,
        job: &str,
        flow: &str,
        src: NodeIx,
        dst: NodeIx,
    ) -> Option<Vec<LinkIx>> {
        if src == dst {
            return Some(Vec::new());
        }
        match self.given.get(&(src, dst)) {
            Some(path) => Some(path.clone()),
            None => ecmp(network, seed, job, flow, src, dst),
        }
    }

    /// The path that the file gives for this pair, if it gives one.
    pub fn given(&self, src: NodeIx, dst: NodeIx) -> Option<&[LinkIx]> {
        self.given.get(&(src, dst)).map(Vec::as_slice)
    }
}

/// Links that lead one hop nearer to `dst` on a shortest path, per node, sorted by (neighbour, cable).
pub fn next_hops(network: &Network, dst: NodeIx) -> Vec<Vec<LinkIx>> {
    let far = usize::MAX;
    let mut distance = vec![far; network.nodes()];
    let mut queue = VecDeque::from([dst]);
    if let Some(d) = distance.get_mut(dst.0) {
        *d = 0;
    }
    while let Some(node) = queue.pop_front() {
        // Hosts never forward: nothing is reached through one.
        if node != dst && network.is_host(node) {
            continue;
        }
        let here = distance.get(node.0).copied().unwrap_or(far);
        for next in network.out(node).iter().filter_map(|&l| network.link(l)).map(|l| l.to) {
            if let Some(d) = distance.get_mut(next.0).filter(|d| **d == far) {
                *d = here + 1;
                queue.push_back(next);
            }
        }
    }
    let nearer = |from: usize, l: &LinkIx| {
        let Some(to) = network.link(*l).map(|l| l.to) else { return false };
        let (a, b) = (distance.get(from).copied().unwrap_or(far), distance.get(to.0).copied().unwrap_or(far));
        b != far && a == b.saturating_add(1) && (to == dst || !network.is_host(to))
    };
    (0..network.nodes()).map(|i| network.out(NodeIx(i)).iter().copied().filter(|l| nearer(i, l)).collect()).collect()
}

fn ecmp(network: &Network, seed: u64, job: &str, flow: &str, src: NodeIx, dst: NodeIx) -> Option<Vec<LinkIx>> {
    let hops = next_hops(network, dst);
    let mut path = Vec::new();
    let mut node = src;
    while node != dst {
        let candidates = hops.get(node.0).filter(|c| !c.is_empty())?;
        let link = *candidates.get(choose(seed, job, flow, network.name(node), candidates.len()))?;
        path.push(link);
        node = network.link(link)?.to;
        if path.len() > network.nodes() {
            return None;
        }
    }
    Some(path)
}

/// Reads `[routing]`.
pub(crate) fn read(t: Table<'_>, network: &Network) -> Routing {
    let explicit = t.choice("kind", &[("ecmp", false), ("explicit", true)]).unwrap_or(false);
    let mut routing = Routing::default();
    if !explicit && t.has("paths") {
        t.fail(Code::Key, "paths without kind = \"explicit\"", "kind = \"explicit\"");
    }
    for item in t.list("paths").unwrap_or_default() {
        let Some(row) = item.table() else { continue };
        let end = |key| row.require(key).and_then(|i| super::settings::host(&i, network));
        let (src, dst) = (end("src"), end("dst"));
        let mut via = Vec::new();
        for name in row.list("via").unwrap_or_default() {
            match name.text().map(|n| network.find(n)) {
                Some(Some(node)) if !network.is_host(node) => via.push(node),
                Some(_) => name.fail(Code::Ref, format!("no switch {}", name.node.value.shown()), "an id of a switch"),
                None => {}
            }
        }
        row.finish();
        let (Some(src), Some(dst)) = (src, dst) else { continue };
        let mut path = Vec::new();
        let mut here = src;
        for next in via.into_iter().chain([dst]) {
            let link = network.out(here).iter().copied().find(|&l| network.link(l).is_some_and(|l| l.to == next));
            let Some(link) = link else {
                let (a, b) = (network.name(here), network.name(next));
                item.fail(Code::Net, format!("no link from {a:?} to {b:?}: not a path"), "neighbours in a row");
                break;
            };
            path.push(link);
            here = next;
        }
        if here == dst && routing.given.insert((src, dst), path).is_some() {
            item.fail(Code::Dup, "this pair has two paths", "one path per pair");
        }
    }
    t.finish();
    routing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_format() {
        assert_eq!(fnv1a64(b"1|job-0|ring0|t0"), 0x2b0c_0d19_339a_a2ac);
        assert_eq!(mix(0x2b0c_0d19_339a_a2ac), 0xa94c_9309_f837_77a3);
        let at = |k| choose(1, "job-0", "ring0", "t0", k);
        assert_eq!([at(2), at(3), at(4), at(8)], [1, 2, 3, 3]);
    }
}
