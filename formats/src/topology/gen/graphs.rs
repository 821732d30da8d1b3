//! The graphs of textbooks: ring, torus, hypercube, complete graph, star. All nodes are GPUs but the star's middle.

use super::{Draft, Kind, Problems, Text, Topology, capacity, limit, range};

/// Nodes of a generated graph at most; the links have their own limit.
const MAX_NODES: u64 = 500_000;

/// A ring of `n` nodes; one way only unless `both_ways`. Two nodes both ways are one cable.
///
/// # Errors
/// `n` below 2 or too large, a capacity nobody can read.
pub fn ring(n: u32, link: &str, both_ways: bool) -> Result<Topology, Problems> {
    range("n", n.into(), 2, MAX_NODES)?;
    capacity("capacity", link)?;
    let link = Text::from(link);
    let mut draft = Draft::new(format!("ring-{n}"));
    let nodes: Vec<Text> = (0..n).map(|i| draft.node(format!("n{i}"), Kind::Gpu)).collect();
    for (i, node) in nodes.iter().enumerate() {
        let next = &nodes[(i + 1) % nodes.len()];
        match both_ways {
            true if n == 2 && i == 1 => {}
            true => draft.duplex(node, next, &link),
            false => draft.one_way(node, next, &link),
        }
    }
    draft.build()
}

/// A torus with these sizes: a ring in every dimension; a dimension of 2 is one cable, of 1 nothing.
///
/// # Errors
/// No or more than 16 dimensions, a size of 0, fewer than 2 nodes or too many, a capacity nobody can read.
pub fn torus(sizes: &[u32], link: &str) -> Result<Topology, Problems> {
    range("dimensions", sizes.len() as u64, 1, 16)?;
    for size in sizes {
        range("size", u64::from(*size), 1, MAX_NODES)?;
    }
    let n = sizes.iter().fold(1_u64, |n, size| n.saturating_mul(u64::from(*size)));
    range("nodes", n, 2, MAX_NODES)?;
    limit(u128::from(n) * 2 * sizes.len() as u128)?;
    capacity("capacity", link)?;
    let words: Vec<String> = sizes.iter().map(u32::to_string).collect();
    let mut draft = Draft::new(format!("torus-{}", words.join("x")));
    // Node i has the digits of i in the mixed base of the sizes, the last dimension fastest.
    let digits = |mut i: u64| -> Vec<u64> {
        let mut digits: Vec<u64> = sizes
            .iter()
            .rev()
            .map(|size| {
                let digit = i % u64::from(*size);
                i /= u64::from(*size);
                digit
            })
            .collect();
        digits.reverse();
        digits
    };
    let name = |digits: &[u64]| {
        let words: Vec<String> = digits.iter().map(u64::to_string).collect();
        Text::from(format!("n{}", words.join(".")))
    };
    let link = Text::from(link);
    for i in 0..n {
        draft.node(name(&digits(i)), Kind::Gpu);
    }
    for i in 0..n {
        let here = digits(i);
        for (dimension, size) in sizes.iter().map(|size| u64::from(*size)).enumerate() {
            if size == 1 || (size == 2 && here[dimension] == 1) {
                continue;
            }
            let mut there = here.clone();
            there[dimension] = (there[dimension] + 1) % size;
            draft.duplex(&name(&here), &name(&there), &link);
        }
    }
    draft.build()
}

/// A hypercube: 2^`dimensions` nodes, cables between those whose numbers differ in one bit.
///
/// # Errors
/// `dimensions` not 1 to 15, a capacity nobody can read.
pub fn hypercube(dimensions: u32, link: &str) -> Result<Topology, Problems> {
    range("dimensions", dimensions.into(), 1, 15)?;
    capacity("capacity", link)?;
    let link = Text::from(link);
    let mut draft = Draft::new(format!("hypercube-{dimensions}"));
    let nodes: Vec<Text> = (0..1_usize << dimensions).map(|i| draft.node(format!("n{i}"), Kind::Gpu)).collect();
    for (i, node) in nodes.iter().enumerate() {
        for other in (0..dimensions).map(|bit| i ^ 1 << bit).filter(|other| *other > i) {
            draft.duplex(node, &nodes[other], &link);
        }
    }
    draft.build()
}

/// A cable between any two of `n` nodes.
///
/// # Errors
/// `n` not 2 to 1000, a capacity nobody can read.
pub fn complete(n: u32, link: &str) -> Result<Topology, Problems> {
    range("n", n.into(), 2, 1000)?;
    capacity("capacity", link)?;
    let link = Text::from(link);
    let mut draft = Draft::new(format!("complete-{n}"));
    let nodes: Vec<Text> = (0..n).map(|i| draft.node(format!("n{i}"), Kind::Gpu)).collect();
    for (i, node) in nodes.iter().enumerate() {
        nodes[i + 1..].iter().for_each(|other| draft.duplex(node, other, &link));
    }
    draft.build()
}

/// Nodes around one switch, each with its own capacity.
///
/// # Errors
/// Fewer than 2 nodes or too many, a capacity nobody can read.
pub fn star(links: &[&str]) -> Result<Topology, Problems> {
    range("nodes", links.len() as u64, 2, MAX_NODES)?;
    for link in links {
        capacity("capacity", link)?;
    }
    let mut draft = Draft::new(format!("star-{}", links.len()));
    let nodes: Vec<Text> = (0..links.len()).map(|i| draft.node(format!("n{i}"), Kind::Gpu)).collect();
    let middle = draft.node("sw", Kind::Switch);
    for (node, link) in nodes.iter().zip(links) {
        draft.duplex(node, &middle, &Text::from(*link));
    }
    draft.build()
}
