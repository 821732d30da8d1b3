//! Does `sluice why` find the cause on a real kernel? One job under real daemons, whose rounds are made longer by one cause
//! after the other; then the daemons are killed as by `kill -9`, and their flight records are asked what is more than in the
//! rounds before. The cause must be the largest part of it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use sluice_attribution::{Cause, Hosts, Iteration, Report, record};
use sluice_scenario::{CrossFlow, NodeIx};
use sluice_schedule::{Bytes, Nanos, Rate};

use super::live::Live;
use super::{Bench, mbps};
use crate::cross::Cross;
use crate::fabric::FabricSpec;
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan};

/// Options of `sluice-experiment why`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "400", value_parser = mbps)]
    pub rate: Rate,
    /// Runs, each with all causes, on other hosts and links each time.
    #[arg(long, default_value_t = 1)]
    pub runs: usize,
    /// Rounds of each cause.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
}

/// What is done to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// One member's process stands still for most of the time.
    Peer,
    /// A link carries a third.
    Link,
    /// Another job's short rounds share a link.
    Job,
    /// An unmanaged connection does.
    Unmanaged,
    /// A link loses packets.
    Loss,
    /// All members compute longer; the last one, since it is the job's own plan.
    Compute,
}

const CAUSES: [Done; 6] = [Done::Peer, Done::Link, Done::Job, Done::Unmanaged, Done::Loss, Done::Compute];
/// Rounds until everybody is known, then undisturbed ones, then between two causes.
const FIRST: usize = 3;
const USUAL: usize = 10;
const BETWEEN: usize = 2;
const WORKERS: usize = 3;
/// A round and what is in it.
const COMPUTE: Nanos = Nanos::from_millis(60);
const LONGER: Nanos = Nanos::from_millis(240);
const SENDING: Nanos = Nanos::from_millis(120);
const SLOT_MS: u64 = 30;
/// The asked job's name, and the other's.
const ASKED: &str = "asked";
const OTHER: &str = "other";
/// Connections that nobody manages: one alone is left little where jobs are.
const STRANGERS: usize = 6;
/// Rounds that take less than so many times as long are no slower: nothing is to be found.
const SLOWER: f64 = 1.1;
/// The part of all packets that a link loses: less costs a round next to nothing.
const LOST: f64 = 0.04;
/// So long a run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// What was found of one cause.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// What was done.
    pub done: Done,
    /// To which host or link.
    pub to: String,
    /// The host that was asked.
    pub asked: String,
    /// How many times as long rounds took.
    pub slower: f64,
    /// What is more, the most first: cause and ms of each round.
    pub more: Vec<(Cause, f64)>,
    /// More of it is what was done than any other cause.
    pub right: bool,
}

/// What all runs gave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhyResult {
    /// Every cause of every run that made rounds slower.
    pub found: Vec<Found>,
    /// Those that did not.
    pub without: usize,
    /// The most that the recorder's thread of a daemon took of a core.
    pub recorder_cpu: f64,
    /// The largest flight record.
    pub recorded_bytes: u64,
    /// The records of the last run, which stay with `--dir`.
    pub records: Vec<PathBuf>,
}

impl WhyResult {
    /// For people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        for Found { done, to, asked, slower, more, right } in &self.found {
            let first: Vec<String> = more.iter().take(3).map(|(cause, ms)| format!("{ms:.0} ms {cause:?}")).collect();
            let word = if *right { "right" } else { "WRONG" };
            out += &format!("{word} {done:?} {to} asked on {asked}, {slower:.1}x: {}\n", first.join("; "));
        }
        let right = self.found.iter().filter(|found| found.right).count();
        out += &format!(
            "{right} of {} right ({} made no difference); the recorder took {:.2} % of a core and {} KiB\n",
            self.found.len(),
            self.without,
            self.recorder_cpu * 100.0,
            self.recorded_bytes >> 10
        );
        out
    }
}

/// When a cause held, on the cluster's clock.
struct During {
    done: Done,
    from: Nanos,
    to: Nanos,
    place: String,
}

/// Runs them.
///
/// # Errors
/// As a run; or a flight record that cannot be read.
pub fn why(bench: &Bench<'_>, settings: &Settings) -> Result<WhyResult, RunError> {
    let mut result = WhyResult::default();
    for run in 0..settings.runs {
        once(bench, settings, run, &mut result)?;
    }
    Ok(result)
}

