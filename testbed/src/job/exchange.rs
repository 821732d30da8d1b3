//! What the member's loop asks of a collective: which streams there are, what may go out now, what arriving floats do.
//!
//! A *stream* is one direction between two members; its bytes of one round are numbered from 0 and their number is known
//! before. Implementations have no sockets and no clock.

use super::JobError;
use super::buffer::Difference;

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rank n to rank n+1 of a ring.
    Ring,
    /// Worker to server.
    Aggregate,
    /// Server to worker.
    Broadcast,
    /// Child to parent.
    Reduce,
    /// Parent to child.
    Spread,
    /// All tree edges of a plan from one rank to another.
    Trees,
    /// All sends of a step schedule from one rank to another.
    Steps,
    /// The flows of one lane of a plan.
    Transfers,
}

/// One stream as one of its ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub peer: usize,
    pub kind: Kind,
    /// Which of the lanes with this peer it is, from 0; 0 where one stream carries everything.
    pub lane: u32,
    /// Bytes of a round, a multiple of 4.
    pub bytes: u64,
}

/// A flow of a plan's lane, as the plan counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFlow {
    pub lane: usize,
    /// Its place in the lane.
    pub flow: usize,
    /// The rank that sends.
    pub from: usize,
    /// The rank that receives.
    pub to: usize,
}

/// The streams of one member.
#[derive(Debug, Default)]
pub struct Streams {
    /// What members must agree on besides the job's id; empty: nothing.
    pub identity: String,
    pub outs: Vec<Stream>,
    pub ins: Vec<Stream>,
}

/// The place of the stream with this peer, made if it is new.
pub fn stream_with(streams: &mut Vec<Stream>, peer: usize, kind: Kind) -> usize {
    let known = streams.iter().position(|stream| stream.peer == peer);
    known.unwrap_or_else(|| {
        streams.push(Stream { peer, kind, lane: 0, bytes: 0 });
        streams.len() - 1
    })
}

/// One member's part in a collective: its buffer and its streams.
pub trait Exchange {
    fn streams(&self) -> &Streams;
    fn outs(&self) -> &[Stream] {
        &self.streams().outs
    }
    fn ins(&self) -> &[Stream] {
        &self.streams().ins
    }
    /// Starts a round with this iteration's values.
    fn begin(&mut self, iteration: u64);
    /// The next bytes of stream `out` from position `at`, in two pieces of at most `most` bytes each, as far as they
    /// may go by now; both empty: nothing. `at` is what was taken of the stream so far.
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2];
    /// How many bytes of incoming stream `input` have arrived in this round.
    fn arrived(&self, input: usize) -> u64;
    /// Takes arriving floats of stream `input`, in order.
    ///
    /// # Errors
    /// When a peer says what it cannot mean.
    fn accept(&mut self, input: usize, data: &[f32]) -> Result<(), JobError>;
    /// The next flow of stream `out` that has begun and was not told before in this round, when `sent` bytes of the
    /// stream are on their way. Exchanges without flows of their own have none to tell.
    fn began(&mut self, _out: usize, _sent: u64) -> Option<LaneFlow> {
        None
    }
    /// The next flow of stream `input` that has come completely and was not told before in this round.
    fn ended(&mut self, _input: usize) -> Option<LaneFlow> {
        None
    }
    /// Has everything of this round arrived?
    fn complete(&self) -> bool {
        self.ins().iter().enumerate().all(|(input, stream)| self.arrived(input) == stream.bytes)
    }
    /// The first element of the result that differs from the exact one.
    fn wrong(&self, iteration: u64) -> Option<Difference>;
}
