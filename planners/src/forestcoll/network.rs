//! The directed graph under all flows: whole-number capacities, at most one arc per ordered pair, arcs come and go.
//!
//! A flow is a slice with one number per arc of the network; [`super::flow`] moves flows about.

use std::collections::HashMap;

/// A directed link with a capacity in whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arc {
    pub from: u32,
    pub to: u32,
    pub capacity: i64,
}

/// One direction of residual movement out of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    /// The node at the other end.
    pub to: u32,
    /// Twice the arc's index, plus one if it is walked against its direction.
    pub code: u32,
}

/// A graph whose arcs have capacities.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// Per arc; 0 for one that is used up.
    pub capacity: Vec<i64>,
    /// Per arc: from, to.
    pub ends: Vec<(u32, u32)>,
    /// Per node: arcs out and, backwards, arcs in.
    pub adjacent: Vec<Vec<Half>>,
    index: HashMap<(u32, u32), u32>,
}

impl Network {
    /// `nodes` nodes and these arcs; capacities of equal pairs are added up.
    pub fn new(nodes: usize, arcs: impl IntoIterator<Item = Arc>) -> Self {
        let mut network = Self { adjacent: vec![Vec::new(); nodes], ..Self::default() };
        for Arc { from, to, capacity } in arcs {
            let arc = network.arc(from, to);
            network.capacity[arc as usize] += capacity;
        }
        network
    }

    pub fn nodes(&self) -> usize {
        self.adjacent.len()
    }

    /// How many arcs, dead ones included.
    pub fn arcs(&self) -> usize {
        self.capacity.len()
    }

    /// The arc of a pair, if there is one.
    pub fn find(&self, from: u32, to: u32) -> Option<u32> {
        self.index.get(&(from, to)).copied()
    }

    /// The arc of a pair, made with no capacity if there is none.
    pub fn arc(&mut self, from: u32, to: u32) -> u32 {
        let new = self.capacity.len() as u32;
        let arc = *self.index.entry((from, to)).or_insert(new);
        if arc == new {
            self.capacity.push(0);
            self.ends.push((from, to));
            self.adjacent[from as usize].push(Half { to, code: 2 * new });
            self.adjacent[to as usize].push(Half { to: from, code: 2 * new + 1 });
        }
        arc
    }

    /// Takes back the arc that was made last.
    pub fn pop(&mut self) {
        if let Some((from, to)) = self.ends.pop() {
            self.capacity.pop();
            self.adjacent[from as usize].pop();
            self.adjacent[to as usize].pop();
            self.index.remove(&(from, to));
        }
    }

    /// Forgets the arcs of a node whose capacities are all used up; their indices stay taken.
    pub fn isolate(&mut self, node: u32) {
        for half in std::mem::take(&mut self.adjacent[node as usize]) {
            self.adjacent[half.to as usize].retain(|back| back.to != node);
        }
    }

    /// What more can move along a half.
    pub fn residual(&self, flow: &[i64], code: u32) -> i64 {
        let arc = (code >> 1) as usize;
        if code & 1 == 0 { self.capacity[arc] - flow[arc] } else { flow[arc] }
    }

    /// The node where a half starts.
    pub fn tail(&self, code: u32) -> u32 {
        let (from, to) = self.ends[(code >> 1) as usize];
        if code & 1 == 0 { from } else { to }
    }
}
