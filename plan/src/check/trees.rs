//! Kind `trees`: every tree spans the participants, the roots' shares are right, every path exists.

use super::demand::Demand;
use super::fabric::Fabric;
use super::hops::{Hops, Span};
use super::load::Loads;
use super::violation::{Code, Violation};
use super::{Report, achieved::Exactness};
use crate::plan::{Collective, Direction, Edge, Forest, Plan, Tree, Trees};
use sluice_formats::quantity::Rational;

/// Checks the forests; gives the loads in parts of M.
pub fn check(
    plan: &Plan,
    fabric: &Fabric<'_>,
    trees: &Trees,
    report: &mut Report,
) -> Result<(Loads, Exactness), Violation> {
    let expected: &[Direction] = match plan.body.collective {
        Collective::AllGather | Collective::Broadcast | Collective::Custom => &[Direction::Out],
        Collective::ReduceScatter | Collective::Reduce => &[Direction::In],
        Collective::AllReduce => &[Direction::In, Direction::Out],
        other => return Err(Fabric::unserved(other, "trees")),
    };
    let found: Vec<Direction> = trees.forests.iter().map(|forest| forest.direction).collect();
    if found != expected {
        let words = |list: &[Direction]| list.iter().map(|d| d.word()).collect::<Vec<_>>().join(", then ");
        let message = format!(
            "`{}` needs forests with direction {}, these have {}",
            plan.body.collective.word(),
            words(expected),
            words(&found)
        );
        return Err(Violation::new(Code::WrongForests, "/content/forests", message));
    }
    let demand = match (plan.body.collective, &plan.body.demands) {
        (Collective::Custom, _) => Some(Demand::new(plan, fabric)?),
        (_, None) => None,
        (_, Some(_)) => {
            let message = "demands are for plans whose collective is `custom`";
            return Err(Violation::new(Code::BadDemands, "/demands", message));
        }
    };
    let weights = trees.forests.iter().flat_map(|forest| &forest.trees).map(|tree| &tree.weight);
    super::check_common_denominator(weights, "/content/forests")?;
    let mut loads = Loads::new(fabric);
    let mut shares: Vec<Vec<Rational>> = Vec::new();
    let mut exactness = Exactness::Exact;
    let mut walker = Walker::new(fabric);
    for (f, forest) in trees.forests.iter().enumerate() {
        let at = format!("/content/forests/{f}");
        let mut own = Loads::new(fabric);
        let mut by_root = vec![Rational::ZERO; fabric.topology.nodes().len()];
        let mut by_group = vec![Rational::ZERO; demand.as_ref().map_or(0, |demand| demand.groups.len())];
        for (t, tree) in forest.trees.iter().enumerate() {
            let served = walker.tree(plan, forest, tree, demand.as_ref(), &|| format!("{at}/trees/{t}"), &mut own)?;
            by_root[served.root] += &tree.weight;
            if let Some(group) = served.group {
                by_group[group] += &tree.weight;
            }
            if !tree.weight.is_integer() {
                exactness = Exactness::Lp;
            }
        }
        let sum: Rational = by_root.iter().sum();
        let Some(part) = sum.recip() else {
            return Err(Violation::new(Code::NotSpanning, format!("{at}/trees"), "a forest without trees"));
        };
        match &demand {
            None => check_shares(fabric, forest, &by_root, &at)?,
            Some(demand) => check_groups(fabric, demand, forest, &by_group, &at)?,
        }
        check_u(fabric, forest, &own, &at)?;
        if forest.k.0.is_none() {
            exactness = Exactness::Lp;
        }
        loads.add_scaled(&own, &part);
        shares.push(by_root.iter().map(|weight| weight * &part).collect());
    }
    if let [first, second] = &shares[..]
        && let Some(node) = (0..first.len()).find(|node| first[*node] != second[*node])
    {
        let message = format!(
            "{} is the root of {} of the data on the way in and of {} on the way out",
            fabric.id(node),
            first[node],
            second[node]
        );
        return Err(Violation::new(Code::UnequalForests, "/content/forests/1", message));
    }
    let (n, trees) = (fabric.participants.len(), trees.forests.iter().map(|forest| forest.trees.len()).sum::<usize>());
    report.proved.push(match plan.body.collective {
        Collective::Custom => {
            let (groups, units) = demand.map_or((0, 0), |demand| (demand.groups.len(), demand.units));
            format!("all {units} chunks reach all who want them, in {groups} groups over {trees} trees")
        }
        Collective::AllGather => format!("all {n} participants end with the data of all, over {trees} trees"),
        Collective::Broadcast => format!("all {n} participants end with the root's data, over {trees} trees"),
        Collective::ReduceScatter => {
            format!(
                "every participant ends with its part of the sum, each of {n} inputs counted once, over {trees} trees"
            )
        }
        Collective::Reduce => {
            format!("the root ends with the sum, each of {n} inputs counted once, over {trees} trees")
        }
        _ => format!("all {n} participants end with the sum, each input counted once, over {trees} trees"),
    });
    report.proved.push("every hop is a link, and switches do only what they can".into());
    Ok((loads, exactness))
}

