//! A line between brain and helper: a pair of sockets for messages and descriptors, and a desk, memory of a fixed size that both
//! read and write with `pread` and `pwrite` only, for what is longer than a message.
//!
//! There are two lines, so that the deciding loop never waits behind a look into `/proc`. On each one question is under way at a
//! time. An answer that does not come in time is waited for no longer: what is asked next is refused at once until it has come, so
//! a helper that is stopped costs its brain one patience, and no order.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg, sendmsg,
    socketpair,
};

use super::message::{BYTES, Bytes, Reply, Request};

/// Bytes of a desk.
pub const DESK: usize = 1 << 20;
/// Descriptors that come with a message at most.
pub const MAX_DESCRIPTORS: usize = 4;

/// One end of a line.
#[derive(Debug)]
pub struct End {
    socket: OwnedFd,
    desk: File,
}

/// What came over a line.
#[derive(Debug, Default)]
pub struct Received {
    /// One more than a message has at most, so that a longer one is seen to be one.
    pub bytes: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

impl End {
    /// Both ends of a new line.
    ///
    /// # Errors
    /// The system's.
    pub fn pair() -> io::Result<[End; 2]> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        let desk = memfd_create("sluice-desk", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let desk = File::from(desk);
        desk.set_len(DESK as u64)?;
        let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
        fcntl(&desk, FcntlArg::F_ADD_SEALS(seals))?;
        Ok([End { socket: ours, desk: desk.try_clone()? }, End { socket: theirs, desk }])
    }

    /// An end from descriptors that were left open for this process.
    pub fn of(socket: OwnedFd, desk: OwnedFd) -> End {
        End { socket, desk: File::from(desk) }
    }

    /// Its descriptors, in the order of [`End::of`].
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.desk.as_fd()]
    }

    /// Says it, with these descriptors.
    ///
    /// # Errors
    /// The system's: EPIPE if the other end is gone.
    pub fn send(&self, bytes: &Bytes, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let with = [ControlMessage::ScmRights(&raw)];
        let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &with };
        sendmsg::<UnixAddr>(
            self.socket.as_raw_fd(),
            &[io::IoSlice::new(bytes)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(())
    }

    /// The next message; waits for it. `None`: the other end is gone. `descriptors`: may some come with it? Else they are closed.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&self, descriptors: bool) -> io::Result<Option<Received>> {
        let mut bytes = vec![0; BYTES + 1];
        let mut space = nix::cmsg_space!([RawFd; MAX_DESCRIPTORS]);
        let mut came = Vec::new();
        let length = {
            let mut parts = [io::IoSliceMut::new(&mut bytes)];
            // Without room for them the kernel closes what comes.
            let control = if descriptors { Some(space.as_mut_slice()) } else { None };
            let got =
                match recvmsg::<UnixAddr>(self.socket.as_raw_fd(), &mut parts, control, MsgFlags::MSG_CMSG_CLOEXEC) {
                    Err(Errno::EINTR) => return self.receive(descriptors),
                    Err(Errno::ECONNRESET) => return Ok(None),
                    got => got?,
                };
            if descriptors {
                for message in got.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(raw) = message {
                        // SAFETY: the kernel has just made these for this process, and nobody else knows them.
                        came.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                    }
                }
            }
            got.bytes
        };
        if length == 0 {
            return Ok(None);
        }
        bytes.truncate(length);
        Ok(Some(Received { bytes, descriptors: came }))
    }

    /// Waits until something can be received, for so long at most.
    fn is_readable(&self, within: Duration) -> io::Result<bool> {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout) {
                Err(Errno::EINTR) => {}
                ready => return Ok(ready? > 0),
            }
        }
    }

    /// Puts this on the desk; what does not fit is left out. Says how much lies there.
    ///
    /// # Errors
    /// The system's.
    pub fn put(&self, bytes: &[u8]) -> io::Result<u32> {
        let bytes = bytes.get(..DESK).unwrap_or(bytes);
        self.desk.write_all_at(bytes, 0)?;
        Ok(bytes.len() as u32)
    }

    /// What lies there, so many bytes of it; no more than a desk has.
    ///
    /// # Errors
    /// The system's.
    pub fn take(&self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length.min(DESK)];
        self.desk.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// An answer, and what came with it.
#[derive(Debug)]
pub struct Answer {
    pub reply: Reply,
    pub descriptors: Vec<OwnedFd>,
    /// What lies on the desk.
    pub desk: Vec<u8>,
}

#[derive(Debug)]
struct Asking {
    end: End,
    number: u32,
    /// An answer has not come.
    owed: bool,
}

/// The brain's end.
#[derive(Debug)]
pub struct Line {
    asking: Mutex<Asking>,
}

impl Line {
    pub fn new(end: End) -> Line {
        Line { asking: Mutex::new(Asking { end, number: 0, owed: false }) }
    }

    /// Asks this, with `rows` on the desk, and waits for the answer.
    ///
    /// # Errors
    /// EBUSY at once while an earlier answer is owed; [`io::ErrorKind::TimedOut`] once this one is; EPIPE if the helper is gone;
    /// what it refused; [`io::ErrorKind::InvalidData`] for an answer that is none.
    pub fn ask(&self, request: &Request, rows: &[u8], patience: Duration) -> io::Result<Answer> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while asking.owed {
            if !asking.end.is_readable(Duration::ZERO)? {
                return Err(Errno::EBUSY.into());
            }
            asking.end.receive(true)?.ok_or(io::Error::from(Errno::EPIPE))?;
            asking.owed = false;
        }
        asking.number = asking.number.wrapping_add(1);
        if !rows.is_empty() {
            asking.end.put(rows)?;
        }
        asking.end.send(&request.encode(asking.number), &[])?;
        if !asking.end.is_readable(patience)? {
            asking.owed = true;
            return Err(io::ErrorKind::TimedOut.into());
        }
        let received = asking.end.receive(true)?.ok_or(io::Error::from(Errno::EPIPE))?;
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let (reply, number) = Reply::decode(&received.bytes).map_err(wrong)?;
        if number != asking.number {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to something else"));
        }
        let length = match &reply {
            Reply::Refused(errno) => return Err(io::Error::from_raw_os_error(*errno)),
            Reply::Written(length) => *length as usize,
            Reply::Opened(opened) => opened.reasons as usize,
            Reply::Changed { errors, .. } => *errors as usize,
            Reply::Count(rows) => (*rows as usize).saturating_mul(super::rows::ANSWER_BYTES),
            Reply::Done | Reply::Netns(_) | Reply::Descriptor => 0,
        };
        let desk = asking.end.take(length)?;
        Ok(Answer { reply, descriptors: received.descriptors, desk })
    }
}
