//! The TCP sockets of a network namespace with their byte counts, asked of the kernel by `sock_diag`. Needs no privilege.
//!
//! A netlink socket belongs to the namespace its thread was in when it was opened, and holds it: who looks into a
//! container's namespace opens one, asks, and closes it.

pub mod limits;

use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use sluice_ebpf::FlowStats;
use sluice_schedule::{Bytes, Nanos, Rate};

/// Sockets read in one dump at most.
const MAX_SOCKETS: usize = 16_384;
/// Where things lie in `struct inet_diag_msg` (72 bytes) after the netlink header (16 bytes).
mod at {
    pub const HEADER: usize = 16;
    pub const FAMILY: usize = 0;
    pub const STATE: usize = 1;
    pub const SPORT: usize = 4;
    pub const DPORT: usize = 6;
    pub const SRC: usize = 8;
    pub const DST: usize = 24;
    pub const COOKIE: usize = 44;
    pub const UID: usize = 64;
    pub const INODE: usize = 68;
    pub const ATTRIBUTES: usize = 72;
}
/// Where things lie in `struct tcp_info`.
mod info {
    pub const RTT: usize = 68;
    pub const TOTAL_RETRANS: usize = 100;
    pub const ACKED: usize = 120;
    pub const RECEIVED: usize = 128;
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
/// INET_DIAG_CONG: the name of the congestion control, and how those of ours begin.
const CONG: u16 = 4;
const OURS: &[u8] = sluice_ebpf::traces::PREFIX.as_bytes();
/// Every state but TCP_TIME_WAIT (6), which has no congestion control any more.
const WITH_CONTROL: u32 = 0xfff & !(1 << 6);
/// TCP_ESTABLISHED as a bit of the state mask.
const ESTABLISHED: u32 = 1 << 1;
/// The same and TCP_CLOSE_WAIT as numbers: the states in which a connection still sends.
const SENDING: [u8; 2] = [1, 8];
/// NLM_F_REQUEST | NLM_F_DUMP.
const DUMP: u16 = 0x0301;
/// INET_DIAG_NOCOOKIE: any socket with these ends.
const ANY_COOKIE: u32 = u32::MAX;

/// A connection as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiagSocket {
    /// The kernel's name for the socket.
    pub cookie: u64,
    /// Its inode, by which `/proc/PID/fd` names it.
    pub inode: u32,
    /// Own address, IPv4 as mapped IPv6.
    pub local: SocketAddrV6,
    /// The other end's address, in the same form.
    pub remote: SocketAddrV6,
    /// Who owns it.
    pub uid: u32,
    /// It is under Sluice's congestion control, whichever daemon put it there.
    pub managed: bool,
    /// Payload received since the connection began.
    pub received: Bytes,
    /// What was sent, and how it went.
    pub stats: FlowStats,
}

/// A socket and the congestion control that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controlled {
    /// Own address, IPv4 as mapped IPv6.
    pub local: SocketAddrV6,
    /// The other end's; unspecified for a listener.
    pub remote: SocketAddrV6,
    /// Name of the congestion control.
    pub cc: String,
}

/// Opens a socket to ask by, in the network namespace of the calling thread.
///
/// # Errors
/// The system's.
pub fn open() -> nix::Result<OwnedFd> {
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    // A kernel that answers nothing must not hold its caller.
    let _ = setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20));
    Ok(fd)
}

/// Says that the kernel tells of none.
pub fn warn(error: &std::io::Error) {
    tracing::warn!(
        event = "sock-diag",
        %error,
        cost = "what flows deliver is not known, and jobs without a progress page are not found",
        next = "sluice doctor",
        "sockets are not seen"
    );
}

/// All established TCP connections of the namespace.
///
/// # Errors
/// The kernel's where it tells of no TCP socket at all: `ENOENT` where it has this as a module, `tcp_diag`, and cannot load it.
pub fn dump(fd: &OwnedFd) -> nix::Result<Vec<DiagSocket>> {
    let mut seen = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        dump_family(fd, family as u8, &mut seen)?;
    }
    Ok(seen)
}

/// The TCP sockets of the namespace whose congestion control has a name that begins so, listeners included.
///
/// # Errors
/// As those of [`dump`].
pub fn under(fd: &OwnedFd, prefix: &str) -> nix::Result<Vec<Controlled>> {
    let mut seen = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut request = header(DUMP);
        (request[16], request[18]) = (family as u8, 1 << (CONG - 1));
        request[20..24].copy_from_slice(&WITH_CONTROL.to_ne_bytes());
        ask(fd, &request, &mut |message| {
            seen.extend(read_controlled(message).filter(|socket| socket.cc.starts_with(prefix)));
            seen.len() < MAX_SOCKETS
        })?;
    }
    Ok(seen)
}

