//! Epochs that no schedule beats: how far chunks must go, what a node can take in, what must pass one after the other
//! through the only way there is, and what leads out of a set of nodes. They need no solver, and a checker can recompute
//! them.

use std::collections::{BTreeMap, HashMap};

use super::demand::Demand;
use super::groups::groupings;
use super::lane::{Lane, Lanes};
use sluice_formats::quantity::Rational;
use sluice_plan::plan::CertificateKind;

/// Epochs beyond which a bound says nothing any more.
const MAX_EPOCHS: u64 = 1 << 40;

/// Nodes of a fabric without switches up to which all sets are looked at as cuts.
const MAX_NODES: usize = 12;

/// A lower bound, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No schedule has fewer epochs.
    pub epochs: u64,
    /// What shows it, and a checker can recompute.
    pub kind: CertificateKind,
    /// The nodes of a cut, ascending; none of the other kinds.
    pub nodes: Vec<usize>,
}

impl Bound {
    fn of(epochs: u64, kind: CertificateKind) -> Bound {
        Bound { epochs, kind, nodes: Vec::new() }
    }
    /// The larger of both, of equal ones the first.
    fn or(self, other: Bound) -> Bound {
        if other.epochs > self.epochs { other } else { self }
    }
}

/// The best of the bounds for whole chunks; of equal ones the simplest. Every destination must be reachable.
pub(super) fn best(lanes: &Lanes, demand: &Demand) -> Bound {
    Bound::of(distance(lanes, demand), CertificateKind::Distance)
        .or(Bound::of(port(lanes, demand), CertificateKind::Port))
        .or(Bound::of(gateway(lanes, demand), CertificateKind::Gateway))
        .or(cut(lanes, demand, |lane, epochs| {
            let room = lane.rooms.first().map_or(0, |room| begun_until(lanes, *room, lane.kappa, epochs));
            Rational::from(room)
        }))
}

/// The best bound for chunks that may be cut.
pub(super) fn best_of_divisible(lanes: &Lanes, demand: &Demand) -> Bound {
    let port = wanted(demand).into_iter().map(|(node, chunks)| {
        let chunks = Rational::from(chunks);
        until(|epochs| {
            let mut sum = Rational::ZERO;
            for lane in lanes.into[node].iter().map(|lane| &lanes.lanes[*lane]) {
                sum += &lane.rate_until((epochs + 1).saturating_sub(lane.after));
            }
            sum >= chunks
        })
    });
    Bound::of(distance(lanes, demand), CertificateKind::Distance)
        .or(Bound::of(port.max().unwrap_or(0), CertificateKind::Port))
        .or(cut(lanes, demand, Lane::rate_until))
}

/// The best bound for sums that everybody gets: lanes, who takes part, and chunks in all. Something of everybody must get
/// to everybody, and everybody takes in something of every chunk.
pub(super) fn best_of_all_reduce(lanes: &Lanes, nodes: &[usize], chunks: u64) -> Bound {
    let farthest = |from: &usize| {
        let distances = lanes.distances(*from);
        nodes.iter().map(|to| distances[*to]).max()
    };
    let far = nodes.iter().filter_map(farthest).max().unwrap_or(0);
    let port = nodes.iter().map(|node| takes_in(lanes, *node, chunks)).max().unwrap_or(0);
    Bound::of(far, CertificateKind::Distance).or(Bound::of(port, CertificateKind::Port))
}

/// The epochs that the farthest chunk is under way.
fn distance(lanes: &Lanes, demand: &Demand) -> u64 {
    let mut from: HashMap<usize, Vec<u64>> = HashMap::new();
    let way = |chunk: &super::demand::Chunk| {
        let distances = from.entry(chunk.source).or_insert_with(|| lanes.distances(chunk.source));
        chunk.wanted_by.iter().map(|node| distances[*node]).max()
    };
    demand.chunks.iter().filter_map(way).max().unwrap_or(0)
}

/// The epochs until every node can have taken in as many chunks as it wants.
fn port(lanes: &Lanes, demand: &Demand) -> u64 {
    wanted(demand).into_iter().map(|(node, chunks)| takes_in(lanes, node, chunks)).max().unwrap_or(0)
}

/// By node how many chunks it wants.
fn wanted(demand: &Demand) -> BTreeMap<usize, u64> {
    let mut wanted: BTreeMap<usize, u64> = BTreeMap::new();
    for node in demand.chunks.iter().flat_map(|chunk| &chunk.wanted_by) {
        *wanted.entry(*node).or_default() += 1;
    }
    wanted
}

