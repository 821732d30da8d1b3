//! A collective by the trees of a plan against the ring, on a three-tier fabric with unequal links.
//!
//! The fabric is a tree of switches, so that the way of every flow is the one the plan names. ForestColl plans on the
//! very links that are built; the claim and both theories are in wire rates there, and are compared as payload, since
//! that is what a job moves: all links lose the same part to headers. The theory of the ring is its load of each link,
//! members in the order of the tree, the best there is.

use std::path::PathBuf;

use serde::Serialize;
use sluice_plan::plan::Collective;
use sluice_planners::forestcoll::{Instance, Options, Way, make};
use sluice_planners::{Request, Run};
use sluice_schedule::{Nanos, Rate};

use super::capacity::queue;
use super::{Bench, Claimed, Collectives, Measured, collective, keep_plan, mbps, millis, refused, topology};
use crate::fabric::{Cable, FabricSpec, Layout};
use crate::job::Arch;
use crate::run::{Policy, RunError};

/// A three-tier fabric: hosts on leaves, leaves on two spines' side switches, those on one core.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiers {
    /// Wire rate of every host's link.
    pub host: Rate,
    /// Wire rate of each leaf's link upwards; the first half of the leaves hang on one middle switch, the rest on another.
    pub leaves: Vec<Rate>,
    /// Hosts on each leaf.
    pub hosts_per_leaf: usize,
    /// Wire rates of the two middle switches' links to the core.
    pub middles: [Rate; 2],
}

impl Tiers {
    /// Unequal links around `rate`: leaves at 1, 3/4, 5/4 and 1 of it, the middle at 1/2 and 3/4.
    pub fn around(rate: Rate) -> Tiers {
        let part = |p: u64, q: u64| Rate(rate.0 / q * p);
        let leaves = vec![part(1, 1), part(3, 4), part(5, 4), part(1, 1)];
        Tiers { host: rate, leaves, hosts_per_leaf: 2, middles: [part(1, 2), part(3, 4)] }
    }

    /// The network to build.
    pub fn spec(&self) -> FabricSpec {
        let mut spec = FabricSpec { switches: vec!["core".into()], ..FabricSpec::default() };
        let cable = |a: &str, b: &str, rate: Rate| Cable::plain(a, b, rate, queue(rate));
        for (m, rate) in self.middles.iter().enumerate() {
            spec.switches.push(format!("middle{m}"));
            spec.cables.push(cable(&format!("middle{m}"), "core", *rate));
        }
        for (l, rate) in self.leaves.iter().enumerate() {
            let (leaf, middle) = (format!("leaf{l}"), usize::from(l * 2 >= self.leaves.len()));
            spec.cables.push(cable(&leaf, &format!("middle{middle}"), *rate));
            for _ in 0..self.hosts_per_leaf {
                let host = format!("h{}", spec.hosts.len());
                spec.cables.push(cable(&host, &leaf, self.host));
                spec.hosts.push(host);
            }
            spec.switches.push(leaf);
        }
        spec
    }
}

/// The plan or the ring under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct ForestRun {
    /// `plan` or `ring`.
    pub by: &'static str,
    /// Times and rates of this run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Its bandwidth against what theory gives this way of doing it.
    pub of_theory: f64,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct ForestResult {
    /// What is done with the data.
    pub collective: &'static str,
    /// Data of a round: what each member has, or ends with.
    pub bytes: u64,
    /// Number of hosts that take part.
    pub members: usize,
    /// Different trees of the plan.
    pub trees: usize,
    /// Flows of the plan: pairs of members with a tree edge between them.
    pub flows: usize,
    /// Did the planner prove that no plan is faster?
    pub optimal: bool,
    /// The plan's claim: data over time, wire Mbit/s as in the topology.
    pub claim_wire_mbps: f64,
    /// The same as payload.
    pub claim_mbps: f64,
    /// What the ring can reach, payload.
    pub ring_theory_mbps: f64,
    /// The plan's claim over the ring's.
    pub theory_ratio: f64,
    /// Under each policy, how much faster the plan was than the ring.
    pub measured_ratio: Vec<(String, f64)>,
    /// All runs, policy by policy.
    pub runs: Vec<ForestRun>,
}

/// How to run it.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate of the hosts in Mbit/s; the other links are between half and 5/4 of it.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "100", value_parser = mbps)]
    pub rate: Rate,
    /// allreduce, allgather or reduce_scatter; only the first has a ring beside it.
    #[arg(long, default_value = "allreduce", value_parser = collective)]
    pub collective: Collective,
    /// Time that a round by the plan should take, ms.
    #[arg(long = "round-ms", value_name = "ROUND_MS", default_value = "6000", value_parser = millis)]
    pub round: Nanos,
    /// Rounds; the first one is not counted.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    pub iterations: u64,
    /// Part of every link that daemons leave free.
    #[arg(long, default_value_t = 0.01)]
    pub reserve: f64,
    /// Policies, each of which runs the plan and the ring.
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',', default_value = "sluice,fair:cubic")]
    pub policies: Vec<Policy>,
}

/// A plan on a fabric, written to a file, with its figures.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Path of the plan's JSON.
    pub file: PathBuf,
    /// What the planner says it can reach.
    pub claim: Claimed,
    /// How many different trees it has.
    pub trees: usize,
    /// Pairs of members with a tree edge between them.
    pub flows: usize,
}

