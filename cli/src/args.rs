//! The command line: every command says what it is for and shows one example.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use sluice_schedule::Nanos;
use sluice_wire::text::parse_duration;

use crate::audit::AuditArgs;
use crate::bugreport::args::BugreportArgs;
use crate::config::args::ConfigCmd;
use crate::doctor::args::DoctorArgs;
use crate::fleet::args::FleetCmd;
use crate::global::Global;
use crate::man::ManArgs;
use crate::metrics::MetricsArgs;
use crate::peer::Peer;
use crate::plan::args::PlanCmd;
use crate::report::ReportArgs;
use crate::sim::args::SimCmd;
#[cfg(feature = "testbed")]
use crate::testbed::args::TestbedCmd;
use crate::tls::TlsCmd;
use crate::top::args::TopArgs;
use crate::topology::args::TopologyCmd;
use crate::why::WhyArgs;

/// Sluice schedules the network flows of training jobs. This command shows what it does and why.
#[derive(Debug, Parser)]
#[command(
    name = "sluice",
    version,
    propagate_version = true,
    disable_help_subcommand = false,
    after_help = "Example:\n  sluice status              is it working, and what does it do now\n  sluice explain 0x1a3       why this flow has this rate\n  sluice doctor              what works on this host, what does not, and the fix\n\nThe words slot, horizon, headroom and lease are explained by: sluice concepts\n\nExit status: 0 done; 1 failed; 2 wrong usage or input; 3 the answer is no; 4 daemon not reachable\nor not permitted; 5 limit reached with a partial result; 130 interrupted."
)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Cmd,
}

