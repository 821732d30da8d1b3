//! A P4Runtime server in front of the twin: what a switch that runs the program would be to its controllers.
//!
//! Entries change what [`sluice_pipeline::Switch`] does to frames, and counters and loads are read out of it. It takes
//! what the program allows and [`crate::encode`] understands, within [`limits`]; everything else is refused with a code
//! of gRPC and a sentence that names the field, its value and what is allowed. Refusals are counted.
//!
//! | file | is |
//! | --- | --- |
//! | `arbiter.rs` | who is primary |
//! | `device.rs` | the switch: its program, its tables, the twin |
//! | `read.rs` | what is told of it |
//! | `service.rs` | the calls |
//! | `streams.rs` | the streams: arbitration, and packets of the processor |

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_pipeline::{Switch, UDP_PORT, Verdict};
use sluice_schedule::Slot;
use sluice_wire::accept::{self, Places};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::limits;
use crate::mock::arbiter::Arbiter;
use crate::mock::device::Device;
use crate::mock::streams::Streams;
use crate::pb::p4::v1::p4_runtime_server::P4RuntimeServer;

mod arbiter;
mod device;
mod fault;
mod read;
mod service;
mod streams;

/// What reading a register does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registers {
    /// It is refused with `UNIMPLEMENTED`, as servers do that are built on the open library.
    #[default]
    Unimplemented,
    /// Cells of lanes are read as a packet of the present slot would read them.
    Twin,
}

/// What the server is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number of its one device.
    pub device: u64,
    /// Where the twin's Sluice packets come.
    pub udp_port: u16,
    /// The port of the switch's processor: packets of controllers come in by it, and what leaves by it goes to the
    /// primary.
    pub processor: u16,
    /// What reading a register does.
    pub registers: Registers,
    /// When the primary goes, the highest of those that are left is primary, as with older servers. Otherwise nobody is
    /// until somebody stands with an id that is no lower than the highest ever seen, as the standard has it since 1.2.
    pub promotes: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let registers = Registers::default();
        // The processor's port is the one that the open software switch is usually given.
        Settings { device: 1, udp_port: UDP_PORT, processor: 510, registers, promotes: false }
    }
}

/// The server. Clones are one server.
#[derive(Clone, Debug)]
pub struct Mock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    device: Device,
    arbiter: Arbiter,
    streams: Streams,
    /// What left by other ports than the processor's, of packets of controllers; the newest are kept.
    sent: VecDeque<(u16, Vec<u8>)>,
    refusals: u64,
    /// How long a write waits before it is done.
    delay: Duration,
}

/// A server that listens; it is gone with this value, and with it the connections that it has.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    mock: Mock,
    task: JoinHandle<()>,
}

impl Served {
    /// Where it listens, as a client is told.
    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
        self.mock.end_streams();
    }
}

impl Mock {
    /// A switch that has just started: no program, no entry, no controller.
    pub fn new(settings: Settings) -> Mock {
        let state = State {
            device: Device::new(settings.udp_port),
            arbiter: Arbiter::new(settings.promotes),
            streams: Streams::default(),
            sent: VecDeque::new(),
            refusals: 0,
            delay: Duration::ZERO,
        };
        Mock(Arc::new(Shared { settings, state: Mutex::new(state) }))
    }

    /// Serves until the value is dropped.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn serve(&self, listener: TcpListener) -> io::Result<Served> {
        let address = listener.local_addr()?;
        let (ready, incoming) = tokio::sync::mpsc::channel(limits::CONNECTIONS);
        let accepting = accept::http2(listener, Vec::new(), Places::new(limits::CONNECTIONS), ready);
        let service = P4RuntimeServer::new(self.clone()).max_decoding_message_size(limits::MESSAGE);
        let serving = sluice_wire::limits::server().add_service(service);
        let task = tokio::spawn(async move {
            tokio::select! {
                _ = serving.serve_with_incoming(ReceiverStream::new(incoming)) => {}
                () = accepting => {}
            }
        });
        Ok(Served { address, mock: self.clone(), task })
    }

    /// The switch begins anew: its program, entries, registers and counters are gone, and so is every stream.
    pub fn restart(&self) {
        let mut state = self.state();
        state.device = Device::new(self.0.settings.udp_port);
        state.arbiter = Arbiter::new(self.0.settings.promotes);
        state.streams.end_all(&Status::unavailable("the switch restarts"));
    }

    /// The data plane begins anew behind the server's back: streams and the program's cookie stay.
    pub fn restart_data_plane(&self) {
        self.state().device.forget();
    }

    /// Ends every stream. Who wants to go on opens another one.
    pub fn end_streams(&self) {
        let mut state = self.state();
        state.streams.end_all(&Status::unavailable("the switch ends all streams"));
        state.arbiter.clear();
    }

    /// From now on a write waits this long before it is done.
    pub fn delay_writes(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// A frame comes in by a port. What leaves by the processor's port goes to the primary.
    pub fn frame(&self, port: u16, frame: &mut [u8]) -> Verdict {
        self.state().pass(self.0.settings.processor, port, frame)
    }

    /// Does something with the twin.
    pub fn with_switch<T>(&self, work: impl FnOnce(&mut Switch) -> T) -> T {
        work(self.state().device.switch())
    }

    /// The guard's slot; none before it was told one.
    pub fn guard(&self) -> Option<Slot> {
        self.state().device.present()
    }

    /// How many entries there are in all tables.
    pub fn entries(&self) -> usize {
        self.state().device.entries()
    }

    /// How often something was refused.
    pub fn refusals(&self) -> u64 {
        self.state().refusals
    }

    /// What left by other ports than the processor's, of the latest packets of controllers.
    pub fn sent(&self) -> Vec<(u16, Vec<u8>)> {
        self.state().sent.iter().cloned().collect()
    }

    /// A thread that panicked under the lock was a test's: what it left is still a switch.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a frame through the twin.
    fn pass(&mut self, processor: u16, port: u16, frame: &mut [u8]) -> Verdict {
        let verdict = self.device.switch().process(port, frame);
        if matches!(verdict, Verdict::Forward { port, .. } if port == processor) {
            self.packet_in(frame);
        }
        verdict
    }
}
