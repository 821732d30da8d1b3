//! One socket, as the kernel describes it: which connection it is, and who opened it. Nothing here allocates.

use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{c_int, socklen_t};

use crate::view::{Peer, PeerKind};

/// The cookie of a TCP socket; `None` for any other descriptor.
pub fn tcp_cookie(fd: c_int) -> Option<u64> {
    let domain: c_int = option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
    let protocol: c_int = option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
    let tcp = (domain == libc::AF_INET || domain == libc::AF_INET6) && protocol == libc::IPPROTO_TCP;
    let cookie = if tcp { option::<u64>(fd, libc::SOL_SOCKET, libc::SO_COOKIE)? } else { 0 };
    (cookie != 0).then_some(cookie)
}

/// Both ends of a connection; `None` for a socket that is not connected.
pub fn peer_of(fd: c_int, cookie: u64) -> Option<Peer> {
    let remote = address(|at, size| {
        // SAFETY: `at` has room for `size` bytes.
        unsafe { libc::getpeername(fd, at, size) }
    })?;
    let local = address(|at, size| {
        // SAFETY: as above.
        unsafe { libc::getsockname(fd, at, size) }
    })?;
    Some(Peer { rank: None, kind: kind_of(fd), local, remote, cookie, tx_bytes: 0 })
}

/// `struct tcp_info` of linux/tcp.h as far as it is read.
#[repr(C)]
#[derive(Clone, Copy)]
struct TcpInfo {
    before: [u8; 24],
    unacked: u32,
    between: [u8; 92],
    bytes_acked: u64,
    bytes_received: u64,
    after: [u8; 64],
    bytes_sent: u64,
    bytes_retrans: u64,
}

/// Who opened the connection. The kernel counts the SYN of the end that did among its acknowledged bytes, so that they
/// are one more than were sent; this shows while nothing is on its way. Otherwise the end that sends more is taken: with
/// NCCL that is the one that connected.
pub fn kind_of(fd: c_int) -> PeerKind {
    let Some(info) = option::<TcpInfo>(fd, libc::IPPROTO_TCP, libc::TCP_INFO) else { return PeerKind::Unknown };
    let sent = info.bytes_sent.wrapping_sub(info.bytes_retrans);
    let connected = match (info.unacked, info.bytes_acked.wrapping_sub(sent)) {
        (0, 0) => false,
        (0, 1) => true,
        _ => info.bytes_acked.max(sent) > info.bytes_received,
    };
    if connected { PeerKind::Connected } else { PeerKind::Accepted }
}

/// A socket option of exactly this size or more.
fn option<T: Copy>(fd: c_int, level: c_int, name: c_int) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut size = size_of::<T>() as socklen_t;
    // SAFETY: `value` has room for `size` bytes.
    let result = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut size) };
    // SAFETY: only integers are read, for which all bits are values; a short answer is refused.
    (result == 0 && size as usize >= size_of::<T>()).then(|| unsafe { value.assume_init() })
}

fn address(read: impl FnOnce(*mut libc::sockaddr, *mut socklen_t) -> c_int) -> Option<SocketAddr> {
    // SAFETY: all-zero bytes are a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::sockaddr_storage>() as socklen_t;
    if read((&raw mut storage).cast(), &mut size) != 0 {
        return None;
    }
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which struct the kernel wrote; storage is large enough for it.
            let v4 = unsafe { (&raw const storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { (&raw const storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
            Some(SocketAddr::new(ip, u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_struct_is_the_kernels() {
        assert_eq!(offset_of!(TcpInfo, unacked), offset_of!(libc::tcp_info, tcpi_unacked));
        assert_eq!((offset_of!(TcpInfo, bytes_acked), offset_of!(TcpInfo, bytes_sent)), (120, 200));
    }
}
