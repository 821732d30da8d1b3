//! Paths of flows: all shortest ones by hop count, one of them by a hash that every implementation agrees on
//! (`simulation.md` section 2.4).

use sluice_formats::document::Table;
use sluice_formats::problem::{E_DUP, E_KEY, E_NET, E_REF};
use std::collections::{BTreeMap, HashMap, VecDeque};

use sluice_schedule::units::fnv1a64;

use super::network::{LinkIx, Network, NodeIx};
use super::random::mix;

/// Which of `choices` candidates a flow takes at a node.
pub fn choose(seed: u64, job: &str, flow: &str, node: &str, choices: usize) -> usize {
    let hash = mix(fnv1a64(format!("{seed}|{job}|{flow}|{node}").as_bytes()));
    usize::try_from(hash % choices.max(1) as u64).unwrap_or(0)
}

/// Explicit paths, by (source, destination); pairs that are not listed go by ECMP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routing {
    given: BTreeMap<(NodeIx, NodeIx), Vec<LinkIx>>,
}

impl Routing {
    /// The path that the file gives for this pair, if it gives one.
    pub fn given(&self, src: NodeIx, dst: NodeIx) -> Option<&[LinkIx]> {
        self.given.get(&(src, dst)).map(Vec::as_slice)
    }
}

/// Links that lead one hop nearer to `dst` on a shortest path, per node, sorted by (neighbour, cable).
pub fn next_hops(network: &Network, dst: NodeIx) -> Vec<Vec<LinkIx>> {
    let hops = distances(network, dst);
    (0..network.nodes()).map(|node| nearer(network, &hops, NodeIx(node), dst).collect()).collect()
}

/// The links that lead from a node one hop nearer to `dst`, by the hops of [`distances`].
fn nearer(network: &Network, hops: &[u16], node: NodeIx, dst: NodeIx) -> impl Iterator<Item = LinkIx> {
    let left = hops[node.0].checked_sub(1).filter(|_| hops[node.0] != u16::MAX);
    let leads = move |link: &LinkIx| {
        let to = network.links[link.0].to;
        left == Some(hops[to.0]) && (to == dst || !network.is_host(to))
    };
    network.out(node).iter().copied().filter(leads)
}

/// Finds the paths of flows: given ones, else ECMP, with the distances to each destination worked out once.
#[derive(Clone, Debug)]
pub struct Router<'a> {
    routing: &'a Routing,
    network: &'a Network,
    seed: u64,
    /// Hops from every node, by destination; `u16::MAX`: no way.
    hops: HashMap<NodeIx, Box<[u16]>>,
    candidates: Vec<LinkIx>,
}

impl<'a> Router<'a> {
    /// For the flows of a scenario with this seed.
    pub fn new(routing: &'a Routing, network: &'a Network, seed: u64) -> Router<'a> {
        Router { routing, network, seed, hops: HashMap::new(), candidates: Vec::new() }
    }

    /// The links a flow takes, in order; empty between a host and itself, `None` where there is no path.
    pub fn path(&mut self, job: &str, flow: &str, src: NodeIx, dst: NodeIx) -> Option<Vec<LinkIx>> {
        self.path_by(None, job, flow, src, dst)
    }

    /// The same by one card of the sender.
    pub fn path_by(
        &mut self,
        rail: Option<u32>,
        job: &str,
        flow: &str,
        src: NodeIx,
        dst: NodeIx,
    ) -> Option<Vec<LinkIx>> {
        if src == dst {
            return Some(Vec::new());
        }
        if let Some(path) = self.routing.given(src, dst) {
            return Some(path.to_vec());
        }
        let network = self.network;
        let hops = self.hops.entry(dst).or_insert_with(|| distances(network, dst));
        let mut path = Vec::new();
        let mut node = src;
        while node != dst {
            self.candidates.clear();
            self.candidates.extend(nearer(network, hops, node, dst));
            if let Some(rail) = rail.filter(|_| node == src) {
                let own = network.out(src).get(rail as usize).copied()?;
                self.candidates.retain(|link| *link == own);
            }
            let which = match self.candidates.len() {
                0 => return None,
                1 => 0,
                many => choose(self.seed, job, flow, network.name(node), many),
            };
            path.push(self.candidates[which]);
            node = network.links[self.candidates[which].0].to;
        }
        Some(path)
    }
}

