//! `sluice-switch.toml`: every key has a default and a range, and all mistakes are told at once.

mod read;
pub mod reference;
#[cfg(test)]
mod tests;
mod topology;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use sluice_formats::file;
use sluice_formats::problem::Problems;
use sluice_identity::Files;
use sluice_schedule::switch::Attached;
use sluice_schedule::table::TableKind;
use sluice_schedule::{HolderId, HostId, LinkId, Nanos, Rate};
use sluice_wire::attach::Places;
use sluice_wire::hello::{ClockSource, Grid};
use tracing_subscriber::EnvFilter;

/// Bytes of a configuration file at most.
const MAX_BYTES: u64 = 16 << 20;
/// Switches in one process at most.
pub const MAX_SWITCHES: usize = 256;
/// Ports of one switch at most.
pub const MAX_PORTS: usize = 4096;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// One short line per event, for people.
    Text,
    /// One JSON document per line.
    Json,
}

/// Which log lines are written: directives `target=level` with commas between them.
#[derive(Clone, Debug)]
pub struct LogFilter(pub EnvFilter);

impl PartialEq for LogFilter {
    fn eq(&self, other: &LogFilter) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

/// Everything the process is told at start.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Cluster, slots and clock.
    pub grid: Grid,
    /// Offset of TAI that the kernel must have if the clock is TAI, in seconds.
    pub tai_offset_s: u64,
    /// False: an unsynchronised clock is not worth a warning.
    pub require_sync: bool,
    /// Error bound of the clock that is still good.
    pub max_clock_error: Nanos,
    /// Which log lines are written; "info" if the file says nothing.
    pub log_level: LogFilter,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Where hosts open sessions and call; port 0 lets the kernel choose.
    pub grpc: SocketAddr,
    /// Where the UDP format is answered; `None`: nowhere.
    pub udp: Option<SocketAddr>,
    /// Where health, metrics and the page are served; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// The page and its JSON answer everybody who can connect; false: this machine only.
    pub details_for_all: bool,
    /// Receive buffer of the UDP socket.
    pub rcvbuf_bytes: usize,
    /// Serve in a real-time thread, where the kernel lets it and one thread serves.
    pub realtime: bool,
    /// Form of the tables.
    pub table: TableKind,
    /// Slots until an unrepeated promise is gone.
    pub lease_slots: u32,
    /// Hosts with a session at most; one without finds a place in a table that has fewer.
    pub max_hosts: usize,
    /// Promises (flow, link) of all hosts and switches at most.
    pub max_flows: usize,
    /// Who may speak; empty: nobody but this machine, or everybody if `open`.
    pub peers: Vec<IpNet>,
    /// True: `peers` is empty and everybody may speak who reaches the ports.
    pub open: bool,
    /// By which hosts and this process prove who they are; `None`: nobody does.
    pub tls: Option<Files>,
    /// Hosts beyond this machine are listened to without any proof of who they are.
    pub unauthenticated: bool,
    /// Where hosts are attached, if a topology says so.
    pub places: Option<Arc<Places>>,
    /// Who says what unmanaged traffic takes of links.
    pub background: Background,
    /// Forward packets between interfaces of this machine; `None`: do not.
    pub data_plane: Option<DataPlaneConfig>,
    /// The switches, at least one.
    pub switches: Vec<SwitchConfig>,
}

/// Who says what unmanaged traffic takes of links, beside what the configuration says of each port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Nobody.
    #[default]
    None,
    /// A file, read again when it changed.
    File(PathBuf),
    /// Counters of switches.
    Counted(Telemetry),
}

/// What is heard of which switches' counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// Where sFlow agents are heard; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// Which addresses are listened to; empty: all.
    pub peers: Vec<IpNet>,
    /// Time between two readings of a counter.
    pub interval: Nanos,
    /// The links, at least one.
    pub links: Vec<CountedLink>,
}

/// A link and the counter of what it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedLink {
    /// Name of its switch.
    pub switch: String,
    /// Number of its port.
    pub port: u32,
    /// Where its octets are counted.
    pub counter: Counter,
}

