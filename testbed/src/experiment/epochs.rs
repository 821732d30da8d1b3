//! An all-gather by chunks in epochs on the graph of an NDv2 machine, eight hosts wired to each other without a switch,
//! against rings over its fast links.
//!
//! The graph is that of eight GPUs (DGX1, NDv2), with links of two rates. `sluice plan te-ccl`'s planner plans on the very
//! links that are built, with chunks so large that a round by the claim takes the time asked for. The claim and the
//! theory of the rings are in wire rates, and are compared as payload. A run measures the time of a round against them,
//! from the first member's beginning to the last one's end; all begin together, since the claim does.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::plan::Collective;
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{Instance, Options, Volume, make};
use sluice_planners::{Request, Run};
use sluice_schedule::{Bytes, Nanos, Rate};

use super::capacity::queue;
use super::{Bench, Claimed, Collectives, Measured, keep_plan, mbps, millis};
use crate::fabric::{Cable, FabricSpec, Layout};
use crate::job::Arch;
use crate::run::daemons::topology_json;
use crate::run::{Policy, RunError, write};

/// Pairs of GPUs of an NDv2 machine with a link of the full rate.
const FAST: [[usize; 2]; 8] = [[0, 1], [0, 4], [1, 3], [2, 3], [2, 6], [4, 5], [5, 7], [6, 7]];
/// Pairs with a link of half the rate.
const SLOW: [[usize; 2]; 8] = [[0, 2], [0, 3], [1, 2], [1, 5], [3, 7], [4, 6], [4, 7], [5, 6]];
/// The ring over all fast links.
const RING: [usize; 8] = [0, 1, 3, 2, 6, 7, 5, 4];

/// Eight hosts wired as the GPUs of an NDv2 machine; its fast links have this wire rate.
pub fn ndv2(fast: Rate) -> FabricSpec {
    let cable =
        |rate: Rate| move |[a, b]: &[usize; 2]| Cable::plain(format!("h{a}"), format!("h{b}"), rate, queue(rate));
    let cables = FAST.iter().map(cable(fast)).chain(SLOW.iter().map(cable(Rate(fast.0 / 2)))).collect();
    FabricSpec { hosts: (0..8).map(|host| format!("h{host}")).collect(), cables, ..FabricSpec::default() }
}

/// The way of an all-gather from host to host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// By the plan.
    Plan,
    /// Round the fast links, one way.
    Ring,
    /// Round the fast links, half of every part each way.
    BothWays,
}

impl By {
    fn word(self) -> &'static str {
        match self {
            By::Plan => "plan",
            By::Ring => "ring",
            By::BothWays => "both-ways",
        }
    }
}

/// A plan on a fabric, written to a file, with its figures.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Where it lies.
    pub file: PathBuf,
    /// What it claims.
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
    let refused = |errors: sluice_formats::problem::Problems| RunError::Plan(errors.to_string());
    let topology = topology_json(spec, &Layout::of(spec)?, false);
    let topology = Topology::read(topology.as_bytes(), "topology.json").map_err(refused)?;
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

