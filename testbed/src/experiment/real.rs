//! Stock jobs, PyTorch's DistributedDataParallel over Gloo, an all-reduce of Open MPI over TCP or MXNet with parameter
//! servers, that share every link, under ordinary TCP and under Sluice, sound or with something broken.
//!
//! The scripts know nothing of Sluice and publish nothing: roles, flows and rounds are what the daemons find out by
//! themselves. Policies take turns, so that every round of the comparison sees the same machine. Results are
//! hashed in the scripts: they must be the same bit by bit under every policy.

mod command;
pub mod fault;
mod mxnet;
mod ranks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;

use serde::Serialize;
use sluice_schedule::Rate;

use super::capacity::queue;
use super::{Bench, mbps};
use crate::fabric::{Fabric, FabricSpec};
use crate::run::daemons::Daemons;
use crate::run::launch::listen;
use crate::run::mltcp::Mltcp;
use crate::run::{KillOnDrop, Policy, RunError, RunPlan, write};
pub use command::workloads;
use command::{Files, ddp, mpi, set_places};
use fault::{Fault, Library, Striker};
use mxnet::mxnet;
pub use mxnet::mxnet_python;
use ranks::{Times, watch};
use sluice_report::stats::mean;

/// What kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// PyTorch's DistributedDataParallel over Gloo.
    Ddp,
    /// A ring all-reduce of Open MPI over TCP.
    Mpi,
    /// MXNet `dist_sync`: a scheduler, as many servers as workers.
    Mxnet,
}

impl Kind {
    /// The script, as a user would have it.
    fn script(self) -> &'static str {
        match self {
            Kind::Ddp => include_str!("../../real/ddp.py"),
            Kind::Mpi => include_str!("../../real/allreduce.py"),
            Kind::Mxnet => include_str!("../../real/mxnet_ps.py"),
        }
    }

    /// Where its programs are unpacked; of MXNet, its Python.
    ///
    /// # Errors
    /// A sentence that says how to get them.
    pub fn root(self) -> Result<PathBuf, RunError> {
        if self == Kind::Mxnet { mxnet_python() } else { workloads() }
    }

    /// Hosts of a job with so many ranks: servers have hosts of their own.
    fn hosts(self, ranks: usize) -> usize {
        if self == Kind::Mxnet { 2 * ranks } else { ranks }
    }

    /// What leaves a rank of `n` in an iteration, in gradients: 2(n−1)/n in a ring; a worker pushes all of them, a server
    /// sends its nth to each of n workers.
    fn sent(self, ranks: usize) -> f64 {
        let n = ranks as f64;
        if self == Kind::Mxnet { 1.0 } else { 2.0 * (n - 1.0) / n }
    }
}

/// Iterations left out at the start: connections open, buffers grow, Sluice learns.
const WARMUP: usize = 4;

/// Options of `sluice-experiment real`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// What kind of jobs.
    #[arg(long, value_enum, default_value = "ddp")]
    pub kind: Kind,
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "500", value_parser = mbps)]
    pub rate: Rate,
    /// Jobs, each with one rank on every host.
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// Ranks of a job, and hosts; of MXNet the workers, with as many servers on hosts of their own.
    #[arg(long, default_value_t = 2, value_parser = ranks_of)]
    pub ranks: usize,
    /// Iterations of each job; the first four are not counted.
    #[arg(long, default_value_t = 24)]
    pub iterations: usize,
    /// Gradients of an iteration, MB.
    #[arg(long, default_value_t = 20.0)]
    pub megabytes: f64,
    /// Waiting for a batch in each iteration, ms: stands for an accelerator's computing.
    #[arg(long, default_value_t = 250.0)]
    pub load_ms: f64,
    /// Part of every link that daemons leave free.
    #[arg(long, default_value_t = 0.01)]
    pub reserve: f64,
    /// MXNet's nodes load the library that publishes pages (libsluice_pslite.so).
    #[arg(long)]
    pub library: bool,
    /// What is broken under Sluice; the second half of the run is compared too.
    #[arg(long, value_enum, default_value = "none")]
    pub fault: Fault,
    /// Turns of all policies.
    #[arg(long, default_value_t = 3)]
    pub repeats: usize,
    /// Policies, which take turns.
    #[arg(
        long = "policy",
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "fair:cubic,fair:reno,fair:bbr,sluice"
    )]
    pub policies: Vec<Policy>,
}

fn ranks_of(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (2..=64).contains(n)).ok_or_else(|| "2 to 64".into())
}

