//! The settings of `sluiced` as one struct, with their defaults. [`super::keys`] says what each key may hold.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluice_schedule::{Bytes, Nanos, Rate};

use super::value::{HostPort, Named, words};

words!(
    /// What the operator asked for.
    Mode {
        /// Look and plan, change nothing.
        #[default]
        Observe = "observe",
        /// Tell switches and enforce.
        Active = "active",
        /// Do nothing to flows; those that were managed are given back.
        Bypass = "bypass",
    }
);
words!(
    /// The clock that slots are counted on.
    ClockSource {
        /// CLOCK_REALTIME.
        #[default]
        Realtime = "realtime",
        /// CLOCK_TAI, where the kernel's offset is set.
        Tai = "tai",
    }
);
words!(
    /// How orders are enforced.
    Backend {
        /// The best that works here.
        #[default]
        Auto = "auto",
        /// The congestion control.
        StructOps = "struct_ops",
        /// A pacing ceiling.
        SetSockOpt = "setsockopt",
        /// Nothing.
        None = "none",
    }
);
words!(
    /// The least enforcement the daemon starts with.
    Require {
        /// Start whatever works.
        #[default]
        None = "none",
        /// The congestion control.
        StructOps = "struct_ops",
        /// Anything that enforces.
        Any = "any",
    }
);
words!(
    /// The congestion control a socket gets back.
    ReleaseTo {
        /// The one it had.
        #[default]
        Earlier = "earlier",
        /// cubic.
        Cubic = "cubic",
        /// bbr.
        Bbr = "bbr",
        /// reno.
        Reno = "reno",
    }
);
words!(
    /// The rule of allocation.
    Policy {
        /// Least remaining round first, promoted when old.
        #[default]
        SrptP = "srpt-p",
        /// The paper's algorithms.
        PrimalDual = "primal-dual",
        /// Equal shares.
        Fair = "fair",
    }
);
words!(
    /// How a switch is spoken to.
    Transport {
        /// One stream per host.
        #[default]
        Session = "session",
        /// Two calls per slot.
        Unary = "unary",
        /// Datagrams.
        Udp = "udp",
    }
);
words!(
    /// Where the load of unmanaged traffic on own links is read.
    CrossSource {
        /// Nowhere.
        None = "none",
        /// Byte counters of the network card.
        #[default]
        Nic = "nic",
        /// A file.
        File = "file",
    }
);
words!(
    /// A way to recognise a job: what wrote its progress page, or whose environment variables name it.
    JobSource {
        /// The profiler plug-in of NCCL.
        Nccl = "nccl",
        /// The preload library of PS-Lite, or its environment.
        PsLite = "pslite",
        /// torchrun's environment, or the preload library of other frameworks.
        Torch = "torch",
        /// PMIx or Horovod.
        Mpi = "mpi",
        /// Slurm's job id.
        Slurm = "slurm",
        /// `SLUICE_JOB_ID`, or the application's own page.
        #[default]
        Env = "env",
    }
);
words!(
    /// Who may read the page and `/api`.
    Details {
        /// This host.
        #[default]
        Loopback = "loopback",
        /// Everybody.
        All = "all",
    }
);
words!(
    /// Label of training jobs in metrics.
    MetricJobs {
        /// None.
        Off = "off",
        /// `job_id`.
        #[default]
        Id = "id",
    }
);
words!(
    /// Series per flow.
    MetricFlows {
        /// None.
        #[default]
        Off = "off",
        /// A small index within (job, host).
        Index = "index",
    }
);
words!(
    /// Form of log lines.
    LogFormat {
        /// journald under systemd, text on a terminal, else json.
        #[default]
        Auto = "auto",
        /// For journald: no time of its own.
        Journald = "journald",
        /// One JSON object per line.
        Json = "json",
        /// Short text.
        Text = "text",
    }
);

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),* }
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    )*};
}

