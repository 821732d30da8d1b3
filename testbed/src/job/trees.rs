//! All-reduce, all-gather and reduce-scatter by the trees of a plan, every tree a pipeline of chunks.
//!
//! One connection carries all tree edges from one rank to another, since that is one flow: daemons give it one rate, by
//! the weights of its trees. Trees share it chunk by chunk. A chunk is sent only when all of it is there, after one word
//! that names its edge, and among the chunks that are there the edge that is least far goes first. So no tree ever waits
//! for another, trees wait for nothing but their own edges before, and those make no circle: no set of trees can stop.
//! Every rank takes in whatever comes, for its place in the buffer is known.
//!
//! A memory where trees branch is a relay, a member after the ranks: its buffer is empty at first, and nobody is the root
//! of anything there.

use std::ops::Range;

use sluice_plan::follow::{Followed, WHOLE};
use sluice_plan::plan::{Collective, Direction};

use super::JobError;
use super::buffer::{self, Difference};
use super::exchange::{Exchange, Kind, Streams, stream_with};

/// Floats of a chunk: some milliseconds of a slow link, so that a deep tree fills soon.
pub const CHUNK: usize = 2_048;
/// Bytes of the word that names a chunk's edge.
const WORD: usize = 4;

/// One rank's part in the trees of a plan.
#[derive(Debug)]
pub struct Trees {
    collective: Collective,
    rank: usize,
    /// Which elements each rank is the root of.
    own: Vec<Range<usize>>,
    buffer: Vec<f32>,
    places: Vec<Place>,
    /// Places of the in-trees that end here, by their elements.
    ending: Vec<usize>,
    streams: Streams,
    sending: Vec<Sending>,
    receiving: Vec<Receiving>,
}

/// This rank's place in one tree.
#[derive(Debug)]
struct Place {
    /// The elements the tree carries.
    elements: Range<usize>,
    /// Is this the root of a tree by which sums that were made here go out?
    turns: bool,
    /// Edges into this rank: (stream, edge).
    inputs: Vec<(usize, usize)>,
}

/// A tree edge at one of its ends.
#[derive(Debug)]
struct Edge {
    place: usize,
    elements: Range<usize>,
    /// Is what comes added to what is here?
    adds: bool,
    /// Elements that went or came.
    done: usize,
}

#[derive(Debug)]
struct Sending {
    edges: Vec<Edge>,
    chunk: Option<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    /// Where its word stands in the stream.
    at: u64,
    word: [u8; WORD],
    elements: Range<usize>,
}

#[derive(Debug)]
struct Receiving {
    edges: Vec<Edge>,
    /// The edge whose chunk comes, and how much of it is still to come.
    chunk: Option<(usize, usize)>,
    arrived: u64,
}

impl Trees {
    /// The place of `rank`, or of a relay, in a plan over `bytes` of data.
    pub fn new(plan: &Followed, rank: usize, bytes: u64) -> Trees {
        let real = usize::try_from(bytes.div_ceil(4)).unwrap_or(usize::MAX);
        let ranks = plan.participants.len();
        let element = |part: u64| (part as u128 * real as u128 / u128::from(WHOLE)) as usize;
        let mut trees = Trees {
            collective: plan.collective,
            rank,
            own: vec![0..0; ranks],
            buffer: vec![0.0; real],
            places: Vec::new(),
            ending: Vec::new(),
            streams: Streams { identity: plan.sha256.clone(), ..Streams::default() },
            sending: Vec::new(),
            receiving: Vec::new(),
        };
        for tree in &plan.trees {
            let elements = element(tree.part.start)..element(tree.part.end);
            let (root, inward) = (tree.root as usize, tree.direction == Direction::In);
            if let Some(own) = trees.own.get_mut(root).filter(|_| !elements.is_empty()) {
                let start = if own.start == own.end { elements.start } else { own.start.min(elements.start) };
                *own = start..own.end.max(elements.end);
                trees.join(elements, inward, root, &tree.edges);
            }
        }
        let stream = |edges: &[Edge]| edges.iter().map(|edge| length(&edge.elements)).sum();
        trees.streams.outs.iter_mut().zip(&trees.sending).for_each(|(s, sending)| s.bytes = stream(&sending.edges));
        trees
            .streams
            .ins
            .iter_mut()
            .zip(&trees.receiving)
            .for_each(|(s, receiving)| s.bytes = stream(&receiving.edges));
        trees
    }

    /// Takes the place in one tree.
    fn join(&mut self, elements: Range<usize>, inward: bool, root: usize, edges: &[(u32, u32)]) {
        let place = self.places.len();
        let turns = !inward && root == self.rank && self.collective == Collective::AllReduce;
        let mut inputs = Vec::new();
        let edge = || Edge { place, elements: elements.clone(), adds: inward, done: 0 };
        for &(from, to) in edges {
            if to as usize == self.rank {
                let stream = stream_with(&mut self.streams.ins, from as usize, Kind::Trees);
                if stream == self.receiving.len() {
                    self.receiving.push(Receiving { edges: Vec::new(), chunk: None, arrived: 0 });
                }
                inputs.push((stream, self.receiving[stream].edges.len()));
                self.receiving[stream].edges.push(edge());
            } else if from as usize == self.rank {
                let stream = stream_with(&mut self.streams.outs, to as usize, Kind::Trees);
                if stream == self.sending.len() {
                    self.sending.push(Sending { edges: Vec::new(), chunk: None });
                }
                self.sending[stream].edges.push(edge());
            }
        }
        if inward && root == self.rank {
            self.ending.push(place);
        }
        self.places.push(Place { elements, turns, inputs });
    }

    /// Does it only pass on?
    fn is_relay(&self) -> bool {
        self.rank >= self.own.len()
    }

