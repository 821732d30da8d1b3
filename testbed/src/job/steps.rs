//! All-reduce, all-gather and reduce-scatter by a schedule: the steps of a plan, or its chunks in epochs.
//!
//! One connection carries everything from one rank to another, in the order of the plan, so no word on the way says what
//! it is. There is no barrier between ranks. A part of a step leaves when all that earlier steps bring its rank has come;
//! a chunk leaves when it has come itself, with everything that is added to it. What leaves by one link leaves in order,
//! also where switches behind it lead to several ranks. Every part enters a rank once and leaves it after that, so nothing
//! is overwritten before it is sent, and everything waits only for what began in earlier steps or epochs, or stands before
//! it in the plan's order: no plan can stop.

use std::collections::HashMap;
use std::ops::Range;

use sluice_plan::follow::{Followed, Sent, Waits};
use sluice_plan::plan::Collective;

use super::JobError;
use super::buffer::{self, Difference};
use super::exchange::{Exchange, Kind, Stream, Streams, stream_with};

/// One rank's part in a schedule.
#[derive(Debug)]
pub struct Steps {
    collective: Collective,
    rank: usize,
    /// Which elements each rank owns.
    own: Vec<Range<usize>>,
    buffer: Vec<f32>,
    streams: Streams,
    sending: Vec<Sending>,
    receiving: Vec<Receiving>,
    /// The links by which this rank sends.
    links: Vec<Link>,
}

/// What leaves by a stream, part by part, and how far it is.
#[derive(Debug, Default)]
struct Sending {
    parts: Vec<Leaving>,
    at: usize,
}

/// What comes by a stream, part by part, and how far it is.
#[derive(Debug, Default)]
struct Receiving {
    parts: Vec<Part>,
    at: usize,
    /// Bytes that have come.
    arrived: u64,
}

#[derive(Debug)]
struct Part {
    elements: Range<usize>,
    adds: bool,
    /// Where it begins in the stream, in bytes.
    begins: u64,
}

/// A part that leaves this rank.
#[derive(Debug)]
struct Leaving {
    part: Part,
    /// What must have come before.
    after: Vec<Come>,
    /// Which of this rank's links it leaves by.
    link: usize,
}

/// So many bytes of an incoming stream.
#[derive(Clone, Copy, Debug)]
struct Come {
    input: usize,
    bytes: u64,
}

/// Whose turn it is on a link.
#[derive(Debug, Default)]
struct Link {
    /// The streams of the parts that leave by it, in the order of the plan.
    order: Vec<usize>,
    /// How many have left.
    at: usize,
}

impl Part {
    fn ends(&self) -> u64 {
        self.begins + self.elements.len() as u64 * 4
    }
}

impl Steps {
    /// The place of `rank` in a schedule over `bytes` of data.
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
            own: (0..ranks).map(own).collect(),
            buffer: vec![0.0; real],
            streams: Streams { identity: plan.sha256.clone(), ..Streams::default() },
            sending: Vec::new(),
            receiving: Vec::new(),
            links: Vec::new(),
        };
        let mut before = Before { waits: plan.steps.waits, ..Before::default() };
        let mut links = HashMap::new();
        for sent in &plan.steps.sent {
            let elements = element(sent.first)..element(sent.end);
            // Units can be smaller than an element.
            if elements.is_empty() {
                continue;
            }
            if sent.from as usize == rank {
                let out = stream_with(&mut steps.streams.outs, sent.to as usize, Kind::Steps);
                let next = links.len();
                let link = *links.entry(sent.link).or_insert(next);
                steps.links.resize_with(links.len(), Link::default);
                steps.sending.resize_with(steps.streams.outs.len(), Sending::default);
                let part = part(&mut steps.streams.outs[out], elements, sent.adds);
                steps.links[link].order.push(out);
                steps.sending[out].parts.push(Leaving { part, after: before.of(sent), link });
            } else if sent.to as usize == rank {
                let input = stream_with(&mut steps.streams.ins, sent.from as usize, Kind::Steps);
                steps.receiving.resize_with(steps.streams.ins.len(), Receiving::default);
                let part = part(&mut steps.streams.ins[input], elements, sent.adds);
                before.comes(sent, Come { input, bytes: part.ends() });
                steps.receiving[input].parts.push(part);
            }
        }
        steps
    }

    /// May this part begin by now?
    fn ready(&self, out: usize, leaving: &Leaving) -> bool {
        let link = &self.links[leaving.link];
        let come = |come: &Come| self.receiving[come.input].arrived >= come.bytes;
        link.order.get(link.at) == Some(&out) && leaving.after.iter().all(come)
    }
}

