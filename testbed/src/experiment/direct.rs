//! A collective by the steps of a breadth-first schedule between hosts that are wired to each other without a switch.
//!
//! The graph is built cable by cable, a cable for every pair of hosts with a link; where the graph has a link one way
//! only, the cable's other direction carries acknowledgements. `sluice plan bfb`'s planner plans on the graph, and the
//! claim, which is in wire rates, is compared as payload. A run measures the time of a round against what the claim
//! says of bandwidth alone: latency, and that ranks wait for each other, come on top; that a step of one rank may
//! overlap the next of another goes the other way.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;
use sluice_formats::topology::Topology;
use sluice_plan::plan::Collective;
use sluice_planners::direct::{Instance, Options, make};
use sluice_planners::{Request, Run};
use sluice_schedule::{Nanos, Rate};

use super::capacity::queue;
use super::{Bench, Claimed, Collectives, Measured, collective, keep_plan, mbps, millis, refused};
use crate::fabric::{Cable, FabricSpec};
use crate::job::Arch;
use crate::run::{Policy, RunError};

/// A graph of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// A torus of rings of `a` and of `b` hosts, 3 or more each, or 2 joined by one cable.
    Torus {
        /// Hosts of a ring in the first direction.
        a: usize,
        /// Hosts of a ring in the second direction.
        b: usize,
    },
    /// The generalized Kautz graph Π(d, n): x leads to −d·x−a modulo n for a from 1 to d.
    Kautz {
        /// Links out of every host, a host's link to itself counted.
        d: usize,
        /// Number of hosts, above `d`, at most 12.
        n: usize,
    },
}

impl std::str::FromStr for Wiring {
    type Err = String;
    fn from_str(text: &str) -> Result<Wiring, String> {
        let allowed = "torus:AxB or kautz:D,N, of 2 to 12 hosts";
        let pair = |text: &str, by: char| -> Option<(usize, usize)> {
            let (a, b) = text.split_once(by)?;
            Some((a.parse().ok()?, b.parse().ok()?))
        };
        let wiring = match text.split_once(':') {
            Some(("torus", sizes)) => pair(sizes, 'x').map(|(a, b)| Wiring::Torus { a, b }),
            Some(("kautz", sizes)) => pair(sizes, ',').map(|(d, n)| Wiring::Kautz { d, n }),
            _ => None,
        };
        let fits = |wiring: &Wiring| match *wiring {
            Wiring::Torus { a, b } => (1..=12).contains(&a) && (1..=12).contains(&b) && (2..=12).contains(&(a * b)),
            Wiring::Kautz { d, n } => d >= 1 && n > d && n <= 12,
        };
        wiring.filter(fits).ok_or_else(|| format!("not a graph of hosts; allowed: {allowed}"))
    }
}

