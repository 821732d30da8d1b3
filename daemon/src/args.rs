//! The command line of `sluiced`, for the program itself and for whoever prints its manual.
#![allow(
    missing_docs,
    reason = "doc comments are the help texts, also those that parts of it would take from the whole"
)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Schedules the training traffic of this host.
///
/// Finds training jobs, plans their rounds with the other hosts, and holds each flow to its rate in the kernel. If it
/// ends, for whatever reason, flows go back to ordinary congestion control by themselves.
///
/// Example: sluiced --config /etc/sluice/sluiced.toml
#[derive(Debug, Parser)]
#[command(name = "sluiced", version, about, long_about, verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub check: Check,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct Input {
    /// Configuration; sluiced.d/*.toml beside it is read after it.
    #[arg(long, global = true, value_name = "FILE", env = "SLUICE_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Check")]
pub struct Check {
    /// Judge the configuration, say everything that is wrong, and end.
    #[arg(long)]
    pub check: bool,
    /// With --check: leave out what only this host knows.
    #[arg(long, requires = "check")]
    pub offline: bool,
    /// With --check: form of the errors.
    #[arg(short, long, value_name = "FORM", default_value = "text", requires = "check")]
    pub output: Form,
    /// Print every key with its default, range and meaning, as a valid file, and end.
    #[arg(long, conflicts_with = "check")]
    pub defaults: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Undo what a daemon left outside itself: sockets, programs, pins, sysctls.
    Cleanup {
        /// Only say what would be done.
        #[arg(long)]
        dry_run: bool,
        /// Even while a daemon runs; it is told to manage nothing until it is started anew.
        #[arg(long)]
        force: bool,
        /// Only give back sockets whose order has run out.
        #[arg(long)]
        expired: bool,
    },
    /// Try what the daemon needs of this kernel and undo it; prints JSON.
    Probe,
    /// Become brain and helper as with privilege.split, try what the brain may not do, and end; prints JSON.
    Privileges,
    /// The part with the privileges, which a daemon starts for itself.
    #[command(hide = true)]
    Helper {
        /// Descriptors: socket and desk of the deciding line, socket and desk of the other.
        #[arg(long, value_delimiter = ',', required = true)]
        lines: Vec<i32>,
    },
}
