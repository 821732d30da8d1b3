//! The few system calls that have no safe wrapper. The only file of this crate that may hold `unsafe`.
//!
//! Everything here is called by `fabric` and `job`; nothing here decides anything.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

/// Makes the child of `command` die with the thread that spawns it, and puts it into the cgroup whose `cgroup.procs`
/// is open for writing as `procs`, before it runs anything of its own.
///
/// The spawning thread has to outlive the child: a thread that ends takes its children along.
pub fn die_with_parent(command: &mut Command, procs: Option<OwnedFd>) {
    let setup = move || {
        // SAFETY: prctl with PR_SET_PDEATHSIG takes one integer and touches no memory of ours.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if let Some(procs) = &procs {
            // SAFETY: the buffer is a static two-byte string, the descriptor is owned by this closure.
            if unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(setup) };
}

/// What `TCP_INFO` says about a connection that sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Bytes written and not sent.
    pub not_sent: u32,
    /// Segments retransmitted since the connection began.
    pub retransmits: u32,
    /// Payload bytes acknowledged since the connection began.
    pub acked: u64,
    /// Least round-trip time, µs.
    pub min_rtt_us: u32,
}

/// Reads `TCP_INFO`; fields this kernel does not know are 0.
///
/// # Errors
/// When `socket` is not a TCP socket.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = [0_u8; 256];
    let mut len = raw.len() as libc::socklen_t;
    // SAFETY: buffer and length belong together and live through the call; the kernel writes at most `len` bytes.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // Offsets of struct tcp_info, include/uapi/linux/tcp.h; the structure only ever grows at its end.
    let u32_at = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    Ok(TcpInfo {
        unacked: u32_at(24),
        not_sent: u32_at(144),
        retransmits: u32_at(100),
        acked: u64_at(120),
        min_rtt_us: u32_at(148),
    })
}

sockopt_impl!(
    /// The kernel's cookie of a socket, the same number that BPF programs see.
    SocketCookie,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_COOKIE,
    u64
);

sockopt_impl!(
    /// The most that the kernel paces a socket at, bytes/s, as its owner wishes.
    MaxPacing,
    Both,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64
);
