//! Which blocks and steps the messages of a step schedule become: one block at each end of a link, in the order of the
//! schedule's steps.
//!
//! Parts of one step over one link that do not lie together are messages of their own, or, if that is asked for, are packed in
//! scratch, sent as one and unpacked there.
//!
//! A step waits for those of other blocks of its rank that touched its chunks before, so a program needs no barriers: a
//! message leaves as soon as what it carries is there.

use std::collections::BTreeMap;

use crate::export::messages::{Message, Messages};
use crate::interpret::{Buffer, Dependency, Op, Place, Program};

/// Fills in the blocks of a program.
pub fn build(program: &mut Program, messages: &Messages, consolidate: bool) {
    let mut last = Last::new(messages);
    for rank in 0..messages.ranks() {
        if let Some(own) = messages.own_part(rank) {
            program.add_own_part(rank, own);
        }
    }
    // The blocks at both ends of every link that carries something.
    let mut ends: BTreeMap<(u32, u32, u32), [u32; 2]> = BTreeMap::new();
    for message in &messages.all {
        ends.entry((message.from, message.to, message.channel)).or_default();
    }
    for ((from, to, channel), ends) in &mut ends {
        let mut block = |rank: u32, send, receive| program.gpus[rank as usize].add_block(receive, send, *channel);
        *ends = [block(*from, Some(*to), None), block(*to, None, Some(*from))];
    }
    let mut scratch = Scratch::default();
    for of_step in messages.all.chunk_by(|a, b| a.step == b.step) {
        let groups = groups(of_step, consolidate);
        // All sends before all receives: a step uses what was there before it.
        for (link, parts) in &groups {
            let (rank, [block, _]) = (link.0, ends[link]);
            let packed = (parts.len() > 1).then(|| places_of(&mut scratch, program, *link, ends[link], parts));
            let mut at = packed.map(|places| places[0]);
            for message in parts {
                let cells = last.cells(rank, message.source, message.count);
                let after = last.others(cells.clone(), block);
                let (op, to) = match &mut at {
                    Some(place) => (Op::Copy, take(place, message.count)),
                    None => (Op::Send, message.target),
                };
                let places = [message.source, to];
                let sent = program.add_step(rank, block, op, places, message.count, &after);
                // Copies of one thing may leave in any order; a sum that was sent makes room for another.
                if message.moves {
                    last.of[cells].fill(Some(sent));
                }
            }
            if let Some(places) = packed {
                program.add_step(rank, block, Op::Send, places, count(parts), &[]);
            }
        }
        for (link, parts) in &groups {
            let (rank, [_, block]) = (link.1, ends[link]);
            let packed = (parts.len() > 1).then(|| places_of(&mut scratch, program, *link, ends[link], parts));
            if let Some(places) = packed {
                program.add_step(rank, block, Op::Receive, places, count(parts), &[]);
            }
            let mut at = packed.map(|places| places[1]);
            for message in parts {
                let here = message.target;
                let (op, src) = match (&mut at, message.adds) {
                    (Some(place), true) => (Op::Reduce, take(place, message.count)),
                    (Some(place), false) => (Op::Copy, take(place, message.count)),
                    (None, true) => (Op::ReceiveReduceCopy, here),
                    (None, false) => (Op::Receive, message.source),
                };
                let cells = last.cells(rank, here, message.count);
                let after = last.others(cells.clone(), block);
                let received = program.add_step(rank, block, op, [src, here], message.count, &after);
                last.of[cells].fill(Some(received));
            }
        }
    }
}

/// A link as (from rank, to rank, which of the parallel ones).
type Link = (u32, u32, u32);

/// The messages of a step: each by itself, or all that go over one link together.
fn groups(of_step: &[Message], consolidate: bool) -> Vec<(Link, Vec<&Message>)> {
    let link = |message: &Message| (message.from, message.to, message.channel);
    if !consolidate {
        return of_step.iter().map(|message| (link(message), vec![message])).collect();
    }
    let mut by_link: BTreeMap<Link, Vec<&Message>> = BTreeMap::new();
    for message in of_step {
        by_link.entry(link(message)).or_default().push(message);
    }
    by_link.into_iter().collect()
}

/// The place, which moves on by so many chunks.
fn take(place: &mut Place, count: u32) -> Place {
    let here = *place;
    place.offset += count;
    here
}

fn count(parts: &[&Message]) -> u32 {
    parts.iter().map(|message| message.count).sum()
}

/// The room for packed messages: by rank and block, which uses it again and again, where it begins and how much it is.
#[derive(Debug, Default)]
struct Scratch(BTreeMap<(u32, u32), (u32, u32)>);

/// Where the two ends of a link pack and unpack these parts.
fn places_of(
    scratch: &mut Scratch,
    program: &mut Program,
    link: Link,
    blocks: [u32; 2],
    parts: &[&Message],
) -> [Place; 2] {
    let wanted = count(parts);
    [(link.0, blocks[0]), (link.1, blocks[1])].map(|(rank, block)| {
        let all = &mut program.gpus[rank as usize].scratch;
        let (offset, size) = scratch.0.entry((rank, block)).or_insert((*all, 0));
        if *size < wanted {
            // At the end it grows; elsewhere there is new room.
            if *offset + *size != *all {
                (*offset, *size) = (*all, 0);
            }
            *all += wanted - *size;
            *size = wanted;
        }
        Place { buffer: Buffer::Scratch, offset: *offset }
    })
}

/// The step that last wrote a chunk of a rank, or moved its sum on.
struct Last {
    of: Vec<Option<Dependency>>,
    /// By rank: where its input, its output and its scratch begin.
    begin: Vec<[usize; 3]>,
}

impl Last {
    fn new(messages: &Messages) -> Last {
        let mut all = 0;
        let mut place = |size: u32| {
            all += size as usize;
            all - size as usize
        };
        let begin = (0..messages.ranks()).map(|rank| messages.sizes(rank).map(&mut place)).collect();
        Last { of: vec![None; all], begin }
    }
    fn cells(&self, rank: u32, place: Place, count: u32) -> std::ops::Range<usize> {
        let start = self.begin[rank as usize][place.buffer as usize] + place.offset as usize;
        start..start + count as usize
    }
    /// The last of them in each block but this one.
    fn others(&self, cells: std::ops::Range<usize>, block: u32) -> Vec<Dependency> {
        let mut after: BTreeMap<u32, u32> = BTreeMap::new();
        for last in self.of[cells].iter().flatten().filter(|last| last.block != block) {
            let step = after.entry(last.block).or_default();
            *step = last.step.max(*step);
        }
        after.into_iter().map(|(block, step)| Dependency { block, step }).collect()
    }
}
