//! Many plain connections from one host to another on a port that the daemon is told belongs to a job: sockets of this process,
//! so that a row can look at each of them and change it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{getsockopt, sockopt};

use super::inventory;
use crate::fabric::{FabricError, NetNs};
use crate::run::RunError;
use crate::sys;

/// The port that daemons are told of.
pub const PORT: u16 = 7_790;
/// What daemons are told.
pub const TOLD: &str = "[capture]\nports = [\"7790\"]\nthreshold_bytes = 0\n";
const WRITE: usize = 8 << 10;
const STACK: usize = 256 << 10;
const PAUSE: Duration = Duration::from_millis(1);
/// With more connections than this a pass over all of them is followed by so many times its length without one, up to ...
/// A thread that spins over thousands takes a processor, and what a row then measures is how daemons fare without one.
const MANY: usize = 256;
const REST: u32 = 4;
/// ... this long, in which no socket's buffer runs full or empty at an equal share of a link.
const LONGEST_REST: Duration = Duration::from_millis(100);
/// For all of them to be accepted.
const ACCEPTED: Duration = Duration::from_secs(10);

/// Connections that send all the time, in turns; dropping it closes them.
#[derive(Debug)]
pub struct Streams {
    /// The sending ends.
    pub sockets: Vec<TcpStream>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    taken: Arc<Taken>,
}

/// What the receiving end has so far.
#[derive(Debug, Default)]
struct Taken {
    connections: AtomicUsize,
    bytes: AtomicU64,
}

/// Lets this process have so many descriptors more than it has, if it may.
///
/// # Errors
/// The machine allows fewer.
pub fn allow_descriptors(more: u64) -> Result<(), RunError> {
    let wanted = inventory::descriptors(std::process::id()).unwrap_or(0) as u64 + more;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| RunError::io("reading a limit")(e.into()))?;
    if soft >= wanted {
        return Ok(());
    }
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted));
    raised.map_err(|e| RunError::io(format!("raising the limit of descriptors to {wanted}"))(e.into()))
}

impl Streams {
    /// Opens `count` connections from one namespace to an address of another, and sends on all of them.
    ///
    /// # Errors
    /// The port is taken, a connection is refused, or there is no thread to be had.
    pub fn open(from: &NetNs, to: &NetNs, address: Ipv4Addr, port: u16, count: usize) -> Result<Streams, RunError> {
        // Both ends of each, and the sending one twice.
        allow_descriptors(3 * count as u64 + 1024)?;
        let listener = to.run(move || TcpListener::bind((address, port)))?;
        let listener = listener.map_err(FabricError::io("listening for streams"))?;
        listener.set_nonblocking(true).map_err(FabricError::io("listening for streams"))?;
        let mut streams =
            Streams { sockets: Vec::new(), stop: Arc::default(), threads: Vec::new(), taken: Arc::default() };
        let (stop, taken) = (Arc::clone(&streams.stop), Arc::clone(&streams.taken));
        streams.threads.push(to.thread("stream-sink", move || sink(&listener, &stop, &taken))?);
        streams.add(from, SocketAddrV4::new(address, port), count)?;
        streams.accepted(count)?;
        let writers = streams.sockets.iter().map(TcpStream::try_clone).collect::<std::io::Result<Vec<_>>>();
        let writers = writers.map_err(RunError::io("copying a socket"))?;
        let stop = Arc::clone(&streams.stop);
        streams.threads.push(from.thread("stream-source", move || source(writers, &stop))?);
        Ok(streams)
    }

    fn add(&mut self, from: &NetNs, to: SocketAddrV4, count: usize) -> Result<(), RunError> {
        let opened = from.run(move || {
            let connect = |_| {
                let stream = TcpStream::connect_timeout(&to.into(), Duration::from_secs(5))?;
                stream.set_nonblocking(true)?;
                Ok(stream)
            };
            (0..count).map(connect).collect::<std::io::Result<Vec<_>>>()
        })?;
        self.sockets.extend(opened.map_err(RunError::io("opening a stream"))?);
        Ok(())
    }

    /// Waits until so many have been accepted: one that nobody reads from stands still, whoever paces it.
    ///
    /// # Errors
    /// They have not been within ten seconds.
    pub fn accepted(&self, count: usize) -> Result<(), RunError> {
        let end = Instant::now() + ACCEPTED;
        while self.taken.connections.load(Ordering::Relaxed) < count {
            if Instant::now() > end {
                let taken = self.taken.connections.load(Ordering::Relaxed);
                return Err(RunError::Plan(format!("{taken} of {count} streams were accepted within {ACCEPTED:?}")));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Bytes that have arrived on all of them.
    pub fn received(&self) -> u64 {
        self.taken.bytes.load(Ordering::Relaxed)
    }

    /// Bytes acknowledged on each.
    pub fn acked(&self) -> Vec<u64> {
        self.sockets.iter().map(|socket| sys::tcp_info(&socket.as_fd()).map_or(0, |info| info.acked)).collect()
    }

    /// How many a daemon paces now.
    pub fn managed(&self) -> usize {
        self.sockets.iter().filter(|socket| control(socket).starts_with("sluice")).count()
    }
}

/// A socket's congestion control; empty where it is none any more.
pub fn control(socket: &TcpStream) -> String {
    let name = getsockopt(socket, sockopt::TcpCongestion).unwrap_or_default();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for socket in &self.sockets {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Accepts and reads, all connections on one thread.
fn sink(listener: &TcpListener, stop: &AtomicBool, taken: &Taken) {
    let mut open: Vec<TcpStream> = Vec::new();
    let mut buffer = vec![0; STACK];
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        while let Ok((stream, _)) = listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                open.push(stream);
                taken.connections.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut moved = false;
        open.retain_mut(|stream| match stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(read) => {
                moved = true;
                taken.bytes.fetch_add(read as u64, Ordering::Relaxed);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        });
        rest(open.len(), moved, began);
    }
}

/// Writes to each in turn what it takes.
fn source(mut open: Vec<TcpStream>, stop: &AtomicBool) {
    let bytes = [7; WRITE];
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let mut moved = false;
        open.retain_mut(|stream| match stream.write(&bytes) {
            Ok(_) => {
                moved = true;
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        });
        rest(open.len(), moved, began);
    }
}

/// After a pass over so many connections that began then.
fn rest(connections: usize, moved: bool, began: Instant) {
    if connections > MANY {
        std::thread::sleep((began.elapsed() * REST).clamp(PAUSE, LONGEST_REST));
    } else if !moved {
        std::thread::sleep(PAUSE);
    }
}