/// The epochs until a node can have taken in so many chunks.
fn takes_in(lanes: &Lanes, node: usize, chunks: u64) -> u64 {
    // Lanes that share a room can at most fill it together: each room counts once.
    let mut rooms: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for lane in lanes.into[node].iter().map(|lane| &lanes.lanes[*lane]) {
        let Some(room) = lane.rooms.last() else { continue };
        let entry = rooms.entry(*room).or_insert((u64::MAX, u64::MAX));
        *entry = (entry.0.min(lane.kappa), entry.1.min(lane.after));
    }
    until(|epochs| {
        let room = |(room, (kappa, after)): (&usize, &(u64, u64))| {
            // What is usable after u epochs may begin in epoch 0 to `epochs` − u.
            begun_until(lanes, *room, *kappa, (epochs + 1).saturating_sub(*after))
        };
        rooms.iter().map(room).fold(0_u64, u64::saturating_add) >= chunks
    })
}

/// The first number of epochs that is enough, 1 or more; [`MAX_EPOCHS`] or more where none is.
fn until(enough: impl Fn(u64) -> bool) -> u64 {
    let (mut no, mut yes) = (0, 1);
    while !enough(yes) && yes < MAX_EPOCHS {
        (no, yes) = (yes, yes * 2);
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if enough(middle) { yes = middle } else { no = middle }
    }
    yes
}

/// Chunks that may begin in the first `epochs` epochs of a room.
fn begun_until(lanes: &Lanes, room: usize, kappa: u64, epochs: u64) -> u64 {
    let limits = &lanes.rooms[room].limits;
    let known = (limits.len() as u64).saturating_sub(1).min(epochs);
    let varying = (0..known).map(|epoch| lanes.rooms[room].limit(epoch)).fold(0, u64::saturating_add);
    let last = limits.last().copied().unwrap_or(0);
    last.saturating_mul((epochs - known).div_ceil(kappa)).saturating_add(varying)
}

/// A chunk at a gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    /// The first epoch in which it can be there.
    release: u64,
    /// Epochs from the gateway's far end to the farthest of the nodes that get it only through the gateway.
    tail: u64,
}

/// The epochs until the last chunk is through its gateway, a lane that is the only way for some demands, and where it is
/// wanted; 0 where no lane is.
fn gateway(lanes: &Lanes, demand: &Demand) -> u64 {
    let mut by_source: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, chunk) in demand.chunks.iter().enumerate() {
        by_source.entry(chunk.source).or_default().push(i);
    }
    let mut jobs: BTreeMap<usize, Vec<Job>> = BTreeMap::new();
    let mut onward: HashMap<usize, Vec<u64>> = HashMap::new();
    for (source, chunks) in by_source {
        let (distance, last) = lanes.ways(source);
        // A lane that is the only way for anybody is on the shortest one.
        for gateway in last.into_iter().flatten() {
            let lane = &lanes.lanes[gateway];
            let reached = reached_without(lanes, source, gateway);
            for chunk in chunks.iter().map(|chunk| &demand.chunks[*chunk]) {
                let behind = chunk.wanted_by.iter().filter(|node| !reached[**node]);
                let onward = onward.entry(lane.to).or_insert_with(|| lanes.distances(lane.to));
                if let Some(tail) = behind.map(|node| onward[*node]).max() {
                    jobs.entry(gateway).or_default().push(Job { release: distance[lane.from], tail });
                }
            }
        }
    }
    let bound = |(gateway, mut jobs): (usize, Vec<Job>)| {
        jobs.sort_unstable();
        let tail = jobs.iter().map(|job| job.tail).min().unwrap_or(0);
        let last = last_start(lanes, gateway, jobs.iter().map(|job| job.release));
        last.saturating_add(lanes.lanes[gateway].after).saturating_add(tail)
    };
    jobs.into_iter().map(bound).max().unwrap_or(0)
}

/// Which nodes are reached when one lane is gone.
fn reached_without(lanes: &Lanes, source: usize, gone: usize) -> Vec<bool> {
    let mut reached = vec![false; lanes.nodes.len()];
    reached[source] = true;
    let mut queue = vec![source];
    while let Some(node) = queue.pop() {
        for lane in lanes.out[node].iter().filter(|lane| **lane != gone) {
            let to = lanes.lanes[*lane].to;
            if !std::mem::replace(&mut reached[to], true) {
                queue.push(to);
            }
        }
    }
    reached
}

/// The epoch in which the last of these chunks begins on a lane at the earliest, if each waits from its epoch on and they
/// come in order; `u64::MAX` if some never can.
fn last_start(lanes: &Lanes, lane: usize, releases: impl Iterator<Item = u64>) -> u64 {
    let of = &lanes.lanes[lane];
    let mut starts: Vec<u64> = Vec::new();
    for release in releases {
        let mut at = release.max(starts.last().copied().unwrap_or(0));
        loop {
            let least = of.rooms.iter().map(|room| lanes.rooms[*room].limit(at)).min().unwrap_or(0);
            let settled = of.rooms.iter().all(|room| at >= lanes.rooms[*room].limits.len() as u64);
            let first = match usize::try_from(least).unwrap_or(usize::MAX) {
                0 if settled => return u64::MAX,
                0 => at + 1,
                // The one so many places before must be through.
                most => starts.len().checked_sub(most).map_or(0, |old| starts[old] + of.kappa),
            };
            if first <= at {
                break;
            }
            at = first;
        }
        starts.push(at);
    }
    starts.last().copied().unwrap_or(0)
}

