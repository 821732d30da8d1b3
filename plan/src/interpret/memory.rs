//! The buffers of all ranks, by what their chunks mean instead of what they contain.
//!
//! A chunk means a sum of inputs: chunk c of the input of some ranks, each counted once. What mixes unlike chunks or
//! counts an input twice could never become right again and is refused on the spot. Input and output may be one
//! buffer, so every chunk has a cell, and two places can be one cell.

use std::rc::Rc;

use super::fault::{Fault, Kind};
use super::program::{Place, Program};
use crate::plan::Collective;

/// The sum of chunk `chunk` of the inputs of some ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    chunk: u32,
    /// One bit per rank.
    ranks: Box<[u64]>,
}

impl Sum {
    pub fn of(chunk: u32, rank: usize, ranks: usize) -> Sum {
        let mut bits = vec![0; ranks.div_ceil(64)];
        bits[rank / 64] = 1 << (rank % 64);
        Sum { chunk, ranks: bits.into() }
    }
    /// The inputs of all ranks.
    pub fn all(chunk: u32, ranks: usize) -> Sum {
        let bits = (0..ranks.div_ceil(64)).map(|word| u64::MAX >> (64 - (ranks - word * 64).min(64)));
        Sum { chunk, ranks: bits.collect() }
    }
    /// Both together, or why not.
    pub fn plus(&self, other: &Sum) -> Result<Sum, String> {
        if self.chunk != other.chunk {
            return Err(format!("chunk {} is added to chunk {}", other.chunk, self.chunk));
        }
        let twice = self.ranks.iter().zip(&other.ranks).position(|(a, b)| a & b != 0);
        if let Some(word) = twice {
            let rank = word * 64 + (self.ranks[word] & other.ranks[word]).trailing_zeros() as usize;
            return Err(format!("chunk {} of rank {rank} is counted twice", self.chunk));
        }
        let ranks = self.ranks.iter().zip(&other.ranks).map(|(a, b)| a | b).collect();
        Ok(Sum { chunk: self.chunk, ranks })
    }
    fn words(&self) -> String {
        let bits = self.ranks.iter().enumerate();
        let ranks: Vec<usize> = bits
            .flat_map(|(word, bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit))
            .collect();
        let some: Vec<String> = ranks.iter().take(8).map(ToString::to_string).collect();
        format!(
            "chunk {} of {} ranks ({}{})",
            self.chunk,
            ranks.len(),
            some.join(" "),
            if ranks.len() > 8 { " …" } else { "" }
        )
    }
}

/// What a chunk means.
pub type Value = Rc<Sum>;

/// The buffers of all ranks.
pub struct Memory {
    cells: Vec<Option<Value>>,
    /// For each rank the first cell of input, output and scratch.
    bases: Vec<[usize; 3]>,
}

impl Memory {
    /// Buffers before the first step; input and output are one buffer if `in_place`.
    pub fn new(program: &Program, in_place: bool) -> Memory {
        let ranks = program.gpus.len();
        let (mut cells, mut bases, mut before) = (0, Vec::with_capacity(ranks), 0);
        for gpu in &program.gpus {
            let (input, output) = (gpu.input as usize, gpu.output as usize);
            // Where input and output are one, the smaller one is the rank's own part of the larger one.
            let [first, second] = match (in_place, program.collective) {
                (false, _) => [cells, cells + input],
                (true, Collective::AllGather) => [cells + before, cells],
                (true, Collective::ReduceScatter) => [cells, cells + before],
                (true, _) => [cells, cells],
            };
            before += if program.collective == Collective::AllGather { input } else { output };
            cells += if in_place { input.max(output) } else { input + output };
            bases.push([first, second, cells]);
            cells += gpu.scratch as usize;
        }
        let mut memory = Memory { cells: vec![None; cells], bases };
        for (rank, gpu) in program.gpus.iter().enumerate() {
            for chunk in 0..gpu.input {
                let cell = memory.bases[rank][0] + chunk as usize;
                memory.cells[cell] = Some(Rc::new(Sum::of(chunk, rank, ranks)));
            }
        }
        memory
    }
    /// All cells of all ranks.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }
    /// The first cell of a place.
    pub fn cell(&self, rank: usize, place: Place) -> usize {
        self.bases[rank][place.buffer as usize] + place.offset as usize
    }
    /// What a cell means; `None`: nobody has written it.
    pub fn get(&self, cell: usize) -> Option<&Value> {
        self.cells[cell].as_ref()
    }
    pub fn set(&mut self, cell: usize, value: Value) {
        self.cells[cell] = Some(value);
    }

