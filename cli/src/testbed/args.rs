//! The command line of `sluice testbed`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as ClapArgs, Subcommand};
use sluice_testbed::{run, standing};

#[derive(Clone, Debug, Subcommand)]
pub enum TestbedCmd {
    /// Run a scenario under one or several policies and compare them
    ///
    /// Example: sluice testbed run scenario.toml --policy sluice --policy fair:cubic --report out.html
    Run(TestbedRunArgs),
    /// Check a scenario and its policies without running anything
    ///
    /// Example: sluice testbed validate scenario.toml --policy sluice
    Validate {
        /// The scenario (TOML or JSON)
        #[arg(value_name = "SCENARIO")]
        scenario: PathBuf,
        /// A policy; repeat it
        #[arg(long = "policy", value_name = "P")]
        policies: Vec<Asked>,
    },
    /// Make a scenario's network and leave it standing, without jobs and daemons
    ///
    /// Its hosts and switches are namespaces of one process, which keeps them until `sluice testbed down`, or until it is killed.
    ///
    /// Example: sluice testbed up testbed/scenarios/pair.toml --name pair
    Up(UpArgs),
    /// Take a standing network down, with all that runs in it; without a name: which are up
    ///
    /// Example: sluice testbed down pair
    Down(DownArgs),
    /// Run a command in a host or switch of a standing network
    ///
    /// Example: sluice testbed exec pair h0 -- ping -c 1 10.0.0.2
    Exec(ExecArgs),
    /// What `up` starts
    #[command(hide = true)]
    Keep(KeepArgs),
}

#[derive(Clone, Debug, ClapArgs)]
pub struct UpArgs {
    /// The scenario (TOML or JSON)
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// What it is called; none: the scenario's name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Cables do not delay, whatever the scenario says
    #[arg(long)]
    pub no_delays: bool,
    /// Where it is noted
    #[arg(long, value_name = "DIR", default_value = standing::DIR)]
    pub dir: PathBuf,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct DownArgs {
    /// The network
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Where it is noted
    #[arg(long, value_name = "DIR", default_value = standing::DIR)]
    pub dir: PathBuf,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct ExecArgs {
    /// The network
    #[arg(value_name = "NAME")]
    pub network: String,
    /// The host or switch
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Where it is noted
    #[arg(long, value_name = "DIR", default_value = standing::DIR)]
    pub dir: PathBuf,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct KeepArgs {
    pub scenario: PathBuf,
    #[arg(long)]
    pub name: String,
    #[arg(long)]
    pub no_delays: bool,
    #[arg(long)]
    pub dir: PathBuf,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct TestbedRunArgs {
    /// The scenario (TOML or JSON)
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// A policy to run; repeat it to compare several; none: those of the scenario.
    /// fair, fair:cubic, fair:reno, fair:bbr, fair:mltcp, sluice, sluice:srpt-p, sluice:primal-dual,
    /// sluice:primal-dual-literal, sluice:fair;
    /// with @nic hosts keep the tables of their own links, without switches
    #[arg(long = "policy", value_name = "P")]
    pub policies: Vec<Asked>,
    /// How often each policy runs; they take turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000), value_name = "N")]
    pub repeats: u16,
    /// Write a report: one HTML file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Directory for job files, configurations and logs; none: a temporary one
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Keep those files after a run that went well
    #[arg(long)]
    pub keep: bool,
    /// Daemons record their jobs' work, for `sluice sim replay`; the recordings are among those files
    #[arg(long)]
    pub record: bool,
    /// Cables do not delay, whatever the scenario says: what delays them takes processor time
    #[arg(long)]
    pub no_delays: bool,
}

/// A policy as it was asked for.
#[derive(Clone, Debug)]
pub enum Asked {
    /// In the words of scenarios, which also name what only the simulator has.
    Scenario(sluice_scenario::Policy),
    /// With `@nic`, which only the testbed has.
    Nic(run::Policy),
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Asked, String> {
        if text.ends_with("@nic") {
            text.parse().map(Asked::Nic).map_err(|error: run::RunError| error.to_string())
        } else {
            text.parse().map(Asked::Scenario)
        }
    }
}
