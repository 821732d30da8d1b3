//! The narrow door to the kernel: plain data in, plain data out, so that it can move into a helper process.

use std::net::SocketAddrV6;
use std::os::fd::BorrowedFd;

use sluice_schedule::event::Allowance;
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::abi::Counters;

/// One row of the kernel's order and statistics tables; `generation` tells its present owner from earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// Index of the row.
    pub index: u32,
    /// Changes whenever the row changes hands; never 0.
    pub generation: u32,
}

/// How rates are enforced, best first; chosen by trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The congestion control, registered through a link.
    StructOps,
    /// The same on kernels without struct_ops links (6.0 to 6.3).
    StructOpsNoLink,
    /// A pacing ceiling on the system's own congestion control, lifted by its RTT callback when the order expires.
    SetSockOpt,
    /// Nothing is enforced and nothing is measured: no kernel program runs.
    None,
}

/// What happened to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketEventKind {
    /// The socket is managed from now on and has this row.
    Opened,
    /// The socket closed; the row is free.
    Closed,
    /// It began to send after a pause.
    Started,
    /// The kernel program gave it back to ordinary congestion control because its order had expired.
    Expired,
    /// The same because of repeated loss.
    LossGuard,
    /// The same because the daemon asked ([`Datapath::release`]). Also said of a socket whose row is free and whose end was lost
    /// with other events: it may have closed, which shows when it is captured again.
    Released,
    /// The bytes up to its mark have been acknowledged ([`Datapath::mark`]).
    Finished,
}

/// One event of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketEvent {
    /// Why the socket is told of.
    pub kind: SocketEventKind,
    /// The row.
    pub row: Row,
    /// The kernel's socket cookie.
    pub cookie: u64,
    /// Own address, IPv4 as mapped IPv6.
    pub local: SocketAddrV6,
    /// The other end's address.
    pub remote: SocketAddrV6,
    /// Owner of the socket.
    pub uid: u32,
    /// Inode of its network namespace.
    pub netns: u32,
}

/// A socket that is to be managed, with its first order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The kernel's socket cookie.
    pub cookie: u64,
    /// Own address, IPv4 as mapped IPv6.
    pub local: SocketAddrV6,
    /// The other end's address.
    pub remote: SocketAddrV6,
    /// A process in its network namespace.
    pub pid: u32,
    /// Its first order.
    pub rate: Rate,
    /// Until when that holds (CLOCK_MONOTONIC).
    pub expires: Nanos,
}

/// Why a socket is not managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotTaken {
    /// No such connection in this network namespace.
    Gone,
    /// Another instance has it, somebody else has chosen its congestion control, or its pause after the loss guard is not
    /// over.
    NotOurs,
    /// No row was free.
    TableFull,
    /// It has a row already.
    HasRow,
    /// Its first order had run out before the kernel came to it.
    Late,
    /// The kernel refused, with this errno: a subflow of MPTCP, or a kernel that cannot pace live sockets.
    Refused(i32),
}

/// What became of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// The socket.
    pub cookie: u64,
    /// An error leaves it as it was.
    pub result: Result<(), NotTaken>,
}

/// What the kernel measured of one flow, read without a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Payload bytes acknowledged since the connection began.
    pub acked: Bytes,
    /// Payload bytes written by the application and not yet acknowledged, sent or not.
    pub queued: Bytes,
    /// Payload acknowledged per time over the last window of at least 8 ms and one round trip.
    pub delivery_rate: Rate,
    /// What the program paces the flow at now: its order and the surplus, or less where the loss guard caps it.
    pub pacing_rate: Rate,
    /// What it takes beyond its order where its order allows that.
    pub surplus: Rate,
    /// Smoothed round-trip time, as TCP keeps it.
    pub srtt: Nanos,
    /// Least round-trip time that TCP remembers, for `tcp_min_rtt_wlen`.
    pub rtt_min: Nanos,
    /// Segments retransmitted since the connection began.
    pub retransmitted: u64,
    /// Payload of a full segment; 0: the one who measured does not say.
    pub segment: Bytes,
    /// CLOCK_MONOTONIC of the last update.
    pub updated: Nanos,
    /// The loss guard caps this flow at its measured delivery.
    pub loss_guard: bool,
    /// Where TCP stood at the last update; `None`: the one who measured does not say.
    pub sequence: Option<Sequence>,
}

/// How far a connection is in TCP's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The first byte sent that is not acknowledged.
    pub unacknowledged: u32,
    /// The byte that is expected next from the other end.
    pub expected: u32,
}

/// The kernel, as the daemon sees it.
pub trait Datapath: Send {
    /// How rates are enforced.
    fn tier(&self) -> Tier;
    /// Readable when [`Datapath::events`] has something to say.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Appends what happened since the last call. After a loss of events it rescans the tables and reports what it finds.
    fn events(&mut self, out: &mut Vec<SocketEvent>);
    /// The flow's measurements; `None` if the row has another owner by now.
    fn stats(&self, row: Row) -> Option<FlowStats>;
    /// Orders a rate until `expires` (CLOCK_MONOTONIC). A store, no system call. An order for an earlier owner is void.
    fn order(&mut self, row: Row, rate: Rate, expires: Nanos) {
        self.order_with(row, rate, None, expires);
    }
    /// The same, and with `surplus` the rate is a floor only: above it the flow may send what that allows. Only the congestion control can; for other tiers the rate is a ceiling.
    fn order_with(&mut self, row: Row, rate: Rate, surplus: Option<Allowance>, expires: Nanos);
    /// Gives the socket back to the congestion control it had, at its next ACK or send.
    fn release(&mut self, row: Row);
    /// Asks for one [`SocketEventKind::Finished`] when `acked` ([`FlowStats::acked`]) has been reached; replaces an earlier
    /// mark. A store, no system call. Only the congestion control can tell: other tiers never do, so look now and then.
    fn mark(&mut self, row: Row, acked: Bytes) {
        let _ = (row, acked);
    }
    /// Takes these sockets of the caller's network namespace under its management; each follows its first order from here
    /// on, and an [`SocketEventKind::Opened`] tells its row. No other socket is touched. Walks all TCP sockets once, about
    /// 1 ms: call it for all that are wanted together.
    fn capture(&mut self, wanted: &[Wanted]) -> Vec<Taking>;
    /// Does [`Datapath::capture`] enter the network namespace of the sockets' processes by itself? Else its caller has to be there.
    fn enters(&self) -> bool {
        false
    }
    /// What the kernel programs counted since the maps were made.
    fn counters(&self) -> Counters {
        Counters::default()
    }
}
