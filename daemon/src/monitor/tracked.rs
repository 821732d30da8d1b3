//! All connections over time, by their byte counts: which of them are a job's, without the asking. Pure.
//!
//! One that moved as many bytes as the configuration asks for, in either direction, is looked at: which process has it, and
//! does that belong to a job? By the operator's word it does at once; by its environment alone it does once the connection
//! has shown rounds ([`super::rhythm`]), so that no download of a job is taken for its gradients; one that an earlier daemon
//! managed has shown them to that one. Then it is told, and told again when the directions change or it is gone.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use sluice_schedule::{Bytes, Nanos};

use super::discovery::{News, Origin};
use super::environ::Environ;
use super::holders::Wanted;
use super::rhythm::Rhythm;
use super::sockets::Known;
use super::tuple::{NetNs, Place, Tuple};
use crate::sock_diag::DiagSocket;

/// A connection whose process was not found is looked for again after this long.
const AGAIN: Nanos = Nanos::from_millis(10_000);
/// Connections remembered.
pub(crate) const MAX_TRACKED: usize = 32_768;
/// Counts of bytes lose half their weight in this time, so that what a job did at its start is forgotten.
const HALF_LIFE: Nanos = Nanos::from_millis(4_000);
/// A direction that carries less than this part of the other one carries acknowledgements of the library, no tensors.
const ONE_WAY: u64 = 16;
/// One that has shown no rounds in this time is not looked at closely any more.
const CLOSELY_FOR: Nanos = Nanos::from_millis(60_000);

/// Whose a connection is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub environ: Environ,
    /// The operator says that it belongs to a job.
    pub declared: bool,
}

#[derive(Clone, Debug)]
struct Connection {
    known: Known,
    inode: u64,
    /// Counts at the last look.
    last: (u64, u64),
    /// Bytes sent and received of late.
    weight: (u64, u64),
    halved: Nanos,
    rhythm: Rhythm,
    /// When it had moved as much as is asked for.
    counts: Option<Nanos>,
    holder: Option<u32>,
    tried: Option<Nanos>,
    identity: Option<Identity>,
    told: Option<(bool, bool)>,
    seen: bool,
}

impl Connection {
    fn is_jobs(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| !identity.environ.job_id.is_empty())
    }
    fn declared(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.declared)
    }
}

#[derive(Debug)]
pub struct Tracked {
    /// Bytes in one direction that make a connection worth a look.
    pub threshold: Bytes,
    /// By cookie, so that the order in which they are told, and so who finds a place, follows from nothing else. Apart from the
    /// map, whose nodes have places to spare.
    connections: BTreeMap<u64, Box<Connection>>,
    now: Nanos,
}

impl Tracked {
    pub fn new(threshold: Bytes) -> Tracked {
        Tracked { threshold, connections: BTreeMap::new(), now: Nanos::ZERO }
    }

