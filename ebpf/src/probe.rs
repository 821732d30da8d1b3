//! Proves at start, on a connection of this process over loopback, what everything rests on: that a socket can be
//! captured and given back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};
use sluice_schedule::{Nanos, Rate};

use crate::datapath::{Datapath, NotTaken, Row, Wanted};
use crate::kernel::Kernel;

/// How long the hand-over of the probe may take: it comes with the next acknowledgement on loopback.
const PATIENCE: Duration = Duration::from_millis(200);
/// The probe's order: neither rate nor life matter.
const RATE: Rate = Rate::mbps(1_000);
const LIFE: Nanos = Nanos::from_millis(1_000);

/// Why nothing was proven.
pub(crate) enum Failure {
    /// The probe could not be made.
    NotTried(String),
    /// The kernel does not do it.
    Refused(String),
}

/// Both ends of a connection.
struct Pair {
    near: TcpStream,
    far: TcpStream,
}

impl Pair {
    fn open() -> std::io::Result<Pair> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
        let (far, _) = listener.accept()?;
        far.set_read_timeout(Some(PATIENCE))?;
        Ok(Pair { near, far })
    }

    /// One byte there, and its acknowledgement back.
    fn talk(&mut self) -> std::io::Result<()> {
        self.near.write_all(&[1])?;
        self.far.read_exact(&mut [0])
    }

    fn wanted(&self) -> std::io::Result<Wanted> {
        let end = |address: SocketAddr| match address {
            SocketAddr::V4(v4) => std::net::SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
            SocketAddr::V6(v6) => v6,
        };
        Ok(Wanted {
            cookie: cookie(&self.near)?,
            local: end(self.near.local_addr()?),
            remote: end(self.near.peer_addr()?),
            pid: std::process::id(),
            rate: RATE,
            expires: sluice_clock::monotonic().plus(LIFE),
        })
    }

    fn control(&self) -> String {
        let name = getsockopt(&self.near, TcpCongestion).unwrap_or_default();
        name.to_string_lossy().trim_end_matches('\0').to_owned()
    }
}

/// The kernel's own name for a socket.
///
/// # Errors
/// The system's.
pub fn cookie(socket: &impl AsRawFd) -> std::io::Result<u64> {
    let (mut cookie, mut length) = (0_u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: SO_COOKIE writes at most `length` bytes to `cookie`; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(std::io::Error::last_os_error()) }
}

/// Puts a loopback connection of this process under the congestion control `name`, releases it, and waits until it is
/// under another one. Returns its new control.
///
/// # Errors
/// A sentence that says which step did not work; where loopback is down nothing is proven either way.
pub(crate) fn hand_over(kernel: &mut Kernel, name: &str) -> Result<String, Failure> {
    let (mut pair, row) = captured(kernel)?;
    if pair.control() != name {
        return Err(Failure::Refused(format!("a captured socket is under {}, not {name}", pair.control())));
    }
    kernel.release(row);
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        pair.talk().map_err(not_tried)?;
        let now = pair.control();
        if now != name {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Failure::Refused(format!("a socket released by {name} stays under it: this kernel refuses the change")))
}

/// Can a live socket be paced without the congestion control? Ends the pacing at once.
///
/// # Errors
/// As [`hand_over`].
pub(crate) fn pace(kernel: &mut Kernel) -> Result<(), Failure> {
    let (mut pair, row) = captured(kernel)?;
    kernel.release(row);
    pair.talk().map_err(not_tried)
}

fn captured(kernel: &mut Kernel) -> Result<(Pair, Row), Failure> {
    let pair = Pair::open().map_err(not_tried)?;
    let wanted = pair.wanted().map_err(not_tried)?;
    match kernel.capture(&[wanted]).first().map(|taking| taking.result) {
        Some(Ok(())) => {}
        Some(Err(NotTaken::TableFull)) => return Err(Failure::NotTried("no free row for the probe".into())),
        Some(Err(NotTaken::Late)) => {
            return Err(Failure::NotTried("the probe's order ran out before the kernel came to it".into()));
        }
        result => return Err(Failure::Refused(format!("a live socket cannot be captured: {result:?}"))),
    }
    let row = kernel.row_of(wanted.cookie);
    row.map(|row| (pair, row)).ok_or_else(|| Failure::Refused("a captured socket has no row".into()))
}

fn not_tried(error: std::io::Error) -> Failure {
    Failure::NotTried(format!("no loopback connection: {error}"))
}
