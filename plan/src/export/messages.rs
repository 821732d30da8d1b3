//! Steps as a runtime sees them: messages between ranks, with the chunks they read and write.
//!
//! Every shard has P chunks, one per unit. What a rank has already is not sent to it again, and neighbouring parts of one
//! step over one link are one message. A partial sum that was sent on is gone: what arrives there later takes its place.

use std::collections::HashMap;

use super::{INTERNAL_INVARIANT, UNSUPPORTED_FIELD};
use crate::interpret::{Buffer, Place};
use crate::plan::{Collective, Op, Plan, Shard, Step, Steps};
use sluice_formats::problem::{E_LIMIT, Problem, Problems};
use sluice_formats::topology::Topology;

/// Chunks of all shards at most.
const MAX_CHUNKS: u64 = 1 << 24;
/// Chunks of all ranks at most.
const MAX_CELLS: u64 = 1 << 31;
/// Messages at most, each of which becomes a send and a receive.
const MAX_MESSAGES: usize = 1 << 22;

/// A plan over ranks.
#[derive(Clone, Debug)]
pub struct Messages {
    /// Chunks of every rank's own shard; of an all-to-all, of its part for each rank.
    pub shards: Vec<u32>,
    /// Chunks before each of them.
    before: Vec<u32>,
    /// Chunks of all of them together.
    pub chunks: u32,
    /// Chunks that every rank only passes on, beside its input and output.
    pub scratch: Vec<u32>,
    pub collective: Collective,
    /// Steps of the plan.
    pub steps: u32,
    /// By step and first chunk.
    pub all: Vec<Message>,
}

/// Consecutive chunks over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The step, from 0.
    pub step: u32,
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Which of the parallel links from the one to the other.
    pub channel: u32,
    /// Where the first chunk is read.
    pub source: Place,
    /// Where it is written.
    pub target: Place,
    pub count: u32,
    /// Is it added to what is there?
    pub adds: bool,
    /// Is it a sum, which leaves the sender?
    pub moves: bool,
}

/// A rank's own part on its way from input to output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPart {
    pub source: Place,
    pub target: Place,
    pub count: u32,
}

impl OwnPart {
    /// The whole input, to this place in the output.
    pub fn gathered(offset: u32, count: u32) -> OwnPart {
        let place = |buffer, offset| Place { buffer, offset };
        OwnPart { source: place(Buffer::Input, 0), target: place(Buffer::Output, offset), count }
    }
}

impl Messages {
    /// Nothing is sent yet. All shards together have less than 2³² chunks.
    pub fn new(collective: Collective, shards: Vec<u32>) -> Messages {
        let (mut chunks, mut before) = (0, Vec::with_capacity(shards.len()));
        for shard in &shards {
            before.push(chunks);
            chunks += shard;
        }
        let scratch = vec![0; shards.len()];
        Messages { shards, before, chunks, scratch, collective, steps: 0, all: Vec::new() }
    }
    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.shards.len() as u32
    }
    /// Do outputs hold inputs side by side?
    fn gathers(&self) -> bool {
        matches!(self.collective, Collective::AllGather | Collective::Broadcast)
    }
    /// Chunks of a rank's input, output and scratch.
    pub fn sizes(&self, rank: u32) -> [u32; 3] {
        let (own, all, scratch) = (self.shards[rank as usize], self.chunks, self.scratch[rank as usize]);
        match self.collective {
            Collective::AllGather | Collective::Broadcast => [own, all, scratch],
            Collective::AllReduce | Collective::AllToAll => [all, all, scratch],
            _ => [all, own, scratch],
        }
    }
    /// Where a rank has chunk `number` of the shard of `owner`, unless it only passes it on. Chunk `number` of an
    /// all-to-all is for the rank whose part it is in.
    pub fn place(&self, rank: u32, owner: u32, number: u32) -> Option<Place> {
        let input = |offset| Some(Place { buffer: Buffer::Input, offset });
        let output = |offset| Some(Place { buffer: Buffer::Output, offset });
        match self.collective {
            Collective::AllToAll => {
                let part = self.shards[rank as usize];
                match (owner == rank, number / part == rank) {
                    (true, _) => input(number),
                    (false, true) => output(owner * part + number % part),
                    (false, false) => None,
                }
            }
            _ if !self.gathers() => input(self.before[owner as usize] + number),
            _ if owner == rank => input(number),
            _ => output(self.before[owner as usize] + number),
        }
    }
    /// What a rank copies before it sends anything.
    pub fn own_part(&self, rank: u32) -> Option<OwnPart> {
        let (count, offset) = (self.shards[rank as usize], self.before[rank as usize]);
        let gathered = OwnPart::gathered(offset, count);
        match self.collective {
            Collective::AllToAll => Some(OwnPart { source: Place { buffer: Buffer::Input, offset }, ..gathered }),
            _ => (self.gathers() && count > 0).then_some(gathered),
        }
    }
}