/// The counter of octets that leave by an interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Of an sFlow agent.
    Sflow {
        /// The address by which the agent names itself.
        agent: IpAddr,
        /// The interface's index there.
        interface: u32,
    },
    /// Of a gNMI target.
    Gnmi {
        /// Where it listens.
        uri: String,
        /// The interface's name there.
        interface: String,
    },
}

/// Where and by what tables packets are forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPlaneConfig {
    /// The interfaces that are ports 0, 1, ….
    pub interfaces: Vec<String>,
    /// The file of statements.
    pub tables: PathBuf,
    /// The port of Sluice packets.
    pub udp_port: u16,
    /// Plain packets are forwarded in the kernel, where it can.
    pub kernel: bool,
}

/// A switch whose tables this process keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Its name; the hash is its id.
    pub name: String,
    /// Its ports, at least one.
    pub ports: Vec<PortConfig>,
    /// The interfaces of this machine that are its ports, one for each, where this machine's kernel forwards for it and is
    /// asked by which of them a flow goes; else empty.
    pub interfaces: Vec<String>,
}

/// The sending side of one port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Number, as in link ids.
    pub id: u32,
    /// The node at the other end.
    pub to: String,
    /// Rate on the wire.
    pub wire: Rate,
    /// Wire rate that unmanaged traffic takes.
    pub background: Rate,
    /// Destinations reached by this port, for the UDP format.
    pub routes: Vec<IpNet>,
}

impl SwitchConfig {
    /// The id of this switch.
    pub fn holder(&self) -> HolderId {
        HolderId::of(&self.name)
    }
    /// The id of the link that leaves by `port`.
    pub fn link(&self, port: &PortConfig) -> LinkId {
        LinkId::new(self.holder().0, port.id)
    }
}

impl Config {
    /// The first address, with its key, at which other machines can announce.
    pub fn beyond_loopback(&self) -> Option<(&'static str, SocketAddr)> {
        let mut listen = [("grpc", self.grpc)].into_iter().chain(self.udp.map(|udp| ("udp", udp)));
        listen.find(|(_, address)| !address.ip().to_canonical().is_loopback())
    }

    /// The first address, with its key, at which other machines can speak without proof of who they are.
    pub fn unproven(&self) -> Option<(&'static str, SocketAddr)> {
        let grpc = self.tls.is_none().then_some(("grpc", self.grpc));
        let mut listen = grpc.into_iter().chain(self.udp.map(|udp| ("udp", udp)));
        listen.find(|(_, address)| !address.ip().to_canonical().is_loopback())
    }

    /// What a switch has to know of where hosts are attached: all of it from a topology, else only of those that a port here
    /// leads to, how much they can send by these.
    pub fn attached(&self, switch: &SwitchConfig) -> Attached {
        if let Some(places) = &self.places {
            return places.seen_from(switch.holder());
        }
        let mut attached = Attached::default();
        for port in self.switches.iter().flat_map(|switch| &switch.ports) {
            let place = attached.hosts.entry(HostId::of(&port.to)).or_default();
            place.access = place.access.plus(port.wire.payload());
        }
        attached
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Everything that is wrong with it and with the topology that it names.
    pub fn load(path: &Path) -> Result<Config, Problems> {
        Config::parse(path, &file::load_text(path, MAX_BYTES)?)
    }

    /// Reads and checks the text of the file `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Config, Problems> {
        read::config(path, text)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            grid: Grid {
                cluster: "default".into(),
                slot_length: Nanos::from_millis(60),
                horizon: 10,
                epoch: Nanos::ZERO,
                clock: ClockSource::Realtime,
            },
            tai_offset_s: 37,
            require_sync: true,
            max_clock_error: Nanos::from_millis(30),
            log_level: LogFilter(EnvFilter::new("info")),
            log_format: LogFormat::Auto,
            grpc: SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 9604)),
            udp: None,
            http: Some(SocketAddr::from(([127, 0, 0, 1], 9606))),
            details_for_all: false,
            rcvbuf_bytes: 8 << 20,
            realtime: true,
            table: TableKind::Exact,
            lease_slots: 2,
            max_hosts: 4096,
            max_flows: 262_144,
            peers: Vec::new(),
            open: false,
            tls: None,
            unauthenticated: false,
            places: None,
            background: Background::None,
            data_plane: None,
            switches: Vec::new(),
        }
    }
}