#[derive(Debug, Subcommand)]
pub enum Cmd {
    /// Is it working, and what does it do now?
    ///
    /// Example: sluice status --check && echo scheduling
    #[command(visible_alias = "st")]
    Status(StatusArgs),
    /// Live view of links, jobs and flows; or of what a file says
    ///
    /// Example: sluice top --job 4711
    ///
    /// Example: sluice top --replay trace.json --at 20s
    Top(TopArgs),
    /// Jobs of this host: their round, its progress, and what stalls it
    ///
    /// Example: sluice jobs 4711
    #[command(alias = "job")]
    Jobs(JobsArgs),
    /// Flows this host sends: ordered and delivered rates, and why not more
    ///
    /// Example: sluice flows --job 4711 --sort error -n 10
    #[command(alias = "flow")]
    Flows(FlowsArgs),
    /// Links: capacity, load now and in the next slots
    ///
    /// Example: sluice links --slots
    #[command(alias = "link")]
    Links(LinksArgs),
    /// Switches (and peers) that keep load tables: are they heard, how old is their news
    ///
    /// Example: sluice switches leaf-2
    #[command(alias = "switch")]
    Switches(SwitchesArgs),
    /// What will happen in the next slots
    ///
    /// Example: sluice schedule 4711 --slots 10
    Schedule(ScheduleArgs),
    /// Why a flow has its rate, or had it in a slot that is over
    ///
    /// Example: sluice explain 0x1a3
    ///
    /// Example: sluice explain 0x1a3 --slot -10
    Explain(ExplainArgs),
    /// Why a job is slow: where the time of its last rounds went, and whose it is
    ///
    /// It reads the flight record, which sluiced keeps of the last minutes (flight.* in its configuration), also of a daemon
    /// that is dead. One host sees its own side only; with the records of the job's other hosts (--with, --from) it is known
    /// why those were waited for.
    ///
    /// Example: sluice why vgg19 --rounds 50 --with gpu-18,gpu-19
    ///
    /// Example: sluice why vgg19 --from /var/lib/sluice/flight.ring
    Why(WhyArgs),
    /// The slot clock against the system clock
    ///
    /// Example: sluice clock
    Clock,
    /// Show or set the mode: observe, active or bypass
    ///
    /// Example: sluice mode bypass --for 10m --reason "is it Sluice's fault?"
    Mode(ModeArgs),
    /// Read the configuration again
    ///
    /// Example: sluice reload --reason "new links entry"
    Reload(ReloadArgs),
    /// Give every socket back to its earlier congestion control and stay in bypass
    ///
    /// Example: sluice drain --job 4711
    Drain(DrainArgs),
    /// Show or change the log filter at run time
    ///
    /// A new filter replaces the whole one: without a level for all else, as `info` in the example, all else is off.
    ///
    /// Example: sluice log info,sluiced=debug --for 5m
    Log(LogArgs),
    /// The commands that this host's daemon was given: who, what, why, and what came of it
    ///
    /// Example: sluice audit --last 5
    Audit(AuditArgs),
    /// What the daemon tells Prometheus, on stdout or as a file for node_exporter
    ///
    /// Example: sluice metrics --textfile /var/lib/prometheus/node-exporter/sluice.prom
    Metrics(MetricsArgs),
    /// Export what was ordered and delivered, slot by slot
    ///
    /// Example: sluice timeline --last 60s --format chrome out.json   (opens in ui.perfetto.dev)
    #[command(args_conflicts_with_subcommands = true)]
    Timeline(TimelineArgs),
    /// Try what Sluice needs on this host; says what works, what not, what it costs, and the fix
    ///
    /// It exits 3 where something does not work; with --traces where something of Sluice is on this host.
    ///
    /// Example: sluice doctor --json
    Doctor(DoctorArgs),
    /// Put what somebody needs who was not there into one file, with addresses and host names hashed
    ///
    /// Example: sluice bugreport --out report.tar.gz
    Bugreport(BugreportArgs),
    /// Run scenarios on real network namespaces of this host (needs root)
    ///
    /// Example: sluice testbed run scenario.toml --policy sluice --policy fair:cubic
    #[cfg(feature = "testbed")]
    #[command(subcommand)]
    Testbed(TestbedCmd),
    /// Run scenarios in virtual time: thousands of hosts, and the schedulers that Sluice is compared with
    ///
    /// Example: sluice sim run scenario.toml --policy fair --policy sluice
    #[command(subcommand)]
    Sim(SimCmd),
    /// Fabrics as files: make them by rule, read other forms, look at them
    ///
    /// Example: sluice topology gen dgx-a100 --boxes 2 --out a100.json
    #[command(subcommand, visible_alias = "topo")]
    Topology(TopologyCmd),
    /// Plan a collective on a fabric, and check plans
    ///
    /// Example: sluice plan forestcoll --topology a100.json --collective all-gather --out plan.json
    #[command(subcommand)]
    Plan(PlanCmd),
    /// A fleet that agrees through etcd: how its hosts are, what they are told, and rollouts group by group
    ///
    /// Example: sluice fleet rollout --to active --groups rack1,rack2 --pause 10m
    Fleet(FleetCmd),
    /// Certificates by which hosts and switches prove to each other who they are: make them, renew them, look at them
    ///
    /// A cluster that has an authority of its own (SPIRE, step-ca, files) needs none of this but `show`: any certificate with the
    /// URI name spiffe://CLUSTER/host/NAME or spiffe://CLUSTER/switch/NAME will do. For those who have none, in four steps:
    ///
    ///   1. sluice tls init --dir ca --cluster pod-a                 on a machine that is no host of the cluster
    ///   2. sluice tls issue --ca ca --host gpu-17 --switch leaf-1   a directory for each; copy it to /etc/sluice/tls there
    ///   3. `[tls]` with ca, cert and key in sluiced.toml and sluice-switch.toml, then restart both
    ///   4. sluice tls rotate --ca ca --due DIR…                     before they end; daemons take the new files by themselves
    ///
    /// Example: sluice tls show /etc/sluice/tls
    #[command(subcommand, verbatim_doc_comment)]
    Tls(TlsCmd),
    /// Configuration: judge it, show what holds and where it was set, and print what may stand in it
    ///
    /// Example: sluice config show --changed --origin
    #[command(subcommand)]
    Config(ConfigCmd),
    /// Every limit: how much of it is used, how much may be, and what happens beyond
    ///
    /// Example: sluice limits --fields name,used,allowed
    Limits,
    /// Results of earlier runs on one page, which asks nothing of anybody
    ///
    /// Example: sluice report mix.fair.json mix.sluice.json out.html --baseline fair
    Report(ReportArgs),
    /// Versions of this command, of its formats, and of the daemon if it answers
    ///
    /// Example: sluice version --json
    Version,
    /// The words that Sluice uses, in 30 lines
    ///
    /// Example: sluice concepts
    Concepts,
    /// Manual pages of every command, of the two daemons, and of the files that operators write
    ///
    /// Example: sluice man /usr/share/man/man1
    Man(ManArgs),
    /// Completions for a shell
    ///
    /// Example: sluice completions bash > /etc/bash_completion.d/sluice
    Completions {
        /// The shell to complete for
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Debug, ClapArgs)]
pub struct StatusArgs {
    /// Exit 0 if the state is ok, 3 if not
    #[arg(long)]
    pub check: bool,
    /// Wait until the daemon is ready, or its state ok
    #[arg(long, value_enum, value_name = "WHAT")]
    pub wait: Option<WaitFor>,
    /// How long to wait
    #[arg(long, default_value = "30s", value_parser = parse_duration, value_name = "TIME")]
    pub timeout: Nanos,
}

