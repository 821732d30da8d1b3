//! The settings of `sluiced`, key by key: type, default, unit, what it may hold, whether a change needs a restart, one
//! sentence. Structs, keys and the commented defaults all come from these tables; the units are in the names.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluice_etcd::Endpoint;
use sluice_identity::Files;
use sluice_schedule::host::config::{FAIR_FLOOR, FAIR_FLOOR_ALONE, FAIR_FLOOR_BRIEF, NEWCOMER_SHARE, RESERVE};
use sluice_schedule::units::fnv1a32;
use sluice_schedule::{Bytes, Nanos, Rate};

use super::choices::*;
use super::keys::{Key, entries, fields, key, settings};
use super::value::{HostPort, LogFilter, Named, Rule, Setting};

settings! {
    version: u64 = 1, "", Rule::Int(1, 1), false, "Version of this file's format.";
    mode: Mode = Mode::Observe, "", Rule::Words(Mode::WORDS), false, "observe looks and plans; active tells switches and enforces; bypass gives every flow back.";
    [node: Node] {
        name: String = String::new(), "", Rule::Name, true, "Name of this host in switches, metrics and timelines; default: the host name.";
        cluster: String = "default".into(), "", Rule::Name, true, "A host of another cluster is refused at the handshake.";
        run_dir: PathBuf = "/run/sluice".into(), "path", Rule::Path, true, "Holds the status socket, the lock and the progress directory.";
        state_dir: PathBuf = "/var/lib/sluice".into(), "path", Rule::Path, true, "Holds what outlives a restart: sluiced.d/*.toml there is read last, and mode --persist writes it.";
        instance: String = String::new(), "", Rule::Suffix(8), true, "Suffix of pins and congestion control name, for several daemons on one kernel.";
    }
    [slot: SlotSettings] {
        length_ms: u64 = 60, "ms", Rule::Int(5, 200), true, "Length of a slot; one value for the whole cluster.";
        horizon: u64 = 10, "slots", Rule::Int(4, 32), true, "Slots planned ahead; P4 switches take exactly 10.";
        spread: f64 = 0.5, "ratio", Rule::Number(0.0, 0.9), false, "Hosts spread their exchange over this first part of the slot.";
    }
    [clock: ClockSettings] {
        source: ClockSource = ClockSource::Realtime, "", Rule::Words(ClockSource::WORDS), true, "Clock that slots are counted on; tai needs the kernel's offset set.";
        tai_offset_s: u64 = 37, "s", Rule::Int(0, 100), false, "TAI minus UTC; must equal the kernel's.";
        max_error_ms: Option<u64> = None, "ms", Rule::Int(1, 1000), false, "Above this error bound slots are not trusted; default: half a slot.";
        require_sync: bool = true, "", Rule::Any, false, "false: an unsynchronised clock only degrades (test set-ups).";
        offset_ms: f64 = 0.0, "ms", Rule::Number(-1e9, 1e9), false, "Makes the clock that slots are counted on wrong by so much, to see what the cluster makes of it; 0 in service.";
    }
    [capture: Capture] {
        cgroups: Vec<Named<PathBuf>> = vec![Named::Auto], "paths", Rule::List(16), false, "cgroups whose processes belong to jobs, and no others; auto: wherever a page or an environment names a job.";
        ports: Vec<RangeInclusive<u16>> = Vec::new(), "ports", Rule::Ports(64), false, "TCP ports whose connections belong to jobs, whatever their processes say.";
        interfaces: Vec<Named<String>> = vec![Named::Auto], "", Rule::List(16), false, "Interfaces whose traffic is managed; auto: physical links with a route.";
        threshold_bytes: u64 = 1 << 20, "bytes", Rule::Int(0, 1 << 30), false, "Sent in one direction before a socket of a known job counts as a tensor flow.";
        ports_exclude: Vec<RangeInclusive<u16>> = vec![22..=22], "ports", Rule::Ports(64), false, "TCP ports never touched.";
        peers: Vec<IpNet> = Vec::new(), "networks", Rule::Networks(64), false, "Only flows to these networks; empty: any.";
        jobs: Vec<JobSource> = vec![JobSource::Nccl, JobSource::PsLite, JobSource::Torch, JobSource::Mpi, JobSource::Slurm, JobSource::Env], "", Rule::Words(JobSource::WORDS), false, "Ways to recognise a job.";
        users_apart: bool = true, "", Rule::Any, true, "A job is its user and its name. false: its name alone, where users trust each other and one job's processes have several user ids; one value for the whole cluster.";
        environ: bool = true, "", Rule::Any, false, "Read /proc/PID/environ for job ids, roles and ranks.";
        progress_dir: Option<PathBuf> = None, "path", Rule::Path, true, "Directory of progress pages; default: progress in node.run_dir.";
    }
    [enforce: Enforce] {
        backend: Backend = Backend::Auto, "", Rule::Words(Backend::WORDS), true, "How orders are enforced; auto: the best that works here.";
        require: Require = Require::None, "", Rule::Words(Require::WORDS), false, "Do not start with less than this.";
        max_flows: u64 = 4096, "flows", Rule::PowerOfTwo(64, 65536), true, "Rows of the kernel's tables.";
        floor_mbps: f64 = 10.0, "Mbit/s", Rule::Number(1.0, 1000.0), false, "A flow that waits keeps this rate.";
        floor_ratio: f64 = 0.01, "ratio", Rule::Number(0.0, 0.1), false, "Floor as part of the path's bottleneck; the larger of the two holds.";
        deadline_slots: u64 = 3, "slots", Rule::Int(2, 10), false, "Life of an order; past it the kernel lets go. At most 1 s.";
        max_step_up: f64 = 2.0, "ratio per slot", Rule::Number(1.2, 8.0), false, "Largest step up after adoption and while a view is not fresh.";
        coast_ms: u64 = 2000, "ms", Rule::Int(0, 10_000), false, "Life of the last orders after SIGTERM; must cover a restart.";
        loss_guard_ratio: f64 = 0.05, "ratio", Rule::Number(0.005, 0.2), false, "Lost part of the delivered that caps a flow.";
        release_to: ReleaseTo = ReleaseTo::Earlier, "", Rule::Words(ReleaseTo::WORDS), false, "Congestion control of a socket that is given back.";
        benefit: bool = true, "", Rule::Any, false, "Ask whether Sluice helps each job, and release a job that is slower with it; one value for the whole cluster.";
        benefit_slots: u64 = 128, "slots", Rule::PowerOfTwo(16, 4096), false, "Length of a window in which nothing is paced. Six iterations should fit; one value for the whole cluster.";
        benefit_part: u64 = 128, "slots", Rule::PowerOfTwo(8, 1024), false, "One slot of so many is in a window: what asking costs, and how soon it is known; one value for the whole cluster.";
        benefit_margin: f64 = 0.1, "ratio", Rule::Number(0.02, 0.5), false, "A job may be so much slower with Sluice than without before it is released.";
        sysctls: bool = true, "", Rule::Any, false, "Set tcp_tso_rtt_log and tcp_wmem's maximum; restored at exit, and when a reload says false.";
    }
    [schedule: Schedule] {
        policy: Policy = Policy::SrptP, "", Rule::Words(Policy::WORDS), false, "The rule of allocation.";
        promote_kappa: f64 = 4.0, "", Rule::Number(1.0, 16.0), false, "A round older than kappa (1+D) m goes first.";
        fair_floor: f64 = FAIR_FLOOR, "ratio", Rule::Number(0.0, 1.0), false, "Part of the equal share every flow keeps on links with unmanaged traffic.";
        fair_floor_alone: f64 = FAIR_FLOOR_ALONE, "ratio", Rule::Number(0.0, 1.0), false, "The same on all other links.";
        fair_floor_brief: f64 = FAIR_FLOOR_BRIEF, "ratio", Rule::Number(0.0, 1.0), false, "The same there at least, while the round that goes first has no more than two slots left.";
        newcomer_share: f64 = NEWCOMER_SHARE, "ratio", Rule::Number(0.0, 0.5), false, "Part of a full link that unmanaged traffic is left as soon as it comes; it grows from there to half.";
        surplus: Surplus = Surplus::Idle, "", Rule::Words(Surplus::WORDS), false, "What a flow takes beyond its order. idle: what nobody uses, giving way to any queue; greedy: on paths with unmanaged traffic its part of what is left, as ordinary TCP; always: everywhere.";
        delay_weight: f64 = 1.0, "slots", Rule::Number(0.0, 100.0), false, "primal-dual: slots one unit of price is worth.";
        price_mu: f64 = 100.0, "", Rule::Number(1.1, 1e6), false, "primal-dual: base of the exponential price.";
        probe_gain: f64 = 1.25, "ratio", Rule::Number(1.0, 2.0), false, "What a flow may try, as a multiple of what it was seen to take.";
        history_slots: u64 = 4, "slots", Rule::Int(1, 32), false, "Slots of history behind the best delivered rate.";
        events: bool = true, "", Rule::Any, false, "React inside a slot.";
        work_conserving: bool = true, "", Rule::Any, false, "Fill what nobody uses.";
        realtime: bool = true, "", Rule::Any, false, "In active, decide in a real-time thread (SCHED_RR, priority 1) where the kernel lets it.";
        chunk_lead: bool = false, "", Rule::Any, false, "srpt-p: fill no flow beyond its lead over what feeds it.";
        max_wait_ms: Option<u64> = None, "ms", Rule::Int(0, 60_000), false, "A round is never deferred longer; default: 20 slots.";
    }
    [switch: SwitchSettings] {
        stale_slots: u64 = 2, "slots", Rule::Int(1, 16), false, "Slots a switch's view is held before it decays.";
        copies: u64 = 2, "datagrams", Rule::Int(1, 3), true, "udp, inband: a flow is announced so often in a slot at most, while no echo comes.";
    }
    [peer: Peer] {
        listen: Vec<SocketAddr> = vec![(Ipv6Addr::UNSPECIFIED, 9604).into()], "addresses", Rule::Addresses(4), true, "gRPC between hosts; [] = off; one port for the cluster. Beyond loopback with [tls], or with unauthenticated and peer.peers or peer.open.";
        peers: Vec<IpNet> = Vec::new(), "networks", Rule::Networks(1024), true, "Who may connect to peer.listen: networks that hold the hosts of the cluster.";
        open: bool = false, "", Rule::Any, true, "Let everybody connect who reaches peer.listen; a condition keeps telling.";
        networks: Vec<IpNet> = Vec::new(), "networks", Rule::Networks(8), false, "Networks of the hosts' exchange addresses; empty: a host's first address.";
    }
    unauthenticated: bool = false, "", Rule::Any, true, "Listen beyond this machine to hosts that prove nothing of who they are: without [tls], or by datagrams along paths. A condition keeps telling.";
    [tls: TlsSettings] {
        ca: Option<PathBuf> = None, "path", Rule::Path, true, "PEM file of the authorities that are believed; with tls.cert and tls.key. The three files are read again when they change.";
        cert: Option<PathBuf> = None, "path", Rule::Path, true, "PEM file of this host's certificate: spiffe://CLUSTER/host/NAME with node.cluster and node.name, or the name as a DNS name.";
        key: Option<PathBuf> = None, "path", Rule::Path, true, "PEM file of its key, mode 0640 or stricter.";
    }
    topology: Option<PathBuf> = None, "path", Rule::Path, false, "topology.json, where paths of flows are read.";
    routes: Option<PathBuf> = None, "path", Rule::Path, false, "Routes of connections among equal paths, for what no switch tells; see docs/operating.md.";
    [probe: Probe] {
        routes: bool = false, "", Rule::Any, false, "Find by which of several equal paths flows go, where no switch tells, by segments whose hop limit ends at a switch; needs CAP_NET_RAW, and port_addresses in the topology.";
        repeat_s: u64 = 30, "s", Rule::Int(5, 3600), false, "A path that a probe has found is looked for again after this time, as far as one probe a second allows.";
    }
    [cross_traffic: CrossTraffic] {
        source: CrossSource = CrossSource::Nic, "", Rule::Words(CrossSource::WORDS), false, "Where the load of unmanaged traffic on own links is read.";
        file: Option<PathBuf> = None, "path", Rule::Path, false, "One line per link: interface, space, bit/s; for source = \"file\".";
    }
    [http: Http] {
        listen: Vec<SocketAddr> = vec![(Ipv4Addr::LOCALHOST, 9605).into()], "addresses", Rule::Addresses(4), true, "HTTP for status and metrics; [] = off.";
        details: Details = Details::Loopback, "", Rule::Words(Details::WORDS), false, "Who may read the page and /api: everybody on this machine, everybody who can connect, or only who may give commands.";
    }
    [metrics: Metrics] {
        jobs: MetricJobs = MetricJobs::Id, "", Rule::Words(MetricJobs::WORDS), false, "Label job_id or none.";
        max_jobs: u64 = 32, "", Rule::Int(0, 256), false, "Live job ids; more are summed as _other.";
        flows: MetricFlows = MetricFlows::Off, "", Rule::Words(MetricFlows::WORDS), false, "index: two series for each flow, labelled with its job and a small number; see docs/operating.md for what that costs.";
        max_flows: u64 = 64, "flows", Rule::Int(1, 256), false, "Flows with series of their own; more are summed by job as _other.";
    }
    [timeline: Timeline] {
        seconds: u64 = 120, "s", Rule::Int(0, 3600), false, "Length of the ring of decisions.";
        max_bytes: u64 = 8 << 20, "bytes", Rule::Int(0, 1 << 30), false, "Memory of the ring of decisions.";
    }
    [record: Record] {
        file: Option<PathBuf> = None, "path", Rule::Path, false, "The work of this host's jobs, round by round, for sluice sim replay; a recording that is there goes on. Default: nothing is recorded.";
        max_bytes: u64 = 64 << 20, "bytes", Rule::Int(1 << 16, 1 << 30), false, "Where that file ends.";
    }
    [flight: FlightSettings] {
        file: Option<PathBuf> = None, "path", Rule::Path, false, "The last minutes of this host's jobs, slot by slot, for sluice why; it outlives the daemon. Default: flight.ring in node.state_dir, if that directory is there.";
        seconds: u64 = 600, "s", Rule::Int(0, 86_400), false, "How much of the past that file keeps, as far as its bound allows; 0 = off.";
        max_bytes: u64 = 64 << 20, "bytes", Rule::Int(0, 1 << 30), false, "Bound of that file; 0 = off.";
    }
    [fleet: FleetSettings] {
        etcd: Vec<Endpoint> = Vec::new(), "endpoints", Rule::Endpoints(8), true, "Members of the etcd that says this host's mode, topology, switches and plans, see docs/fleet.md; [] = this host is in no fleet. Beyond loopback with https, or with plaintext = true.";
        prefix: PathBuf = "/sluice".into(), "path", Rule::Path, true, "Where the fleet's keys begin in etcd; node.cluster follows.";
        group: String = "default".into(), "", Rule::Name, true, "The group of this host, such as its rack: groups have modes, and rollouts go from group to group.";
        tls_ca: Option<PathBuf> = None, "path", Rule::Path, true, "PEM file of the authority that signed etcd's certificate; https needs it. The three files are read anew for every connection.";
        tls_cert: Option<PathBuf> = None, "path", Rule::Path, true, "PEM file of this host's certificate, if etcd asks for one; with tls_key.";
        tls_key: Option<PathBuf> = None, "path", Rule::Path, true, "PEM file of its key, mode 0640 or less.";
        tls_name: Option<String> = None, "", Rule::Any, true, "The name in etcd's certificate, if it is not the endpoint's.";
        plaintext: bool = false, "", Rule::Any, true, "Speak to an etcd beyond loopback without TLS: whoever is on the way can then set this host's mode.";
    }
    [privilege: Privilege] {
        split: bool = false, "", Rule::Any, true, "Two processes: a helper with the privileges, which reads nothing from the network, and a brain without any; see docs/privileges.md.";
        user: String = "sluice".into(), "", Rule::Any, true, "With split and started as root: whom the brain runs as; nobody where there is no such user.";
    }
    [control: Control] {
        group: String = "sluice".into(), "", Rule::Any, false, "Group whose members may change the mode.";
    }
    [log: Log] {
        level: LogFilter = LogFilter::info(), "", Rule::LogFilter, false, "Filter of log lines.";
        format: LogFormat = LogFormat::Auto, "", Rule::Words(LogFormat::WORDS), true, "Form of log lines; auto: journald, text on a terminal, else json.";
    }
}

