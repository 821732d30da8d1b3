//! The flows of a plan of rates, weights or an order: bytes that stand for data, sent flow by flow in the plan's lanes.
//!
//! A lane is a connection of its own, also where several lead from one rank to another, since each has a rate of its own.
//! Both ends have them in the order of the plan. A flow begins when the flows of its lane before it have left and all it
//! waits for has come completely; the bytes of a plan are its own, in whole floats. Of what a flow waits for, a rank knows
//! only what comes to itself. The flow before in a chain always does; a flow that the plan names besides may end elsewhere,
//! and is not waited for: nothing on the way could say that it has ended.
//!
//! The plan does not say what the bytes mean, so nothing is added up. Every word is computed from iteration, lane and place,
//! at both ends, which finds bytes that were lost, doubled, damaged or sent on another lane, and needs no memory.

use std::collections::HashMap;
use std::ops::Range;

use sluice_plan::follow::{Arrival, Followed, Transfer};

use super::JobError;
use super::buffer::Difference;
use super::exchange::{Exchange, Kind, LaneFlow, Stream, Streams};

/// Most bytes of a lane.
const MAX_LANE: u64 = 1 << 40;
/// Words that are computed at once.
const SCRATCH: usize = 16_384;
/// Bytes of a word.
const WORD: u64 = 4;

/// One rank's part in the flows of a plan.
#[derive(Debug)]
pub struct Transfers {
    streams: Streams,
    sending: Vec<Sending>,
    receiving: Vec<Receiving>,
    /// The first word of this round that came as another.
    wrong: Option<Difference>,
}

/// A lane that leaves this rank.
#[derive(Debug)]
struct Sending {
    lane: Lane,
    /// What each flow waits for.
    after: Vec<Vec<Come>>,
    /// The flow that leaves, or leaves next.
    flow: usize,
    /// May it leave?
    open: bool,
    /// Words of the stream from `first` on.
    scratch: Vec<f32>,
    first: u64,
}

/// A lane that ends at this rank.
#[derive(Debug)]
struct Receiving {
    lane: Lane,
    /// Bytes that have come.
    arrived: u64,
}

/// What both ends know of a lane.
#[derive(Debug)]
struct Lane {
    number: usize,
    from: usize,
    to: usize,
    /// Where each flow ends, in bytes of whole words.
    ends: Vec<u64>,
    /// From what this round's words are computed.
    seed: u64,
    /// How many flows were told to have begun, or to have ended.
    told: usize,
}

/// So many bytes of an incoming lane.
#[derive(Clone, Copy, Debug)]
struct Come {
    input: usize,
    bytes: u64,
}

impl Transfers {
    /// The place of `rank` in the flows of a plan.
    ///
    /// # Errors
    /// [`JobError::Plan`] when a lane has more than 1 TiB.
    pub fn new(plan: &Followed, rank: usize) -> Result<Transfers, JobError> {
        let mut transfers = Transfers {
            streams: Streams { identity: plan.sha256.clone(), ..Streams::default() },
            sending: Vec::new(),
            receiving: Vec::new(),
            wrong: None,
        };
        let lanes = &plan.transfers.lanes;
        // How many lanes of a pair there were so far, and which stream each lane is that ends here.
        let (mut pairs, mut inputs) = (HashMap::new(), HashMap::new());
        for (number, of) in lanes.iter().enumerate() {
            let (from, to, bytes) = (of.from as usize, of.to as usize, of.bytes());
            if bytes > MAX_LANE {
                let what = format!("rank {from} is to send {bytes} bytes in one lane to rank {to}; 1 TiB is the most");
                return Err(JobError::Plan(what));
            }
            let ends: Vec<u64> = of.flows.iter().map(|flow| whole(flow.end)).collect();
            let lane = Lane { number, from, to, ends, seed: 0, told: 0 };
            let of_pair = pairs.entry((from, to)).or_insert(0);
            let stream = |peer| Stream { peer, kind: Kind::Transfers, lane: *of_pair, bytes: lane.bytes() };
            if from == rank {
                transfers.streams.outs.push(stream(to));
                transfers.sending.push(Sending::new(lane));
            } else if to == rank {
                transfers.streams.ins.push(stream(from));
                inputs.insert(number, transfers.receiving.len());
                transfers.receiving.push(Receiving { lane, arrived: 0 });
            }
            *of_pair += 1;
        }
        for sending in &mut transfers.sending {
            let come = |of: &Arrival| Some(Come { input: *inputs.get(&of.lane)?, bytes: whole(of.bytes) });
            let after = |flow: &Transfer| flow.after.iter().filter_map(come).collect();
            sending.after = lanes[sending.lane.number].flows.iter().map(after).collect();
        }
        Ok(transfers)
    }
}

/// Bytes in whole words.
fn whole(bytes: u64) -> u64 {
    bytes.div_ceil(WORD).saturating_mul(WORD)
}

