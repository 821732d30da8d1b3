//! Ring all-reduces between sites of a wide-area network, by the plans of several methods of allocation.
//!
//! Sites are hosts that forward, with a cable for every edge of the graph, shaped each way, and the routes of the planner's
//! model. Capacities and sizes are those of the planner's generator over a factor, so that times stay. `sluice plan wan`
//! plans on the very links that are built, as a program of its own, since the testbed has no solver. A collective is a
//! job; all begin together, and the figure is the mean over the collectives of when each is done, against what the plan
//! claims. The claim is in wire rates, and is compared as payload. Methods take turns, under daemons; `tcp` is what happens
//! without them when every flow begins as soon as what it waits for has come.

mod network;
mod observed;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use sluice_plan::follow::{Followed, Job, Lane};
use sluice_plan::plan::{MAX_DAEMON_BYTES, Plan};
use sluice_planners_wan::method::Method;
use sluice_report::stats::mean;
use sluice_report::{FlowTimes, PolicyRun};
use sluice_schedule::{Nanos, Rate};

use super::{Bench, millis, refused, topology};
use crate::fabric::FabricSpec;
use crate::job::{Arch, PlanFile};
use crate::run::{Binaries, FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan, write};
pub use network::{Asked, Network, Sites};
pub use observed::{Collective, Observed, observe};

/// How links are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By TCP; what is expected is max-min fairness.
    Tcp,
    /// By daemons, with the plan of a method.
    Planned(Method),
}

impl std::str::FromStr for Way {
    type Err = String;
    fn from_str(word: &str) -> Result<Way, String> {
        let planned = Method::ALL.iter().find(|method| method.word() == word).map(|method| Way::Planned(*method));
        planned.or_else(|| (word == "tcp").then_some(Way::Tcp)).ok_or_else(|| {
            let words: Vec<&str> = Method::ALL.iter().map(|method| method.word()).collect();
            format!("tcp or one of {}", words.join(", "))
        })
    }
}

impl Way {
    fn word(self) -> &'static str {
        match self {
            Way::Tcp => "tcp",
            Way::Planned(method) => method.word(),
        }
    }
    /// What its plan is made by.
    fn method(self) -> Method {
        match self {
            Way::Tcp => Method::EqualWc,
            Way::Planned(method) => method,
        }
    }
}

/// How to run it.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// abilene or ring:N, of 3 to 40 sites.
    #[arg(long, default_value = "abilene")]
    pub sites: Sites,
    /// How many collectives.
    #[arg(long, default_value_t = 4)]
    pub collectives: usize,
    /// Sites in the ring of each.
    #[arg(long, default_value_t = 4)]
    pub participants: usize,
    /// Seed of capacities, rings and sizes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Capacities of some 180 Mbit/s and sizes of some 5 MB are divided by this.
    #[arg(long, value_name = "X", default_value = "10", value_parser = factor)]
    pub scale: f64,
    /// One-way delay of every cable, ms.
    #[arg(long = "delay-ms", value_name = "DELAY_MS", default_value = "0", value_parser = millis)]
    pub delay: Nanos,
    /// Methods of `sluice plan wan`, and tcp.
    #[arg(
        long = "method",
        value_name = "METHOD",
        value_delimiter = ',',
        default_value = "tcp,out_of_order,equal_alloc,data_aware,rate_alloc,multiring_ldv,prio,portfolio"
    )]
    pub methods: Vec<Way>,
    /// How often each is run.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Run all methods without daemons: plain CUBIC, which keeps no rate.
    #[arg(long)]
    pub no_daemon: bool,
    /// Part of every link that daemons leave free.
    #[arg(long, default_value_t = 0.01)]
    pub reserve: f64,
}

/// A factor above 0.
fn factor(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor: &f64| *factor > 0.0 && factor.is_finite())
        .ok_or_else(|| "a number above 0".into())
}

/// A plan on a network, written to a file.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Path of the plan's JSON.
    pub file: PathBuf,
    /// Mean time that it claims, s, at wire rates.
    pub mean: f64,
    /// By collective the lanes of its ring's hosts.
    pub lanes: Vec<Vec<Lane>>,
}