fn once(bench: &Bench<'_>, settings: &Settings, run: usize, result: &mut WhyResult) -> Result<(), RunError> {
    let fabric = FabricSpec::star(WORKERS + 1, settings.rate, Bytes(250_000));
    let bytes = Bytes(fabric.payload(settings.rate).over(SENDING).0 * WORKERS as u64 / (2 * (WORKERS as u64 - 1)));
    let steps = settings.rounds + BETWEEN;
    let before = FIRST + USUAL + (CAUSES.len() - 1) * steps + BETWEEN;
    let mut compute = vec![COMPUTE; before];
    compute.push(LONGER);
    let iterations = (before + settings.rounds + 1) as u64;
    let asked = JobPlan { compute, ..JobPlan::ring(ASKED, WORKERS, bytes, iterations) };
    let other =
        JobPlan { compute: vec![Nanos::from_millis(5)], ..JobPlan::ring(OTHER, 2, Bytes(bytes.0 / 2), 1_000_000) };
    let plan = RunPlan {
        name: "why".into(),
        fabric,
        jobs: vec![asked, other],
        slot: Nanos::from_millis(SLOT_MS),
        ..RunPlan::default()
    };
    let place = Placement { workers: (0..WORKERS).collect(), servers: Vec::new() };
    let records: Vec<PathBuf> =
        plan.fabric.hosts.iter().map(|host| bench.dir.join(format!("live/run-{host}/state"))).collect();
    for dir in &records {
        let flight = dir.join(FILE);
        std::fs::create_dir_all(dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        let _ = std::fs::remove_file(flight); // Of the run before, if there was one.
    }
    let policy = Policy::Sluice { policy: None, nic: false };
    let mut live = Live::start(bench, &plan, &place, &policy, 0)?;
    let began = Instant::now();
    until(&mut live, FIRST, began)?;
    let usual_from = wall();
    until(&mut live, FIRST + USUAL, began)?;
    let usual_to = wall();
    let mut held = Vec::new();
    for (at, done) in CAUSES.into_iter().enumerate() {
        let last = FIRST + USUAL + at * steps + settings.rounds;
        let during = if done == Done::Compute {
            until(&mut live, before + 1, began)?;
            let from = wall();
            until(&mut live, before + settings.rounds, began)?;
            During { done, from, to: wall(), place: ASKED.into() }
        } else {
            let during = disturb(bench, &plan, &mut live, done, (run, settings.rate), last, began)?;
            until(&mut live, last + BETWEEN, began)?;
            during
        };
        held.push(during);
    }
    let elapsed = began.elapsed().as_secs_f64();
    for host in 0..plan.fabric.hosts.len() {
        let cpu = thread_seconds(live.daemons.pid(host), "flight") / elapsed;
        result.recorder_cpu = result.recorder_cpu.max(cpu);
        live.daemons.kill(host);
    }
    drop(live);
    let mut hosts = Hosts::default();
    result.records = records.iter().map(|dir| dir.join(FILE)).collect();
    for (file, host) in result.records.iter().zip(&plan.fabric.hosts) {
        let bytes = std::fs::read(file).map_err(RunError::io(format!("reading {}", file.display())))?;
        result.recorded_bytes = result.recorded_bytes.max(bytes.len() as u64);
        // A host without a job writes nothing.
        match record::read(&bytes) {
            Ok(record) => hosts.take(record),
            Err(_) if bytes.is_empty() => {}
            Err(error) => return Err(RunError::Plan(format!("{host}: {error}"))),
        }
    }
    let viewer = format!("h{}", (run + 1) % WORKERS);
    for During { done, from, to, place } in held {
        let usual = report(&hosts, &viewer, (usual_from, usual_to));
        let now = report(&hosts, &viewer, (from, to));
        let more = now.excess(&usual);
        // One thing may have several names, such as another job on two links.
        let named: f64 = more.iter().filter(|(cause, _)| names(done, cause, &place)).map(|(_, time)| time).sum();
        let right = named > 0.0 && more.iter().all(|(cause, time)| names(done, cause, &place) || *time < named);
        let slower = now.shares.total() / usual.shares.total().max(1.0);
        if slower < SLOWER {
            result.without += 1;
            continue;
        }
        let more = more.into_iter().map(|(cause, time)| (cause, time / 1e6)).collect();
        result.found.push(Found { done, to: place, asked: viewer.clone(), slower, more, right });
    }
    Ok(())
}

const FILE: &str = "flight.ring";

/// Does something to the job until its round `last` is over.
fn disturb(
    bench: &Bench<'_>,
    plan: &RunPlan,
    live: &mut Live,
    done: Done,
    (run, rate): (usize, Rate),
    last: usize,
    began: Instant,
) -> Result<During, RunError> {
    // Not the host that is asked, which is the next one.
    let host = run % WORKERS;
    let next = (host + 1) % WORKERS;
    let links = &live.fabric.layout.links;
    // By turns what leaves the host, and what comes to it.
    let is_it = |link: &crate::fabric::layout::DirectedLink| {
        if run % 2 == 0 { link.from.node == host } else { link.to.node == host }
    };
    let link = links.iter().position(is_it).unwrap_or(0);
    let to = if run % 2 == 0 { next } else { host };
    // What a host drops before it leaves is no loss: its TCP sends it again as if for the first time.
    let lossy = links.iter().position(|link| link.to.node == to).unwrap_or(0);
    let place = match done {
        Done::Peer => format!("h{host}"),
        Done::Link | Done::Loss => format!("h{to}"),
        _ => OTHER.into(),
    };
    let from = wall();
    match done {
        Done::Peer => {
            let pid = live.pid(host).and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
            let pid = pid.ok_or_else(|| RunError::Plan(format!("no member {host}")))?;
            let signal = |signal: Signal| {
                kill(pid, signal).map_err(|error| RunError::Plan(format!("stopping a member: {error}")))
            };
            while rounds(live) < last && began.elapsed() < LIMIT {
                signal(Signal::SIGSTOP)?;
                let stopped = live.run_for(Duration::from_millis(45));
                signal(Signal::SIGCONT)?;
                stopped?;
                live.run_for(Duration::from_millis(12))?;
            }
        }
        Done::Link => {
            live.fabric.set_rate(link, Rate(rate.0 / 3))?;
            until(live, last, began)?;
            live.fabric.set_rate(link, rate)?;
        }
        Done::Loss => {
            let lossy = live.fabric.lose(lossy, LOST)?;
            until(live, last, began)?;
            drop(lossy);
        }
        Done::Job => {
            // On two hosts, on each in another place of its job than the asked one's member.
            let workers = vec![next, host];
            live.start_beside(bench, plan, 1, &Placement { workers, servers: Vec::new() })?;
            until(live, last, began)?;
            live.end_beside();
        }
        Done::Unmanaged => {
            let (src, dst) = (NodeIx(WORKERS), NodeIx(host));
            let flow = CrossFlow { src, dst, start: Nanos(1), end: Nanos(u64::MAX / 4), rate: None };
            let cross = Cross::start(&live.fabric, &vec![flow; STRANGERS], "cubic", Instant::now())?;
            until(live, last, began)?;
            drop(cross);
        }
        Done::Compute => {}
    }
    Ok(During { done, from, to: wall(), place })
}

/// Rounds that all members have done.
fn rounds(live: &Live) -> usize {
    let of = |rank| live.iterations.iter().filter(|iteration| iteration.rank == rank).count();
    (0..WORKERS).map(of).min().unwrap_or(0)
}

fn until(live: &mut Live, wanted: usize, began: Instant) -> Result<(), RunError> {
    while rounds(live) < wanted {
        if began.elapsed() > LIMIT {
            return Err(RunError::Plan(format!("round {wanted} was not reached within {LIMIT:?}")));
        }
        live.run_for(Duration::from_millis(5))?;
    }
    Ok(())
}

/// The daemons' clock.
fn wall() -> Nanos {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Nanos(now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)))
}

