//! What switches that copy or add up really forward: does the data reach everybody exactly once?
//!
//! Written for an out-tree: a token starts at the root, a node that can copy sends one over each of its hops as soon as
//! it has got one, any other node sends on only what it got. Everybody must get one, nothing may be sent that never
//! came, and nothing may be left over. For an in-tree every hop is reversed; then "nothing left over" says that no
//! switch sends the same sum twice. An order in which all hops can happen is found by trying, so nothing is accepted
//! that could not be carried out.

use std::collections::VecDeque;

use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Direction, Hop, Plan};

/// What a tree must reach.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    pub root: usize,
    /// Who must get its data; the root may stand among them.
    pub ends: &'a [usize],
}

/// Scratch space for one tree after the other.
pub struct Hops {
    stamp: u32,
    state: Vec<Node>,
}

#[derive(Clone, Default)]
struct Node {
    stamp: u32,
    /// Is it the root or an end?
    kept: bool,
    /// Hops out of it that have not happened, in file order.
    waiting: VecDeque<(usize, usize)>,
    /// Hops into it and out of it.
    into: u32,
    out: u32,
    came: u32,
}

impl Hops {
    /// For a topology with `n` nodes.
    pub fn new(n: usize) -> Hops {
        Hops { stamp: 0, state: vec![Node::default(); n] }
    }

    /// Checks the hops of a tree.
    pub fn check(
        &mut self,
        plan: &Plan,
        fabric: &Fabric<'_>,
        direction: Direction,
        span: Span<'_>,
        hops: &[Hop],
        at: &dyn Fn() -> String,
    ) -> Result<(), Violation> {
        self.stamp += 1;
        let root = span.root;
        std::iter::once(&root).chain(span.ends).for_each(|node| self.node(*node).kept = true);
        let mut nodes = Vec::with_capacity(hops.len() + 1);
        for (h, hop) in hops.iter().enumerate() {
            let place = || format!("{}/hops/{h}", at());
            let (from, to) = (fabric.node(plan, hop.0, place)?, fabric.node(plan, hop.1, place)?);
            if fabric.cable(from, to).is_none() {
                let message = format!("no link leads from {} to {}", fabric.id(from), fabric.id(to));
                return Err(Violation::new(Code::NoLink, place(), message));
            }
            let (from, to) = if direction == Direction::Out { (from, to) } else { (to, from) };
            let source = self.node(from);
            source.waiting.push_back((h, to));
            source.out += 1;
            self.node(to).into += 1;
            nodes.extend([from, to]);
        }
        self.balances(fabric, direction, span, &nodes, at)?;
        self.run(fabric, direction, root);
        let left = hops.iter().enumerate().zip(nodes.chunks(2));
        for ((h, _), pair) in left {
            if self.node(pair[0]).waiting.front().is_some_and(|(first, _)| *first <= h) {
                let message = format!("{} never gets what this hop carries", fabric.id(pair[0]));
                return Err(Violation::new(Code::HopWithoutData, format!("{}/hops/{h}", at()), message));
            }
        }
        Ok(())
    }

    fn node(&mut self, node: usize) -> &mut Node {
        let state = &mut self.state[node];
        if state.stamp != self.stamp {
            state.waiting.clear();
            *state = Node { stamp: self.stamp, waiting: std::mem::take(&mut state.waiting), ..Node::default() };
        }
        state
    }

    /// As many come as go, or, where a node can copy, one comes; everybody gets one.
    fn balances(
        &mut self,
        fabric: &Fabric<'_>,
        direction: Direction,
        Span { root, ends }: Span<'_>,
        nodes: &[usize],
        at: &dyn Fn() -> String,
    ) -> Result<(), Violation> {
        let place = || format!("{}/hops", at());
        for node in std::iter::once(&root).chain(ends) {
            let (into, id) = (self.node(*node).into, fabric.id(*node));
            let wanted = u32::from(*node != root);
            if into < wanted {
                let message = format!("the hops leave out {id}");
                return Err(Violation::new(Code::HopMissesNode, place(), message));
            }
            if into > wanted {
                let message = format!("the hops of one tree join {id} {into} times");
                return Err(Violation::new(Code::HopTwice, place(), message));
            }
        }
        for node in nodes {
            let can = Hops::copies(fabric, direction, *node);
            let state = self.node(*node);
            let (into, out) = (state.into, state.out);
            let good = match (state.kept, can) {
                // The root gives its own away once without copying.
                (true, false) => out <= u32::from(*node == root),
                (true, true) => true,
                (false, false) => into == out,
                // It copies what came once, or just forwards; getting twice what it copies would be waste or worse.
                (false, true) => into == out || into == 1 && out >= 1,
            };
            if !good {
                let (came, went) = if direction == Direction::Out { (into, out) } else { (out, into) };
                let message = format!("{} gets {came} and sends {went}, which it cannot do", fabric.id(*node));
                return Err(Violation::new(Code::HopUnbalanced, place(), message));
            }
        }
        Ok(())
    }

    fn copies(fabric: &Fabric<'_>, direction: Direction, node: usize) -> bool {
        let can = fabric.topology.nodes()[node].can;
        if direction == Direction::Out { can.copy } else { can.reduce }
    }

    /// Lets everything happen that can.
    fn run(&mut self, fabric: &Fabric<'_>, direction: Direction, root: usize) {
        let mut arrivals = VecDeque::from([root]);
        while let Some(node) = arrivals.pop_front() {
            // A switch that can copy but has as many hops in as out may just be forwarding; copying does no less.
            let all = Hops::copies(fabric, direction, node);
            let state = self.node(node);
            state.came += 1;
            let now = if all { state.waiting.len() } else { state.waiting.len().min(1) };
            arrivals.extend(state.waiting.drain(..now).map(|(_, to)| to));
        }
    }
}
