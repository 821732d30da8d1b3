//! An all-gather by the trees of a fluid program against ForestColl's, where a memory copies and where links share a
//! limit.
//!
//! `sluice plan fluid-lp` plans on the very links that are built, as a program of its own, since the testbed has no solver.
//! ForestColl takes a memory for a switch and plans without the limits that are shared; what its trees can reach with them
//! is what the checker finds. Claim and theory are in wire rates, and are compared as payload. Both are run by turns, all
//! members of a round begin together, and every float is checked.

use std::hint::spin_loop;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde::Serialize;
use sluice_formats::topology::Topology;
use sluice_plan::check;
use sluice_plan::plan::{Claim, Collective, Content, MAX_DAEMON_BYTES, Plan};
use sluice_planners::forestcoll::{Instance, Options, Way, make};
use sluice_planners::{Request, Run};
use sluice_report::stats::percentile;
use sluice_schedule::{Nanos, Rate};

use super::capacity::queue;
use super::{Bench, Claimed, Collectives, Measured, keep_plan, mbps, millis, refused, topology};
use crate::fabric::{Cable, FabricSpec, Group};
use crate::job::Arch;
use crate::run::{Binaries, Policy, RunError, write};

/// A fabric on which fluid programs and packed trees differ, or may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// Four hosts around a memory.
    StarMemory,
    /// The same, where all links together carry 2.4 times what one does.
    StarMemoryLimit,
    /// Two boxes of two hosts with a cable of half the rate inside and two between them, which carry three quarters of one
    /// together.
    TwoBox,
}

impl Case {
    /// Its name on the command line and in results.
    pub fn word(self) -> &'static str {
        match self {
            Case::StarMemory => "star-memory",
            Case::StarMemoryLimit => "star-memory-limit",
            Case::TwoBox => "two-box",
        }
    }

    /// The network to build.
    pub fn spec(self, rate: Rate) -> FabricSpec {
        let cable = |a: &str, b: &str, rate: Rate| Cable::plain(a, b, rate, queue(rate));
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let group = |name: &str, links: std::ops::Range<usize>, rate: u64| {
            vec![Group { name: name.into(), links: links.collect(), rate: Rate(rate) }]
        };
        if self == Case::TwoBox {
            let half = Rate(rate.0 / 2);
            let inside = [cable("h0", "h1", half), cable("h2", "h3", half)];
            let between = [cable("h0", "h2", rate), cable("h1", "h3", rate)];
            return FabricSpec {
                hosts: named(&["h0", "h1", "h2", "h3"]),
                cables: inside.into_iter().chain(between).collect(),
                groups: group("between", 4..8, rate.0 / 4 * 3),
                ..FabricSpec::default()
            };
        }
        let hosts = ["h0", "h1", "h2", "h3"];
        let groups = if self == Case::StarMemoryLimit { group("hub", 0..8, rate.0 / 10 * 24) } else { Vec::new() };
        FabricSpec {
            hosts: named(&[&hosts[..], &["m"]].concat()),
            cables: hosts.iter().map(|host| cable(host, "m", rate)).collect(),
            memories: vec![hosts.len()],
            groups,
            ..FabricSpec::default()
        }
    }
}

/// A plan on a fabric, written to a file.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Path of the plan's JSON.
    pub file: PathBuf,
    /// What the planner says it can reach.
    pub claim: Claimed,
    /// What it can reach with the limits that are shared: data over time in wire rates.
    pub reach: Rate,
}

/// What the checker finds a plan to reach if no key of the topology is ignored.
fn reach(plan: &Plan, topology: &Topology) -> Result<Rate, RunError> {
    let mut plan = plan.clone();
    (plan.body.claim, plan.body.ignored) = (Claim::default(), None);
    if let Content::Trees(trees) = &mut plan.body.content {
        trees.forests.iter_mut().for_each(|forest| forest.u = None);
    }
    let report = check::check(&plan, Some(topology));
    match (report.violation, report.figures) {
        (None, Some(figures)) => Ok(Rate((8.0 / figures.time_per_byte.to_f64()) as u64)),
        (violation, _) => Err(RunError::Plan(violation.map_or("without figures".into(), |v| v.message))),
    }
}