/// The rounds between these times, without the first, in which what was done had only begun.
fn report(hosts: &Hosts, host: &str, (from, to): (Nanos, Nanos)) -> Report {
    let jobs = hosts.jobs(host);
    let Some(job) = jobs.iter().find(|(_, name)| **name == ASKED).map(|(id, _)| *id) else { return Report::default() };
    let within = |iteration: &&Iteration| iteration.from >= from && iteration.to <= to;
    let all: Vec<Iteration> = hosts.iterations(host, job).iter().filter(within).copied().collect();
    hosts.report(host, job, &all)
}

fn names(done: Done, cause: &Cause, place: &str) -> bool {
    match (done, cause) {
        (Done::Compute, Cause::Compute) | (Done::Unmanaged, Cause::Unmanaged { .. }) => true,
        (Done::Peer, Cause::Peer { host }) => host == place,
        (Done::Link, Cause::Path { to }) | (Done::Loss, Cause::Loss { to }) => to == place,
        (Done::Link, Cause::Link { link }) => link.starts_with(place),
        (Done::Job, Cause::Job { job, .. }) => job.is_empty() || job == OTHER,
        _ => false,
    }
}

/// Processor time of a process's threads of this name, s.
fn thread_seconds(pid: u32, name: &str) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let seconds = threads.filter_map(|thread| {
        let comm = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let spent = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let spent: f64 = spent.split_whitespace().next()?.parse().ok()?;
        (comm.trim() == name).then_some(spent / 1e9)
    });
    seconds.sum()
}