/// What has come to a rank before each part that leaves it, while the plan is gone through in its order.
#[derive(Default)]
struct Before {
    waits: Waits,
    /// By the first unit of a chunk: all that brings it.
    chunks: HashMap<u64, Vec<Come>>,
    /// The step that `earlier` is before.
    step: u32,
    earlier: Vec<Come>,
    /// What comes in this step.
    now: Vec<Come>,
}

impl Before {
    fn comes(&mut self, sent: &Sent, come: Come) {
        match self.waits {
            Waits::Chunk => self.chunks.entry(sent.first).or_default().push(come),
            Waits::Step => {
                self.enter(sent.step);
                self.now.push(come);
            }
        }
    }

    fn of(&mut self, sent: &Sent) -> Vec<Come> {
        match self.waits {
            Waits::Chunk => self.chunks.get(&sent.first).cloned().unwrap_or_default(),
            Waits::Step => {
                self.enter(sent.step);
                self.earlier.clone()
            }
        }
    }

    /// What came in the steps until now is earlier from the next step on; of every stream the last counts.
    fn enter(&mut self, step: u32) {
        if step != self.step {
            self.step = step;
            for come in self.now.drain(..) {
                self.earlier.retain(|other| other.input != come.input);
                self.earlier.push(come);
            }
        }
    }
}

/// The next part of a stream.
fn part(stream: &mut Stream, elements: Range<usize>, adds: bool) -> Part {
    let part = Part { elements, adds, begins: stream.bytes };
    stream.bytes = part.ends();
    part
}

impl Exchange for Steps {
    fn streams(&self) -> &Streams {
        &self.streams
    }
    fn begin(&mut self, iteration: u64) {
        self.sending.iter_mut().for_each(|sending| sending.at = 0);
        self.links.iter_mut().for_each(|link| link.at = 0);
        self.receiving.iter_mut().for_each(|receiving| (receiving.at, receiving.arrived) = (0, 0));
        buffer::fill_before(self.collective, &mut self.buffer, &self.own, self.rank, iteration);
    }
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2] {
        let sending = &mut self.sending[out];
        while let Some(gone) = sending.parts.get(sending.at).filter(|leaving| at >= leaving.part.ends()) {
            self.links[gone.link].at += 1;
            sending.at += 1;
        }
        let sending = &self.sending[out];
        let next = sending.parts.get(sending.at).filter(|leaving| self.ready(out, leaving));
        let Some(Leaving { part, .. }) = next else { return [&[], &[]] };
        let body: &[u8] = bytemuck::cast_slice(&self.buffer[part.elements.clone()]);
        let rest = &body[(at - part.begins) as usize..];
        [&rest[..rest.len().min(most)], &[]]
    }
    fn arrived(&self, input: usize) -> u64 {
        self.receiving[input].arrived
    }
    fn accept(&mut self, input: usize, mut data: &[f32]) -> Result<(), JobError> {
        let receiving = &mut self.receiving[input];
        while !data.is_empty() {
            let Some(part) = receiving.parts.get(receiving.at) else {
                let peer = format!("member {}", self.streams.ins[input].peer);
                return Err(JobError::Peer { peer, what: "sent more than the plan says".into() });
            };
            let start = part.elements.start + ((receiving.arrived - part.begins) / 4) as usize;
            let (now, later) = data.split_at(data.len().min(part.elements.end - start));
            buffer::take(&mut self.buffer[start..start + now.len()], now, part.adds);
            receiving.arrived += now.len() as u64 * 4;
            if receiving.arrived == part.ends() {
                receiving.at += 1;
            }
            data = later;
        }
        Ok(())
    }
    fn wrong(&self, iteration: u64) -> Option<Difference> {
        buffer::wrong_after(self.collective, &self.buffer, &self.own, self.rank, iteration)
    }
}

#[cfg(test)]
mod tests;