/// Plans an all-gather of all members with `sluice plan fluid-lp`; plan and topology are written into `dir`.
///
/// # Errors
/// Without the program, and [`RunError::Plan`] with what it says when it fails.
pub fn fluid_on(spec: &FabricSpec, programs: &Binaries, dir: &Path) -> Result<Planned, RunError> {
    let (text, topology) = topology(spec)?;
    let (from, file) = (dir.join("topology.json"), dir.join("fluid.json"));
    write(&from, text)?;
    let mut command = Command::new(programs.sluice()?);
    command.args(["plan", "fluid-lp", "--quiet", "--collective", "allgather"]);
    command.arg("--topology").arg(&from).arg("--out").arg(&file);
    let output = command.output().map_err(RunError::io("starting sluice plan fluid-lp"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(RunError::Plan(format!("sluice plan fluid-lp: {}: {}", output.status, said.trim())));
    }
    let bytes = std::fs::read(&file).map_err(RunError::io(format!("reading {}", file.display())))?;
    let mut plan = Plan::read_at_most(&bytes, "fluid.json", MAX_DAEMON_BYTES).map_err(refused)?;
    let reach = reach(&plan, &topology)?;
    Ok(Planned { claim: keep_plan(&mut plan, &file)?, file, reach })
}

/// Plans the same with ForestColl, which ignores limits that are shared.
///
/// # Errors
/// [`RunError::Plan`] with what the planner refuses.
pub fn forest_on(spec: &FabricSpec, dir: &Path) -> Result<Planned, RunError> {
    let (_, topology) = topology(spec)?;
    let ignore = if spec.groups.is_empty() { Vec::new() } else { vec!["groups".to_owned()] };
    let request = Request { ignore: &ignore, ..Request::of_all(Collective::AllGather) };
    let instance = Instance::new(&topology, &request, "topology.json").map_err(refused)?;
    // Copies in a memory are a fluid program's; trees of ranks alone are ForestColl's.
    let options = Options { in_network: false, ..Options::default() };
    let mut made = make(&instance, &options, Way::Auto, &Run::quiet(1)).map_err(refused)?;
    let reach = reach(&made.plan, &topology)?;
    let file = dir.join("forest.json");
    Ok(Planned { claim: keep_plan(&mut made.plan, &file)?, file, reach })
}

/// How to run it.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Fabrics; all of them by default.
    #[arg(
        long = "case",
        value_name = "CASE",
        value_delimiter = ',',
        default_value = "star-memory,star-memory-limit,two-box"
    )]
    pub cases: Vec<Case>,
    /// Rate of a link in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "50", value_parser = mbps)]
    pub rate: Rate,
    /// Time that a round should take by the fluid program's claim, ms.
    #[arg(long = "round-ms", value_name = "ROUND_MS", default_value = "3000", value_parser = millis)]
    pub round: Nanos,
    /// Rounds of a run; the first one is not counted.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..))]
    pub iterations: u64,
    /// How often everything is run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Keep one core busy meanwhile.
    #[arg(long)]
    pub busy: bool,
    /// Part of every link that daemons leave free.
    #[arg(long, default_value_t = 0.01)]
    pub reserve: f64,
    /// Policies, each of which runs every plan.
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',', default_value = "fair:cubic,sluice")]
    pub policies: Vec<Policy>,
}

/// One plan under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct FluidRun {
    /// Name of the fabric: [`Case::word`].
    pub case: &'static str,
    /// `fluid` or `forest`.
    pub by: &'static str,
    /// Times and rates of this run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Its bandwidth against what its plan can reach, shared limits included; of a fluid program this is its claim.
    pub of_theory: f64,
}

/// A fabric with its plans.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    /// Name of the fabric: [`Case::word`].
    pub case: &'static str,
    /// Data of a round: what each member ends with.
    pub bytes: u64,
    /// Is it proved that no plan is faster than the fluid program's?
    pub optimal: bool,
    /// Its claim: data over time, payload Mbit/s.
    pub claim_mbps: f64,
    /// What ForestColl claims, without shared limits.
    pub forest_claim_mbps: f64,
    /// What its trees can reach with them.
    pub forest_reach_mbps: f64,
}

/// Runs of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct FluidSummary {
    /// Name of the fabric: [`Case::word`].
    pub case: &'static str,
    /// The policy of these runs.
    pub policy: String,
    /// Part of the claim that the fluid program's plan reached: least, median, most.
    pub of_claim: [f64; 3],
    /// The same of ForestColl's plan and what it can reach.
    pub of_reach: [f64; 3],
    /// A round of ForestColl's plan over one of the fluid program's, run by run: least, median, most.
    pub ratio: [f64; 3],
    /// What that should be.
    pub ratio_in_theory: f64,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct FluidResult {
    /// Was a core kept busy?
    pub busy: bool,
    /// Every fabric with its plans.
    pub cases: Vec<CaseResult>,
    /// Every fabric under every policy.
    pub summaries: Vec<FluidSummary>,
    /// Every run, repeat by repeat.
    pub runs: Vec<FluidRun>,
}

