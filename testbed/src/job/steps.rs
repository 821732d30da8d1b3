//! All-reduce, all-gather and reduce-scatter by the steps of a plan: a rank begins a step when all that earlier steps
//! bring it has come.
//!
//! One connection carries everything from one rank to another, in the order of the plan, so no word on the way says what
//! it is. There is no barrier between ranks: a step of one may overlap the next of another that has what it needs. Every
//! part enters a rank once and leaves it after that, so nothing is overwritten before it is sent, and a step waits only
//! for earlier ones: no plan can stop.

use std::ops::Range;

use sluice_plan::follow::{Followed, Sent};
use sluice_plan::plan::Collective;

use super::exchange::{Exchange, Kind, Stream};
use super::{JobError, buffer};

/// One rank's part in a step schedule.
#[derive(Debug)]
pub struct Steps {
    collective: Collective,
    rank: usize,
    identity: String,
    /// Which elements each rank owns.
    own: Vec<Range<usize>>,
    buffer: Vec<f32>,
    outs: Vec<Stream>,
    ins: Vec<Stream>,
    sending: Vec<Line>,
    receiving: Vec<Line>,
}

/// What a stream carries, part by part, and how far it is.
#[derive(Debug, Default)]
struct Line {
    parts: Vec<Part>,
    at: usize,
    /// Bytes that have come.
    arrived: u64,
}

#[derive(Debug)]
struct Part {
    step: u32,
    elements: Range<usize>,
    adds: bool,
    /// Where it begins in the stream, in bytes.
    begins: u64,
}

impl Part {
    fn ends(&self) -> u64 {
        self.begins + self.elements.len() as u64 * 4
    }
}

impl Steps {
    /// The place of `rank` in a step schedule over `bytes` of data.
    pub fn new(plan: &Followed, rank: usize, bytes: u64) -> Steps {
        let real = usize::try_from(bytes.div_ceil(4)).unwrap_or(usize::MAX);
        let ranks = plan.participants.len();
        let units = plan.steps.shard * ranks as u64;
        let element = |unit: u64| (u128::from(unit) * real as u128 / u128::from(units.max(1))) as usize;
        let own = |rank: usize| {
            let first = rank as u64 * plan.steps.shard;
            element(first)..element(first + plan.steps.shard)
        };
        let mut steps = Steps {
            collective: plan.collective,
            rank,
            identity: plan.sha256.clone(),
            own: (0..ranks).map(own).collect(),
            buffer: vec![0.0; real],
            outs: Vec::new(),
            ins: Vec::new(),
            sending: Vec::new(),
            receiving: Vec::new(),
        };
        for sent in &plan.steps.sent {
            let elements = element(sent.first)..element(sent.end);
            // Units can be smaller than an element.
            if elements.is_empty() {
                continue;
            }
            if sent.from as usize == rank {
                join(&mut steps.outs, &mut steps.sending, sent.to, sent, elements);
            } else if sent.to as usize == rank {
                join(&mut steps.ins, &mut steps.receiving, sent.from, sent, elements);
            }
        }
        steps
    }

    /// The first step for which something is still to come to this rank; later steps must wait for it.
    fn current(&self) -> u32 {
        let open = |line: &Line| line.parts.get(line.at).map(|part| part.step);
        self.receiving.iter().filter_map(open).min().unwrap_or(u32::MAX)
    }
}

/// Adds a part to the stream with this peer, which is made if it is new.
fn join(streams: &mut Vec<Stream>, lines: &mut Vec<Line>, peer: u32, sent: &Sent, elements: Range<usize>) {
    let peer = peer as usize;
    let known = streams.iter().position(|stream| stream.peer == peer);
    let place = known.unwrap_or_else(|| {
        streams.push(Stream { peer, kind: Kind::Steps, bytes: 0 });
        lines.push(Line::default());
        streams.len() - 1
    });
    let begins = streams[place].bytes;
    let part = Part { step: sent.step, elements, adds: sent.adds, begins };
    streams[place].bytes = part.ends();
    lines[place].parts.push(part);
}

impl Exchange for Steps {
    fn outs(&self) -> &[Stream] {
        &self.outs
    }
    fn ins(&self) -> &[Stream] {
        &self.ins
    }
    fn identity(&self) -> &str {
        &self.identity
    }
    fn begin(&mut self, iteration: u64) {
        self.sending.iter_mut().chain(&mut self.receiving).for_each(|line| (line.at, line.arrived) = (0, 0));
        buffer::fill_before(self.collective, &mut self.buffer, &self.own, self.rank, iteration);
    }
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2] {
        let current = self.current();
        let line = &mut self.sending[out];
        while line.parts.get(line.at).is_some_and(|part| at >= part.ends()) {
            line.at += 1;
        }
        let Some(part) = line.parts.get(line.at).filter(|part| part.step <= current) else { return [&[], &[]] };
        let body: &[u8] = bytemuck::cast_slice(&self.buffer[part.elements.clone()]);
        let rest = &body[(at - part.begins) as usize..];
        [&rest[..rest.len().min(most)], &[]]
    }
    fn arrived(&self, input: usize) -> u64 {
        self.receiving[input].arrived
    }
    fn accept(&mut self, input: usize, mut data: &[f32]) -> Result<(), JobError> {
        let line = &mut self.receiving[input];
        while !data.is_empty() {
            let Some(part) = line.parts.get(line.at) else {
                let peer = format!("member {}", self.ins[input].peer);
                return Err(JobError::Peer { peer, what: "sent more than the plan says".into() });
            };
            let start = part.elements.start + ((line.arrived - part.begins) / 4) as usize;
            let (now, later) = data.split_at(data.len().min(part.elements.end - start));
            buffer::take(&mut self.buffer[start..start + now.len()], now, part.adds);
            line.arrived += now.len() as u64 * 4;
            if line.arrived == part.ends() {
                line.at += 1;
            }
            data = later;
        }
        Ok(())
    }
    fn complete(&self) -> bool {
        self.ins.iter().zip(&self.receiving).all(|(stream, line)| line.arrived == stream.bytes)
    }
    fn wrong(&self, iteration: u64) -> Option<(usize, f32, f32)> {
        buffer::wrong_after(self.collective, &self.buffer, &self.own, self.rank, iteration)
    }
}

#[cfg(test)]
mod tests;