/// What `status --wait` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// The state is ok
    Ok,
    /// The first slot ran
    Ready,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct JobsArgs {
    /// One job in full
    pub id: Option<String>,
    /// Also jobs that ended within the last hour
    #[arg(long)]
    pub all: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct FlowsArgs {
    /// Only flows of this job
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = ["managed", "observed", "released", "other"])]
    pub state: Option<String>,
    /// Only to this network, to this address, or to addresses that begin so
    #[arg(long, value_name = "CIDR")]
    pub peer: Option<Peer>,
    /// Order, largest first
    #[arg(long, value_enum, default_value_t = FlowSort::Rate)]
    pub sort: FlowSort,
    /// At most this many
    #[arg(short = 'n', long = "number", default_value_t = 50, value_name = "N")]
    pub number: usize,
}

/// Order of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowSort {
    /// Ordered rate
    Rate,
    /// Distance between ordered and delivered
    Error,
    /// Age
    Age,
    /// Retransmissions
    Retrans,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct LinksArgs {
    /// Only the link of this name
    pub name: Option<String>,
    /// Load of every slot of the horizon in numbers
    #[arg(long)]
    pub slots: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct SwitchesArgs {
    /// Only the switch of this name
    pub name: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ScheduleArgs {
    /// Job or flow id
    pub id: Option<String>,
    /// How many slots ahead
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub slots: u8,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ExplainArgs {
    /// Flow or job id, as `sluice flows` shows it
    pub id: String,
    /// In this slot, as far back as the daemon's timeline reaches (timeline.seconds); -10: ten slots ago
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub slot: Option<i64>,
    /// With --slot: by a trace that `sluice timeline` wrote
    #[arg(long, requires = "slot", value_name = "FILE")]
    pub from: Option<PathBuf>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ModeArgs {
    /// The mode wanted, or `fleet`: that of this host's group in its fleet; none: show the present one
    #[arg(value_parser = ["observe", "active", "bypass", "fleet"])]
    pub mode: Option<String>,
    /// It returns by itself after this time
    #[arg(long = "for", value_parser = parse_duration, value_name = "TIME", requires = "mode")]
    pub time: Option<Nanos>,
    /// Only this job (bypass)
    #[arg(long, value_name = "ID", requires = "mode")]
    pub job: Option<String>,
    /// Keep it over a restart, in the daemon's state directory
    #[arg(long, requires = "mode")]
    pub persist: bool,
    /// Why, for the daemon's log and for `sluice audit`
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ReloadArgs {
    /// Why, for `sluice audit`
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct DrainArgs {
    /// Only this job
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Why, for `sluice audit`
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct LogArgs {
    /// New filter, for example `info,sluiced=debug`; none: show the present one
    pub filter: Option<String>,
    /// It returns by itself after this time
    #[arg(long = "for", value_parser = parse_duration, value_name = "TIME", requires = "filter")]
    pub time: Option<Nanos>,
    /// Why, for `sluice audit`
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct TimelineArgs {
    #[command(subcommand)]
    pub merge: Option<TimelineCmd>,
    /// How far back it begins
    #[arg(long, default_value = "60s", value_parser = parse_duration, value_name = "TIME")]
    pub last: Nanos,
    /// Form of the file
    #[arg(long, value_enum, default_value_t = TimelineFormat::Chrome)]
    pub format: TimelineFormat,
    /// Only this job
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Go on with what comes, line by line, until interrupted (with --format csv or jsonl)
    #[arg(long)]
    pub follow: bool,
    /// Where to write; none or `-`: stdout
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum TimelineCmd {
    /// Put the traces of several hosts on one axis, by slot number
    ///
    /// Example: sluice timeline merge gpu-17.json gpu-18.json --out both.json
    Merge {
        /// Chrome traces that `sluice timeline` wrote
        #[arg(required = true, value_name = "TRACE")]
        traces: Vec<PathBuf>,
        /// Where to write; none or `-`: stdout
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Form of an exported timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimelineFormat {
    /// Chrome trace JSON: Perfetto, chrome://tracing
    Chrome,
    /// One line per flow and slot
    Csv,
    /// The same as JSON objects
    Jsonl,
    /// Rounds as OpenTelemetry spans, for a collector
    OtlpJson,
}
