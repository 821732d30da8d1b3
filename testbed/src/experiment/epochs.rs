//! A collective by chunks in epochs on the graph of an NDv2 machine, eight hosts wired to each other without a switch,
//! against the ring.
//!
//! The graph is that of eight GPUs (DGX1, NDv2), with links of two rates. `sluice plan te-ccl`'s planner plans on the very
//! links that are built, with chunks so large that a round by the claim takes the time asked for. The ring is the one that
//! plans are compared with: over the fast links, both ways. The claim and the theory of the ring are in wire rates, and are
//! compared as payload. A run measures the time of a round against them, from the first member's beginning to the last
//! one's end; all begin together, since the claim does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::cost::Cost;
use sluice_plan::plan::{Collective, Plan};
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{Instance, Options, Volume, make};
use sluice_planners::{Request, Run, ring};
use sluice_schedule::{Bytes, Nanos, Rate};

use super::capacity::queue;
use super::{Bench, Claimed, Collectives, Measured, collective, keep_plan, mbps, millis, refused, topology};
use crate::fabric::{Cable, FabricSpec};
use crate::job::Arch;
use crate::run::{Policy, RunError};

/// Pairs of GPUs of an NDv2 machine with a link of the full rate.
const FAST: [[usize; 2]; 8] = [[0, 1], [0, 4], [1, 3], [2, 3], [2, 6], [4, 5], [5, 7], [6, 7]];
/// Pairs with a link of half the rate.
const SLOW: [[usize; 2]; 8] = [[0, 2], [0, 3], [1, 2], [1, 5], [3, 7], [4, 6], [4, 7], [5, 6]];
/// Eight hosts wired as the GPUs of an NDv2 machine; its fast links have this wire rate.
pub fn ndv2(fast: Rate) -> FabricSpec {
    let cable =
        |rate: Rate| move |[a, b]: &[usize; 2]| Cable::plain(format!("h{a}"), format!("h{b}"), rate, queue(rate));
    let cables = FAST.iter().map(cable(fast)).chain(SLOW.iter().map(cable(Rate(fast.0 / 2)))).collect();
    FabricSpec { hosts: (0..8).map(|host| format!("h{host}")).collect(), cables, ..FabricSpec::default() }
}

/// A plan on a fabric, written to a file, with its figures.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Path of the plan's JSON.
    pub file: PathBuf,
    /// What the planner says it can reach.
    pub claim: Claimed,
    /// Epochs until the last chunk is where it is wanted.
    pub epochs: u64,
    /// Length of an epoch.
    pub epoch: Nanos,
    /// Sends of the plan.
    pub sends: usize,
}

/// How long an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Epoch {
    /// What the fastest link takes for a chunk.
    Fast,
    /// What the slowest link takes for a chunk.
    Slow,
}

impl Epoch {
    fn length(self) -> EpochLength {
        match self {
            Epoch::Fast => EpochLength::Fast,
            Epoch::Slow => EpochLength::Slow,
        }
    }
}

/// Plans a collective of all hosts on a fabric, as `sluice plan te-ccl --solver none` does, with chunks so large that all
/// epochs together take `round`, and writes the plan to `file`.
///
/// # Errors
/// [`RunError::Plan`] with what the planner refuses.
pub fn plan_on(
    spec: &FabricSpec,
    collective: Collective,
    chunks: u64,
    epoch: Epoch,
    round: Nanos,
    file: PathBuf,
) -> Result<Planned, RunError> {
    let (_, topology) = topology(spec)?;
    let request = Request::of_all(collective);
    let plan = |chunk: Bytes| {
        let volume = Volume::Chunk(Rational::from(chunk.0));
        let options = Options { chunks, epoch: epoch.length(), ..Options::of(volume) };
        let instance = Instance::new(&topology, &request, &options, "topology.json").map_err(refused)?;
        make(&instance, None, &Run::quiet(1)).map_err(refused)
    };
    // Without latency there are as many epochs, however large chunks are.
    let trial = Bytes(1_000_000);
    let finish = plan(trial)?.figures.finish_us.to_f64() * 1e3;
    let mut made = plan(Bytes((trial.0 as f64 * round.0 as f64 / finish) as u64))?;
    let figures = made.figures;
    keep_plan(&mut made.plan, &file)?;
    Ok(Planned {
        file,
        claim: Claimed {
            rate: Rate((figures.bandwidth.to_f64() * 8.0) as u64),
            optimal: figures.claim.optimal == Some(true),
        },
        epochs: figures.epochs,
        epoch: Nanos((figures.epoch_us.to_f64() * 1e3) as u64),
        sends: figures.sends,
    })
}