impl Lane {
    fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
    fn starts(&mut self, iteration: u64) {
        self.seed = seed(iteration, self.number as u64);
        self.told = 0;
    }
    /// Where a flow begins.
    fn begin(&self, flow: usize) -> u64 {
        flow.checked_sub(1).map_or(0, |before| self.ends[before])
    }
    /// The next flow to be told of, if `by` says so of its bytes. Rounding may leave a tiny flow without bytes of its own:
    /// it is part of the one before, and not told of.
    fn tell(&mut self, by: impl FnOnce(Range<u64>) -> bool) -> Option<LaneFlow> {
        while self.ends.get(self.told).is_some_and(|end| *end == self.begin(self.told)) {
            self.told += 1;
        }
        let (flow, end) = (self.told, *self.ends.get(self.told)?);
        by(self.begin(flow)..end).then(|| {
            self.told += 1;
            LaneFlow { lane: self.number, flow, from: self.from, to: self.to }
        })
    }
}

/// From what the words of a lane are computed in an iteration.
fn seed(iteration: u64, lane: u64) -> u64 {
    let mut x = iteration.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(lane).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 32)
}

/// A word of a stream: a whole number below 2²⁴, which floats and people can read.
fn word(seed: u64, index: u64) -> f32 {
    ((seed ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32
}

impl Sending {
    fn new(lane: Lane) -> Sending {
        Sending { lane, after: Vec::new(), flow: 0, open: false, scratch: Vec::new(), first: 0 }
    }

    /// How far the stream may go when it is at `at`: to the end of a flow, or nowhere.
    fn until(&mut self, at: u64, receiving: &[Receiving]) -> u64 {
        while let (Some(end), Some(after)) = (self.lane.ends.get(self.flow), self.after.get(self.flow)) {
            self.open = self.open || after.iter().all(|come| receiving[come.input].arrived >= come.bytes);
            if !self.open || at < *end {
                return if self.open { *end } else { at };
            }
            self.flow += 1;
            self.open = false;
        }
        at
    }

    /// The words at `at`, computed unless they are there: what was offered and not taken is asked for again.
    fn words(&mut self, at: u64) -> &[u8] {
        let there = self.first * WORD..self.first * WORD + self.scratch.len() as u64 * WORD;
        if !there.contains(&at) {
            self.first = at / WORD;
            let left = usize::try_from(self.lane.bytes() / WORD - self.first).unwrap_or(usize::MAX);
            self.scratch.resize(left.min(SCRATCH), 0.0);
            let (seed, indices) = (self.lane.seed, self.first..);
            self.scratch.iter_mut().zip(indices).for_each(|(into, index)| *into = word(seed, index));
        }
        let bytes: &[u8] = bytemuck::cast_slice(&self.scratch);
        &bytes[(at - self.first * WORD) as usize..]
    }
}

impl Exchange for Transfers {
    fn streams(&self) -> &Streams {
        &self.streams
    }
    fn begin(&mut self, iteration: u64) {
        for sending in &mut self.sending {
            sending.lane.starts(iteration);
            (sending.flow, sending.open) = (0, false);
            sending.scratch.clear();
        }
        for receiving in &mut self.receiving {
            receiving.lane.starts(iteration);
            receiving.arrived = 0;
        }
        self.wrong = None;
    }
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2] {
        let sending = &mut self.sending[out];
        let left = sending.until(at, &self.receiving) - at;
        if left == 0 {
            return [&[], &[]];
        }
        let words = sending.words(at);
        let most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        [&words[..words.len().min(most)], &[]]
    }
    fn arrived(&self, input: usize) -> u64 {
        self.receiving[input].arrived
    }
    fn accept(&mut self, input: usize, data: &[f32]) -> Result<(), JobError> {
        let Receiving { lane, arrived } = &mut self.receiving[input];
        let first = *arrived / WORD;
        *arrived += data.len() as u64 * WORD;
        if *arrived > lane.bytes() {
            let peer = format!("member {}", self.streams.ins[input].peer);
            return Err(JobError::Peer { peer, what: "sent more than the plan says".into() });
        }
        let differs = |seen: &f32, index: u64| seen.to_bits() != word(lane.seed, index).to_bits();
        // Branch-free first, so that it runs at memory speed; the search only when something is wrong.
        let off = data.iter().zip(first..).fold(0, |off, (seen, index)| off | u32::from(differs(seen, index)));
        if off != 0 && self.wrong.is_none() {
            let found = data.iter().zip(first..).find(|(seen, index)| differs(seen, *index));
            self.wrong = found.map(|(&seen, index)| Difference {
                lane: Some(lane.number),
                element: index as usize,
                seen,
                expected: word(lane.seed, index),
            });
        }
        Ok(())
    }
    fn began(&mut self, out: usize, sent: u64) -> Option<LaneFlow> {
        self.sending[out].lane.tell(|bytes| sent > bytes.start)
    }
    fn ended(&mut self, input: usize) -> Option<LaneFlow> {
        let Receiving { lane, arrived } = &mut self.receiving[input];
        lane.tell(|bytes| *arrived >= bytes.end)
    }
    fn wrong(&self, _iteration: u64) -> Option<Difference> {
        self.wrong
    }
}

#[cfg(test)]
mod tests;
