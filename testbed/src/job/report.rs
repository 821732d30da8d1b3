//! What a job's member says on standard output: one JSON object per line, told apart by `event`.

use std::io::Write;

use serde::{Deserialize, Serialize};

use super::exchange::Kind;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    Connected {
        rank: usize,
    },
    /// An iteration is over at this member. Times are CLOCK_MONOTONIC ns.
    Iteration {
        /// Number of the iteration, from 0.
        i: u64,
        compute_start_ns: u64,
        /// The round began: compute ended, or what overlap leaves of it.
        round_start_ns: u64,
        /// The last byte had arrived and the last was handed to the kernel.
        round_end_ns: u64,
        /// The buffer held the exact sum. Never false: a wrong sum ends the job with [`Line::Failed`].
        exact: bool,
    },
    /// Said by the sender: a flow of a lane has begun. Lanes and their flows are numbered as the plan has them.
    FlowBegan {
        /// Number of the iteration, from 0.
        i: u64,
        lane: usize,
        /// Its place in the lane.
        flow: usize,
        from: usize,
        to: usize,
        /// Just before its first byte was handed to the kernel, CLOCK_MONOTONIC ns.
        t_ns: u64,
    },
    /// Said by the receiver: a flow of a lane has come completely.
    FlowEnded {
        /// Number of the iteration, from 0.
        i: u64,
        lane: usize,
        /// Its place in the lane.
        flow: usize,
        from: usize,
        to: usize,
        /// Just after its last byte was read, CLOCK_MONOTONIC ns.
        t_ns: u64,
    },
    /// Progress while bytes move.
    Sample {
        /// CLOCK_MONOTONIC ns.
        t_ns: u64,
        /// Payload bytes acknowledged over all outgoing streams since the job began.
        acked: u64,
        /// With [`super::JobFile::sample_flows`]: the same per stream, and whether `sluice` drives it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flows: Vec<(u64, bool)>,
        /// The same streams: whether there is anything that the peer has not acknowledged, with the kernel or the
        /// member.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unsent: Vec<bool>,
    },
    /// All iterations are over and every byte is acknowledged.
    Done {
        flows: Vec<FlowReport>,
    },
    /// The job ended early; the exit status is 1.
    Failed {
        what: String,
    },
}

/// One outgoing stream at the end of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    pub to: usize,
    /// What it carried: `ring`, `aggregate`, `broadcast`, `reduce`, `spread`, `trees`, `steps`, `transfers`.
    pub kind: String,
    /// Payload bytes acknowledged.
    pub acked: u64,
    pub retransmits: u32,
    /// Congestion control at the end.
    pub tcp: String,
    /// Congestion control when it was established.
    pub tcp_at_start: String,
    /// Least round-trip time, µs.
    pub min_rtt_us: u32,
}

/// The word for a stream's kind.
pub fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Ring => "ring",
        Kind::Aggregate => "aggregate",
        Kind::Broadcast => "broadcast",
        Kind::Reduce => "reduce",
        Kind::Spread => "spread",
        Kind::Trees => "trees",
        Kind::Steps => "steps",
        Kind::Transfers => "transfers",
    }
}

/// Writes lines; each is flushed, since the reader times things by them.
#[derive(Debug)]
pub struct Reporter<W: Write>(pub W);

impl<W: Write> Reporter<W> {
    /// Writes one line. A reader that has gone is not an error of the job.
    pub fn say(&mut self, line: &Line) {
        if let Ok(mut text) = serde_json::to_vec(line) {
            text.push(b'\n');
            drop(self.0.write_all(&text).and_then(|()| self.0.flush()));
        }
    }
}
