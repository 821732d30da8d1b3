//! Reads `oneccl-xml` as the same kind of program as MSCCL XML, so that one machine runs both.
//!
//! Every peer of a rank becomes a block that sends to it and one that receives from it. Whatever writes goes one after the
//! other; a send may leave any time before the next `sync`, which makes all blocks of the rank wait for each other. So
//! what is sent and written in one step has no order, and the machine refuses it.

use std::collections::BTreeMap;

use super::element::{Element, MAX_NUMBER, MAX_RANKS, Mistake, gpu, limit, walk};
use super::program::{Dependency, Gpu, Op, Program, Step};
use crate::plan::Collective;
use sluice_formats::problem::{E_PARSE, E_RANGE, Problem, Problems};

const ALGO: &str = "name coll nchunksperloop nranks";
const STEP: &str = "s type peer srcbuf srcoff dstbuf dstoff cnt";

/// What an instruction does.
enum Word {
    Send,
    Receive,
    Reduce,
    Copy,
    Sync,
}

impl Word {
    fn parse(word: &str) -> Option<Word> {
        match word {
            "send" => Some(Word::Send),
            "recv" => Some(Word::Receive),
            "reduce" => Some(Word::Reduce),
            "copy" => Some(Word::Copy),
            "sync" => Some(Word::Sync),
            _ => None,
        }
    }
}

/// A program while it is read.
struct Draft {
    program: Program,
    ranks: u32,
    /// The blocks of the rank that is read: by peer and whether it sends; of no peer the one that copies.
    blocks: BTreeMap<(Option<u32>, bool), u32>,
    /// Instructions of that rank.
    instructions: usize,
    /// The last `sync` of that rank.
    last_sync: Option<Dependency>,
    /// The last instruction of that rank that writes, or the `sync` after it.
    last_write: Option<Dependency>,
    /// Steps that the blocks of that rank had then.
    synced: Vec<usize>,
}

/// Reads a program whose first tag has said that it is one of these.
pub fn program(text: &str) -> Result<Program, Problems> {
    let (mut draft, mut steps) = (None, 0);
    walk(text, "<algo>, in it <rank>, in it <step>", |open, element| {
        Some(match (open, element.name, &mut draft) {
            (0, "algo", None) => algo(element).map(|begun| draft = Some(begun)),
            (1, "rank", Some(draft)) => rank(element, draft),
            (2, "step", Some(draft)) => {
                steps += 1;
                limit(steps, "steps").and_then(|()| step(element, draft))
            }
            _ => return None,
        })
    })?;
    let Some(Draft { program, ranks, .. }) = draft else {
        return Err(Problem::new(E_PARSE, "", "not a program").allowed("<algo>").into());
    };
    if ranks as usize != program.gpus.len() {
        let error = Problem::new(E_RANGE, "nranks", "`nranks` is not what the program has").found(ranks.to_string());
        return Err(error.allowed(program.gpus.len().to_string()).into());
    }
    Ok(program)
}

fn algo(element: &Element<'_>) -> Result<Draft, Mistake> {
    element.only(ALGO)?;
    let (collective, word) = element.collective("")?;
    // Where one buffer is part of the other it may be the same memory; where something is added up it only is that way.
    let exchanges = collective == Collective::AllToAll;
    let gathers = matches!(collective, Collective::AllGather | Collective::Broadcast);
    let program = Program {
        name: element.text("name")?.to_owned(),
        protocol: "Simple".into(),
        word,
        collective,
        chunks: element.number("nchunksperloop", 1, MAX_NUMBER)?,
        in_place: !exchanges,
        out_of_place: gathers || exchanges,
        min_bytes: 0,
        max_bytes: 0,
        gpus: Vec::new(),
    };
    let ranks = element.number("nranks", 1, MAX_RANKS)?;
    Ok(Draft {
        program,
        ranks,
        blocks: BTreeMap::new(),
        instructions: 0,
        last_sync: None,
        last_write: None,
        synced: Vec::new(),
    })
}

fn rank(element: &Element<'_>, draft: &mut Draft) -> Result<(), Mistake> {
    gpu(element, &mut draft.program)?;
    (draft.instructions, draft.last_sync, draft.last_write) = (0, None, None);
    draft.blocks.clear();
    draft.synced.clear();
    Ok(())
}

fn step(element: &Element<'_>, draft: &mut Draft) -> Result<(), Mistake> {
    element.only(STEP)?;
    let me = draft.program.gpus.len() as u32 - 1;
    element.is_next("s", draft.instructions)?;
    draft.instructions += 1;
    let word = element.word("type", Word::parse, "send, recv, reduce, copy, sync")?;
    let op = match word {
        Word::Send => Op::Send,
        Word::Receive => Op::Receive,
        Word::Reduce => Op::ReceiveReduceCopy,
        Word::Copy => Op::Copy,
        Word::Sync => {
            element.number("cnt", 0, 0)?;
            return sync(draft);
        }
    };
    let peer = element.optional("peer", draft.ranks - 1)?;
    let alone = op == Op::Copy;
    if peer.is_none() != alone || peer == Some(me) {
        let error = Problem::new(E_RANGE, " peer", "a peer that cannot be").found(element.text("peer")?);
        return Err(Box::new(error.allowed(if alone { "-1" } else { "another rank" })));
    }
    let count = element.number("cnt", 1, MAX_NUMBER)?;
    let Some(gpu) = draft.program.gpus.last_mut() else { return Ok(()) };
    let place = |keys, own: bool| element.place(keys, count, |kind| own.then(|| gpu.chunks(kind)));
    let (src, dst) = (place(("srcbuf", "srcoff"), op.reads())?, place(("dstbuf", "dstoff"), op.writes())?);
    let sends = op.sends();
    let next = gpu.blocks.len() as u32;
    let block = *draft.blocks.entry((peer, sends)).or_insert(next);
    if block == next {
        gpu.add_block(peer.filter(|_| !sends), peer.filter(|_| sends), 0);
    }
    let after = if sends { draft.last_sync } else { draft.last_write };
    let begun = add(gpu, block, Step { op, src, dst, count, after, awaited: false });
    if !sends {
        draft.last_write = Some(begun);
    }
    Ok(())
}

fn add(gpu: &mut Gpu, block: u32, step: Step) -> Dependency {
    if let Some(after) = step.after
        && let Some(awaited) =
            gpu.blocks.get_mut(after.block as usize).and_then(|of| of.steps.get_mut(after.step as usize))
    {
        awaited.awaited = true;
    }
    let steps = &mut gpu.blocks[block as usize].steps;
    steps.push(step);
    Dependency { block, step: steps.len() as u32 - 1 }
}

/// Steps that do nothing but wait, in a block of their own, for what the other blocks have begun.
fn sync(draft: &mut Draft) -> Result<(), Mistake> {
    let Some(gpu) = draft.program.gpus.last_mut() else { return Ok(()) };
    let next = gpu.blocks.len() as u32;
    let block = *draft.blocks.entry((None, true)).or_insert(next);
    if block == next {
        gpu.add_block(None, None, 0);
    }
    draft.synced.resize(gpu.blocks.len(), 0);
    for other in (0..gpu.blocks.len() as u32).filter(|other| *other != block) {
        let steps = gpu.blocks[other as usize].steps.len();
        // A block without news need not be waited for again.
        if std::mem::replace(&mut draft.synced[other as usize], steps) == steps {
            continue;
        }
        let wait = Step::wait(Dependency { block: other, step: steps as u32 - 1 });
        draft.last_sync = Some(add(gpu, block, wait));
        draft.last_write = draft.last_sync;
    }
    Ok(())
}
