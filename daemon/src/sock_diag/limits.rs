//! What limits one connection, by the kernel's own count: for how long it had something to send, for how long its receiver's
//! window was shut, and its own send buffer too small (`tcp_info`); and what has come and was not taken yet.

use std::net::SocketAddrV6;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, NetlinkAddr, recv, sendto};
use sluice_ebpf::FlowStats;
use sluice_schedule::{Bytes, Nanos};

use super::{INFO, SENDING, at, each_attribute, end, lookup, read_info, read_messages, received, u32_at};

/// Where they lie in `struct inet_diag_msg` and in `struct tcp_info`.
mod place {
    pub const UNREAD: usize = 56;
    pub const BUSY: usize = 168;
    pub const RECEIVER: usize = 176;
    pub const BUFFER: usize = 184;
}

/// Counts since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// Something was written that was not acknowledged.
    pub busy: Nanos,
    /// Of that, the receiver's window was shut.
    pub receiver: Nanos,
    /// Of that, the own send buffer was full and too small.
    pub buffer: Nanos,
    /// Payload received.
    pub received: Bytes,
    /// What was sent, and how it went.
    pub stats: FlowStats,
    /// Payload that has come and that the process has not taken, at this moment.
    pub unread: Bytes,
}

/// Asks of the connection between these ends. Costs some microseconds, however many there are. `None`: there is none that
/// still sends, or the kernel is too old to count (before 4.10).
pub fn ask(fd: &OwnedFd, local: SocketAddrV6, remote: SocketAddrV6, buffer: &mut [u8]) -> Option<Limited> {
    let request = lookup(local, remote);
    sendto(fd.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
    let length = recv(fd.as_raw_fd(), buffer, MsgFlags::empty()).ok()?;
    let mut found = None;
    read_messages(buffer.get(..length)?, &mut |message| {
        // The kernel may answer with a listener.
        let ours = end(message, at::SRC, at::SPORT) == Some(local) && end(message, at::DST, at::DPORT) == Some(remote);
        found = if ours { read(message) } else { None };
        found.is_none()
    });
    found
}

fn read(message: &[u8]) -> Option<Limited> {
    SENDING.contains(message.get(at::STATE)?).then_some(())?;
    let unread = Bytes(u32_at(message, place::UNREAD)?.into());
    let mut limited = None;
    each_attribute(message, &mut |kind, body| {
        if kind == INFO {
            limited = counts(body, unread);
        }
    })?;
    limited
}

fn counts(body: &[u8], unread: Bytes) -> Option<Limited> {
    let micros = |at: usize| {
        let count = u64::from(u32_at(body, at)?) | u64::from(u32_at(body, at + 4)?) << 32;
        Some(Nanos(count.saturating_mul(1000)))
    };
    Some(Limited {
        busy: micros(place::BUSY)?,
        receiver: micros(place::RECEIVER)?,
        buffer: micros(place::BUFFER)?,
        received: received(body)?,
        stats: read_info(body)?,
        unread,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;

    fn v6(address: SocketAddr) -> SocketAddrV6 {
        match address {
            SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
            SocketAddr::V6(v6) => v6,
        }
    }

    #[test]
    fn a_receiver_that_takes_nothing_is_told_apart_from_a_sender_that_sends_nothing() {
        let Ok(fd) = super::super::open() else {
            return sluice_skip::skip!(Kernel, "no sock_diag here");
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut receiver, _) = listener.accept().expect("accepts");
        let (here, there) = (v6(sender.local_addr().expect("bound")), v6(sender.peer_addr().expect("connected")));
        let mut buffer = vec![0; 8 << 10];
        let mut asked = |local, remote| ask(&fd, local, remote, &mut buffer);
        std::thread::sleep(std::time::Duration::from_millis(30));
        let idle = asked(here, there).expect("the connection");
        assert_eq!((idle.busy, idle.receiver, idle.received), (Nanos::ZERO, Nanos::ZERO, Bytes::ZERO));
        // More than any receive buffer holds, and nobody takes it.
        sender.set_nonblocking(true).expect("set");
        let began = std::time::Instant::now();
        let mut stuck = idle;
        while stuck.receiver == Nanos::ZERO && began.elapsed().as_secs() < 20 {
            while (&sender).write(&[7; 64 << 10]).is_ok() {}
            std::thread::sleep(std::time::Duration::from_millis(10));
            stuck = asked(here, there).expect("the connection");
        }
        assert!(stuck.busy >= stuck.receiver && stuck.receiver > Nanos::ZERO, "{stuck:?}");
        let unread = asked(there, here).expect("the other end").unread;
        assert!(unread > Bytes(16 << 10), "{unread}");
        let mut taken = [0; 1000];
        receiver.read_exact(&mut taken).expect("read");
        assert!(asked(there, here).expect("the other end").received >= unread);
        assert_eq!(asked(here, "[::1]:1".parse().expect("valid")), None);
    }

    #[test]
    fn an_answer_that_is_too_short_counts_nothing() {
        for length in 0..192 {
            assert_eq!(counts(&vec![1; length], Bytes::ZERO), None, "{length}");
        }
        assert!(counts(&[1; 192], Bytes::ZERO).is_some());
    }
}
