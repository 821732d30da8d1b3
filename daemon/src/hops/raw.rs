//! The sockets that probes leave by and answers come by, in the network namespace of the thread that opens them. They need
//! CAP_NET_RAW.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendmsg, setsockopt,
    socket, sockopt,
};

use super::Outside;

/// Bytes of answers that may wait.
const WAITING: usize = 64 << 10;

/// Both sockets.
#[derive(Debug)]
pub struct Raw {
    out: OwnedFd,
    back: OwnedFd,
}

impl Raw {
    /// Opens them.
    ///
    /// # Errors
    /// The system's: EPERM without CAP_NET_RAW.
    pub fn open() -> io::Result<Raw> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let out = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Raw)?;
        let back = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp)?;
        crate::sys::only_time_exceeded(&back)?;
        setsockopt(&back, sockopt::RcvBuf, &WAITING)?;
        Ok(Raw { out, back })
    }
}

impl Outside for Raw {
    fn send(&self, from: Ipv4Addr, to: Ipv4Addr, packet: &[u8]) -> io::Result<()> {
        // With its source, so that rules by source lead it where they lead the connection.
        let source = libc::in_addr { s_addr: u32::from(from).to_be() };
        let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: source };
        let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
        let control = [ControlMessage::Ipv4PacketInfo(&info)];
        sendmsg(self.out.as_raw_fd(), &[io::IoSlice::new(packet)], &control, MsgFlags::empty(), Some(&to))?;
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        recv(self.back.as_raw_fd(), buffer, MsgFlags::empty()).ok()
    }
}
