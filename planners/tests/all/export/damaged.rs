//! Damaged programs: none may pass as correct, panic or run for ever.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{hypercube, star};
use sluice_plan::export::Format;
use sluice_plan::interpret::{Buffer, Op, Program, Step, interpret, read};
use sluice_plan::plan::Collective;

use crate::export::scene::{OF_TREES, best_all_reduce, planned, text, two_ways, unlimited};

/// Small programs of every kind, one of them with steps that wait for several others.
fn programs() -> Vec<Program> {
    let topology = star(&["1", "2", "3", "1", "2"]).expect("valid");
    let plans = OF_TREES.map(|collective| planned(&topology, collective, None));
    let plans = plans.into_iter().chain([best_all_reduce(&topology), two_ways()]);
    let plans = plans.chain([planned(&hypercube(3, "1").expect("valid"), Collective::AllReduce, Some(1))]);
    plans.map(|plan| read(text(&plan, Format::MscclXml, &unlimited(1)).as_bytes(), "p").expect("readable")).collect()
}

fn passes(program: &Program) -> bool {
    interpret(program.to_xml().as_bytes(), "p").is_ok_and(|report| report.ok())
}

/// `hasdep` as it must be, so that a mutant is not refused for that alone.
fn mend(program: &mut Program) {
    for gpu in &mut program.gpus {
        let waits: Vec<_> = gpu.blocks.iter().flat_map(|block| &block.steps).filter_map(|step| step.after).collect();
        for (b, block) in gpu.blocks.iter_mut().enumerate() {
            for (s, step) in block.steps.iter_mut().enumerate() {
                step.awaited = waits.iter().any(|wait| (wait.block as usize, wait.step as usize) == (b, s));
            }
        }
    }
}

/// Every mutant of one step that cannot be right any more, with a word for it.
fn of_step(program: &Program, rank: usize, block: usize, at: usize) -> Vec<(&'static str, Program)> {
    let mut mutants = Vec::new();
    let mut add = |word, edit: &dyn Fn(&mut Program)| {
        let mut mutant = program.clone();
        edit(&mut mutant);
        mend(&mut mutant);
        if mutant != *program {
            mutants.push((word, mutant));
        }
    };
    let steps = |program: &mut Program, edit: &dyn Fn(&mut Step)| {
        edit(&mut program.gpus[rank].blocks[block].steps[at]);
    };
    let old = program.gpus[rank].blocks[block].steps[at].clone();
    add("dropped", &|program| {
        program.gpus[rank].blocks[block].steps.remove(at);
    });
    add("waits for nobody", &|program| steps(program, &|step| step.after = None));
    if old.op == Op::Nop {
        return mutants;
    }
    if old.op != Op::Copy {
        // To copy the same again would do no harm.
        add("doubled", &|program| program.gpus[rank].blocks[block].steps.insert(at, old.clone()));
    }
    add("more chunks", &|program| steps(program, &|step| step.count += 1));
    add("fewer chunks", &|program| steps(program, &|step| step.count = step.count.saturating_sub(1)));
    add("reads beside", &|program| steps(program, &|step| step.src.offset += 1));
    add("reads before", &|program| steps(program, &|step| step.src.offset = step.src.offset.saturating_sub(1)));
    add("writes beside", &|program| steps(program, &|step| step.dst.offset += 1));
    add("writes before", &|program| steps(program, &|step| step.dst.offset = step.dst.offset.saturating_sub(1)));
    let flip = |buffer: Buffer| if buffer == Buffer::Input { Buffer::Output } else { Buffer::Input };
    if !(old.op.reduces() || old.op == Op::Send && program.reduces()) {
        // Where sums are made in place, input and output may be the same chunk under two names.
        add("reads elsewhere", &|program| steps(program, &|step| step.src.buffer = flip(step.src.buffer)));
    }
    if program.collective != Collective::AllReduce {
        add("writes elsewhere", &|program| steps(program, &|step| step.dst.buffer = flip(step.dst.buffer)));
    }
    for op in Op::ALL {
        // To keep a sum that is sent on does no harm.
        if !(old.op == Op::ReceiveReduceSend && *op == Op::ReceiveReduceCopySend) {
            add("does something else", &|program| steps(program, &|step| step.op = *op));
        }
    }
    mutants
}