/// The connection between these ends, if there is one that still sends. Costs some microseconds however many there are.
pub fn find(fd: &OwnedFd, local: SocketAddrV6, remote: SocketAddrV6) -> Option<DiagSocket> {
    let request = lookup(local, remote);
    sendto(fd.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
    let mut buffer = vec![0_u8; 8 << 10];
    let length = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()).ok()?;
    let mut seen = Vec::new();
    read_messages(buffer.get(..length)?, &mut |message| {
        seen.extend(read_socket(message));
        true
    });
    // The kernel may answer with a listener.
    seen.into_iter().find(|socket| (socket.local, socket.remote) == (local, remote))
}

/// The request for one connection.
fn lookup(local: SocketAddrV6, remote: SocketAddrV6) -> Vec<u8> {
    let mut request = header(0x0001); // NLM_F_REQUEST
    request[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
    request[24..26].copy_from_slice(&local.port().to_be_bytes());
    request[26..28].copy_from_slice(&remote.port().to_be_bytes());
    match (local.ip().to_ipv4_mapped(), remote.ip().to_ipv4_mapped()) {
        (Some(local), Some(remote)) => {
            request[16] = libc::AF_INET as u8;
            request[28..32].copy_from_slice(&local.octets());
            request[44..48].copy_from_slice(&remote.octets());
        }
        _ => {
            request[16] = libc::AF_INET6 as u8;
            request[28..44].copy_from_slice(&local.ip().octets());
            request[44..60].copy_from_slice(&remote.ip().octets());
        }
    }
    request[64..68].copy_from_slice(&ANY_COOKIE.to_ne_bytes());
    request[68..72].copy_from_slice(&ANY_COOKIE.to_ne_bytes());
    request
}

/// nlmsghdr, then inet_diag_req_v2: family, protocol, extensions (INET_DIAG_INFO, INET_DIAG_CONG), padding, states, id (ports, addresses,
/// interface, cookie).
fn header(flags: u16) -> Vec<u8> {
    let mut request = vec![0_u8; 72];
    request[0..4].copy_from_slice(&72_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request[17] = libc::IPPROTO_TCP as u8;
    request[18] = (1 << (INFO - 1)) | (1 << (CONG - 1));
    request
}

/// Asks for all established TCP sockets of a family and reads the answer.
fn dump_family(fd: &OwnedFd, family: u8, seen: &mut Vec<DiagSocket>) -> nix::Result<()> {
    let mut request = header(DUMP);
    request[16] = family;
    request[20..24].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    ask(fd, &request, &mut |message| {
        seen.extend(read_socket(message));
        seen.len() < MAX_SOCKETS
    })
}

/// Asks, and hands over every message of the answer until the end of the dump, or until there is enough.
fn ask(fd: &OwnedFd, request: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> nix::Result<()> {
    sendto(fd.as_raw_fd(), request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut buffer = vec![0_u8; 64 << 10];
    // The kernel ends a dump with DONE; the bound only guards against one that never does.
    for turn in 0..MAX_SOCKETS {
        let length = match recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(length) => length,
            Err(error) if turn == 0 => return Err(error),
            // What it told until then is told.
            Err(_) => break,
        };
        let answer = buffer.get(..length).unwrap_or_default();
        refusal(answer).map_or(Ok(()), Err)?;
        if !read_messages(answer, take) {
            break;
        }
    }
    Ok(())
}

/// Why the kernel gives no dump: a message of kind ERROR instead of one, or the end of one with nothing before it, and in either a
/// negative number.
fn refusal(answer: &[u8]) -> Option<Errno> {
    let ends = matches!(u16_at(answer, 4)?, ERROR | DONE);
    let number = u32_at(answer, at::HEADER)?.cast_signed();
    (ends && number < 0).then(|| Errno::from_raw(number.saturating_neg()))
}

/// What is in one datagram of an answer, whichever it answers: connections, and names of congestion controls.
pub(crate) fn read_answer(answer: &[u8]) -> (Vec<DiagSocket>, Vec<String>) {
    let (mut sockets, mut names) = (Vec::new(), Vec::new());
    read_messages(answer, &mut |message| {
        sockets.extend(read_socket(message));
        names.extend(read_controlled(message).map(|socket| socket.cc));
        true
    });
    (sockets, names)
}

/// Hands over the messages of one datagram; false at the end of the dump, or where there is enough.
fn read_messages(mut rest: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
        let length = length as usize;
        let Some(message) = rest.get(..length).filter(|_| length >= at::HEADER) else { return false };
        let more = match (kind, message.get(at::HEADER..)) {
            (DONE | ERROR, _) => false,
            (BY_FAMILY, Some(body)) => take(body),
            _ => true,
        };
        if !more {
            return false;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn read_controlled(message: &[u8]) -> Option<Controlled> {
    let mut cc = None;
    each_attribute(message, &mut |kind, body| {
        if kind == CONG {
            let name = body.split(|byte| *byte == 0).next().unwrap_or_default();
            cc = Some(String::from_utf8_lossy(name).into_owned());
        }
    })?;
    Some(Controlled { local: end(message, at::SRC, at::SPORT)?, remote: end(message, at::DST, at::DPORT)?, cc: cc? })
}

fn each_attribute(message: &[u8], take: &mut dyn FnMut(u16, &[u8])) -> Option<()> {
    let mut attributes = message.get(at::ATTRIBUTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let Some(body) = attributes.get(4..length) else { break };
        take(kind, body);
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(())
}

/// One end of a socket, IPv4 as mapped IPv6.
fn end(message: &[u8], address: usize, port: usize) -> Option<SocketAddrV6> {
    let v4 = i32::from(*message.get(at::FAMILY)?) == libc::AF_INET;
    let bytes: [u8; 16] = message.get(address..address + 16)?.try_into().ok()?;
    let ip = if v4 {
        std::net::Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).to_ipv6_mapped()
    } else {
        Ipv6Addr::from(bytes)
    };
    let port: [u8; 2] = message.get(port..port + 2)?.try_into().ok()?;
    Some(SocketAddrV6::new(ip, u16::from_be_bytes(port), 0, 0))
}

fn read_socket(message: &[u8]) -> Option<DiagSocket> {
    SENDING.contains(message.get(at::STATE)?).then_some(())?;
    let cookie = u64::from(u32_at(message, at::COOKIE)?) | u64::from(u32_at(message, at::COOKIE + 4)?) << 32;
    let (mut info, mut managed) = (None, false);
    each_attribute(message, &mut |kind, body| match kind {
        INFO => info = read_info(body).zip(received(body)),
        CONG => managed = body.starts_with(OURS),
        _ => {}
    })?;
    let (local, remote) = (end(message, at::SRC, at::SPORT)?, end(message, at::DST, at::DPORT)?);
    let uid = u32_at(message, at::UID)?;
    let (inode, (stats, received)) = (u32_at(message, at::INODE)?, info?);
    Some(DiagSocket { cookie, inode, local, remote, uid, managed, received, stats })
}

fn received(body: &[u8]) -> Option<Bytes> {
    let half = |at: usize| u32_at(body, at).map(u64::from);
    Some(Bytes(half(info::RECEIVED)? | half(info::RECEIVED + 4)? << 32))
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
        segment: Bytes(small(info::MSS)?.into()),
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
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_kernel_that_tells_of_no_sockets_is_no_kernel_without_any() {
        // Length, kind, the header's rest; then a number.
        let answer = |kind: u16, number: i32| {
            let mut answer = vec![0; 36];
            answer[0..4].copy_from_slice(&36_u32.to_ne_bytes());
            answer[4..6].copy_from_slice(&kind.to_ne_bytes());
            answer[16..20].copy_from_slice(&number.to_ne_bytes());
            answer
        };
        // Without sock_diag's module for TCP, and without the one for both.
        for kind in [ERROR, DONE] {
            assert_eq!(refusal(&answer(kind, -libc::ENOENT)), Some(Errno::ENOENT));
            assert_eq!(refusal(&answer(kind, 0)), None);
        }
        assert_eq!((refusal(&answer(BY_FAMILY, -2)), refusal(&answer(DONE, -2)[..5])), (None, None));
    }

    #[test]
    fn sockets_are_found_by_their_congestion_control_in_every_state() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = listener.local_addr().expect("bound");
        let _stream = TcpStream::connect(here).expect("connected");
        let fd = open().expect("a socket");
        // Whatever the system's default is: every name begins with nothing.
        let all = under(&fd, "").expect("the kernel tells of sockets");
        let ours = |socket: &&Controlled| socket.local.port() == here.port() || socket.remote.port() == here.port();
        let ours: Vec<&Controlled> = all.iter().filter(ours).collect();
        assert!(ours.len() >= 3, "a listener and both ends: {ours:?}");
        assert!(ours.iter().all(|socket| !socket.cc.is_empty()), "{ours:?}");
        let cc = &ours[0].cc;
        assert!(under(&fd, cc).is_ok_and(|some| some.len() >= 3));
        assert_eq!(under(&fd, "no-such-control"), Ok(Vec::new()));
    }
}
