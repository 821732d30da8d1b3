//! The flight recorder: what this host saw of its jobs in the last minutes, slot by slot, in a file that outlives the daemon,
//! however that ends. `sluice why` reads it; its bytes are described in [`sluice_attribution::record`].
//!
//! The deciding loop says what it knows once a slot ([`Flight::say`], which never waits). A thread of its own asks the kernel
//! what limited the connections, within a bound of time, and writes.
//!
//! | module | is |
//! | --- | --- |
//! | [`mod@asking`] | what limited the connections, asked within a bound of time |
//! | [`mod@file`] | the ring of segments on disk |
//! | [`looks`] | what a slot costs the thread, for a benchmark |

mod asking;
mod file;
pub mod looks;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sluice_attribution::seen::{Limits, Seen};
use sluice_schedule::{FlowId, JobId, Nanos};

use crate::monitor::tuple::{NetNs, Tuple};
use crate::privilege::eyes::SharedEyes;
use asking::Asking;

/// Slots that wait for the thread at most.
const WAITING: usize = 32;
/// How long the end of a daemon waits for what is not yet written.
const END: Duration = Duration::from_millis(500);

/// What the loop knows of a slot.
#[derive(Debug, Default)]
pub struct Told {
    /// All but what the kernel has to be asked for.
    pub seen: Seen,
    /// The connection of each of its flows.
    pub flows: Vec<Connection>,
    /// Every connection of a job, whichever way bytes go.
    pub connections: Vec<Connection>,
    /// What each inward link received, by its place among the links.
    pub received: Vec<(u32, sluice_schedule::Bytes)>,
}

/// A connection of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// A process in its network namespace.
    pub pid: u32,
    pub netns: NetNs,
    pub tuple: Tuple,
    /// The flow that this host sends on it.
    pub flow: FlowId,
    /// Its job's place.
    pub job: u32,
    /// Its other end's place among the peers.
    pub peer: u32,
    /// The place of the link by which it receives.
    pub link: Option<u32>,
    /// The place of the link by which it sends.
    pub out: Option<u32>,
}

/// The connections of all processes, as they were when the monitor last matched them with their sockets: going through pages
/// for them in every slot would cost as much as all else that is told of one.
#[derive(Debug, Default)]
pub struct Listed {
    /// The number of that matching; `None`: they were not listed yet.
    pub matching: Option<u64>,
    pub connections: Vec<ListedConnection>,
}

/// A connection of a job, wherever its job, peer and links stand in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedConnection {
    /// A process in its network namespace.
    pub pid: u32,
    pub netns: NetNs,
    pub tuple: Tuple,
    /// The flow that this host sends on it.
    pub flow: FlowId,
    pub job: JobId,
    /// By which of the host's cards it goes.
    pub link: Option<usize>,
}

/// How much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub path: PathBuf,
    pub time: Nanos,
    pub max_bytes: u64,
}

/// A recorder under way; dropping it ends the file in order, without waiting for that.
pub struct Flight {
    pub kept: Kept,
    /// Since when the slot under way lasts, on the cluster's clock.
    pub since: Option<Nanos>,
    /// Begins and ends of rounds since then.
    pub marks: Vec<(JobId, sluice_attribution::seen::Mark)>,
    /// The connections that the last slot had.
    pub listed: Listed,
    told: Option<SyncSender<Told>>,
    missed: u64,
    thread: Option<JoinHandle<()>>,
}

impl Flight {
    /// Begins, or goes on in a file that is there.
    ///
    /// # Errors
    /// When there can be no further thread.
    pub fn start(kept: Kept, host: &str, slot: Nanos, eyes: SharedEyes) -> std::io::Result<Flight> {
        let (told, from) = sync_channel(WAITING);
        let (of, host) = (kept.clone(), host.to_owned());
        let body = move || run(&of, &host, slot, eyes, &from);
        let thread = std::thread::Builder::new().name("flight".into()).spawn(body)?;
        let (marks, listed) = (Vec::new(), Listed::default());
        Ok(Flight { kept, since: None, marks, listed, told: Some(told), missed: 0, thread: Some(thread) })
    }

    /// Writes a slot soon, or counts it as missed.
    pub fn say(&mut self, mut told: Told) {
        let Some(to) = &self.told else { return };
        told.seen.missed = self.missed;
        match to.try_send(told) {
            Ok(()) => self.missed = 0,
            Err(TrySendError::Full(_)) => self.missed += 1,
            // The thread has said why it ended.
            Err(TrySendError::Disconnected(_)) => self.told = None,
        }
    }

    /// Ends it, and waits a moment until the last slots are written.
    pub fn finish(mut self) {
        self.told = None;
        let (Some(thread), began) = (self.thread.take(), Instant::now()) else { return };
        while !thread.is_finished() && began.elapsed() < END {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn run(kept: &Kept, host: &str, slot: Nanos, eyes: SharedEyes, from: &Receiver<Told>) {
    crate::sys::defer_this_thread();
    if let Err(error) = record(kept, host, slot, eyes, from) {
        warn(&kept.path, &error);
    }
}

fn record(kept: &Kept, host: &str, slot: Nanos, eyes: SharedEyes, from: &Receiver<Told>) -> std::io::Result<()> {
    let Some(mut ring) = file::Ring::open(kept, host)? else { return Ok(()) };
    let mut asking = Asking::new(slot, eyes);
    while let Ok(told) = from.recv() {
        look(&mut asking, &mut ring, told)?;
    }
    Ok(())
}

/// Asks of a slot's connections, and writes the slot.
fn look(asking: &mut Asking, ring: &mut file::Ring, mut told: Told) -> std::io::Result<()> {
    asking.complete(&mut told);
    told.seen.bound();
    ring.write(&told.seen)
}

fn warn(path: &Path, error: &std::io::Error) {
    tracing::warn!(
        event = "flight-failed",
        file = %path.display(),
        %error,
        cost = "sluice why knows nothing of the rounds from here on",
        next = "mend flight.file or the disk and reload; flight.max_bytes = 0 keeps no flight record",
        "the flight recorder ends"
    );
}

/// A part of a count that rose by `of` in `elapsed`, for a slot of this length.
fn scaled(of: Nanos, elapsed: Nanos, length: Nanos) -> Nanos {
    if elapsed.0 == 0 { Nanos::ZERO } else { length.scaled((of.0 as f64 / elapsed.0 as f64).min(1.0)) }
}

/// What limited a connection, of counts at two times.
fn limits(before: &asking::Counted, after: &asking::Counted, length: Nanos) -> Limits {
    let elapsed = after.at.minus(before.at);
    let rose = |of: fn(&crate::sock_diag::limits::Limited) -> Nanos| of(&after.counts).minus(of(&before.counts));
    Limits {
        idle: scaled(elapsed.minus(rose(|counts| counts.busy)), elapsed, length),
        receiver: scaled(rose(|counts| counts.receiver), elapsed, length),
        buffer: scaled(rose(|counts| counts.buffer), elapsed, length),
    }
}
