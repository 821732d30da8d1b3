//! Forwards the packets of a programmable switch between interfaces of this machine.
//!
//! Each interface is a port of one [`Switch`], by a packet socket ([`packet_socket`]). What comes in goes through the
//! pipeline and out of the port that it names, in the large pieces in which this kernel's own TCP sends; the kernel's queue
//! behind the port shapes and drops it. The kernel's routing must not forward in this network namespace.
//!
//! Plain packets need nothing that only the pipeline has: where the kernel can, a program there forwards them by the same
//! routes, and the pipeline gets the rest.
//!
//! The tables are a file of statements ([`sluice_pipeline::control`]) that is read again when it changed; registers and
//! what they hold stay. The slot is the clock's.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

mod entries;
#[doc(hidden)]
pub mod fuzz;
mod kernel;
pub mod packet_socket;
mod tables;
#[cfg(test)]
mod tests;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use sluice_pipeline::counters::PortCounters;
use sluice_pipeline::{PORTS, Reason, Switch, Verdict};
use sluice_schedule::{Nanos, Slot};

use entries::Entries;
use kernel::Kernel;
use packet_socket::{OFFLOAD, PacketSocket, Sent};
use tables::Tables;

/// The largest frame: what a packet of the largest size needs, its link header, and what the kernel says of it.
const FRAME: usize = OFFLOAD + 14 + 65_536;
/// Frames of one port before the next has its turn.
const BATCH: usize = 64;
/// How often counters are told.
const COUNT_EVERY: Nanos = Nanos::from_millis(250);

/// What a data plane is told at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The interfaces that are ports 0, 1, ….
    pub interfaces: Vec<String>,
    /// The file of statements.
    pub tables: PathBuf,
    /// The port of Sluice packets.
    pub udp_port: u16,
    /// Length of a slot.
    pub slot: Nanos,
    /// Drawn at each start; goes into the links' signatures, so that hosts see that the registers began anew.
    pub boot: u64,
    /// Plain packets are forwarded in the kernel; where it cannot, they are not, and the log says so.
    pub kernel: bool,
}

/// Why a data plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There are more interfaces than ports, or none.
    #[error("{0} interfaces; allowed are 1 to {PORTS}")]
    Ports(usize),
    /// An interface cannot be opened.
    #[error("interface {name}: {error}; it has to exist and be up, and CAP_NET_RAW and CAP_NET_ADMIN are needed")]
    Interface {
        /// Its name.
        name: String,
        /// What the kernel says.
        error: std::io::Error,
    },
    /// The tables cannot be read.
    #[error("{}: {}", path.display(), why)]
    Tables {
        /// Their file.
        path: PathBuf,
        /// What is wrong there.
        why: tables::Unreadable,
    },
}

pub use tables::Unreadable;

/// What a data plane has counted; filled four times a second.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counted>);

/// Everything that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// By port: its interface, what the pipeline counted there, and what its queue did not take.
    pub ports: Vec<Port>,
    /// Why frames went nowhere.
    pub drops: Vec<(Reason, u64)>,
    /// The kernel forwards plain packets.
    pub kernel: bool,
}

/// What was counted of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its interface.
    pub interface: String,
    /// What the pipeline counted, and the frames and bytes that the kernel forwarded.
    pub counters: PortCounters,
    /// Of the frames, those that the kernel forwarded.
    pub in_kernel: u64,
    /// Frames that its queue did not take.
    pub refused: u64,
    /// Frames that came faster than they were read.
    pub missed: u64,
}

impl Tally {
    /// The last state.
    pub fn read(&self) -> Counted {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, counted: Counted) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = counted;
    }
}

/// A switch and its ports.
pub struct DataPlane {
    ports: Vec<PortState>,
    switch: Switch,
    tables: Tables,
    /// What forwards plain packets, where the kernel can.
    kernel: Option<Kernel>,
    slot: Nanos,
    /// The slot that the guard has.
    guard: Option<u64>,
}

struct PortState {
    interface: String,
    socket: PacketSocket,
    refused: u64,
    missed: u64,
}