/// One policy in one turn.
#[derive(Clone, Debug, Serialize)]
pub struct RealRun {
    /// Under which it ran, as the command line names it.
    pub policy: String,
    /// Which turn of all policies, from 0.
    pub turn: usize,
    /// Mean iteration time of all jobs without warm-up, s.
    pub iteration_s: f64,
    /// Every iteration of each job, warm-up included, as its rank 0 sees it, s.
    pub iterations: Vec<Vec<f64>>,
    /// The same of the run's second half.
    pub second_half_s: f64,
    /// Part of an iteration spent in the backward pass and its communication.
    pub communication: f64,
    /// Iterations of the first job that were over when a daemon managed one of its flows; `None`: never, or no daemon.
    pub unmanaged_iterations: Option<usize>,
    /// Bytes of an iteration that daemons learned, and how far from those a ring sends, as a part.
    pub learned: Vec<(u64, f64)>,
    /// Hashes of losses and weights by job and rank.
    #[serde(skip)]
    pub hashes: BTreeSet<String>,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct RealResult {
    /// Bytes of gradients of an iteration.
    pub gradient_bytes: u64,
    /// Mean iteration time of one job that has all links to itself, under the first policy, s: nobody can do better.
    pub alone_s: f64,
    /// Are losses and weights the same in all runs, bit by bit?
    pub identical: bool,
    /// All runs, turn by turn.
    pub runs: Vec<RealRun>,
}

impl RealResult {
    /// Mean iteration time by policy, each against the best policy without Sluice.
    pub fn table(&self) -> String {
        let mut text = self.table_of("policy", |run| run.iteration_s, &[("a job alone", self.alone_s)]);
        let same = if self.identical { "the same bit by bit" } else { "NOT the same" };
        text.push_str(&format!("losses and weights of all runs: {same}\n"));
        text
    }

    /// What the second half of the run took by policy, against the best plain one: after a fault in the middle that is
    /// the time without Sluice.
    pub fn second_half_table(&self) -> String {
        self.table_of("second half", |run| run.second_half_s, &[])
    }

    /// The mean of a time by policy, and other times, each against the best policy without Sluice.
    fn table_of(&self, title: &str, time: fn(&RealRun) -> f64, others: &[(&str, f64)]) -> String {
        let mut by: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for run in &self.runs {
            by.entry(&run.policy).or_default().push(time(run));
        }
        let plain = |policy: &str| policy.parse().is_ok_and(|policy| matches!(policy, Policy::Fair(_)));
        let times = by.iter().map(|(policy, times)| (*policy, mean(times)));
        let best =
            times.clone().filter(|(policy, _)| plain(policy)).map(|(_, time)| time).fold(f64::INFINITY, f64::min);
        let mut text = format!("{title:<20}iteration s   against the best plain one\n");
        for (name, time) in times.chain(others.iter().copied()) {
            text.push_str(&format!("{name:<20}{time:>11.3}   {:>+6.1} %\n", (time / best - 1.0) * 100.0));
        }
        text
    }
}

/// Runs everything.
///
/// # Errors
/// When PyTorch or MXNet is absent, a rank fails, or the fabric or a daemon does.
pub fn real(bench: &Bench<'_>, settings: &Settings) -> Result<RealResult, RunError> {
    let root = settings.kind.root()?;
    if settings.kind != Kind::Mxnet && (settings.library || settings.fault.is_of_pages()) {
        return Err(RunError::Plan(
            "only MXNet's nodes load a library (--kind mxnet); the others publish no pages".into(),
        ));
    }
    let mut result = RealResult { gradient_bytes: 0, alone_s: f64::NAN, identical: true, runs: Vec::new() };
    if let Some(policy) = settings.policies.first() {
        let alone = Run { root: &root, policy, jobs: 1, turn: 0 };
        result.alone_s = one(bench, settings, &alone, &mut result.gradient_bytes)?.iteration_s;
        tracing::info!("a job alone: {:.3} s", result.alone_s);
    }
    for turn in 0..settings.repeats {
        for policy in &settings.policies {
            let run = Run { root: &root, policy, jobs: settings.jobs, turn };
            let run = one(bench, settings, &run, &mut result.gradient_bytes)?;
            result.identical &= result.runs.first().is_none_or(|first| first.hashes == run.hashes);
            tracing::info!("{} turn {turn}: {:.3} s", run.policy, run.iteration_s);
            result.runs.push(run);
        }
    }
    Ok(result)
}

struct Run<'a> {
    root: &'a Path,
    policy: &'a Policy,
    jobs: usize,
    turn: usize,
}