/// Plans by a method with `sluice plan wan`; plan, topology and flows are written into `dir`.
///
/// # Errors
/// Without the program, and [`RunError::Plan`] with what it says when it fails.
pub fn plan_on(network: &Network, method: Method, programs: &Binaries, dir: &Path) -> Result<Planned, RunError> {
    let (text, _) = topology(&network.spec)?;
    let (on, flows) = (dir.join("topology.json"), dir.join("flows.json"));
    write(&on, text)?;
    write(&flows, &network.flows)?;
    let file = dir.join(format!("{}.json", method.word()));
    let mut command = Command::new(programs.sluice()?);
    command.args(["plan", "wan", "--quiet", "--method", method.word()]);
    command.arg("--topology").arg(&on).arg("--flows").arg(&flows).arg("--out").arg(&file);
    let output = command.output().map_err(RunError::io("starting sluice plan wan"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(RunError::Plan(format!("sluice plan wan: {}: {}", output.status, said.trim())));
    }
    let bytes = std::fs::read(&file).map_err(RunError::io(format!("reading {}", file.display())))?;
    let plan = Plan::read_at_most(&bytes, "plan.json", MAX_DAEMON_BYTES).map_err(refused)?;
    let mean = plan.body.claim.t_mean_s.as_ref().map_or(f64::NAN, |mean| mean.value().to_f64());
    let lanes = |(k, ring): (usize, &Vec<usize>)| {
        let ranks = names(network, ring);
        let job = Job { ranks: Some(&ranks), collective: Some(k as u64) };
        Ok(Followed::by(&bytes, "plan.json", job, None).map_err(refused)?.transfers.lanes)
    };
    let lanes = network.rings.iter().enumerate().map(lanes).collect::<Result<_, RunError>>()?;
    Ok(Planned { file, mean, lanes })
}

fn names(network: &Network, ring: &[usize]) -> Vec<String> {
    ring.iter().map(|host| network.spec.hosts[*host].clone()).collect()
}

/// One run of one method.
#[derive(Clone, Debug, Serialize)]
pub struct WanRun {
    /// Its word.
    pub method: &'static str,
    /// The policy that it ran under, as the command line names it.
    pub policy: String,
    /// By collective when it was done, s.
    #[serde(rename = "T")]
    pub t: Vec<f64>,
    /// Their mean, s.
    pub mean_s: f64,
    /// Flows that began too early.
    pub violations: usize,
    /// The mean time of a flow, s.
    pub flow_s: f64,
    /// Segments that all members retransmitted.
    pub retransmits: u64,
    /// Every flow.
    pub flows: Vec<WanFlow>,
    /// What was unusual: a plan that a daemon did not follow, a machine too busy to keep time.
    pub notes: Vec<String>,
}

/// When a flow went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WanFlow {
    /// Number of its collective.
    pub collective: usize,
    /// Its lane, as the collective's part of the plan counts them.
    pub lane: usize,
    /// Its place in the lane.
    pub place: usize,
    /// Number of the site that sends.
    pub from: usize,
    /// Number of the site that receives.
    pub to: usize,
    /// Its sender began, s from the start of the run.
    pub began_s: f64,
    /// Its receiver had the last byte, s.
    pub ended_s: f64,
}

