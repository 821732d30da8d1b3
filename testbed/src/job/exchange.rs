//! What the member's loop asks of a collective: which streams there are, what may go out now, what arriving floats do.
//!
//! A *stream* is one direction between two members; its bytes of one round are numbered from 0 and their number is known
//! before. Implementations have no sockets and no clock.

use super::collective::Collective;
use super::steps::Steps;
use super::trees::{self, Trees};
use super::{Arch, JobError, JobFile};

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
}

/// One stream as one of its ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub peer: usize,
    pub kind: Kind,
    /// Bytes of a round, a multiple of 4.
    pub bytes: u64,
}

/// One member's part in a collective: its buffer and its streams.
pub trait Exchange {
    fn outs(&self) -> &[Stream];
    fn ins(&self) -> &[Stream];
    /// What members must agree on besides the job's id; empty: nothing.
    fn identity(&self) -> &str {
        ""
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
    /// Has everything of this round arrived?
    fn complete(&self) -> bool;
    /// Compares the result with the exact one: first wrong element, what it is, what it should be.
    fn wrong(&self, iteration: u64) -> Option<(usize, f32, f32)>;
}

/// The exchange of a job's member.
///
/// # Errors
/// When the plan of a job of arch `plan` cannot be read or is none for this job.
pub fn of(file: &JobFile) -> Result<Box<dyn Exchange>, JobError> {
    Ok(match (file.arch, &file.plan) {
        (Arch::Plan, Some(plan)) => {
            let followed = trees::read(file, plan)?;
            if followed.steps.shard > 0 {
                Box::new(Steps::new(&followed, file.rank, file.bytes))
            } else {
                Box::new(Trees::new(&followed, file.rank, file.bytes))
            }
        }
        _ => Box::new(Collective::new(file)),
    })
}
