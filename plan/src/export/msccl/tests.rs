//! What a tree becomes, block by block, and what is refused.

use std::rc::Rc;

use super::*;
use crate::export::lower::{Piece, RankForest, RankTree};
use crate::interpret::{Dependency, Op, Place, run};
use crate::plan::Direction;

/// 0 → 1 → 2, 1 → 3, 0 → 4: chains 0 1 2, 1 3, 0 4.
fn tree() -> RankTree {
    RankTree { root: 0, parents: vec![0, 0, 1, 1, 0], order: vec![1, 4, 2, 3], rails: vec![None; 5] }
}

/// A program for one shard of two chunks at rank 0, with these forests.
fn program_of(collective: Collective, forests: Vec<RankForest>, instances: u32) -> Program {
    built(collective, forests, instances, None)
}

fn built(collective: Collective, forests: Vec<RankForest>, instances: u32, sharing: Option<usize>) -> Program {
    let lowered = Lowered { ranks: 5, shards: vec![2, 0, 0, 0, 0], forests, lossy: false };
    let chunks = 2 * instances;
    let own = [chunks, 0, 0, 0, 0];
    let gathers = collective == Collective::Broadcast;
    let gpu = |own: &u32| {
        let output = if collective == Collective::Reduce { *own } else { chunks };
        Gpu { input: if gathers { *own } else { chunks }, output, scratch: 0, blocks: Vec::new() }
    };
    let mut program = Program {
        name: "t".into(),
        protocol: "Simple".into(),
        word: collective.word().into(),
        collective,
        chunks,
        in_place: true,
        out_of_place: gathers,
        min_bytes: 0,
        max_bytes: 1 << 40,
        gpus: own.iter().map(gpu).collect(),
    };
    build::build(&mut program, &lowered, instances, sharing).expect("built");
    verify::runs_to_its_end(&program).expect("in order");
    assert_eq!(run(&program).expect("small").fault, None);
    let again = crate::interpret::read(program.to_xml().as_bytes(), "t").expect("what is written can be read");
    assert_eq!(again, program);
    program
}

fn forest(direction: Direction, pieces: &[(RankTree, u32, u32)]) -> RankForest {
    let pieces =
        pieces.iter().map(|(tree, first, count)| Piece { tree: Rc::new(tree.clone()), first: *first, count: *count });
    RankForest { direction, pieces: pieces.collect(), chunks: Vec::new() }
}

/// The types of a rank's steps, block by block.
fn types(program: &Program, rank: usize) -> Vec<Vec<Op>> {
    program.gpus[rank].blocks.iter().map(|block| block.steps.iter().map(|step| step.op).collect()).collect()
}

#[test]
fn outwards() {
    let program = program_of(Collective::Broadcast, vec![forest(Direction::Out, &[(tree(), 0, 2)])], 1);
    assert_eq!(types(&program, 0), [[Op::Copy], [Op::Send], [Op::Send]]);
    assert_eq!(types(&program, 1), [[Op::ReceiveCopySend], [Op::Send]]);
    assert_eq!(types(&program, 2), [[Op::Receive]]);
    let branch = &program.gpus[1].blocks[1].steps[0];
    assert_eq!(branch.after, Some(Dependency { block: 0, step: 0 }));
    assert!(program.gpus[1].blocks[0].steps[0].awaited);
    assert_eq!(program.channels(), 1, "no two chains share a link");
}

#[test]
fn inwards() {
    let program = program_of(Collective::Reduce, vec![forest(Direction::In, &[(tree(), 0, 2)])], 1);
    assert_eq!(types(&program, 0), [[Op::ReceiveReduceCopy], [Op::ReceiveReduceCopy]]);
    assert_eq!(types(&program, 1), [[Op::ReceiveReduceSend], [Op::ReceiveReduceCopy]]);
    assert_eq!(types(&program, 3), [[Op::Send]]);
    // What comes over the extra chain is added first.
    assert_eq!(program.gpus[1].blocks[0].steps[0].after, Some(Dependency { block: 1, step: 0 }));
    assert_eq!(program.gpus[0].blocks[0].steps[0].after, Some(Dependency { block: 1, step: 0 }));
}

#[test]
fn there_and_back_over_one_tree() {
    let forests = vec![forest(Direction::In, &[(tree(), 0, 2)]), forest(Direction::Out, &[(tree(), 0, 2)])];
    let program = program_of(Collective::AllReduce, forests, 1);
    assert_eq!(types(&program, 0), [vec![Op::ReceiveReduceCopySend], vec![Op::ReceiveReduceCopy, Op::Send]]);
    assert_eq!(
        types(&program, 1),
        [vec![Op::ReceiveReduceSend], vec![Op::ReceiveCopySend], vec![Op::ReceiveReduceCopy, Op::Send]]
    );
    assert_eq!(types(&program, 2), [[Op::Send], [Op::Receive]]);
    assert_eq!(program.channels(), 1);
}

#[test]
fn there_over_two_trees_and_back_over_one_waits_for_both() {
    let star = RankTree { root: 0, parents: vec![0; 5], order: vec![1, 2, 3, 4], rails: vec![None; 5] };
    let inward = forest(Direction::In, &[(star.clone(), 0, 1), (tree(), 1, 1)]);
    let program = program_of(Collective::AllReduce, vec![inward, forest(Direction::Out, &[(star, 0, 2)])], 1);
    let back: Vec<Vec<Op>> = types(&program, 0).into_iter().filter(|steps| steps.contains(&Op::Send)).collect();
    assert_eq!(back, vec![vec![Op::Nop, Op::Send]; 4]);
}

