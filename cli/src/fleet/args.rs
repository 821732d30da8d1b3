//! The command line of `sluice fleet`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use sluice_etcd::Endpoint;
use sluice_fleet::key::{NAME, Name};
use sluice_schedule::Nanos;
use sluice_wire::snapshot::Mode;
use sluice_wire::text::parse_duration;

#[derive(Clone, Debug, ClapArgs)]
pub struct FleetCmd {
    #[command(flatten)]
    pub etcd: EtcdArgs,
    #[command(subcommand)]
    pub what: FleetWhat,
}

/// Where the fleet's etcd is; what is not said here is read in the daemon's configuration on this host.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "etcd")]
pub struct EtcdArgs {
    /// Members of etcd: https://host:port, several with commas
    #[arg(long, global = true, env = "SLUICE_ETCD", value_delimiter = ',', value_parser = endpoint, value_name = "URL")]
    pub etcd: Vec<Endpoint>,
    /// Where the fleet's keys begin; none: /sluice
    #[arg(long, global = true, value_name = "PATH")]
    pub prefix: Option<String>,
    /// The cluster; none: `default`
    #[arg(long, global = true, value_parser = name, value_name = "NAME")]
    pub cluster: Option<Name>,
    /// PEM file of the authority that signed etcd's certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// PEM file of the certificate to show to etcd
    #[arg(long, global = true, requires = "tls_key", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, global = true, requires = "tls_cert", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// The name in etcd's certificate, if it is not the endpoint's
    #[arg(long, global = true, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// The daemon's configuration, whose section fleet and node.cluster say the same
    #[arg(long, global = true, env = "SLUICE_CONFIG", default_value = "/etc/sluice/sluiced.toml", value_name = "FILE")]
    pub config: PathBuf,
}

#[derive(Clone, Debug, Subcommand)]
pub enum FleetWhat {
    /// The hosts of the fleet: mode, state, conditions, benefit, version
    ///
    /// Each host is asked over HTTP, which it answers beyond itself with http.listen on an address of its own and http.details =
    /// "all". One that does not answer is named.
    ///
    /// Example: sluice fleet status --groups rack1,rack2
    Status(FleetStatusArgs),
    /// What lies in etcd: all keys, or one value
    ///
    /// Example: sluice fleet show hosts/modes/rack1
    Show(FleetShowArgs),
    /// Write one value; it is judged first
    ///
    /// Example: sluice fleet set mode rack1 observe --reason "before the upgrade"
    #[command(subcommand)]
    Set(FleetSetCmd),
    /// Take a topology, the switches or a plan away from hosts, which then go by their own files
    ///
    /// Example: sluice fleet unset plan ring
    Unset(FleetUnsetArgs),
    /// Write what a file says: groups and their hosts, topology, switches, plans
    ///
    /// A group that is new begins in observe. What is the same already is not written again.
    ///
    /// Example: sluice fleet import fleet.toml --dry-run
    Import(FleetImportArgs),
    /// Give groups a mode one after the other, and their earlier one back when something says that it is not good
    ///
    /// It runs as long as the rollout does. Where it is interrupted the rollout stays as it is, with nobody who judges it, until
    /// `sluice fleet resume` or `sluice fleet abort`.
    ///
    /// Example: sluice fleet rollout --to active --groups rack1,rack2 --pause 10m
    Rollout(FleetRolloutArgs),
    /// Go on with a rollout, here: one that was paused, or whose terminal is gone
    ///
    /// Example: sluice fleet resume
    Resume(FleetDriveArgs),
    /// Let a rollout touch no further group until it is resumed
    ///
    /// Example: sluice fleet pause
    Pause,
    /// End a rollout and give its groups their earlier mode
    ///
    /// Example: sluice fleet abort
    Abort(FleetAbortArgs),
}