    /// How many elements of a tree are ready to leave this rank by it.
    fn ready(&self, place: &Place) -> usize {
        if place.turns { self.summed(&place.elements) } else { self.complete_at(place) }
    }

    /// How many elements of a tree have come by all its edges into this rank; all where there are none.
    fn complete_at(&self, place: &Place) -> usize {
        let done = |&(stream, edge): &(usize, usize)| self.receiving[stream].edges[edge].done;
        place.inputs.iter().map(done).min().unwrap_or(place.elements.len())
    }

    /// From the first of these elements on, how many have been added up here.
    fn summed(&self, elements: &Range<usize>) -> usize {
        let mut to = elements.start;
        for &ending in &self.ending {
            let place = &self.places[ending];
            if place.elements.end <= to {
                continue;
            }
            let done = place.elements.start + self.complete_at(place);
            if place.elements.start > to || done <= to {
                break;
            }
            to = done;
            if to < place.elements.end || to >= elements.end {
                break;
            }
        }
        to.min(elements.end) - elements.start
    }

    /// Of the edges whose next chunk is ready, the one that is least far in proportion.
    fn choose(&self, out: usize) -> Option<usize> {
        let edges = &self.sending[out].edges;
        let ready = |edge: &&Edge| {
            let left = edge.elements.len() - edge.done;
            left > 0 && self.ready(&self.places[edge.place]) - edge.done >= left.min(CHUNK)
        };
        let far = |edge: &Edge| (edge.done as u128, edge.elements.len() as u128);
        let mut best: Option<(usize, &Edge)> = None;
        for (at, edge) in edges.iter().enumerate().filter(|(_, edge)| ready(edge)) {
            // done / len < best.done / best.len, without rounding.
            if best.is_none_or(|(_, other)| far(edge).0 * far(other).1 < far(other).0 * far(edge).1) {
                best = Some((at, edge));
            }
        }
        best.map(|(at, _)| at)
    }
}

impl Exchange for Trees {
    fn streams(&self) -> &Streams {
        &self.streams
    }
    fn begin(&mut self, iteration: u64) {
        for edge in self.sending.iter_mut().flat_map(|s| &mut s.edges) {
            edge.done = 0;
        }
        for receiving in &mut self.receiving {
            receiving.edges.iter_mut().for_each(|edge| edge.done = 0);
            (receiving.chunk, receiving.arrived) = (None, 0);
        }
        self.sending.iter_mut().for_each(|s| s.chunk = None);
        if self.is_relay() {
            self.buffer.fill(0.0);
        } else {
            buffer::fill_before(self.collective, &mut self.buffer, &self.own, self.rank, iteration);
        }
    }
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2] {
        let over = |chunk: &Chunk| at >= chunk.at + bytes(&chunk.elements);
        if self.sending[out].chunk.as_ref().is_none_or(over) {
            let Some(edge) = self.choose(out) else { return [&[], &[]] };
            let sending = &mut self.sending[out];
            let chosen = &mut sending.edges[edge];
            let start = chosen.elements.start + chosen.done;
            let elements = start..chosen.elements.end.min(start + CHUNK);
            chosen.done += elements.len();
            sending.chunk = Some(Chunk { at, word: (edge as u32).to_le_bytes(), elements });
        }
        let Some(chunk) = &self.sending[out].chunk else { return [&[], &[]] };
        let gone = (at - chunk.at) as usize;
        let body: &[u8] = bytemuck::cast_slice(&self.buffer[chunk.elements.clone()]);
        let rest = &body[gone.saturating_sub(WORD)..];
        [&chunk.word[gone.min(WORD)..], &rest[..rest.len().min(most)]]
    }
    fn arrived(&self, input: usize) -> u64 {
        self.receiving[input].arrived
    }
    fn accept(&mut self, input: usize, mut data: &[f32]) -> Result<(), JobError> {
        let receiving = &mut self.receiving[input];
        let peer = || format!("member {}", self.streams.ins[input].peer);
        while let Some(first) = data.first() {
            let (edge, left) = match receiving.chunk {
                Some(chunk) => chunk,
                None => {
                    let edge = u32::from_le(first.to_bits()) as usize;
                    let known = receiving.edges.get(edge).map(|edge| edge.elements.len() - edge.done);
                    let Some(left) = known.filter(|left| *left > 0) else {
                        let what = format!("sent a chunk of edge {edge}, which has nothing more to come");
                        return Err(JobError::Peer { peer: peer(), what });
                    };
                    receiving.arrived += WORD as u64;
                    data = &data[1..];
                    receiving.chunk = Some((edge, left.min(CHUNK)));
                    continue;
                }
            };
            let n = left.min(data.len());
            let (now, later) = data.split_at(n);
            let edge_state = &mut receiving.edges[edge];
            let start = edge_state.elements.start + edge_state.done;
            buffer::take(&mut self.buffer[start..start + n], now, edge_state.adds);
            edge_state.done += n;
            receiving.arrived += n as u64 * 4;
            receiving.chunk = (left > n).then_some((edge, left - n));
            data = later;
        }
        Ok(())
    }
    fn wrong(&self, iteration: u64) -> Option<Difference> {
        if self.is_relay() {
            return None; // What it passed on is checked where it ends.
        }
        buffer::wrong_after(self.collective, &self.buffer, &self.own, self.rank, iteration)
    }
}

/// Bytes of one chunk with its word.
fn bytes(elements: &Range<usize>) -> u64 {
    (WORD + elements.len() * 4) as u64
}

/// Bytes of all chunks of an edge.
fn length(elements: &Range<usize>) -> u64 {
    (elements.len() * 4 + elements.len().div_ceil(CHUNK) * WORD) as u64
}

#[cfg(test)]
pub(super) mod tests;
