//! The planner's own input, its conditions, and the same graph in whole numbers.

use super::Refusal;
use super::network::Arc;
use super::ratio::Ratio;
use num_integer::Integer;
use sluice_formats::quantity::Rational;
use std::collections::{BTreeMap, HashMap};

#[cfg(test)]
mod tests;

/// A fabric by index: nodes below `compute` own and want data, the others are switches.
///
/// The five lists per node may be shorter than the node count or empty, except `names`, which sets it: what is
/// missing weighs 1, has no capability and belongs to no box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// Unique name per node, compute nodes first.
    pub names: Vec<String>,
    /// How many of the nodes are compute nodes.
    pub compute: usize,
    /// Share of the data per compute node; one with 0 only receives.
    pub weights: Vec<u64>,
    /// Whether a switch can send several copies of what it receives, per node.
    pub multicast: Vec<bool>,
    /// Whether a switch can add up what it receives, per node.
    pub aggregate: Vec<bool>,
    /// Directed links: from, to, bandwidth in any one unit. Parallel links add up.
    pub links: Vec<(u32, u32, Rational)>,
    /// Which machine a node belongs to: a hint to find symmetry by, of no influence on the optimum.
    pub boxes: Vec<Option<u32>>,
}

impl Fabric {
    /// The share of a compute node; 1 where none is given.
    pub fn weight(&self, node: usize) -> u64 {
        self.weights.get(node).copied().unwrap_or(1)
    }

    /// The same fabric with every link turned round.
    pub fn transposed(&self) -> Self {
        Self { links: self.links.iter().map(|(from, to, b)| (*to, *from, b.clone())).collect(), ..self.clone() }
    }

    /// The same fabric with all data at one root.
    pub fn rooted(&self, root: usize) -> Self {
        Self { weights: (0..self.compute).map(|node| u64::from(node == root)).collect(), ..self.clone() }
    }

    fn name(&self, node: u32) -> String {
        self.names.get(node as usize).cloned().unwrap_or_default()
    }
}

/// A valid fabric in whole numbers: bandwidth = `capacity` / `factor`.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub nodes: usize,
    /// Compute nodes are the nodes below it.
    pub compute: usize,
    /// Share per compute node.
    pub weights: Vec<i64>,
    /// One per pair, sorted by pair.
    pub arcs: Vec<Arc>,
    /// What bandwidths were multiplied by; a fraction if they had a common divisor.
    pub factor: Rational,
}

impl Graph {
    pub fn total_weight(&self) -> i64 {
        self.weights.iter().sum()
    }

    /// A ratio per capacity as one per bandwidth in the input's unit.
    pub fn in_units(&self, ratio: Ratio<i64>) -> Rational {
        &Rational::new(ratio.over, ratio.under).unwrap_or(Rational::ZERO) * &self.factor
    }
}

/// Checks everything a plan needs, in a fixed order, and turns the bandwidths into whole numbers.
///
/// `relaxed` allows unequal bandwidth in and out where there is no switch.
pub(super) fn scaled(fabric: &Fabric, relaxed: bool) -> Result<Graph, Refusal> {
    names(fabric)?;
    let links = links(fabric)?;
    if fabric.compute < 2 {
        return Err(Refusal::TooFewCompute { found: fabric.compute });
    }
    let weights = weights(fabric)?;
    let (arcs, factor) = whole(&links)?;
    let total = arcs.iter().try_fold(0_i64, |sum, arc| sum.checked_add(arc.capacity));
    let weight = weights.iter().try_fold(0_i64, |sum, &weight| sum.checked_add(weight));
    // Flows never exceed all capacity times all weight; twice that leaves room for a sum of two.
    total
        .zip(weight)
        .and_then(|(total, weight)| total.checked_mul(weight)?.checked_mul(4))
        .ok_or(Refusal::Overflow { what: "the sum of all bandwidths times all weights" })?;
    let graph = Graph { nodes: fabric.names.len(), compute: fabric.compute, weights, arcs, factor };
    if !(relaxed && graph.nodes == graph.compute) {
        eulerian(fabric, &graph)?;
    }
    connected(fabric, &graph)?;
    Ok(graph)
}

fn names(fabric: &Fabric) -> Result<(), Refusal> {
    let mut seen = HashMap::with_capacity(fabric.names.len());
    for (second, name) in fabric.names.iter().enumerate() {
        if let Some(first) = seen.insert(name.as_str(), second) {
            return Err(Refusal::DuplicateNode { name: name.clone(), first, second });
        }
    }
    Ok(())
}