/// Hops of a shortest path from every node to `dst`; hosts never forward.
fn distances(network: &Network, dst: NodeIx) -> Box<[u16]> {
    let mut hops = vec![u16::MAX; network.nodes()].into_boxed_slice();
    let mut queue = VecDeque::from([dst]);
    hops[dst.0] = 0;
    while let Some(node) = queue.pop_front() {
        if node != dst && network.is_host(node) {
            continue;
        }
        for next in network.out(node).iter().map(|link| network.links[link.0].to) {
            if hops[next.0] == u16::MAX {
                hops[next.0] = (hops[node.0] + 1).min(u16::MAX - 1);
                queue.push_back(next);
            }
        }
    }
    hops
}

pub(crate) fn read(t: Table<'_>, network: &Network) -> Routing {
    let explicit = t.choice("kind", &[("ecmp", false), ("explicit", true)]).unwrap_or(false);
    let mut routing = Routing::default();
    if !explicit && t.has("paths") {
        t.fail(E_KEY, "paths without kind = \"explicit\"", "kind = \"explicit\"");
    }
    for item in t.list("paths").unwrap_or_default() {
        let Some(row) = item.table() else { continue };
        let end = |key| row.require(key).and_then(|i| super::settings::host(&i, network));
        let (src, dst) = (end("src"), end("dst"));
        let mut via = Vec::new();
        for name in row.list("via").unwrap_or_default() {
            match name.text().map(|n| network.find(n)) {
                Some(Some(node)) if !network.is_host(node) => via.push(node),
                Some(_) => name.fail(E_REF, format!("no switch {}", name.node.value.shown()), "an id of a switch"),
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
                item.fail(E_NET, format!("no link from {a:?} to {b:?}: not a path"), "neighbours in a row");
                break;
            };
            path.push(link);
            here = next;
        }
        if here == dst && routing.given.insert((src, dst), path).is_some() {
            item.fail(E_DUP, "this pair has two paths", "one path per pair");
        }
    }
    t.finish();
    routing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_finds_the_paths_of_the_format() {
        let text = "version = 1\nname = \"r\"\nseed = 3\n[network]\nkind = \"three-tier\"\nservers_per_rack = 2\nracks_per_edge = 2\nedges = 2\naggregations = 3\nuplinks = [2, 2]\ngbps = [1, 1, 1]\n[routing]\nkind = \"explicit\"\npaths = [{src = \"h0\", dst = \"h1\", via = [\"t0\"]}]\n[[jobs]]\nid = \"a\"\nbytes = 1\ncompute_s = 0\narch = \"ring\"\nworkers = 2\niterations = 1\n";
        let s = crate::Scenario::parse(text, crate::Notation::Toml, "r", std::path::Path::new("."))
            .unwrap_or_else(|e| panic!("{e}"));
        let mut router = Router::new(&s.routing, &s.network, s.seed);
        let ecmp = |flow: &str, mut node: NodeIx, dst: NodeIx| {
            let hops = next_hops(&s.network, dst);
            let mut path = Vec::new();
            while node != dst {
                let candidates = &hops[node.0];
                let link = candidates[choose(s.seed, "job", flow, s.network.name(node), candidates.len())];
                path.push(link);
                node = s.network.links[link.0].to;
            }
            path
        };
        for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (NodeIx(a), NodeIx(b)))) {
            for flow in ["x", "y", "z"] {
                let want = s.routing.given(a, b).map_or_else(|| ecmp(flow, a, b), <[LinkIx]>::to_vec);
                assert_eq!(router.path("job", flow, a, b), Some(want), "{a:?} {b:?}");
            }
        }
        assert!(s.routing.given(NodeIx(0), NodeIx(1)).is_some());
    }

    #[test]
    fn check_value_of_the_format() {
        assert_eq!(fnv1a64(b"1|job-0|ring0|t0"), 0x2b0c_0d19_339a_a2ac);
        assert_eq!(mix(0x2b0c_0d19_339a_a2ac), 0xa94c_9309_f837_77a3);
        let at = |k| choose(1, "job-0", "ring0", "t0", k);
        assert_eq!([at(2), at(3), at(4), at(8)], [1, 2, 3, 3]);
    }
}