/// Plans the ring of a collective of all hosts on a fabric, and writes the plan to `file`; what it can reach, data over time
/// in wire rates.
fn ring_on(spec: &FabricSpec, collective: Collective, file: &Path) -> Result<Rate, RunError> {
    let (_, topology) = topology(spec)?;
    let mut plan = ring::make(&topology, &Request::of_all(collective), "topology.json").map_err(refused)?;
    keep_plan(&mut plan, file)?;
    rate(&plan, &topology)
}

/// Much data over the time that a plan takes for it.
fn rate(plan: &Plan, topology: &Topology) -> Result<Rate, RunError> {
    let per_byte = Cost::new(plan, topology).map_err(refused)?.per_byte();
    Ok(Rate((8.0 / per_byte.to_f64()) as u64))
}

/// How to run it.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Rate of the fast links in Mbit/s; the slow ones have half of it.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "50", value_parser = mbps)]
    pub rate: Rate,
    /// How long an epoch is.
    #[arg(long, default_value = "slow")]
    pub epoch: Epoch,
    /// Chunks of every host.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=32))]
    pub chunks: u64,
    /// Time that a round should take by the claim, ms.
    #[arg(long = "round-ms", value_name = "ROUND_MS", default_value = "4000", value_parser = millis)]
    pub round: Nanos,
    /// Rounds; the first one is not counted.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
    pub iterations: u64,
    /// How often everything is run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// allgather, allreduce or reduce_scatter.
    #[arg(long, default_value = "allgather", value_parser = collective)]
    pub collective: Collective,
    /// The plan alone, without the ring.
    #[arg(long)]
    pub no_ring: bool,
    /// Part of every link that daemons leave free.
    #[arg(long, default_value_t = 0.01)]
    pub reserve: f64,
    /// Policies, each of which runs the plan and the ring.
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',', default_value = "sluice,fair:cubic")]
    pub policies: Vec<Policy>,
}

/// The plan or the ring under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct EpochsRun {
    /// `plan` or `ring`.
    pub by: &'static str,
    /// Times and rates of this run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Its bandwidth against the claim, or against what the ring can reach.
    pub of_theory: f64,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct EpochsResult {
    /// What is done with the data.
    pub collective: &'static str,
    /// Data of a round: what each member has, or ends with.
    pub bytes: u64,
    /// Number of hosts that take part.
    pub members: usize,
    /// Chunks into which each member's data is cut.
    pub chunks: u64,
    /// Epochs of the plan.
    pub epochs: u64,
    /// Length of an epoch, ms.
    pub epoch_ms: f64,
    /// Sends of the plan.
    pub sends: usize,
    /// Is it proved that no plan has fewer epochs?
    pub optimal: bool,
    /// The plan's claim: data over time, payload Mbit/s.
    pub claim_mbps: f64,
    /// The same of the ring.
    pub ring_mbps: f64,
    /// Every run, repeat by repeat.
    pub runs: Vec<EpochsRun>,
}

