//! Does a program run to its end? Every message has two ends, and nothing waits for itself in a circle.
//!
//! Said of every program before it is written; that it does the right thing is for the interpreter to say.

use std::collections::HashMap;

use crate::export::INTERNAL_INVARIANT;
use crate::interpret::Program;
use sluice_formats::problem::{Problem, Problems};

/// Refuses programs in which something would wait for ever.
pub fn runs_to_its_end(program: &Program) -> Result<(), Problems> {
    let defect = |message: &str| Err(Problem::new(INTERNAL_INVARIANT, "", message).into());
    let mut first: Vec<Vec<usize>> = Vec::new();
    let mut steps = 0;
    for gpu in &program.gpus {
        let begins = gpu.blocks.iter().map(|block| {
            steps += block.steps.len();
            steps - block.steps.len()
        });
        first.push(begins.collect());
    }
    // What a step leads to: the next of its block, those that wait for it, and the one that receives from it.
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); steps];
    let mut ends: HashMap<(u32, u32, u32), [Vec<usize>; 2]> = HashMap::new();
    for (rank, gpu) in (0_u32..).zip(&program.gpus) {
        let first = &first[rank as usize];
        for (block, begin) in gpu.blocks.iter().zip(first) {
            for (s, step) in block.steps.iter().enumerate() {
                let me = begin + s;
                if s > 0 {
                    next[me - 1].push(me);
                }
                if let Some(after) = step.after {
                    match first.get(after.block as usize).and_then(|begin| next.get_mut(begin + after.step as usize)) {
                        Some(list) => list.push(me),
                        None => return defect("a step waits for one that is not there"),
                    }
                }
                if let Some(peer) = block.send.filter(|_| step.op.sends()) {
                    ends.entry((rank, peer, block.channel)).or_default()[0].push(me);
                }
                if let Some(peer) = block.receive.filter(|_| step.op.receives()) {
                    ends.entry((peer, rank, block.channel)).or_default()[1].push(me);
                }
            }
        }
    }
    for [sends, receives] in ends.values() {
        if sends.len() != receives.len() {
            return defect("a message has only one end");
        }
        for (send, receive) in sends.iter().zip(receives) {
            next[*send].push(*receive);
        }
    }
    let mut open = vec![0_usize; steps];
    next.iter().flatten().for_each(|step| open[*step] += 1);
    let mut ready: Vec<usize> = (0..steps).filter(|step| open[*step] == 0).collect();
    let mut done = 0;
    while let Some(step) = ready.pop() {
        done += 1;
        for after in &next[step] {
            open[*after] -= 1;
            if open[*after] == 0 {
                ready.push(*after);
            }
        }
    }
    if done == steps { Ok(()) } else { defect("steps wait for each other in a circle") }
}
