//! Brings the streams of one member up: it listens, connects to the receivers of its streams, accepts its senders.
//!
//! Every stream has a connection of its own, opened by the sender, so that data flows in one direction of it. The
//! first 24 bytes say whose stream it is; strangers and doubles are turned away. The sender's port follows from who sends
//! to whom, so that switches that choose a path by ports choose the same one in every run, whatever the policy.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, listen, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use sluice_schedule::units::fnv1a64;

use super::exchange::{Exchange, Kind, Stream, Streams};
use super::{JobError, JobFile};

/// How long the members wait for each other.
const PATIENCE: Duration = Duration::from_secs(30);
const MAGIC: [u8; 4] = *b"SLJ1";
const HELLO: usize = 24;
/// Ports that streams are sent from: below those that the kernel draws and those that members of a run listen on.
const SOURCE_PORTS: std::ops::Range<u16> = 10_000..20_000;
/// How many of them are tried before the kernel draws one.
const SOURCE_TRIES: u16 = 8;

/// The connections of one member, in the order of its streams.
#[derive(Debug)]
pub struct Connections {
    /// One per outgoing stream.
    pub outs: Vec<TcpStream>,
    /// One per incoming stream.
    pub ins: Vec<TcpStream>,
}

/// Connects and accepts; every socket gets the congestion control the job file names before it is established.
///
/// # Errors
/// When the port is taken, the congestion control is unknown or forbidden, or a peer does not come in 30 s.
pub fn connect_all(file: &JobFile, collective: &dyn Exchange) -> Result<Connections, JobError> {
    let listener = listener(file)?;
    let deadline = Instant::now() + PATIENCE;
    // Members with different plans are strangers to each other.
    let Streams { identity, outs, ins } = collective.streams();
    let group = fnv1a64(format!("{}{identity}", file.job).as_bytes());
    let (accepted, connected) = std::thread::scope(|scope| {
        let accept = scope.spawn(|| accept_all(file, group, &listener, ins, deadline));
        let connected = connect_outs(file, group, outs, deadline);
        let accepted = accept.join();
        (accepted, connected)
    });
    let lost = |_| JobError::Peer { peer: "listener".into(), what: "the accepting thread ended".into() };
    Ok(Connections { outs: connected?, ins: accepted.map_err(lost)?? })
}

fn new_socket(file: &JobFile) -> Result<OwnedFd, JobError> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .map_err(JobError::sys("making a TCP socket"))?;
    if let Some(name) = &file.tcp {
        setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(name))
            .map_err(JobError::sys("asking for the job file's congestion control (key tcp)"))?;
    }
    Ok(fd)
}

fn listener(file: &JobFile) -> Result<TcpListener, JobError> {
    let member = &file.members[file.rank];
    // By several cards come the streams of one port.
    let own =
        if member.rails.is_empty() { member.endpoint() } else { SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, member.port) };
    let fd = new_socket(file)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true).map_err(JobError::sys("setting SO_REUSEADDR"))?;
    bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &SockaddrIn::from(own))
        .map_err(JobError::sys("binding the member's own address and port"))?;
    let backlog = Backlog::new(4096).unwrap_or(Backlog::MAXCONN);
    listen(&fd, backlog).map_err(JobError::sys("listening"))?;
    Ok(TcpListener::from(fd))
}

fn connect_outs(file: &JobFile, group: u64, streams: &[Stream], deadline: Instant) -> Result<Vec<TcpStream>, JobError> {
    streams
        .iter()
        .map(|stream| {
            let peer = &file.members[stream.peer];
            let to = SocketAddrV4::new(peer.rail(stream.lane), peer.port);
            loop {
                match connect_one(file, group, stream, to) {
                    Err(JobError::Io { source, .. }) if Instant::now() > deadline => {
                        let what = format!("cannot connect to {to} for 30 s: {source}");
                        return Err(JobError::Peer { peer: format!("member {}", stream.peer), what });
                    }
                    Err(JobError::Io { what: "connecting" | "saying hello", .. }) => {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    other => return other,
                }
            }
        })
        .collect()
}

fn connect_one(file: &JobFile, group: u64, stream: &Stream, to: std::net::SocketAddrV4) -> Result<TcpStream, JobError> {
    let fd = new_socket(file)?;
    // Bounds connect(2), which knows no other time-out.
    setsockopt(&fd, sockopt::SendTimeout, &TimeVal::new(2, 0)).map_err(JobError::sys("setting SO_SNDTIMEO"))?;
    let own = file.members[file.rank].rail(stream.lane);
    let bind_to = |port| bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &SockaddrIn::from(SocketAddrV4::new(own, port)));
    if !(0..SOURCE_TRIES).any(|attempt| bind_to(source_port(file, stream, attempt)).is_ok()) {
        bind_to(0).map_err(JobError::sys("binding the member's own address"))?;
    }
    connect(std::os::fd::AsRawFd::as_raw_fd(&fd), &SockaddrIn::from(to)).map_err(JobError::sys("connecting"))?;
    let mut socket = TcpStream::from(fd);
    socket.set_nodelay(true).map_err(JobError::io("setting TCP_NODELAY"))?;
    socket
        .write_all(&hello(group, &Caller { rank: file.rank, kind: stream.kind, lane: stream.lane }))
        .map_err(JobError::io("saying hello"))?;
    socket.set_nonblocking(true).map_err(JobError::io("making a socket non-blocking"))?;
    Ok(socket)
}

