//! By which interface the kernel sends from one address to another: its routing table with its rules, so that source
//! routing counts. Needs no privilege; the answer is of the network namespace of this process.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// RTM_NEWROUTE, RTM_GETROUTE, NLM_F_REQUEST, RTA_DST, RTA_SRC, RTA_OIF.
const NEWROUTE: u16 = 24;
const GETROUTE: u16 = 26;
const REQUEST: u16 = 1;
const DST: u16 = 1;
const SRC: u16 = 2;
const OIF: u16 = 4;
/// `struct nlmsghdr` and `struct rtmsg`.
const HEADER: usize = 16;
const RTMSG: usize = 12;

/// The name of the interface; `None` where the kernel has no route, or says nothing.
pub fn interface(local: IpAddr, remote: IpAddr) -> Option<String> {
    let index = ask(&request(local.to_canonical(), remote.to_canonical())?)?;
    nix::net::if_::if_indextoname(index).ok()?.into_string().ok()
}

/// Asks the kernel; `None` on any failure.
fn ask(request: &[u8]) -> Option<u32> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute).ok()?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(100)).ok()?;
    sendto(fd.as_raw_fd(), request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
    let mut answer = vec![0_u8; 4096];
    let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
    outgoing(answer.get(..length)?)
}

/// The request for one pair of addresses; `None` for two of different families.
fn request(local: IpAddr, remote: IpAddr) -> Option<Vec<u8>> {
    let (family, bits, local, remote) = match (local, remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            (libc::AF_INET, 32, local.octets().to_vec(), remote.octets().to_vec())
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            (libc::AF_INET6, 128, local.octets().to_vec(), remote.octets().to_vec())
        }
        _ => return None,
    };
    let mut message = vec![0_u8; HEADER + RTMSG];
    // rtm_family, rtm_dst_len, rtm_src_len.
    message[HEADER..HEADER + 3].copy_from_slice(&[family as u8, bits, bits]);
    for (kind, address) in [(DST, remote), (SRC, local)] {
        message.extend_from_slice(&(4 + address.len() as u16).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&address);
    }
    let length = u32::try_from(message.len()).ok()?;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    Some(message)
}

/// The index of the outgoing interface in an answer.
fn outgoing(answer: &[u8]) -> Option<u32> {
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn what_stays_here_leaves_by_loopback() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(interface(local, local).as_deref(), Some("lo"));
        assert_eq!(interface(IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()), local).as_deref(), Some("lo"));
        assert_eq!(interface(local, IpAddr::V6(Ipv6Addr::LOCALHOST)), None, "two families");
    }

    proptest! {
        #[test]
        fn no_answer_hurts(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
            let mut bytes = bytes;
            if head && bytes.len() >= HEADER {
                let length = bytes.len() as u32;
                bytes[0..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&NEWROUTE.to_ne_bytes());
            }
            let _ = outgoing(&bytes);
        }
    }
}