#[derive(Clone, Debug, ClapArgs)]
pub struct FleetStatusArgs {
    /// Only these groups
    #[arg(long, value_delimiter = ',', value_parser = name, value_name = "A,B")]
    pub groups: Vec<Name>,
    /// Exit 0 if every host answers, is ok, and has its group's mode; 3 if not
    #[arg(long)]
    pub check: bool,
    /// Hosts that are asked at a time
    #[arg(long, default_value = "32", value_name = "N")]
    pub parallel: NonZeroUsize,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct FleetShowArgs {
    /// A key, as the list shows it; none: the list
    pub key: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum FleetSetCmd {
    /// The mode of a group, at once
    ///
    /// Example: sluice fleet set mode rack1 bypass
    Mode {
        /// The group
        #[arg(value_parser = name)]
        group: Name,
        /// The mode
        #[arg(value_parser = mode)]
        mode: Mode,
        /// Why, for whoever reads it in etcd
        #[arg(long, default_value = "", value_name = "TEXT")]
        reason: String,
    },
    /// The topology of all hosts
    ///
    /// Example: sluice fleet set topology topology.json
    Topology {
        /// topology.json
        file: PathBuf,
    },
    /// A plan, which hosts keep as a file for jobs to name
    ///
    /// Example: sluice fleet set plan ring plan.json
    Plan {
        /// Its name
        #[arg(value_parser = name)]
        name: Name,
        /// plan.json
        file: PathBuf,
    },
    /// Say that an etcd which was restored from a copy counts as it is now: hosts believe it from here on
    ///
    /// Example: sluice fleet set epoch
    Epoch,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct FleetUnsetArgs {
    /// What to take away
    #[arg(value_parser = ["topology", "switches", "plan"])]
    pub what: String,
    /// The plan's name
    #[arg(value_parser = name, required_if_eq("what", "plan"))]
    pub name: Option<Name>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct FleetImportArgs {
    /// The file (TOML)
    pub file: PathBuf,
    /// Only say what would be written
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct FleetRolloutArgs {
    /// The mode for all groups
    #[arg(long, value_parser = mode, value_name = "MODE")]
    pub to: Mode,
    /// The groups, in order
    #[arg(long, required = true, value_delimiter = ',', value_parser = name, value_name = "A,B")]
    pub groups: Vec<Name>,
    /// Wait after each group, the last one included
    #[arg(long, default_value = "10m", value_parser = parse_duration, value_name = "TIME")]
    pub pause: Nanos,
    /// A host that has not taken the mode by then, or does not answer, ends the rollout
    #[arg(long, default_value = "2m", value_parser = parse_duration, value_name = "TIME")]
    pub patience: Nanos,
    /// So many hosts of a group need not answer
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub unanswered: usize,
    /// Why, for whoever reads it in etcd
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub reason: String,
    #[command(flatten)]
    pub drive: FleetDriveArgs,
}

/// How a rollout is watched from here.
#[derive(Clone, Debug, ClapArgs)]
pub struct FleetDriveArgs {
    /// Hosts are looked at this often; what is wrong counts when three looks in a row see it
    #[arg(long, default_value = "5s", value_parser = parse_duration, value_name = "TIME")]
    pub look: Nanos,
    /// Also ask this Prometheus for alerts: one that begins to fire ends the rollout
    #[arg(long, value_name = "HOST:PORT")]
    pub alerts: Option<String>,
    /// Only alerts whose name begins so
    #[arg(long, default_value = "Sluice", value_name = "TEXT")]
    pub alerts_named: String,
    /// Hosts that are asked at a time
    #[arg(long, default_value = "32", value_name = "N")]
    pub parallel: NonZeroUsize,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct FleetAbortArgs {
    /// Leave the groups the mode that they have
    #[arg(long)]
    pub keep: bool,
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    Endpoint::parse(text).ok_or_else(|| format!("`{text}` is no endpoint; write https://host:port or http://host:port"))
}

fn name(text: &str) -> Result<Name, String> {
    Name::parse(text).ok_or_else(|| format!("`{text}` is no name; allowed: {NAME}"))
}

fn mode(text: &str) -> Result<Mode, String> {
    let known = Mode::ALL.into_iter().find(|mode| mode.as_str() == text);
    known.ok_or_else(|| format!("`{text}` is no mode; allowed: observe, active, bypass"))
}
