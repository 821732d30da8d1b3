//! Who sends to whom, seen from the receivers: in-neighbours with the parallel links from each.

use crate::direct::{Graph, Refusal};

/// Neighbours times vertices at most: what a receiver's tables may need. Regular graphs within the limits of
/// [`Graph`] always stay below.
const MAX_CELLS: u64 = 1 << 26;

/// In-neighbours of every vertex, ascending, without self-loops.
pub struct Inlinks {
    n: u32,
    /// Where a vertex's neighbours begin; one entry more than vertices.
    first: Vec<u32>,
    neighbours: Vec<Neighbour>,
    /// Ids of the links, by head, then tail, then id.
    edges: Vec<u32>,
    /// Links of the graph, self-loops among them.
    ids: usize,
    most_neighbours: usize,
}

/// A vertex that sends to another one.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    pub tail: u32,
    /// How many parallel links lead from it.
    pub links: u32,
    /// Where their ids begin.
    first: u32,
}

impl Inlinks {
    /// Of a graph in which everybody reaches everybody.
    ///
    /// # Errors
    /// `NotStronglyConnected`, `TopologyTooLarge`.
    pub fn new(graph: &Graph) -> Result<Inlinks, Refusal> {
        let n = graph.n();
        let edge = |id: u32| graph.edges()[id as usize];
        let mut edges: Vec<u32> =
            (0..graph.edges().len() as u32).filter(|&id| edge(id).tail != edge(id).head).collect();
        edges.sort_unstable_by_key(|&id| (edge(id).head, edge(id).tail, id));
        let mut neighbours: Vec<Neighbour> = Vec::new();
        let mut first = vec![0];
        for (place, &id) in edges.iter().enumerate() {
            let (tail, head) = (edge(id).tail, edge(id).head);
            while first.len() <= head as usize {
                first.push(neighbours.len() as u32);
            }
            let own = &mut neighbours[first[head as usize] as usize..];
            match own.last_mut() {
                Some(last) if last.tail == tail => last.links += 1,
                _ => neighbours.push(Neighbour { tail, links: 1, first: place as u32 }),
            }
        }
        first.resize(n as usize + 1, neighbours.len() as u32);
        let (vertex, most) = first
            .windows(2)
            .map(|ends| ends[1] - ends[0])
            .enumerate()
            .max_by_key(|&(_, count)| count)
            .unwrap_or((0, 0));
        if u64::from(most) * u64::from(n) > MAX_CELLS {
            return Err(Refusal::TooManyNeighbours {
                vertex: vertex as u32,
                found: most,
                most: MAX_CELLS / u64::from(n),
            });
        }
        let links = Inlinks { n, first, neighbours, edges, ids: graph.edges().len(), most_neighbours: most as usize };
        links.strongly_connected(graph)?;
        Ok(links)
    }
    pub fn n(&self) -> u32 {
        self.n
    }
    /// Ids of links are below this.
    pub fn edge_count(&self) -> usize {
        self.ids
    }
    /// The most in-neighbours that a vertex has.
    pub fn most_neighbours(&self) -> usize {
        self.most_neighbours
    }
    /// Who sends to `head`.
    pub fn of(&self, head: u32) -> &[Neighbour] {
        &self.neighbours[self.first[head as usize] as usize..self.first[head as usize + 1] as usize]
    }
    /// Ids of the parallel links of a neighbour, ascending.
    pub fn edges(&self, neighbour: Neighbour) -> &[u32] {
        &self.edges[neighbour.first as usize..][..neighbour.links as usize]
    }

    /// Vertex 0 reaches everybody and everybody reaches vertex 0, or a pair for which that fails.
    fn strongly_connected(&self, graph: &Graph) -> Result<(), Refusal> {
        let n = self.n as usize;
        let mut reaches = vec![false; n];
        reaches[0] = true;
        let mut queue = vec![0];
        while let Some(vertex) = queue.pop() {
            for neighbour in self.of(vertex) {
                if !std::mem::replace(&mut reaches[neighbour.tail as usize], true) {
                    queue.push(neighbour.tail);
                }
            }
        }
        if let Some(from) = reaches.iter().position(|reaches| !reaches) {
            return Err(Refusal::NotStronglyConnected { from: from as u32, to: 0 });
        }
        let mut heads = vec![Vec::new(); n];
        for edge in graph.edges() {
            heads[edge.tail as usize].push(edge.head);
        }
        let mut reached = vec![false; n];
        reached[0] = true;
        queue.push(0);
        while let Some(vertex) = queue.pop() {
            for &head in &heads[vertex as usize] {
                if !std::mem::replace(&mut reached[head as usize], true) {
                    queue.push(head);
                }
            }
        }
        match reached.iter().position(|reached| !reached) {
            Some(to) => Err(Refusal::NotStronglyConnected { from: 0, to: to as u32 }),
            None => Ok(()),
        }
    }
}
