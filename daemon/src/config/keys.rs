//! Every key of `sluiced.toml` in one table: path, unit, what it may hold, whether it needs a restart, one sentence.
//!
//! Reading, the commented defaults and the tests all walk this table; the defaults come from [`Config::default`].

use sluice_formats::document::Value;

use super::settings::*;
use super::value::{HostPort, Named, Refusal, Rule, Setting};

/// One key of a table of settings `T`.
pub struct Key<T: 'static> {
    /// Dotted path from the root of the table.
    pub path: &'static str,
    /// The unit; empty: none.
    pub unit: &'static str,
    /// What it may hold.
    pub rule: Rule,
    /// The type in words.
    pub kind: &'static str,
    /// Only a restart changes it.
    pub restart: bool,
    /// What it means.
    pub meaning: &'static str,
    /// Reads a value into the settings.
    pub set: fn(&mut T, &Value, &Rule) -> Result<(), Refusal>,
    /// The present value as TOML; empty: not set.
    pub get: fn(&T) -> String,
}

macro_rules! key {
    ($owner:ident, $first:ident $(. $rest:ident)*: $type:ty, $unit:literal, $rule:expr, $restart:literal, $meaning:literal) => {
        Key {
            path: concat!(stringify!($first) $(, ".", stringify!($rest))*),
            unit: $unit,
            rule: $rule,
            kind: <$type as Setting>::TYPE,
            restart: $restart,
            meaning: $meaning,
            set: |owner: &mut $owner, value, rule| {
                owner.$first$(.$rest)* = <$type as Setting>::read(value, rule)?;
                Ok(())
            },
            get: |owner: &$owner| Setting::show(&owner.$first$(.$rest)*),
        }
    };
}
macro_rules! keys {
    ($name:ident: $owner:ident, $doc:literal; $($path:ident $(. $rest:ident)* : $type:ty, $unit:literal, $rule:expr, $restart:literal, $meaning:literal;)*) => {
        #[doc = $doc]
        pub const $name: &[Key<$owner>] =
            &[$(key!($owner, $path $(. $rest)*: $type, $unit, $rule, $restart, $meaning)),*];
    };
}

type Addresses = Vec<std::net::SocketAddr>;
type Networks = Vec<ipnet::IpNet>;
type OptPath = Option<std::path::PathBuf>;

