//! The exchange by datagrams: one per flow and slot, and probes. What they say is [`super::book`]'s; here are the socket and
//! the clock.
//!
//! | when | what is sent |
//! | --- | --- |
//! | the deciding loop announces | the flows that are new in this slot |
//! | a quarter of a slot later | the same once more, where no echo came |
//! | half a slot later | probes: others have announced since (not where hosts keep all links) |
//! | shortly before this host's place in the next slot | probes, so that the next announcement knows what stands by then |
//! | at that place | a rate of zero for what is not announced any more |
//! | when nothing was said for a second | one probe, to see that somebody is there |
//!
//! To a process all datagrams go to its address. Where switches are programmable ([`along_paths`]) each goes to the host
//! that receives its flow, at the port where all hosts listen; the switches on the way write to it, and that host sends it
//! back. So every host sends back what comes to it, whether it says anything itself or not.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sluice_schedule::{Nanos, Slot};
use sluice_wire::accept::allowed;
use sluice_wire::limits;
use sluice_wire::outbox::outbox;
use sluice_wire::refusal::RefusalId;
use sluice_wire::udp::{Kind, LENGTH, Packet};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt;

use super::Identity;
use super::backoff::Backoff;
use super::book::{Book, Datagram, Ground, Passed};
use super::link::{Connection, DEAD, Ended, Inband, LOOK, Sender, tell_back};
use crate::clock::monotonic;
use crate::core::Inbound;

/// A hello is repeated this often until it is answered.
const HELLO: Duration = Duration::from_millis(200);
/// After so long without a word one asks whether the other end is there.
const IDLE: Duration = Duration::from_millis(1_000);
/// Echoes are waited for this long before what came is told.
const GATHER: Duration = Duration::from_millis(5);
/// So long before this host's place in the slot links are read.
const LEAD: Nanos = Nanos::from_millis(4);

/// What is due when; `None`: it is not.
#[derive(Default)]
struct Due {
    tell: Option<Instant>,
    repeat: Option<Instant>,
    read: Option<Instant>,
    read_before: Option<Instant>,
    withdraw: Option<Instant>,
}

impl Due {
    fn next(&self) -> Option<Instant> {
        [self.tell, self.repeat, self.read, self.read_before, self.withdraw].into_iter().flatten().min()
    }
}

/// Was it due by now? Then it is not any more.
fn take(due: &mut Option<Instant>, now: Instant) -> bool {
    due.take_if(|at| *at <= now).is_some()
}

/// Where datagrams go.
enum Road<'a> {
    /// To the process that the socket is connected to.
    Process,
    /// To the hosts that receive the flows, at this port, which is also the own one.
    Paths { port: u16, inband: &'a Inband },
}

/// One exchange while it lasts.
struct Exchange<'a> {
    road: Road<'a>,
    connection: &'a Connection,
    identity: &'a Identity,
    inbound: &'a mpsc::Sender<Inbound>,
    socket: UdpSocket,
    book: Book,
    due: Due,
    /// By which ways flows went that the loop has not been told of.
    passed: Vec<Passed>,
    /// CLOCK_MONOTONIC of the first datagram since something was heard.
    unanswered: Option<Nanos>,
    spoke: Instant,
}

/// From the first datagram to silence.
pub(super) async fn exchange(
    connection: &Connection,
    ground: &Arc<Ground>,
    identity: &Identity,
    inbound: &mpsc::Sender<Inbound>,
    backoff: &mut Backoff,
) -> Ended {
    let failed = |error: std::io::Error| Ended::because(format!("{}: {error}", connection.uri()));
    let socket = match open(connection.uri()).await {
        Ok(socket) => socket,
        Err(error) => return failed(error),
    };
    let book = Book::new(ground.clone(), identity.copies, identity.slot_now());
    let mut exchange = Exchange::new(Road::Process, connection, identity, inbound, socket, book);
    let greeted = tokio::time::timeout(limits::HANDSHAKE, exchange.greet()).await;
    match greeted {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => {
            let id = RefusalId::SlotOffsetTooLarge;
            let why = format!("{}: {id}: the switch is in another slot than this host", connection.uri());
            return Ended { why, mismatch: id.is_of_grid() };
        }
        Ok(Err(error)) => return failed(error),
        Err(_) => return Ended::because(format!("{}: no echo within 2 s", connection.uri())),
    }
    backoff.reset();
    tell_back(connection, inbound, 0, None).await;
    let ended = exchange.run().await;
    exchange.tell_tally();
    ended.unwrap_or_else(failed)
}

