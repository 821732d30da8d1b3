//! By which interface the kernel sends packets: its routing table with its rules, and its choice among equal routes, asked
//! by netlink. Needs no privilege; the answer is of the network namespace of the thread that made the [`Kernel`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// RTM_NEWROUTE, RTM_GETROUTE, NLM_F_REQUEST.
const NEWROUTE: u16 = 24;
const GETROUTE: u16 = 26;
const REQUEST: u16 = 1;
/// RTA_DST, RTA_SRC, RTA_IIF, RTA_OIF, RTA_IP_PROTO, RTA_SPORT, RTA_DPORT.
const DST: u16 = 1;
const SRC: u16 = 2;
const IIF: u16 = 3;
const OIF: u16 = 4;
const IP_PROTO: u16 = 27;
const SPORT: u16 = 28;
const DPORT: u16 = 29;
/// `struct nlmsghdr` and `struct rtmsg`.
const HEADER: usize = 16;
const RTMSG: usize = 12;
/// Answers of earlier questions, which came too late, that are passed over.
const LATE: usize = 4;

/// What a packet that is forwarded shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Address and port of the sender.
    pub source: (IpAddr, u16),
    /// Address and port of the receiver.
    pub destination: (IpAddr, u16),
    /// The number of the protocol over IP; 6 is TCP.
    pub protocol: u8,
}

/// A connection to the kernel's routing table.
#[derive(Debug)]
pub struct Kernel {
    fd: OwnedFd,
    sequence: u32,
}

/// The name of the interface by which this machine sends from one address to another; `None` where the kernel has no
/// route, or says nothing.
pub fn interface(local: IpAddr, remote: IpAddr) -> Option<String> {
    let index = Kernel::open().ok()?.own(local.to_canonical(), remote.to_canonical())?;
    nix::net::if_::if_indextoname(index).ok()?.into_string().ok()
}

impl Kernel {
    /// A connection of this thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no more sockets to give.
    pub fn open() -> std::io::Result<Kernel> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(100))?;
        Ok(Kernel { fd, sequence: 0 })
    }

    /// The index of the interface by which what this machine sends leaves it.
    pub fn own(&mut self, local: IpAddr, remote: IpAddr) -> Option<u32> {
        self.ask(request(local, remote, &[])?)
    }

    /// The index of the interface by which it forwards a packet. It says so as it would of the packet itself, if that
    /// brings no hash along: it takes the packet to come by the interface that leads back to its source. Only of IPv4,
    /// since for IPv6 the kernel answers by another hash than it forwards by.
    pub fn forwards(&mut self, packet: &Forwarded) -> Option<u32> {
        let Forwarded { source: (source, sport), destination: (destination, dport), protocol } = *packet;
        let (source, destination) = (source.to_canonical(), destination.to_canonical());
        if !source.is_ipv4() {
            return None;
        }
        let back = self.ask(request_to(source)?)?;
        let attributes = [
            (IIF, back.to_ne_bytes().to_vec()),
            (IP_PROTO, vec![protocol]),
            (SPORT, sport.to_be_bytes().to_vec()),
            (DPORT, dport.to_be_bytes().to_vec()),
        ];
        self.ask(request(source, destination, &attributes)?)
    }

    /// Asks the kernel; `None` on any failure.
    fn ask(&mut self, mut request: Vec<u8>) -> Option<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        request.get_mut(8..12)?.copy_from_slice(&self.sequence.to_ne_bytes());
        sendto(self.fd.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
        let mut answer = [0_u8; 4096];
        for _ in 0..=LATE {
            let length = recv(self.fd.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
            let answer = answer.get(..length)?;
            if answer.get(8..12)? == self.sequence.to_ne_bytes() {
                return outgoing(answer);
            }
        }
        None
    }
}

/// An attribute as it stands in a message, padded.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The request for one pair of addresses; `None` for two of different families.
fn request(local: IpAddr, remote: IpAddr, more: &[(u16, Vec<u8>)]) -> Option<Vec<u8>> {
    let (source, destination) = (octets(local), octets(remote));
    (source.len() == destination.len()).then(|| message(&source, &destination, more))
}

/// The request for what this machine itself sends to an address.
fn request_to(remote: IpAddr) -> Option<Vec<u8>> {
    Some(message(&[], &octets(remote), &[]))
}

#[allow(clippy::indexing_slicing, reason = "constant offsets of what was made with that length")]
fn message(source: &[u8], destination: &[u8], more: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let family = if destination.len() == 4 { libc::AF_INET } else { libc::AF_INET6 };
    let mut message = vec![0_u8; HEADER + RTMSG];
    // rtm_family, rtm_dst_len, rtm_src_len.
    message[HEADER..HEADER + 3].copy_from_slice(&[family as u8, 8 * destination.len() as u8, 8 * source.len() as u8]);
    message.extend(attribute(DST, destination));
    if !source.is_empty() {
        message.extend(attribute(SRC, source));
    }
    more.iter().for_each(|(kind, value)| message.extend(attribute(*kind, value)));
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    message
}

/// The index of the outgoing interface in an answer of the kernel.
#[doc(hidden)]
pub fn outgoing(answer: &[u8]) -> Option<u32> {
    let short = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let length = u32::from_ne_bytes(answer.get(0..4)?.try_into().ok()?) as usize;
    if short(4)? != NEWROUTE || length > answer.len() {
        return None;
    }
    let mut at = HEADER + RTMSG;
    while at + 4 <= length {
        let (size, kind) = (usize::from(short(at)?), short(at + 2)?);
        if size < 4 {
            return None;
        }
        if kind == OIF && size == 8 {
            return Some(u32::from_ne_bytes(answer.get(at + 4..at + 8)?.try_into().ok()?));
        }
        at += size.next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests;
