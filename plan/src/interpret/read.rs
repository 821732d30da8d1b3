//! Reads a program from XML, within bounds; everything that names something names something that is there.

use super::element::{Element, MAX_NUMBER, MAX_RANKS, Mistake, gpu, limit, walk};
use super::oneccl;
use super::program::{Block, Buffer, Dependency, Op, Place, Program, Step};
use sluice_formats::problem::{E_LIMIT, E_PARSE, E_RANGE, Problem, Problems};
use sluice_formats::topology::import::xml::{Tag, Tags};

/// Bytes of a program at most.
const MAX_BYTES: usize = 256 << 20;
const ALGO: &str = "name proto nchannels nchunksperloop ngpus coll inplace outofplace minBytes maxBytes redop";
const TB: &str = "id send recv chan";
const STEP: &str = "s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep";

/// Reads a program; `file` is the name used in messages.
///
/// # Errors
/// The first mistake: `E_PARSE`, `E_KEY`, `E_MISSING`, `E_RANGE`, `E_LIMIT`, each with its line.
pub fn read(bytes: &[u8], file: &str) -> Result<Program, Problems> {
    if bytes.len() > MAX_BYTES {
        let error = Problem::new(E_LIMIT, "", "the program is too large").found(format!("{} bytes", bytes.len()));
        return Err(Problems::from(error.allowed(format!("{MAX_BYTES} bytes"))).in_file(file));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|_| Problems::from(Problem::new(E_PARSE, "", "not UTF-8")).in_file(file));
    program(text?).map_err(|errors| errors.in_file(file))
}

fn program(text: &str) -> Result<Program, Problems> {
    if let Some(Tag::Start("algo", list)) = Tags::new(text).next_tag()?
        && list.iter().any(|(key, _)| *key == "nranks")
    {
        return oneccl::program(text);
    }
    let (mut draft, mut blocks, mut steps) = (None, 0, 0);
    walk(text, "<algo>, in it <gpu>, in it <tb>, in it <step>", |open, element| {
        Some(match (open, element.name, &mut draft) {
            (0, "algo", None) => algo(element).map(|begun| draft = Some(begun)),
            (1, "gpu", Some(draft)) => gpu(element, &mut draft.program),
            (2, "tb", Some(draft)) => {
                blocks += 1;
                limit(blocks, "thread blocks").and_then(|()| tb(element, draft))
            }
            (3, "step", Some(draft)) => {
                steps += 1;
                limit(steps, "steps").and_then(|()| step(element, draft))
            }
            _ => return None,
        })
    })?;
    let Some(draft) = draft else { return Err(Problem::new(E_PARSE, "", "not a program").allowed("<algo>").into()) };
    finish(draft).map_err(|error| (*error).into())
}

/// A program while it is read, with what it says about itself.
struct Draft {
    program: Program,
    ranks: u32,
    channels: u32,
    sums: bool,
}

fn algo(element: &Element<'_>) -> Result<Draft, Mistake> {
    element.only(ALGO)?;
    let (collective, word) = element.collective(", reducescatter")?;
    let sums = match element.text("redop")? {
        "nop" => false,
        "sum" => true,
        other => {
            return Err(Box::new(
                Problem::new(E_RANGE, " redop", "an unknown operation").found(other).allowed("nop, sum"),
            ));
        }
    };
    let program = Program {
        name: element.text("name")?.to_owned(),
        protocol: element.text("proto")?.to_owned(),
        word,
        collective,
        chunks: element.number("nchunksperloop", 1, MAX_NUMBER)?,
        in_place: element.flag("inplace")?,
        out_of_place: element.flag("outofplace")?,
        min_bytes: element.bytes("minBytes")?,
        max_bytes: element.bytes("maxBytes")?,
        gpus: Vec::new(),
    };
    if !program.in_place && !program.out_of_place {
        return Err(Box::new(
            Problem::new(E_RANGE, " inplace", "a program for neither one buffer nor two").found("0 and 0"),
        ));
    }
    let (ranks, channels) = (element.number("ngpus", 1, MAX_RANKS)?, element.number("nchannels", 0, MAX_NUMBER)?);
    Ok(Draft { program, ranks, channels, sums })
}

fn tb(element: &Element<'_>, draft: &mut Draft) -> Result<(), Mistake> {
    element.only(TB)?;
    let me = draft.program.gpus.len() as u32;
    let Some(gpu) = draft.program.gpus.last_mut() else { return Ok(()) };
    element.is_next("id", gpu.blocks.len())?;
    let peer = |key| {
        let peer = element.optional(key, draft.ranks - 1)?;
        if peer.is_some_and(|peer| peer + 1 == me) {
            return Err(Box::new(Problem::new(E_RANGE, format!(" {key}"), "a peer that is the rank itself")));
        }
        Ok(peer)
    };
    let (send, receive) = (peer("send")?, peer("recv")?);
    gpu.blocks.push(Block { send, receive, channel: element.number("chan", 0, MAX_NUMBER)?, steps: Vec::new() });
    Ok(())
}