/// Weights per root: `k` times its share; of a forest without `k` all that counts is the other forest.
fn check_shares(fabric: &Fabric<'_>, forest: &Forest, by_root: &[Rational], at: &str) -> Result<(), Violation> {
    let Some(k) = forest.k.0 else { return Ok(()) };
    if k == 0 {
        return Err(Violation::new(Code::WrongShare, format!("{at}/k"), "no trees per root"));
    }
    for node in &fabric.participants {
        let due = &Rational::from(k) * &Rational::from(fabric.share(*node));
        if by_root[*node] != due {
            let message =
                format!("the trees of {} weigh {} together, and should weigh {due}", fabric.id(*node), by_root[*node]);
            return Err(Violation::new(Code::WrongShare, format!("{at}/trees"), message));
        }
    }
    Ok(())
}

/// Weights per group of ends: `k` times its chunks.
fn check_groups(
    fabric: &Fabric<'_>,
    demand: &Demand,
    forest: &Forest,
    by_group: &[Rational],
    at: &str,
) -> Result<(), Violation> {
    let Some(k) = forest.k.0.filter(|k| *k > 0) else {
        return Err(Violation::new(Code::WrongShare, format!("{at}/k"), "trees of demands say what a chunk weighs"));
    };
    for (group, weight) in demand.groups.iter().zip(by_group) {
        let due = &Rational::from(k) * &Rational::from(group.units);
        if *weight != due {
            let ends: Vec<&str> = group.ends.iter().take(4).map(|end| fabric.id(*end)).collect();
            let more = if group.ends.len() > ends.len() { ", …" } else { "" };
            let (source, ends) = (fabric.id(group.source), ends.join(", "));
            let message =
                format!("the trees of {source} to {ends}{more} weigh {weight} together, and should weigh {due}");
            return Err(Violation::new(Code::WrongShare, format!("{at}/trees"), message));
        }
    }
    Ok(())
}

/// `U` is the largest load per capacity, in the unit of the first link; with a given number of trees at least that.
fn check_u(fabric: &Fabric<'_>, forest: &Forest, own: &Loads, at: &str) -> Result<(), Violation> {
    let Some(u) = forest.u.as_ref().and_then(|u| u.0.as_ref()) else { return Ok(()) };
    let slowest = own.slowest(fabric);
    // Loads are in trees and capacities in base units: one unit of capacity carries this many trees.
    let needed = &slowest.time * &fabric.topology.unit().base(&Rational::ONE);
    let good = if forest.fixed_k == Some(true) { *u >= needed } else { *u == needed };
    if good {
        return Ok(());
    }
    let message = format!("U is {u}, and {} carries {needed} trees per unit of capacity", slowest.place);
    Err(Violation::new(Code::WrongU, format!("{at}/U"), message))
}

/// Walks trees; what it knows of the last tree is told apart by a stamp, so that nothing is cleared between trees.
struct Walker<'a> {
    fabric: &'a Fabric<'a>,
    stamp: u32,
    /// Per node: the tree in which it has a parent, which one, and by which edge.
    parent: Vec<(u32, usize)>,
    /// Per node: the tree in which it has a child.
    children: Vec<(u32, u32)>,
    /// Per node: the tree in which it is known to hang on the root, or to be on the way there.
    hangs: Vec<u32>,
    visiting: Vec<u32>,
    /// Per node: the tree that it is an end of.
    ends: Vec<u32>,
    hops: Hops,
}

