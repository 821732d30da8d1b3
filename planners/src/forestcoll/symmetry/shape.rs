//! Finding equal boxes in a fabric, and the ways out of one.

use crate::forestcoll::fabric::Graph;
use crate::forestcoll::network::Arc;
use std::collections::{BTreeMap, BTreeSet};

/// A fabric of equal boxes: what is in one, and how it is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Per box: its nodes by local index, compute nodes first.
    pub boxes: Vec<Vec<u32>>,
    /// Local indices below it are compute nodes.
    pub compute: usize,
    /// Nodes of a box.
    pub locals: usize,
    /// Links inside a box, by local index.
    pub inside: Vec<Arc>,
    /// Links out of a box: from a local index to a switch between boxes.
    out: Vec<Arc>,
    /// Links into a box, turned round.
    into: Vec<Arc>,
}

/// A way between a compute node and a switch between boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// The compute node, by local index.
    pub gpu: u32,
    /// The compute node and what else of the box lies between it and the switch.
    pub way: Vec<u32>,
    /// The switch between boxes.
    pub switch: u32,
    /// The link inside the box that it uses, by its place among those.
    through: Option<usize>,
    /// How much may go this way.
    pub units: i64,
}

impl Shape {
    /// The boxes that the hints name; if those are not equal, or there are none, those that remain without the switches
    /// of largest degree.
    pub fn find(graph: &Graph, hints: &[Option<u32>], arcs: &[Arc]) -> Option<Self> {
        if let Some(shape) = by_hint(graph, hints, arcs).and_then(|home| Self::of(graph, &home, arcs)) {
            return Some(shape);
        }
        let mut degree = vec![0_usize; graph.nodes];
        arcs.iter().for_each(|arc| [arc.from, arc.to].iter().for_each(|&node| degree[node as usize] += 1));
        let mut degrees: Vec<usize> = degree[graph.compute..].to_vec();
        degrees.sort_unstable_by(|a, b| b.cmp(a));
        degrees.dedup();
        let tried = degrees.iter().take(3);
        tried.filter_map(|&least| Self::of(graph, &without(graph, arcs, |switch| degree[switch] >= least), arcs)).next()
    }

    /// The common shape of these boxes, if they have one.
    fn of(graph: &Graph, home: &[Option<u32>], arcs: &[Arc]) -> Option<Self> {
        if home[..graph.compute].contains(&None) {
            return None;
        }
        let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (node, home) in (0..).zip(home) {
            if let Some(home) = home {
                members.entry(*home).or_default().push(node);
            }
        }
        let mut local = vec![0_u32; graph.nodes];
        for members in members.values() {
            (0..).zip(members).for_each(|(at, &node)| local[node as usize] = at);
        }
        let mut parts: BTreeMap<u32, [Vec<Arc>; 3]> = members.keys().map(|&home| (home, Default::default())).collect();
        for &Arc { from, to, capacity } in arcs {
            let (a, b) = (home[from as usize], home[to as usize]);
            let (from_local, to_local) = (local[from as usize], local[to as usize]);
            let (part, from, to) = match (a, b) {
                (Some(a), Some(b)) if a == b => (parts.get_mut(&a)?.get_mut(0)?, from_local, to_local),
                (Some(a), None) => (parts.get_mut(&a)?.get_mut(1)?, from_local, to),
                (None, Some(b)) => (parts.get_mut(&b)?.get_mut(2)?, to_local, from),
                // Links from box to box and among switches between boxes are another shape.
                _ => return None,
            };
            part.push(Arc { from, to, capacity });
        }
        parts.values_mut().flatten().for_each(|part| part.sort_unstable());
        let mut every = parts.into_values();
        let first = every.next()?;
        let boxes: Vec<Vec<u32>> = members.into_values().collect();
        let compute = |members: &Vec<u32>| members.iter().filter(|&&node| (node as usize) < graph.compute).count();
        let (locals, own) = (boxes[0].len(), compute(&boxes[0]));
        let alike = boxes.iter().all(|members| members.len() == locals && compute(members) == own);
        if boxes.len() < 2 || own == 0 || !alike || every.any(|other| other != first) {
            return None;
        }
        let [inside, out, into] = first;
        Some(Self { boxes, compute: own, locals, inside, out, into })
    }

    /// Whether every box has the same shares.
    pub fn same_supply(&self, supply: &[i64]) -> bool {
        let of = |members: &Vec<u32>| -> Vec<i64> {
            members[..self.compute].iter().map(|&node| supply[node as usize]).collect()
        };
        let first = of(&self.boxes[0]);
        self.boxes.iter().all(|members| of(members) == first)
    }

    /// The shares inside a box.
    pub fn supply(&self, supply: &[i64]) -> Vec<i64> {
        self.boxes[0][..self.compute].iter().map(|&node| supply[node as usize]).collect()
    }