/// Plans a collective of all hosts on a fabric, as `sluice plan forestcoll` does, and writes the plan to `file`.
///
/// # Errors
/// [`RunError::Plan`] with what the planner refuses.
pub fn plan_on(spec: &FabricSpec, collective: Collective, file: PathBuf) -> Result<Planned, RunError> {
    let (_, topology) = topology(spec)?;
    let request = Request::of_all(collective);
    let instance = Instance::new(&topology, &request, "topology.json").map_err(refused)?;
    let mut made = make(&instance, &Options::default(), Way::Auto, &Run::quiet(1)).map_err(refused)?;
    let claim = keep_plan(&mut made.plan, &file)?;
    let text = made.plan.to_text();
    let followed = sluice_plan::follow::Followed::read(text.as_bytes(), "plan.json", None, None).map_err(refused)?;
    let mut pairs: Vec<(u32, u32)> = followed.trees.iter().flat_map(|tree| tree.edges.iter().copied()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    Ok(Planned { file, claim, trees: made.batches, flows: pairs.len() })
}

/// What a ring over all hosts, in their order, can reach: data over time in wire rates.
fn ring_theory(spec: &FabricSpec, collective: Collective) -> Result<Rate, RunError> {
    let layout = Layout::of(spec)?;
    let n = layout.hosts;
    let mut crossings = vec![0_u64; layout.links.len()];
    for host in 0..n {
        let (mut at, to) = (host, (host + 1) % n);
        while at != to {
            let hop = layout.next[at][to].first().copied();
            let hop = hop.ok_or_else(|| RunError::Plan("hosts without a way between them".into()))?;
            crossings[hop] += 1;
            at = layout.links[hop].to.node;
        }
    }
    // An all-reduce goes round twice, the others once.
    let rounds = if collective == Collective::AllReduce { 2.0 } else { 1.0 };
    let carried = rounds * (n as f64 - 1.0) / n as f64;
    let crossed = crossings.iter().enumerate().filter(|(_, crossings)| **crossings > 0);
    let least = crossed.map(|(link, crossings)| spec.rate(link).0 as f64 / (*crossings as f64 * carried));
    Ok(Rate(least.fold(f64::INFINITY, f64::min) as u64))
}

/// Runs plan and ring under every policy at the same link rates.
///
/// # Errors
/// As a run; every float is checked in every round.
pub fn forest(bench: &Bench<'_>, settings: &Settings) -> Result<ForestResult, RunError> {
    let spec = Tiers::around(settings.rate).spec();
    let planned = plan_on(&spec, settings.collective, bench.dir.join("plan.json"))?;
    let (claim, ring) = (spec.payload(planned.claim.rate), spec.payload(ring_theory(&spec, settings.collective)?));
    let bytes = claim.over(settings.round);
    let mut runs = Vec::new();
    for policy in &settings.policies {
        for (by, arch, theory) in [("plan", Arch::Plan, claim), ("ring", Arch::Ring, ring)] {
            if arch == Arch::Ring && settings.collective != Collective::AllReduce {
                continue; // The job's ring is an all-reduce.
            }
            let job = Collectives {
                name: by,
                arch,
                file: &planned.file,
                fabric: &spec,
                bytes,
                rounds: settings.iterations,
                period: Nanos::ZERO,
                reserve: settings.reserve,
            };
            let measured = job.run(bench, policy)?;
            runs.push(ForestRun { by, of_theory: measured.part_of(bytes, theory), measured });
        }
    }
    let round = |by: &str, policy: &str| {
        runs.iter().find(|r| r.by == by && r.measured.policy == policy).map(|r| r.measured.round_s)
    };
    let ratio = |policy: &Policy| {
        let name = policy.to_string();
        Some((name.clone(), round("ring", &name)? / round("plan", &name)?))
    };
    Ok(ForestResult {
        collective: settings.collective.word(),
        bytes: bytes.0,
        members: spec.hosts.len(),
        trees: planned.trees,
        flows: planned.flows,
        optimal: planned.claim.optimal,
        claim_wire_mbps: planned.claim.rate.0 as f64 / 1e6,
        claim_mbps: claim.0 as f64 / 1e6,
        ring_theory_mbps: ring.0 as f64 / 1e6,
        theory_ratio: claim.0 as f64 / ring.0 as f64,
        measured_ratio: settings.policies.iter().filter_map(ratio).collect(),
        runs,
    })
}

impl ForestResult {
    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} of {} bytes over {} members: claim {:.1} Mbit/s payload ({:.1} on the wire{}), ring {:.1}, ratio {:.3}\n",
            self.collective,
            self.bytes,
            self.members,
            self.claim_mbps,
            self.claim_wire_mbps,
            if self.optimal { ", the best possible" } else { "" },
            self.ring_theory_mbps,
            self.theory_ratio
        );
        for run in &self.runs {
            text.push_str(&format!("  {:<5} {}", run.by, run.measured.line(run.of_theory, "theory")));
        }
        for (policy, ratio) in &self.measured_ratio {
            text.push_str(&format!(
                "  plan over ring under {policy}: {ratio:.3}, {:.1} % of theory\n",
                ratio / self.theory_ratio * 100.0
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theory_is_that_of_the_slowest_cut() {
        let spec = Tiers::around(Rate::mbps(100)).spec();
        assert_eq!((spec.hosts.len(), spec.switches.len(), spec.cables.len()), (8, 7, 14));
        // All traffic between the halves crosses 50 Mbit/s: a ring takes 2·7/8 of the data over it, trees all of it once.
        let ring = ring_theory(&spec, Collective::AllReduce).expect("a ring");
        assert_eq!(ring, Rate((50e6 * 8.0 / 14.0) as u64));
        let dir = tempfile::tempdir().expect("a directory");
        let planned = plan_on(&spec, Collective::AllReduce, dir.path().join("plan.json")).expect("a plan");
        assert!(planned.claim.optimal && planned.claim.rate.0.abs_diff(50_000_000) <= 1, "{planned:?}");
    }
}
