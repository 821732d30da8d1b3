//! An undirected simple graph to run collectives on: from a Topology Zoo file, or a ring; its links in both directions.
//!
//! Node numbers are the ranks of the ids, numerically. Edges stand in ascending (lower end, higher end) order; edge i
//! becomes the directed links 2i, from the lower end to the higher, and 2i + 1, back.

use std::collections::BTreeSet;

use sluice_formats::problem::Problem;
use sluice_formats::topology::import;

use crate::instance::{Link, MAX_LINKS, MAX_NODES};
use crate::refusal::Refusal;

/// A connected undirected graph without loops and parallel edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    name: String,
    nodes: usize,
    edges: Vec<(usize, usize)>,
}

fn bad(file: &str, line: usize, what: impl Into<String>) -> Refusal {
    Refusal::BadTopology { file: file.to_owned(), line, what: what.into() }
}

/// The line that a mistake of the GraphML reader names.
fn line_of(problem: &Problem) -> usize {
    let named = problem.key.strip_prefix("line ").and_then(|line| line.parse().ok());
    named.unwrap_or(problem.line)
}

impl Graph {
    /// A graph from its edges: loops go, parallel edges are one.
    ///
    /// # Errors
    /// `BadTopology` of line 0, without nodes or edges, with an edge to a node that is not there, or in several pieces;
    /// `TooLarge`.
    pub fn new(name: &str, nodes: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Result<Graph, Refusal> {
        if nodes > MAX_NODES {
            return Err(Refusal::TooLarge { what: "nodes", found: nodes, allowed: MAX_NODES });
        }
        if nodes == 0 {
            return Err(bad(name, 0, "no nodes"));
        }
        let mut simple = BTreeSet::new();
        for (a, b) in edges {
            if a.max(b) >= nodes {
                return Err(bad(name, 0, format!("an edge to node {}, of {nodes}", a.max(b))));
            }
            if a != b {
                simple.insert((a.min(b), a.max(b)));
            }
            if simple.len() > MAX_LINKS / 2 {
                return Err(Refusal::TooLarge { what: "edges", found: simple.len(), allowed: MAX_LINKS / 2 });
            }
        }
        if simple.is_empty() {
            return Err(bad(name, 0, "no edges"));
        }
        let graph = Graph { name: name.to_owned(), nodes, edges: simple.into_iter().collect() };
        match graph.apart() {
            Some(node) => Err(bad(name, 0, format!("not connected: no way leads from node 0 to node {node}"))),
            None => Ok(graph),
        }
    }

    /// The graph of a GraphML file of the Topology Zoo, named as its file without directory and ending.
    ///
    /// # Errors
    /// `BadTopology` with the line, where a line is to blame, and what [`Graph::new`] refuses.
    pub fn graphml(bytes: &[u8], file: &str) -> Result<Graph, Refusal> {
        let topology = import::graphml(bytes, file, "1").map_err(|problems| {
            let first = problems.all().first();
            let (line, what) = first.map_or((0, "not readable"), |problem| (line_of(problem), &problem.message));
            bad(file, line, what)
        })?;
        let base = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let name = base.strip_suffix(".graphml").unwrap_or(base);
        let edges = topology.links().iter().map(|link| (link.from, link.to));
        Graph::new(name, topology.nodes().len(), edges)
    }

    /// Nodes 0 … n − 1, each with an edge to the next and the last with one to the first.
    ///
    /// # Errors
    /// What [`Graph::new`] refuses: fewer than two nodes have no edges.
    pub fn ring(nodes: usize) -> Result<Graph, Refusal> {
        let bounded = nodes.min(MAX_NODES);
        Graph::new(&format!("ring{nodes}"), nodes, (0..bounded).map(|node| (node, (node + 1) % bounded)))
    }

    /// A node that cannot be reached from node 0.
    fn apart(&self) -> Option<usize> {
        let mut next_to = vec![Vec::new(); self.nodes];
        for &(a, b) in &self.edges {
            next_to[a].push(b);
            next_to[b].push(a);
        }
        let mut reached = vec![false; self.nodes];
        reached[0] = true;
        let mut left = vec![0];
        while let Some(node) = left.pop() {
            for &next in &next_to[node] {
                if !reached[next] {
                    reached[next] = true;
                    left.push(next);
                }
            }
        }
        reached.iter().position(|reached| !reached)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }
    /// Its edges, ascending, the lower end first.
    pub fn edges(&self) -> &[(usize, usize)] {
        &self.edges
    }
    /// Two directed links for each edge, with this capacity in MB/s for each edge by index.
    pub fn links(&self, mut capacity: impl FnMut(usize) -> f64) -> Vec<Link> {
        let both = |(index, &(a, b)): (usize, &(usize, usize))| {
            let capacity = capacity(index);
            [Link { from: a, to: b, capacity }, Link { from: b, to: a, capacity }]
        };
        self.edges.iter().enumerate().flat_map(both).collect()
    }
}
