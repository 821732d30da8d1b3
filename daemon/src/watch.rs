//! Looking without touching: the sockets of this network namespace and their byte counts, asked of the kernel by
//! `sock_diag`. It stands in for the data path where nothing is enforced, so that `observe` still finds jobs and rounds.
//!
//! One dump per call of [`Datapath::events`] and at most one in 20 ms; nothing needs a privilege.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use sluice_ebpf::{Datapath, FlowStats, Row, SocketEvent, SocketEventKind, Tier};
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::clock::monotonic;

/// The least time between two dumps.
const EVERY: Nanos = Nanos::from_millis(20);
/// Sockets kept at most.
const MOST: usize = 4096;
/// Where things lie in `struct inet_diag_msg` (72 bytes) after the netlink header (16 bytes).
mod at {
    pub const HEADER: usize = 16;
    pub const FAMILY: usize = 0;
    pub const SPORT: usize = 4;
    pub const DPORT: usize = 6;
    pub const SRC: usize = 8;
    pub const DST: usize = 24;
    pub const COOKIE: usize = 44;
    pub const UID: usize = 64;
    pub const ATTRIBUTES: usize = 72;
}
/// Where things lie in `struct tcp_info`.
mod info {
    pub const RTT: usize = 68;
    pub const CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const ACKED: usize = 120;
    pub const NOTSENT: usize = 144;
    pub const MIN_RTT: usize = 148;
    pub const DELIVERY_RATE: usize = 160;
    pub const UNACKED: usize = 24;
    pub const MSS: usize = 16;
}
/// SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLMSG_ERROR, INET_DIAG_INFO.
const BY_FAMILY: u16 = 20;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const INFO: u16 = 2;
/// TCP_ESTABLISHED as a bit of the state mask.
const ESTABLISHED: u32 = 1 << 1;

/// One established connection.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    cookie: u64,
    local: SocketAddrV6,
    remote: SocketAddrV6,
    uid: u32,
    stats: FlowStats,
}

/// The sockets of this namespace, looked at from outside.
pub struct Watch {
    netlink: Option<OwnedFd>,
    dumped: RefCell<Nanos>,
    rows: RefCell<HashMap<u32, (Row, Seen)>>,
    by_cookie: HashMap<u64, u32>,
    next: u32,
}

impl Watch {
    /// Opens the netlink socket; without one nothing is seen.
    pub fn open() -> Watch {
        let opened =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag);
        let netlink =
            opened.inspect_err(|error| tracing::warn!(event = "sock-diag", %error, "sockets are not seen")).ok();
        if let Some(fd) = &netlink {
            // A kernel that answers nothing must not hold the loop.
            let _ = setsockopt(fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20));
        }
        Watch { netlink, dumped: RefCell::default(), rows: RefCell::default(), by_cookie: HashMap::new(), next: 0 }
    }

    fn dump(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            if let Some(fd) = &self.netlink {
                dump_family(fd, family as u8, &mut seen);
            }
        }
        seen
    }
}

impl Datapath for Watch {
    fn tier(&self) -> Tier {
        Tier::None
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn events(&mut self, out: &mut Vec<SocketEvent>) {
        let now = monotonic();
        if now.minus(*self.dumped.borrow()) < EVERY {
            return;
        }
        *self.dumped.borrow_mut() = now;
        let mut rows = self.rows.borrow_mut();
        let mut gone = rows.keys().copied().collect::<std::collections::HashSet<u32>>();
        for seen in self.dump() {
            if let Some(index) = self.by_cookie.get(&seen.cookie) {
                gone.remove(index);
                if let Some((_, known)) = rows.get_mut(index) {
                    let quiet = known.stats.acked == seen.stats.acked && known.stats.queued == seen.stats.queued;
                    let updated = if quiet { known.stats.updated } else { now };
                    *known = Seen { stats: FlowStats { updated, ..seen.stats }, ..seen };
                }
            } else if rows.len() < MOST {
                self.next = self.next.wrapping_add(1);
                let row = Row { index: self.next, generation: 1 };
                let (local, remote, uid) = (seen.local, seen.remote, seen.uid);
                out.push(SocketEvent { kind: SocketEventKind::Opened, row, cookie: seen.cookie, local, remote, uid });
                self.by_cookie.insert(seen.cookie, row.index);
                rows.insert(row.index, (row, Seen { stats: FlowStats { updated: now, ..seen.stats }, ..seen }));
            }
        }
        for index in gone {
            if let Some((row, seen)) = rows.remove(&index) {
                self.by_cookie.remove(&seen.cookie);
                let (local, remote, uid) = (seen.local, seen.remote, seen.uid);
                out.push(SocketEvent { kind: SocketEventKind::Closed, row, cookie: seen.cookie, local, remote, uid });
            }
        }
    }
    fn stats(&self, row: Row) -> Option<FlowStats> {
        self.rows.borrow().get(&row.index).map(|(_, seen)| seen.stats)
    }
    fn order(&mut self, _row: Row, _rate: Rate, _expires: Nanos) {}
    fn release(&mut self, _row: Row) {}
}

/// Asks for all established TCP sockets of a family and reads the answer.
fn dump_family(fd: &OwnedFd, family: u8, seen: &mut Vec<Seen>) {
    // nlmsghdr, then inet_diag_req_v2: family, protocol, extensions (INET_DIAG_INFO), padding, states, id.
    let mut request = vec![0_u8; 72];
    request[0..4].copy_from_slice(&72_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&0x0301_u16.to_ne_bytes()); // NLM_F_REQUEST | NLM_F_DUMP
    request[16] = family;
    request[17] = libc::IPPROTO_TCP as u8;
    request[18] = 1 << (INFO - 1);
    request[20..24].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    if sendto(fd.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).is_err() {
        return;
    }
    let mut buffer = vec![0_u8; 64 << 10];
    // The kernel ends a dump with DONE; the bound only guards against one that never does.
    for _ in 0..MOST {
        let Ok(length) = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()) else { return };
        if !read_messages(&buffer[..length.min(buffer.len())], seen) {
            return;
        }
    }
}

