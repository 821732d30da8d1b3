//! Crossings as messages: what a runtime, which knows no epochs, does in their order.
//!
//! Of copies, each rank takes the first of every chunk. Of sums, a rank sends all that it has by then, which may be more
//! than the plan says, since messages that are under way in the plan have come already; the send that the plan has for
//! those later sends nothing and is left out. No input stays behind: whatever comes to a rank, the plan has it send that
//! chunk later, so that it goes on until it is where the sum ends.

use std::collections::{HashMap, HashSet};

use crate::export::messages::{Message, Messages};
use crate::interpret::{Buffer, Place};
use crate::merge::Crossing;

/// Rank, owner and number of a chunk.
type Cell = (u32, u32, u64);

/// Fills in the messages, by step and first chunk.
pub fn lower(mut layout: Messages, crossings: Vec<Crossing>) -> Messages {
    let mut crossings = first_copies(crossings);
    crossings.sort_by_key(|crossing| (crossing.epoch, crossing.from, crossing.to, crossing.owner, crossing.number));
    let mut slots = Slots::default();
    let mut steps = Steps::default();
    let mut all: Vec<(Crossing, Message)> = Vec::with_capacity(crossings.len());
    for crossing in crossings {
        let Some(Stage { step, adds }) = steps.stage(&crossing) else { continue };
        let (owner, number) = (crossing.owner, crossing.number);
        // Below the chunks of the layout.
        let mut place = |rank: u32| {
            let place = layout.place(rank, owner, number as u32);
            place.unwrap_or_else(|| slots.of((rank, owner, number), &mut layout.scratch[rank as usize]))
        };
        let (source, target) = (place(crossing.from), place(crossing.to));
        let moves = crossing.reduces;
        let (from, to) = (crossing.from, crossing.to);
        all.push((crossing, Message { step, from, to, channel: 0, source, target, count: 1, adds, moves }));
    }
    all.dedup_by(|(next_of, next), (last_of, last)| {
        let follows = |a: Place, b: Place| (a.buffer, a.offset) == (b.buffer, b.offset + last.count);
        let joins = (next.step, next.from, next.to) == (last.step, last.from, last.to)
            && (next.adds, next.moves, next_of.owner) == (last.adds, last.moves, last_of.owner)
            && follows(next.source, last.source)
            && follows(next.target, last.target);
        if joins {
            last.count += 1;
        }
        joins
    });
    all.sort_by_key(|(of, message)| (message.step, of.owner, of.number, message.from, message.to));
    layout.all = all.into_iter().map(|(_, message)| message).collect();
    layout.steps = steps.count();
    layout
}

/// Leaves out copies to who has the chunk by then, or owns it.
fn first_copies(mut crossings: Vec<Crossing>) -> Vec<Crossing> {
    let mut first: HashMap<Cell, (u64, usize)> = HashMap::new();
    for crossing in crossings.iter().filter(|crossing| !crossing.reduces) {
        let arrival = (crossing.usable, crossing.at);
        let known = first.entry((crossing.to, crossing.owner, crossing.number)).or_insert(arrival);
        *known = arrival.min(*known);
    }
    crossings.retain(|crossing| {
        let cell = (crossing.to, crossing.owner, crossing.number);
        let taken = |of: &mut HashMap<Cell, (u64, usize)>| {
            // A switch that copies may send twice to one rank what left its own once.
            let first = of.get(&cell) == Some(&(crossing.usable, crossing.at));
            first && of.remove(&cell).is_some()
        };
        crossing.reduces || crossing.to != crossing.owner && taken(&mut first)
    });
    crossings
}

/// Where ranks keep what they only pass on.
#[derive(Default)]
struct Slots(HashMap<Cell, u32>);

impl Slots {
    fn of(&mut self, cell: Cell, used: &mut u32) -> Place {
        let offset = *self.0.entry(cell).or_insert_with(|| {
            *used += 1;
            *used - 1
        });
        Place { buffer: Buffer::Scratch, offset }
    }
}

/// When a message goes, and whether it is added to what is there.
struct Stage {
    step: u32,
    adds: bool,
}

/// The steps of messages, without idle epochs between. Within a step no rank sends what it receives, so that it does not
/// matter which of the two is first; where it would, the epoch becomes several steps.
#[derive(Default)]
struct Steps {
    /// The epoch and the step of the last message.
    now: Option<(u32, u32)>,
    /// Sums that were sent on, by who has nothing of them now.
    gone: HashSet<Cell>,
    /// Sums that were sent, received, and received where nothing was, in this step.
    sent: HashSet<Cell>,
    received: HashSet<Cell>,
    begun: HashSet<Cell>,
}

impl Steps {
    fn count(&self) -> u32 {
        self.now.map_or(0, |(_, step)| step + 1)
    }
    fn clear(&mut self) {
        for set in [&mut self.sent, &mut self.received, &mut self.begun] {
            set.clear();
        }
    }
    /// The stage of the next crossing; `None` where its sender has nothing to send.
    fn stage(&mut self, crossing: &Crossing) -> Option<Stage> {
        let [source, target] = [crossing.from, crossing.to].map(|rank| (rank, crossing.owner, crossing.number));
        if crossing.reduces && self.gone.contains(&source) {
            return None;
        }
        let meets = self.received.contains(&source) || self.sent.contains(&target) || self.begun.contains(&target);
        let step = match self.now {
            None => 0,
            Some((epoch, step)) if epoch == crossing.epoch && !meets => step,
            Some((_, step)) => {
                self.clear();
                step + 1
            }
        };
        self.now = Some((crossing.epoch, step));
        if !crossing.reduces {
            return Some(Stage { step, adds: false });
        }
        self.gone.insert(source);
        self.sent.insert(source);
        let adds = !self.gone.remove(&target);
        self.received.insert(target);
        if !adds {
            self.begun.insert(target);
        }
        Some(Stage { step, adds })
    }
}
