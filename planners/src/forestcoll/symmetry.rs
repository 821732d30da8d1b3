//! Equal boxes: plan one, turn the plan round.
//!
//! Large fabrics are many equal boxes behind common switches. Where a bottleneck is a box, every tree enters every
//! other box once; then a tree is a tree inside the root's box, one way from there into each other box, and a tree
//! inside each of those. All boxes being equal, it is enough to pack trees inside one box, with the entries as further
//! roots, and to move the result from box to box. Whether that fits is checked on the finished forest, link by link;
//! where it does not, or the boxes are not equal, the caller goes the general way.

mod shape;
#[cfg(test)]
mod tests;

use super::fabric::Graph;
use super::forest::{Edge, Tree};
use super::network::{Arc, Network};
use super::paths::{Units, recover};
use super::split::{self, SuppliedNetwork};
use super::{Refusal, pack};
use crate::run::{Run, Stage, Stopped};
use num_integer::Integer;
use shape::{Port, Shape};

/// A root's trees come in at most this many batches: with more, the general way has fewer.
const MAX_BATCHES: i64 = 8;

/// Trees for `supply` per root within `arcs`, if the boxes allow it.
pub(super) fn trees(
    graph: &Graph,
    hints: &[Option<u32>],
    arcs: &[Arc],
    supply: &[i64],
    run: &Run,
) -> Result<Option<Vec<Tree>>, Refusal> {
    let shape = match Shape::find(graph, hints, arcs) {
        Some(shape) if shape.same_supply(supply) => shape,
        _ => return Ok(None),
    };
    let common = shape.supply(supply).iter().fold(0_i64, |common, &supply| common.gcd(&supply));
    let sizes: Vec<i64> = (1..=MAX_BATCHES).filter(|parts| common % parts == 0).map(|parts| common / parts).collect();
    for (tried, &unit) in sizes.iter().enumerate() {
        run.report(Stage::Symmetry, tried, sizes.len())?;
        match in_units(&shape, &shape.supply(supply), unit, run) {
            Ok(Some(trees)) => {
                run.report(Stage::Symmetry, sizes.len(), sizes.len())?;
                return Ok(Some(trees));
            }
            Err(Refusal::Stopped(Stopped::Cancelled)) => return Err(Stopped::Cancelled.into()),
            // Whatever does not work out here is decided the general way.
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}

/// With all trees in batches of `unit`.
fn in_units(shape: &Shape, supply: &[i64], unit: i64, run: &Run) -> Result<Option<Vec<Tree>>, Refusal> {
    let own: Vec<i64> = supply.iter().map(|supply| supply / unit).collect();
    let boxes = shape.boxes.len() as i64;
    let Some(needed) = own.iter().sum::<i64>().checked_mul(boxes - 1) else { return Ok(None) };
    let mut inside: Vec<Arc> = shape.inside.iter().map(|arc| Arc { capacity: arc.capacity / unit, ..*arc }).collect();
    let Some((exits, entries)) = shape.ports(&mut inside, needed, unit) else { return Ok(None) };
    let mut roots = own.clone();
    for entry in &entries {
        roots[entry.gpu as usize] += entry.units;
    }
    if shape.locals > shape.compute && !balanced(&inside, shape.locals) {
        return Ok(None);
    }
    let network = Network::new(shape.locals, inside.iter().copied());
    let Some(mut fed) = SuppliedNetwork::new(network, shape.compute, roots, run)? else { return Ok(None) };
    // The box is a small fabric of its own: its stages are no news to the watcher.
    let quiet = Run { watch: &|_| {}, ..*run };
    let splits = split::remove_switches(&mut fed, &quiet)?;
    let batches = pack::pack(fed, &quiet)?;
    let local = recover(&batches, Units::new(&inside, &splits), &quiet)?;
    Ok(assemble(shape, &own, unit, exits, entries, &local))
}

fn balanced(arcs: &[Arc], nodes: usize) -> bool {
    let mut surplus = vec![0_i64; nodes];
    for &Arc { from, to, capacity } in arcs {
        surplus[from as usize] -= capacity;
        surplus[to as usize] += capacity;
    }
    surplus.iter().all(|&surplus| surplus == 0)
}

/// One way from the root's box into the box so many places on.
#[derive(PartialEq)]
struct Crossing {
    exit: usize,
    entry: usize,
    /// The tree inside the box that is entered.
    tree: usize,
}

/// Equal trees of one root, by what they are joined from.
struct Joined {
    root: u32,
    count: i64,
    /// The tree inside the root's box.
    first: usize,
    /// By how many places on the other box is, starting at 1.
    crossings: Vec<Crossing>,
}

/// Joins trees inside boxes by ways between them, for one box, and turns the result round all boxes.
fn assemble(
    shape: &Shape,
    own: &[i64],
    unit: i64,
    mut exits: Vec<Port>,
    mut entries: Vec<Port>,
    local: &[Tree],
) -> Option<Vec<Tree>> {
    let mut stock: Vec<Vec<(usize, u64)>> = vec![Vec::new(); shape.compute];
    for (number, tree) in local.iter().enumerate().rev() {
        stock[tree.root as usize].push((number, tree.weight));
    }
    let mut take = |gpu: u32| {
        let stock = &mut stock[gpu as usize];
        let (number, left) = stock.last_mut()?;
        let number = *number;
        *left -= 1;
        if *left == 0 {
            stock.pop();
        }
        Some(number)
    };
    let mut plans: Vec<Joined> = Vec::new();
    for (root, &count) in (0..).zip(own) {
        for _ in 0..count {
            let first = take(root)?;
            let mut crossings = Vec::with_capacity(shape.boxes.len() - 1);
            for _ in 1..shape.boxes.len() {
                // Straight out of the root and in at its counterpart, as long as there is room.
                let exit = pick(&mut exits, |exit| exit.gpu == root)?;
                let (gpu, via) = (exits[exit].gpu, exits[exit].switch);
                let entry = pick_on(&mut entries, via, gpu)?;
                crossings.push(Crossing { exit, entry, tree: take(entries[entry].gpu)? });
            }
            match plans.last_mut() {
                Some(last) if last.root == root && last.first == first && last.crossings == crossings => {
                    last.count += 1
                }
                _ => plans.push(Joined { root, count: 1, first, crossings }),
            }
        }
    }

    let boxes = shape.boxes.len();
    let placed: Vec<Vec<Vec<Edge>>> =
        shape.boxes.iter().map(|home| local.iter().map(|tree| place(tree, home)).collect()).collect();
    let mut trees = Vec::with_capacity(plans.len() * boxes);
    for (home, nodes) in shape.boxes.iter().enumerate() {
        for Joined { root, count, first, crossings } in &plans {
            let mut edges = Vec::with_capacity(shape.compute * boxes - 1);
            edges.extend_from_slice(&placed[home][*first]);
            for (step, crossing) in crossings.iter().enumerate() {
                let other = (home + step + 1) % boxes;
                let (exit, entry) = (&exits[crossing.exit], &entries[crossing.entry]);
                let out = exit.way.iter().map(|&local| nodes[local as usize]);
                let into = entry.way.iter().rev().map(|&local| shape.boxes[other][local as usize]);
                let path = out.chain([exit.switch]).chain(into).collect();
                edges.push(Edge { src: nodes[exit.gpu as usize], dst: shape.boxes[other][entry.gpu as usize], path });
                edges.extend_from_slice(&placed[other][crossing.tree]);
            }
            trees.push(Tree { root: nodes[*root as usize], weight: (unit * count) as u64, edges, hops: None });
        }
    }
    trees.sort_by_key(|tree| tree.root);
    Some(trees)
}

/// A port that has units left, of the wanted kind if there is one; uses up one unit.
fn pick(ports: &mut [Port], wanted: impl Fn(&Port) -> bool) -> Option<usize> {
    let has = |port: &Port| port.units > 0;
    let best = ports.iter().position(|port| has(port) && wanted(port)).or_else(|| ports.iter().position(has))?;
    ports[best].units -= 1;
    Some(best)
}

fn pick_on(ports: &mut [Port], switch: u32, gpu: u32) -> Option<usize> {
    let has = |port: &Port| port.units > 0 && port.switch == switch;
    let best = ports.iter().position(|port| has(port) && port.gpu == gpu).or_else(|| ports.iter().position(has))?;
    ports[best].units -= 1;
    Some(best)
}

/// A tree of the one box in another one.
fn place(tree: &Tree, home: &[u32]) -> Vec<Edge> {
    let node = |local: u32| home[local as usize];
    let edge = |edge: &Edge| Edge {
        src: node(edge.src),
        dst: node(edge.dst),
        path: edge.path.iter().map(|&local| node(local)).collect(),
    };
    tree.edges.iter().map(edge).collect()
}
