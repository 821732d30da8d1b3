//! Runs one small measured experiment and prints one JSON document.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use sluice_plan::plan::Collective;
use sluice_scenario::Scenario;
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_testbed::experiment::fail_open::{self, Fault};
use sluice_testbed::experiment::{Bench, beside, capacity, cost, direct, forest, mix, pair, real};
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
    Capacity {
        /// Hosts of the star.
        #[arg(long, default_value_t = 6)]
        hosts: usize,
        /// Link rates in Mbit/s.
        #[arg(long, value_delimiter = ',', default_value = "200,500,1000,2000")]
        mbps: Vec<u64>,
        /// Seconds per rate.
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
        /// Policy.
        #[arg(long, default_value = "fair:cubic")]
        policy: Policy,
    },
    /// Two jobs on one link, compute = communication: iteration time together against alone.
    Pair {
        /// Link rate in Mbit/s.
        #[arg(long, default_value_t = 500)]
        mbps: u64,
        /// Time of a round alone, and of computing, ms.
        #[arg(long, default_value_t = 400)]
        round_ms: u64,
        /// Iterations of each job.
        #[arg(long, default_value_t = 24)]
        iterations: u64,
        /// Policies.
        #[arg(long, value_delimiter = ',', default_value = "fair:cubic,sluice")]
        policy: Vec<Policy>,
    },
    /// One unmanaged CUBIC flow beside managed flows, against beside one CUBIC flow.
    Beside {
        /// Link rate in Mbit/s.
        #[arg(long, default_value_t = 500)]
        mbps: u64,
        /// How long the flow lasts; the first ten seconds are not counted.
        #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(12..))]
        seconds: u64,
        /// Policy of the jobs.
        #[arg(long, default_value = "sluice")]
        policy: Policy,
        /// Numbers of job flows beside it.
        #[arg(long, value_delimiter = ',', default_value = "1,4")]
        flows: Vec<usize>,
    },
    /// CPU and memory of one daemon.
    Cost {
        /// Link rate in Mbit/s.
        #[arg(long, default_value_t = 500)]
        mbps: u64,
        /// Flows its host sends.
        #[arg(long, default_value_t = 64)]
        flows: usize,
        /// How long it is watched.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
    },
    /// A collective by the trees of a plan against the ring, on a three-tier fabric with unequal links.
    Forest {
        /// Link rate of the hosts in Mbit/s; the other links are between half and 5/4 of it.
        #[arg(long, default_value_t = 100)]
        mbps: u64,
        /// allreduce, allgather or reduce_scatter; only the first has a ring beside it.
        #[arg(long, default_value = "allreduce", value_parser = collective)]
        collective: Collective,
        /// Time that a round by the plan should take, ms.
        #[arg(long, default_value_t = 6000)]
        round_ms: u64,
        /// Rounds; the first one is not counted.
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
        iterations: u64,
        /// Part of every link that daemons leave free.
        #[arg(long, default_value_t = 0.01)]
        reserve: f64,
        /// Policies.
        #[arg(long, value_delimiter = ',', default_value = "sluice,fair:cubic")]
        policy: Vec<Policy>,
    },
    /// A collective by the steps of a breadth-first schedule, on hosts wired to each other without a switch.
    Direct {
        /// torus:AxB or kautz:D,N, of 2 to 12 hosts.
        #[arg(long, default_value = "torus:3x4")]
        graph: direct::Wiring,
        /// Link rate in Mbit/s.
        #[arg(long, default_value_t = 50)]
        mbps: u64,
        /// allreduce, allgather or reduce_scatter.
        #[arg(long, default_value = "allreduce", value_parser = collective)]
        collective: Collective,
        /// Time that a round should take by the claim, ms.
        #[arg(long, default_value_t = 4000)]
        round_ms: u64,
        /// Rounds; the first one is not counted.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
        iterations: u64,
        /// Part of every link that daemons leave free.
        #[arg(long, default_value_t = 0.01)]
        reserve: f64,
        /// Policies.
        #[arg(long, value_delimiter = ',', default_value = "sluice,fair:cubic")]
        policy: Vec<Policy>,
    },
    /// The daemon is killed, stopped and cut off under load.
    FailOpen {
        /// Link rate in Mbit/s.
        #[arg(long, default_value_t = 500)]
        mbps: u64,
        /// Flows its host sends.
        #[arg(long, default_value_t = 8)]
        flows: usize,
        /// How often each fault.
        #[arg(long, default_value_t = 1)]
        repeats: usize,
    },
    /// A scenario file under several policies, as `sluice testbed run` does, printing every run as it is.
    Scenario {
        /// The file.
        file: std::path::PathBuf,
        /// Policies.
        #[arg(long, value_delimiter = ',', default_value = "fair:cubic,fair:reno,fair:bbr")]
        policy: Vec<Policy>,
        /// Repeats.
        #[arg(long, default_value_t = 1)]
        repeats: usize,
        /// Overrides of `testbed.queue_bytes`.
        #[arg(long)]
        queue: Option<u64>,
    },
    /// Stock jobs (PyTorch DDP over Gloo, Open MPI, MXNet) that share every link; needs `cargo xtask setup --workloads`.
    Real {
        /// What kind of jobs.
        #[arg(long, value_enum, default_value = "ddp")]
        kind: real::Kind,
        /// Link rate in Mbit/s.
        #[arg(long, default_value_t = 500)]
        mbps: u64,
        /// Jobs, each with one rank on every host.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Ranks of a job, and hosts; of MXNet the workers, with as many servers on hosts of their own.
        #[arg(long, default_value_t = 2, value_parser = ranks)]
        ranks: usize,
        /// Iterations of each job; the first four are not counted.
        #[arg(long, default_value_t = 24)]
        iterations: usize,
        /// Gradients of an iteration, MB.
        #[arg(long, default_value_t = 20.0)]
        megabytes: f64,
        /// Waiting for a batch in each iteration, ms: stands for an accelerator's computing.
        #[arg(long, default_value_t = 250.0)]
        load_ms: f64,
        /// Part of every link that daemons leave free.
        #[arg(long, default_value_t = 0.01)]
        reserve: f64,
        /// MXNet's nodes load the library that publishes pages (libsluice_pslite.so).
        #[arg(long)]
        library: bool,
        /// What is broken under Sluice; the second half of the run is compared too.
        #[arg(long, value_enum, default_value = "none")]
        fault: real::fault::Fault,
        /// Turns of all policies.
        #[arg(long, default_value_t = 3)]
        repeats: usize,
        /// Policies.
        #[arg(long, value_delimiter = ',', default_value = "fair:cubic,fair:reno,fair:bbr,sluice")]
        policy: Vec<Policy>,
    },
    /// Four jobs on six hosts from time 0 (the simulator's fixed-mix), under several policies.
    Mix {
        /// Rate of the network that is scaled down, Gbit/s.
        #[arg(long, default_value_t = 25.0)]
        gbps: f64,
        /// Divides rates and bytes.
        #[arg(long, default_value_t = 50.0)]
        scale: f64,
        /// Multiplies compute times.
        #[arg(long, default_value_t = 0.25)]
        compute_scale: f64,
        /// Multiplies iterations.
        #[arg(long, default_value_t = 1)]
        longer: u64,
        /// Bytes a switch port queues; default: 5 ms of its rate.
        #[arg(long)]
        queue: Option<u64>,
        /// Largest burst of the stack, bytes.
        #[arg(long)]
        gso: Option<u64>,
        /// Policies.
        #[arg(long, value_delimiter = ',', default_value = "fair:cubic,fair:reno,fair:bbr")]
        policy: Vec<Policy>,
        /// Repeats.
        #[arg(long, default_value_t = 1)]
        repeats: usize,
    },
}