/// The plan of an all-gather round the fast links of [`ndv2`], one way or both ways, as synchronised steps.
///
/// # Errors
/// [`RunError::Io`] where the file cannot be written.
pub fn ring_plan(spec: &FabricSpec, both_ways: bool, file: PathBuf) -> Result<PathBuf, RunError> {
    let layout = Layout::of(spec)?;
    let text = topology_json(spec, &layout, false);
    let refused = |errors: sluice_formats::problem::Problems| RunError::Plan(errors.to_string());
    let topology = Topology::read(text.as_bytes(), "topology.json").map_err(refused)?;
    let inline: serde_json::Value = serde_json::from_str(&text).map_err(|error| RunError::Plan(error.to_string()))?;
    let n = RING.len();
    let mut back = RING;
    back.reverse();
    let ways: &[[usize; 8]] = if both_ways { &[RING, back] } else { &[RING] };
    let link = |from: usize, to: usize| {
        let ends = |link: &sluice_formats::topology::Link| link.from == from && link.to == to;
        topology.links().iter().position(ends).ok_or_else(|| RunError::Plan("the ring has a gap".into()))
    };
    let mut steps = Vec::new();
    for step in 0..n - 1 {
        let mut sends = Vec::new();
        for (half, ring) in ways.iter().enumerate() {
            for place in 0..n {
                let owner = ring[(place + n - step) % n];
                sends.push(json!([owner, half, half + 1, link(ring[place], ring[(place + 1) % n])?]));
            }
        }
        steps.push(json!({"op": "copy", "sends": sends}));
    }
    let plan = json!({
        "sluice_plan": 1,
        "collective": Collective::AllGather.word(),
        "claim": {},
        "topology": {"sha256": topology.digest(), "inline": inline},
        "content": {"kind": "steps", "P": ways.len(), "steps": steps},
    });
    write(&file, plan.to_string())?;
    Ok(file)
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
    /// The plan alone, without the rings.
    #[arg(long)]
    pub no_rings: bool,
    /// Part of every link that daemons leave free.
    #[arg(long, default_value_t = 0.01)]
    pub reserve: f64,
    /// Policies.
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',', default_value = "sluice,fair:cubic")]
    pub policies: Vec<Policy>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct EpochsRun {
    /// By the plan or round a ring.
    pub by: By,
    /// What it measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// Its bandwidth against the claim, or against what a ring can reach.
    pub of_theory: f64,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct EpochsResult {
    /// Bytes that everybody ends with.
    pub bytes: u64,
    /// Members.
    pub members: usize,
    /// Chunks of each.
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
    /// The same for a ring one way.
    pub ring_mbps: f64,
    /// Every run, repeat by repeat.
    pub runs: Vec<EpochsRun>,
}

/// Runs the plan and both rings under every policy, as often as asked for.
///
/// # Errors
/// As a run; every float is checked in every round.
pub fn epochs(bench: &Bench<'_>, settings: &Settings) -> Result<EpochsResult, RunError> {
    let spec = ndv2(settings.rate);
    let Settings { chunks, epoch, round, .. } = *settings;
    let planned = plan_on(&spec, Collective::AllGather, chunks, epoch, round, bench.dir.join("plan.json"))?;
    let ring = ring_plan(&spec, false, bench.dir.join("ring.json"))?;
    let both_ways = ring_plan(&spec, true, bench.dir.join("both-ways.json"))?;
    let members = spec.hosts.len();
    // All but its own part comes to a host over one fast link.
    let once = Rate((settings.rate.0 as f64 * members as f64 / (members - 1) as f64) as u64);
    let (claim, once) = (spec.payload(planned.claim.rate), spec.payload(once));
    let bytes = claim.over(settings.round);
    let mut ways = vec![(By::Plan, &planned.file, claim)];
    if !settings.no_rings {
        ways.extend([(By::Ring, &ring, once), (By::BothWays, &both_ways, Rate(once.0 * 2))]);
    }
    let mut runs = Vec::new();
    for _ in 0..settings.repeats {
        for policy in &settings.policies {
            for (by, file, theory) in &ways {
                let job = Collectives {
                    name: by.word(),
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
                runs.push(EpochsRun { by: *by, of_theory: measured.part_of(bytes, *theory), measured });
            }
        }
    }
    Ok(EpochsResult {
        bytes: bytes.0,
        members,
        chunks: settings.chunks,
        epochs: planned.epochs,
        epoch_ms: planned.epoch.0 as f64 / 1e6,
        sends: planned.sends,
        optimal: planned.claim.optimal,
        claim_mbps: claim.0 as f64 / 1e6,
        ring_mbps: once.0 as f64 / 1e6,
        runs,
    })
}

impl EpochsResult {
    /// A table for people: every run, then the spread of each way and policy.
    pub fn table(&self) -> String {
        let mut text = format!(
            "all-gather of {} bytes over {} hosts, {} chunks each: {} epochs of {:.1} ms{}, {} sends, claim {:.1} Mbit/s \
             payload, ring {:.1}\n",
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
        for run in &self.runs {
            text.push_str(&format!("  {:<10} {}", run.by.word(), run.measured.line(run.of_theory, "theory")));
        }
        let mut seen: Vec<(By, &str)> = Vec::new();
        for EpochsRun { by, measured, .. } in &self.runs {
            let policy = measured.policy.as_str();
            if seen.contains(&(*by, policy)) {
                continue;
            }
            seen.push((*by, policy));
            let mut parts: Vec<f64> = self.parts(*by, policy);
            parts.sort_by(f64::total_cmp);
            let (least, middle, most) = (parts[0], parts[parts.len() / 2], parts[parts.len() - 1]);
            text.push_str(&format!(
                "  {:<10} {policy:<12} {} runs: {:.1} to {:.1} % of theory, median {:.1}\n",
                by.word(),
                parts.len(),
                least * 100.0,
                most * 100.0,
                middle * 100.0
            ));
        }
        text
    }

    /// The parts of theory that all runs of one kind reached.
    fn parts(&self, by: By, policy: &str) -> Vec<f64> {
        let of = self.runs.iter().filter(|run| run.by == by && run.measured.policy == policy);
        of.map(|run| run.of_theory).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_plan::check::check;
    use sluice_plan::plan::Plan;

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
    fn rings_are_right_plans_over_fast_links_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = ndv2(Rate::mbps(50));
        for (both_ways, sends) in [(false, 56), (true, 112)] {
            let file = ring_plan(&spec, both_ways, dir.path().join("ring.json")).expect("a plan");
            let plan = Plan::read(&std::fs::read(file).expect("written"), "ring.json").expect("a plan");
            let report = check(&plan, None);
            assert_eq!(report.violation, None);
            let sluice_plan::plan::Content::Steps(steps) = &plan.body.content else { panic!("steps") };
            let all: Vec<_> = steps.steps.iter().flat_map(|step| &step.sends).collect();
            assert_eq!(all.len(), sends);
            // The fast links come first.
            assert!(all.iter().all(|send| send.link < 16));
        }
    }
}
