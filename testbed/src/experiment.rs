//! Small measured experiments on a real fabric; each gives one JSON document with its own comparison.
//!
//! `sluice-experiment NAME` runs one. They need root, and take from ten seconds to two minutes.

pub mod adversary;
pub mod args;
pub mod beside;
pub mod capacity;
pub mod cost;
pub mod direct;
pub mod epochs;
pub mod fail_open;
pub mod fleet;
pub mod fluid;
pub mod forest;
pub mod live;
mod looks;
pub mod mix;
pub mod others;
pub mod pair;
pub mod real;
pub mod scoreboard;
pub mod wan;
pub mod why;

use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use sluice_formats::problem::Problems;
use sluice_formats::topology::Topology;
use sluice_plan::follow::Followed;
use sluice_plan::plan::{Collective, MadeBy, Plan};
use sluice_report::PolicyRun;
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::fabric::{FabricSpec, Layout};
use crate::job::{Arch, PlanFile};
use crate::run::daemons::topology_json;
use crate::run::{
    Binaries, FixedQueue, JobPlan, Placement, Policy, Queue, RunError, RunPlan, Session, Silent, run_once, write,
};

/// An option in Mbit/s.
fn mbps(text: &str) -> Result<Rate, ParseIntError> {
    text.parse().map(Rate::mbps)
}

/// An option in ms.
fn millis(text: &str) -> Result<Nanos, ParseIntError> {
    text.parse().map(Nanos::from_millis)
}

/// A collective that jobs can carry out by a plan.
fn collective(word: &str) -> Result<Collective, String> {
    let served = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];
    let known = Collective::parse_loosely(word).filter(|collective| served.contains(collective));
    known.ok_or_else(|| "one of allreduce, allgather, reduce_scatter".into())
}

/// What every experiment is given.
#[derive(Debug)]
pub struct Bench<'a> {
    /// Paths of the programs that runs start.
    pub binaries: &'a Binaries,
    /// Where files go; must exist.
    pub dir: PathBuf,
    /// Set from outside to stop early.
    pub stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// What a run in a directory of its own needs.
    pub(crate) fn session(&self, name: &str) -> Result<Session<'_>, RunError> {
        let dir = self.dir.join(name);
        std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        Ok(Session { binaries: self.binaries, dir, stop: self.stop })
    }

    pub(crate) fn run(
        &self,
        plan: &RunPlan,
        queue: &mut dyn Queue,
        policy: &Policy,
        name: &str,
    ) -> Result<PolicyRun, RunError> {
        run_once(plan, queue, policy, &self.session(name)?, &mut Silent)
    }
}

/// A fabric as planners read it: the text of its `topology.json`, and that read.
fn topology(spec: &FabricSpec) -> Result<(String, Topology), RunError> {
    let text = topology_json(spec, &Layout::of(spec)?, false);
    let read = Topology::read(text.as_bytes(), "topology.json").map_err(refused)?;
    Ok((text, read))
}

/// What a planner or a reader of plans refuses.
fn refused(errors: Problems) -> RunError {
    RunError::Plan(errors.to_string())
}

/// What a plan claims.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Data over time in wire rates.
    pub rate: Rate,
    /// Was it proved the best?
    pub optimal: bool,
}

/// Writes a plan to a file, with this program's name in it.
fn keep_plan(plan: &mut Plan, file: &Path) -> Result<Claimed, RunError> {
    plan.body.made_by =
        Some(MadeBy { command: None, seconds: None, seed: None, version: Some(env!("CARGO_PKG_VERSION").into()) });
    write(file, plan.to_text())?;
    let claim = &plan.body.claim;
    let per_byte = claim.time_per_byte.as_ref().map_or(f64::NAN, |time| time.value.to_f64());
    Ok(Claimed { rate: Rate((8.0 / per_byte) as u64), optimal: claim.optimal == Some(true) })
}

/// What a run of `Collectives` measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Under which it ran, as the command line names it.
    pub policy: String,
    /// Mean time of a round, s, without the first.
    pub round_s: f64,
    /// Data over that time, payload Mbit/s.
    pub bandwidth_mbps: f64,
    /// Segments that all members retransmitted.
    pub retransmits: u64,
}

impl Measured {
    /// The bandwidth of rounds of so much data as a part of a rate.
    fn part_of(&self, bytes: Bytes, rate: Rate) -> f64 {
        bytes.0 as f64 * 8.0 / self.round_s / rate.0 as f64
    }

    /// A line of a table; `part` is the bandwidth as a part of `whole`.
    fn line(&self, part: f64, whole: &str) -> String {
        let Measured { policy, round_s, bandwidth_mbps, retransmits } = self;
        format!(
            "{policy:<12} {round_s:>8.3} s {bandwidth_mbps:>8.1} Mbit/s  {:>5.1} % of {whole}  {retransmits} retransmits\n",
            part * 100.0
        )
    }
}

/// The hosts that are the relays of a plan.
///
/// # Errors
/// When the plan cannot be read or followed.
pub fn relays(fabric: &FabricSpec, file: &Path) -> Result<Vec<usize>, RunError> {
    let bytes = std::fs::read(file).map_err(RunError::io(format!("reading {}", file.display())))?;
    let followed = Followed::read(&bytes, &file.display().to_string(), None, None);
    let followed = followed.map_err(refused)?;
    Ok(followed.relays.iter().filter_map(|id| fabric.hosts.iter().position(|host| host == id)).collect())
}

/// One job with a member on every host, and where a plan wants them relays at memories, which does one collective again and again: by a plan or otherwise.
struct Collectives<'a> {
    name: &'a str,
    /// How; [`Arch::Plan`] with the plan's file.
    arch: Arch,
    file: &'a Path,
    fabric: &'a FabricSpec,
    bytes: Bytes,
    rounds: u64,
    /// Rounds begin together at multiples of this; 0: each member's as soon as its own one before is over.
    period: Nanos,
    /// Part of every link that daemons leave free.
    reserve: f64,
}

impl Collectives<'_> {
    /// Runs it under a policy.
    fn run(&self, bench: &Bench<'_>, policy: &Policy) -> Result<Measured, RunError> {
        let members = self.fabric.members();
        let ranks = members.iter().map(|host| self.fabric.hosts[*host].clone()).collect();
        let plan = PlanFile { file: self.file.to_owned(), ranks, collective: None };
        let relays = if self.arch == Arch::Plan { relays(self.fabric, self.file)? } else { Vec::new() };
        let job = JobPlan {
            arch: self.arch,
            plan: (self.arch == Arch::Plan).then_some(plan),
            compute: vec![Nanos::from_millis(100)],
            period: self.period,
            servers: relays.len(),
            ..JobPlan::ring(self.name, members.len(), self.bytes, self.rounds)
        };
        let plan = RunPlan {
            name: self.name.into(),
            fabric: self.fabric.clone(),
            jobs: vec![job],
            reserve: self.reserve,
            // The floor is for flows that wait for other jobs; small flows of a plan must not be lifted by it.
            floor: Some(Rate::mbps(1)),
            ..RunPlan::default()
        };
        let place = Placement { workers: members, servers: relays };
        let name = format!("{}-{}", self.name, policy.file_part());
        let run = bench.run(&plan, &mut FixedQueue::new(vec![place]), policy, &name)?;
        let round_s = run.jobs[0].figures.round_s;
        Ok(Measured {
            policy: policy.to_string(),
            round_s,
            bandwidth_mbps: self.bytes.0 as f64 * 8.0 / round_s / 1e6,
            retransmits: run.jobs[0].retransmits,
        })
    }
}
