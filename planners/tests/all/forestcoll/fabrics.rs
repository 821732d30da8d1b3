//! Fabrics to plan for: the machines of the paper by their rules, and random ones.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sluice_formats::quantity::Rational;
use sluice_planners::forestcoll::Fabric;

/// A fabric under construction: compute nodes first, then switches.
#[derive(Default)]
pub struct Builder {
    pub fabric: Fabric,
}

impl Builder {
    /// `compute` compute nodes in boxes of `per_box`.
    pub fn new(compute: usize, per_box: usize) -> Self {
        let names = (0..compute).map(|node| format!("b{}g{}", node / per_box, node % per_box)).collect();
        let boxes = (0..compute).map(|node| Some((node / per_box) as u32)).collect();
        Self { fabric: Fabric { names, compute, boxes, ..Fabric::default() } }
    }

    pub fn switch(&mut self, name: String, home: Option<usize>) -> u32 {
        self.fabric.names.push(name);
        self.fabric.boxes.push(home.map(|home| home as u32));
        self.fabric.names.len() as u32 - 1
    }

    pub fn one_way(&mut self, from: u32, to: u32, rate: i128) {
        self.fabric.links.push((from, to, Rational::new(rate, 1).expect("not over zero")));
    }

    pub fn duplex(&mut self, a: u32, b: u32, rate: i128) {
        self.one_way(a, b, rate);
        self.one_way(b, a, rate);
    }
}

/// Boxes of 8 GPUs behind a switch each and, if there are several, behind one switch between boxes.
fn dgx(boxes: usize, inside: i128, between: i128) -> Fabric {
    let mut build = Builder::new(boxes * 8, 8);
    for home in 0..boxes {
        let switch = build.switch(format!("nv{home}"), Some(home));
        (0..8).for_each(|gpu| build.duplex((home * 8 + gpu) as u32, switch, inside));
    }
    if boxes > 1 {
        let switch = build.switch("ib".into(), None);
        (0..boxes * 8).for_each(|gpu| build.duplex(gpu as u32, switch, between));
    }
    build.fabric
}

pub fn a100(boxes: usize) -> Fabric {
    dgx(boxes, 300, 25)
}

pub fn h100(boxes: usize) -> Fabric {
    dgx(boxes, 450, 50)
}

/// Multiples of 50 GB/s between the 16 GPUs of an MI250 box.
const MI250: [(u32, u32, i128); 28] = [
    (0, 1, 4),
    (0, 4, 2),
    (0, 8, 1),
    (1, 5, 1),
    (1, 9, 1),
    (1, 10, 1),
    (2, 3, 4),
    (2, 6, 1),
    (2, 9, 1),
    (2, 10, 1),
    (3, 7, 2),
    (3, 11, 1),
    (4, 5, 4),
    (4, 6, 1),
    (5, 6, 1),
    (5, 7, 1),
    (6, 7, 4),
    (8, 9, 4),
    (8, 12, 2),
    (9, 13, 1),
    (10, 11, 4),
    (10, 14, 1),
    (11, 15, 2),
    (12, 13, 4),
    (12, 14, 1),
    (13, 14, 1),
    (13, 15, 1),
    (14, 15, 4),
];

pub fn mi250(boxes: usize) -> Fabric {
    let mut build = Builder::new(boxes * 16, 16);
    for home in 0..boxes as u32 {
        for &(a, b, multiple) in &MI250 {
            build.duplex(home * 16 + a, home * 16 + b, 50 * multiple);
        }
    }
    if boxes > 1 {
        let switch = build.switch("ib".into(), None);
        (0..boxes * 16).for_each(|gpu| build.duplex(gpu as u32, switch, 16));
    }
    build.fabric
}

/// Numbers that look random and are the same everywhere.
pub struct Dice(SplitMix64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// One of `from..=to`.
    pub fn pick(&mut self, from: usize, to: usize) -> usize {
        from + (self.0.next_u64() % (to - from + 1) as u64) as usize
    }

    pub fn rate(&mut self, from: usize, to: usize) -> i128 {
        self.pick(from, to) as i128
    }
}