/// Runs the plan and the ring under every policy, as often as asked for.
///
/// # Errors
/// As a run; every float is checked in every round.
pub fn epochs(bench: &Bench<'_>, settings: &Settings) -> Result<EpochsResult, RunError> {
    let spec = ndv2(settings.rate);
    let Settings { collective, chunks, epoch, round, .. } = *settings;
    let planned = plan_on(&spec, collective, chunks, epoch, round, bench.dir.join("plan.json"))?;
    let ring_file = bench.dir.join("ring.json");
    let ring = spec.payload(ring_on(&spec, collective, &ring_file)?);
    let claim = spec.payload(planned.claim.rate);
    let bytes = claim.over(round);
    let mut ways = vec![("plan", &planned.file, claim)];
    if !settings.no_ring {
        ways.push(("ring", &ring_file, ring));
    }
    let mut runs = Vec::new();
    for _ in 0..settings.repeats {
        for policy in &settings.policies {
            for (by, file, theory) in &ways {
                let job = Collectives {
                    name: by,
                    arch: Arch::Plan,
                    file,
                    fabric: &spec,
                    bytes,
                    rounds: settings.iterations,
                    // All members begin together, as the claim has it, also after a round that took a quarter longer.
                    period: bytes.at(*theory).scaled(1.25).plus(Nanos::from_millis(200)),
                    reserve: settings.reserve,
                };
                let measured = job.run(bench, policy)?;
                runs.push(EpochsRun { by, of_theory: measured.part_of(bytes, *theory), measured });
            }
        }
    }
    Ok(EpochsResult {
        collective: collective.word(),
        bytes: bytes.0,
        members: spec.hosts.len(),
        chunks,
        epochs: planned.epochs,
        epoch_ms: planned.epoch.0 as f64 / 1e6,
        sends: planned.sends,
        optimal: planned.claim.optimal,
        claim_mbps: claim.0 as f64 / 1e6,
        ring_mbps: ring.0 as f64 / 1e6,
        runs,
    })
}

impl EpochsResult {
    /// A table for people: every run, then the spread of each way and policy.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} of {} bytes over {} hosts, {} chunks each: {} epochs of {:.1} ms{}, {} sends, claim {:.1} Mbit/s payload, \
             ring {:.1}\n",
            self.collective,
            self.bytes,
            self.members,
            self.chunks,
            self.epochs,
            self.epoch_ms,
            if self.optimal { ", as few as can be" } else { "" },
            self.sends,
            self.claim_mbps,
            self.ring_mbps
        );
        let mut kinds: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
        for EpochsRun { by, measured, of_theory } in &self.runs {
            text.push_str(&format!("  {by:<5} {}", measured.line(*of_theory, "theory")));
            kinds.entry((measured.policy.as_str(), by)).or_default().push(measured.round_s);
        }
        for ((policy, by), times) in &mut kinds {
            times.sort_by(f64::total_cmp);
            let (least, most) = (times[0], times[times.len() - 1]);
            text.push_str(&format!("  {by:<5} {policy:<12} {} runs: {least:.3} to {most:.3} s\n", times.len()));
        }
        for policy in kinds.keys().map(|(policy, _)| *policy).collect::<BTreeSet<_>>() {
            let median = |by: &str| kinds.get(&(policy, by)).map(|times| times[times.len() / 2]);
            if let (Some(plan), Some(ring)) = (median("plan"), median("ring")) {
                let (ratio, theory) = (ring / plan, self.claim_mbps / self.ring_mbps);
                text.push_str(&format!("  plan over ring under {policy}: {ratio:.3}, {theory:.3} by the claim\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_is_the_finish_and_takes_the_time_asked_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let (spec, round) = (ndv2(Rate::mbps(50)), Nanos::from_millis(3600));
        let file = dir.path().join("plan.json");
        let planned = plan_on(&spec, Collective::AllGather, 2, Epoch::Slow, round, file).expect("a plan");
        // 14 chunks come to each host, six in an epoch: over two links two of them, over two one.
        assert!(planned.claim.optimal, "{planned:?}");
        assert_eq!((planned.epochs, planned.epoch, planned.sends), (3, Nanos::from_millis(1200), 8 * 14));
        // 16 chunks in three epochs of one chunk at 25 Mbit/s.
        assert!(planned.claim.rate.0.abs_diff(25_000_000 * 16 / 3) <= 1, "{planned:?}");
    }

    #[test]
    fn the_ring_goes_over_the_fast_links_both_ways() {
        let dir = tempfile::tempdir().expect("a directory");
        let ring = ring_on(&ndv2(Rate::mbps(50)), Collective::AllGather, &dir.path().join("ring.json"));
        // Seven eighths of the data come to a host over two links.
        assert!(ring.expect("a ring").0.abs_diff(100_000_000 * 8 / 7) <= 1);
    }
}