/// Whose data a tree carries, and for which group of ends where demands say so.
struct Served {
    root: usize,
    group: Option<usize>,
}

impl<'a> Walker<'a> {
    fn new(fabric: &'a Fabric<'a>) -> Walker<'a> {
        let n = fabric.topology.nodes().len();
        Walker {
            fabric,
            stamp: 0,
            parent: vec![(0, 0); n],
            children: vec![(0, 0); n],
            hangs: vec![0; n],
            visiting: vec![0; n],
            ends: vec![0; n],
            hops: Hops::new(n),
        }
    }

    /// Checks a tree, adds what it carries to the loads, and says what it serves.
    fn tree(
        &mut self,
        plan: &Plan,
        forest: &Forest,
        tree: &Tree,
        demand: Option<&Demand>,
        at: &dyn Fn() -> String,
        loads: &mut Loads,
    ) -> Result<Served, Violation> {
        let fabric = self.fabric;
        self.stamp += 1;
        let root = fabric.node(plan, tree.root, || format!("{}/root", at()))?;
        if !fabric.takes_part(root) {
            let message = format!("{} is the root of a tree and takes no part", fabric.id(root));
            return Err(Violation::new(Code::RootNotParticipant, format!("{}/root", at()), message));
        }
        if !tree.weight.is_positive() {
            let message = format!("a weight of {}", tree.weight);
            return Err(Violation::new(Code::BadWeight, format!("{}/weight", at()), message));
        }
        let group = match demand {
            Some(demand) => Some(demand.served(plan, fabric, root, tree, at)?),
            None if tree.ends.is_some() => {
                let message = "every participant is an end; only trees of demands name theirs";
                return Err(Violation::new(Code::WrongEnds, format!("{}/ends", at()), message));
            }
            None => None,
        };
        let ends: &[usize] = match demand.zip(group) {
            Some((demand, group)) => &demand.groups[group].ends,
            None => &fabric.participants,
        };
        ends.iter().for_each(|end| self.ends[*end] = self.stamp);
        let mut missing = ends.iter().filter(|end| **end != root).count();
        for (e, edge) in tree.edges.iter().enumerate() {
            let place = || format!("{}/edges/{e}", at());
            let (parent, child) = self.ends(plan, forest.direction, edge, &place)?;
            self.join(root, parent, child, &place)?;
            missing -= usize::from(self.ends[child] == self.stamp);
            self.path(plan, edge, &place, tree.hops.is_none().then_some((&mut *loads, &tree.weight)))?;
        }
        if missing > 0 {
            let alone = ends.iter().find(|node| **node != root && self.parent[**node].0 != self.stamp);
            let name = alone.map_or("a participant", |node| fabric.id(*node));
            let message = format!("{name} is not in the tree of {}", fabric.id(root));
            return Err(Violation::new(Code::NotSpanning, at(), message));
        }
        for (e, edge) in tree.edges.iter().enumerate() {
            let place = || format!("{}/edges/{e}", at());
            let (_, child) = self.ends(plan, forest.direction, edge, &place)?;
            self.hang(root, child, &place)?;
        }
        self.abilities(plan, forest.direction, tree, root, at)?;
        if let Some(hops) = &tree.hops {
            self.hops.check(plan, fabric, forest.direction, Span { root, ends }, hops, at)?;
            for hop in hops {
                let (from, to) = (fabric.node(plan, hop.0, at)?, fabric.node(plan, hop.1, at)?);
                if let Some(cable) = fabric.cable(from, to) {
                    loads.add(cable, &tree.weight);
                }
            }
        }
        Ok(Served { root, group })
    }

    /// Which end of an edge is nearer to the root, and which is farther.
    fn ends(
        &self,
        plan: &Plan,
        direction: Direction,
        edge: &Edge,
        place: &dyn Fn() -> String,
    ) -> Result<(usize, usize), Violation> {
        let src = self.fabric.node(plan, edge.src, || format!("{}/src", place()))?;
        let dst = self.fabric.node(plan, edge.dst, || format!("{}/dst", place()))?;
        Ok(if direction == Direction::Out { (src, dst) } else { (dst, src) })
    }

    fn join(&mut self, root: usize, parent: usize, child: usize, place: &dyn Fn() -> String) -> Result<(), Violation> {
        let fabric = self.fabric;
        if child == root {
            let message = format!("{} is the root of this tree", fabric.id(root));
            return Err(Violation::new(Code::EdgeAtRoot, place(), message));
        }
        if self.parent[child].0 == self.stamp {
            let message = format!("{} is joined to this tree a second time", fabric.id(child));
            return Err(Violation::new(Code::TwoParents, place(), message));
        }
        self.parent[child] = (self.stamp, parent);
        let children = &mut self.children[parent];
        *children = if children.0 == self.stamp { (self.stamp, children.1 + 1) } else { (self.stamp, 1) };
        Ok(())
    }

    /// Every hop of an edge's path is a link, and what lies between only forwards.
    fn path(
        &self,
        plan: &Plan,
        edge: &Edge,
        place: &dyn Fn() -> String,
        mut loads: Option<(&mut Loads, &Rational)>,
    ) -> Result<(), Violation> {
        let fabric = self.fabric;
        let mut before = None;
        for (i, name) in edge.path().enumerate() {
            let at = || format!("{}/path/{i}", place());
            let node = fabric.node(plan, name, at)?;
            if i > 0 && i <= edge.via.len() && !fabric.lets_pass(node) {
                let message = format!("{} lies on the path but does not only forward", fabric.id(node));
                return Err(Violation::new(Code::PathThroughCompute, at(), message));
            }
            if let Some(before) = before {
                let Some(cable) = fabric.cable(before, node) else {
                    let message = format!("no link leads from {} to {}", fabric.id(before), fabric.id(node));
                    return Err(Violation::new(Code::NoLink, at(), message));
                };
                if let Some((loads, weight)) = &mut loads {
                    loads.add(cable, weight);
                }
            }
            before = Some(node);
        }
        Ok(())
    }

    /// Does a node hang on the root? Each node is walked over once per tree.
    fn hang(&mut self, root: usize, node: usize, place: &dyn Fn() -> String) -> Result<(), Violation> {
        self.hangs[root] = self.stamp;
        let mut at = node;
        while self.hangs[at] != self.stamp {
            let (stamp, parent) = self.parent[at];
            if stamp != self.stamp {
                let message = format!("{} has nothing from the root of this tree", self.fabric.id(at));
                return Err(Violation::new(Code::Cycle, place(), message));
            }
            if self.visiting[at] == self.stamp {
                let message = format!("{} hangs on a circle, not on the root", self.fabric.id(at));
                return Err(Violation::new(Code::Cycle, place(), message));
            }
            self.visiting[at] = self.stamp;
            at = parent;
        }
        let mut at = node;
        while self.hangs[at] != self.stamp {
            self.hangs[at] = self.stamp;
            at = self.parent[at].1;
        }
        Ok(())
    }

    /// Nodes that send on what they keep can copy, nodes that add up can reduce, and every leaf is an end.
    fn abilities(
        &self,
        plan: &Plan,
        direction: Direction,
        tree: &Tree,
        root: usize,
        at: &dyn Fn() -> String,
    ) -> Result<(), Violation> {
        let fabric = self.fabric;
        for (e, edge) in tree.edges.iter().enumerate() {
            let place = || format!("{}/edges/{e}", at());
            let (parent, child) = self.ends(plan, direction, edge, &place)?;
            let can = fabric.topology.nodes()[parent].can;
            let children = if self.children[parent].0 == self.stamp { self.children[parent].1 } else { 0 };
            match direction {
                // A root with one child gives its data away once; nobody copies.
                Direction::Out if !can.copy && (parent != root || children > 1) => {
                    let message =
                        format!("{} sends on what it keeps or to several, and cannot copy", fabric.id(parent));
                    return Err(Violation::new(Code::CannotCopy, place(), message));
                }
                Direction::In if !can.reduce => {
                    let message = format!("{} adds what arrives to its own, and cannot reduce", fabric.id(parent));
                    return Err(Violation::new(Code::CannotReduce, place(), message));
                }
                _ => {}
            }
            if self.ends[child] != self.stamp && self.children[child].0 != self.stamp {
                let message = format!("{} is a leaf and takes no part", fabric.id(child));
                return Err(Violation::new(Code::IdleLeaf, place(), message));
            }
        }
        Ok(())
    }
}