impl Wiring {
    /// Number of hosts in the graph.
    pub fn hosts(&self) -> usize {
        match *self {
            Wiring::Torus { a, b } => a * b,
            Wiring::Kautz { n, .. } => n,
        }
    }
    /// One-way links as (from, to), also from a host to itself.
    pub fn links(&self) -> Vec<(usize, usize)> {
        match *self {
            Wiring::Torus { a, b } => {
                let mut links = Vec::new();
                for (x, y) in (0..a).flat_map(|x| (0..b).map(move |y| (x, y))) {
                    let from = x * b + y;
                    let mut ring = |size: usize, to: &dyn Fn(usize) -> usize| match size {
                        1 => {}
                        2 => links.push((from, to(1))),
                        _ => links.extend([(from, to(1)), (from, to(size - 1))]),
                    };
                    ring(a, &|step| (x + step) % a * b + y);
                    ring(b, &|step| x * b + (y + step) % b);
                }
                links
            }
            Wiring::Kautz { d, n } => {
                (0..n).flat_map(|x| (1..=d).map(move |a| (x, (d * n + n - (d * x + a) % n) % n))).collect()
            }
        }
    }
    fn name(&self) -> String {
        match self {
            Wiring::Torus { a, b } => format!("torus {a}x{b}"),
            Wiring::Kautz { d, n } => format!("Pi({d},{n})"),
        }
    }
    /// The network to build, every link at `rate`.
    pub fn spec(&self, rate: Rate) -> FabricSpec {
        let hosts = (0..self.hosts()).map(|host| format!("h{host}")).collect();
        let mut cables: BTreeMap<(usize, usize), Cable> = BTreeMap::new();
        for (from, to) in self.links().into_iter().filter(|(from, to)| from != to) {
            let (a, b) = (from.min(to), from.max(to));
            let cable = || Cable::plain(format!("h{a}"), format!("h{b}"), rate, queue(rate));
            cables.entry((a, b)).or_insert_with(cable);
        }
        FabricSpec { hosts, cables: cables.into_values().collect(), ..FabricSpec::default() }
    }
    /// The graph to plan on, links that lead back to their host included.
    pub fn topology(&self, rate: Rate) -> Result<Topology, RunError> {
        let nodes: Vec<_> = (0..self.hosts()).map(|host| json!({"id": format!("h{host}"), "kind": "host"})).collect();
        let link = |(from, to): (usize, usize)| json!({"from": format!("h{from}"), "to": format!("h{to}"), "capacity": format!("{}bit/s", rate.0)});
        let links: Vec<_> = self.links().into_iter().map(link).collect();
        let text = json!({"sluice_topology": 1, "name": self.name(), "nodes": nodes, "links": links}).to_string();
        Topology::read(text.as_bytes(), "topology.json").map_err(refused)
    }
}

/// A plan on a graph, written to a file, with its figures.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Path of the plan's JSON.
    pub file: PathBuf,
    /// What the planner says it can reach.
    pub claim: Claimed,
    /// How many steps it has.
    pub steps: u32,
    /// The bandwidth term, in units of data over a host's bandwidth.
    pub t_b: String,
}

/// Plans a collective of all hosts on a graph, as `sluice plan bfb` does, and writes the plan to `file`.
///
/// # Errors
/// [`RunError::Plan`] with what the planner refuses.
pub fn plan_on(wiring: &Wiring, rate: Rate, collective: Collective, file: PathBuf) -> Result<Planned, RunError> {
    let topology = wiring.topology(rate)?;
    let (request, options) = (Request::of_all(collective), Options::default());
    let instance = Instance::new(&topology, &request, &options, "topology.json").map_err(refused)?;
    let mut made = make(&instance, &Run::quiet(1)).map_err(refused)?;
    let claim = keep_plan(&mut made.plan, &file)?;
    let t_b = made.figures.cost.t_b.as_ref().map_or("none".into(), ToString::to_string);
    Ok(Planned { file, claim, steps: made.figures.cost.t_l(), t_b })
}

/// How to run it.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// torus:AxB or kautz:D,N, of 2 to 12 hosts.
    #[arg(long = "graph", value_name = "GRAPH", default_value = "torus:3x4")]
    pub wiring: Wiring,
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "50", value_parser = mbps)]
    pub rate: Rate,
    /// allreduce, allgather or reduce_scatter.
    #[arg(long, default_value = "allreduce", value_parser = collective)]
    pub collective: Collective,
    /// Time that a round should take by the claim, ms.
    #[arg(long = "round-ms", value_name = "ROUND_MS", default_value = "4000", value_parser = millis)]
    pub round: Nanos,
    /// Rounds; the first one is not counted.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
    pub iterations: u64,
    /// Part of every link that daemons leave free.
    #[arg(long, default_value_t = 0.01)]
    pub reserve: f64,
    /// Policies, each of which runs the schedule.
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',', default_value = "sluice,fair:cubic")]
    pub policies: Vec<Policy>,
}

