//! Which blocks and steps the messages of a step schedule become: one block at each end of a link, in the order of the
//! schedule's steps.
//!
//! A step waits for those of other blocks of its rank that touched its chunks before, so a program needs no barriers: a
//! message leaves as soon as what it carries is there.

use std::collections::BTreeMap;

use super::build::add_step;
use crate::export::messages::Messages;
use crate::interpret::{Block, Buffer, Dependency, Op, Place, Program};
use crate::plan::Collective;

/// Fills in the blocks of a program.
pub fn build(program: &mut Program, messages: &Messages) {
    let chunks = messages.ranks * messages.shard;
    let mut last = Last { of: vec![None; messages.ranks as usize * chunks as usize], chunks };
    if messages.collective == Collective::AllGather {
        for rank in 0..messages.ranks {
            own_part(program, rank, messages.shard);
        }
    }
    // The blocks at both ends of every link that carries something.
    let mut ends: BTreeMap<(u32, u32, u32), [u32; 2]> = BTreeMap::new();
    for message in &messages.all {
        ends.entry((message.from, message.to, message.channel)).or_default();
    }
    for ((from, to, channel), ends) in &mut ends {
        let mut block = |rank: u32, send, receive| {
            let blocks = &mut program.gpus[rank as usize].blocks;
            blocks.push(Block { send, receive, channel: *channel, steps: Vec::new() });
            blocks.len() as u32 - 1
        };
        *ends = [block(*from, Some(*to), None), block(*to, None, Some(*from))];
    }
    for of_step in messages.all.chunk_by(|a, b| a.step == b.step) {
        // All sends before all receives: a step uses what was there before it.
        for message in of_step {
            let [block, _] = ends[&(message.from, message.to, message.channel)];
            let places = [messages.source(message), messages.target(message)];
            let cells = last.cells(message.from, message.first, message.count);
            let after = last.others(cells.clone(), block);
            let sent = add_step(program, message.from, block, Op::Send, places, message.count, &after);
            // Copies of one thing may leave in any order; a sum that was sent makes room for another.
            if message.moves {
                last.of[cells].fill(Some(sent));
            }
        }
        for message in of_step {
            let [_, block] = ends[&(message.from, message.to, message.channel)];
            let here = messages.target(message);
            let (op, src) =
                if message.adds { (Op::ReceiveReduceCopy, here) } else { (Op::Receive, messages.source(message)) };
            let cells = last.cells(message.to, message.first, message.count);
            let after = last.others(cells.clone(), block);
            let received = add_step(program, message.to, block, op, [src, here], message.count, &after);
            last.of[cells].fill(Some(received));
        }
    }
}

/// A rank's own part goes from its input to its place in the output.
fn own_part(program: &mut Program, rank: u32, shard: u32) {
    let blocks = &mut program.gpus[rank as usize].blocks;
    let block = blocks.len() as u32;
    blocks.push(Block { send: None, receive: None, channel: 0, steps: Vec::new() });
    let places = [Place { buffer: Buffer::Input, offset: 0 }, Place { buffer: Buffer::Output, offset: rank * shard }];
    add_step(program, rank, block, Op::Copy, places, shard, &[]);
}

/// The step that last wrote a chunk of a rank, or moved its sum on.
struct Last {
    of: Vec<Option<Dependency>>,
    chunks: u32,
}

impl Last {
    fn cells(&self, rank: u32, first: u32, count: u32) -> std::ops::Range<usize> {
        let start = rank as usize * self.chunks as usize + first as usize;
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
