//! One direction of one connection: moves bytes between a non-blocking socket and the collective's buffer.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use super::JobError;
use super::exchange::Exchange;

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
        Outgoing { socket, sent: 0, writable: true }
    }

    /// Writes what is ready, in pieces of at most `piece`; how many bytes went.
    pub fn push(&mut self, at: usize, from: &mut dyn Exchange, piece: usize) -> Result<u64, JobError> {
        let before = self.sent;
        while self.writable && self.sent - before < TURN as u64 {
            let [head, body] = from.next(at, self.sent, piece);
            if head.is_empty() && body.is_empty() {
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
