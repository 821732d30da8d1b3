//! All equal-cost paths between two hosts, and the one whose busiest link is least busy.

use std::collections::HashMap;

use sluice_scenario::route::next_hops;
use sluice_scenario::{LinkIx, NodeIx, Scenario};

use crate::world::World;

/// Most paths of one pair that are looked at; the first ones in the order of (neighbour, cable) at every hop.
const MAX_PATHS: usize = 1024;

/// Paths by (sender, receiver), found once.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    known: HashMap<(NodeIx, NodeIx), Vec<Vec<LinkIx>>>,
}

impl Paths {
    /// All shortest paths by hop count, or the one that the scenario gives.
    pub fn between(&mut self, scenario: &Scenario, src: NodeIx, dst: NodeIx) -> &[Vec<LinkIx>] {
        self.known.entry((src, dst)).or_insert_with(|| match scenario.routing.given(src, dst) {
            Some(path) => vec![path.to_vec()],
            None => all(scenario, src, dst),
        })
    }

    /// The path whose most loaded link is least loaded when `rate` is added to it; of equals the first. `load` and
    /// `rate` are in bytes per second.
    pub fn least_loaded(
        &mut self,
        world: &World<'_>,
        src: NodeIx,
        dst: NodeIx,
        rate: f64,
        load: &[f64],
    ) -> Option<Vec<LinkIx>> {
        let busy = |link: &LinkIx| {
            let capacity = world.capacity.get(link.0).copied().unwrap_or(0.0);
            (load.get(link.0).copied().unwrap_or(0.0) + rate) / capacity
        };
        let most = |path: &Vec<LinkIx>| path.iter().map(busy).fold(0.0, f64::max);
        let paths = self.between(world.scenario, src, dst);
        // The first of equals: min_by keeps it.
        paths.iter().min_by(|a, b| most(a).total_cmp(&most(b))).cloned()
    }
}

fn all(scenario: &Scenario, src: NodeIx, dst: NodeIx) -> Vec<Vec<LinkIx>> {
    let hops = next_hops(&scenario.network, dst);
    let mut found = Vec::new();
    let mut path = Vec::new();
    walk(scenario, &hops, src, dst, &mut path, &mut found);
    found
}

fn walk(
    scenario: &Scenario,
    hops: &[Vec<LinkIx>],
    node: NodeIx,
    dst: NodeIx,
    path: &mut Vec<LinkIx>,
    found: &mut Vec<Vec<LinkIx>>,
) {
    if found.len() >= MAX_PATHS {
        return;
    }
    if node == dst {
        found.push(path.clone());
        return;
    }
    for &link in hops.get(node.0).map_or(&[][..], Vec::as_slice) {
        let Some(next) = scenario.network.link(link).map(|l| l.to) else { continue };
        path.push(link);
        walk(scenario, hops, next, dst, path, found);
        path.pop();
    }
}
