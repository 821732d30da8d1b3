//! The command line of `sluice-switch`, for the program itself and for whoever prints its manual.
#![allow(missing_docs, reason = "doc comments are the help texts")]

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{control, links};

/// Keeps the load tables of switches that cannot be programmed.
///
/// Hosts announce what they will send over which links, slot by slot, and hear what others announced. One process serves
/// many switches. It forwards traffic only with a data plane, as a programmable switch in software. Tables live in memory
/// only: after a restart they are full again within two slots, because hosts repeat their announcements in every slot.
#[derive(Parser)]
#[command(name = "sluice-switch", version, about, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// File with the configuration
    #[arg(long, default_value = "/etc/sluice/sluice-switch.toml")]
    pub config: PathBuf,
    /// Check the configuration and exit: 0 if it is good, 2 if not.
    #[arg(long)]
    pub check: bool,
    /// Threads that serve. One is best up to a thousand hosts: the tables are behind one lock anyway.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
}

#[derive(Subcommand)]
pub enum Command {
    /// Write the stories that a programmable switch is tested with
    ///
    /// Each story is a row of phases, a folder each: commands for BMv2's simple_switch_CLI, what comes in by each port and
    /// what must leave by it, as captures (N_in.pcap, N_out.pcap) that simple_switch --use-files reads. The program is
    /// switch-emulator/p4/sluice.p4.
    Vectors {
        /// Folder for the stories
        #[arg(long, value_name = "DIR")]
        pcap: PathBuf,
    },
    /// Keep a P4 switch's tables filled and its guard in time, over P4Runtime
    ///
    /// The switch runs switch-emulator/p4/sluice.p4. Without this agent it refuses all packets of Sluice two slots later,
    /// and hosts do without it. Several agents of one switch take turns by their --election.
    Control(control::Control),
    /// Print the link statements of a programmable switch's tables
    ///
    /// Ports are numbered as the topology has the switch's links; the rest of the tables is the operator's. Hosts that have the same
    /// topology know by the signatures which way a flow goes.
    Links(links::Links),
}