/// Reads the messages of one datagram; false at the end of the dump.
fn read_messages(mut rest: &[u8], seen: &mut Vec<Seen>) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
        let length = length as usize;
        let Some(message) = rest.get(..length).filter(|_| length >= at::HEADER) else { return false };
        match kind {
            DONE | ERROR => return false,
            BY_FAMILY => seen.extend(message.get(at::HEADER..).and_then(read_socket)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    seen.len() < MOST
}

fn read_socket(message: &[u8]) -> Option<Seen> {
    let v4 = i32::from(*message.get(at::FAMILY)?) == libc::AF_INET;
    let end = |address: usize, port: usize| {
        let bytes: [u8; 16] = message.get(address..address + 16)?.try_into().ok()?;
        let ip = if v4 {
            std::net::Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).to_ipv6_mapped()
        } else {
            Ipv6Addr::from(bytes)
        };
        let port: [u8; 2] = message.get(port..port + 2)?.try_into().ok()?;
        Some(SocketAddrV6::new(ip, u16::from_be_bytes(port), 0, 0))
    };
    let cookie = u64::from(u32_at(message, at::COOKIE)?) | u64::from(u32_at(message, at::COOKIE + 4)?) << 32;
    let mut attributes = message.get(at::ATTRIBUTES..)?;
    let mut stats = None;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let Some(body) = attributes.get(4..length) else { break };
        if kind == INFO {
            stats = read_info(body);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let (local, remote, uid) = (end(at::SRC, at::SPORT)?, end(at::DST, at::DPORT)?, u32_at(message, at::UID)?);
    Some(Seen { cookie, local, remote, uid, stats: stats? })
}

fn read_info(body: &[u8]) -> Option<FlowStats> {
    let small = |at: usize| u32_at(body, at);
    let large = |at: usize| Some(u64::from(small(at)?) | u64::from(small(at + 4)?) << 32);
    let micros = |us: u32| Nanos(u64::from(us) * 1000);
    let in_flight = u64::from(small(info::UNACKED)?) * u64::from(small(info::MSS)?);
    Some(FlowStats {
        acked: Bytes(large(info::ACKED)?),
        queued: Bytes(u64::from(small(info::NOTSENT)?).saturating_add(in_flight)),
        delivery_rate: Rate(large(info::DELIVERY_RATE)?.saturating_mul(8)),
        srtt: micros(small(info::RTT)?),
        rtt_min: micros(small(info::MIN_RTT)?),
        retransmitted: u64::from(small(info::TOTAL_RETRANS)?),
        cwnd: small(info::CWND)?,
        ..FlowStats::default()
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_seen_with_its_bytes_and_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        client.write_all(&[7; 5000]).expect("written");
        let mut buffer = [0; 5000];
        server.read_exact(&mut buffer).expect("read");
        let port = client.local_addr().expect("bound").port();
        let mut watch = Watch::open();
        let mut events = Vec::new();
        watch.events(&mut events);
        let Some(event) = events.iter().find(|event| event.local.port() == port).copied() else {
            println!("skipped: sock_diag shows no sockets here");
            return;
        };
        assert_eq!(
            (event.kind, event.remote.port()),
            (SocketEventKind::Opened, listener.local_addr().expect("bound").port())
        );
        // The last acknowledgement may be under way still.
        let began = std::time::Instant::now();
        let mut stats = watch.stats(event.row).expect("measured");
        while stats.queued > Bytes::ZERO && began.elapsed().as_secs() < 20 {
            events.clear();
            watch.events(&mut events);
            stats = watch.stats(event.row).expect("measured");
        }
        assert!(stats.acked.0 >= 5000 && stats.acked.0 < 6000 && stats.queued == Bytes::ZERO, "{stats:?}");
        drop((client, server));
        let began = std::time::Instant::now();
        loop {
            events.clear();
            watch.events(&mut events);
            if events.iter().any(|e| e.kind == SocketEventKind::Closed && e.row == event.row) {
                break;
            }
            assert!(began.elapsed().as_secs() < 20, "its end is not seen");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut x = 99_u64;
        let mut bytes = vec![0_u8; 600];
        for _ in 0..20_000 {
            for byte in &mut bytes {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                *byte = (x >> 11) as u8;
            }
            bytes[0..4].copy_from_slice(&((x % 700) as u32).to_ne_bytes());
            bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
            bytes[88..90].copy_from_slice(&((x % 500) as u16).to_ne_bytes());
            bytes[90..92].copy_from_slice(&INFO.to_ne_bytes());
            read_messages(&bytes, &mut Vec::new());
        }
    }
}