impl WanRun {
    /// What the members of all jobs said; jobs are the collectives in their order.
    fn of(way: Way, run: &PolicyRun, lanes: &[Vec<Lane>], rings: &[Vec<usize>]) -> Result<WanRun, RunError> {
        let jobs = run.jobs.iter().zip(lanes);
        let collectives: Vec<_> = jobs.map(|(job, lanes)| Collective { lanes, flows: &job.flows }).collect();
        let observed = observe(&collectives);
        let Observed { t, mean, violations, flow_s } =
            observed.ok_or_else(|| RunError::Plan(format!("{}: a flow did not say when it went", way.word())))?;
        let retransmits = run.jobs.iter().map(|job| job.retransmits).sum();
        let of_job = |(k, (of, ring)): (usize, (&Collective<'_>, &Vec<usize>))| {
            let site = |rank: u32| ring[rank as usize];
            let flow = |seen: &FlowTimes| {
                let lane = &of.lanes[seen.lane];
                let (from, to) = (site(lane.from), site(lane.to));
                let (began_s, ended_s) = seen.began_s.zip(seen.ended_s)?;
                Some(WanFlow { collective: k, lane: seen.lane, place: seen.flow, from, to, began_s, ended_s })
            };
            of.flows.iter().filter_map(flow).collect::<Vec<_>>()
        };
        let flows = collectives.iter().zip(rings).enumerate().flat_map(of_job).collect();
        let (method, policy, notes) = (way.word(), run.policy.clone(), run.notes.clone());
        Ok(WanRun { method, policy, t, mean_s: mean, violations, flow_s, retransmits, flows, notes })
    }
}

/// All runs of one method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WanSummary {
    /// Its word.
    pub method: &'static str,
    /// How often it was run.
    pub runs: usize,
    /// Mean over the runs of the mean time of a collective, s.
    pub mean_s: f64,
    /// Standard deviation of that over the runs, s.
    pub deviation_s: f64,
    /// The same as the plan claims it, with the payload rates of the links, s.
    pub simulated_s: f64,
    /// What was measured over what was simulated.
    pub ratio: f64,
    /// Flows that began too early, of all runs.
    pub violations: usize,
}