settings! {
    /// All settings. The units are in the names.
    Config {
        /// Of the file format.
        version: u64 = 1,
        /// What to do.
        mode: Mode = Mode::Observe,
        /// This host.
        node: Node = Node::default(),
        /// The time grid.
        slot: SlotSettings = SlotSettings::default(),
        /// The clock.
        clock: ClockSettings = ClockSettings::default(),
        /// What is looked at.
        capture: Capture = Capture::default(),
        /// How orders are kept.
        enforce: Enforce = Enforce::default(),
        /// How rates are found.
        schedule: Schedule = Schedule::default(),
        /// Own links; empty: those the kernel routes over.
        links: Vec<LinkEntry> = Vec::new(),
        /// Switches; empty: hosts keep the tables of their own links.
        switches: Vec<SwitchEntry> = Vec::new(),
        /// Common to all switches.
        switch: SwitchSettings = SwitchSettings::default(),
        /// Between hosts.
        peer: Peer = Peer::default(),
        /// Where paths are read.
        topology: Option<PathBuf> = None,
        /// Unmanaged traffic.
        cross_traffic: CrossTraffic = CrossTraffic::default(),
        /// The HTTP server.
        http: Http = Http::default(),
        /// The exporter.
        metrics: Metrics = Metrics::default(),
        /// The ring of decisions.
        timeline: Timeline = Timeline::default(),
        /// Who may change the mode.
        control: Control = Control::default(),
        /// Logs.
        log: Log = Log::default(),
    }
    /// This host.
    Node {
        /// Its name in the cluster; empty: the host name.
        name: String = String::new(),
        /// The cluster's name.
        cluster: String = "default".into(),
        /// Socket, lock and progress directory lie here.
        run_dir: PathBuf = "/run/sluice".into(),
        /// What outlives a restart lies here; the service may write it, unlike /etc.
        state_dir: PathBuf = "/var/lib/sluice".into(),
        /// Tells several daemons of one kernel apart.
        instance: String = String::new(),
    }
    /// The time grid.
    SlotSettings {
        /// Length in ms.
        length_ms: u64 = 60,
        /// Slots ahead.
        horizon: u64 = 10,
        /// First part of the slot over which hosts spread their exchange.
        spread: f64 = 0.5,
    }
    /// The clock.
    ClockSettings {
        /// Which.
        source: ClockSource = ClockSource::Realtime,
        /// TAI − UTC in s.
        tai_offset_s: u64 = 37,
        /// Error bound in ms; `None`: half a slot.
        max_error_ms: Option<u64> = None,
        /// Is an unsynchronised clock unsafe?
        require_sync: bool = true,
    }
    /// What is looked at.
    Capture {
        /// cgroups whose sockets are managed.
        cgroups: Vec<Named<PathBuf>> = vec![Named::Auto],
        /// Interfaces.
        interfaces: Vec<Named<String>> = vec![Named::Auto],
        /// Bytes in one direction before a socket of a known job counts.
        threshold_bytes: u64 = 1 << 20,
        /// Ports never touched.
        ports_exclude: Vec<RangeInclusive<u16>> = vec![22..=22],
        /// Only flows to these networks; empty: any.
        peers: Vec<IpNet> = Vec::new(),
        /// Ways to recognise a job.
        jobs: Vec<JobSource> = JobSource::ALL.to_vec(),
        /// Read `/proc/PID/environ`.
        environ: bool = true,
        /// Progress pages; `None`: `progress` in the run directory.
        progress_dir: Option<PathBuf> = None,
    }
    /// How orders are kept.
    Enforce {
        /// Which way.
        backend: Backend = Backend::Auto,
        /// The least.
        require: Require = Require::None,
        /// Rows of the kernel's tables.
        max_flows: u64 = 4096,
        /// Floor in Mbit/s.
        floor_mbps: f64 = 10.0,
        /// Floor as part of the bottleneck.
        floor_ratio: f64 = 0.01,
        /// Life of an order in slots.
        deadline_slots: u64 = 3,
        /// Largest step up per slot.
        max_step_up: f64 = 2.0,
        /// Life of the last orders after SIGTERM in ms.
        coast_ms: u64 = 2000,
        /// Lost part that caps a flow.
        loss_guard_ratio: f64 = 0.05,
        /// Congestion control after release.
        release_to: ReleaseTo = ReleaseTo::Earlier,
        /// Set the two sysctls that precise pacing needs.
        sysctls: bool = true,
    }
    /// How rates are found.
    Schedule {
        /// The rule.
        policy: Policy = Policy::SrptP,
        /// κ.
        promote_kappa: f64 = 4.0,
        /// φ on links where unmanaged traffic was seen of late.
        fair_floor: f64 = sluice_schedule::host::config::FAIR_FLOOR,
        /// φ on links where no unmanaged traffic was seen of late.
        fair_floor_alone: f64 = sluice_schedule::host::config::FAIR_FLOOR_ALONE,
        /// w in slots.
        delay_weight: f64 = 1.0,
        /// μ.
        price_mu: f64 = 100.0,
        /// What a flow may try, as a multiple of what it was seen to take.
        probe_gain: f64 = 1.25,
        /// Slots of history behind it.
        history_slots: u64 = 4,
        /// React inside a slot.
        events: bool = true,
        /// Fill what nobody uses.
        work_conserving: bool = true,
        /// Longest deferral in ms; `None`: 20 slots.
        max_wait_ms: Option<u64> = None,
    }
    /// One own link.
    LinkEntry {
        /// The interface.
        name: String = String::new(),
        /// Rate in Gbit/s; `None`: from the topology, else from the kernel.
        gbps: Option<f64> = None,
        /// Part left free.
        reserve: f64 = 0.05,
    }
    /// One switch.
    SwitchEntry {
        /// Its name in the topology.
        name: String = String::new(),
        /// `host:port`.
        address: HostPort = HostPort::default(),
        /// How it is spoken to.
        transport: Transport = Transport::Session,
    }
    /// Common to all switches.
    SwitchSettings {
        /// Slots a view is held before it decays.
        stale_slots: u64 = 2,
        /// Announcements per slot over UDP.
        copies: u64 = 2,
    }
    /// Between hosts.
    Peer {
        /// Addresses to listen on.
        listen: Vec<SocketAddr> = vec![(Ipv6Addr::UNSPECIFIED, 9604).into()],
        /// Who may connect; empty: nobody but this host, or everybody if `open`.
        peers: Vec<IpNet> = Vec::new(),
        /// Everybody may connect.
        open: bool = false,
        /// Which of a host's addresses the exchange uses; empty: its first.
        networks: Vec<IpNet> = Vec::new(),
    }
    /// Unmanaged traffic.
    CrossTraffic {
        /// Where it is read.
        source: CrossSource = CrossSource::Nic,
        /// The file of `source = "file"`.
        file: Option<PathBuf> = None,
    }
    /// The HTTP server.
    Http {
        /// Addresses to listen on.
        listen: Vec<SocketAddr> = vec![(Ipv4Addr::LOCALHOST, 9605).into()],
        /// Who may read details.
        details: Details = Details::Loopback,
    }
    /// The exporter.
    Metrics {
        /// Label of jobs.
        jobs: MetricJobs = MetricJobs::Id,
        /// Live ids at most.
        max_jobs: u64 = 32,
        /// Series per flow.
        flows: MetricFlows = MetricFlows::Off,
        /// Flows with series of their own.
        max_flows: u64 = 64,
    }
    /// The ring of decisions.
    Timeline {
        /// Seconds kept.
        seconds: u64 = 120,
        /// Bytes kept.
        max_bytes: u64 = 8 << 20,
    }
    /// Who may change the mode.
    Control {
        /// Besides root.
        group: String = "sluice".into(),
    }
    /// Logs.
    Log {
        /// Filter of the `tracing` crate.
        level: String = "info".into(),
        /// Form.
        format: LogFormat = LogFormat::Auto,
    }
}

