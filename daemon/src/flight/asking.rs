//! What limited the connections of a slot, asked of the kernel: those in turn that were not asked for longest, as many as the
//! recorder's part of a processor allows. Counts only rise, so one that is asked in every third slot is known of all three.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;
use sluice_attribution::seen::{ArrivalSeen, FlowSeen, JobBytes};
use sluice_schedule::{Bytes, Nanos, Rate};

use super::{Connection, Told, limits};
use crate::clock::{monotonic, thread_cpu};
use crate::monitor::tuple::{Place, Tuple};
use crate::privilege::eyes::{SharedEyes, diag_for};
use crate::sock_diag::{self, limits::Limited};

/// This part of a slot may be spent on asking.
const PART: u64 = 300;
/// So many are asked whatever that costs, and so many between two looks at what it cost.
const LEAST: usize = 4;
/// Connections remembered.
const MAX_KNOWN: usize = 8192;
/// Counts older than this many slots say nothing of one slot.
const OLD: u64 = 24;
/// Fewer bytes than this are words of a library.
const WORDS: Bytes = Bytes(8 << 10);
/// Bytes of an answer.
const ANSWER: usize = 8 << 10;

/// Counts of a connection, and when they were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub at: Nanos,
    pub counts: Limited,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    before: Option<Counted>,
    last: Counted,
    /// It was not there when it was asked for.
    gone: bool,
}

/// What was asked so far.
pub(super) struct Asking {
    slot: Nanos,
    eyes: SharedEyes,
    /// Looked up thousands of times a second, which the standard library's hash makes a sixth of the recorder's time.
    known: HashMap<Place, Known, RandomState>,
    buffer: Vec<u8>,
}

impl Asking {
    pub fn new(slot: Nanos, eyes: SharedEyes) -> Asking {
        Asking { slot, eyes, known: HashMap::default(), buffer: vec![0; ANSWER] }
    }

    /// Asks, and puts what is known into the slot.
    pub fn complete(&mut self, told: &mut Told) {
        self.ask(&told.connections);
        let (now, length) = (monotonic(), told.seen.length());
        for (flow, connection) in told.seen.flows.iter_mut().zip(&told.flows) {
            flow.limits = self.since(connection, now).map(|(before, last)| limits(before, last, length));
        }
        self.add_unmanaged(told, now, length);
        let mut came: BTreeMap<(u32, u32), Bytes> = BTreeMap::new();
        for connection in &told.connections {
            let Some((before, last)) = self.since(connection, now) else { continue };
            let received = last.counts.received.minus(before.counts.received);
            let received = spread(received, last.at.minus(before.at), length);
            if received == Bytes::ZERO && last.counts.unread == Bytes::ZERO {
                continue;
            }
            let Connection { job, peer, link, .. } = *connection;
            told.seen.arrivals.push(ArrivalSeen { job, peer, link, received, unread: last.counts.unread });
            if let Some(link) = link {
                let sum = came.entry((link, job)).or_default();
                *sum = sum.plus(received);
            }
        }
        for ((link, job), bytes) in came {
            if let Some(link) = told.seen.links.get_mut(link as usize) {
                link.jobs.push(JobBytes { job, bytes });
            }
        }
        for (link, received) in &told.received {
            if let Some(link) = told.seen.links.get_mut(*link as usize) {
                let ours = link.jobs.iter().fold(Bytes::ZERO, |sum, of| sum.plus(of.bytes));
                link.other = Rate::needed(received.minus(ours), length);
            }
        }
    }

    /// Connections of jobs that are nobody's flow at the moment, such as one that the loss guard gave back: they send all the same.
    fn add_unmanaged(&self, told: &mut Told, now: Nanos, length: Nanos) {
        let known: HashSet<Place, RandomState> = told.flows.iter().map(place).collect();
        for connection in told.connections.iter().filter(|connection| !known.contains(&place(connection))) {
            let Some((before, last)) = self.since(connection, now) else { continue };
            let (was, is) = (before.counts.stats, last.counts.stats);
            let delivered = spread(is.acked.minus(was.acked), last.at.minus(before.at), length);
            if delivered <= WORDS && is.queued <= WORDS {
                continue;
            }
            let Connection { flow, job, peer, out, .. } = *connection;
            told.seen.flows.push(FlowSeen {
                flow,
                job,
                peer,
                path: out.into_iter().collect(),
                delivered,
                remaining: is.queued,
                queued: is.queued,
                resent: is.retransmitted.saturating_sub(was.retransmitted),
                segment: is.segment,
                queueing: is.srtt.minus(is.rtt_min),
                rtt_min: is.rtt_min,
                limits: Some(limits(before, last, length)),
                ..FlowSeen::default()
            });
            if let Some(link) = out.and_then(|out| told.seen.links.get_mut(out as usize)) {
                match link.jobs.iter_mut().find(|of| of.job == job) {
                    Some(of) => of.bytes = of.bytes.plus(delivered),
                    None => link.jobs.push(JobBytes { job, bytes: delivered }),
                }
                // The card counted them as nobody's.
                link.other = link.other.minus(Rate::needed(delivered, length));
            }
        }
    }

