//! A relay for TCP connections between a daemon and its switch that can be slow, mute or miserly: what a switch in trouble
//! looks like from outside, with the switch itself untouched.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::fabric::{FabricError, NetNs};
use crate::run::RunError;

/// How the way back from the switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    /// As it is.
    Open = 0,
    /// What the switch says comes so much later, as [`Proxy::delay`] says.
    Late = 1,
    /// What the host says is not read.
    Unread = 2,
    /// The switch's answers come at a byte a second.
    Trickle = 3,
}

const LOOK: Duration = Duration::from_millis(5);
const BUFFER: usize = 16 << 10;

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    way: AtomicU8,
    delay_ms: AtomicU64,
    /// Connections that were made since the start.
    accepted: AtomicU64,
}

/// A relay that listens in a namespace; dropping it ends it and its connections.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Where hosts connect.
    pub address: SocketAddrV4,
}

impl Proxy {
    /// Listens on a port of `address` in `ns`, and passes on to `to`.
    ///
    /// # Errors
    /// The port is taken, or there is no thread to be had.
    pub fn start(ns: &NetNs, address: Ipv4Addr, to: SocketAddrV4) -> Result<Proxy, RunError> {
        let listener = ns.run(move || TcpListener::bind((address, 0)))?;
        let listener = listener.map_err(FabricError::io("listening for a relay"))?;
        listener.set_nonblocking(true).map_err(FabricError::io("listening for a relay"))?;
        let port = listener.local_addr().map_err(FabricError::io("listening for a relay"))?.port();
        let shared = Arc::new(Shared::default());
        let with = Arc::clone(&shared);
        let thread = ns.thread("relay", move || accept(&listener, to, &with))?;
        Ok(Proxy { shared, thread: Some(thread), address: SocketAddrV4::new(address, port) })
    }

    /// From now on, also for connections that are there.
    pub fn set(&self, way: Way) {
        self.shared.way.store(way as u8, Ordering::Relaxed);
    }

    /// Answers come later by so much.
    pub fn delay(&self, delay: Duration) {
        self.shared.delay_ms.store(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.set(Way::Late);
    }

    /// Connections that were made since the start.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within a moment of being told.
            drop(thread.join());
        }
    }
}

fn accept(listener: &TcpListener, to: SocketAddrV4, shared: &Arc<Shared>) {
    let mut relays: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((host, _)) => {
                shared.accepted.fetch_add(1, Ordering::Relaxed);
                let Ok(switch) = TcpStream::connect_timeout(&to.into(), Duration::from_secs(1)) else { continue };
                for (from, into, answers) in [(&host, &switch, false), (&switch, &host, true)] {
                    let (Ok(from), Ok(into)) = (from.try_clone(), into.try_clone()) else { continue };
                    let shared = Arc::clone(shared);
                    // Threads begin in the namespace of the one that starts them.
                    relays.push(std::thread::spawn(move || pass(from, into, answers, &shared)));
                }
                relays.retain(|relay| !relay.is_finished());
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
    for relay in relays {
        drop(relay.join());
    }
}

/// Passes on one direction until either end is closed.
fn pass(mut from: TcpStream, mut into: TcpStream, answers: bool, shared: &Shared) {
    let ready = from.set_read_timeout(Some(LOOK)).and_then(|()| into.set_nodelay(true));
    if ready.is_ok() {
        // An error is an end, of whichever side.
        let _ = pass_on(&mut from, &mut into, answers, shared);
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = into.shutdown(Shutdown::Both);
}

fn pass_on(from: &mut TcpStream, into: &mut TcpStream, answers: bool, shared: &Shared) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    // What is due when.
    let mut held: std::collections::VecDeque<(Instant, Vec<u8>)> = std::collections::VecDeque::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let way = shared.way.load(Ordering::Relaxed);
        if way == Way::Unread as u8 && !answers {
            std::thread::sleep(LOOK);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                let late = answers && way == Way::Late as u8;
                let delay =
                    if late { Duration::from_millis(shared.delay_ms.load(Ordering::Relaxed)) } else { Duration::ZERO };
                held.push_back((Instant::now() + delay, buffer[..read].to_vec()));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        while held.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            let Some((_, bytes)) = held.pop_front() else { break };
            if answers && way == Way::Trickle as u8 {
                for (at, byte) in bytes.iter().enumerate() {
                    if shared.stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    if shared.way.load(Ordering::Relaxed) != way {
                        into.write_all(bytes.get(at..).unwrap_or_default())?;
                        break;
                    }
                    into.write_all(&[*byte])?;
                    wait_a_second(shared, way);
                }
            } else {
                into.write_all(&bytes)?;
            }
        }
    }
    Ok(())
}

fn wait_a_second(shared: &Shared, way: u8) {
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end && !shared.stop.load(Ordering::Relaxed) && shared.way.load(Ordering::Relaxed) == way {
        std::thread::sleep(LOOK);
    }
}