/// Boxes of different sizes and speeds, some with a switch and some meshed, on one or two levels of switches with one
/// or several rails, and a few rings of one-way links: every node balanced, hardly any two alike.
pub fn heterogeneous(compute: usize, seed: u64) -> Fabric {
    let mut dice = Dice::new(seed);
    let mut build = Builder::new(compute, compute);
    build.fabric.boxes.clear();
    let mut boxes: Vec<Vec<u32>> = Vec::new();
    let mut next = 0;
    while next < compute {
        let size = dice.pick(1, 8).min(compute - next);
        boxes.push((next as u32..(next + size) as u32).collect());
        next += size;
    }
    let rails = dice.pick(1, 3);
    let leaves = if boxes.len() > 4 { dice.pick(1, 4) } else { 1 };
    for members in &boxes {
        let rate = dice.rate(20, 400);
        if dice.pick(0, 2) > 0 && members.len() > 1 {
            let switch = build.switch(format!("box{}", build.fabric.names.len()), None);
            for &gpu in members {
                let own = if dice.pick(0, 3) == 0 { dice.rate(20, 400) } else { rate };
                build.duplex(gpu, switch, own);
            }
        } else {
            for (at, &a) in members.iter().enumerate() {
                for &b in &members[at + 1..] {
                    if b == a + 1 || dice.pick(0, 1) == 0 {
                        build.duplex(a, b, rate * dice.rate(1, 4));
                    }
                }
            }
        }
    }
    let leaf: Vec<Vec<u32>> = (0..leaves)
        .map(|leaf| (0..rails).map(|rail| build.switch(format!("leaf{leaf}rail{rail}"), None)).collect())
        .collect();
    let mut up = vec![vec![0; rails]; leaves];
    for (number, members) in boxes.iter().enumerate() {
        let nic = dice.rate(5, 50);
        for &gpu in members {
            let (rail, rate) = (gpu as usize % rails, if dice.pick(0, 4) == 0 { dice.rate(5, 50) } else { nic });
            build.duplex(gpu, leaf[number % leaves][rail], rate);
            up[number % leaves][rail] += rate;
        }
    }
    let spine = build.switch("spine".into(), None);
    for (leaf, up) in leaf.iter().zip(&up) {
        for (&switch, &rate) in leaf.iter().zip(up) {
            build.duplex(switch, spine, (rate * dice.rate(4, 10) / 10).max(1));
        }
    }
    for _ in 0..dice.pick(0, 3) {
        let length = dice.pick(3, compute.max(3)).min(compute);
        let start = dice.pick(0, compute - 1);
        let rate = dice.rate(1, 30);
        for step in 0..if length > 2 { length } else { 0 } {
            let at = |step: usize| ((start + step % length) % compute) as u32;
            build.one_way(at(step), at(step + 1), rate);
        }
    }
    build.fabric
}

/// Random one-way rings over all nodes on top of each other: balanced, connected, no link with a reverse.
pub fn tangled(compute: usize, switches: usize, most: usize, seed: u64) -> Fabric {
    let mut dice = Dice::new(seed);
    let mut build = Builder::new(compute, compute);
    build.fabric.boxes.clear();
    for number in 0..switches {
        build.switch(format!("s{number}"), None);
    }
    let nodes = compute + switches;
    for ring in 0..dice.pick(2, 5) {
        let mut order: Vec<u32> = (0..nodes as u32).collect();
        (1..nodes).rev().for_each(|at| order.swap(at, dice.pick(0, at)));
        // The first ring connects everything.
        let length = if ring == 0 { nodes } else { dice.pick(2, nodes) };
        let rate = dice.rate(1, most);
        (0..length).for_each(|at| build.one_way(order[at], order[(at + 1) % length], rate));
    }
    build.fabric
}

/// A random graph of direct links, about `degree` per node, all of different rates; a few switches among the nodes.
pub fn meshed(compute: usize, switches: usize, degree: usize, most: usize, seed: u64) -> Fabric {
    let mut dice = Dice::new(seed);
    let mut build = Builder::new(compute, compute);
    build.fabric.boxes.clear();
    for number in 0..switches {
        build.switch(format!("s{number}"), None);
    }
    let nodes = compute + switches;
    for node in 1..nodes {
        let near = dice.pick(node.saturating_sub(8), node - 1);
        build.duplex(node as u32, near as u32, dice.rate(1, most));
    }
    for _ in nodes..nodes * degree / 2 {
        let (a, b) = (dice.pick(0, nodes - 1), dice.pick(0, nodes - 1));
        if a != b {
            build.duplex(a as u32, b as u32, dice.rate(1, most));
        }
    }
    build.fabric
}
