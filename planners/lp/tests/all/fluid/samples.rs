//! Small fabrics at random, the same ones in every run.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use std::collections::BTreeMap;

/// Numbers that look random: xorshift.
pub struct Draws(u64);

impl Draws {
    /// The draws of a case.
    pub fn of(case: u64) -> Draws {
        let mut draws = Draws(case.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| _ = draws.below(2));
        draws
    }
    /// A number below this one, which is not zero.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % most as u64) as usize
    }
    /// All places below `count`, in any order.
    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..count).collect();
        (1..count).rev().for_each(|at| places.swap(at, self.below(at + 1)));
        places
    }
}

/// A file of these nodes (`g` participates, `m` is a memory, `s` a switch), links and groups.
pub fn file(nodes: &[String], links: Vec<Value>, groups: Vec<Value>) -> Value {
    let node = |id: &String| match id.as_bytes()[0] {
        b'g' => json!({"id": id, "kind": "gpu"}),
        b'm' => json!({"id": id, "kind": "memory"}),
        _ => json!({"id": id, "kind": "switch"}),
    };
    let nodes: Vec<Value> = nodes.iter().map(node).collect();
    json!({"sluice_topology": 1, "name": "t", "nodes": nodes, "links": links, "groups": groups})
}

/// The fabric of a file.
pub fn read(file: &Value) -> Topology {
    Topology::read(file.to_string().as_bytes(), "t").unwrap_or_else(|problems| panic!("{problems}\n{file}"))
}

fn names(gpus: usize, memories: usize, switches: usize) -> Vec<String> {
    let of = |kind: &'static str, count: usize| (0..count).map(move |place| format!("{kind}{place}"));
    of("g", gpus).chain(of("m", memories)).chain(of("s", switches)).collect()
}

/// As much in as out at every node, limits on single links only, and switches that do not copy: circles, one of which goes
/// through all nodes.
pub fn eulerian(case: u64) -> Value {
    let mut draws = Draws::of(case);
    let nodes = names(2 + draws.below(4), 0, draws.below(4));
    let mut capacities: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for circle in 0..2 + draws.below(3) {
        let most = nodes.len();
        let length = if circle == 0 { most } else { 2 + draws.below(most - 1) };
        let places: Vec<usize> = draws.shuffled(most).into_iter().take(length).collect();
        let capacity = 1 + draws.below(6);
        for at in 0..length {
            *capacities.entry((places[at], places[(at + 1) % length])).or_default() += capacity;
        }
    }
    let link = |((from, to), capacity): ((usize, usize), usize)| json!({"from": nodes[from], "to": nodes[to], "capacity": capacity.to_string()});
    file(&nodes, capacities.into_iter().map(link).collect(), Vec::new())
}

/// Memories, switches, links that differ by direction, and groups that overlap; everybody reaches everybody. There is one
/// link at most from a node to another.
pub fn mixed(case: u64) -> Value {
    let mut draws = Draws::of(case);
    let nodes = names(2 + draws.below(3), draws.below(2), draws.below(3));
    let circle = draws.shuffled(nodes.len());
    let mut ends: Vec<(usize, usize)> =
        (0..circle.len()).map(|at| (circle[at], circle[(at + 1) % circle.len()])).collect();
    for _ in 0..nodes.len() + draws.below(4) {
        let pair = draws.shuffled(nodes.len());
        ends.push((pair[0], pair[1]));
    }
    ends.sort_unstable();
    ends.dedup();
    let mut link = |(from, to): &(usize, usize)| {
        let (capacity, cost) = ((1 + draws.below(5)).to_string(), draws.below(3).to_string());
        json!({"from": nodes[*from], "to": nodes[*to], "capacity": capacity, "cost": cost})
    };
    let links: Vec<Value> = ends.iter().map(&mut link).collect();
    let groups = (0..draws.below(3)).map(|_| {
        let places = draws.shuffled(links.len()).into_iter().take(2 + draws.below(3));
        let members: Vec<Value> = places.map(|place| json!([links[place]["from"], links[place]["to"]])).collect();
        json!({"links": members, "capacity": (1 + draws.below(6)).to_string()})
    });
    let groups = groups.collect();
    file(&nodes, links, groups)
}