    /// Does every rank have what the collective owes it?
    pub fn check(&self, program: &Program) -> Result<(), Fault> {
        let ranks = program.gpus.len();
        let sizes: Vec<u32> = program.gpus.iter().map(|gpu| gpu.input).collect();
        let holders: Vec<usize> = (0..ranks).flat_map(|rank| vec![rank; sizes[rank] as usize]).collect();
        let mut before = vec![0; ranks];
        (1..ranks).for_each(|rank| before[rank] = before[rank - 1] + sizes[rank - 1]);
        let mut results_before = 0;
        for (rank, gpu) in program.gpus.iter().enumerate() {
            let part = program.chunks / ranks as u32;
            for chunk in 0..gpu.output {
                let owed = match program.collective {
                    Collective::AllGather | Collective::Broadcast => {
                        let holder = holders[chunk as usize];
                        Sum::of(chunk - before[holder], holder, ranks)
                    }
                    Collective::AllToAll => Sum::of(rank as u32 * part + chunk % part, (chunk / part) as usize, ranks),
                    Collective::ReduceScatter => Sum::all(results_before + chunk, ranks),
                    _ => Sum::all(chunk, ranks),
                };
                let found = self.cells[self.bases[rank][1] + chunk as usize].as_deref();
                if found != Some(&owed) {
                    let message = format!(
                        "ends with {}, and should with {}",
                        found.map_or("nothing".into(), Sum::words),
                        owed.words()
                    );
                    return Err(Fault::new(Kind::WrongResult, format!("rank {rank}, output chunk {chunk}"), message));
                }
            }
            results_before += gpu.output;
        }
        Ok(())
    }
}

/// Are the buffers those of the collective?
pub fn shape(program: &Program) -> Result<(), Fault> {
    let whole = u64::from(program.chunks);
    let gpus = &program.gpus;
    let (inputs, outputs) = (
        gpus.iter().map(|gpu| u64::from(gpu.input)).sum::<u64>(),
        gpus.iter().map(|gpu| u64::from(gpu.output)).sum::<u64>(),
    );
    let all_in = gpus.iter().all(|gpu| gpu.input == program.chunks);
    let all_out = gpus.iter().all(|gpu| gpu.output == program.chunks);
    let one = |sizes: &mut dyn Iterator<Item = u32>| sizes.filter(|size| *size > 0).count() == 1;
    let (good, owed) = match program.collective {
        Collective::AllGather => (all_out && inputs == whole, "all chunks in every output, and in all inputs together"),
        Collective::ReduceScatter => {
            (all_in && outputs == whole, "all chunks in every input, and in all outputs together")
        }
        Collective::Broadcast => (
            all_out && inputs == whole && one(&mut gpus.iter().map(|gpu| gpu.input)),
            "all chunks in every output and in the root's input",
        ),
        Collective::Reduce => (
            all_in && outputs == whole && one(&mut gpus.iter().map(|gpu| gpu.output)),
            "all chunks in every input and in the root's output",
        ),
        Collective::AllToAll => (
            all_in && all_out && (program.chunks as usize).is_multiple_of(gpus.len()),
            "all chunks in every input and output, equally many for every rank",
        ),
        _ => (all_in && all_out, "all chunks in every input and output"),
    };
    let message = || format!("`{}` of {} chunks has {owed}", program.word, program.chunks);
    if good { Ok(()) } else { Err(Fault::new(Kind::WrongShape, "the buffers", message())) }
}
