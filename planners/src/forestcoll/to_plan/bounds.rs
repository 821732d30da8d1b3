//! What no plan can beat on the whole topology, and what proves it.
//!
//! The planner's bottleneck is a cut of its fabric. Nodes that take no part are not in that fabric but could relay, so
//! they are put on whichever side keeps the cut small before it is claimed. Of an all-reduce two more bounds are tried:
//! the least cut, which all sums and all results must cross, and what must arrive at all participants, or machines,
//! together.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::forestcoll::flow::Arena;
use crate::forestcoll::from_topology::Instance;
use crate::forestcoll::network::Network;
use crate::forestcoll::{Collective, Optimum, Refusal, Run, fabric};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Link;
use sluice_plan::plan::CertificateKind;

/// A lower bound of T/M.
#[derive(Clone, Debug)]
pub struct Bound {
    /// T/M, in seconds per byte or abstract.
    pub time: Rational,
    pub certificate: CertificateKind,
    /// Topology indices of the nodes inside a cut.
    pub inside: Vec<usize>,
    /// What each link is worth, of a dual.
    pub prices: Vec<Rational>,
}

impl Bound {
    fn new(time: Rational, certificate: CertificateKind) -> Bound {
        Bound { time, certificate, inside: Vec::new(), prices: Vec::new() }
    }
}

/// The best bound there is a certificate for; `time` is what the plan takes, which none can exceed.
pub fn best(
    instance: &Instance<'_>,
    optimum: &Optimum,
    time: &Rational,
    relaxed: bool,
    run: &Run,
) -> Result<Bound, Refusal> {
    let none = Bound::new(Rational::ZERO, CertificateKind::None);
    let better = |best: Bound, new: Option<Bound>| new.filter(|new| new.time > best.time).unwrap_or(best);
    let mut best = better(none, cut(instance, &optimum.cut));
    if instance.collective == Collective::AllReduce && best.time != *time {
        best = better(best, arrivals(instance));
        if best.time != *time {
            best = better(best, cut(instance, &least_cut(instance, relaxed, run)?));
        }
    }
    Ok(best)
}

/// What a cut of the fabric proves about the topology.
fn cut(instance: &Instance<'_>, nodes: &[u32]) -> Option<Bound> {
    let topology = instance.asked.topology;
    let mut inside = vec![false; topology.nodes().len()];
    let mut known = inside.clone();
    instance.nodes.iter().for_each(|node| known[*node] = true);
    nodes.iter().for_each(|node| inside[instance.nodes[*node as usize]] = true);
    let inwards = matches!(instance.collective, Collective::ReduceScatter | Collective::Reduce { .. });
    join(instance, &mut known, &mut inside, inwards);
    let (mut outward, mut inward) = (Rational::ZERO, Rational::ZERO);
    for link in topology.links() {
        match (inside[link.from], inside[link.to]) {
            (true, false) => outward += link.capacity.finite()?,
            (false, true) => inward += link.capacity.finite()?,
            _ => {}
        }
    }
    let weight = |rank: usize| match instance.collective {
        Collective::Broadcast { root } | Collective::Reduce { root } => u64::from(rank == root),
        _ => instance.fabric.weight(rank),
    };
    let whole: u128 = (0..instance.fabric.compute).map(|rank| u128::from(weight(rank))).sum();
    let part = (0..instance.fabric.compute).filter(|rank| inside[instance.nodes[*rank]]);
    let part: u128 = part.map(|rank| u128::from(weight(rank))).sum();
    let share = Rational::from_big(part.into(), whole.into())?;
    let time = match instance.collective {
        Collective::AllGather | Collective::Broadcast { .. } => share.checked_div(&outward)?,
        Collective::ReduceScatter | Collective::Reduce { .. } => share.checked_div(&inward)?,
        // Either side needs a sum of the other's vectors.
        Collective::AllReduce => outward.recip()?.max(inward.recip()?),
    };
    let inside = (0..inside.len()).filter(|node| inside[*node]).collect();
    Some(Bound { inside, ..Bound::new(time, CertificateKind::Cut) })
}

/// Puts every group of nodes that are not in the fabric on the side that adds less to the cut.
fn join(instance: &Instance<'_>, known: &mut [bool], inside: &mut [bool], inwards: bool) {
    let topology = instance.asked.topology;
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); known.len()];
    if known.iter().all(|known| *known) {
        return;
    }
    for (i, link) in topology.links().iter().enumerate() {
        neighbours[link.from].push(i);
        neighbours[link.to].push(i);
    }
    for first in 0..known.len() {
        if known[first] {
            continue;
        }
        let (mut group, mut next) = (vec![first], 0);
        let mut member = std::collections::HashSet::from([first]);
        let (mut if_inside, mut if_outside) = (Rational::ZERO, Rational::ZERO);
        while let Some(&node) = group.get(next) {
            next += 1;
            for link in neighbours[node].iter().map(|link| &topology.links()[*link]) {
                let (other, leaves) = if link.from == node { (link.to, true) } else { (link.from, false) };
                if !known[other] {
                    if member.insert(other) {
                        group.push(other);
                    }
                    continue;
                }
                let Some(capacity) = link.capacity.finite() else { continue };
                // A link counts where it crosses the cut in the direction that limits.
                match (inside[other], leaves != inwards) {
                    (false, true) => if_inside += capacity,
                    (true, false) => if_outside += capacity,
                    _ => {}
                }
            }
        }
        for node in group {
            (known[node], inside[node]) = (true, if_inside < if_outside);
        }
    }
}