/// The epochs until what a set of nodes has for others is out of it and where it is wanted, for the set that is worst: one
/// of the groups that thin links join, with or without its switches, all nodes but those, or, in small fabrics without
/// switches, any.
fn cut(lanes: &Lanes, demand: &Demand, begun: impl Fn(&Lane, u64) -> Rational) -> Bound {
    let none = Bound::of(0, CertificateKind::Cut);
    if lanes.lanes.iter().any(|lane| lane.rooms.len() > 1) {
        return none;
    }
    let count = lanes.nodes.len();
    let mut sets: Vec<Vec<bool>> = Vec::new();
    for groups in groupings(lanes) {
        let groups_in_it = groups.iter().filter(|group| **group != usize::MAX).max().map_or(0, |last| last + 1);
        for group in 0..groups_in_it {
            let plain: Vec<bool> = groups.iter().map(|of| *of == group).collect();
            let grown = with_switches(lanes, &plain);
            for set in [plain, grown] {
                sets.push(set.iter().map(|inside| !inside).collect());
                sets.push(set);
            }
        }
    }
    if count <= MAX_NODES && lanes.nodes.iter().all(|node| !node.is_switch) {
        let set = |chosen: u32| (0..count).map(|node| chosen >> node & 1 == 1).collect();
        sets.extend((1..(1_u32 << count) - 1).map(set));
    }
    let distances: Vec<Vec<u64>> =
        if sets.is_empty() { Vec::new() } else { (0..count).map(|node| lanes.distances(node)).collect() };
    sets.into_iter().fold(none, |best, inside| {
        let epochs = leaves(lanes, demand, &inside, &distances, &begun);
        if epochs > best.epochs {
            let nodes = (0..count).filter(|node| inside[*node]).collect();
            return Bound { epochs, kind: CertificateKind::Cut, nodes };
        }
        best
    })
}

/// The same set with the switches that join nodes of it alone.
fn with_switches(lanes: &Lanes, set: &[bool]) -> Vec<bool> {
    let mut near: Vec<(bool, bool)> = vec![(false, false); set.len()];
    for lane in &lanes.lanes {
        for (switch, other) in [(lane.from, lane.to), (lane.to, lane.from)] {
            let (inside, outside) = &mut near[switch];
            *inside |= set[other];
            *outside |= !set[other] && !lanes.nodes[other].is_switch;
        }
    }
    let joins = |node: usize| lanes.nodes[node].is_switch && near[node] == (true, false);
    (0..set.len()).map(|node| set[node] || joins(node)).collect()
}

/// The epochs until what these nodes have for others can be where it is wanted.
fn leaves(
    lanes: &Lanes,
    demand: &Demand,
    inside: &[bool],
    distances: &[Vec<u64>],
    begun: &impl Fn(&Lane, u64) -> Rational,
) -> u64 {
    let (mut sources, mut targets) = (vec![false; inside.len()], vec![false; inside.len()]);
    let mut chunks = 0_u64;
    for chunk in demand.chunks.iter().filter(|chunk| inside[chunk.source]) {
        let outside = chunk.wanted_by.iter().filter(|node| !inside[**node]);
        let crosses = outside.map(|node| targets[*node] = true).count() > 0;
        sources[chunk.source] |= crosses;
        chunks += u64::from(crosses);
    }
    if chunks == 0 {
        return 0;
    }
    let all = |of: &[bool]| (0..of.len()).filter(|node| of[*node]).collect::<Vec<usize>>();
    let (sources, targets) = (all(&sources), all(&targets));
    // By lane out of it how many epochs are lost for it: until something can be there, on it, and behind it.
    let lost = |lane: &Lane| {
        let release = sources.iter().map(|source| distances[*source][lane.from]).min()?;
        let tail = targets.iter().map(|target| distances[lane.to][*target]).min()?;
        // Of capacities that vary it is not known which epochs are lost first.
        let release = if lane.rates.len() > 1 { 0 } else { release };
        release.checked_add(lane.after)?.checked_add(tail)
    };
    let ways: Vec<(&Lane, u64)> = lanes
        .lanes
        .iter()
        .filter(|lane| inside[lane.from] && !inside[lane.to])
        .filter_map(|lane| Some((lane, lost(lane)?)))
        .collect();
    let chunks = Rational::from(chunks);
    until(|epochs| {
        let mut sum = Rational::ZERO;
        for (lane, lost) in &ways {
            sum += &begun(lane, (epochs + 1).saturating_sub(*lost));
        }
        sum >= chunks
    })
}
