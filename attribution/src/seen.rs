//! What one host saw of its jobs in one slot. Counts are of that slot, not since some beginning.

use serde::{Deserialize, Serialize};
use sluice_schedule::policy::Why;
use sluice_schedule::{Bytes, FlowId, JobId, Nanos, Rate};

/// Flows of one slot at most; a host with more records those that moved most.
pub const MAX_FLOWS: usize = 512;
/// Arrivals, peers and links of one slot at most.
pub const MAX_LIST: usize = 512;
/// Jobs of one slot at most, and marks of each.
pub const MAX_JOBS: usize = 256;

/// One slot. Jobs, peers and links are named once, and by their place elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// When it began, on the cluster's clock.
    pub from: Nanos,
    /// When it was over.
    pub to: Nanos,
    /// Slots before this one that could not be written.
    pub missed: u64,
    /// Orders reach the kernel.
    pub enforces: bool,
    /// Every job with a process on this host.
    pub jobs: Vec<JobSeen>,
    /// Hosts at the other ends: names, else addresses.
    pub peers: Vec<String>,
    /// Links that flows cross, and the own ones.
    pub links: Vec<LinkSeen>,
    /// Connections by which this host sends.
    pub flows: Vec<FlowSeen>,
    /// Connections by which it receives.
    pub arrivals: Vec<ArrivalSeen>,
}

/// A job in one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSeen {
    /// Alike on all its hosts.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its rounds are inferred from what it sends: no page says when it computes.
    pub inferred: bool,
    /// Begins and ends of rounds in this slot, in the order of time.
    pub marks: Vec<Mark>,
}

/// A round began or ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// When, on the cluster's clock.
    pub at: Nanos,
    /// Which round.
    pub round: u64,
    /// It ended; false: it began.
    pub ended: bool,
}

/// A link in one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSeen {
    /// `gpu-17:eth0`, `leaf-1:7`, `gpu-18:in`.
    pub name: String,
    /// Payload rate, as far as this host knows it.
    pub capacity: Rate,
    /// This host receives by it.
    pub inwards: bool,
    /// Bytes of this host's jobs, by their places.
    pub jobs: Vec<JobBytes>,
    /// What other hosts promised there.
    pub promised: Rate,
    /// What nobody manages.
    pub other: Rate,
}

/// Bytes of one job on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobBytes {
    /// Its place in [`Seen::jobs`].
    pub job: u32,
    /// Bytes in the slot.
    pub bytes: Bytes,
}

/// Why an order was not higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Held {
    /// It was as high as the links allow, or there was none.
    #[default]
    Not,
    /// Others go first, or have the room.
    Others,
    /// What the flow waits for sets its pace.
    Waits,
    /// The loss guard caps it.
    Guard,
}

impl Held {
    /// What a scheduler's reason means here.
    pub fn of(why: Why) -> Held {
        match why {
            Why::Rank | Why::Price | Why::Headroom | Why::Floor => Held::Others,
            Why::Predecessor | Why::CatchUp | Why::Job => Held::Waits,
            Why::LossGuard => Held::Guard,
            Why::NoDemand | Why::LinkCap | Why::LocalTable | Why::WorkConserving | Why::Uptake | Why::Plan => Held::Not,
        }
    }
}

/// A connection by which the host sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSeen {
    /// The flow.
    pub flow: FlowId,
    /// Its job's place.
    pub job: u32,
    /// Its receiver's place in [`Seen::peers`].
    pub peer: u32,
    /// Its links' places, its sender's own first.
    pub path: Vec<u32>,
    /// The order at the slot's end; zero: none.
    pub ordered: Rate,
    /// Acknowledged.
    pub delivered: Bytes,
    /// Of its round still to deliver at the slot's end.
    pub remaining: Bytes,
    /// Written and not acknowledged at the slot's end.
    pub queued: Bytes,
    /// Segments sent again.
    pub resent: u64,
    /// Payload of a segment; zero: not known.
    pub segment: Bytes,
    /// How much longer than the least a round trip takes.
    pub queueing: Nanos,
    /// The least round trip.
    pub rtt_min: Nanos,
    /// Why its order was not higher.
    pub held: Held,
    /// What limited it by the kernel's count; `None`: it was not asked.
    pub limits: Option<Limits>,
}

/// For how much of a slot something other than the network limited a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Nothing was written that was not acknowledged.
    pub idle: Nanos,
    /// The receiver's window was shut.
    pub receiver: Nanos,
    /// The own send buffer was full and too small for the path.
    pub buffer: Nanos,
}

/// A connection by which the host receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalSeen {
    /// Its job's place.
    pub job: u32,
    /// Its sender's place in [`Seen::peers`].
    pub peer: u32,
    /// The place of the link by which it comes, if that is known.
    pub link: Option<u32>,
    /// Bytes that came.
    pub received: Bytes,
    /// Bytes that have come and that the process has not taken yet.
    pub unread: Bytes,
}

/// A slot with one of everything, told apart from others by its number: for tests, and for `sluice-fuzz-targets` and nobody else.
#[doc(hidden)]
pub fn sample(number: u64) -> Seen {
    let bytes = Bytes(number);
    Seen {
        from: Nanos(number * 60),
        to: Nanos(number * 60 + 60),
        jobs: vec![JobSeen {
            id: JobId(7),
            name: "4711".into(),
            inferred: false,
            marks: vec![Mark { at: Nanos(number * 60), round: number, ended: true }],
        }],
        peers: vec!["h1".into()],
        links: vec![LinkSeen {
            name: "h0:eth0".into(),
            capacity: Rate(1_000),
            jobs: vec![JobBytes { job: 0, bytes }],
            ..LinkSeen::default()
        }],
        flows: vec![FlowSeen { flow: FlowId(number), delivered: bytes, ..FlowSeen::default() }],
        arrivals: vec![ArrivalSeen { received: bytes, ..ArrivalSeen::default() }],
        ..Seen::default()
    }
}

impl Seen {
    /// How long it is.
    pub fn length(&self) -> Nanos {
        self.to.minus(self.from)
    }
    /// A job's place.
    pub fn place(&self, job: JobId) -> Option<u32> {
        self.jobs.iter().position(|seen| seen.id == job).and_then(|at| u32::try_from(at).ok())
    }
    /// A job's name; empty where the place is none.
    pub fn job_name(&self, at: u32) -> &str {
        self.jobs.get(at as usize).map_or("", |job| &job.name)
    }
    /// A peer's name; empty where the place is none.
    pub fn peer_name(&self, at: u32) -> &str {
        self.peers.get(at as usize).map_or("", |peer| peer)
    }
    /// A link, if the place is one.
    pub fn link(&self, at: u32) -> Option<&LinkSeen> {
        self.links.get(at as usize)
    }
    /// Keeps what a record has room for: the flows and arrivals that moved most, and the rest of every list's beginning.
    pub fn bound(&mut self) {
        if self.flows.len() > MAX_FLOWS {
            self.flows.sort_by_key(|flow| std::cmp::Reverse((flow.delivered, flow.remaining)));
            self.flows.truncate(MAX_FLOWS);
        }
        if self.arrivals.len() > MAX_LIST {
            self.arrivals.sort_by_key(|arrival| std::cmp::Reverse((arrival.received, arrival.unread)));
            self.arrivals.truncate(MAX_LIST);
        }
        self.peers.truncate(MAX_LIST);
        self.links.truncate(MAX_LIST);
        self.jobs.truncate(MAX_JOBS);
    }
}
