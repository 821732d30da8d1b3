//! One direction of one connection: moves bytes between a non-blocking socket and the collective's buffer.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use super::JobError;
use super::exchange::Exchange;
use crate::sys::TcpInfo;

/// Most bytes one stream moves before the others have their turn.
const TURN: usize = 262_144;
/// Floats a reading turn takes at once.
const STAGE: usize = 32_768;

#[derive(Debug)]
pub struct Outgoing {
    pub socket: TcpStream,
    /// Bytes of this round handed to the kernel.
    pub sent: u64,
    /// The kernel takes more, as far as is known.
    pub writable: bool,
    /// There are bytes of this round that may go by now and that the kernel has not taken, as of the last turn.
    pub ready: bool,
}

#[derive(Debug)]
pub struct Incoming {
    pub socket: TcpStream,
    /// Something may be there to read.
    pub readable: bool,
    /// Bytes of a float that has not wholly arrived.
    torn: usize,
}

/// Reading space, shared by the streams of a member; each keeps the bytes of a torn float for itself.
#[derive(Debug)]
pub struct Stage {
    floats: Vec<f32>,
    torn: Vec<[u8; 4]>,
}

impl Stage {
    /// For so many incoming streams.
    pub fn new(streams: usize) -> Stage {
        Stage { floats: vec![0.0; STAGE], torn: vec![[0; 4]; streams] }
    }
}

impl Outgoing {
    pub fn new(socket: TcpStream) -> Outgoing {
        Outgoing { socket, sent: 0, writable: true, ready: false }
    }

    /// A round begins, of which nothing may go yet.
    pub fn begin(&mut self) {
        (self.sent, self.ready) = (0, false);
    }

    /// Is there anything that its peer has not acknowledged, with the kernel or the member? Where the kernel's buffer
    /// is full, or the peer does not read, there is; where all has come and the rest waits for others, there is not.
    pub fn is_unsent(&self, kernel: &TcpInfo) -> bool {
        self.ready || kernel.unacked > 0 || kernel.not_sent > 0
    }

    /// Writes what is ready, in pieces of at most `piece`; how many bytes went.
    pub fn push(&mut self, at: usize, from: &mut dyn Exchange, piece: usize) -> Result<u64, JobError> {
        let before = self.sent;
        while self.writable && self.sent - before < TURN as u64 {
            let [head, body] = from.next(at, self.sent, piece);
            self.ready = !(head.is_empty() && body.is_empty());
            if !self.ready {
                break;
            }
            // Both in one call: a head of its own would be a segment of its own.
            match self.socket.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(n) => self.sent += n as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(JobError::Io { what: "writing to a peer", source }),
            }
        }
        Ok(self.sent - before)
    }
}

impl Incoming {
    pub fn new(socket: TcpStream) -> Incoming {
        Incoming { socket, readable: true, torn: 0 }
    }

    /// Reads into the collective, never beyond this round; how many bytes came.
    pub fn pull(&mut self, at: usize, into: &mut dyn Exchange, stage: &mut Stage) -> Result<u64, JobError> {
        let mut taken = 0;
        while self.readable && taken < TURN {
            let left = into.ins()[at].bytes - into.arrived(at);
            if left == 0 {
                break;
            }
            let room: &mut [u8] = bytemuck::cast_slice_mut(&mut stage.floats);
            room[..self.torn].copy_from_slice(&stage.torn[at][..self.torn]);
            let end = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match self.socket.read(&mut room[self.torn..end]) {
                Ok(0) => {
                    let peer = format!("member {}", into.ins()[at].peer);
                    return Err(JobError::Peer { peer, what: "closed the connection within a round".into() });
                }
                Ok(n) => {
                    taken += n;
                    let have = self.torn + n;
                    self.torn = have % 4;
                    stage.torn[at][..self.torn].copy_from_slice(&room[have - self.torn..have]);
                    into.accept(at, &stage.floats[..have / 4])?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(JobError::Io { what: "reading from a peer", source }),
            }
        }
        Ok(taken as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::{Duration, Instant};

    use super::super::buffer::Difference;
    use super::super::exchange::Streams;
    use super::*;
    use crate::sys::tcp_info;

    /// So many bytes for one peer, as many of them as may go by now.
    struct Bytes {
        streams: Streams,
        all: Vec<u8>,
        may_go: usize,
    }

    impl Exchange for Bytes {
        fn streams(&self) -> &Streams {
            &self.streams
        }
        fn begin(&mut self, _iteration: u64) {}
        fn next(&mut self, _out: usize, at: u64, most: usize) -> [&[u8]; 2] {
            let rest = &self.all[at as usize..self.may_go];
            [&[], &rest[..rest.len().min(most)]]
        }
        fn arrived(&self, _input: usize) -> u64 {
            0
        }
        fn accept(&mut self, _input: usize, _data: &[f32]) -> Result<(), JobError> {
            Ok(())
        }
        fn wrong(&self, _iteration: u64) -> Option<Difference> {
            None
        }
    }

    /// An outgoing stream, its peer, and so many bytes for it.
    fn pair(bytes: usize) -> (Outgoing, TcpStream, Bytes) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        near.set_nonblocking(true).expect("not blocking");
        let (far, _) = listener.accept().expect("a peer");
        (Outgoing::new(near), far, Bytes { streams: Streams::default(), all: vec![7; bytes], may_go: bytes })
    }

    fn is_unsent(out: &Outgoing) -> bool {
        out.is_unsent(&tcp_info(&out.socket).expect("a TCP socket"))
    }

    /// Waits until everything is acknowledged; is it?
    fn comes(out: &Outgoing) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while is_unsent(out) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        !is_unsent(out)
    }

    #[test]
    fn a_stream_whose_peer_does_not_read_has_something_to_send() {
        let (mut out, mut far, mut bytes) = pair(64 << 20);
        while out.writable {
            out.push(0, &mut bytes, 65_536).expect("written");
        }
        assert!(out.sent < 64 << 20, "no buffer is that large");
        std::thread::sleep(Duration::from_millis(50));
        assert!(is_unsent(&out), "whatever the kernel holds, the member holds more");
        // What it has handed over comes; what it still holds is as good a reason.
        let mut read = vec![0; out.sent as usize];
        far.read_exact(&mut read).expect("read");
        assert!(is_unsent(&out) && out.ready);
    }

    #[test]
    fn a_stream_that_waits_for_others_has_nothing_to_send() {
        let (mut out, mut far, mut bytes) = pair(3000);
        assert!(!is_unsent(&out), "its round has not begun");
        bytes.may_go = 1000;
        out.push(0, &mut bytes, 65_536).expect("written");
        far.read_exact(&mut [0; 1000]).expect("read");
        assert!(comes(&out), "the rest may not go yet");
        bytes.may_go = 3000;
        out.push(0, &mut bytes, 1000).expect("written");
        far.read_exact(&mut [0; 2000]).expect("read");
        assert!(comes(&out), "its part of the round is done");
        out.begin();
        assert_eq!((out.sent, is_unsent(&out)), (0, false));
    }
}