/// The same along the paths of flows: there is nobody to greet.
pub(super) async fn along_paths(
    connection: &Connection,
    inband: &Inband,
    identity: &Identity,
    inbound: &mpsc::Sender<Inbound>,
    backoff: &mut Backoff,
) -> Ended {
    let failed = |error: std::io::Error| Ended::because(format!("{}: {error}", connection.uri()));
    let opened = async {
        let address = tokio::net::lookup_host(connection.uri()).await?.find(SocketAddr::is_ipv4);
        let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "no IPv4 address of that name");
        UdpSocket::bind(address.ok_or_else(none)?).await
    };
    let (socket, port) = match opened.await.and_then(|socket| Ok((socket.local_addr()?.port(), socket))) {
        Ok((port, socket)) => (socket, port),
        Err(error) => return failed(error),
    };
    let book = Book::new(inband.ground.clone(), identity.copies, identity.slot_now());
    let road = Road::Paths { port, inband };
    let mut exchange = Exchange::new(road, connection, identity, inbound, socket, book);
    backoff.reset();
    tell_back(connection, inbound, 0, None).await;
    let ended = exchange.run().await;
    exchange.tell_tally();
    ended.unwrap_or_else(failed)
}

/// A socket that hears nobody but this address.
async fn open(address: &str) -> std::io::Result<UdpSocket> {
    let found: Vec<SocketAddr> = tokio::net::lookup_host(address).await?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    let to = *first.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, "no address of that name"))?;
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from).await?;
    socket.connect(to).await?;
    Ok(socket)
}

