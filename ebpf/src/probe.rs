//! Proves at start that a socket can be given back: everything that makes Sluice harmless rests on that.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};

use crate::abi::{Ctl, Stat};
use crate::mapping::{Mapping, Owner};

/// How long the hand-over of the probe may take: it comes with the next acknowledgement on loopback.
const PATIENCE: Duration = Duration::from_millis(200);

/// Puts a loopback connection of this process under the congestion control `name`, releases it, and waits until it is
/// under another one. Returns its new control.
///
/// # Errors
/// A sentence that says which step did not work; where loopback is down nothing is proven either way.
pub(crate) fn hand_over(name: &str, ctl: &Mapping<Ctl>, stat: &Mapping<Stat>) -> Result<String, Failure> {
    let open = |error: std::io::Error| Failure::NotTried(format!("no loopback connection: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(open)?;
    let address = listener.local_addr().map_err(open)?;
    let mut near = TcpStream::connect_timeout(&address, PATIENCE).map_err(open)?;
    let (mut far, _) = listener.accept().map_err(open)?;
    far.set_read_timeout(Some(PATIENCE)).map_err(open)?;
    let port = near.local_addr().map_err(open)?.port();
    setsockopt(&near, TcpCongestion, &name.into())
        .map_err(|errno| Failure::Refused(format!("a socket cannot be put under {name}: {errno}")))?;
    let row = (0..stat.rows()).find_map(|index| {
        let Owner { generation, live } = stat.owner(index)?;
        let row = stat.read(index).filter(|_| live)?;
        (row.local_port == port && row.remote_port == address.port()).then_some((index, generation))
    });
    let Some((index, generation)) = row else {
        return Err(Failure::NotTried("no free row for the probe".into()));
    };
    ctl.order(index, generation, 0, sluice_clock::monotonic().0, true);
    let started = Instant::now();
    let mut byte = [0];
    while started.elapsed() < PATIENCE {
        near.write_all(&[1]).and_then(|()| far.read_exact(&mut byte)).map_err(open)?;
        let now = control(&near);
        if now != name {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Failure::Refused(format!("a socket released by {name} stays under it: this kernel refuses the change")))
}

/// Why nothing was proven.
pub(crate) enum Failure {
    /// The probe could not be made.
    NotTried(String),
    /// The kernel does not do it.
    Refused(String),
}

fn control(socket: &TcpStream) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap_or_default();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}