/// The links with their sums per pair. One pass per condition, so that the first condition is reported, not link.
fn links(fabric: &Fabric) -> Result<BTreeMap<(u32, u32), Rational>, Refusal> {
    let nodes = fabric.names.len();
    for (link, &(from, to, _)) in fabric.links.iter().enumerate() {
        if let Some(&node) = [from, to].iter().find(|&&node| node as usize >= nodes) {
            return Err(Refusal::UnknownNode { link, node, last: nodes.saturating_sub(1) });
        }
    }
    for (link, &(from, to, _)) in fabric.links.iter().enumerate() {
        if from == to {
            return Err(Refusal::SelfLoop { link, name: fabric.name(from) });
        }
    }
    let mut sums = BTreeMap::new();
    for (link, (from, to, bandwidth)) in fabric.links.iter().enumerate() {
        if !bandwidth.is_positive() {
            let (from, to, bandwidth) = (fabric.name(*from), fabric.name(*to), bandwidth.clone());
            return Err(Refusal::NonPositiveBandwidth { link, from, to, bandwidth });
        }
        let sum = sums.entry((*from, *to)).or_insert(Rational::ZERO);
        *sum += bandwidth;
        sum.parts().ok_or(Refusal::Overflow { what: "the sum of parallel links" })?;
    }
    Ok(sums)
}

fn weights(fabric: &Fabric) -> Result<Vec<i64>, Refusal> {
    let weights: Result<Vec<i64>, _> = (0..fabric.compute).map(|node| i64::try_from(fabric.weight(node))).collect();
    let weights = weights.map_err(|_| Refusal::Overflow { what: "a weight" })?;
    if fabric.weights.len() > fabric.compute {
        let (given, nodes) = (fabric.weights.len(), fabric.compute);
        return Err(Refusal::BadWeights { reason: format!("{given} weights for {nodes} compute nodes") });
    }
    if weights.iter().all(|&weight| weight == 0) {
        return Err(Refusal::BadWeights { reason: "all are zero; at least one node owns data".into() });
    }
    Ok(weights)
}

/// Whole numbers without a common divisor, and the factor that made them so.
fn whole(links: &BTreeMap<(u32, u32), Rational>) -> Result<(Vec<Arc>, Rational), Refusal> {
    let overflow = Refusal::Overflow { what: "the common multiple of the bandwidths' denominators" };
    let (mut multiple, mut divisor) = (1_i128, 0_i128);
    for bandwidth in links.values() {
        let (_, under) = bandwidth.parts().ok_or_else(|| overflow.clone())?;
        multiple = multiple.checked_mul(under / multiple.gcd(&under)).ok_or_else(|| overflow.clone())?;
    }
    let mut arcs = Vec::with_capacity(links.len());
    for (&(from, to), bandwidth) in links {
        let capacity = bandwidth.parts().and_then(|(over, under)| over.checked_mul(multiple / under));
        let capacity = capacity.ok_or_else(|| overflow.clone())?;
        divisor = divisor.gcd(&capacity);
        arcs.push((from, to, capacity));
    }
    let divisor = divisor.max(1);
    let arcs: Result<Vec<_>, Refusal> = arcs
        .into_iter()
        .map(|(from, to, capacity)| {
            let capacity = i64::try_from(capacity / divisor)
                .map_err(|_| Refusal::Overflow { what: "a bandwidth in whole numbers" })?;
            Ok(Arc { from, to, capacity })
        })
        .collect();
    Ok((arcs?, Rational::new(multiple, divisor).unwrap_or(Rational::ONE)))
}

fn eulerian(fabric: &Fabric, graph: &Graph) -> Result<(), Refusal> {
    let mut sums = vec![(0_i64, 0_i64); graph.nodes];
    for &Arc { from, to, capacity } in &graph.arcs {
        sums[from as usize].1 += capacity;
        sums[to as usize].0 += capacity;
    }
    let rate = |sum: i64| &Rational::from(sum as u64) / &graph.factor;
    let uneven = (0..).zip(&sums).filter(|(_, (into, out))| into != out);
    let nodes: Vec<_> =
        uneven.take(10).map(|(node, &(into, out))| (fabric.name(node), rate(into), rate(out))).collect();
    if nodes.is_empty() { Ok(()) } else { Err(Refusal::NotEulerian { nodes }) }
}

/// Every owner of data reaches every compute node: one owner reaches all, and all owners reach that one.
fn connected(fabric: &Fabric, graph: &Graph) -> Result<(), Refusal> {
    let owner = graph.weights.iter().position(|&weight| weight > 0).unwrap_or(0) as u32;
    let from_owner = reachable(graph, owner, |arc| (arc.from, arc.to));
    let to_owner = reachable(graph, owner, |arc| (arc.to, arc.from));
    for node in 0..graph.compute {
        if !from_owner[node] {
            return Err(Refusal::NotConnected { from: fabric.name(owner), to: fabric.name(node as u32) });
        }
        if graph.weights[node] > 0 && !to_owner[node] {
            return Err(Refusal::NotConnected { from: fabric.name(node as u32), to: fabric.name(owner) });
        }
    }
    Ok(())
}

fn reachable(graph: &Graph, start: u32, ends: impl Fn(&Arc) -> (u32, u32)) -> Vec<bool> {
    let mut next = vec![Vec::new(); graph.nodes];
    for (from, to) in graph.arcs.iter().map(ends) {
        next[from as usize].push(to);
    }
    let mut seen = vec![false; graph.nodes];
    let mut queue = vec![start];
    seen[start as usize] = true;
    while let Some(node) = queue.pop() {
        for &to in &next[node as usize] {
            if !std::mem::replace(&mut seen[to as usize], true) {
                queue.push(to);
            }
        }
    }
    seen
}
