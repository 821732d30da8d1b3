//! Brings chunks one after the other to where they are wanted, each as early as what is under way already lets it.
//!
//! Between nodes that store, a chunk takes a hop: one lane, or several with switches between, which pass it on in the very
//! epoch. Earliest arrival is Dijkstra's algorithm over hops, whose length depends on when they can begin.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::demand::Demand;
use super::lane::Lanes;
use super::schedule::Send;

/// Epochs that a schedule may have.
pub const MAX_EPOCHS: u64 = 1 << 20;
/// Hops between nodes that store at most.
pub const MAX_HOPS: usize = 1 << 20;
/// Lanes that looking for them may follow: of many switches in a mesh most ways lead nowhere.
const MAX_STEPS: usize = 1 << 23;
/// Switches of a hop.
const MAX_SWITCHES: usize = 6;

/// A way between two nodes that store.
#[derive(Clone, Debug)]
struct Hop {
    from: usize,
    to: usize,
    /// Its lanes, and how many epochs after the first one each starts.
    lanes: Vec<(usize, u64)>,
    /// Epochs from the start until the chunk can be sent on.
    after: u64,
}

/// All hops of a fabric.
#[derive(Clone, Debug)]
pub struct Hops {
    hops: Vec<Hop>,
    /// By node, the hops that leave it.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    /// Lanes that were followed.
    steps: usize,
}

impl Hops {
    /// Those of these lanes; `None` where they are too many.
    pub fn new(lanes: &Lanes) -> Option<Hops> {
        let nodes = lanes.nodes.len();
        let (out, into) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        let mut made = Hops { hops: Vec::new(), out, into, steps: 0 };
        for from in (0..nodes).filter(|node| !lanes.nodes[*node].is_switch) {
            made.grow(lanes, from, from, 0, &mut Vec::new())?;
        }
        Some(made)
    }

    fn grow(&mut self, lanes: &Lanes, from: usize, at: usize, after: u64, way: &mut Vec<(usize, u64)>) -> Option<()> {
        for &lane in &lanes.out[at] {
            let of = &lanes.lanes[lane];
            self.steps += 1;
            (self.steps <= MAX_STEPS).then_some(())?;
            let seen = way.iter().any(|(passed, _)| lanes.lanes[*passed].from == of.to);
            if of.to == from || seen {
                continue;
            }
            way.push((lane, after));
            if lanes.nodes[of.to].is_switch {
                if way.len() <= MAX_SWITCHES {
                    self.grow(lanes, from, of.to, after + of.after, way)?;
                }
            } else {
                let hop = Hop { from, to: of.to, lanes: way.clone(), after: after + of.after };
                self.out[from].push(self.hops.len());
                self.into[of.to].push(self.hops.len());
                self.hops.push(hop);
                (self.hops.len() <= MAX_HOPS).then_some(())?;
            }
            way.pop();
        }
        Some(())
    }
}

/// Where a chunk is to get.
#[derive(Clone, Copy)]
pub enum Goal<'a> {
    /// To all of these nodes.
    All(&'a [usize]),
    /// To any node of this group, by node.
    Group(&'a [usize], usize),
}

/// What is under way, and who holds what from when.
#[derive(Clone)]
pub struct Router<'a> {
    lanes: &'a Lanes,
    hops: &'a Hops,
    demand: &'a Demand,
    /// By room and epoch the chunks in it.
    filled: Vec<Vec<u32>>,
    /// By room the first epoch that is not full.
    full_until: Vec<u64>,
    /// By chunk and node the epoch from which it can be sent on; `u64::MAX`: not there.
    held: Vec<Vec<u64>>,
    /// Which of equally early arrivals goes first: by node.
    ties: Vec<u32>,
    /// All sends so far.
    pub sends: Vec<Send>,
    /// Hops that were looked at, and epochs in which they could not start: what the work came to.
    pub steps: u64,
    /// By lane into a switch and chunk: the epochs in which it starts there, which is once in each at most.
    started: HashMap<(usize, usize), Vec<u64>>,
}

/// The best known way of a chunk to a node.
#[derive(Clone, Copy)]
struct Way {
    arrival: u64,
    hop: usize,
    start: u64,
}

