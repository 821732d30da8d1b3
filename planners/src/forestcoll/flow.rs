//! Moving excess to a sink through residual arcs: the one flow algorithm under all stages.
//!
//! A source with arcs to many nodes is never modelled: what it would send starts as excess at those nodes. Pushing
//! it to a sink is Dinic's algorithm with distances measured from the sink. What cannot be pushed stays where it
//! began, and the nodes reachable from there are the source side of a minimum cut. Flows are kept between calls, so
//! that after a small change of capacities only what no longer fits has to find another way.

use super::network::Network;

const FAR: u32 = u32::MAX;

/// Working memory of one thread, made once and used for every flow.
#[derive(Clone, Debug)]
pub(super) struct Arena {
    distance: Vec<u32>,
    next: Vec<u32>,
    queue: Vec<u32>,
    trail: Vec<u32>,
    /// Nodes with excess, each once.
    active: Vec<u32>,
    excess: Vec<i64>,
    reached: Vec<bool>,
}

impl Arena {
    /// For networks of this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            distance: vec![FAR; nodes],
            next: vec![0; nodes],
            queue: Vec::with_capacity(nodes),
            trail: Vec::new(),
            active: Vec::new(),
            excess: vec![0; nodes],
            reached: vec![false; nodes],
        }
    }

    /// Adds to a node's excess.
    pub fn give(&mut self, node: u32, amount: i64) {
        if amount > 0 {
            let excess = &mut self.excess[node as usize];
            if *excess == 0 {
                self.active.push(node);
            }
            *excess += amount;
        }
    }

    /// Forgets all excess and says how much there was.
    pub fn clear(&mut self) -> i64 {
        self.active.drain(..).map(|node| std::mem::take(&mut self.excess[node as usize])).sum()
    }

    /// Takes a node's excess away and says how much it was.
    pub fn take(&mut self, node: u32) -> i64 {
        let taken = std::mem::take(&mut self.excess[node as usize]);
        if taken > 0 {
            self.active.retain(|&other| other != node);
        }
        taken
    }

    /// Pushes excess to `sink`, at most `limit` of it, as much as there is a way for; says how much.
    pub fn push(&mut self, network: &Network, flow: &mut [i64], sink: u32, limit: i64) -> i64 {
        let mut left = limit;
        let own = self.excess[sink as usize].min(left);
        self.excess[sink as usize] -= own;
        left -= own;
        loop {
            let excess = &self.excess;
            self.active.retain(|&node| excess[node as usize] > 0);
            if left == 0 || self.active.is_empty() || !self.label(network, flow, sink) {
                return limit - left;
            }
            left = self.block(network, flow, sink, left);
        }
    }

    /// Distances to the sink, until all nodes with excess have one. Says whether any has.
    fn label(&mut self, network: &Network, flow: &[i64], sink: u32) -> bool {
        for &node in &self.queue {
            self.distance[node as usize] = FAR;
        }
        self.queue.clear();
        self.queue.push(sink);
        self.distance[sink as usize] = 0;
        self.next[sink as usize] = 0;
        let mut missing = self.active.len();
        let mut head = 0;
        while let Some(&node) = self.queue.get(head) {
            head += 1;
            let distance = self.distance[node as usize] + 1;
            for half in &network.adjacent[node as usize] {
                let to = half.to as usize;
                if self.distance[to] == FAR && network.residual(flow, half.code ^ 1) > 0 {
                    self.distance[to] = distance;
                    self.next[to] = 0;
                    self.queue.push(half.to);
                    if self.excess[to] > 0 {
                        missing -= 1;
                        if missing == 0 {
                            return true;
                        }
                    }
                }
            }
        }
        missing < self.active.len()
    }

    /// Pushes along shortest ways until each is blocked; says what is left of the limit.
    fn block(&mut self, network: &Network, flow: &mut [i64], sink: u32, mut left: i64) -> i64 {
        for at in 0..self.active.len() {
            let start = self.active[at];
            if self.distance[start as usize] == FAR {
                continue;
            }
            self.trail.clear();
            let mut node = start;
            while left > 0 && self.excess[start as usize] > 0 {
                if node == sink {
                    let room = self.trail.iter().map(|&code| network.residual(flow, code)).min();
                    let amount = room.unwrap_or(0).min(left).min(self.excess[start as usize]);
                    let mut blocked = 0;
                    for (place, &code) in self.trail.iter().enumerate().rev() {
                        flow[(code >> 1) as usize] += if code & 1 == 0 { amount } else { -amount };
                        if network.residual(flow, code) == 0 {
                            blocked = place;
                        }
                    }
                    self.excess[start as usize] -= amount;
                    left -= amount;
                    node = network.tail(self.trail[blocked]);
                    self.trail.truncate(blocked);
                } else if let Some(half) = self.step(network, flow, node) {
                    self.trail.push(half.code);
                    node = half.to;
                } else if let Some(code) = self.trail.pop() {
                    node = network.tail(code);
                    self.next[node as usize] += 1;
                } else {
                    break;
                }
            }
        }
        left
    }

    /// The next half from a node one step nearer to the sink.
    fn step(&mut self, network: &Network, flow: &[i64], node: u32) -> Option<super::network::Half> {
        let nearer = self.distance[node as usize] - 1;
        let next = &mut self.next[node as usize];
        while let Some(&half) = network.adjacent[node as usize].get(*next as usize) {
            if self.distance[half.to as usize] == nearer && network.residual(flow, half.code) > 0 {
                return Some(half);
            }
            *next += 1;
        }
        None
    }

    /// The nodes that excess can still get to: after a push, the source side of a minimum cut.
    pub fn reach(&mut self, network: &Network, flow: &[i64]) -> &[bool] {
        self.reached.fill(false);
        let mut queue = self.active.clone();
        for &node in &queue {
            self.reached[node as usize] = true;
        }
        while let Some(node) = queue.pop() {
            for half in &network.adjacent[node as usize] {
                if !self.reached[half.to as usize] && network.residual(flow, half.code) > 0 {
                    self.reached[half.to as usize] = true;
                    queue.push(half.to);
                }
            }
        }
        &self.reached
    }

    /// Mends a flow to `sink` that brings `lack` too little to `node`: excess elsewhere that finds a way there fills
    /// the gap, and what the node sent on without having it is taken back from the sink.
    pub fn fill(&mut self, network: &Network, flow: &mut [i64], sink: u32, node: u32, lack: i64) {
        if node == sink || lack == 0 {
            return;
        }
        let before = self.take(sink);
        self.give(sink, lack);
        let pushed = self.push(network, flow, node, lack);
        debug_assert_eq!(pushed, lack, "a node sent on what nobody received");
        self.take(sink);
        self.give(sink, before);
    }
}