#[test]
fn instances_have_channels_and_chunks_of_their_own() {
    let program = program_of(Collective::Broadcast, vec![forest(Direction::Out, &[(tree(), 0, 1), (tree(), 1, 1)])], 3);
    assert_eq!((program.channels(), program.chunks), (6, 6));
    let sent = |rank: usize| {
        let steps = program.gpus[rank].blocks.iter().flat_map(|block| &block.steps);
        let mut offsets: Vec<u32> = steps.filter(|step| step.op == Op::Receive).map(|step| step.dst.offset).collect();
        offsets.sort_unstable();
        offsets
    };
    assert_eq!(sent(2), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn circles_and_half_messages_are_refused() {
    let mut program = program_of(Collective::Broadcast, vec![forest(Direction::Out, &[(tree(), 0, 2)])], 1);
    let whole = program.clone();
    program.gpus[1].blocks[0].steps[0].after = Some(Dependency { block: 1, step: 0 });
    assert!(verify::runs_to_its_end(&program).is_err(), "the branch waits for the receive, and the other way round");
    program = whole.clone();
    program.gpus[2].blocks.clear();
    assert!(verify::runs_to_its_end(&program).is_err());
    program = whole;
    program.gpus[1].blocks[1].steps[0].after = Some(Dependency { block: 9, step: 0 });
    assert!(verify::runs_to_its_end(&program).is_err());
}

#[test]
fn every_limit_is_named_with_its_count() {
    let mut program = program_of(Collective::Broadcast, vec![forest(Direction::Out, &[(tree(), 0, 2)])], 1);
    assert!(limits(&program).is_ok());
    program.gpus[3].blocks[0].channel = 32;
    let block = program.gpus[3].blocks[0].clone();
    program.gpus[3].blocks.extend(vec![block; 108]);
    let step = program.gpus[3].blocks[0].steps[0].clone();
    program.gpus[3].blocks[0].steps = vec![step; 257];
    let errors = limits(&program).expect_err("refused");
    let found: Vec<(&str, &str)> = errors.all().iter().map(|error| (error.code, error.found.as_str())).collect();
    let code = XML_LIMIT_EXCEEDED;
    assert_eq!(found, [(code, "33"), (code, "109 on rank 3"), (code, "257")]);
}

#[test]
fn chains_over_the_same_ranks_share_blocks_and_keep_their_order() {
    let pieces = [(tree(), 0, 1), (tree(), 1, 1)];
    let (out, inward) = (forest(Direction::Out, &pieces), forest(Direction::In, &pieces));
    for (collective, forests) in [
        (Collective::Broadcast, vec![out.clone()]),
        (Collective::Reduce, vec![inward.clone()]),
        (Collective::AllReduce, vec![inward, out]),
    ] {
        let alone = built(collective, forests.clone(), 3, None);
        let blocks = |program: &Program| program.gpus.iter().map(|gpu| gpu.blocks.len()).sum::<usize>();
        for hops in [5, 2, 1] {
            let shared = built(collective, forests.clone(), 3, Some(hops));
            assert_eq!((alone.channels(), shared.channels()), (6, 3), "{}: one an instance", collective.word());
            assert!(blocks(&shared) < blocks(&alone));
            let steps = shared.steps().count() - alone.steps().count();
            assert_eq!(steps > 0, hops == 1, "a chain that is cut receives first and then sends");
        }
    }
}

#[test]
fn long_steps_are_cut_at_both_ends_alike() {
    let forests = vec![forest(Direction::In, &[(tree(), 0, 2)]), forest(Direction::Out, &[(tree(), 0, 2)])];
    let mut program = program_of(Collective::AllReduce, forests, 1);
    let whole = program.clone();
    cut::cut(&mut program);
    assert_eq!(program, whole, "two chunks are few");
    // The same with a hundred times as much of everything.
    let many = |place: &mut Place| place.offset *= 100;
    program.chunks *= 100;
    for gpu in &mut program.gpus {
        (gpu.input, gpu.output) = (gpu.input * 100, gpu.output * 100);
        for step in gpu.blocks.iter_mut().flat_map(|block| &mut block.steps) {
            step.count *= 100;
            many(&mut step.src);
            many(&mut step.dst);
        }
    }
    let whole = program.clone();
    cut::cut(&mut program);
    assert_eq!(program.steps().map(|step| step.count).max(), Some(cut::MAX_COUNT));
    assert_eq!(program.steps().count(), 3 * whole.steps().count(), "200 are 71, 71 and 58");
    verify::runs_to_its_end(&program).expect("in order");
    assert_eq!(run(&program).expect("small").fault, None);
    // A branch begins when all of what it sends has arrived.
    let waiting = |program: &Program| program.steps().filter(|step| step.after.is_some()).count();
    assert_eq!(waiting(&program), waiting(&whole));
    assert!(program.gpus[0].blocks[0].steps[0].after.is_some_and(|after| after.step == 2));
}

#[test]
fn a_release_of_rccl_with_little_room_is_named() {
    let mut program = program_of(Collective::Broadcast, vec![forest(Direction::Out, &[(tree(), 0, 2)])], 1);
    let copy = program.gpus[0].blocks[0].steps[0].clone();
    let codes = |program: &Program, dialect| {
        let written = written(program.clone(), &Options { dialect, ..Options::default() }).expect("within limits");
        written.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>()
    };
    program.gpus[0].blocks[0].steps = vec![copy.clone(); 64];
    assert_eq!(codes(&program, Dialect::Rccl), Vec::<&str>::new());
    program.gpus[0].blocks[0].steps.push(copy);
    assert_eq!(codes(&program, Dialect::Rccl), ["ManySteps"]);
    assert_eq!(codes(&program, Dialect::Msccl), Vec::<&str>::new());
}