impl<'a> Router<'a> {
    /// Nothing is under way, and sources hold their chunks.
    pub fn new(lanes: &'a Lanes, hops: &'a Hops, demand: &'a Demand, ties: Vec<u32>) -> Router<'a> {
        let held = |chunk: &super::demand::Chunk| {
            let mut held = vec![u64::MAX; lanes.nodes.len()];
            held[chunk.source] = 0;
            held
        };
        Router {
            lanes,
            hops,
            demand,
            filled: vec![Vec::new(); lanes.rooms.len()],
            full_until: vec![0; lanes.rooms.len()],
            steps: 0,
            held: demand.chunks.iter().map(held).collect(),
            ties,
            sends: Vec::new(),
            started: HashMap::new(),
        }
    }

    /// The epoch from which a node can send a chunk on; `u64::MAX`: never.
    pub fn held(&self, chunk: usize, node: usize) -> u64 {
        self.held[chunk][node]
    }

    /// The last epoch in which somebody gets a chunk it wants; `None` where somebody never does.
    pub fn finish(&self) -> Option<u64> {
        let of =
            |(chunk, held): (&super::demand::Chunk, &Vec<u64>)| chunk.wanted_by.iter().map(|node| held[*node]).max();
        let last = self.demand.chunks.iter().zip(&self.held).filter_map(of).max().unwrap_or(0);
        (last < u64::MAX).then_some(last)
    }

    /// Brings a chunk there; false where that takes too many epochs or no way leads.
    pub fn bring(&mut self, chunk: usize, goal: Goal<'_>) -> bool {
        let nodes = self.lanes.nodes.len();
        let mut open = match goal {
            Goal::All(list) => list.iter().filter(|node| self.held[chunk][**node] == u64::MAX).count(),
            Goal::Group(groups, group) => {
                usize::from((0..nodes).all(|node| groups[node] != group || self.held[chunk][node] == u64::MAX))
            }
        };
        let mut wanted = vec![false; nodes];
        match goal {
            Goal::All(list) => list.iter().for_each(|node| wanted[*node] = true),
            Goal::Group(groups, group) => (0..nodes).for_each(|node| wanted[node] = groups[node] == group),
        }
        'again: while open > 0 {
            let mut ways: Vec<Option<Way>> = vec![None; nodes];
            let mut settled = vec![false; nodes];
            let mut heap = BinaryHeap::new();
            for (node, held) in self.held[chunk].iter().enumerate().filter(|(_, held)| **held < u64::MAX) {
                heap.push(Reverse((*held, self.ties[node], node)));
            }
            while let Some(Reverse((at, _, node))) = heap.pop() {
                let known = ways[node].map_or(self.held[chunk][node], |way| way.arrival);
                if settled[node] || at != known {
                    continue;
                }
                settled[node] = true;
                if wanted[node] && self.held[chunk][node] == u64::MAX {
                    match self.take(chunk, node, &ways) {
                        Taken::All => {
                            open -= 1;
                            if open == 0 {
                                return true;
                            }
                        }
                        Taken::LastIsFull => {
                            // Another send of this chunk took its place meanwhile: look for the next best way.
                            settled[node] = false;
                            ways[node] = None;
                            for &hop in &self.hops.into[node] {
                                let from = self.hops.hops[hop].from;
                                if settled[from] {
                                    let at = ways[from].map_or(self.held[chunk][from], |way| way.arrival);
                                    self.relax(chunk, hop, at, &mut ways, &mut heap);
                                }
                            }
                            continue;
                        }
                        Taken::EarlierIsFull => continue 'again,
                    }
                }
                for &hop in &self.hops.out[node] {
                    let to = self.hops.hops[hop].to;
                    if !settled[to] && self.held[chunk][to] == u64::MAX {
                        self.relax(chunk, hop, at, &mut ways, &mut heap);
                    }
                }
            }
            return false;
        }
        true
    }

    fn relax(
        &mut self,
        chunk: usize,
        hop: usize,
        at: u64,
        ways: &mut [Option<Way>],
        heap: &mut BinaryHeap<Reverse<(u64, u32, usize)>>,
    ) {
        let of = &self.hops.hops[hop];
        let best = ways[of.to].map_or(u64::MAX, |way| way.arrival);
        if at + of.after >= best {
            return;
        }
        let (slot, tried) = self.slot(chunk, of, at, best.saturating_sub(of.after));
        self.steps += tried;
        let Some(start) = slot else { return };
        let arrival = start + of.after;
        if arrival < best {
            ways[of.to] = Some(Way { arrival, hop, start });
            heap.push(Reverse((arrival, self.ties[of.to], of.to)));
        }
    }