impl<'a> Exchange<'a> {
    fn new(
        road: Road<'a>,
        connection: &'a Connection,
        identity: &'a Identity,
        inbound: &'a mpsc::Sender<Inbound>,
        socket: UdpSocket,
        book: Book,
    ) -> Exchange<'a> {
        let (due, passed, spoke) = (Due::default(), Vec::new(), Instant::now());
        Exchange { road, connection, identity, inbound, socket, book, due, passed, unanswered: None, spoke }
    }

    fn slot(&self) -> Slot {
        self.identity.slot_now()
    }

    /// Is somebody there who answers? False: he lives in another slot.
    async fn greet(&mut self) -> std::io::Result<bool> {
        let mut bytes = [0; LENGTH + 1];
        loop {
            let hello = self.book.hello(self.slot());
            self.socket.send(&hello).await?;
            let again = Instant::now() + HELLO;
            while let Ok(came) = tokio::time::timeout_at(again, self.socket.recv(&mut bytes)).await {
                let length = came?;
                let slot = self.slot();
                if self.book.echo(slot, &bytes[..length]) {
                    return Ok(!self.book.guarded);
                }
            }
        }
    }

    /// Until silence, or until the socket says that nobody is there.
    async fn run(&mut self) -> std::io::Result<Ended> {
        let (queue, mut queued) = outbox(None, |pending| pending);
        self.connection.opened(Sender::Datagrams(queue));
        let mut look = tokio::time::interval(LOOK);
        // One byte more than a datagram has, so that a longer one is seen to be longer.
        let mut bytes = [0; LENGTH + 1];
        let mut out: Vec<Datagram> = Vec::new();
        loop {
            let next = self.due.next();
            tokio::select! {
                biased;
                came = self.socket.recv_from(&mut bytes) => match came {
                    Ok((length, from)) => self.take_in(&bytes[..length], from),
                    // Somebody of many is not there; his silence says so.
                    Err(_) if matches!(self.road, Road::Paths { .. }) => {}
                    Err(error) => return Err(error),
                },
                pending = queued.next() => {
                    let slot = self.slot();
                    self.book.announce(slot, pending.unwrap_or_default(), &mut out);
                    self.plan_ahead();
                    if self.ways_only() {
                        self.tell();
                    }
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    self.do_what_is_due(&mut out);
                }
                _ = look.tick() => {
                    if self.unanswered.is_some_and(|since| monotonic().minus(since) > DEAD) {
                        return Ok(Ended::because(format!("{}: no echo for 2 s", self.connection.uri())));
                    }
                    if self.spoke.elapsed() > IDLE && matches!(self.road, Road::Process) {
                        out.push(self.book.hello(self.slot()));
                    }
                    self.tell_tally();
                }
            }
            self.say(&mut out).await?;
        }
    }

    async fn say(&mut self, out: &mut Vec<Datagram>) -> std::io::Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        self.unanswered.get_or_insert_with(monotonic);
        self.spoke = Instant::now();
        for datagram in out.drain(..) {
            match self.road {
                Road::Process => match self.socket.send(&datagram).await {
                    // Full queues lose datagrams here as they do on the way.
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                    sent => _ = sent?,
                },
                Road::Paths { port, .. } => {
                    let Ok(packet) = Packet::decode(&datagram) else { continue };
                    // What cannot be sent is lost, as on the way.
                    let _ = self.socket.send_to(&datagram, (packet.tuple.destination, port)).await;
                }
            }
        }
        self.due.tell = Some(Instant::now() + GATHER);
        Ok(())
    }

    fn take_in(&mut self, bytes: &[u8], from: SocketAddr) {
        if self.send_back(bytes, from) {
            return;
        }
        let slot = self.slot();
        if self.book.echo(slot, bytes) {
            self.unanswered = None;
            self.passed.extend(self.book.take_passed());
            self.tell_passed();
            if self.book.is_settled() {
                self.tell();
            }
        }
    }

    /// What other hosts sent along paths to this one goes back. False: it is something else.
    fn send_back(&mut self, bytes: &[u8], from: SocketAddr) -> bool {
        let Road::Paths { inband, .. } = &self.road else { return false };
        let Some(mut packet) = Packet::decode(bytes).ok().filter(|packet| packet.kind != Kind::Echo) else {
            return false;
        };
        if allowed(&inband.peers, from.ip()) && from.port() == self.own_port() {
            packet.kind = Kind::Echo;
            // A full queue loses it, as on the way.
            let _ = self.socket.try_send_to(&packet.encode(), from);
        }
        true
    }

    /// Nothing is asked of switches but ways.
    fn ways_only(&self) -> bool {
        matches!(&self.road, Road::Paths { inband, .. } if inband.ground.ways_only)
    }

    fn own_port(&self) -> u16 {
        match self.road {
            Road::Process => 0,
            Road::Paths { port, .. } => port,
        }
    }

    fn tell(&mut self) {
        self.due.tell = None;
        let slot = self.slot();
        if let Some(feedback) = self.book.feedback(slot) {
            self.connection.hear(self.inbound, feedback);
        }
    }

    /// What finds the inbox full stays for the next time: nothing repeats it.
    fn tell_passed(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        if !passed.is_empty()
            && let Err(full) = self.inbound.try_send(Inbound::Passed(passed))
            && let mpsc::error::TrySendError::Full(Inbound::Passed(passed)) = full
        {
            self.passed = passed;
        }
    }

    fn tell_tally(&mut self) {
        if let Some(tally) = self.book.take_tally() {
            let _ = self.inbound.try_send(Inbound::Datagrams(tally));
        }
    }

    /// After an announcement.
    fn plan_ahead(&mut self) {
        let (now, slot) = (Instant::now(), Duration::from_nanos(self.identity.grid.slot_length.0));
        self.due.repeat = Some(now + slot / 4);
        self.due.read = (!self.ways_only()).then_some(now + slot / 2);
        self.plan_next_slot(now);
    }

    fn plan_next_slot(&mut self, now: Instant) {
        let Identity { phase, grid, .. } = self.identity;
        let before = phase.plus(grid.slot_length).minus(LEAD);
        self.due.read_before = (!self.ways_only()).then(|| now + self.identity.until(before));
        self.due.withdraw = Some(now + self.identity.until(*phase));
    }

    fn do_what_is_due(&mut self, out: &mut Vec<Datagram>) {
        let (now, slot) = (Instant::now(), self.slot());
        if take(&mut self.due.tell, now) {
            self.tell();
        }
        if take(&mut self.due.repeat, now) {
            self.book.repeat(slot, out);
        }
        if take(&mut self.due.read, now) {
            self.book.probe(slot, out);
        }
        if take(&mut self.due.read_before, now) {
            self.book.probe(slot, out);
        }
        if take(&mut self.due.withdraw, now) {
            self.book.withdraw(slot, out);
            if self.book.is_known_there(slot) {
                self.plan_next_slot(now);
            }
        }
    }
}
