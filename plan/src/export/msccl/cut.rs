//! Steps of many chunks as several of fewer: the runtime counts the chunks of a step in a small number.

use crate::interpret::{Block, Dependency, Gpu, Place, Program, Step};

/// Chunks of a step at most: MSCCL refuses 72 and more.
pub const MAX_COUNT: u32 = 71;

/// Cuts every step of more than [`MAX_COUNT`] chunks. Both ends of a message are cut alike, and who waited for a step
/// waits for the last part of it.
pub fn cut(program: &mut Program) {
    program.gpus.iter_mut().filter(|gpu| steps(gpu).any(|step| step.count > MAX_COUNT)).for_each(cut_gpu);
}

fn steps(gpu: &Gpu) -> impl Iterator<Item = &Step> {
    gpu.blocks.iter().flat_map(|block| &block.steps)
}

fn parts(step: &Step) -> u32 {
    step.count.div_ceil(MAX_COUNT).max(1)
}

fn cut_gpu(gpu: &mut Gpu) {
    // By block and step: the place of the step's last part.
    let last = |block: &Block| {
        let mut before = 0;
        let mut place = |step: &Step| {
            before += parts(step);
            before - 1
        };
        block.steps.iter().map(&mut place).collect()
    };
    let places: Vec<Vec<u32>> = gpu.blocks.iter().map(last).collect();
    for block in &mut gpu.blocks {
        for step in &mut block.steps {
            if let Some(Dependency { block, step }) = &mut step.after {
                *step = places[*block as usize][*step as usize];
            }
        }
        block.steps = block.steps.iter().flat_map(parts_of).collect();
    }
}

fn parts_of(step: &Step) -> Vec<Step> {
    let (count, last) = (parts(step), parts(step) - 1);
    let part = |number: u32| {
        let done = number * MAX_COUNT;
        let moved = |place: Place| Place { offset: place.offset + done, ..place };
        Step {
            src: moved(step.src),
            dst: moved(step.dst),
            count: (step.count - done).min(MAX_COUNT),
            after: step.after.filter(|_| number == 0),
            awaited: step.awaited && number == last,
            op: step.op,
        }
    };
    (0..count).map(part).collect()
}
