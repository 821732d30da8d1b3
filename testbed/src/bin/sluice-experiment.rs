//! Runs one small measured experiment and prints one JSON document.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use sluice_scenario::{Scenario, Set};
use sluice_testbed::chaos::{self, soak};
use sluice_testbed::experiment::{
    Bench, adversary, beside, capacity, cost, direct, epochs, fail_open, fleet, fluid, forest, mix, others, pair, real,
    scoreboard, wan, why,
};
use sluice_testbed::run::{self, Bar, Binaries, Options, Policy};

/// Small measured experiments on a fabric of network namespaces. Needs root.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Directory for job files, configurations and logs; default: a new one below the temporary directory.
    #[arg(long, global = true)]
    dir: Option<std::path::PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// How much this machine carries: a ring over all hosts at several link rates.
    Capacity(capacity::Settings),
    /// Two jobs on one link, compute = communication: iteration time together against alone.
    Pair(pair::Settings),
    /// One unmanaged CUBIC flow beside managed flows, against beside one CUBIC flow.
    Beside(beside::Settings),
    /// Connections of another user on a link that no job uses, on a host with a job: with daemons against without, by turns.
    Others(others::Settings),
    /// A job beside a rogue host, as itself, as another and as nobody, by turns with and without it.
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
        file: std::path::PathBuf,
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

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match carry_out(&Arguments::parse()) {
        Ok((document, code)) => {
            if let Some(document) = document {
                println!("{document}");
            }
            code
        }
        Err(e) => {
            eprintln!("sluice-experiment: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Rows of chaos: a line of JSON for each as soon as it is over, and a table for people beside it. `passing`: the
/// directory is only for this run, and goes where all is well.
fn chaos_rows(bench: &Bench<'_>, settings: &chaos::Settings, passing: bool) -> anyhow::Result<Told> {
    let report = chaos::run(bench, settings, &mut |outcome| {
        if let Ok(line) = serde_json::to_string(outcome) {
            println!("{line}");
        }
        if !settings.json {
            eprint!("{}", outcome.table());
        }
    })?;
    if passing && report.pass {
        // Files for looking into; the figures are told.
        let _ = std::fs::remove_dir_all(&bench.dir);
    } else {
        eprintln!("files of the rows: {}", bench.dir.display());
    }
    Ok((None, if report.pass { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// A document, and how to end.
type Told = (Option<serde_json::Value>, ExitCode);

fn carry_out(arguments: &Arguments) -> anyhow::Result<Told> {
    if let What::Chaos(settings) = &arguments.what
        && settings.list
    {
        print!("{}", chaos::list());
        return Ok((None, ExitCode::SUCCESS));
    }
    let binaries = Binaries::find()?;
    let other = || match arguments.what {
        What::Chaos(_) => chaos::own_dir(),
        _ => std::env::temp_dir().join(format!("sluice-experiment-{}", std::process::id())),
    };
    let dir = arguments.dir.clone().unwrap_or_else(other);
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watching for signals")?;
    }
    let bench = Bench { binaries: &binaries, dir, stop: &stop };
    let document = match &arguments.what {
        What::Capacity(settings) => serde_json::to_value(capacity::capacity(&bench, settings)?)?,
        What::Pair(settings) => serde_json::to_value(pair::pair(&bench, settings)?)?,
        What::Beside(settings) => serde_json::to_value(beside::beside(&bench, settings)?)?,
        What::Others(settings) => {
            let result = others::others(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Adversary(settings) => {
            let result = adversary::adversary(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Cost(settings) => serde_json::to_value(cost::cost(&bench, settings)?)?,
        What::Forest(settings) => {
            let result = forest::forest(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Real(settings) => {
            let result = real::real(&bench, settings)?;
            eprint!("{}", result.table());
            if settings.fault != real::fault::Fault::None {
                eprint!("{}", result.second_half_table());
            }
            serde_json::to_value(result)?
        }
        What::Direct(settings) => {
            let result = direct::direct(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Epochs(settings) => {
            let result = epochs::epochs(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Fluid(settings) => {
            let result = fluid::fluid(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Wan(settings) => {
            let result = wan::wan(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Chaos(settings) => return chaos_rows(&bench, settings, arguments.dir.is_none()),
        What::Soak(settings) => {
            let report = soak::soak(&bench, settings)?;
            eprintln!("{}", report.page.display());
            let code = if report.pass { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            return Ok((Some(serde_json::to_value(report)?), code));
        }
        What::Fleet(settings) => serde_json::to_value(fleet::fleet(&bench, settings)?)?,
        What::FailOpen(settings) => serde_json::to_value(fail_open::fail_open(&bench, settings)?)?,
        What::Scenario { file, policy, repeats, sets, jobs, iterations, record, no_delays, queue } => {
            let mut scenario = Scenario::load_with(file, sets)?.for_testbed(&[])?;
            if jobs.is_some() || iterations.is_some() {
                scenario = scenario.shortened(jobs.unwrap_or(usize::MAX), iterations.unwrap_or(u32::MAX));
            }
            scenario.testbed.queue_bytes = queue.unwrap_or(scenario.testbed.queue_bytes);
            let (policies, out) = (policy.clone(), bench.dir.clone());
            let options = Options { policies, repeats: *repeats, out, keep: true, record: *record, delays: !no_delays };
            serde_json::to_value(run::run(&scenario, &options, bench.stop, &mut Bar::new())?)?
        }
        What::Scoreboard(settings) => serde_json::to_value(scoreboard::scoreboard(&bench, settings)?)?,
        What::Why(settings) => {
            let result = why::why(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Mix(settings) => serde_json::to_value(mix::run_mix(&bench, settings)?)?,
    };
    Ok((Some(document), ExitCode::SUCCESS))
}