keys! { KEYS: Config, "The keys outside table arrays.";
    version: u64, "", Rule::Int(1, 1), false, "Version of this file's format.";
    mode: Mode, "", Rule::Words(Mode::WORDS), false, "observe looks and plans; active tells switches and enforces; bypass gives every flow back.";
    node.name: String, "", Rule::Name, true, "Name of this host in switches, metrics and timelines; default: the host name.";
    node.cluster: String, "", Rule::Name, true, "A host of another cluster is refused at the handshake.";
    node.run_dir: std::path::PathBuf, "path", Rule::Path, true, "Holds the status socket, the lock and the progress directory.";
    node.state_dir: std::path::PathBuf, "path", Rule::Path, true, "Holds what outlives a restart: sluiced.d/*.toml there is read last, and mode --persist writes it.";
    node.instance: String, "", Rule::Suffix(8), true, "Suffix of pins and congestion control name, for several daemons on one kernel.";
    slot.length_ms: u64, "ms", Rule::Int(5, 200), true, "Length of a slot; one value for the whole cluster.";
    slot.horizon: u64, "slots", Rule::Int(4, 32), true, "Slots planned ahead; P4 switches take exactly 10.";
    slot.spread: f64, "ratio", Rule::Number(0.0, 0.9), false, "Hosts spread their exchange over this first part of the slot.";
    clock.source: ClockSource, "", Rule::Words(ClockSource::WORDS), true, "Clock that slots are counted on; tai needs the kernel's offset set.";
    clock.tai_offset_s: u64, "s", Rule::Int(0, 100), false, "TAI minus UTC; must equal the kernel's.";
    clock.max_error_ms: Option<u64>, "ms", Rule::Int(1, 1000), false, "Above this error bound slots are not trusted; default: half a slot.";
    clock.require_sync: bool, "", Rule::Any, false, "false: an unsynchronised clock only degrades (test set-ups).";
    capture.cgroups: Vec<Named<std::path::PathBuf>>, "paths", Rule::List(16), false, "cgroups whose sockets are managed; auto: the root of cgroup v2.";
    capture.interfaces: Vec<Named<String>>, "", Rule::List(16), false, "Interfaces whose traffic is managed; auto: physical links with a route.";
    capture.threshold_bytes: u64, "bytes", Rule::Int(0, 1 << 30), false, "Sent in one direction before a socket of a known job counts as a tensor flow.";
    capture.ports_exclude: Vec<std::ops::RangeInclusive<u16>>, "ports", Rule::Ports(64), false, "TCP ports never touched.";
    capture.peers: Networks, "networks", Rule::Networks(64), false, "Only flows to these networks; empty: any.";
    capture.jobs: Vec<JobSource>, "", Rule::Words(JobSource::WORDS), false, "Ways to recognise a job.";
    capture.environ: bool, "", Rule::Any, false, "Read /proc/PID/environ for job ids, roles and ranks.";
    capture.progress_dir: OptPath, "path", Rule::Path, true, "Directory of progress pages; default: progress in node.run_dir.";
    enforce.backend: Backend, "", Rule::Words(Backend::WORDS), true, "How orders are enforced; auto: the best that works here.";
    enforce.require: Require, "", Rule::Words(Require::WORDS), false, "Do not start with less than this.";
    enforce.max_flows: u64, "flows", Rule::PowerOfTwo(64, 65536), true, "Rows of the kernel's tables.";
    enforce.floor_mbps: f64, "Mbit/s", Rule::Number(1.0, 1000.0), false, "A flow that waits keeps this rate.";
    enforce.floor_ratio: f64, "ratio", Rule::Number(0.0, 0.1), false, "Floor as part of the path's bottleneck; the larger of the two holds.";
    enforce.deadline_slots: u64, "slots", Rule::Int(2, 10), false, "Life of an order; past it the kernel lets go. At most 1 s.";
    enforce.max_step_up: f64, "ratio per slot", Rule::Number(1.2, 8.0), false, "Largest step up after adoption and while a view is not fresh.";
    enforce.coast_ms: u64, "ms", Rule::Int(0, 10_000), false, "Life of the last orders after SIGTERM; must cover a restart.";
    enforce.loss_guard_ratio: f64, "ratio", Rule::Number(0.005, 0.2), false, "Lost part of the delivered that caps a flow.";
    enforce.release_to: ReleaseTo, "", Rule::Words(ReleaseTo::WORDS), false, "Congestion control of a socket that is given back.";
    enforce.sysctls: bool, "", Rule::Any, false, "Set tcp_tso_rtt_log and tcp_wmem's maximum; restored at exit.";
    schedule.policy: Policy, "", Rule::Words(Policy::WORDS), false, "The rule of allocation.";
    schedule.promote_kappa: f64, "", Rule::Number(1.0, 16.0), false, "A round older than kappa (1+D) m goes first.";
    schedule.fair_floor: f64, "ratio", Rule::Number(0.0, 1.0), false, "Part of the equal share every flow keeps on links with unmanaged traffic.";
    schedule.fair_floor_alone: f64, "ratio", Rule::Number(0.0, 1.0), false, "The same on all other links.";
    schedule.delay_weight: f64, "slots", Rule::Number(0.0, 100.0), false, "primal-dual: slots one unit of price is worth.";
    schedule.price_mu: f64, "", Rule::Number(1.1, 1e6), false, "primal-dual: base of the exponential price.";
    schedule.probe_gain: f64, "ratio", Rule::Number(1.0, 2.0), false, "What a flow may try, as a multiple of what it was seen to take.";
    schedule.history_slots: u64, "slots", Rule::Int(1, 32), false, "Slots of history behind the best delivered rate.";
    schedule.events: bool, "", Rule::Any, false, "React inside a slot.";
    schedule.work_conserving: bool, "", Rule::Any, false, "Fill what nobody uses.";
    schedule.max_wait_ms: Option<u64>, "ms", Rule::Int(0, 60_000), false, "A round is never deferred longer; default: 20 slots.";
    switch.stale_slots: u64, "slots", Rule::Int(1, 16), false, "Slots a switch's view is held before it decays.";
    switch.copies: u64, "", Rule::Int(1, 3), false, "Announcements per slot over UDP.";
    peer.listen: Addresses, "addresses", Rule::Addresses(4), true, "gRPC between hosts; [] = off; one port for the cluster. Beyond loopback only with peer.peers or peer.open.";
    peer.peers: Networks, "networks", Rule::Networks(1024), true, "Who may connect to peer.listen: networks that hold the hosts of the cluster.";
    peer.open: bool, "", Rule::Any, true, "Let everybody connect who reaches peer.listen; a condition keeps telling.";
    peer.networks: Networks, "networks", Rule::Networks(8), false, "Networks of the hosts' exchange addresses; empty: a host's first address.";
    topology: OptPath, "path", Rule::Path, false, "topology.json, where paths of flows are read.";
    cross_traffic.source: CrossSource, "", Rule::Words(CrossSource::WORDS), false, "Where the load of unmanaged traffic on own links is read.";
    cross_traffic.file: OptPath, "path", Rule::Path, false, "One line per link: interface, space, bit/s; for source = \"file\".";
    http.listen: Addresses, "addresses", Rule::Addresses(4), true, "HTTP for status and metrics; [] = off.";
    http.details: Details, "", Rule::Words(Details::WORDS), false, "Who may read the page and /api.";
    metrics.jobs: MetricJobs, "", Rule::Words(MetricJobs::WORDS), false, "Label job_id or none.";
    metrics.max_jobs: u64, "", Rule::Int(0, 256), false, "Live job ids; more are summed as _other.";
    metrics.flows: MetricFlows, "", Rule::Words(MetricFlows::WORDS), false, "Series per flow.";
    metrics.max_flows: u64, "", Rule::Int(1, 256), false, "Flows with series of their own.";
    timeline.seconds: u64, "s", Rule::Int(0, 3600), false, "Length of the ring of decisions.";
    timeline.max_bytes: u64, "bytes", Rule::Int(0, 1 << 30), false, "Memory of the ring of decisions.";
    control.group: String, "", Rule::Any, false, "Group whose members may change the mode.";
    log.level: String, "", Rule::Any, false, "Filter of log lines.";
    log.format: LogFormat, "", Rule::Words(LogFormat::WORDS), false, "Form of log lines; auto: journald, text on a terminal, else json.";
}

