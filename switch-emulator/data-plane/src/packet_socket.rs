//! A packet socket at one interface: frames of IPv4 as they come, and as they leave.
//!
//! With each frame goes what the kernel says of it (ten bytes, `virtio_net_hdr`): that it is many segments in one, and that
//! a checksum is still to be made. Handed on with it, both are done by whoever has to, or by nobody, between namespaces.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes before each frame.
pub const OFFLOAD: usize = 10;
/// Of a socket that reads; what does not fit is lost and counted.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// Of a socket that writes: more than any queue behind it, so that the queue drops and not the socket.
const SEND_BUFFER: libc::c_int = 64 << 20;

/// One interface.
pub struct PacketSocket(OwnedFd);

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The interface's queue has it.
    Taken,
    /// It is full, the interface is down, or the frame is too large for it.
    Refused,
}

impl PacketSocket {
    /// Opens the interface of this name.
    ///
    /// # Errors
    /// It does not exist, or this process may not.
    pub fn open(interface: &str) -> io::Result<PacketSocket> {
        let name = CString::new(interface).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: a valid C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let protocol = (libc::ETH_P_IP as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // No protocol yet: a socket that is not bound would hear all interfaces.
        // SAFETY: no pointers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has.
        let socket = PacketSocket(unsafe { OwnedFd::from_raw_fd(socket) });
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER)?;
        // SAFETY: all zeros is a valid value of this plain struct.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        // SAFETY: the address outlives the call, and its length is its own.
        let bound = unsafe {
            libc::bind(socket.0.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
        };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = size_of::<libc::c_int>() as u32;
        // SAFETY: the value outlives the call, and its length is its own.
        let set = unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, (&raw const value).cast(), length) };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next frame, behind its [`OFFLOAD`] bytes; `None`: there is none.
    ///
    /// # Errors
    /// What the interface says, once; that it is down.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: the kernel writes at most the buffer's length.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match usize::try_from(got) {
            Ok(length) => Ok(Some(length)),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Puts a frame, behind its [`OFFLOAD`] bytes, into the interface's queue.
    pub fn send(&self, frame: &[u8]) -> Sent {
        // SAFETY: the kernel reads at most the frame's length.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        if sent < 0 { Sent::Refused } else { Sent::Taken }
    }

    /// Frames that came since the last call and found no room.
    pub fn missed(&self) -> u64 {
        let mut counted = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the kernel writes at most the struct's length.
        let read = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counted).cast(),
                &raw mut length,
            )
        };
        if read < 0 { 0 } else { counted.tp_drops.into() }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
