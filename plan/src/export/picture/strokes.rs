//! What is drawn: one stroke per link in use, or per link and tree, with its colour and what it means.

use std::collections::BTreeMap;

use super::limits::{self, Bar, Limits, Times};
use super::look::{LOADS, TREES, load_class};
use crate::export::{Colour, Options};
use crate::plan::{Forest, NodeId, Plan, Tree, Trees};
use sluice_formats::problem::{E_RANGE, Problem, Problems, UNKNOWN_EDGE, UNKNOWN_NODE};
use sluice_formats::quantity::{Rational, common_denominator};
use sluice_formats::topology::Topology;

/// Colour of links that are nobody's limit.
const UNLIMITED: &str = "#9aa5b1";

/// A line from node to node.
pub struct Stroke {
    /// Index of the node it leaves.
    pub from: usize,
    /// Index of the node it enters.
    pub to: usize,
    /// Its place among the strokes between the same two nodes in this direction.
    pub lane: usize,
    pub colour: &'static str,
    pub width: f64,
    /// What it carries, in words.
    pub words: String,
}

/// Everything that is drawn.
pub struct Strokes {
    /// The lines, by their ends.
    pub list: Vec<Stroke>,
    pub legend: Vec<(&'static str, String)>,
    /// How full the limits are; none where only one tree is drawn, which says nothing of them.
    pub bars: Vec<Bar>,
}

/// A tree, after its number and the number of its forest.
type Chosen<'p> = (usize, usize, &'p Tree);

/// What to draw of a plan.
pub fn strokes<'p>(plan: &Plan, topology: &Topology, trees: &'p Trees, options: &Options) -> Result<Strokes, Problems> {
    let of = |(f, forest): (usize, &'p Forest)| forest.trees.iter().map(move |tree| (f, tree));
    let all = trees.forests.iter().enumerate().flat_map(of).enumerate();
    let all: Vec<Chosen<'_>> = all.map(|(number, (forest, tree))| (number, forest, tree)).collect();
    let chosen: Vec<Chosen<'_>> = match options.tree {
        None => all.clone(),
        Some(number) => {
            let tree = all.get(number).ok_or_else(|| {
                let error = Problem::new(E_RANGE, "tree", "the plan has no such tree").found(number.to_string());
                error.allowed(format!("0 to {}", all.len().saturating_sub(1)))
            })?;
            vec![*tree]
        }
    };
    if common_denominator(all.iter().map(|(_, _, tree)| &tree.weight)).is_none() {
        let error = Problem::new(E_RANGE, "/content/forests", "the weights have no common denominator");
        return Err(error.allowed("one of at most 4096 bits").into());
    }
    let by_tree = options.colour.unwrap_or(if chosen.len() <= TREES.len() { Colour::Tree } else { Colour::Load });
    let mut painter = Painter { plan, topology, limits: Limits::new(topology), used: BTreeMap::new() };
    let sums: Vec<Rational> =
        trees.forests.iter().map(|forest| forest.trees.iter().map(|tree| &tree.weight).sum()).collect();
    for (number, forest, tree) in &chosen {
        let share = tree.weight.checked_div(&sums[*forest]).unwrap_or(Rational::ZERO);
        painter.tree(tree, if by_tree == Colour::Tree { *number } else { 0 }, &share)?;
    }
    let times = painter.times();
    let (list, legend) = match by_tree {
        Colour::Tree => painter.by_tree(&chosen),
        Colour::Load => painter.by_load(&times),
    };
    Ok(Strokes { list, legend, bars: if options.tree.is_none() { times.bars } else { Vec::new() } })
}

/// Lines, and what their colours mean.
type Drawn = (Vec<Stroke>, Vec<(&'static str, String)>);

struct Painter<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    limits: Limits<'a>,
    /// Per link and tree the share of all data.
    used: BTreeMap<(usize, usize, usize), Rational>,
}

impl Painter<'_> {
    fn tree(&mut self, tree: &Tree, key: usize, share: &Rational) -> Result<(), Problems> {
        match &tree.hops {
            Some(hops) => hops.iter().try_for_each(|hop| self.hop(hop.0, hop.1, key, share)),
            None => tree.edges.iter().try_for_each(|edge| {
                let nodes: Vec<NodeId> = edge.path().collect();
                nodes.windows(2).try_for_each(|hop| self.hop(hop[0], hop[1], key, share))
            }),
        }
    }
    fn hop(&mut self, from: NodeId, to: NodeId, key: usize, share: &Rational) -> Result<(), Problems> {
        let node = |node: NodeId| {
            let id = self.plan.id(node);
            let unknown = || Problem::new(UNKNOWN_NODE, "/content/forests", "a node the topology does not have");
            self.topology.node(id).ok_or_else(|| Problems::from(unknown().found(id)))
        };
        let ends = (node(from)?, node(to)?);
        if !self.limits.has(ends) {
            let error = Problem::new(UNKNOWN_EDGE, "/content/forests", "a hop where the topology has no link");
            return Err(error.found(format!("{} → {}", self.plan.id(from), self.plan.id(to))).into());
        }
        *self.used.entry((ends.0, ends.1, key)).or_insert(Rational::ZERO) += share;
        Ok(())
    }

    /// How long everything that limits the plan takes.
    fn times(&self) -> Times {
        let mut loads: BTreeMap<(usize, usize), Rational> = BTreeMap::new();
        for ((from, to, _), share) in &self.used {
            *loads.entry((*from, *to)).or_insert(Rational::ZERO) += share;
        }
        self.limits.times(&loads)
    }

    fn by_tree(&self, chosen: &[Chosen<'_>]) -> Drawn {
        let colour = |number: usize| TREES[number % TREES.len()];
        let mut list: Vec<Stroke> = Vec::with_capacity(self.used.len());
        for ((from, to, tree), share) in &self.used {
            let beside = list.last().filter(|last| (last.from, last.to) == (*from, *to));
            let lane = beside.map_or(0, |last| last.lane + 1);
            let words = format!("tree {tree}: {share} of the data");
            list.push(Stroke { from: *from, to: *to, lane, colour: colour(*tree), width: 1.6, words });
        }
        let legend = chosen.iter().take(TREES.len()).map(|(number, _, tree)| {
            (colour(*number), format!("tree {number}: root {}, weight {}", self.plan.id(tree.root), tree.weight))
        });
        (list, legend.collect())
    }

    fn by_load(&self, times: &Times) -> Drawn {
        let strokes = self.used.iter().map(|((from, to, _), share)| {
            let tightest = times.tightest.get(&(*from, *to)).and_then(Option::as_ref);
            let busy = tightest.map(|time| limits::busy(time, &times.most));
            let class = busy.map(load_class);
            let colour = class.map_or(UNLIMITED, |class| LOADS[class]);
            let width = class.map_or(1.0, |class| 1.0 + 0.5 * class as f64);
            let percent = busy.map_or(String::new(), |busy| format!(", {:.0} % as busy as the busiest", busy * 100.0));
            Stroke { from: *from, to: *to, lane: 0, colour, width, words: format!("{share} of the data{percent}") }
        });
        let list = strokes.collect();
        let step = 100 / LOADS.len();
        let what = if self.topology.groups().is_empty() { "link" } else { "link or group" };
        let legend = LOADS.iter().enumerate().map(|(class, colour)| {
            (*colour, format!("{} to {} % as busy as the busiest {what}", class * step, (class + 1) * step))
        });
        (list, legend.collect())
    }
}
