//! What limits one connection, by the kernel's own count: for how long it had something to send, for how long its receiver's
//! window was shut, and its own send buffer too small (`tcp_info`); and what has come and was not taken yet.

use std::net::SocketAddrV6;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, NetlinkAddr, recv, sendto};
use sluice_ebpf::FlowStats;
use sluice_schedule::{Bytes, Nanos};

use super::{INFO, SENDING, at, each_attribute, end, lookup, open, read_info, read_messages, received, u32_at};

/// So many are asked by one call.
pub const AT_ONCE: usize = 8;
/// Bytes of an answer.
const ANSWER: usize = 8 << 10;
/// Where the number of a question lies in `struct nlmsghdr`, and in that of its answer.
const NUMBER: usize = 8;

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

/// Own end of a connection, and the other one.
pub type Ends = (SocketAddrV6, SocketAddrV6);

/// A socket to ask by, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Questions {
    fd: OwnedFd,
    /// The number of the last question; the kernel says it again in its answer.
    asked: u32,
    requests: Vec<u8>,
    answer: Vec<u8>,
}

impl Questions {
    /// Opens it.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> nix::Result<Questions> {
        Ok(Questions::by(open()?))
    }

    /// Asks by a socket that is open, in whichever namespace that is.
    pub fn by(fd: OwnedFd) -> Questions {
        Questions { fd, asked: 0, requests: Vec::new(), answer: vec![0; ANSWER] }
    }

    /// Asks of the connections between these ends, of the first [`AT_ONCE`] of them, by one call. Costs some microseconds each,
    /// however many there are. `None`: there is none that still sends, or the kernel is too old to count (before 4.10).
    pub fn ask(&mut self, ends: &[Ends]) -> [Option<Limited>; AT_ONCE] {
        let first = self.asked.wrapping_add(1);
        self.requests.clear();
        for (local, remote) in ends.iter().take(AT_ONCE) {
            self.asked = self.asked.wrapping_add(1);
            let mut request = lookup(*local, *remote);
            request[NUMBER..NUMBER + 4].copy_from_slice(&self.asked.to_ne_bytes());
            self.requests.extend(request);
        }
        let (mut found, mut answers) = ([None; AT_ONCE], 0);
        let fd = self.fd.as_raw_fd();
        if sendto(fd, &self.requests, &NetlinkAddr::new(0, 0), MsgFlags::empty()).is_err() {
            return found;
        }
        // The kernel has answered them all before the call returns.
        while answers < ends.len().min(AT_ONCE)
            && let Ok(length) = recv(fd, &mut self.answer, MsgFlags::MSG_DONTWAIT)
        {
            let answer = self.answer.get(..length).unwrap_or_default();
            // A number before the first is that of an answer that there was no room for when it was asked for.
            let number = u32_at(answer, NUMBER).map_or(usize::MAX, |number| number.wrapping_sub(first) as usize);
            if let (Some(of), Some(found)) = (ends.get(number), found.get_mut(number)) {
                *found = read_answer(answer, of);
                answers += 1;
            }
        }
        found
    }
}

fn read_answer(answer: &[u8], ends: &Ends) -> Option<Limited> {
    let mut found = None;
    read_messages(answer, &mut |message| {
        // The kernel may answer with a listener.
        let theirs = end(message, at::SRC, at::SPORT).zip(end(message, at::DST, at::DPORT));
        found = if theirs == Some(*ends) { read(message) } else { None };
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
        let Ok(mut questions) = Questions::open() else {
            return sluice_skip::skip!(Kernel, "no sock_diag here");
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut receiver, _) = listener.accept().expect("accepts");
        let (here, there) = (v6(sender.local_addr().expect("bound")), v6(sender.peer_addr().expect("connected")));
        let mut asked = |local, remote| questions.ask(&[(local, remote)])[0];
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
    fn many_are_asked_by_one_call_and_each_has_its_own_answer() {
        let mut questions = Questions::open().expect("a socket");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let to = listener.local_addr().expect("bound");
        let pair = |_| (TcpStream::connect(to).expect("connects"), listener.accept().expect("accepts").0);
        let pairs: Vec<(TcpStream, TcpStream)> = (0..AT_ONCE).map(pair).collect();
        // Each has received another number of bytes, which it has not taken; the last but one is none.
        let mut ends = Vec::new();
        for (sent, (one, other)) in (1..).zip(&pairs) {
            (&*one).write_all(&vec![7; sent]).expect("written");
            ends.push((v6(other.local_addr().expect("bound")), v6(other.peer_addr().expect("connected"))));
        }
        ends[AT_ONCE - 2].1.set_port(1);
        ends.push(ends[0]);
        let wanted: Vec<Option<u64>> = (0..AT_ONCE).map(|at| (at != AT_ONCE - 2).then_some(at as u64 + 1)).collect();
        let began = std::time::Instant::now();
        loop {
            let seen = questions.ask(&ends).map(|found| found.map(|limited| limited.received.0));
            if seen == wanted.as_slice() {
                break;
            }
            assert!(began.elapsed().as_secs() < 20, "{seen:?}");
        }
        assert_eq!(questions.ask(&[]), [None; AT_ONCE]);
        assert_eq!(questions.ask(&ends[2..3])[0].map(|limited| limited.unread), Some(Bytes(3)));
    }

    #[test]
    fn an_answer_that_is_too_short_counts_nothing() {
        for length in 0..192 {
            assert_eq!(counts(&vec![1; length], Bytes::ZERO), None, "{length}");
        }
        assert!(counts(&[1; 192], Bytes::ZERO).is_some());
    }
}