    /// A look at all of them begins.
    pub fn begin(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.seen = false);
    }

    /// One connection as it is now. `pid`: a process in its namespace.
    pub fn look(&mut self, now: Nanos, netns: NetNs, pid: u32, seen: &DiagSocket) {
        let full = self.connections.len() >= MAX_TRACKED;
        let place = Place { netns, tuple: Tuple::of_v6(seen.local, seen.remote) };
        let counts = counts(seen);
        let connection = match self.connections.entry(seen.cookie) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if full => return,
            Entry::Vacant(entry) => entry.insert(Box::new(Connection {
                known: Known { cookie: seen.cookie, place, uid: seen.uid, pid },
                inode: u64::from(seen.inode),
                last: (0, 0),
                weight: (0, 0),
                halved: now,
                rhythm: Rhythm::default(),
                counts: None,
                holder: None,
                tried: None,
                identity: None,
                told: None,
                seen: true,
            })),
        };
        connection.seen = true;
        connection.weight.0 = connection.weight.0.saturating_add(counts.0.saturating_sub(connection.last.0));
        connection.weight.1 = connection.weight.1.saturating_add(counts.1.saturating_sub(connection.last.1));
        connection.last = counts;
        connection.rhythm.look(now, Bytes(counts.0.saturating_add(counts.1)));
        // Its orders run out soon after a restart; to wait for rounds once more would give it back meanwhile.
        if seen.managed {
            connection.rhythm.known();
        }
        if counts.0.max(counts.1) >= self.threshold.0 {
            connection.counts = connection.counts.or(Some(now));
        }
        if now.minus(connection.halved) >= HALF_LIFE {
            // A connection at rest keeps its directions.
            let (sent, received) = connection.weight;
            if sent.max(received) > self.threshold.0 {
                connection.weight = (sent / 2, received / 2);
            }
            connection.halved = now;
        }
    }

    /// The connections of jobs that have not shown rounds yet.
    pub fn candidates(&self) -> impl Iterator<Item = (u64, Known)> {
        let fresh = |connection: &Connection| {
            let since = connection.counts.is_some_and(|since| self.now.minus(since) < CLOSELY_FOR);
            since && connection.is_jobs() && !connection.declared() && !connection.rhythm.shown()
        };
        self.connections.iter().filter(move |(_, connection)| fresh(connection)).map(|(cookie, c)| (*cookie, c.known))
    }

    /// One of the candidates as it is now.
    pub fn look_closely(&mut self, now: Nanos, seen: &DiagSocket) {
        if let Some(connection) = self.connections.get_mut(&seen.cookie) {
            let (sent, received) = counts(seen);
            connection.rhythm.look(now, Bytes(sent.saturating_add(received)));
        }
    }

    /// The look at all of them ends: what is to be told. `holders`: the processes that hold these sockets; `identify`:
    /// whose a process's connections are.
    pub fn end(
        &mut self,
        now: Nanos,
        holders: impl FnOnce(&mut Wanted) -> HashMap<u64, u32>,
        identify: impl Fn(u32, &Tuple) -> Option<Identity>,
        out: &mut Vec<News>,
    ) {
        self.now = now;
        self.connections.retain(|_, connection| {
            if !connection.seen
                && let (Some(_), Some(pid)) = (connection.told, connection.holder)
            {
                out.push(News::Lost(connection.known.place, pid));
            }
            connection.seen
        });
        let mut wanted = Wanted::new();
        let counting = |connection: &&mut Box<Connection>| connection.counts.is_some();
        for connection in self.connections.values_mut().filter(counting) {
            let due = connection.tried.is_none_or(|at| now.minus(at) >= AGAIN);
            if connection.holder.is_none() && due {
                connection.tried = Some(now);
                wanted.insert(connection.inode, connection.known.uid);
            }
        }
        let found = if wanted.is_empty() { HashMap::new() } else { holders(&mut wanted) };
        for connection in self.connections.values_mut().filter(counting) {
            connection.holder = connection.holder.or(found.get(&connection.inode).copied());
            let Some(pid) = connection.holder else { continue };
            connection.known.pid = pid;
            if connection.identity.is_none() {
                connection.identity = identify(pid, &connection.known.place.tuple);
            }
            let directions = directions(connection.weight);
            let shown = connection.declared() || connection.rhythm.shown();
            if !connection.is_jobs() || !shown || connection.told == Some(directions) {
                continue;
            }
            connection.told = Some(directions);
            let (sends, receives) = directions;
            let environ = connection.identity.clone().unwrap_or_default().environ;
            out.push(News::Found(Box::new(Origin { known: connection.known, environ, sends, receives })));
        }
    }
}

/// Bytes sent, queued ones too, and received.
fn counts(seen: &DiagSocket) -> (u64, u64) {
    (seen.stats.acked.plus(seen.stats.queued).0, seen.received.0)
}