// Own links; none: those the kernel routes over.
entries! { LINK_KEYS: LinkEntry {
    name: String = String::new(), "", Rule::Any, false, "The interface.";
    gbps: Option<f64> = None, "Gbit/s", Rule::Number(0.001, 1600.0), false, "Rate on the wire, 10^9 bit/s; default: from the topology, else from the kernel.";
    reserve: f64 = RESERVE, "ratio", Rule::Number(0.0, 0.5), false, "Part left free.";
} }

// Every switch that answers, the same on all hosts: a job's hosts meet at one of them. None: hosts keep the tables of
// their own links.
entries! { SWITCH_KEYS: SwitchEntry {
    name: String = String::new(), "", Rule::Name, false, "The switch's name in the topology.";
    address: HostPort = HostPort::default(), "", Rule::HostPort, false, "Where it answers; inband: where this host listens for datagrams of flows, such as 0.0.0.0:9604, with one port for all hosts.";
    transport: Transport = Transport::Session, "", Rule::Words(Transport::WORDS), false, "session: one stream; unary: two calls per slot; udp: datagrams, which carry sums of rates only; inband: datagrams along the paths of flows, to which a programmable switch writes on the way.";
} }

impl Peer {
    /// The first address to listen on that other hosts can reach.
    pub fn beyond_loopback(&self) -> Option<SocketAddr> {
        self.listen.iter().copied().find(|address| !address.ip().to_canonical().is_loopback())
    }
}