/// The schedule under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct DirectRun {
    /// Times and rates of this run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Its bandwidth against the claim.
    pub of_claim: f64,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct DirectResult {
    /// Name of the graph: `torus 3x4`.
    pub graph: String,
    /// What is done with the data.
    pub collective: &'static str,
    /// Data of a round: what each member has, or ends with.
    pub bytes: u64,
    /// Number of hosts that take part.
    pub members: usize,
    /// Steps of the schedule.
    pub steps: u32,
    /// Its bandwidth term, in units of data over a host's bandwidth.
    pub t_b: String,
    /// Did the planner prove that no plan is faster?
    pub optimal: bool,
    /// The claim: data over time, payload Mbit/s.
    pub claim_mbps: f64,
    /// All runs, policy by policy.
    pub runs: Vec<DirectRun>,
}

/// Runs the schedule under every policy.
///
/// # Errors
/// As a run; every float is checked in every round.
pub fn direct(bench: &Bench<'_>, settings: &Settings) -> Result<DirectResult, RunError> {
    let spec = settings.wiring.spec(settings.rate);
    let members = spec.hosts.len();
    let planned = plan_on(&settings.wiring, settings.rate, settings.collective, bench.dir.join("plan.json"))?;
    let claim = spec.payload(planned.claim.rate);
    let bytes = claim.over(settings.round);
    let job = Collectives {
        name: "steps",
        arch: Arch::Plan,
        file: &planned.file,
        fabric: &spec,
        bytes,
        rounds: settings.iterations,
        period: Nanos::ZERO,
        reserve: settings.reserve,
    };
    let run = |policy| {
        let measured = job.run(bench, policy)?;
        Ok(DirectRun { of_claim: measured.part_of(bytes, claim), measured })
    };
    Ok(DirectResult {
        graph: settings.wiring.name(),
        collective: settings.collective.word(),
        bytes: bytes.0,
        members,
        steps: planned.steps,
        t_b: planned.t_b,
        optimal: planned.claim.optimal,
        claim_mbps: claim.0 as f64 / 1e6,
        runs: settings.policies.iter().map(run).collect::<Result<_, RunError>>()?,
    })
}

impl DirectResult {
    /// A table for people.
    pub fn table(&self) -> String {
        let best = if self.optimal { ", the best possible" } else { "" };
        let mut text = format!(
            "{} of {} bytes over {} hosts wired as {}: {} steps, T_B {}{best}, claim {:.1} Mbit/s payload\n",
            self.collective, self.bytes, self.members, self.graph, self.steps, self.t_b, self.claim_mbps
        );
        for run in &self.runs {
            text.push_str(&format!("  {}", run.measured.line(run.of_claim, "the claim")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Layout;

    #[test]
    fn graphs_are_read_and_wired() {
        let torus: Wiring = "torus:3x4".parse().expect("a torus");
        assert_eq!((torus.hosts(), torus.links().len(), torus.spec(Rate::mbps(100)).cables.len()), (12, 48, 24));
        let kautz: Wiring = "kautz:2,9".parse().expect("a Kautz graph");
        // 9 is a multiple of 3: no host leads back to itself, and some pairs of hosts have links both ways.
        assert_eq!(kautz.links().len(), 18);
        assert!(kautz.links().iter().all(|(from, to)| from != to));
        let looped: Wiring = "kautz:2,10".parse().expect("a Kautz graph");
        assert!(looped.links().iter().any(|(from, to)| from == to));
        Layout::of(&kautz.spec(Rate::mbps(100))).expect("hosts that only reach their neighbours");
        for bad in ["torus:5x5", "kautz:2,2", "kautz:2,13", "ring:4", "torus:3", "torus:1x1"] {
            assert!(bad.parse::<Wiring>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_claim_is_the_bandwidth_term() {
        let dir = tempfile::tempdir().expect("a directory");
        let torus: Wiring = "torus:3x4".parse().expect("a torus");
        let file = dir.path().join("plan.json");
        let planned = plan_on(&torus, Rate::mbps(100), Collective::AllReduce, file).expect("a plan");
        // 2·11/12 of the data over four links of 100 Mbit/s.
        assert!(planned.claim.optimal && planned.claim.rate.0.abs_diff(400_000_000 * 12 / 22) <= 1, "{planned:?}");
        assert_eq!((planned.steps, planned.t_b.as_str()), (6, "11/6"));
    }
}