/// Every mutant of a block's connections and a rank's buffers.
fn of_block(program: &Program, rank: usize, block: usize) -> Vec<(&'static str, Program)> {
    let ranks = program.gpus.len() as u32;
    let mut mutants = Vec::new();
    let mut add = |word, edit: &dyn Fn(&mut Program)| {
        let mut mutant = program.clone();
        edit(&mut mutant);
        if mutant != *program {
            mutants.push((word, mutant));
        }
    };
    add("block dropped", &|program| {
        program.gpus[rank].blocks.remove(block);
    });
    let old = &program.gpus[rank].blocks[block];
    if old.send.is_some() || old.receive.is_some() {
        add("other channel", &|program| program.gpus[rank].blocks[block].channel += 1);
    }
    let other = |peer: Option<u32>| {
        peer.map(|peer| if (peer + 1) % ranks == rank as u32 { (peer + 2) % ranks } else { (peer + 1) % ranks })
    };
    add("sends to another", &|program| program.gpus[rank].blocks[block].send = other(old.send));
    add("receives from another", &|program| program.gpus[rank].blocks[block].receive = other(old.receive));
    add("larger input", &|program| program.gpus[rank].input += 1);
    add("larger output", &|program| program.gpus[rank].output += 1);
    add("more chunks", &|program| program.chunks += 1);
    mutants
}

#[test]
fn no_mutant_passes() {
    let mut tried = 0;
    for program in programs() {
        assert!(passes(&program));
        for rank in 0..program.gpus.len() {
            for block in 0..program.gpus[rank].blocks.len() {
                let steps = program.gpus[rank].blocks[block].steps.len();
                let mutants = (0..steps).flat_map(|at| of_step(&program, rank, block, at));
                for (word, mutant) in mutants.chain(of_block(&program, rank, block)) {
                    tried += 1;
                    assert!(!passes(&mutant), "{word}: rank {rank}, block {block} of\n{}", mutant.to_xml());
                }
            }
        }
    }
    println!("{tried} mutants");
    assert!(tried > 3000, "{tried}");
}

#[test]
fn a_program_cut_off_anywhere_is_refused() {
    let xml = programs()[0].to_xml();
    for end in (0..xml.len() - 1).step_by(7) {
        assert!(interpret(&xml.as_bytes()[..end], "p").is_err(), "after {end} bytes");
    }
}

fn all_reduce() -> Program {
    let topology: Topology = star(&["1", "2", "1"]).expect("valid");
    let plan = planned(&topology, Collective::AllReduce, None);
    read(text(&plan, Format::MscclXml, &unlimited(1)).as_bytes(), "p").expect("readable")
}

/// What may differ without harm: words that say nothing to the machine, and what a step waits for besides.
fn essence(mut program: Program) -> Program {
    (program.name, program.protocol, program.min_bytes, program.max_bytes) = Default::default();
    program.word.clear();
    (program.in_place, program.out_of_place) = (true, true);
    // More scratch than is used is only wasted.
    program.gpus.iter_mut().for_each(|gpu| gpu.scratch = 0);
    for step in program.gpus.iter_mut().flat_map(|gpu| &mut gpu.blocks).flat_map(|block| &mut block.steps) {
        (step.after, step.awaited) = (None, false);
        if step.op == Op::ReceiveReduceCopySend {
            step.op = Op::ReceiveReduceSend;
        }
    }
    program
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes changed, dropped and doubled: what still passes is the same program.
    #[test]
    fn damaged_bytes(edits in proptest::collection::vec((any::<usize>(), prop_oneof![any::<u8>(), 48_u8..58], 0_usize..3), 1..4)) {
        let program = all_reduce();
        let mut bytes = program.to_xml().into_bytes();
        for (at, byte, what) in edits {
            let at = at % bytes.len();
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        if interpret(&bytes, "p").is_ok_and(|report| report.ok()) {
            let passed = read(&bytes, "p").expect("it was read before");
            prop_assert_eq!(essence(passed), essence(program));
        }
    }

    /// Lines in another order, dropped or doubled.
    #[test]
    fn shuffled_lines(edits in proptest::collection::vec((any::<usize>(), any::<usize>(), 0_usize..3), 1..4)) {
        let program = all_reduce();
        let xml = program.to_xml();
        let mut lines: Vec<&str> = xml.lines().collect();
        for (a, b, what) in edits {
            let (a, b) = (a % lines.len(), b % lines.len());
            match what {
                0 => lines.swap(a, b),
                1 => lines.insert(a, lines[b]),
                _ => drop(lines.remove(a)),
            }
        }
        let shuffled = lines.join("\n");
        if interpret(shuffled.as_bytes(), "p").is_ok_and(|report| report.ok()) {
            let passed = read(shuffled.as_bytes(), "p").expect("it was read before");
            prop_assert_eq!(essence(passed), essence(program));
        }
    }
}
