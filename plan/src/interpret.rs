//! Executes MSCCL XML, or the XML for oneCCL, and proves that it does its collective: no hardware, no data, only what
//! every chunk means.
//!
//! A program is run with all its blocks at once, a send and its receive meeting each other; it must come to an end,
//! must do so in whatever order blocks get their turn, and must leave every rank with exactly what the collective owes
//! it: each chunk the right one, each sum with every input once. Programs for one buffer and for two are run both ways.
//! It shares nothing with the exporter but the instruction set.
//!
//! | module | is |
//! | --- | --- |
//! | `program`, `read`, `write` | the instruction set, reading it within bounds, writing it |
//! | `oneccl` | reading the other form as the same instructions |
//! | `memory` | buffers of meanings, and what each collective owes |
//! | `machine` | running, with messages that meet and deadlocks found |
//! | `order` | races: steps that touch one chunk in no order |

mod element;
mod fault;
mod machine;
mod memory;
mod oneccl;
mod order;
mod program;
mod read;
mod write;

pub use fault::{Fault, Kind};
pub use program::{Block, Buffer, Dependency, Gpu, Op, Place, Program, Step};
pub use read::read;

use serde::Serialize;

use sluice_formats::problem::{E_LIMIT, Problem, Problems};

/// Chunks that all steps together may touch.
const MAX_TOUCHED: u64 = 1 << 25;
/// Bytes that the meanings of all chunks may take.
const MAX_MEMORY: u64 = 1 << 30;

/// What running a program showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many ranks the program has.
    pub ranks: usize,
    /// Chunks of all shards together.
    pub chunks: u32,
    /// Channels in use, from 0 to the highest.
    pub channels: u32,
    /// Blocks of the rank that has most.
    pub blocks: usize,
    /// Steps of all blocks.
    pub steps: usize,
    /// Was it run with input and output in one buffer?
    pub in_place: bool,
    /// Was it run with two buffers?
    pub out_of_place: bool,
    /// The first thing that is wrong; `None`: the program does its collective.
    pub fault: Option<Fault>,
}

impl Report {
    /// Does the program do its collective?
    pub fn ok(&self) -> bool {
        self.fault.is_none()
    }
}

/// Reads a program and runs it; `file` is the name used in messages.
///
/// # Errors
/// What cannot be read as a program, and programs too large to be run (`E_LIMIT`). A program that can be run and goes
/// wrong is no error here: that is what [`Report::fault`] says.
pub fn interpret(bytes: &[u8], file: &str) -> Result<Report, Problems> {
    let program = read(bytes, file)?;
    run(&program).map_err(|errors| errors.in_file(file))
}

/// Runs a program that was read, or made by the exporter: everything it names is there.
pub(crate) fn run(program: &Program) -> Result<Report, Problems> {
    let mut report = Report {
        ranks: program.gpus.len(),
        chunks: program.chunks,
        channels: program.channels(),
        blocks: program.gpus.iter().map(|gpu| gpu.blocks.len()).max().unwrap_or(0),
        steps: program.steps().count(),
        in_place: program.in_place,
        out_of_place: program.out_of_place,
        fault: None,
    };
    bounded(program)?;
    if let Err(fault) = memory::shape(program) {
        report.fault = Some(fault);
        return Ok(report);
    }
    for (wanted, in_place) in [(program.out_of_place, false), (program.in_place, true)] {
        match if wanted { machine::run(program, in_place) } else { Ok(()) } {
            Ok(()) => {}
            Err(machine::Stop::Limit(errors)) => return Err(errors),
            Err(machine::Stop::Fault(fault)) => {
                report.fault = Some(fault);
                break;
            }
        }
    }
    Ok(report)
}

/// Refuses what would take too long or too much memory, before it does.
fn bounded(program: &Program) -> Result<(), Problems> {
    let touched: u64 = program.steps().map(|step| u64::from(step.count)).sum();
    let sizes = program.gpus.iter().map(|gpu| u64::from(gpu.input) + u64::from(gpu.output) + u64::from(gpu.scratch));
    // Per chunk: one bit per rank, and about a hundred bytes of bookkeeping.
    let memory = sizes.sum::<u64>().saturating_mul(100 + program.gpus.len() as u64 / 8);
    for (what, found, most) in
        [("chunks that its steps touch", touched, MAX_TOUCHED), ("bytes that its chunks take", memory, MAX_MEMORY)]
    {
        if found > most {
            let error = Problem::new(E_LIMIT, "", format!("too large to be run: {what}"));
            return Err(error.found(found.to_string()).allowed(format!("at most {most}")).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
