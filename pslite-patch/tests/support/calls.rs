//! Sending and receiving over every call there is, with what each returned and left in errno.

use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;

use libc::{iovec, msghdr};

/// Errno before each call, and after each that went well.
const MARK: c_int = 77;

/// What libzmq collects for one `send`, and asks of one `recv`.
const BATCH: usize = 8192;

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As libzmq does it: what is small comes together in one `send` and one `recv`, what is large goes from and to where
    /// it lies.
    Zmq,
    /// A `send` and a `recv` for every piece, so many bytes at once.
    Plain(usize),
    /// Every call in turn, in pieces of any size, by this seed.
    Mixed(u64),
}

/// A socket, and what moved on it.
pub struct Socket {
    pub fd: RawFd,
    pub sent: u64,
    pub received: u64,
    style: Style,
    /// Of libzmq's style: collected to be sent; received, and how much of that was read.
    out: Vec<u8>,
    into: Vec<u8>,
    read: usize,
}

pub fn errno() -> c_int {
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(value: c_int) {
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() = value };
}

/// One call that went well, and left errno alone.
fn well(result: isize, name: &str) -> usize {
    assert!(result > 0, "{name}: {result}, errno {}", errno());
    assert_eq!(errno(), MARK, "{name} left another errno");
    result as usize
}

impl Socket {
    pub fn new(fd: RawFd, style: Style) -> Socket {
        Socket { fd, sent: 0, received: 0, style, out: Vec::new(), into: Vec::new(), read: 0 }
    }

    fn next(&mut self) -> u64 {
        let Style::Mixed(seed) = &mut self.style else { return 0 };
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed >> 16
    }

    /// Sends all of it, or keeps it until [`Socket::flush`].
    pub fn send(&mut self, mut bytes: &[u8]) {
        if self.style != Style::Zmq {
            return self.send_now(bytes);
        }
        while !bytes.is_empty() {
            if self.out.is_empty() && bytes.len() >= BATCH {
                return self.send_now(bytes);
            }
            let (first, rest) = bytes.split_at(bytes.len().min(BATCH - self.out.len()));
            self.out.extend(first);
            bytes = rest;
            if self.out.len() == BATCH {
                self.flush();
            }
        }
    }

    /// Sends what was kept.
    pub fn flush(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        self.send_now(&out);
        out.clear();
        self.out = out;
    }