/// Puts a plan that the checker found right into ranks and chunks.
pub fn messages(plan: &Plan, topology: &Topology, steps: &Steps) -> Result<Messages, Problems> {
    let collective = plan.body.collective;
    if !matches!(collective, Collective::AllGather | Collective::ReduceScatter | Collective::AllReduce) {
        let error = Problem::new(UNSUPPORTED_FIELD, "/collective", "steps for this collective are not exported");
        return Err(error.found(collective.word()).allowed("allgather, reduce_scatter, allreduce").into());
    }
    let nodes: Vec<Option<usize>> = match &plan.body.participants {
        Some(list) => list.iter().map(|node| topology.node(plan.id(*node))).collect(),
        None => topology.compute().into_iter().map(Some).collect(),
    };
    let ranks: HashMap<usize, u32> = nodes.iter().zip(0..).filter_map(|(node, rank)| Some(((*node)?, rank))).collect();
    let n = nodes.len() as u64;
    let uneven = nodes.iter().flatten().find(|node| topology.nodes()[**node].weight != 1);
    if let Some(node) = uneven {
        let error = Problem::new(UNSUPPORTED_FIELD, format!("/topology/inline/nodes/{node}/weight"), "unequal shards");
        return Err(error.found(topology.nodes()[*node].weight.to_string()).allowed("1").into());
    }
    let chunks = n.saturating_mul(steps.p);
    if chunks > MAX_CHUNKS || chunks * n > MAX_CELLS {
        let error = Problem::new(E_LIMIT, "/content/P", "the program would be too large");
        let found = format!("{chunks} chunks on each of {n} ranks");
        let error = error.found(found).allowed(format!("{MAX_CHUNKS} chunks, {MAX_CELLS} on all ranks"));
        return Err(error.help("plan with fewer units per shard: --chunks").into());
    }
    let (shard, steps_count) = (steps.p as u32, steps.steps.len() as u32);
    let mut done = Messages { steps: steps_count, ..Messages::new(collective, vec![shard; nodes.len()]) };
    let mut state = State::new(&done, shard);
    let ways = ways(topology, &ranks);
    let mut copying = false;
    for (number, step) in (0..).zip(&steps.steps) {
        if step.op == Op::Copy && !std::mem::replace(&mut copying, true) {
            state.owners_only();
        }
        let parts = parts(step, shard, &ways)?;
        state.step(number, step.op, &parts, &mut done)?;
    }
    Ok(done)
}

/// A link as (from rank, to rank, which of the parallel ones).
type Way = (u32, u32, u32);

fn ways(topology: &Topology, ranks: &HashMap<usize, u32>) -> Vec<Option<Way>> {
    let mut parallel: HashMap<(u32, u32), u32> = HashMap::new();
    let way = |link: &sluice_formats::topology::Link| {
        let (from, to) = (*ranks.get(&link.from)?, *ranks.get(&link.to)?);
        let next = parallel.entry((from, to)).or_default();
        *next += 1;
        Some((from, to, *next - 1))
    };
    topology.links().iter().map(way).collect()
}