    /// Takes the way to a node that does not hold the chunk yet, and keeps it there and on the way.
    fn take(&mut self, chunk: usize, node: usize, ways: &[Option<Way>]) -> Taken {
        let (mut path, mut at) = (Vec::new(), node);
        while self.held[chunk][at] == u64::MAX {
            let Some(way) = ways[at] else { return Taken::EarlierIsFull };
            path.push(way);
            at = self.hops.hops[way.hop].from;
        }
        for (i, way) in path.iter().enumerate().rev() {
            let hop = &self.hops.hops[way.hop];
            if self.slot(chunk, hop, way.start, way.start + 1).0.is_none() {
                return if i == 0 && path.len() == 1 { Taken::LastIsFull } else { Taken::EarlierIsFull };
            }
            self.occupy(chunk, way.hop, way.start);
            self.held[chunk][hop.to] = way.arrival;
        }
        Taken::All
    }

    fn occupy(&mut self, chunk: usize, hop: usize, start: u64) {
        for &(lane, offset) in &self.hops.hops[hop].lanes {
            let (of, epoch) = (&self.lanes.lanes[lane], start + offset);
            if self.is_shared(chunk, lane, epoch) {
                continue;
            }
            for room in &of.rooms {
                let filled = &mut self.filled[*room];
                let end = (epoch + of.kappa) as usize;
                if filled.len() < end {
                    filled.resize(end, 0);
                }
                filled[epoch as usize..end].iter_mut().for_each(|chunks| *chunks += 1);
                let (full, limits) = (&mut self.full_until[*room], &self.lanes.rooms[*room]);
                while filled.get(*full as usize).is_some_and(|chunks| u64::from(*chunks) >= limits.limit(*full)) {
                    *full += 1;
                }
            }
            self.sends.push(Send { epoch, chunk, lane });
            if self.lanes.nodes[of.to].is_switch {
                self.started.entry((lane, chunk)).or_default().push(epoch);
            }
        }
    }

    /// Does this chunk start on this lane in this epoch already?
    fn has_started(&self, chunk: usize, lane: usize, epoch: u64) -> bool {
        self.started.get(&(lane, chunk)).is_some_and(|epochs| epochs.contains(&epoch))
    }
    /// And is it towards a switch that copies it?
    fn is_shared(&self, chunk: usize, lane: usize, epoch: u64) -> bool {
        self.lanes.nodes[self.lanes.lanes[lane].to].copies && self.has_started(chunk, lane, epoch)
    }

    /// The first epoch from `at` on, and before `end`, in which a chunk can start on a hop; and how many were looked at.
    fn slot(&self, chunk: usize, hop: &Hop, at: u64, end: u64) -> (Option<u64>, u64) {
        let end = end.min(MAX_EPOCHS);
        let (mut start, mut tried) = (at, 1);
        'next: while start < end {
            tried += 1;
            for &(lane, offset) in &hop.lanes {
                let epoch = start + offset;
                let copies = self.lanes.nodes[self.lanes.lanes[lane].to].copies;
                let free = match self.has_started(chunk, lane, epoch) {
                    true if copies => continue,
                    true => Some(epoch + 1),
                    false => match self.free_from(lane, epoch) {
                        Some(free) => free,
                        None => return (None, tried),
                    },
                };
                if let Some(free) = free {
                    let started = self.started.get(&(lane, chunk)).into_iter().flatten().filter(|_| copies);
                    let shared = started.filter(|started| **started > epoch).min();
                    start = shared.map_or(free, |shared| free.min(*shared)) - offset;
                    continue 'next;
                }
            }
            return (Some(start), tried);
        }
        (None, tried)
    }

    /// Can a chunk start on a lane in this epoch? `Some(None)`: yes; `Some(Some(e))`: not before epoch e; `None`: never.
    fn free_from(&self, lane: usize, epoch: u64) -> Option<Option<u64>> {
        let of = &self.lanes.lanes[lane];
        for room in &of.rooms {
            if epoch < self.full_until[*room] {
                return Some(Some(self.full_until[*room]));
            }
            let (limits, filled) = (&self.lanes.rooms[*room], &self.filled[*room]);
            for at in (epoch..epoch + of.kappa).rev() {
                let limit = limits.limit(at);
                let chunks = filled.get(at as usize).copied().unwrap_or(0);
                if u64::from(chunks) >= limit {
                    let over = at >= limits.limits.len() as u64 && at >= filled.len() as u64;
                    return (!over).then_some(Some(at + 1));
                }
            }
        }
        Some(None)
    }
}

/// What came of taking a way.
enum Taken {
    /// The chunk gets there.
    All,
    /// The last hop, which is the only one, can no longer begin then.
    LastIsFull,
    /// A hop before it cannot.
    EarlierIsFull,
}