impl DataPlane {
    /// Opens the interfaces and reads the tables.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: &Settings) -> Result<DataPlane, OpenError> {
        let count = settings.interfaces.len();
        if count == 0 || count > usize::from(PORTS) {
            return Err(OpenError::Ports(count));
        }
        let open = |name: &String| {
            let socket =
                PacketSocket::open(name).map_err(|error| OpenError::Interface { name: name.clone(), error })?;
            Ok(PortState { interface: name.clone(), socket, refused: 0, missed: 0 })
        };
        let ports = settings.interfaces.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut plane = DataPlane {
            ports,
            switch: Switch::new(settings.udp_port),
            tables: Tables::new(&settings.tables, settings.boot),
            kernel: None,
            slot: settings.slot,
            guard: None,
        };
        let read = plane.tables.read_changed(&mut plane.switch);
        read.map_err(|why| OpenError::Tables { path: settings.tables.clone(), why })?;
        if settings.kernel {
            plane.kernel = in_kernel(settings);
            plane.take_over();
        }
        Ok(plane)
    }

    /// The file of statements.
    pub fn tables(&self) -> &Path {
        self.tables.path()
    }

    /// Forwards until `stop`; `wall` is the clock that slots are counted on, `each_slot` runs once in each.
    ///
    /// # Errors
    /// Only what polling says of itself; ports that fail are skipped and counted.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        tally: &Tally,
        wall: impl Fn() -> Nanos,
        mut each_slot: impl FnMut(),
    ) -> std::io::Result<()> {
        let mut buffer = vec![0; FRAME];
        let mut ready = Vec::with_capacity(self.ports.len());
        let mut counted = Nanos::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let now = wall();
            if self.begin_slot(now) {
                each_slot();
            }
            // To add up what each processor has counted in the kernel costs more than a slot's packets do.
            if now < counted || now.minus(counted) >= COUNT_EVERY {
                counted = now;
                tally.put(self.counted());
            }
            let left = self.slot.0 - now.0 % self.slot.0;
            self.wait(Nanos(left), &mut ready)?;
            for &port in &ready {
                self.drain(port, &mut buffer);
            }
        }
        tally.put(self.counted());
        Ok(())
    }

    /// The kernel forwards by the pipeline's routes from here on, or not at all.
    fn take_over(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        if let Err(error) = kernel.take_over(&Entries::of(self.switch.routes())) {
            tracing::warn!(
                event = "data-plane-kernel-off",
                %error,
                cost = "every packet goes through user space, which takes a processor",
                next = "nothing if other tables follow; else sluice-switch links prints tables that fit",
                "the kernel does not take these tables over, and forwards nothing until it takes others"
            );
        }
    }

    /// The guard follows the clock, and tables their file. False: the slot is the same.
    fn begin_slot(&mut self, now: Nanos) -> bool {
        let slot = now.0 / self.slot.0.max(1);
        if self.guard == Some(slot) {
            return false;
        }
        self.guard = Some(slot);
        self.switch.set_guard(Some(Slot(slot as u32)));
        if let Some(kernel) = &mut self.kernel {
            kernel.sweep();
        }
        match self.tables.read_changed(&mut self.switch) {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(event = "tables-read", path = %self.tables.path().display(), "took over the tables");
                self.take_over();
            }
            Err(why) => tracing::warn!(
                event = "tables-unreadable",
                path = %self.tables.path().display(),
                %why,
                cost = "what has changed since does not hold",
                next = "mend the file; it is read again as soon as it changes",
                "the last tables stay in force"
            ),
        }
        true
    }

    /// Which ports have something, at the latest after this time.
    fn wait(&self, most: Nanos, ready: &mut Vec<usize>) -> std::io::Result<()> {
        ready.clear();
        let mut polled: Vec<PollFd<'_>> =
            self.ports.iter().map(|port| PollFd::new(port.socket.as_fd(), PollFlags::POLLIN)).collect();
        let limit = TimeSpec::new(0, i64::try_from(most.0).unwrap_or(1_000_000).clamp(1, 999_999_999));
        match ppoll(&mut polled, Some(limit), None) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let any = |polled: &PollFd<'_>| polled.revents().is_some_and(|events| !events.is_empty());
        ready.extend(polled.iter().enumerate().filter(|(_, polled)| any(polled)).map(|(port, _)| port));
        Ok(())
    }

    fn drain(&mut self, port: usize, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            // An error is the interface's, that it is down: reading it takes it away.
            let Ok(Some(length)) = self.ports[port].socket.receive(buffer) else { return };
            let Some(frame) = buffer.get_mut(OFFLOAD..length) else { continue };
            let Verdict::Forward { port: out, answered } = self.switch.process(port as u16, frame) else { continue };
            if answered {
                // The datagram has no checksum any more that somebody would have to finish.
                buffer[..OFFLOAD].fill(0);
            }
            let Some(to) = self.ports.get_mut(usize::from(out)) else { continue };
            match to.socket.send(&buffer[..length]) {
                Sent::Taken => {}
                Sent::Refused => to.refused += 1,
            }
        }
    }

    fn counted(&mut self) -> Counted {
        let (pipeline, kernel) = (self.switch.counters(), self.kernel.as_ref());
        let port = |(at, port): (usize, &mut PortState)| {
            port.missed += port.socket.missed();
            let mut counters = pipeline.of_port(at as u16);
            let by_kernel = kernel.map(|kernel| kernel.count(at as u16)).unwrap_or_default();
            counters.frames += by_kernel.frames;
            counters.bytes += by_kernel.bytes;
            Port {
                interface: port.interface.clone(),
                counters,
                in_kernel: by_kernel.frames,
                refused: port.refused + by_kernel.refused,
                missed: port.missed,
            }
        };
        let ports = self.ports.iter_mut().enumerate().map(port).collect();
        let drops = Reason::ALL.map(|reason| (reason, pipeline.drops(reason))).to_vec();
        Counted { ports, drops, kernel: kernel.is_some_and(Kernel::forwards) }
    }
}

/// The kernel's part, attached to all ports; none where the kernel refuses.
fn in_kernel(settings: &Settings) -> Option<Kernel> {
    let opened = Kernel::open(settings.udp_port, &settings.interfaces).inspect_err(|error| {
        tracing::warn!(
            event = "data-plane-without-kernel",
            %error,
            cost = "every packet goes through user space, which takes a processor",
            next = "run on Linux 6.6 or later with CAP_BPF and CAP_NET_ADMIN, or write kernel = false",
            "the kernel forwards no packets"
        );
    });
    opened.ok()
}
