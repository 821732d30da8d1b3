//! The command line of `sluice-experiment`, for the program itself and for whoever reads it without running anything.
#![allow(missing_docs, reason = "doc comments are the help texts")]

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use sluice_scenario::Set;

use super::{
    adversary, beside, capacity, cost, direct, epochs, fail_open, fleet, fluid, forest, mix, others, pair, real,
    scoreboard, wan, why,
};
use crate::chaos::{self, soak};
use crate::run::Policy;

/// Small measured experiments on a fabric of network namespaces. Needs root.
#[derive(Parser)]
#[command(name = "sluice-experiment", version, about)]
pub struct Arguments {
    /// Directory for job files, configurations and logs; default: a new one below the temporary directory.
    #[arg(long, global = true)]
    pub dir: Option<PathBuf>,
    #[command(subcommand)]
    pub what: What,
}

#[derive(Subcommand)]
pub enum What {
    /// How much this machine carries: a ring over all hosts at several link rates.
    Capacity(capacity::Settings),
    /// Two jobs on one link, compute = communication: iteration time together against alone.
    Pair(pair::Settings),
    /// One unmanaged CUBIC flow beside managed flows, against beside one CUBIC flow.
    Beside(beside::Settings),
    /// Connections of another user on a link that no job uses, on a host with a job: with daemons against without, by turns.
    Others(others::Settings),
    /// A job beside a rogue host, as itself, as another and as nobody, by turns with and without it, all with TLS.
    Adversary(adversary::Settings),
    /// CPU and memory of one daemon.
    Cost(cost::Settings),
    /// A collective by the trees of a plan against the ring, on a three-tier fabric with unequal links.
    Forest(forest::Settings),
    /// A collective by the steps of a breadth-first schedule, on hosts wired to each other without a switch.
    Direct(direct::Settings),
    /// A collective by chunks in epochs against the ring, on eight hosts wired as the GPUs of an NDv2 machine.
    Epochs(epochs::Settings),
    /// An all-gather by a fluid program's trees against ForestColl's, where a memory copies and links share limits.
    Fluid(fluid::Settings),
    /// Collectives between sites of a wide-area network by the plans of several methods, against what they claim.
    Wan(wan::Settings),
    /// The daemon is killed, stopped and cut off under load.
    FailOpen(fail_open::Settings),
    /// Faults, load and exhaustion row by row, each figure against its bar; docs/chaos.md has the table.
    Chaos(chaos::Settings),
    /// Hours of the same: virtual days, fifty daemons under faults, thousands of flows; what grows.
    Soak(soak::Settings),
    /// Daemons in namespaces with an etcd that is killed and cut off, and rollouts; one returns for a job that gets slower.
    Fleet(fleet::Settings),
    /// A scenario file under several policies, as `sluice testbed run` does, printing every run as it is.
    Scenario {
        /// Scenario file, TOML or JSON.
        file: PathBuf,
        /// Policies, which take turns.
        #[arg(long, value_delimiter = ',', default_value = "fair:cubic,fair:reno,fair:bbr")]
        policy: Vec<Policy>,
        /// How often each policy runs.
        #[arg(long, default_value_t = 1)]
        repeats: usize,
        /// A key and the value it gets instead of the scenario's; repeat it.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<Set>,
        /// Only so many jobs, the first that arrive.
        #[arg(long)]
        jobs: Option<usize>,
        /// At most so many iterations each; arrivals and faults come sooner by as much.
        #[arg(long)]
        iterations: Option<u32>,
        /// Daemons record their jobs' work, for `sluice sim replay`.
        #[arg(long)]
        record: bool,
        /// Cables do not delay, whatever the scenario says: a relay in user space costs processor time.
        #[arg(long)]
        no_delays: bool,
        /// Overrides of `testbed.queue_bytes`.
        #[arg(long)]
        queue: Option<u64>,
    },
    /// Stock jobs (PyTorch DDP over Gloo, Open MPI, MXNet) that share every link; needs `cargo xtask setup --workloads`.
    Real(real::Settings),
    /// Cases under policies by turns, a file a run; runs what is missing, then writes tables and a picture of what is there.
    Scoreboard(scoreboard::Settings),
    /// A job whose rounds are made longer by one cause after the other, and what its hosts' flight records say of it.
    Why(why::Settings),
    /// Four jobs on six hosts from time 0 (the simulator's fixed-mix), under several policies.
    Mix(mix::Settings),
}