keys! { LINK_KEYS: LinkEntry, "The keys of one `[[links]]` entry.";
    name: String, "", Rule::Any, false, "The interface.";
    gbps: Option<f64>, "Gbit/s", Rule::Number(0.001, 1600.0), false, "Rate on the wire, 10^9 bit/s; default: from the topology, else from the kernel.";
    reserve: f64, "ratio", Rule::Number(0.0, 0.5), false, "Part left free.";
}

keys! { SWITCH_KEYS: SwitchEntry, "The keys of one `[[switches]]` entry. Every switch that answers, the same on all hosts: a job's hosts meet at one of them.";
    name: String, "", Rule::Name, false, "The switch's name in the topology.";
    address: HostPort, "", Rule::HostPort, false, "Where it answers.";
    transport: Transport, "", Rule::Words(Transport::WORDS), false, "session: one stream; unary: two calls per slot; udp: datagrams.";
}

/// Keys that are known and refused, with the reason.
pub const NOT_BUILT: &[(&str, &str)] = &[
    ("peer.tls", "TLS between hosts is not built yet; leave the key out and keep the exchange on its own network"),
    ("switches.tls", "TLS to switches is not built yet; leave the key out and keep the exchange on its own network"),
];

/// The commented defaults: a valid `sluiced.toml` in which every key stands with its default, range and sentence.
pub fn commented_defaults() -> String {
    use std::fmt::Write as _;
    let config = Config::default();
    let mut out = String::from("# sluiced.toml: every key with its default. Units are in the names.\n");
    let mut table = "";
    // A key outside any table may not follow a table header.
    let (roots, tabled): (Vec<_>, Vec<_>) = KEYS.iter().partition(|key| !key.path.contains('.'));
    for key in roots.into_iter().chain(tabled) {
        let (head, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if head != table {
            let _ = write!(out, "\n[{head}]\n");
            table = head;
        }
        let restart = if key.restart { " Needs a restart." } else { "" };
        let unit = if key.unit.is_empty() { String::new() } else { format!(" [{}]", key.unit) };
        let _ = writeln!(out, "# {}{unit} Allowed: {}.{restart}", key.meaning, key.rule.allowed());
        let value = (key.get)(&config);
        let unset = value.is_empty() || value == "\"\"";
        let _ = writeln!(out, "{}{name} = {value}", if unset { "# " } else { "" });
    }
    out.push_str("\n# [[links]]\n");
    for key in LINK_KEYS {
        let _ = writeln!(out, "# {} = {}  # {}", key.path, (key.get)(&LinkEntry::default()), key.meaning);
    }
    out.push_str("\n# [[switches]]\n");
    for key in SWITCH_KEYS {
        let _ = writeln!(out, "# {} = {}  # {}", key.path, (key.get)(&SwitchEntry::default()), key.meaning);
    }
    out
}