fn collective(word: &str) -> Result<Collective, String> {
    let served = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];
    let known = Collective::parse_loosely(word).filter(|collective| served.contains(collective));
    known.ok_or_else(|| "one of allreduce, allgather, reduce_scatter".into())
}

fn ranks(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (2..=64).contains(n)).ok_or_else(|| "2 to 64".into())
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match carry_out(&Arguments::parse()) {
        Ok(document) => {
            println!("{document}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("sluice-experiment: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(arguments: &Arguments) -> anyhow::Result<serde_json::Value> {
    let binaries = Binaries::find()?;
    let dir = arguments.dir.clone();
    let dir = dir.unwrap_or_else(|| std::env::temp_dir().join(format!("sluice-experiment-{}", std::process::id())));
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watching for signals")?;
    }
    let bench = Bench { binaries: &binaries, dir, stop: &stop };
    Ok(match &arguments.what {
        What::Capacity { hosts, mbps, seconds, policy } => {
            let rates: Vec<Rate> = mbps.iter().map(|m| Rate::mbps(*m)).collect();
            serde_json::to_value(capacity::capacity(&bench, *hosts, &rates, *seconds, policy)?)?
        }
        What::Pair { mbps, round_ms, iterations, policy } => {
            let round = Nanos::from_millis(*round_ms);
            serde_json::to_value(pair::pair(&bench, Rate::mbps(*mbps), round, *iterations, policy)?)?
        }
        What::Beside { mbps, seconds, policy, flows } => {
            serde_json::to_value(beside::beside(&bench, Rate::mbps(*mbps), *seconds, policy, flows)?)?
        }
        What::Cost { mbps, flows, seconds } => {
            serde_json::to_value(cost::cost(&bench, Rate::mbps(*mbps), *flows, *seconds)?)?
        }
        What::Forest { mbps, collective, round_ms, iterations, reserve, policy } => {
            let settings = forest::Settings {
                tiers: forest::Tiers::around(Rate::mbps(*mbps)),
                collective: *collective,
                round: Nanos::from_millis(*round_ms),
                iterations: *iterations,
                reserve: *reserve,
                policies: policy.clone(),
            };
            let result = forest::forest(&bench, &settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Real {
            kind,
            mbps,
            jobs,
            ranks,
            iterations,
            megabytes,
            load_ms,
            reserve,
            library,
            fault,
            repeats,
            policy,
        } => {
            let settings = real::Settings {
                kind: *kind,
                rate: Rate::mbps(*mbps),
                jobs: *jobs,
                ranks: *ranks,
                iterations: *iterations,
                megabytes: *megabytes,
                load_ms: *load_ms,
                reserve: *reserve,
                library: *library,
                fault: *fault,
                repeats: *repeats,
                policies: policy.clone(),
            };
            let result = real::real(&bench, &settings)?;
            eprint!("{}", result.table());
            if *fault != real::fault::Fault::None {
                eprint!("{}", result.second_half_table());
            }
            serde_json::to_value(result)?
        }
        What::Direct { graph, mbps, collective, round_ms, iterations, reserve, policy } => {
            let settings = direct::Settings {
                wiring: *graph,
                rate: Rate::mbps(*mbps),
                collective: *collective,
                round: Nanos::from_millis(*round_ms),
                iterations: *iterations,
                reserve: *reserve,
                policies: policy.clone(),
            };
            let result = direct::direct(&bench, &settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::FailOpen { mbps, flows, repeats } => {
            let mut all = Vec::new();
            for fault in [Fault::Kill, Fault::Stop, Fault::Partition] {
                for _ in 0..*repeats {
                    all.push(fail_open::fail_open(&bench, Rate::mbps(*mbps), *flows, fault)?);
                }
            }
            serde_json::to_value(all)?
        }
        What::Scenario { file, policy, repeats, queue } => {
            let mut scenario = Scenario::load(file)?.for_testbed(&[])?;
            scenario.testbed.queue_bytes = queue.unwrap_or(scenario.testbed.queue_bytes);
            let options = Options { policies: policy.clone(), repeats: *repeats, out: bench.dir.clone(), keep: true };
            serde_json::to_value(run::run(&scenario, &options, bench.stop, &mut Bar::new())?)?
        }
        What::Mix { gbps, scale, compute_scale, longer, queue, gso, policy, repeats } => {
            let mut set = mix::fixed_mix(*gbps, *scale, *compute_scale);
            set.0.jobs.iter_mut().for_each(|j| j.iterations *= longer);
            if let Some(queue) = queue {
                set.0.fabric.cables.iter_mut().for_each(|c| c.queue = Bytes(*queue));
            }
            set.0.fabric.gso_max = gso.map_or(set.0.fabric.gso_max, Bytes);
            serde_json::to_value(mix::run_mix(&bench, &set, policy, *repeats)?)?
        }
    })
}