/// Plans and runs all fabrics under every policy, as often as asked for.
///
/// # Errors
/// As a run; every float is checked in every round.
pub fn fluid(bench: &Bench<'_>, settings: &Settings) -> Result<FluidResult, RunError> {
    let _busy = settings.busy.then(Busy::start).transpose()?;
    let (mut cases, mut summaries, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for case in &settings.cases {
        let bench = Bench { dir: bench.session(case.word())?.dir, ..*bench };
        let spec = case.spec(settings.rate);
        let plans = [fluid_on(&spec, bench.binaries, &bench.dir)?, forest_on(&spec, &bench.dir)?];
        let [claim, forest] = [spec.payload(plans[0].reach), spec.payload(plans[1].reach)];
        let bytes = claim.over(settings.round);
        let first = runs.len();
        for _ in 0..settings.repeats {
            for policy in &settings.policies {
                for (by, planned, theory) in [("fluid", &plans[0], claim), ("forest", &plans[1], forest)] {
                    let job = Collectives {
                        name: by,
                        arch: Arch::Plan,
                        file: &planned.file,
                        fabric: &spec,
                        bytes,
                        rounds: settings.iterations,
                        // All members begin together, also after a round that took a quarter longer.
                        period: bytes.at(theory).scaled(1.25).plus(Nanos::from_millis(200)),
                        reserve: settings.reserve,
                    };
                    let measured = job.run(&bench, policy)?;
                    let of_theory = measured.part_of(bytes, theory);
                    runs.push(FluidRun { case: case.word(), by, of_theory, measured });
                }
            }
        }
        let mbps = |rate: Rate| rate.0 as f64 / 1e6;
        let result = CaseResult {
            case: case.word(),
            bytes: bytes.0,
            optimal: plans[0].claim.optimal,
            claim_mbps: mbps(claim),
            forest_claim_mbps: mbps(spec.payload(plans[1].claim.rate)),
            forest_reach_mbps: mbps(forest),
        };
        let policies = settings.policies.iter().map(Policy::to_string);
        summaries.extend(policies.map(|policy| FluidSummary::of(&result, policy, &runs[first..])));
        cases.push(result);
    }
    Ok(FluidResult { busy: settings.busy, cases, summaries, runs })
}

impl FluidSummary {
    fn of(case: &CaseResult, policy: String, runs: &[FluidRun]) -> FluidSummary {
        let mine = |by: &'static str| {
            let policy = &policy;
            runs.iter().filter(move |run| run.by == by && run.measured.policy == *policy)
        };
        let parts = |by| spread(mine(by).map(|run| run.of_theory).collect());
        let pairs = mine("forest").zip(mine("fluid"));
        let ratio = spread(pairs.map(|(forest, fluid)| forest.measured.round_s / fluid.measured.round_s).collect());
        let ratio_in_theory = case.claim_mbps / case.forest_reach_mbps;
        let (of_claim, of_reach) = (parts("fluid"), parts("forest"));
        FluidSummary { case: case.case, of_claim, of_reach, ratio, ratio_in_theory, policy }
    }
}

/// Least, median, most.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.0, 0.5, 1.0].map(|q| percentile(&values, q))
}

/// A thread that keeps one core busy until it is dropped.
struct Busy {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start() -> Result<Busy, RunError> {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let body = move || {
            while !seen.load(Ordering::Relaxed) {
                spin_loop();
            }
        };
        let thread = std::thread::Builder::new().name("busy".into()).spawn(body);
        Ok(Busy { over, thread: Some(thread.map_err(RunError::io("starting a thread"))?) })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only loops.
            drop(thread.join());
        }
    }
}

impl FluidResult {
    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            text.push_str(&format!(
                "{}: all-gather of {} bytes, claim {:.1} Mbit/s payload{}, ForestColl {:.1} where links share nothing, {:.1} here\n",
                case.case,
                case.bytes,
                case.claim_mbps,
                if case.optimal { ", the best possible" } else { "" },
                case.forest_claim_mbps,
                case.forest_reach_mbps,
            ));
            for run in self.runs.iter().filter(|run| run.case == case.case) {
                text.push_str(&format!("  {:<6} {}", run.by, run.measured.line(run.of_theory, "theory")));
            }
            for of in self.summaries.iter().filter(|summary| summary.case == case.case) {
                let percent = |parts: [f64; 3]| {
                    let [least, median, most] = parts.map(|part| part * 100.0);
                    format!("{median:.1} % ({least:.1} to {most:.1})")
                };
                let ([least, ratio, most], busy) = (of.ratio, if self.busy { ", one core busy" } else { "" });
                text.push_str(&format!(
                    "  {}{busy}: {} of the claim, ForestColl {} of its theory; ratio {ratio:.3} ({least:.3} to {most:.3}), {:.3} in \
                     theory\n",
                    of.policy,
                    percent(of.of_claim),
                    percent(of.of_reach),
                    of.ratio_in_theory,
                ));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wire rates of what ForestColl claims and reaches, in rates of a link.
    fn forest(case: Case) -> [f64; 2] {
        let dir = tempfile::tempdir().expect("a directory");
        let planned = forest_on(&case.spec(Rate::mbps(100)), dir.path()).expect("a plan");
        [planned.claim.rate, planned.reach].map(|rate| (rate.0 as f64 / 1e5).round() / 1e3)
    }

    #[test]
    fn forestcoll_takes_a_memory_for_a_switch_and_pays_for_what_it_ignores() {
        // Three quarters of the data come to each host over one link.
        assert_eq!(forest(Case::StarMemory), [1.333, 1.333]);
        // Twelve shards cross two links each, of 2.4 together.
        assert_eq!(forest(Case::StarMemoryLimit), [1.333, 0.4]);
        // Two of three shards come to each host between the boxes, since there the cables are twice as fast.
        assert_eq!(forest(Case::TwoBox), [2.0, 0.375]);
    }

    #[test]
    fn a_core_is_kept_busy_until_the_end() {
        let busy = Busy::start().expect("a thread");
        let over = Arc::clone(&busy.over);
        drop(busy);
        assert!(over.load(Ordering::Relaxed));
    }
}
