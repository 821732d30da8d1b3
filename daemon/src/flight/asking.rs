//! What limited the connections of a slot, asked of the kernel: those in turn that were not asked for longest, as many as the
//! recorder's part of a processor allows. Counts only rise, so one that is asked in every third slot is known of all three.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use sluice_attribution::seen::{ArrivalSeen, FlowSeen, JobBytes};
use sluice_schedule::{Bytes, Nanos, Rate};

use super::{Connection, Told, limits};
use crate::clock::{monotonic, thread_cpu};
use crate::monitor::namespaces;
use crate::monitor::tuple::{NetNs, Place, Tuple};
use crate::privilege::eyes::SharedEyes;
use crate::sock_diag::limits::{AT_ONCE, Ends, Limited, Questions};

/// This part of a slot may be spent on asking; [`AT_ONCE`] are asked whatever that costs.
const PART: u64 = 300;
/// Connections remembered.
const MAX_KNOWN: usize = 8192;
/// Counts older than this many slots say nothing of one slot.
const OLD: u64 = 24;
/// Fewer bytes than this are words of a library.
const WORDS: Bytes = Bytes(8 << 10);

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
    own: Option<NetNs>,
    /// The way to the kernel from the own namespace. Into another one it is opened anew each time: it would keep that alive.
    here: Option<Questions>,
    /// Where each connection stands in `known`. Once a slot it is looked up, which costs as much as going over the list does.
    places: HashMap<Place, usize, RandomState>,
    known: Vec<Known>,
}

impl Asking {
    pub fn new(slot: Nanos, eyes: SharedEyes) -> Asking {
        let own = namespaces::of(std::process::id());
        Asking { slot, eyes, own, here: None, places: HashMap::default(), known: Vec::new() }
    }

