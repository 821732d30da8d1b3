//! Parsers of this daemon, for `sluice-fuzz-targets` and nobody else: what they make of bytes, in words that its promises are
//! told in.

use std::net::SocketAddr;
use std::path::Path;

use sluice_progress::PageView;
use sluice_schedule::{Bytes, Nanos};
use sluice_wire::snapshot::Snapshot;

use crate::config::value::{HostPort, LogFilter};
use crate::hops::segment;
use crate::monitor::environ::{self, Environ};
use crate::monitor::round::{Rounds, Sent, Step};
use crate::{interfaces, metrics, monitor, sock_diag, starts};

/// What an `environ` file said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Texts that go on into logs and metrics: the job's id and the part in it.
    pub labels: [String; 2],
    /// The plan's path, and ids of its participants.
    pub plan: Option<(std::path::PathBuf, Vec<String>)>,
}

/// Bytes of `/proc/PID/environ`.
pub fn environ(bytes: &[u8]) -> Said {
    let Environ { job_id, dmlc_role, plan, .. } = Environ::parse(bytes);
    Said { labels: [job_id, dmlc_role], plan: plan.map(|plan| (plan.file, plan.ranks.unwrap_or_default())) }
}

/// Bytes of a stranger as a label.
pub fn label(bytes: &[u8]) -> String {
    environ::label(bytes)
}

/// Text of `/proc/PID/cgroup`.
pub fn cgroup(text: &str) -> Option<std::path::PathBuf> {
    monitor::holders::of_text(text)
}

/// Names and counts, received and sent, of a text like `/proc/net/dev`.
pub fn net_dev(text: &str) -> Vec<(String, Bytes, Bytes)> {
    let counters = interfaces::parse_counters(text);
    counters.into_iter().map(|(name, counters)| (name, counters.received, counters.sent)).collect()
}

/// Sockets of an answer of sock_diag, and names of congestion controls in it.
pub fn sock_diag(answer: &[u8]) -> (Vec<sock_diag::DiagSocket>, Vec<String>) {
    sock_diag::read_answer(answer)
}

/// A router's word on a probe: the router, and the probe's ends and number.
pub fn hop_answer(packet: &[u8]) -> Option<(std::net::IpAddr, [SocketAddr; 2], u16)> {
    let read = segment::read(packet)?;
    Some((read.from, [read.connection.source, read.connection.destination], read.id))
}

/// Starts that a file in this run directory remembers, with one at `now`.
pub fn starts(run_dir: &Path, now: Nanos) -> usize {
    starts::Starts::new(run_dir).note(now)
}

/// `/metrics` for this snapshot.
pub fn metrics(snapshot: &Snapshot) -> String {
    metrics::render(snapshot).unwrap_or_default()
}

/// `host:port`, written again.
pub fn host_port(text: &str) -> Option<String> {
    HostPort::parse(text).map(|read| read.to_string())
}

/// A filter of log lines, written again.
pub fn log_filter(text: &str) -> Option<String> {
    LogFilter::parse(text).ok().map(|read| read.to_string())
}

/// A look at a page, and what the kernel saw.
#[derive(Clone, Debug)]
pub struct Look {
    /// What the page says.
    pub view: PageView,
    /// Acknowledged since the look before.
    pub moved: Bytes,
    /// Written, not acknowledged.
    pub queued: Bytes,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The demand of the round, if it began or grew.
    pub demand: Option<Bytes>,
    /// Rounds that have ended.
    pub ended: u64,
}

/// Rounds as a page tells them, one look after the other, 60 ms apart.
pub fn demands(looks: &[Look]) -> Vec<Followed> {
    let (mut rounds, mut delivered, mut now) = (Rounds::default(), Bytes::ZERO, Nanos::from_millis(1000));
    let follow = |look: &Look| {
        now = now.plus(Nanos::from_millis(60));
        delivered = delivered.plus(look.moved);
        let step = rounds.page(now, &look.view, Sent { delivered, queued: look.queued }, look.moved);
        if matches!(step, Step::Began(_)) {
            delivered = Bytes::ZERO;
        }
        let demand = if let Step::Began(demand) | Step::Grew(demand) = step { Some(demand) } else { None };
        Followed { demand, ended: rounds.ended }
    };
    looks.iter().map(follow).collect()
}
