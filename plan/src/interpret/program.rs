//! The instruction set: what the thread blocks of an MSCCL program do, step by step.
//!
//! Plain data, as it stands in the file; who runs it is [`super::machine`], who writes it is the exporter.

use crate::plan::Collective;
use sluice_formats::json::words;

words! {
    /// What a step does. A step that sends and receives does it in the order of its letters.
    pub enum Op {
        /// Copies from one own buffer to another.
        Copy = "cpy",
        /// Nothing, after what it waits for.
        Nop = "nop",
        /// Receives into `dst`.
        Receive = "r",
        /// Receives into `dst` and sends that on.
        ReceiveCopySend = "rcs",
        /// Receives, adds `src`, keeps the sum in `dst`.
        ReceiveReduceCopy = "rrc",
        /// Receives, adds `src`, keeps the sum in `dst` and sends it on.
        ReceiveReduceCopySend = "rrcs",
        /// Receives, adds `src`, sends the sum on and keeps nothing.
        ReceiveReduceSend = "rrs",
        /// Adds `src` to `dst`.
        Reduce = "re",
        /// Sends from `src`.
        Send = "s",
    }
}

impl Op {
    /// Does it take something from the block's receive peer?
    pub fn receives(self) -> bool {
        use Op::{Receive, ReceiveCopySend, ReceiveReduceCopy, ReceiveReduceCopySend, ReceiveReduceSend};
        matches!(self, Receive | ReceiveCopySend | ReceiveReduceCopy | ReceiveReduceCopySend | ReceiveReduceSend)
    }
    /// Does it give something to the block's send peer?
    pub fn sends(self) -> bool {
        matches!(self, Op::Send | Op::ReceiveCopySend | Op::ReceiveReduceCopySend | Op::ReceiveReduceSend)
    }
    /// Does it add up?
    pub fn reduces(self) -> bool {
        use Op::{ReceiveReduceCopy, ReceiveReduceCopySend, ReceiveReduceSend, Reduce};
        matches!(self, Reduce | ReceiveReduceCopy | ReceiveReduceCopySend | ReceiveReduceSend)
    }
    /// Does it read its own `src`?
    pub fn reads(self) -> bool {
        self.reduces() || matches!(self, Op::Send | Op::Copy)
    }
    /// Does it write its own `dst`?
    pub fn writes(self) -> bool {
        !matches!(self, Op::Send | Op::ReceiveReduceSend | Op::Nop)
    }
}

words! {
    /// One of a rank's buffers.
    pub enum Buffer {
        /// What the rank begins with.
        Input = "i",
        /// What it ends with.
        Output = "o",
        /// What it needs in between.
        Scratch = "s",
    }
}

/// A chunk of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which buffer of the rank it is in.
    pub buffer: Buffer,
    /// Chunks before it in the buffer.
    pub offset: u32,
}

/// A step of another block of the same rank, by block and place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Number of the block within the rank.
    pub block: u32,
    /// The step in it.
    pub step: u32,
}

/// One step of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The instruction to execute.
    pub op: Op,
    /// What it reads; of `r` and `rcs`, which read nothing of their own: where the sender has it.
    pub src: Place,
    /// What it writes; of `s` and `rrs`, which write nothing of their own: where the receiver puts it.
    pub dst: Place,
    /// Consecutive chunks; 0 of a nop.
    pub count: u32,
    /// The step that must be done before it begins.
    pub after: Option<Dependency>,
    /// Do others wait for it?
    pub awaited: bool,
}

impl Step {
    /// A step that does nothing but wait for another.
    pub(crate) fn wait(after: Dependency) -> Step {
        let nowhere = Place { buffer: Buffer::Input, offset: 0 };
        Step { op: Op::Nop, src: nowhere, dst: nowhere, count: 0, after: Some(after), awaited: false }
    }
}

/// A thread block: steps one after the other, with at most one peer to send to and one to receive from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The rank it sends to.
    pub send: Option<u32>,
    /// The rank it receives from.
    pub receive: Option<u32>,
    /// The channel of both connections.
    pub channel: u32,
    /// Its steps, executed one after the other.
    pub steps: Vec<Step>,
}

/// What one rank does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Chunks of the input buffer.
    pub input: u32,
    /// Chunks of the output buffer.
    pub output: u32,
    /// Chunks of the scratch buffer.
    pub scratch: u32,
    /// Its blocks, which run side by side.
    pub blocks: Vec<Block>,
}

impl Gpu {
    /// Adds a block without steps; gives its number.
    pub(crate) fn add_block(&mut self, receive: Option<u32>, send: Option<u32>, channel: u32) -> u32 {
        self.blocks.push(Block { send, receive, channel, steps: Vec::new() });
        self.blocks.len() as u32 - 1
    }
    /// Chunks of a buffer.
    pub fn chunks(&self, buffer: Buffer) -> u32 {
        match buffer {
            Buffer::Input => self.input,
            Buffer::Output => self.output,
            Buffer::Scratch => self.scratch,
        }
    }
}

/// A program for all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is called.
    pub name: String,
    /// The transport's protocol, `Simple` for one.
    pub protocol: String,
    /// The collective's word as the file spells it: dialects differ.
    pub word: String,
    /// The collective that the word means.
    pub collective: Collective,
    /// Chunks that all shards together have.
    pub chunks: u32,
    /// May input and output be one buffer?
    pub in_place: bool,
    /// May they be two?
    pub out_of_place: bool,
    /// The smallest size it is for, in bytes.
    pub min_bytes: u64,
    /// The largest size it is for, in bytes; 0: any.
    pub max_bytes: u64,
    /// What each rank executes, by rank.
    pub gpus: Vec<Gpu>,
}

impl Program {
    /// Channels in use, from 0 to the highest.
    pub fn channels(&self) -> u32 {
        let blocks = self.gpus.iter().flat_map(|gpu| &gpu.blocks);
        blocks.map(|block| block.channel.saturating_add(1)).max().unwrap_or(0)
    }
    /// The steps of all ranks and blocks, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.gpus.iter().flat_map(|gpu| &gpu.blocks).flat_map(|block| &block.steps)
    }
    /// Does it add anything up?
    pub fn reduces(&self) -> bool {
        self.steps().any(|step| step.op.reduces())
    }
}
