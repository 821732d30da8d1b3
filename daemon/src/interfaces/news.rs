//! The kernel says when a link, its state or an address changes, so that nobody has to look all the time.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};
use tokio::io::unix::AsyncFd;

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR of linux/rtnetlink.h.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// What came is thrown away: whoever hears of it looks at all of them.
const PIECE: usize = 8192;
/// Messages that one look throws away at most; a flood is read on at the next.
const PIECES: usize = 256;

/// News of the network namespace of the thread that made it.
#[derive(Debug)]
pub struct News {
    socket: AsyncFd<OwnedFd>,
}

impl News {
    /// Listens from now on, on the runtime of the caller.
    ///
    /// # Errors
    /// The kernel's refusal, or the runtime's.
    pub fn listen() -> io::Result<News> {
        Ok(News { socket: crate::sys::wait_for(open()?)? })
    }

    /// Waits until there are any, and takes them away.
    pub async fn come(&self) {
        match self.socket.readable().await {
            Ok(mut ready) => {
                // Cleared first: what comes while it is read is news again.
                ready.clear_ready();
                drain(self.socket.get_ref());
            }
            // A runtime that ends.
            Err(_) => std::future::pending().await,
        }
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
    Ok(fd)
}

fn drain(socket: &impl AsFd) {
    let mut piece = [0; PIECE];
    for _ in 0..PIECES {
        match recv(socket.as_fd().as_raw_fd(), &mut piece, MsgFlags::MSG_DONTWAIT) {
            // More came than there was room for, which is as good as having read it.
            Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sched::{CloneFlags, unshare};
    use sluice_skip::skip;

    use super::*;

    fn told(socket: &OwnedFd, within: Duration) -> bool {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::try_from(within).expect("short")).expect("polled") == 1
    }

    /// Promises: P-31
    #[test]
    fn a_link_that_comes_up_and_an_address_that_is_given_are_told_at_once() {
        if !nix::unistd::geteuid().is_root() {
            return skip!(Privilege, "a network namespace needs root");
        }
        // This thread's own, and that of the programs it starts.
        unshare(CloneFlags::CLONE_NEWNET).expect("a namespace");
        let socket = open().expect("listening");
        assert!(!told(&socket, Duration::from_millis(50)), "nothing happened");
        for words in [["link", "set", "lo", "up", ""], ["address", "add", "10.9.8.7/32", "dev", "lo"]] {
            let words = words.iter().filter(|word| !word.is_empty());
            assert!(std::process::Command::new("ip").args(words).status().expect("iproute2").success());
            assert!(told(&socket, Duration::from_secs(5)), "nobody told");
            drain(&socket);
            assert!(!told(&socket, Duration::from_millis(50)), "it was read");
        }
    }
}
