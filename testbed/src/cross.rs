//! Cross traffic: flows of ordinary TCP that no daemon captures, from threads of this process.
//!
//! Each flow is one connection that sends as fast as TCP lets it (or at a given rate) from its start to its end. When
//! flows start and where they go is drawn by the scenario; here they are only carried out.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;
use sluice_scenario::{CrossFlow, NodeIx};

use crate::fabric::{Fabric, FabricError};

/// Where every host's sink listens.
const SINK: u16 = 19_999;
const WRITE: usize = 65_536;

/// Cross traffic under way; dropping it stops it.
#[derive(Debug)]
pub struct Cross {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Payload bytes that sinks have read.
    received: Arc<AtomicU64>,
}

impl Cross {
    /// Starts sinks on all hosts and the flows; `begin` is the start of the run, `tcp` the congestion control.
    ///
    /// # Errors
    /// When a thread or a sink cannot be started.
    pub fn start(fabric: &Fabric, flows: &[CrossFlow], tcp: &str, begin: Instant) -> Result<Cross, FabricError> {
        let mut cross = Cross { stop: Arc::default(), threads: Vec::new(), received: Arc::default() };
        if flows.is_empty() {
            return Ok(cross);
        }
        for host in &fabric.hosts {
            let (stop, received) = (Arc::clone(&cross.stop), Arc::clone(&cross.received));
            let listener = host.ns.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, SINK)))?;
            let listener = listener.map_err(FabricError::io("listening for cross traffic"))?;
            listener.set_nonblocking(true).map_err(FabricError::io("listening for cross traffic"))?;
            cross.threads.push(host.ns.thread("cross-sink", move || sink(&listener, &stop, &received))?);
        }
        let mut by_host: Vec<Vec<(CrossFlow, Ipv4Addr)>> = vec![Vec::new(); fabric.hosts.len()];
        for flow in flows {
            let absent = |host: NodeIx| move || FabricError::Spec(format!("no host {}", host.0));
            let to = fabric.hosts.get(flow.dst.0).ok_or_else(absent(flow.dst))?;
            by_host.get_mut(flow.src.0).ok_or_else(absent(flow.src))?.push((flow.clone(), to.address));
        }
        for (host, mut flows) in fabric.hosts.iter().zip(by_host) {
            flows.sort_by_key(|(f, _)| f.start);
            let (stop, tcp) = (Arc::clone(&cross.stop), tcp.to_owned());
            let body = move || source(flows, &tcp, begin, &stop);
            cross.threads.push(host.ns.thread("cross-source", body)?);
        }
        Ok(cross)
    }

    /// Payload bytes that have arrived so far: what senders have only written may never arrive.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// No flow goes on; whoever drops this waits for their ends.
    pub fn halt(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Cross {
    fn drop(&mut self) {
        self.halt();
        for thread in self.threads.drain(..) {
            // A panicked generator has said so on standard error.
            drop(thread.join());
        }
    }
}

/// Accepts and discards; every connection is drained by a thread of its own, which ends with the connection.
fn sink(listener: &TcpListener, stop: &Arc<AtomicBool>, received: &Arc<AtomicU64>) {
    let mut drains = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((socket, _)) => {
                let (stop, received) = (Arc::clone(stop), Arc::clone(received));
                let drain = move || drain(socket, &stop, &received);
                drains.extend(std::thread::Builder::new().stack_size(256 << 10).spawn(drain));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
        drains.retain(|d| !d.is_finished());
    }
    for drain in drains {
        drop(drain.join());
    }
}

fn drain(mut socket: TcpStream, stop: &AtomicBool, received: &AtomicU64) {
    let mut buffer = vec![0_u8; 4 * WRITE];
    let ready = socket.set_nonblocking(false).and_then(|()| socket.set_read_timeout(Some(Duration::from_millis(200))));
    while ready.is_ok() && !stop.load(Ordering::Relaxed) {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => drop(received.fetch_add(n as u64, Ordering::Relaxed)),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
}

/// One host's flows: a thread each while it lasts.
fn source(flows: Vec<(CrossFlow, Ipv4Addr)>, tcp: &str, begin: Instant, stop: &AtomicBool) {
    std::thread::scope(|scope| {
        for (flow, to) in flows {
            let at = begin + Duration::from_nanos(flow.start.0);
            while Instant::now() < at {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep((at - Instant::now()).min(Duration::from_millis(50)));
            }
            let body = move || {
                let sent = send(&flow, to, tcp, begin, stop);
                // At the end of a run the sinks go first.
                if let (Err(e), false) = (sent, stop.load(Ordering::Relaxed)) {
                    tracing::warn!("cross traffic from host {} to {to}: {e}", flow.src.0);
                }
            };
            if let Err(e) = std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, body) {
                tracing::warn!("cross traffic: {e}");
            }
        }
    });
}

fn send(flow: &CrossFlow, to: Ipv4Addr, tcp: &str, begin: Instant, stop: &AtomicBool) -> std::io::Result<()> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(tcp))?;
    // Bounds connecting and each write, so that the end and a stop are seen.
    setsockopt(&fd, sockopt::SendTimeout, &TimeVal::new(0, 100_000))?;
    connect(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(to, SINK)))?;
    let mut socket = TcpStream::from(fd);
    let data = vec![0x5a_u8; WRITE];
    let end = begin + Duration::from_nanos(flow.end.0);
    let first = Instant::now();
    let mut sent = 0_u64;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        if let Some(rate) = flow.rate {
            let due = first + Duration::from_nanos(sluice_schedule::Bytes(sent).at(rate).0);
            let now = Instant::now();
            if due > now {
                std::thread::sleep((due - now).min(Duration::from_millis(20)));
                continue;
            }
        }
        match socket.write(&data) {
            Ok(n) => sent += n as u64,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    // What is still queued would go on after the end: reset instead of closing.
    setsockopt(&socket, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 })?;
    Ok(())
}
