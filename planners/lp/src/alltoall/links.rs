//! A graph as the methods want it: links without self-loops, by tail and by head.

use super::Refusal;
use sluice_planners::direct::Graph;

/// The links of a graph that carry something; a self-loop does not.
#[derive(Clone, Debug)]
pub(super) struct Links {
    pub n: usize,
    pub tail: Vec<u32>,
    pub head: Vec<u32>,
    /// Place of the link among the graph's edges.
    pub edge: Vec<u32>,
    into: Lists,
    out: Lists,
}

/// Lists of links, one after the other.
#[derive(Clone, Debug)]
struct Lists {
    begin: Vec<u32>,
    link: Vec<u32>,
}

impl Lists {
    fn new(n: usize, end: &[u32]) -> Lists {
        let mut begin = vec![0u32; n + 1];
        end.iter().for_each(|&v| begin[v as usize + 1] += 1);
        (0..n).for_each(|v| begin[v + 1] += begin[v]);
        let (mut next, mut link) = (begin.clone(), vec![0; end.len()]);
        for (number, &v) in end.iter().enumerate() {
            link[next[v as usize] as usize] = number as u32;
            next[v as usize] += 1;
        }
        Lists { begin, link }
    }
    fn of(&self, v: usize) -> &[u32] {
        &self.link[self.begin[v] as usize..self.begin[v + 1] as usize]
    }
}

impl Links {
    /// The links of a graph in which every vertex reaches every other.
    ///
    /// # Errors
    /// `NoPair` below two vertices; `NotStronglyConnected` with a pair that shows it.
    pub(super) fn new(graph: &Graph) -> Result<Links, Refusal> {
        let n = graph.n() as usize;
        if n < 2 {
            return Err(Refusal::NoPair);
        }
        let kept = || graph.edges().iter().enumerate().filter(|(_, edge)| edge.tail != edge.head);
        let tail: Vec<u32> = kept().map(|(_, edge)| edge.tail).collect();
        let head: Vec<u32> = kept().map(|(_, edge)| edge.head).collect();
        let edge = kept().map(|(place, _)| place as u32).collect();
        let links = Links { n, into: Lists::new(n, &head), out: Lists::new(n, &tail), tail, head, edge };
        let unreached = |hops: Vec<u32>| hops.iter().position(|&hops| hops == u32::MAX).map(|v| v as u32);
        if let Some(to) = unreached(links.hops(0)) {
            return Err(sluice_planners::direct::Refusal::NotStronglyConnected { from: 0, to }.into());
        }
        let back = Links { out: links.into.clone(), head: links.tail.clone(), ..links.clone() };
        if let Some(from) = unreached(back.hops(0)) {
            return Err(sluice_planners::direct::Refusal::NotStronglyConnected { from, to: 0 }.into());
        }
        Ok(links)
    }
    pub(super) fn len(&self) -> usize {
        self.tail.len()
    }
    /// Links into a vertex.
    pub(super) fn into(&self, v: usize) -> &[u32] {
        self.into.of(v)
    }
    /// Links out of a vertex.
    pub(super) fn out(&self, v: usize) -> &[u32] {
        self.out.of(v)
    }
    /// Hops from a vertex; `u32::MAX` where there is no path.
    pub(super) fn hops(&self, from: usize) -> Vec<u32> {
        let (mut hops, mut queue) = (vec![u32::MAX; self.n], vec![from]);
        hops[from] = 0;
        let mut next = 0;
        while let Some(&v) = queue.get(next) {
            next += 1;
            for &link in self.out(v) {
                let head = self.head[link as usize] as usize;
                if hops[head] == u32::MAX {
                    hops[head] = hops[v] + 1;
                    queue.push(head);
                }
            }
        }
        hops
    }
}