    fn send_now(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (pick, at, fd) = (self.next(), bytes.as_ptr().cast::<c_void>(), self.fd);
            let size = match self.style {
                Style::Zmq => bytes.len(),
                Style::Plain(most) => bytes.len().min(most),
                Style::Mixed(_) => bytes.len().min(1 + (pick >> 8) as usize % (1 << (pick >> 4 & 15))),
            };
            let half = size / 2;
            let base = at.cast_mut();
            // SAFETY: within `bytes`.
            let pieces = unsafe {
                [
                    iovec { iov_base: base, iov_len: half },
                    iovec { iov_base: std::ptr::null_mut(), iov_len: 0 },
                    iovec { iov_base: base.add(half), iov_len: size - half },
                ]
            };
            set_errno(MARK);
            // SAFETY: at least `size` bytes are there, and the pieces lie among them.
            let (result, name) = unsafe {
                match if matches!(self.style, Style::Mixed(_)) { pick % 6 } else { 0 } {
                    0 => (libc::send(fd, at, size, libc::MSG_NOSIGNAL), "send"),
                    1 => (libc::sendto(fd, at, size, 0, std::ptr::null(), 0), "sendto"),
                    2 => (libc::write(fd, at, size), "write"),
                    3 => (libc::writev(fd, pieces.as_ptr(), 3), "writev"),
                    4 => (libc::sendmsg(fd, &message(&pieces), 0), "sendmsg"),
                    _ => {
                        let (first, rest) = pieces.split_at(1);
                        let mut messages = both(first, rest);
                        let count = libc::sendmmsg(fd, messages.as_mut_ptr(), 2, 0);
                        (sum(&messages, count), "sendmmsg")
                    }
                }
            };
            let count = well(result, name);
            self.sent += count as u64;
            bytes = &bytes[count..];
        }
    }

    /// Receives exactly so many bytes.
    pub fn receive(&mut self, into: &mut [u8]) {
        if self.style != Style::Zmq {
            self.receive_now(into, into.len());
            return;
        }
        let mut rest = into;
        while !rest.is_empty() {
            if self.read == self.into.len() {
                if rest.len() >= BATCH {
                    self.receive_now(rest, rest.len());
                    return;
                }
                let mut buffer = std::mem::take(&mut self.into);
                buffer.resize(BATCH, 0);
                let have = self.receive_now(&mut buffer, 1);
                buffer.truncate(have);
                (self.into, self.read) = (buffer, 0);
            }
            let kept = &self.into[self.read..];
            let count = kept.len().min(rest.len());
            rest[..count].copy_from_slice(&kept[..count]);
            self.read += count;
            rest = &mut rest[count..];
        }
    }

    /// Receives at least so many bytes; how many.
    fn receive_now(&mut self, into: &mut [u8], least: usize) -> usize {
        let mut have = 0;
        while have < least {
            let (pick, fd) = (self.next(), self.fd);
            let rest = &mut into[have..];
            let size = match self.style {
                Style::Zmq => rest.len(),
                Style::Plain(most) => rest.len().min(most),
                Style::Mixed(_) => rest.len().min(1 + (pick >> 8) as usize % (1 << (pick >> 4 & 15))),
            };
            let (at, half) = (rest.as_mut_ptr().cast::<c_void>(), size / 2);
            // SAFETY: within `rest`.
            let pieces = unsafe {
                [
                    iovec { iov_base: at, iov_len: half },
                    iovec { iov_base: std::ptr::null_mut(), iov_len: 0 },
                    iovec { iov_base: at.add(half), iov_len: size - half },
                ]
            };
            set_errno(MARK);
            // SAFETY: at least `size` bytes of room are there, and the pieces lie among them.
            let (result, name) = unsafe {
                match if matches!(self.style, Style::Mixed(_)) { pick % 7 } else { 0 } {
                    0 => (libc::recv(fd, at, size, 0), "recv"),
                    1 => (libc::recvfrom(fd, at, size, 0, std::ptr::null_mut(), std::ptr::null_mut()), "recvfrom"),
                    2 => (libc::read(fd, at, size), "read"),
                    3 => (libc::readv(fd, pieces.as_ptr(), 3), "readv"),
                    4 => (libc::recvmsg(fd, &mut message(&pieces), 0), "recvmsg"),
                    5 => {
                        // The first has room for one byte, so that what comes leaves no gap between the two.
                        let one = [iovec { iov_base: at, iov_len: 1 }];
                        let rest = [iovec { iov_base: at.add(1), iov_len: size - 1 }];
                        let mut messages = both(&one, &rest);
                        let (count, flags) = (if size > 1 { 2 } else { 1 }, libc::MSG_WAITFORONE);
                        let count = libc::recvmmsg(fd, messages.as_mut_ptr(), count, flags as _, std::ptr::null_mut());
                        (sum(&messages, count), "recvmmsg")
                    }
                    _ => {
                        // What is only looked at comes again.
                        libc::recv(fd, at, size, libc::MSG_PEEK);
                        set_errno(MARK);
                        (libc::recv(fd, at, size, libc::MSG_WAITALL), "recv")
                    }
                }
            };
            let count = well(result, name);
            self.received += count as u64;
            have += count;
        }
        have
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        set_errno(MARK);
        // SAFETY: our own descriptor.
        let result = unsafe { libc::close(self.fd) };
        assert_eq!((result, errno()), (0, MARK));
    }
}

fn message(pieces: &[iovec]) -> msghdr {
    // SAFETY: all zero bits are a message without anything.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    message
}

/// Two messages of these pieces.
fn both(first: &[iovec], second: &[iovec]) -> [libc::mmsghdr; 2] {
    [first, second].map(|pieces| libc::mmsghdr { msg_hdr: message(pieces), msg_len: 0 })
}

/// Bytes of so many of them, or what else the call returned.
fn sum(messages: &[libc::mmsghdr], count: c_int) -> isize {
    let Ok(count) = usize::try_from(count) else { return count as isize };
    messages[..count].iter().map(|message| message.msg_len as isize).sum()
}

fn address(port: u16) -> libc::sockaddr_in {
    let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    // SAFETY: all zero bits are an address without anything.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_port = at.port().to_be();
    address.sin_addr.s_addr = u32::from(*at.ip()).to_be();
    address
}

/// A TCP socket.
pub fn socket() -> RawFd {
    // SAFETY: no pointer is given.
    unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) }
}

/// `connect` to a port of this host; its result.
pub fn connect(fd: RawFd, port: u16) -> c_int {
    let address = address(port);
    set_errno(MARK);
    // SAFETY: an address of that size.
    unsafe { libc::connect(fd, (&raw const address).cast(), size_of::<libc::sockaddr_in>() as libc::socklen_t) }
}

/// `accept` or `accept4`.
pub fn accept(listener: RawFd, four: bool) -> RawFd {
    set_errno(MARK);
    let none = std::ptr::null_mut();
    // SAFETY: no place for an address is given.
    let fd = unsafe {
        if four {
            libc::accept4(listener, none, none.cast(), libc::SOCK_CLOEXEC)
        } else {
            libc::accept(listener, none, none.cast())
        }
    };
    assert!(fd >= 0 && errno() == MARK, "accept: {fd}, errno {}", errno());
    fd
}
