//! The command line of `sluice sim`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use sluice_planners_wan::method::Method;
use sluice_scenario::{Axis, Policy, Set};

use crate::plan::args::{PlanningArgs, WAN_METHODS, WanOptionArgs, WanSourceArgs, limit};
use crate::shard::{Shard, shard};
use crate::words::choice;

#[derive(Clone, Debug, Subcommand)]
pub enum SimCmd {
    /// Run a scenario in virtual time under one or several schedulers and compare them
    ///
    /// Example: sluice sim run scenario.toml --policy fair --policy sluice --report out.html
    Run(SimRunArgs),
    /// Check a scenario and its schedulers without running anything
    ///
    /// Example: sluice sim validate scenario.toml --policy crux
    Validate {
        /// The scenario (TOML or JSON)
        #[arg(value_name = "SCENARIO")]
        scenario: PathBuf,
        /// A scheduler; repeat it
        #[arg(long = "policy", value_name = "P")]
        policies: Vec<Policy>,
    },
    /// The scenarios that are here, and the schedulers that can be run
    ///
    /// Example: sluice sim list testbed/scenarios
    List {
        /// A directory of scenarios; none: testbed/scenarios and scenarios here, then those that were installed
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Compare results of earlier runs on the same jobs
    ///
    /// Example: sluice sim compare mix.fair.json mix.sluice.json
    Compare {
        /// Files that `sluice sim run` wrote, or what `--json` of `sluice sim run` and `sluice testbed run` printed
        #[arg(required = true, value_name = "RESULT")]
        results: Vec<PathBuf>,
    },
    /// Run a grid of settings, seeds and schedulers; interrupted, it goes on where it was
    ///
    /// Example: sluice sim sweep scenario.toml --set time.slot_ms=20,60 --seeds 3 --policy fair --policy sluice --out sweep
    ///
    /// Example: sluice sim sweep scenario.toml --seeds 100 --shard 2/8 --out part2   (and with the same words --merge part1 --merge part2 … --out all)
    Sweep(SimSweepArgs),
    /// Do again, in virtual time, what daemons recorded of a cluster's jobs, under other schedulers
    ///
    /// Each recording is what one host's daemon wrote with record.file set. They become one scenario, with the same jobs, rounds and
    /// pauses, which is written and run; `sluice sim run`, `sweep` and `compare` take it from there.
    ///
    /// Example: sluice sim replay h0.jsonl h1.jsonl --topology topology.json --policy fair --policy sluice --policy oracle
    Replay(SimReplayArgs),
    /// Play collectives between sites under methods of `sluice plan wan`, event by event
    ///
    /// Rates change when a flow ends or is released; links are ideal, and nothing is in it of packets and losses. The mean time is
    /// over collectives.
    ///
    /// Example: sluice sim wan --topology instance.json --form wan --methods rate_alloc,prio --timeline flows.svg
    Wan(Box<SimWanArgs>),
}

#[derive(Clone, Debug, ClapArgs)]
pub struct SimRunArgs {
    /// The scenario (TOML or JSON)
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// A scheduler to run; repeat it to compare several; none: those of the scenario.
    /// fair, static, sluice, sluice:primal-dual, sluice:primal-dual-literal, sluice:fair, mcs, ccml, cassini, mltcp,
    /// sincronia, varys, aalo, echelonflow, crux, oracle (the rule of sluice with one mind), and bound, which is what none of them can beat
    #[arg(long = "policy", value_name = "P")]
    pub policies: Vec<Policy>,
    /// A key and the value it gets instead of the scenario's; repeat it
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<Set>,
    /// Another seed than the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write a result file per scheduler into this directory; none: output.dir of the scenario, from where you are,
    /// and where it names none no file is written
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write a report: one HTML file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Schedulers that run at the same time; it changes no result
    #[arg(long, value_name = "N", default_value = "1")]
    pub threads: NonZeroUsize,
    /// Also say where the time went: sharing, scheduler, events; how many events a second; memory
    #[arg(long)]
    pub profile: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct SimReplayArgs {
    /// Recordings, one for each host
    #[arg(required = true, value_name = "RECORDING")]
    pub recordings: Vec<PathBuf>,
    /// The network (topology.json); none: every host with its own rate on one switch that is never full
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Where the scenario goes
    #[arg(long, value_name = "FILE", default_value = "replay.json")]
    pub scenario: PathBuf,
    /// A scheduler to run; repeat it; none: fair, sluice and oracle
    #[arg(long = "policy", value_name = "P")]
    pub policies: Vec<Policy>,
    /// Write a result file per scheduler into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write a report: one HTML file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Schedulers that run at the same time; it changes no result
    #[arg(long, value_name = "N", default_value = "1")]
    pub threads: NonZeroUsize,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct SimSweepArgs {
    /// The scenario (TOML or JSON)
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// A key and the values it gets; repeat it for a grid
    #[arg(long = "set", value_name = "KEY=V1,V2")]
    pub sets: Vec<Axis>,
    /// Seeds per cell of the grid: the scenario's and those that follow it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub seeds: u16,
    /// A scheduler to run; repeat it; none: those of the scenario
    #[arg(long = "policy", value_name = "P")]
    pub policies: Vec<Policy>,
    /// Runs at the same time; none: as many as there are cores
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Directory of the result files and of table.csv; what is finished there is not run again
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Only this share of the runs, as in 2/8, and no table: the rest is for other machines; --merge puts them together
    #[arg(long, value_parser = shard, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Run nothing: take the runs that shares left in this directory, and make the table; repeat it
    #[arg(long, conflicts_with = "shard", value_name = "DIR")]
    pub merge: Vec<PathBuf>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct SimWanArgs {
    #[command(flatten)]
    pub source: WanSourceArgs,
    /// The methods to play; none: all but the portfolio and the integer programs
    #[arg(long, value_delimiter = ',', value_parser = choice(WAN_METHODS), value_name = "A,B,C")]
    pub methods: Vec<Method>,
    #[command(flatten)]
    pub options: WanOptionArgs,
    /// Draw what every flow does over time under the best of the methods: .svg or .html
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Threads that a method may use; it changes no result. None: one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// End after this time, as in 120s
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub time_limit: Option<Duration>,
}

impl SimWanArgs {
    /// The same for what planners have in common.
    pub fn planning(&self) -> PlanningArgs {
        PlanningArgs { threads: self.threads, time_limit: self.time_limit, timing: false, out: None }
    }
}