fn one(bench: &Bench<'_>, settings: &Settings, run: &Run<'_>, gradient_bytes: &mut u64) -> Result<RealRun, RunError> {
    let Run { root, policy, jobs, turn } = *run;
    let session = bench.session(&format!("real-{}-{jobs}-{turn}", policy.file_part()))?;
    let dir = session.dir.clone();
    let script = dir.join("job.py");
    write(&script, settings.kind.script())?;
    let fabric = FabricSpec::star(settings.kind.hosts(settings.ranks), settings.rate, queue(settings.rate));
    let plan = RunPlan { fabric, reserve: settings.reserve, ..RunPlan::default() };
    let fabric = Fabric::build(plan.fabric.clone())?;
    let (tcp, daemons) = match policy {
        Policy::Fair(tcp) => (tcp.clone().unwrap_or_else(|| plan.tcp.clone()), None),
        Policy::Sluice { .. } => (plan.tcp.clone(), Some(Daemons::start(&fabric, &plan, policy, &session)?)),
    };
    let _mltcp = Mltcp::for_sockets(Some(&tcp))?;
    let (to, from) = mpsc::channel();
    let mut ranks = Vec::new();
    for node in &fabric.hosts {
        node.prefer(&tcp)?;
    }
    // A machine without Sluice is sound.
    let fault = if daemons.is_some() { settings.fault } else { Fault::None };
    let library = (settings.library || fault.is_of_pages()).then(|| bench.binaries.pslite()).transpose()?;
    let library = Library::new(fault, library, daemons.as_ref(), fabric.hosts.len(), &dir)?;
    let files = Files { root, script, dir: &dir };
    for job in 0..jobs {
        for (host, mut command) in match settings.kind {
            Kind::Ddp => ddp(&fabric, settings, &files, job),
            Kind::Mpi => vec![(0, mpi(&fabric, settings, &files)?)],
            Kind::Mxnet => mxnet(&fabric, settings, &files, job, &library),
        } {
            if settings.kind != Kind::Mxnet {
                set_places(&mut command, root);
            }
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = fabric.hosts[host].ns.spawn(command, Some(fabric.cgroups.jobs(host).procs()?))?;
            let to = to.clone();
            listen(&mut child, move |output| to.send((job, output)).is_ok())?;
            ranks.push(KillOnDrop(child));
        }
    }
    drop(to);
    let mut striker = Striker::new(fault, daemons.as_ref(), settings.iterations);
    let outcome = watch(bench, settings, jobs, daemons.as_ref(), &from, &mut striker)?;
    striker.lift();
    drop(ranks);
    *gradient_bytes = outcome.gradient_bytes;
    let wire = outcome.gradient_bytes as f64 * settings.kind.sent(settings.ranks);
    let mut learned = Vec::new();
    for host in &fabric.hosts {
        let log = std::fs::read_to_string(dir.join(format!("sluiced-{}.log", host.name))).unwrap_or_default();
        let bytes = log.lines().filter(|line| line.contains("iteration-learned")).filter_map(bytes_of);
        learned.extend(bytes.map(|bytes| (bytes, bytes as f64 / wire - 1.0)));
    }
    if let Some(daemons) = daemons {
        daemons.keep_documents();
        daemons.stop();
    }
    // From a whole iteration after the middle on.
    let later = outcome.times.values().flat_map(|times| times.iter().skip(settings.iterations / 2 + 2));
    let later: Vec<f64> = later.map(|t| t.end.saturating_sub(t.begin) as f64 / 1e9).collect();
    let counted: Vec<&Times> = outcome.times.values().flat_map(|times| times.iter().skip(WARMUP)).collect();
    let of = |f: fn(&Times) -> f64| mean(&counted.iter().map(|times| f(times)).collect::<Vec<_>>());
    let iteration_s = of(|t| t.end.saturating_sub(t.begin) as f64 / 1e9);
    let synced = of(|t| t.end.saturating_sub(t.sync) as f64 / 1e9);
    let of_job = |job: usize| outcome.times.get(&(job, 0)).map_or(&[][..], Vec::as_slice);
    let lengths = |job: usize| of_job(job).iter().map(|t| t.end.saturating_sub(t.begin) as f64 / 1e9).collect();
    let first = of_job(0);
    Ok(RealRun {
        policy: policy.to_string(),
        turn,
        iteration_s,
        iterations: (0..jobs).map(lengths).collect(),
        second_half_s: mean(&later),
        communication: synced / iteration_s,
        unmanaged_iterations: outcome.managed.map(|at| first.iter().filter(|times| times.end < at).count()),
        learned,
        hashes: outcome.hashes,
    })
}

/// `bytes=N` of a line of the daemon's log.
fn bytes_of(line: &str) -> Option<u64> {
    let after = line.split_once("bytes=").or_else(|| line.split_once("\"bytes\":"))?.1;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_the_daemons_log() {
        assert_eq!(bytes_of("INFO iteration-learned job=x bytes=13982560 known"), Some(13_982_560));
        assert_eq!(bytes_of(r#"{"event":"iteration-learned","bytes":77}"#), Some(77));
        assert_eq!(bytes_of("bytes=x"), None);
    }

    #[test]
    fn the_table_compares_with_the_best_plain_policy() {
        let run = |policy: &str, iteration_s| RealRun {
            policy: policy.into(),
            turn: 0,
            iteration_s,
            iterations: Vec::new(),
            second_half_s: iteration_s,
            communication: 0.5,
            unmanaged_iterations: None,
            learned: Vec::new(),
            hashes: BTreeSet::new(),
        };
        let runs = vec![run("fair:cubic", 1.0), run("fair:bbr", 1.2), run("sluice", 0.8)];
        let table = RealResult { gradient_bytes: 1, alone_s: 0.5, identical: true, runs }.table();
        assert!(
            table.contains("-20.0 %")
                && table.contains("+20.0 %")
                && table.contains("-50.0 %")
                && table.contains("bit by bit"),
            "{table}"
        );
    }
}