    /// Asks, and puts what is known into the slot.
    pub fn complete(&mut self, told: &mut Told) {
        self.forget();
        let standing: Vec<usize> = told.connections.iter().map(|connection| self.stands(connection)).collect();
        self.ask(&told.connections, &standing);
        let (now, length) = (monotonic(), told.seen.length());
        let mut managed = vec![false; self.known.len()];
        for (flow, connection) in told.seen.flows.iter_mut().zip(&told.flows) {
            let Some(at) = self.places.get(&place(connection)) else { continue };
            flow.limits = self.since(*at, now).map(|(before, last)| limits(before, last, length));
            managed[*at] = true;
        }
        self.add_unmanaged(told, &standing, &managed, now);
        let mut came: BTreeMap<(u32, u32), Bytes> = BTreeMap::new();
        for (connection, at) in told.connections.iter().zip(&standing) {
            let Some((before, last)) = self.since(*at, now) else { continue };
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
    /// `standing`: of each connection; `managed`: those of flows.
    fn add_unmanaged(&self, told: &mut Told, standing: &[usize], managed: &[bool], now: Nanos) {
        let length = told.seen.length();
        for (connection, at) in told.connections.iter().zip(standing).filter(|(_, at)| !managed[**at]) {
            let Some((before, last)) = self.since(*at, now) else { continue };
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

    /// Where a connection stands from now on.
    fn stands(&mut self, connection: &Connection) -> usize {
        *self.places.entry(place(connection)).or_insert_with(|| {
            self.known.push(Known::default());
            self.known.len() - 1
        })
    }

    /// The last two counts of a connection, if they are of late.
    fn since(&self, at: usize, now: Nanos) -> Option<(&Counted, &Counted)> {
        let known = self.known.get(at).filter(|known| !known.gone)?;
        let before = known.before.as_ref()?;
        let old = self.old();
        let fresh = now.minus(known.last.at) <= old && known.last.at.minus(before.at) <= old;
        fresh.then_some((before, &known.last))
    }

    /// After so long counts say nothing of one slot.
    fn old(&self) -> Nanos {
        Nanos(self.slot.0.saturating_mul(OLD))
    }

    /// Asks of those whose counts are oldest, as far as there is time.
    fn ask(&mut self, connections: &[Connection], standing: &[usize]) {
        // Several processes may name one connection.
        let mut listed = vec![false; self.known.len()];
        let once = standing.iter().enumerate().filter(|(_, at)| !std::mem::replace(&mut listed[**at], true));
        let mut turn: Vec<(Nanos, usize)> = once.map(|(number, at)| (self.known[*at].last.at, number)).collect();
        // Nearly in order: those that were asked together stand together, for which a stable sort has an eye.
        turn.sort();
        let (began, bound) = (thread_cpu(), Nanos(self.slot.0 / PART));
        let mut asked = false;
        let mut is_over = || std::mem::replace(&mut asked, true) && thread_cpu().minus(began) > bound;
        // One namespace after the other: entering one costs as much as several questions.
        let mut by_namespace: BTreeMap<NetNs, Vec<usize>> = BTreeMap::new();
        let mut order = Vec::new();
        for (_, number) in turn {
            let netns = connections[number].netns;
            let list = by_namespace.entry(netns).or_default();
            if list.is_empty() {
                order.push(netns);
            }
            list.push(number);
        }
        let known = &mut self.known;
        for netns in order {
            let list = by_namespace.remove(&netns).unwrap_or_default();
            let Some(pid) = list.first().map(|number| connections[*number].pid) else { continue };
            if is_over() {
                return;
            }
            let mut rest = list.chunks(AT_ONCE);
            let mut look = |questions: &mut Questions| {
                // The first of a namespace were decided on before it was entered.
                let mut next = rest.next();
                while let Some(some) = next {
                    let ends = some.iter().map(|number| ends(&connections[*number].tuple)).collect::<Vec<Ends>>();
                    let (found, at) = (questions.ask(&ends), monotonic());
                    for (number, found) in some.iter().zip(found) {
                        known[standing[*number]].note(at, found);
                    }
                    next = if is_over() { None } else { rest.next() };
                }
            };
            if self.own == Some(netns) {
                if self.here.is_none() {
                    self.here = Questions::open().ok();
                }
                self.here.iter_mut().for_each(&mut look);
            } else if let Ok(socket) = self.eyes.diag(pid) {
                // Where it may not be entered, the thread that looks for jobs has said so.
                look(&mut Questions::by(socket));
            }
        }
    }

    /// Forgets connections of which nobody spoke of late. A slot has [`MAX_LIST`](sluice_attribution::seen::MAX_LIST) of them at
    /// most, so no more are left than the last slots had.
    fn forget(&mut self) {
        if self.known.len() <= MAX_KNOWN {
            return;
        }
        let old = monotonic().minus(self.old());
        let mut kept = Vec::new();
        self.places.retain(|_, at| {
            let known = self.known.get(*at).filter(|known| known.last.at >= old);
            *at = kept.len();
            kept.extend(known);
            known.is_some()
        });
        self.known = kept;
    }
}

impl Known {
    fn note(&mut self, at: Nanos, found: Option<Limited>) {
        let Some(counts) = found else {
            *self = Known { last: Counted { at, counts: Limited::default() }, before: None, gone: true };
            return;
        };
        // Another connection between the same ends counts from the beginning.
        let same = !self.gone && self.last.at > Nanos::ZERO && counts.busy >= self.last.counts.busy;
        *self = Known { before: same.then_some(self.last), last: Counted { at, counts }, gone: false };
    }
}

/// The part of a count of several slots that is one slot's.
fn spread(bytes: Bytes, elapsed: Nanos, length: Nanos) -> Bytes {
    Bytes(Nanos(bytes.0).scaled(length.0 as f64 / elapsed.0.max(length.0).max(1) as f64).0)
}

fn place(connection: &Connection) -> Place {
    Place { netns: connection.netns, tuple: connection.tuple }
}

fn ends(tuple: &Tuple) -> Ends {
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
        let limits = limits(&counted(1_000, 500, 100), &counted(1_180, 590, 145), ms(60));
        assert_eq!((limits.idle, limits.receiver, limits.buffer), (ms(30), ms(15), Nanos::ZERO));
        // A look that was late counts no more than there is.
        assert_eq!(super::limits(&counted(0, 0, 0), &counted(60, 200, 0), ms(60)).idle, Nanos::ZERO);
        assert_eq!((spread(Bytes(900), ms(180), ms(60)), spread(Bytes(900), ms(59), ms(60))), (Bytes(300), Bytes(900)));
        assert_eq!(super::limits(&counted(5, 0, 0), &counted(5, 0, 0), ms(60)).idle, Nanos::ZERO);
    }

    #[test]
    fn a_connection_that_is_another_one_by_now_begins_anew() {
        let mut known = Known::default();
        let mut counts = [100, 130, 5].into_iter().map(|ms| (Nanos(ms), Nanos::from_millis(ms)));
        let mut note = |known: &mut Known| {
            let (at, busy) = counts.next().expect("as many as are listed");
            known.note(at, Some(Limited { busy, ..Limited::default() }));
        };
        note(&mut known);
        assert!(known.before.is_none());
        note(&mut known);
        assert_eq!(known.before.map(|before| before.counts.busy), Some(Nanos::from_millis(100)));
        note(&mut known);
        assert!(known.before.is_none(), "it counts from the beginning");
        known.note(Nanos(1_000), None);
        assert!(known.gone);
        known.note(Nanos(2_000), Some(Limited::default()));
        assert!(known.before.is_none() && !known.gone);
    }

    fn connection(netns: NetNs, local: std::net::SocketAddr, remote: std::net::SocketAddr) -> Connection {
        let tuple = Tuple::of(local, remote);
        let flow = tuple.outgoing(sluice_schedule::HostId::of("h0"));
        Connection { pid: std::process::id(), netns, tuple, flow, job: 0, peer: 0, link: None, out: None }
    }

    #[test]
    fn each_connection_is_asked_once_in_its_turn_and_forgotten_in_time() {
        let netns = namespaces::of(std::process::id()).expect("the own one");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let to = listener.local_addr().expect("bound");
        let streams: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(to).expect("connects")).collect();
        let own = |stream: &std::net::TcpStream| stream.local_addr().expect("bound");
        let mut connections: Vec<Connection> =
            streams.iter().map(|stream| connection(netns, own(stream), to)).collect();
        // Two processes name the first one.
        connections.push(connections[0]);
        let mut asking = Asking::new(Nanos::from_millis(60), crate::privilege::eyes::own());
        let standing: Vec<usize> = connections.iter().map(|of| asking.stands(of)).collect();
        assert_eq!((standing[40], asking.known.len()), (0, 40));
        let times = |asking: &Asking| asking.known.iter().map(|known| known.last.at).collect::<Vec<Nanos>>();
        // However little time there is, each has its turn, and none a second one before that.
        asking.slot = Nanos(1);
        for round in 1..=5 {
            asking.ask(&connections, &standing);
            let asked = times(&asking).iter().filter(|at| **at > Nanos::ZERO).count();
            assert_eq!(asked, round * AT_ONCE, "in round {round}");
        }
        assert!(asking.known.iter().all(|known| known.before.is_none() && !known.gone));
        asking.ask(&connections, &standing);
        let twice = asking.known.iter().filter(|known| known.before.is_some()).count();
        assert_eq!(twice, AT_ONCE, "those that were asked first");
        // Nothing is forgotten while there is room, and then what is old.
        asking.forget();
        assert_eq!(asking.known.len(), 40);
        let many = (0..MAX_KNOWN as u32).map(|n| connection(NetNs(n + 1), to, to));
        many.for_each(|of| _ = asking.stands(&of));
        asking.slot = Nanos::from_millis(2_000);
        let (newest, place) = (*times(&asking).iter().max().expect("forty"), place(&connections[0]));
        let known = asking.known[asking.places[&place]].last.at;
        asking.forget();
        assert_eq!((asking.known.len(), asking.places.len()), (40, 40));
        assert_eq!(asking.known[asking.places[&place]].last.at, known, "it stands elsewhere, and is the same");
        assert_eq!(times(&asking).iter().max(), Some(&newest));
    }
}