    /// Ways out and in for `needed` units, as many out to each switch as in from it, spread over all that there are.
    /// Takes what they use inside the box off `inside`. Capacities count in units of `unit`.
    pub fn ports(&self, inside: &mut [Arc], needed: i64, unit: i64) -> Option<(Vec<Port>, Vec<Port>)> {
        let mut exits = self.ways(&self.out, inside, unit, |gpu, relay| (gpu, relay));
        let mut entries = self.ways(&self.into, inside, unit, |gpu, relay| (relay, gpu));
        let switches: BTreeSet<u32> = exits.iter().map(|port| port.switch).collect();
        let room = |ports: &[Port], switch: u32| -> i64 {
            ports.iter().filter(|port| port.switch == switch).map(|port| port.units).sum()
        };
        let most: Vec<i64> = switches.iter().map(|&switch| room(&exits, switch).min(room(&entries, switch))).collect();
        let share = spread(&most, needed)?;
        for (&switch, &share) in switches.iter().zip(&share) {
            for ports in [&mut exits, &mut entries] {
                let own: Vec<usize> = (0..ports.len()).filter(|&at| ports[at].switch == switch).collect();
                let most: Vec<i64> = own.iter().map(|&at| ports[at].units).collect();
                for (&at, units) in own.iter().zip(spread(&most, share)?) {
                    let spare = ports[at].units - units;
                    ports[at].units = units;
                    // What a way does not need is free for trees inside the box again.
                    if let Some(at) = ports[at].through {
                        inside[at].capacity += spare;
                    }
                }
            }
        }
        exits.retain(|port| port.units > 0);
        entries.retain(|port| port.units > 0);
        Some((exits, entries))
    }

    /// Links to switches between boxes as ways of compute nodes: at once, or through one switch of the box.
    fn ways(&self, links: &[Arc], inside: &mut [Arc], unit: i64, ends: impl Fn(u32, u32) -> (u32, u32)) -> Vec<Port> {
        let mut ports = Vec::new();
        for &Arc { from: local, to: switch, capacity } in links {
            let mut left = capacity / unit;
            if (local as usize) < self.compute {
                ports.push(Port { gpu: local, way: vec![local], switch, through: None, units: left });
                continue;
            }
            for gpu in 0..self.compute as u32 {
                let (from, to) = ends(gpu, local);
                if let Ok(at) = inside.binary_search_by_key(&(from, to), |arc| (arc.from, arc.to)) {
                    let units = left.min(inside[at].capacity);
                    inside[at].capacity -= units;
                    left -= units;
                    ports.push(Port { gpu, way: vec![gpu, local], switch, through: Some(at), units });
                }
            }
        }
        ports
    }
}

/// `total` divided in proportion to `most`, none above it; `None` if there is not so much.
fn spread(most: &[i64], total: i64) -> Option<Vec<i64>> {
    let all: i128 = most.iter().map(|&most| i128::from(most)).sum();
    if i128::from(total) > all || all == 0 {
        return None;
    }
    let mut sum = 0_i128;
    let mut given = 0_i64;
    // Each share is the difference of two rounded running sums: they add up to the total and stay within `most`.
    let share = most.iter().map(|&most| {
        sum += i128::from(most);
        let upto = (sum * i128::from(total) / all) as i64;
        let share = upto - given;
        given = upto;
        share
    });
    Some(share.collect())
}

/// Boxes by hint; switches without one belong to the box of all their neighbours, if that is one.
fn by_hint(graph: &Graph, hints: &[Option<u32>], arcs: &[Arc]) -> Option<Vec<Option<u32>>> {
    let mut home: Vec<Option<u32>> = (0..graph.nodes).map(|node| hints.get(node).copied().flatten()).collect();
    if home[..graph.compute].contains(&None) {
        return None;
    }
    let mut around: BTreeMap<u32, BTreeSet<Option<u32>>> = BTreeMap::new();
    for &Arc { from, to, .. } in arcs {
        around.entry(from).or_default().insert(home[to as usize]);
        around.entry(to).or_default().insert(home[from as usize]);
    }
    for (switch, home) in (0..).zip(&mut home).skip(graph.compute) {
        if let (None, Some(around)) = (&home, around.get(&switch))
            && around.len() == 1
        {
            *home = around.first().copied().flatten();
        }
    }
    Some(home)
}

/// The connected parts that remain without some switches, numbered by their smallest node.
fn without(graph: &Graph, arcs: &[Arc], taken: impl Fn(usize) -> bool) -> Vec<Option<u32>> {
    let out = |node: usize| node >= graph.compute && taken(node);
    let mut next = vec![Vec::new(); graph.nodes];
    for &Arc { from, to, .. } in arcs.iter().filter(|arc| !out(arc.from as usize) && !out(arc.to as usize)) {
        next[from as usize].push(to);
        next[to as usize].push(from);
    }
    let mut home = vec![None; graph.nodes];
    for start in (0..graph.nodes).filter(|&node| !out(node)) {
        let mut queue = vec![start as u32];
        while let Some(node) = queue.pop() {
            if home[node as usize].is_none() {
                home[node as usize] = Some(start as u32);
                queue.extend(&next[node as usize]);
            }
        }
    }
    home
}