/// Which directions carry tensors, by bytes sent and received.
pub fn directions((sent, received): (u64, u64)) -> (bool, bool) {
    (sent >= received / ONE_WAY, received >= sent / ONE_WAY && received > 0)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use sluice_ebpf::FlowStats;

    use super::*;
    use crate::testing::at;

    const MIB: u64 = 1 << 20;
    const JOB: &[u8] = b"SLUICE_JOB_ID=vgg\0";

    fn v6(address: std::net::SocketAddr) -> SocketAddrV6 {
        match address {
            std::net::SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
            std::net::SocketAddr::V6(v6) => v6,
        }
    }

    fn seen(cookie: u64, sent: u64, received: u64) -> DiagSocket {
        DiagSocket {
            cookie,
            inode: cookie as u32,
            local: v6(at(0, 4000 + cookie as u16)),
            remote: v6(at(1, 5000)),
            uid: 0,
            managed: false,
            received: Bytes(received),
            stats: FlowStats { acked: Bytes(sent), ..FlowStats::default() },
        }
    }

    /// One look at these sockets, all of them held by process 7 with this environment.
    fn look_at(tracked: &mut Tracked, ms: u64, sockets: &[DiagSocket], environ: &[u8], declared: bool) -> Vec<News> {
        let now = Nanos::from_millis(ms);
        tracked.begin();
        sockets.iter().for_each(|seen| tracked.look(now, NetNs(3), 6, seen));
        let mut out = Vec::new();
        let own = |wanted: &mut Wanted| wanted.keys().map(|inode| (*inode, 7)).collect();
        let identity = |_, _: &Tuple| Some(Identity { environ: Environ::parse(environ), declared });
        tracked.end(now, own, identity, &mut out);
        out
    }

    fn look(tracked: &mut Tracked, ms: u64, sockets: &[DiagSocket]) -> Vec<News> {
        look_at(tracked, ms, sockets, JOB, true)
    }

    fn told(news: &[News]) -> Vec<(u16, bool, bool)> {
        let found = news.iter().filter_map(|item| match item {
            News::Found(origin) => Some((origin.known.place.tuple.local.1, origin.sends, origin.receives)),
            _ => None,
        });
        found.collect()
    }

    #[test]
    fn what_sends_little_is_left_alone_and_what_sends_much_is_told_once() {
        let mut tracked = Tracked::new(Bytes(MIB));
        assert_eq!(look(&mut tracked, 0, &[seen(1, 3_000, 2_000), seen(2, 0, 0)]), []);
        let news = look(&mut tracked, 200, &[seen(1, 3_100, 2_000), seen(2, 2 * MIB, 4_000)]);
        assert_eq!(told(&news), [(4002, true, false)], "the rendezvous is no tensor flow");
        assert_eq!(look(&mut tracked, 400, &[seen(1, 3_100, 2_000), seen(2, 4 * MIB, 9_000)]), []);
        let place = Place { netns: NetNs(3), tuple: Tuple::of(at(0, 4002), at(1, 5000)) };
        assert_eq!(look(&mut tracked, 600, &[seen(1, 3_100, 2_000)]), [News::Lost(place, 7)]);
    }

    #[test]
    fn the_accepting_side_and_a_change_of_direction_are_told() {
        let mut tracked = Tracked::new(Bytes(MIB));
        // First the model comes in, then gradients go out, on one connection.
        assert_eq!(told(&look(&mut tracked, 0, &[seen(1, 200, 30 * MIB)])), [(4001, false, true)]);
        let (mut last, mut sent) = (Vec::new(), 0);
        for i in 1..60 {
            sent += 10 * MIB;
            let news = look(&mut tracked, i * 500, &[seen(1, sent, 30 * MIB + i * 5_000)]);
            last.extend(told(&news));
        }
        assert_eq!(last, [(4001, true, true), (4001, true, false)]);
        // At rest nothing is news.
        assert_eq!(told(&look(&mut tracked, 90_000, &[seen(1, sent, 30 * MIB + 59 * 5_000)])), []);
    }

    #[test]
    fn a_jobs_connection_is_told_once_it_has_shown_rounds_and_a_strangers_never() {
        for (environ, wanted) in [(JOB, 1), (&b"PATH=/bin\0"[..], 0)] {
            let mut tracked = Tracked::new(Bytes(MIB));
            let (mut all, mut sent, mut ms) = (Vec::new(), 0, 0);
            // What never rests is the second one: a checkpoint, or what a loader fetches.
            for _ in 0..4 {
                for step in 0..30 {
                    sent += if step < 10 { MIB } else { 0 };
                    let both = [seen(1, sent, 0), seen(2, ms * 50_000, 0)];
                    all.extend(told(&look_at(&mut tracked, ms, &both, environ, false)));
                    ms += 20;
                }
                assert_eq!(tracked.candidates().any(|(cookie, _)| cookie == 2), wanted > 0);
            }
            assert_eq!(all.len(), wanted, "{all:?}");
        }
    }

    #[test]
    fn what_an_earlier_daemon_managed_is_told_at_the_first_look() {
        let mut tracked = Tracked::new(Bytes(MIB));
        // Neither has paused yet; only one of them was a job's flow to the daemon before.
        let both = [DiagSocket { managed: true, ..seen(1, 2 * MIB, 0) }, seen(2, 2 * MIB, 0)];
        assert_eq!(told(&look_at(&mut tracked, 0, &both, JOB, false)), [(4001, true, false)]);
        // Whoever chooses the congestion control by name makes no job of itself by that.
        let mut tracked = Tracked::new(Bytes(MIB));
        assert_eq!(told(&look_at(&mut tracked, 0, &both, b"PATH=/bin\0", false)), []);
    }

    #[test]
    fn a_close_look_finds_pauses_that_looks_at_all_are_too_rare_for() {
        let mut tracked = Tracked::new(Bytes(MIB));
        let sent = |ms: u64| 4 * MIB + ms / 200 * 4 * MIB + MIB * (ms % 200).min(100) / 25;
        let mut all = Vec::new();
        for ms in (0..2_000).step_by(20) {
            if ms % 500 == 0 {
                all.extend(told(&look_at(&mut tracked, ms, &[seen(1, sent(ms), 0)], JOB, false)));
            } else if tracked.candidates().next().is_some() {
                tracked.look_closely(Nanos::from_millis(ms), &seen(1, sent(ms), 0));
            }
        }
        assert_eq!(all, [(4001, true, false)]);
        assert_eq!(tracked.candidates().count(), 0);
    }
}
