//! What arrives at one receiver in which step, and which of its links each shard may come over.
//!
//! One breadth-first search against the links finds both: a shard may use all first links of shortest paths, so a
//! vertex has the union of what the vertices one hop nearer have. That needs memory for one receiver, not for all
//! pairs of vertices.

use super::inlinks::{Inlinks, Neighbour};
use super::transport::Jobs;

const UNSEEN: u32 = u32::MAX;

/// The sources of one receiver by distance, with the sets of usable in-neighbours.
pub struct Arrivals {
    /// Words of a set.
    words: usize,
    distance: Vec<u32>,
    /// Sources by distance, the receiver first.
    order: Vec<u32>,
    /// Where the sources of a distance begin in `order`; one entry more than distances.
    first: Vec<usize>,
    /// Sets of places among the receiver's neighbours, by vertex.
    usable: Vec<u64>,
    /// Parallel links from each neighbour.
    links: Vec<u64>,
}

impl Arrivals {
    /// Tables for the receivers of a graph.
    pub fn new(links: &Inlinks) -> Arrivals {
        let (n, words) = (links.n() as usize, links.most_neighbours().div_ceil(64).max(1));
        Arrivals {
            words,
            distance: vec![UNSEEN; n],
            order: Vec::with_capacity(n),
            first: Vec::new(),
            usable: vec![0; n * words],
            links: Vec::new(),
        }
    }
    /// Fills the tables for this receiver.
    pub fn at(&mut self, links: &Inlinks, receiver: u32) {
        let words = self.words;
        self.distance.fill(UNSEEN);
        self.usable.fill(0);
        self.order.clear();
        self.first.clear();
        self.links.clear();
        self.links.extend(links.of(receiver).iter().map(|neighbour| u64::from(neighbour.links)));
        self.distance[receiver as usize] = 0;
        self.order.push(receiver);
        self.first.extend([0, 1]);
        for (place, &Neighbour { tail, .. }) in links.of(receiver).iter().enumerate() {
            self.distance[tail as usize] = 1;
            self.usable[tail as usize * words + place / 64] |= 1 << (place % 64);
            self.order.push(tail);
        }
        let mut next = 1;
        while next < self.order.len() {
            let end = self.order.len();
            self.first.push(end);
            for place in next..end {
                let near = self.order[place] as usize;
                let farther = self.distance[near] + 1;
                for &Neighbour { tail, .. } in links.of(near as u32) {
                    let far = tail as usize;
                    if self.distance[far] == UNSEEN {
                        self.distance[far] = farther;
                        self.order.push(tail);
                    }
                    if self.distance[far] == farther {
                        for word in 0..words {
                            self.usable[far * words + word] |= self.usable[near * words + word];
                        }
                    }
                }
            }
            next = end;
        }
    }
    /// Steps until the farthest shard is there.
    pub fn steps(&self) -> usize {
        self.first.len().saturating_sub(2)
    }
    /// Parallel links from each in-neighbour.
    pub fn links(&self) -> &[u64] {
        &self.links
    }
    /// The shards that arrive in a step, counted from 1; sorted by usable neighbours and vertex after [`Self::jobs`].
    pub fn sources(&self, step: usize) -> &[u32] {
        &self.order[self.first[step]..self.first[step + 1]]
    }
    /// Groups the shards of a step by usable neighbours.
    pub fn jobs(&mut self, step: usize, jobs: &mut Jobs) {
        let (words, usable) = (self.words, &self.usable);
        let set = |vertex: u32| &usable[vertex as usize * words..][..words];
        let sources = &mut self.order[self.first[step]..self.first[step + 1]];
        if words == 1 {
            sources.sort_unstable_by_key(|&vertex| (usable[vertex as usize], vertex));
        } else {
            sources.sort_unstable_by(|&a, &b| set(a).cmp(set(b)).then(a.cmp(&b)));
        }
        jobs.clear(words);
        for group in sources.chunk_by(|&a, &b| set(a) == set(b)) {
            jobs.push(set(group[0]), group.len() as u64);
        }
    }
}