impl Peer {
    /// The first address to listen on that other hosts can reach.
    pub fn beyond_loopback(&self) -> Option<SocketAddr> {
        self.listen.iter().copied().find(|address| !address.ip().to_canonical().is_loopback())
    }
}

impl Config {
    /// Slot length.
    pub fn slot_length(&self) -> Nanos {
        Nanos::from_millis(self.slot.length_ms)
    }
    /// Do other hosts connect to this one? Only where no switch keeps the tables.
    pub fn serves_peers(&self) -> bool {
        self.switches.is_empty() && self.topology.is_some()
    }
    /// Life of an order.
    pub fn order_life(&self) -> Nanos {
        self.slot_length().times(self.enforce.deadline_slots)
    }
    /// Error of the clock above which slots are not trusted.
    pub fn max_clock_error(&self) -> Nanos {
        self.clock.max_error_ms.map_or(Nanos(self.slot_length().0 / 2), Nanos::from_millis)
    }
    /// Longest deferral of a round.
    pub fn max_wait(&self) -> Nanos {
        self.schedule.max_wait_ms.map_or(self.slot_length().times(20), Nanos::from_millis)
    }
    /// The floor's absolute part.
    pub fn floor(&self) -> Rate {
        Rate::mbps(1).times(self.enforce.floor_mbps)
    }
    /// Bytes before a socket counts.
    pub fn threshold(&self) -> Bytes {
        Bytes(self.capture.threshold_bytes)
    }
    /// Where progress pages lie.
    pub fn progress_dir(&self) -> PathBuf {
        self.capture.progress_dir.clone().unwrap_or_else(|| self.node.run_dir.join("progress"))
    }
    /// Settings that were changed by command and are kept; read after all others.
    pub fn kept_settings(&self) -> PathBuf {
        self.node.state_dir.join("sluiced.d")
    }
    /// The status socket.
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
