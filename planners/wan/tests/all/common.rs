//! Random instances for the property tests: small graphs with unequal capacities, and flows in chains or any order.
#![allow(dead_code, reason = "each test uses a part")]

use sluice_planners_wan::random::Random;
use sluice_planners_wan::routes::Router;
use sluice_planners_wan::{Flow, Instance, Link};

/// A number in [least, largest).
pub fn between(random: &mut Random, least: f64, largest: f64) -> f64 {
    least + (largest - least) * random.unit()
}

/// A strongly connected graph: a ring of both directions, and some more links.
pub fn links(random: &mut Random, nodes: usize) -> Vec<Link> {
    let mut links = Vec::new();
    for node in 0..nodes {
        let next = (node + 1) % nodes;
        links.push(Link { from: node, to: next, capacity: between(random, 0.5, 20.0) });
        links.push(Link { from: next, to: node, capacity: between(random, 0.5, 20.0) });
    }
    for _ in 0..random.below(2 * nodes) {
        let (from, to) = (random.below(nodes), random.below(nodes));
        if from != to {
            links.push(Link { from, to, capacity: between(random, 0.5, 20.0) });
        }
    }
    links
}

/// An instance with up to `collectives` collectives of up to four chains of up to six flows.
pub fn chains(seed: u64, collectives: usize) -> Instance {
    made(seed, collectives, false)
}

/// The same flows with dependencies drawn at random: any order without cycles.
pub fn any_order(seed: u64, collectives: usize) -> Instance {
    made(seed, collectives, true)
}

fn made(seed: u64, most: usize, any_order: bool) -> Instance {
    let mut random = Random::new(seed);
    let nodes = 2 + random.below(5);
    let links = links(&mut random, nodes);
    let mut router = Router::new(nodes, &links);
    let mut flows = Vec::new();
    for collective in 0..1 + random.below(most) {
        for group in 0..1 + random.below(4) {
            let mut at = random.below(nodes);
            for order in 0..1 + random.below(6) {
                let to = (at + 1 + random.below(nodes - 1)) % nodes;
                let path = router.route(at, to).expect("strongly connected");
                let size = between(&mut random, 0.1, 10.0);
                flows.push(Flow { collective, group, order, from: at, to, size, path, release: 0.0 });
                at = to;
            }
        }
    }
    let deps = any_order.then(|| {
        let order = permutation(&mut random, flows.len());
        let edges = 0..random.below(2 * flows.len() + 1);
        let mut pairs = Vec::new();
        for _ in edges {
            let (a, b) = (random.below(flows.len()), random.below(flows.len()));
            if a != b {
                pairs.push((order[a.min(b)], order[a.max(b)]));
            }
        }
        pairs
    });
    Instance::new(format!("random {seed}"), nodes, links, flows, deps).expect("a legal instance")
}

/// The numbers below `length` in random order.
pub fn permutation(random: &mut Random, length: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    for place in (1..length).rev() {
        order.swap(place, random.below(place + 1));
    }
    order
}

/// A weight for each group.
pub fn weights(random: &mut Random, instance: &Instance) -> Vec<f64> {
    instance.groups().iter().map(|_| between(random, 0.05, 1.0)).collect()
}

/// Fails unless two numbers agree to this relative tolerance.
#[track_caller]
pub fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    let size = found.abs().max(expected.abs());
    assert!((found - expected).abs() <= tolerance * size, "{what}: {found} and {expected}");
}
