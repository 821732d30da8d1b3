//! `msccl-xml`: a plan of trees or steps as thread blocks for MSCCL.
//!
//! A tree is cut into chains, a chain is a row of blocks on a channel of its own, and blocks of one rank wait for each
//! other where a tree branches ([`build`]). Of a step schedule every link has a block at each end ([`links`]). What is
//! longer than the runtime can count is cut ([`mod@cut`]). The instruction set is the interpreter's.

mod build;
mod chains;
mod cut;
mod links;
mod verify;

use super::lower::Lowered;
use super::messages::Messages;
use super::{Dialect, Options, Warning, XML_LIMIT_EXCEEDED};
use crate::interpret::{Gpu, Program};
use crate::plan::{Collective, Plan};
use sluice_formats::problem::{E_LIMIT, E_RANGE, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::topology::Topology;

/// Channels that the runtime has.
const MAX_CHANNELS: u32 = 32;
/// Thread blocks of a GPU: it runs one per multiprocessor, and an A100 has so many.
const MAX_BLOCKS: usize = 108;
/// Steps of a block that the runtime has room for.
const MAX_STEPS: usize = 256;
/// Steps of a block that every release of RCCL has room for.
const MAX_STEPS_OF_ALL_RCCL: usize = 64;
/// Instances at most: more than channels have no use.
const MAX_INSTANCES: u32 = 32;
/// Tree edges of all instances at most, each of which becomes up to four steps.
const MAX_EDGES: u64 = 1 << 21;

/// A program as a file.
pub struct Written {
    pub text: String,
    /// What the reader should know.
    pub warnings: Vec<Warning>,
}

pub fn write(plan: &Plan, topology: &Topology, lowered: &Lowered, options: &Options) -> Result<Written, Problems> {
    if !(1..=MAX_INSTANCES).contains(&options.instances) {
        let error =
            Problem::new(E_RANGE, "instances", "`instances` is out of range").found(options.instances.to_string());
        return Err(error.allowed(format!("1 to {MAX_INSTANCES}")).into());
    }
    if options.consolidate {
        let error = Problem::new(E_RANGE, "consolidate", "what a tree carries lies together already");
        return Err(error.found("a plan of trees").allowed("plans of steps").into());
    }
    equal_shards(plan, lowered, options)?;
    let alone = program(plan, topology, lowered, options, None)?;
    if options.limits && limits(&alone).is_err() {
        // Chains that share blocks need fewer channels and blocks, and the shorter they are the more are alike.
        let mut hops = lowered.ranks as usize;
        while hops > 0 {
            let sharing = program(plan, topology, lowered, options, Some(hops))?;
            if limits(&sharing).is_ok() {
                return written(sharing, options);
            }
            hops /= 2;
        }
    }
    written(alone, options)
}

/// Writes the program of a schedule of steps or sends.
pub fn write_steps(
    plan: &Plan,
    topology: &Topology,
    messages: &Messages,
    options: &Options,
) -> Result<Written, Problems> {
    if options.instances != 1 {
        let error = Problem::new(E_RANGE, "instances", "a step schedule is one program");
        let error = error.found(options.instances.to_string()).allowed("1");
        return Err(error.help("plan with a multiple of its units instead: --chunks").into());
    }
    let mut program = frame(plan, topology, &messages.shards, messages.chunks, options);
    program.gpus.iter_mut().zip(&messages.scratch).for_each(|(gpu, scratch)| gpu.scratch = *scratch);
    links::build(&mut program, messages, options.consolidate);
    cut::cut(&mut program);
    written(program, options)
}

fn written(program: Program, options: &Options) -> Result<Written, Problems> {
    verify::runs_to_its_end(&program)?;
    if options.limits {
        limits(&program)?;
    }
    let mut warnings = Vec::new();
    let steps = most_steps(&program);
    if options.dialect == Dialect::Rccl && steps > MAX_STEPS_OF_ALL_RCCL {
        let message = format!(
            "a thread block has {steps} steps, and one release of RCCL has room for {MAX_STEPS_OF_ALL_RCCL}; look at \
             MSCCL_MAX_NUM_STEPS in the header of yours"
        );
        warnings.push(Warning { code: "ManySteps", message });
    }
    Ok(Written { text: program.to_xml(), warnings })
}

/// MSCCL takes an all-gather whose shards are all alike; others are for the interpreter.
fn equal_shards(plan: &Plan, lowered: &Lowered, options: &Options) -> Result<(), Problems> {
    let alike = lowered.shards.windows(2).all(|pair| pair[0] == pair[1]);
    if plan.body.collective != Collective::AllGather || alike || !options.limits {
        return Ok(());
    }
    let (least, most) = (lowered.shards.iter().min(), lowered.shards.iter().max());
    let error = Problem::new(UNSUPPORTED_FIELD, "/topology/inline/nodes", "MSCCL wants equal shares in an all-gather");
    let found = format!("{} to {} chunks", least.unwrap_or(&0), most.unwrap_or(&0));
    let error = error.found(found).allowed("the same node weight everywhere");
    Err(error.help("--no-limits writes the program for the interpreter").into())
}

/// The program; with `sharing`, chains of at most so many hops, of which those over the same ranks share their blocks.
fn program(
    plan: &Plan,
    topology: &Topology,
    lowered: &Lowered,
    options: &Options,
    sharing: Option<usize>,
) -> Result<Program, Problems> {
    let pieces: u64 = lowered.forests.iter().map(|forest| forest.pieces.len() as u64).sum();
    let edges = pieces * u64::from(lowered.ranks - 1) * u64::from(options.instances);
    let chunks = u32::try_from(lowered.total() * u64::from(options.instances)).ok().filter(|chunks| chunks >> 24 == 0);
    let (Some(chunks), true) = (chunks, edges <= MAX_EDGES) else {
        let found = format!("{edges} tree edges, {} chunks", lowered.total() * u64::from(options.instances));
        let error = Problem::new(E_LIMIT, "/content/forests", "the program would be too large").found(found);
        let error = error.allowed(format!("at most {MAX_EDGES} tree edges, {} chunks", 1 << 24));
        return Err(error.help("plan with a smaller fixed k, or take fewer instances").into());
    };
    let shards: Vec<u32> = lowered.shards.iter().map(|shard| shard * options.instances).collect();
    let mut program = frame(plan, topology, &shards, chunks, options);
    build::build(&mut program, lowered, options.instances, sharing)?;
    cut::cut(&mut program);
    Ok(program)
}

/// What a program is called.
pub fn name(plan: &Plan, topology: &Topology) -> String {
    let name = if topology.name().is_empty() { "fabric" } else { topology.name() };
    format!("{} on {name}", plan.body.collective.word())
}

/// A program without blocks: per rank the chunks of its shard, and those of all.
fn frame(plan: &Plan, topology: &Topology, shards: &[u32], chunks: u32, options: &Options) -> Program {
    let collective = plan.body.collective;
    let gathers = collective == Collective::AllGather || collective == Collective::Broadcast;
    let exchanges = collective == Collective::AllToAll;
    let whole = exchanges || collective == Collective::AllReduce;
    let gpus = shards.iter().map(|&own| {
        let (input, output) = if gathers { (own, chunks) } else { (chunks, if whole { chunks } else { own }) };
        Gpu { input, output, scratch: 0, blocks: Vec::new() }
    });
    let word = match (collective, options.dialect) {
        (Collective::ReduceScatter, Dialect::Rccl) => "reducescatter",
        (other, _) => other.word(),
    };
    Program {
        name: name(plan, topology),
        protocol: options.protocol.word().into(),
        word: word.into(),
        collective,
        chunks,
        in_place: !exchanges,
        out_of_place: gathers || exchanges,
        min_bytes: 0,
        max_bytes: options.max_bytes,
        gpus: gpus.collect(),
    }
}

/// Every limit of the runtime that the program exceeds.
fn limits(program: &Program) -> Result<(), Problems> {
    let mut errors = Vec::new();
    let mut refuse = |what: &'static str, place: String, count: u64, limit: u64| {
        if count > limit {
            let error = Problem::new(XML_LIMIT_EXCEEDED, "", format!("the program needs more {what} than there are"));
            let error = error.found(format!("{count}{place}")).allowed(format!("at most {limit}"));
            let error = error.help("plan with a smaller fixed k (1 is usual), or take fewer instances");
            errors.push(error.detail("what", what).detail("count", count).detail("limit", limit));
        }
    };
    refuse("channels", String::new(), program.channels().into(), MAX_CHANNELS.into());
    let ranks = program.gpus.iter().enumerate().map(|(rank, gpu)| (gpu.blocks.len(), rank));
    // The first of the fullest ranks: of equal ones the last counts.
    if let Some((blocks, rank)) = ranks.rev().max_by_key(|(blocks, _)| *blocks) {
        refuse("thread blocks", format!(" on rank {rank}"), blocks as u64, MAX_BLOCKS as u64);
    }
    refuse("steps in a block", String::new(), most_steps(program) as u64, MAX_STEPS as u64);
    Problems::collect(errors, "").map_or(Ok(()), Err)
}

/// Steps of the longest block.
fn most_steps(program: &Program) -> usize {
    program.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|block| block.steps.len()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