/// The nodes of the cut with participants on both sides that the least capacity leaves.
fn least_cut(instance: &Instance<'_>, relaxed: bool, run: &Run) -> Result<Vec<u32>, Refusal> {
    let graph = fabric::scaled(&instance.fabric, relaxed)?;
    let network = Network::new(graph.nodes, graph.arcs.iter().copied());
    let state = || (Arena::new(graph.nodes), vec![0; network.arcs()]);
    let cuts = run.each(2 * (graph.compute - 1), state, |(arena, flow), which| {
        let other = (which / 2 + 1) as u32;
        let (from, to) = if which % 2 == 0 { (0, other) } else { (other, 0) };
        flow.fill(0);
        arena.give(from, i64::MAX);
        let value = arena.push(&network, flow, to, i64::MAX);
        let inside = arena.reach(&network, flow).to_vec();
        arena.clear();
        (value, inside)
    })?;
    let least = cuts.into_iter().min_by_key(|(value, _)| *value);
    let inside = least.map(|(_, inside)| inside).unwrap_or_default();
    Ok((0_u32..).zip(inside).filter(|(_, inside)| *inside).map(|(node, _)| node).collect())
}

/// What the program's prices prove of a fabric whose every node the planner knows: its optimum, which takes `time`.
pub fn dual(instance: &Instance<'_>, time: &Rational, prices: &BTreeMap<(u32, u32), Rational>) -> Bound {
    let mut places = vec![None; instance.asked.topology.nodes().len()];
    (0_u32..).zip(&instance.nodes).for_each(|(place, node)| places[*node] = Some(place));
    let of_link = |link: &Link| prices.get(&places[link.from].zip(places[link.to])?).cloned();
    let all = instance.asked.topology.links().iter().map(|link| of_link(link).unwrap_or(Rational::ZERO));
    Bound { prices: all.collect(), ..Bound::new(time.clone(), CertificateKind::Dual) }
}

/// Are the participants the only ones that can copy and add up?
pub fn is_unaided(instance: &Instance<'_>) -> bool {
    let nodes = instance.asked.topology.nodes();
    let mut part = vec![false; nodes.len()];
    instance.nodes[..instance.fabric.compute].iter().for_each(|node| part[*node] = true);
    nodes.iter().zip(&part).all(|(node, part)| *part || !(node.can.copy || node.can.reduce))
}

/// Every element needs N − 1 arrivals until somebody has its sum and N − 1 more until everybody has, also where a whole
/// machine is taken for one somebody; provided that nobody outside can add up and copy. The better of the two bounds.
fn arrivals(instance: &Instance<'_>) -> Option<Bound> {
    let participants = &instance.nodes[..instance.fabric.compute];
    let nodes = instance.asked.topology.nodes();
    let mut alone = vec![None; nodes.len()];
    participants.iter().zip(0..).for_each(|(node, number)| alone[*node] = Some(number));
    let mut machines = alone.clone();
    let mut numbers = HashMap::new();
    for node in participants {
        if let (Some(machine), Some(number)) = (&nodes[*node].machine, alone[*node]) {
            machines[*node] = Some(*numbers.entry(machine).or_insert(number));
        }
    }
    // All other nodes of a machine that takes part are in it, too.
    for (node, machine) in nodes.iter().zip(&mut machines) {
        *machine = machine.or_else(|| numbers.get(node.machine.as_ref()?).copied());
    }
    let time = [alone, machines].iter().filter_map(|sets| into_sets(instance, sets)).max()?;
    Some(Bound::new(time, CertificateKind::Bandwidth))
}

/// The bound for these sets of nodes, each with a participant.
fn into_sets(instance: &Instance<'_>, sets: &[Option<usize>]) -> Option<Rational> {
    let helps = |node: usize| {
        instance.asked.topology.nodes()[node].can.copy || instance.asked.topology.nodes()[node].can.reduce
    };
    if sets.iter().enumerate().any(|(node, set)| set.is_none() && helps(node)) {
        return None;
    }
    let count = sets.iter().flatten().collect::<HashSet<_>>().len() as u64;
    let links = instance.asked.topology.links().iter();
    let enters = links.filter(|link| sets[link.to].is_some() && sets[link.from] != sets[link.to]);
    let into: Rational = enters.filter_map(|link| link.capacity.finite()).sum();
    Rational::from(2 * count.checked_sub(1)?).checked_div(&into)
}