fn step(element: &Element<'_>, draft: &mut Draft) -> Result<(), Mistake> {
    element.only(STEP)?;
    let Some(gpu) = draft.program.gpus.last_mut() else { return Ok(()) };
    let sizes = [gpu.input, gpu.output, gpu.scratch];
    let Some(block) = gpu.blocks.last_mut() else { return Ok(()) };
    element.is_next("s", block.steps.len())?;
    let op = element.word("type", Op::parse, "s, r, rcs, rrs, rrc, rrcs, cpy, re, nop")?;
    let idle = op == Op::Nop;
    let count = if idle { element.number("cnt", 0, 0)? } else { element.number("cnt", 1, MAX_NUMBER)? };
    let place = |keys: (&'static str, &'static str), own: bool| {
        if !idle {
            return element.place(keys, count, |kind| own.then(|| sizes[kind as usize]));
        }
        let buffer = element.word(keys.0, Buffer::parse, "i, o, s")?;
        element.optional(keys.1, MAX_NUMBER)?;
        Ok(Place { buffer, offset: 0 })
    };
    let (src, dst) = (place(("srcbuf", "srcoff"), op.reads())?, place(("dstbuf", "dstoff"), op.writes())?);
    for (needed, peer, key) in [(op.sends(), block.send, "send"), (op.receives(), block.receive, "recv")] {
        if needed && peer.is_none() {
            let error = Problem::new(E_RANGE, " type", format!("a step that needs `{key}`, in a block without"));
            return Err(Box::new(error.found(op.word())));
        }
    }
    let after = match (element.optional("depid", MAX_NUMBER)?, element.optional("deps", MAX_NUMBER)?) {
        (Some(block), Some(step)) => Some(Dependency { block, step }),
        (None, None) => None,
        _ => {
            return Err(Box::new(
                Problem::new(E_RANGE, " depid", "half a dependency").allowed("depid and deps, or −1 in both"),
            ));
        }
    };
    block.steps.push(Step { op, src, dst, count, after, awaited: element.flag("hasdep")? });
    Ok(())
}

/// What can be said only at the end: everything that is counted or referred to.
fn finish(draft: Draft) -> Result<Program, Mistake> {
    let Draft { program, ranks, channels, sums } = draft;
    let wrong = |key: &str, found: String, allowed: String| {
        let error = Problem::new(E_RANGE, key, format!("`{key}` is not what the program has"));
        Err(Box::new(error.found(found).allowed(allowed)))
    };
    if ranks as usize != program.gpus.len() {
        return wrong("ngpus", ranks.to_string(), program.gpus.len().to_string());
    }
    if channels != program.channels() {
        return wrong("nchannels", channels.to_string(), program.channels().to_string());
    }
    if sums != program.reduces() {
        let word = |sums| if sums { "sum" } else { "nop" }.to_owned();
        return wrong("redop", word(sums), word(program.reduces()));
    }
    for (rank, gpu) in program.gpus.iter().enumerate() {
        let mut awaited: Vec<Vec<bool>> = gpu.blocks.iter().map(|block| vec![false; block.steps.len()]).collect();
        for (b, block) in gpu.blocks.iter().enumerate() {
            for (s, step) in block.steps.iter().enumerate() {
                let Some(after) = step.after else { continue };
                let target = awaited.get_mut(after.block as usize).and_then(|of| of.get_mut(after.step as usize));
                let Some(target) = target else {
                    let key = format!("rank {rank}, block {b}, step {s}");
                    let error = Problem::new(E_RANGE, key, "waits for a step that is not there");
                    return Err(Box::new(error.found(format!("block {}, step {}", after.block, after.step))));
                };
                *target = true;
            }
        }
        for (b, block) in gpu.blocks.iter().enumerate() {
            if let Some(s) = (0..block.steps.len()).find(|s| block.steps[*s].awaited != awaited[b][*s]) {
                let key = format!("rank {rank}, block {b}, step {s}");
                let said = |yes: bool| u8::from(yes).to_string();
                let error = Problem::new(E_RANGE, key, "`hasdep` must be 1 exactly where others wait");
                return Err(Box::new(error.found(said(block.steps[s].awaited)).allowed(said(awaited[b][s]))));
            }
        }
    }
    Ok(program)
}