    /// The last two counts of a connection, if they are of late.
    fn since(&self, connection: &Connection, now: Nanos) -> Option<(Counted, Counted)> {
        let known = self.known.get(&place(connection)).filter(|known| !known.gone)?;
        let before = known.before?;
        let old = Nanos(self.slot.0.saturating_mul(OLD));
        let fresh = now.minus(known.last.at) <= old && known.last.at.minus(before.at) <= old;
        fresh.then_some((before, known.last))
    }

    fn ask(&mut self, connections: &[Connection]) {
        let mut turn: Vec<&Connection> = connections.iter().collect();
        // A look into a map costs more than a comparison.
        turn.sort_by_cached_key(|connection| self.known.get(&place(connection)).map(|known| known.last.at));
        turn.dedup_by_key(|connection| place(connection));
        let (began, bound) = (thread_cpu(), Nanos(self.slot.0 / PART));
        let mut asked = 0;
        // One namespace after the other: entering one costs as much as several questions.
        let mut by_namespace: BTreeMap<_, Vec<&Connection>> = BTreeMap::new();
        let mut order = Vec::new();
        for connection in turn {
            let list = by_namespace.entry(connection.netns).or_default();
            if list.is_empty() {
                order.push(connection.netns);
            }
            list.push(connection);
        }
        for netns in order {
            let list = by_namespace.remove(&netns).unwrap_or_default();
            let Some(pid) = list.first().map(|connection| connection.pid) else { continue };
            // Where it may not be entered, the thread that looks for jobs has said so.
            let Ok(netlink) = diag_for(&*self.eyes, pid, Some(netns)) else { continue };
            for connection in &list {
                if asked >= LEAST && asked.is_multiple_of(LEAST) && thread_cpu().minus(began) > bound {
                    break;
                }
                asked += 1;
                let (local, remote) = ends(&connection.tuple);
                let found = sock_diag::limits::ask(&netlink, local, remote, &mut self.buffer);
                note(&mut self.known, place(connection), found);
            }
        }
        if self.known.len() > MAX_KNOWN {
            let old = monotonic().minus(Nanos(self.slot.0.saturating_mul(OLD)));
            self.known.retain(|_, known| known.last.at >= old);
        }
    }
}

/// The part of a count of several slots that is one slot's.
fn spread(bytes: Bytes, elapsed: Nanos, length: Nanos) -> Bytes {
    Bytes(Nanos(bytes.0).scaled(length.0 as f64 / elapsed.0.max(length.0).max(1) as f64).0)
}

fn note(known: &mut HashMap<Place, Known, RandomState>, place: Place, found: Option<Limited>) {
    let at = monotonic();
    if known.len() >= 2 * MAX_KNOWN && !known.contains_key(&place) {
        return;
    }
    let known = known.entry(place).or_default();
    let Some(counts) = found else {
        *known = Known { last: Counted { at, counts: Limited::default() }, before: None, gone: true };
        return;
    };
    // Another connection between the same ends counts from the beginning.
    let same = !known.gone && known.last.at > Nanos::ZERO && counts.busy >= known.last.counts.busy;
    *known = Known { before: same.then_some(known.last), last: Counted { at, counts }, gone: false };
}

fn place(connection: &Connection) -> Place {
    Place { netns: connection.netns, tuple: connection.tuple }
}

fn ends(tuple: &Tuple) -> (std::net::SocketAddrV6, std::net::SocketAddrV6) {
    let end = |(ip, port): ([u8; 16], u16)| std::net::SocketAddrV6::new(ip.into(), port, 0, 0);
    (end(tuple.local), end(tuple.remote))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(at: u64, busy: u64, receiver: u64) -> Counted {
        let ms = Nanos::from_millis;
        Counted { at: ms(at), counts: Limited { busy: ms(busy), receiver: ms(receiver), ..Limited::default() } }
    }

    #[test]
    fn counts_of_several_slots_are_spread_over_them() {
        let ms = Nanos::from_millis;
        let limits = limits(counted(1_000, 500, 100), counted(1_180, 590, 145), ms(60));
        assert_eq!((limits.idle, limits.receiver, limits.buffer), (ms(30), ms(15), Nanos::ZERO));
        // A look that was late counts no more than there is.
        assert_eq!(super::limits(counted(0, 0, 0), counted(60, 200, 0), ms(60)).idle, Nanos::ZERO);
        assert_eq!((spread(Bytes(900), ms(180), ms(60)), spread(Bytes(900), ms(59), ms(60))), (Bytes(300), Bytes(900)));
        assert_eq!(super::limits(counted(5, 0, 0), counted(5, 0, 0), ms(60)).idle, Nanos::ZERO);
    }

    #[test]
    fn a_connection_that_is_another_one_by_now_begins_anew() {
        let (mut known, place) = (HashMap::default(), Place::default());
        let busy = |ms| Some(Limited { busy: Nanos::from_millis(ms), ..Limited::default() });
        note(&mut known, place, busy(100));
        assert!(known[&place].before.is_none());
        note(&mut known, place, busy(130));
        assert_eq!(known[&place].before.map(|before| before.counts.busy), Some(Nanos::from_millis(100)));
        note(&mut known, place, busy(5));
        assert!(known[&place].before.is_none(), "it counts from the beginning");
        note(&mut known, place, None);
        assert!(known[&place].gone);
        note(&mut known, place, busy(7));
        assert!(known[&place].before.is_none() && !known[&place].gone);
    }
}