/// What a step sends, by link and first chunk, neighbours joined: way, first chunk, the chunk after the last.
fn parts(step: &Step, shard: u32, ways: &[Option<Way>]) -> Result<Vec<(Way, u32, u32)>, Problems> {
    let defect =
        || Problems::from(Problem::new(INTERNAL_INVARIANT, "/content/steps", "the checker let pass a bad send"));
    let mut parts = Vec::with_capacity(step.sends.len());
    for send in &step.sends {
        let (Shard::Of(owner), Some(Some(way))) = (send.shard, ways.get(send.link as usize)) else {
            return Err(defect());
        };
        let place = |unit: u64| u32::try_from(unit).ok().and_then(|unit| (owner * shard).checked_add(unit));
        parts.push((*way, place(send.lo).ok_or_else(defect)?, place(send.hi).ok_or_else(defect)?));
    }
    parts.sort_unstable();
    parts.dedup_by(|next, last| {
        // An all-gather reads a rank's own shard from another buffer: parts meet only within it.
        let own = next.0.0 * shard;
        let joins = next.0 == last.0 && next.1 == last.2 && next.1 != own && next.1 != own + shard;
        if joins {
            last.2 = next.2;
        }
        joins
    });
    Ok(parts)
}

/// Which chunks every rank has.
struct State {
    has: Vec<bool>,
    ranks: usize,
    chunks: usize,
    shard: usize,
}

impl State {
    /// Everybody has its input: of everything, or for an all-gather its own shard.
    fn new(messages: &Messages, shard: u32) -> State {
        let (ranks, shard) = (messages.shards.len(), shard as usize);
        let gathers = messages.collective == Collective::AllGather;
        let mut state = State { has: vec![!gathers; ranks * ranks * shard], ranks, chunks: ranks * shard, shard };
        if gathers {
            state.owners_only();
        }
        state
    }
    /// The sums are complete: only their owners have them.
    fn owners_only(&mut self) {
        self.has.fill(false);
        for rank in 0..self.ranks {
            let own = rank * self.chunks + rank * self.shard;
            self.has[own..own + self.shard].fill(true);
        }
    }
    fn at(&mut self, rank: u32, chunk: u32) -> &mut bool {
        &mut self.has[rank as usize * self.chunks + chunk as usize]
    }

    /// Cuts parts into messages: copies only of what is not there yet, sums by whether there is one to add to.
    fn step(&mut self, step: u32, op: Op, parts: &[(Way, u32, u32)], done: &mut Messages) -> Result<(), Problems> {
        let adds = op == Op::Reduce;
        if adds {
            for ((from, ..), first, end) in parts {
                (*first..*end).for_each(|chunk| *self.at(*from, chunk) = false);
            }
        }
        let begin = done.all.len();
        for &((from, to, channel), first, end) in parts {
            let mut at = first;
            while at < end {
                let there = *self.at(to, at);
                let run = (at..end).take_while(|chunk| *self.at(to, *chunk) == there).count() as u32;
                (at..at + run).for_each(|chunk| *self.at(to, chunk) = true);
                if adds || !there {
                    let (owner, number) = (at / self.shard as u32, at % self.shard as u32);
                    let ends = done.place(from, owner, number).zip(done.place(to, owner, number));
                    let message = |(source, target)| Message {
                        step,
                        from,
                        to,
                        channel,
                        source,
                        target,
                        count: run,
                        adds: adds && there,
                        moves: adds,
                    };
                    done.all.extend(ends.map(message));
                }
                at += run;
            }
        }
        if done.all.len() > MAX_MESSAGES {
            let error = Problem::new(E_LIMIT, "/content/steps", "the program would be too large");
            return Err(error
                .found(format!("{} messages", done.all.len()))
                .allowed(format!("at most {MAX_MESSAGES}"))
                .into());
        }
        done.all[begin..].sort_by_key(|message| (message.target.offset, message.from, message.to, message.channel));
        Ok(())
    }
}
