//! Contents `paths`, `steps` and `sends`: who sends which part of the data where, and when.

use super::{Decimal, Duration, NodeId, Size, Text};
use sluice_formats::json::{Json, Kind, Read, Reader, Writer, form, words};
use sluice_formats::problem::{E_PARSE, Problem};
use sluice_formats::quantity::Rational;

form! {
    /// A path that carries a part of what one participant has for another.
    pub struct Pair {
        /// The part of the pair's data.
        pub amount: Rational = "amount",
        /// Whom it is for.
        pub dst: NodeId = "dst",
        /// All nodes, both ends included.
        pub path: Vec<NodeId> = "path",
        /// Whose data it is.
        pub src: NodeId = "src",
    }
}

/// Content `paths`: ways for parts of what pairs of nodes have for each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    /// One entry per path; a pair has several where its data is divided.
    pub pairs: Vec<Pair>,
}

words! {
    /// What a receiver does with what arrives.
    pub enum Op {
        /// Keeps it.
        Copy = "copy",
        /// Adds it to its own.
        Reduce = "reduce",
    }
}

/// Whose data is sent: the owner's rank, or for an all-to-all the ranks of source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shard {
    /// The shard that this rank owns.
    Of(u32),
    /// From this rank for that one.
    Between(u32, u32),
}

impl Json for Shard {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Shard>> {
        if reader.peek()? == Kind::List {
            return Ok(<(u32, u32)>::read(reader)?.map(|(from, to)| Shard::Between(from, to)));
        }
        Ok(u32::read(reader)?.map(Shard::Of))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Shard::Of(rank) => rank.write(writer),
            Shard::Between(from, to) => (*from, *to).write(writer),
        }
    }
}

/// The part [lo/P, hi/P) of a shard over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSend {
    /// The shard that the part is of.
    pub shard: Shard,
    /// Where the part begins, in P-ths.
    pub lo: u64,
    /// Where the part ends, in P-ths; not in it.
    pub hi: u64,
    /// Index of the link.
    pub link: u32,
}

impl Json for StepSend {
    fn read(reader: &mut Reader<'_>) -> Read<Option<StepSend>> {
        reader.charge()?;
        let parts = <(Shard, u64, u64, u32)>::read(reader)?;
        Ok(parts.map(|(shard, lo, hi, link)| StepSend { shard, lo, hi, link }))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        (self.shard, self.lo, self.hi, self.link).write(writer);
    }
}

form! {
    /// What is sent at the same time.
    pub struct Step {
        /// Of a step that adds up, sends of complete sums besides, which their receivers keep.
        pub copies: Option<Vec<StepSend>> = "copies",
        /// What receivers do with it.
        pub op: Op = "op",
        /// The sends whose receivers do `op`.
        pub sends: Vec<StepSend> = "sends",
    }
}

impl Step {
    /// Those of its sends that do one thing, and the key under which they stand.
    pub fn doing(&self, op: Op) -> (&[StepSend], &'static str) {
        match op {
            Op::Copy if self.op == Op::Reduce => (self.copies.as_deref().unwrap_or_default(), "copies"),
            _ if self.op == op => (&self.sends, "sends"),
            _ => (&[], "sends"),
        }
    }

    /// All that is sent in it.
    pub fn all(&self) -> impl Iterator<Item = &StepSend> {
        self.sends.iter().chain(self.copies.iter().flatten())
    }
}

/// Content `steps`: synchronised steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// Into how many units a shard is cut.
    pub p: u64,
    /// By rank how much of the sum of an all-reduce is made there, in parts of their sum; absent: by the weights of nodes.
    pub shares: Option<Vec<u64>>,
    /// Length of a step of a fluid schedule.
    pub step_length: Option<Rational>,
    /// The steps in order.
    pub steps: Vec<Step>,
}

form! {
    /// A link or a node that is slower than the topology says.
    pub struct Straggler {
        /// Seconds added to the latency.
        pub alpha_add: Option<Decimal> = "alpha_add",
        /// Factor of the time per byte.
        pub beta_mul: Option<Decimal> = "beta_mul",
        /// Index of the link that is slower; absent where a node is named.
        pub link: Option<u32> = "link",
        /// The node all of whose links are slower; absent where a link is named.
        pub node: Option<NodeId> = "node",
    }
}

form! {
    /// What a checker must know of the model that a schedule was made with.
    pub struct Model {
        /// Bytes of a chunk.
        pub chunk: Size = "chunk",
        /// Chunks per source; of an all-to-all, a scatter or a gather per pair.
        pub chunks: u64 = "chunks",
        /// May chunks be cut?
        pub divisible: Option<bool> = "divisible",
        /// Does a second hop inside the same epoch cost nothing?
        pub free_second_hop: Option<bool> = "free_second_hop",
        /// Do sends cross a switch without being at it, so that `via` names it?
        pub hyper_edges: Option<bool> = "hyper_edges",
        /// Links and nodes that are slower.
        pub stragglers: Option<Vec<Straggler>> = "stragglers",
        /// Length of an epoch.
        pub tau: Duration = "tau",
        /// Share of an epoch that a transfer may be too long.
        pub theta: Option<Rational> = "theta",
    }
}

/// A chunk over a link in an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    /// What stands in the file.
    pub entry: Box<SendEntry>,
}

form! {
    /// A chunk over a link in an epoch, as it stands in the file.
    pub struct SendEntry {
        /// Bytes, of a piece of a chunk.
        pub bytes: Option<u64> = "bytes",
        /// Number of the chunk.
        pub chunk: u64 = "chunk",
        /// The epoch in which it is sent.
        pub epoch: u64 = "epoch",
        /// Node that sends.
        pub from: NodeId = "from",
        /// Where a piece begins.
        pub offset: Option<u64> = "offset",
        /// What the receiver does with it; absent: keeps it.
        pub op: Option<Op> = "op",
        /// Whose chunk it is.
        pub src: NodeId = "src",
        /// Whose demand it serves, with several tenants.
        pub tenant: Option<Text> = "tenant",
        /// Node that receives.
        pub to: NodeId = "to",
        /// The switch of a hyper-edge.
        pub via: Option<NodeId> = "via",
    }
}

impl SendEntry {
    /// Is what the sender holds of the chunk handed over as a sum, to be added to what the receiver holds?
    pub fn reduces(&self) -> bool {
        self.op == Some(Op::Reduce)
    }
}

impl Json for Send {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Send>> {
        reader.charge()?;
        let entry = SendEntry::read(reader)?;
        if let Some(entry) = &entry
            && entry.offset.is_some() != entry.bytes.is_some()
        {
            let error = Problem::new(E_PARSE, "", "a piece has an offset and a number of bytes");
            reader.refuse(error.allowed("both keys or none"));
        }
        Ok(entry.map(|entry| Send { entry: Box::new(entry) }))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        self.entry.write(writer);
    }
}

/// Content `sends`: chunks over links, epoch by epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Sends {
    /// Length of an epoch in microseconds.
    pub epoch_us: Option<Decimal>,
    /// Epochs until the last chunk arrives.
    pub finish_epochs: Option<u64>,
    /// The same in microseconds.
    pub finish_us: Option<Decimal>,
    /// The model of chunks and epochs that the sends were made with.
    pub model: Model,
    /// By epoch, source, chunk, from, to.
    pub sends: Vec<Send>,
}
