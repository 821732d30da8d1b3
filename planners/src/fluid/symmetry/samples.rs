//! Fabrics for the tests.

use crate::fluid::network::{Edge, Group, Network};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sluice_formats::topology::Can;

pub(super) const GPU: Can = Can { store: true, copy: true, reduce: true };
pub(super) const MEMORY: Can = Can { store: true, copy: true, reduce: false };
pub(super) const SWITCH: Can = Can { store: false, copy: false, reduce: false };

/// Parts of a fabric.
#[derive(Clone, Default)]
pub(super) struct Parts {
    pub(super) can: Vec<Can>,
    pub(super) edges: Vec<Edge>,
    pub(super) groups: Vec<Group>,
}

impl Parts {
    pub(super) fn node(&mut self, can: Can) -> u32 {
        self.can.push(can);
        self.can.len() as u32 - 1
    }
    /// A link, with a limit of its own if it has a rate.
    pub(super) fn link(&mut self, from: u32, to: u32, rate: Option<f64>, cost: f64) {
        let index = self.edges.len() as u32;
        self.edges.push(Edge { from, to, cost });
        self.groups.extend(rate.map(|rate| Group { edges: vec![index], rate }));
    }
    pub(super) fn both(&mut self, one: u32, other: u32, rate: Option<f64>, cost: f64) {
        self.link(one, other, rate, cost);
        self.link(other, one, rate, cost);
    }
    pub(super) fn network(self) -> Network {
        Network::new(self.can, self.edges, self.groups)
    }
}

/// GPUs of which these pairs are linked both ways.
pub(super) fn gpus(count: u32, pairs: impl Iterator<Item = (u32, u32)>) -> Network {
    let mut parts = Parts { can: vec![GPU; count as usize], ..Parts::default() };
    pairs.for_each(|(one, other)| parts.both(one, other, Some(5.0), 1.0));
    parts.network()
}

pub(super) fn ring(count: u32) -> Network {
    gpus(count, (0..count).map(|node| (node, (node + 1) % count)))
}

pub(super) fn star(count: u32) -> Network {
    let mut parts = Parts { can: vec![GPU; count as usize], ..Parts::default() };
    let hub = parts.node(SWITCH);
    (0..count).for_each(|node| parts.both(node, hub, Some(10.0), 1.0));
    parts.network()
}

/// Two pairs of GPUs, each at a switch, and a slow switch for all.
pub(super) fn two_box() -> Network {
    let mut parts = Parts { can: vec![GPU; 4], ..Parts::default() };
    let (first, second, all) = (parts.node(SWITCH), parts.node(SWITCH), parts.node(SWITCH));
    let hubs = [first, first, second, second];
    (0..).zip(hubs).for_each(|(node, hub)| parts.both(node, hub, Some(10.0), 1.0));
    (0..4).for_each(|node| parts.both(node, all, Some(1.0), 1.0));
    parts.network()
}

/// The links of the multi-rail cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rails {
    Nvlink,
    Pcie,
    All,
}

/// The multi-rail cluster of DGX A100 machines: its GPUs machine by machine first, and the machine of each node.
pub(super) fn dgx(machines: u32, rails: Rails) -> (Network, Vec<Option<u32>>) {
    let mut parts = Parts::default();
    let mut machine = Vec::new();
    (0..8 * machines).for_each(|gpu| {
        parts.node(GPU);
        machine.push(Some(gpu / 8));
    });
    let (nvlink, pcie) = (rails != Rails::Pcie, rails != Rails::Nvlink);
    let rail: Vec<u32> = if machines > 1 { (0..8).map(|_| parts.node(SWITCH)).collect() } else { Vec::new() };
    for own in 0..machines {
        let gpu = |index: u32| 8 * own + index;
        if nvlink {
            let hub = parts.node(SWITCH);
            (0..8).for_each(|index| parts.both(gpu(index), hub, Some(300.0), 1.0));
        }
        if pcie {
            let [first, second] = [(); 2].map(|()| parts.node(SWITCH));
            for (cpu, half) in [(first, 0), (second, 1)] {
                let memory = parts.node(MEMORY);
                parts.both(cpu, memory, None, 0.0);
                for bridge in 0..2 {
                    let switch = parts.node(SWITCH);
                    parts.both(switch, cpu, Some(32.0), 0.0);
                    for index in [0, 1].map(|index| 4 * half + 2 * bridge + index) {
                        parts.both(gpu(index), switch, Some(32.0), 1.0);
                        rail.get(index as usize)
                            .into_iter()
                            .for_each(|rail| parts.both(switch, *rail, Some(25.0), 1.0));
                    }
                }
            }
            parts.both(first, second, None, 0.0);
        } else {
            for (index, rail) in (0..).zip(&rail) {
                let card = parts.node(SWITCH);
                parts.both(gpu(index), card, Some(25.0), 1.0);
                parts.both(card, *rail, Some(25.0), 1.0);
            }
        }
        machine.resize(parts.can.len(), None);
    }
    (parts.network(), machine)
}

/// Marks by which GPUs take part and nothing else does.
pub(super) fn marks(network: &Network) -> Vec<u32> {
    network.can.iter().map(|can| u32::from(can.reduce)).collect()
}

/// A small fabric by chance: few abilities, few costs and rates, parallel links, joint limits, links one way; some have
/// much symmetry.
pub(super) fn random(seed: u64) -> Network {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut below = move |count: u64| random.next_u64() % count;
    let count = 3 + below(5) as u32;
    let mut parts = Parts::default();
    let kinds = 1 + below(2);
    (0..count).for_each(|_| _ = parts.node(if below(kinds) == 0 { GPU } else { SWITCH }));
    let (dense, variety, both) = (1 + below(4), 1 + below(2), below(2) == 0);
    let shift = 1 + below(u64::from(count) - 1) as u32;
    let circulant = below(2) == 0;
    for one in 0..count {
        for other in 0..count {
            let linked = match circulant {
                true => other == (one + shift) % count || other == (one + 1) % count,
                false => other > one && below(dense) == 0,
            };
            let cost = below(variety) as f64;
            let rate = [Some(1.0), Some(2.0), None][below(variety + 1) as usize % 3].filter(|_| variety > 1);
            for _ in 0..u64::from(linked && one != other) * (1 + below(variety)) {
                parts.link(one, other, rate, cost);
                if both {
                    parts.link(other, one, rate, cost);
                }
            }
        }
    }
    let edges = parts.edges.len() as u32;
    match below(4) {
        // A port: all that leaves a node.
        0 => (0..count).for_each(|node| {
            let out = (0..edges).filter(|edge| parts.edges[*edge as usize].from == node).collect::<Vec<_>>();
            if !out.is_empty() {
                parts.groups.push(Group { edges: out, rate: 3.0 });
            }
        }),
        1 => (0..below(3)).for_each(|_| {
            let edges = (0..edges).filter(|_| below(3) == 0).collect::<Vec<_>>();
            if !edges.is_empty() {
                parts.groups.push(Group { edges, rate: 1.0 + below(2) as f64 });
            }
        }),
        _ => {}
    }
    parts.network()
}