/// See [`Config::unproven`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unproven<'a> {
    /// Hosts that connect here.
    Peers(SocketAddr),
    /// Hosts that send datagrams along paths to here.
    Along(&'a SwitchEntry),
    /// A switch, which this host asks.
    Switch(&'a SwitchEntry),
}

impl Config {
    pub fn slot_length(&self) -> Nanos {
        Nanos::from_millis(self.slot.length_ms)
    }
    /// The switches by whose transport promises travel with their ranks, and what is told of jobs.
    pub fn session_like(&self) -> impl Iterator<Item = &SwitchEntry> {
        self.switches.iter().filter(|switch| !matches!(switch.transport, Transport::Udp | Transport::Inband))
    }
    /// Those to which only sums of rates travel.
    pub fn by_datagrams(&self) -> impl Iterator<Item = &SwitchEntry> {
        self.switches.iter().filter(|switch| matches!(switch.transport, Transport::Udp | Transport::Inband))
    }
    /// Of those, the ones that datagrams pass on their way.
    pub fn in_band(&self) -> impl Iterator<Item = &SwitchEntry> {
        self.switches.iter().filter(|switch| switch.transport == Transport::Inband)
    }
    /// Where in the slot this host speaks to switches: hosts spread themselves, by their names.
    pub fn phase(&self) -> Nanos {
        // The hash's low bits vary most between names that differ at the end.
        let place = fnv1a32(self.node.name.as_bytes()).wrapping_mul(0x9e37_79b9) >> 16;
        self.slot_length().scaled(self.slot.spread * f64::from(place) / f64::from(1_u32 << 16))
    }
    /// By which this host proves who it is; `None`: it does not.
    pub fn identity_files(&self) -> Option<Files> {
        let (authorities, certificate) = self.tls.ca.clone().zip(self.tls.cert.clone())?;
        Some(Files { authorities, certificate, key: self.tls.key.clone()? })
    }
    /// Something beyond this machine that this host exchanges with, or would, without proof of who it is.
    pub fn unproven(&self) -> Option<Unproven<'_>> {
        let plain = self.identity_files().is_none();
        let listens = self.peer.beyond_loopback().filter(|_| plain && self.serves_peers());
        let beyond = || self.switches.iter().filter(|switch| !switch.address.is_loopback());
        let along = beyond().find(|switch| switch.transport == Transport::Inband);
        let asks = beyond().find(|switch| plain || switch.transport == Transport::Udp);
        listens.map(Unproven::Peers).or(along.map(Unproven::Along)).or(asks.map(Unproven::Switch))
    }
    /// Do other hosts connect to this one? Only where no switch keeps the tables of hosts' links.
    pub fn serves_peers(&self) -> bool {
        self.in_band().count() == self.switches.len() && self.topology.is_some()
    }
    pub fn order_life(&self) -> Nanos {
        self.slot_length().times(self.enforce.deadline_slots)
    }
    /// Error of the clock above which slots are not trusted.
    pub fn max_clock_error(&self) -> Nanos {
        self.clock.max_error_ms.map_or(Nanos(self.slot_length().0 / 2), Nanos::from_millis)
    }
    pub fn max_wait(&self) -> Nanos {
        self.schedule.max_wait_ms.map_or(self.slot_length().times(20), Nanos::from_millis)
    }
    pub fn floor(&self) -> Rate {
        Rate::mbps(1).times(self.enforce.floor_mbps)
    }
    pub fn threshold(&self) -> Bytes {
        Bytes(self.capture.threshold_bytes)
    }
    /// The cgroups that the operator names as those of jobs.
    pub fn job_cgroups(&self) -> Vec<PathBuf> {
        self.capture.cgroups.iter().filter_map(Named::name).cloned().collect()
    }
    /// The port ranges never touched, the daemon's own included.
    pub fn excluded_ports(&self) -> Vec<RangeInclusive<u16>> {
        let mut ranges = self.capture.ports_exclude.clone();
        let listen = self.peer.listen.iter().chain(&self.http.listen).map(SocketAddr::port);
        ranges.extend(listen.chain(self.switches.iter().map(|switch| switch.address.port)).map(|port| port..=port));
        ranges
    }
    pub fn progress_dir(&self) -> PathBuf {
        self.capture.progress_dir.clone().unwrap_or_else(|| self.node.run_dir.join("progress"))
    }
    /// Settings that were changed by command and are kept; read after all others.
    pub fn kept_settings(&self) -> PathBuf {
        self.node.state_dir.join("sluiced.d")
    }
    pub fn socket(&self) -> PathBuf {
        self.node.run_dir.join("sluiced.sock")
    }
    /// The lock that keeps a second daemon out.
    pub fn lock(&self) -> PathBuf {
        self.node.run_dir.join("sluiced.lock")
    }
    /// Where the kernel objects are pinned.
    pub fn pin_dir(&self) -> PathBuf {
        PathBuf::from(format!("/sys/fs/bpf/sluice{}", self.node.instance))
    }
    /// How long the last orders live after SIGTERM.
    pub fn coast(&self) -> Duration {
        Duration::from_millis(self.enforce.coast_ms)
    }
}