impl WanSummary {
    fn of(method: &'static str, simulated_s: f64, runs: &[WanRun]) -> WanSummary {
        let mine: Vec<&WanRun> = runs.iter().filter(|run| run.method == method).collect();
        let times: Vec<f64> = mine.iter().map(|run| run.mean_s).collect();
        let mean_s = mean(&times);
        // Of a sample: a single run has no deviation.
        let squares: f64 = times.iter().map(|time| (time - mean_s).powi(2)).sum();
        let deviation_s = (squares / times.len().saturating_sub(1).max(1) as f64).sqrt();
        let violations = mine.iter().map(|run| run.violations).sum();
        WanSummary {
            method,
            runs: times.len(),
            mean_s,
            deviation_s,
            simulated_s,
            ratio: mean_s / simulated_s,
            violations,
        }
    }
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct WanResult {
    /// Number of sites.
    pub sites: usize,
    /// Number of cables.
    pub cables: usize,
    /// By collective its ring.
    pub rings: Vec<Vec<String>>,
    /// One-way delay of every cable, ms.
    pub delay_ms: f64,
    /// Every method, in the order asked for.
    pub summaries: Vec<WanSummary>,
    /// Every run, repeat by repeat.
    pub runs: Vec<WanRun>,
}

/// Plans by every method and runs all by turns, as often as asked for.
///
/// # Errors
/// As a run; every byte is checked.
pub fn wan(bench: &Bench<'_>, settings: &Settings) -> Result<WanResult, RunError> {
    let Settings { collectives, participants, seed, scale, delay, .. } = *settings;
    let drawn = Network::draw(&settings.sites, &Asked { collectives, participants, seed, scale, delay });
    let network = drawn.map_err(|refusal| RunError::Plan(refusal.to_string()))?;
    let plan = |way: &Way| Ok((*way, plan_on(&network, way.method(), bench.binaries, &bench.dir)?));
    let plans = settings.methods.iter().map(plan).collect::<Result<Vec<_>, RunError>>()?;
    let wire = Rate::mbps(1_000);
    let headers = wire.0 as f64 / network.spec.payload(wire).0 as f64;
    let mut runs = Vec::new();
    for repeat in 0..settings.runs {
        for (way, planned) in &plans {
            let fair = settings.no_daemon || *way == Way::Tcp;
            let policy = if fair { Policy::Fair(None) } else { Policy::Sluice { policy: None, nic: false } };
            let limit = Nanos::from_millis(60_000 + (planned.mean * 1e4) as u64);
            let places = network.rings.iter().map(|ring| Placement { workers: ring.clone(), servers: Vec::new() });
            let mut queue = FixedQueue::new(places.collect());
            let plan = RunPlan { reserve: settings.reserve, limit, ..run_plan(&network, planned) };
            let name = format!("{}-{repeat}", way.word());
            let run = bench.run(&plan, &mut queue, &policy, &name)?;
            runs.push(WanRun::of(*way, &run, &planned.lanes, &network.rings)?);
        }
    }
    let summary = |(way, planned): &(Way, Planned)| WanSummary::of(way.word(), planned.mean * headers, &runs);
    Ok(WanResult {
        sites: network.spec.hosts.len(),
        cables: network.spec.cables.len(),
        rings: network.rings.iter().map(|ring| names(&network, ring)).collect(),
        delay_ms: delay.0 as f64 / 1e6,
        summaries: plans.iter().map(summary).collect(),
        runs,
    })
}

/// A job for every collective, which carries its part of the plan out once.
fn run_plan(network: &Network, planned: &Planned) -> RunPlan {
    let job = |(k, ring): (usize, &Vec<usize>)| {
        let plan = PlanFile { file: planned.file.clone(), ranks: names(network, ring), collective: Some(k as u64) };
        JobPlan {
            arch: Arch::Plan,
            plan: Some(plan),
            ..JobPlan::ring(format!("collective{k}"), ring.len(), network.volumes[k], 1)
        }
    };
    RunPlan {
        name: "wan".into(),
        fabric: network.spec.clone(),
        jobs: network.rings.iter().enumerate().map(job).collect(),
        together: true,
        warmup: 0,
        floor: Some(floor(&network.spec)),
        ..RunPlan::default()
    }
}

/// The rate that every flow keeps: a sixtieth of what a cable carries on average, so that flows which had to wait hear of
/// their turn within milliseconds.
fn floor(spec: &FabricSpec) -> Rate {
    let all: u64 = spec.cables.iter().map(|cable| cable.ab.0).sum();
    Rate(all / spec.cables.len().max(1) as u64 / 60).max(Rate::mbps(1))
}

impl WanResult {
    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} collectives over {} sites and {} cables of {} ms\n  {:<18} {:>4} {:>8} {:>7} {:>10} {:>6} {:>10}\n",
            self.rings.len(),
            self.sites,
            self.cables,
            self.delay_ms,
            "method",
            "runs",
            "mean T",
            "±",
            "simulated",
            "ratio",
            "violations"
        );
        for WanSummary { method, runs, mean_s, deviation_s, simulated_s, ratio, violations } in &self.summaries {
            text.push_str(&format!(
                "  {method:<18} {runs:>4} {mean_s:>6.3} s {deviation_s:>7.3} {simulated_s:>8.3} s {ratio:>6.3} {violations:>10}\n"
            ));
        }
        for run in &self.runs {
            run.notes.iter().for_each(|note| text.push_str(&format!("  {}: {note}\n", run.method)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_their_words() {
        for word in ["tcp", "out_of_order", "rate_alloc", "portfolio"] {
            assert_eq!(word.parse::<Way>().unwrap().word(), word);
        }
        assert!("cubic".parse::<Way>().unwrap_err().contains("multiring_ldv"));
    }

    #[test]
    fn a_method_is_summed_up_over_its_own_runs() {
        let run = |method, mean_s| WanRun {
            method,
            policy: "sluice".into(),
            t: vec![mean_s],
            mean_s,
            violations: 1,
            flow_s: 0.1,
            retransmits: 0,
            flows: Vec::new(),
            notes: Vec::new(),
        };
        let runs = [run("prio", 1.0), run("tcp", 9.0), run("prio", 3.0)];
        let of = WanSummary::of("prio", 4.0, &runs);
        assert_eq!((of.runs, of.mean_s, of.ratio, of.violations), (2, 2.0, 0.5, 2));
        assert!((of.deviation_s - 2_f64.sqrt()).abs() < 1e-12);
        assert_eq!(WanSummary::of("tcp", 9.0, &runs).deviation_s, 0.0);
    }
}
