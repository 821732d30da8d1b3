//! The command line of `sluice testbed`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

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
        /// The scenario
        #[arg(value_name = "SCENARIO")]
        scenario: PathBuf,
        /// A policy; repeat it
        #[arg(long = "policy", value_name = "P")]
        policies: Vec<String>,
    },
}

#[derive(Clone, Debug, ClapArgs)]
pub struct TestbedRunArgs {
    /// The scenario (TOML or JSON)
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// A policy to run; repeat it to compare several; none: those of the scenario.
    /// fair, fair:cubic, fair:reno, fair:bbr, sluice, sluice:srpt-p, sluice:primal-dual, sluice:fair;
    /// with @nic hosts keep the tables of their own links, without switches
    #[arg(long = "policy", value_name = "P")]
    pub policies: Vec<String>,
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
}