/// The port that a stream is sent from, at this try.
fn source_port(file: &JobFile, stream: &Stream, attempt: u16) -> u16 {
    let Stream { peer, kind, lane, .. } = stream;
    let text = format!("{}|{}|{peer}|{kind:?}|{lane}|{attempt}", file.job, file.rank);
    let ports = u64::from(SOURCE_PORTS.end - SOURCE_PORTS.start);
    SOURCE_PORTS.start + (fnv1a64(text.as_bytes()) % ports) as u16
}

fn accept_all(
    file: &JobFile,
    group: u64,
    listener: &TcpListener,
    streams: &[Stream],
    deadline: Instant,
) -> Result<Vec<TcpStream>, JobError> {
    let mut found: Vec<Option<TcpStream>> = streams.iter().map(|_| None).collect();
    listener.set_nonblocking(true).map_err(JobError::io("making the listener non-blocking"))?;
    while let Some(missing) = found.iter().position(Option::is_none) {
        match listener.accept() {
            Ok((socket, from)) => {
                if let Some((caller, socket)) = greet(file, group, socket, from)
                    && let Some(at) = streams.iter().position(|stream| caller.is_sender_of(stream))
                    && found[at].is_none()
                {
                    found[at] = Some(socket);
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                if Instant::now() > deadline {
                    let peer = format!("member {}", streams[missing].peer);
                    return Err(JobError::Peer { peer, what: "did not connect within 30 s".into() });
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(e) => return Err(JobError::Io { what: "accepting", source: e }),
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// Who it is; `None`: not one of ours.
fn greet(file: &JobFile, group: u64, mut socket: TcpStream, from: SocketAddr) -> Option<(Caller, TcpStream)> {
    let mut hello = [0; HELLO];
    socket.set_nonblocking(false).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    socket.read_exact(&mut hello).ok()?;
    let caller = parse(&hello, group)?;
    let known = file.members.get(caller.rank)?;
    if !known.has(from.ip()) {
        return None;
    }
    socket.set_nonblocking(true).ok()?;
    Some((caller, socket))
}

const KINDS: [Kind; 8] = [
    Kind::Ring,
    Kind::Aggregate,
    Kind::Broadcast,
    Kind::Reduce,
    Kind::Spread,
    Kind::Trees,
    Kind::Steps,
    Kind::Transfers,
];

/// What a hello says: who sends, and which of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caller {
    rank: usize,
    kind: Kind,
    lane: u32,
}

impl Caller {
    fn is_sender_of(&self, stream: &Stream) -> bool {
        (stream.peer, stream.kind, stream.lane) == (self.rank, self.kind, self.lane)
    }
}

fn hello(group: u64, caller: &Caller) -> [u8; HELLO] {
    let mut hello = [0; HELLO];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4] = KINDS.iter().position(|k| *k == caller.kind).unwrap_or(0) as u8;
    hello[8..12].copy_from_slice(&(caller.rank as u32).to_le_bytes());
    hello[12..16].copy_from_slice(&caller.lane.to_le_bytes());
    hello[16..].copy_from_slice(&group.to_le_bytes());
    hello
}

fn parse(hello: &[u8; HELLO], group: u64) -> Option<Caller> {
    let (head, id) = hello.split_at(16);
    if head[..4] != MAGIC || id != group.to_le_bytes() {
        return None;
    }
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    Some(Caller { rank: number(8) as usize, kind: *KINDS.get(usize::from(head[4]))?, lane: number(12) })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_hello_comes_back_and_another_jobs_is_refused() {
        let caller = Caller { rank: 3, kind: Kind::Transfers, lane: 70_000 };
        let sent = hello(77, &caller);
        assert_eq!(parse(&sent, 77), Some(caller));
        assert_eq!(parse(&sent, 78), None);
    }

    #[test]
    fn lanes_between_the_same_two_are_told_apart() {
        let stream = |lane| Stream { peer: 3, kind: Kind::Transfers, lane, bytes: 4 };
        let caller = Caller { rank: 3, kind: Kind::Transfers, lane: 1 };
        assert!(caller.is_sender_of(&stream(1)) && !caller.is_sender_of(&stream(0)));
        assert!(!caller.is_sender_of(&Stream { kind: Kind::Steps, ..stream(1) }));
        assert!(!caller.is_sender_of(&Stream { peer: 2, ..stream(1) }));
    }

    #[test]
    fn mutated_hellos_never_panic() {
        let good = hello(77, &Caller { rank: 3, kind: Kind::Ring, lane: 0 });
        let mut seed = 1_u64;
        for _ in 0..10_000 {
            let mut bad = good;
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bad[(seed >> 33) as usize % HELLO] = (seed >> 40) as u8;
            }
            if let Some(Caller { rank, kind, .. }) = parse(&bad, 77) {
                assert!(u32::try_from(rank).is_ok() && KINDS.contains(&kind));
            }
        }
    }
}
