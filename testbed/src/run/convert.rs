//! A scenario as a plan for real namespaces: the same jobs, places and cross traffic that the simulator sees.

use sluice_scenario::random::Stream;
use sluice_scenario::scheduler::SluiceOptions;
use sluice_scenario::workload::{self, CrossEvents};
use sluice_scenario::{Arch, Scenario, Tables};
use sluice_schedule::host::config::RESERVE;
use sluice_schedule::{Bytes, Nanos};

use super::pages::Pages;
use super::{JobPlan, Placement, Policy, Queue, RunError, RunPlan};
use crate::fabric::{Cable, FabricSpec};
use crate::job;

/// Unfinished jobs after this time make a run fail where the scenario names no end.
const LIMIT: Nanos = Nanos(1_800_000_000_000);
/// Cables that delay less do not delay: a relay in user space adds 0.1 ms of its own, a fifth of this.
pub const LEAST_DELAY: Nanos = Nanos(500_000);
/// Cross traffic is drawn this far ahead; no run is longer.
const CROSS_AHEAD: Nanos = Nanos(3_600_000_000_000);

impl RunPlan {
    /// The plan of a scenario that [`Scenario::for_testbed`] has scaled and accepted.
    ///
    /// # Errors
    /// For a job of arch `flows`, which real processes do not do yet.
    pub fn of(scenario: &Scenario) -> Result<RunPlan, RunError> {
        let network = &scenario.network;
        let testbed = &scenario.testbed;
        let name = |n| network.name(n).to_owned();
        let cables = network
            .links
            .chunks_exact(2)
            .map(|pair| Cable {
                a: name(pair[0].from),
                b: name(pair[0].to),
                ab: pair[0].rate,
                ba: pair[1].rate,
                queue: Bytes(testbed.queue_bytes),
                delay: pair[0].delay,
                loss: pair[0].loss.max(pair[1].loss),
            })
            .collect();
        let fabric = FabricSpec {
            hosts: network.hosts.iter().map(|h| h.name.clone()).collect(),
            switches: network.switches.clone(),
            cables,
            rails: network.rails as usize,
            mtu: testbed.mtu,
            ecmp_seed: (scenario.seed % u64::from(u32::MAX)) as u32 + 1,
            control_loss: scenario.control.loss,
            relays: Some(LEAST_DELAY),
            ..FabricSpec::default()
        };
        let jobs = scenario.jobs.iter().map(|j| job_plan(scenario, j)).collect::<Result<_, _>>()?;
        let ahead = scenario.time.end.unwrap_or(CROSS_AHEAD);
        let cross = CrossEvents::new(scenario).take_while(|f| f.start < ahead).collect();
        Ok(RunPlan {
            name: scenario.name.clone(),
            fabric,
            jobs,
            together: false,
            cross,
            faults: scenario.faults.clone(),
            tcp: testbed.tcp.as_str().into(),
            slot: scenario.time.slot,
            horizon: scenario.time.horizon,
            warmup: u64::from(testbed.warmup_iterations),
            limit: scenario.time.end.unwrap_or(LIMIT),
            floor: testbed.floor,
            reserve: scenario.schedulers.options.sluice.reserve.unwrap_or(RESERVE),
            learned_routes: scenario.schedulers.options.sluice.learned_routes,
            data_plane: testbed.data_plane,
            transport: scenario.schedulers.options.sluice.transport,
            schedule: schedule(&scenario.schedulers.options.sluice),
            daemon_extra: String::new(),
            pages: Pages::EveryHost,
            record: false,
        })
    }
}

/// What the scenario says of the daemons' `[schedule]`.
fn schedule(options: &SluiceOptions) -> String {
    let fair_floor = options.fair_floor.map(|phi| format!("fair_floor = {phi:?}\n"));
    let alone = options.fair_floor_alone.map(|phi| format!("fair_floor_alone = {phi:?}\n"));
    let brief = options.fair_floor_brief.map(|phi| format!("fair_floor_brief = {phi:?}\n"));
    let newcomer = options.newcomer_share.map(|part| format!("newcomer_share = {part:?}\n"));
    let promote_kappa = options.promote_kappa.map(|kappa| format!("promote_kappa = {kappa:?}\n"));
    let max_wait = options.max_wait.map(|wait| format!("max_wait_ms = {}\n", wait.0 / 1_000_000));
    let fill = options.work_conserving.map(|fill| format!("work_conserving = {fill}\n"));
    let lead = options.chunk_lead.map(|lead| format!("chunk_lead = {lead}\n"));
    let surplus = options.surplus.map(|surplus| format!("surplus = {:?}\n", surplus.as_str()));
    [fair_floor, alone, brief, newcomer, promote_kappa, max_wait, fill, lead, surplus].into_iter().flatten().collect()
}

fn job_plan(scenario: &Scenario, spec: &sluice_scenario::Job) -> Result<JobPlan, RunError> {
    let arch = match spec.arch {
        Arch::Ring => job::Arch::Ring,
        Arch::Ps => job::Arch::Ps,
        Arch::Tree => job::Arch::Tree,
        Arch::None => job::Arch::None,
        Arch::Flows => {
            return Err(RunError::Plan(format!(
                "job {:?} has arch = \"flows\"; the testbed runs ring, ps, tree and none",
                spec.id
            )));
        }
    };
    let compute = if spec.jitter > 0.0 {
        let one = |i: u32| spec.compute_of(i.into()).scaled(jitter(scenario.seed, &spec.id, i, spec.jitter));
        (0..spec.iterations).map(one).collect()
    } else if spec.computes.is_empty() {
        vec![spec.compute]
    } else {
        spec.computes.clone()
    };
    Ok(JobPlan {
        id: spec.id.clone(),
        model: spec.model.clone().unwrap_or_default(),
        arch,
        workers: spec.workers as usize,
        servers: spec.servers as usize,
        fanout: spec.fanout as usize,
        plan: None,
        // A job that only computes still names a size.
        bytes: Bytes(spec.bytes.max(1)),
        iterations: u64::from(spec.iterations),
        compute,
        overlap: spec.overlap,
        arrival: spec.arrival,
        period: Nanos::ZERO,
    })
}

/// The factor on one iteration's compute time: 1 + σ·normal, cut to 0.5 to 2, from a stream of its own.
pub fn jitter(seed: u64, job: &str, iteration: u32, sigma: f64) -> f64 {
    let mut stream = Stream::new(seed, &format!("jitter|{job}|{iteration}"));
    (1.0 + sigma * stream.normal()).clamp(0.5, 2.0)
}

/// The scenario's policies as the testbed knows them.
///
/// # Errors
/// A policy that exists only in the simulator.
pub fn policies(scenario: &Scenario, asked: &[sluice_scenario::Policy]) -> Result<Vec<Policy>, RunError> {
    let nic = scenario.schedulers.options.sluice.tables == Tables::Nic;
    let one = |p: &sluice_scenario::Policy| match (p.to_string().parse::<Policy>()?, nic) {
        (Policy::Sluice { policy, .. }, true) => Ok(Policy::Sluice { policy, nic: true }),
        (policy, _) => Ok(policy),
    };
    asked.iter().map(one).collect()
}

/// The scenario's queue for GPUs, at run time.
#[derive(Clone, Debug)]
pub struct ScenarioQueue<'a> {
    queue: workload::Queue<'a>,
    started: std::collections::VecDeque<workload::Started>,
}

impl<'a> ScenarioQueue<'a> {
    /// All GPUs free.
    pub fn new(scenario: &'a Scenario) -> ScenarioQueue<'a> {
        ScenarioQueue { queue: workload::Queue::new(scenario), started: std::collections::VecDeque::new() }
    }
}

impl Queue for ScenarioQueue<'_> {
    fn arrived(&mut self, job: usize) {
        self.started.extend(self.queue.arrive(job));
    }
    fn ended(&mut self, job: usize) {
        self.started.extend(self.queue.finish(job));
    }
    fn next(&mut self) -> Option<(usize, Placement)> {
        let started = self.started.pop_front()?;
        let index = |nodes: &[sluice_scenario::NodeIx]| nodes.iter().map(|n| n.0).collect();
        let place =
            Placement { workers: index(&started.placement.workers), servers: index(&started.placement.servers) };
        Some((started.job, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_scenario::Notation;
    use std::path::Path;

    const TEXT: &str = r#"
version = 1
name = "two"
[network]
kind = "star"
hosts = 2
gpus = 2
gbps = 10
[testbed]
scale = 100
[[jobs]]
id = "a"
arch = "ring"
bytes = 1000000
compute_s = 0.1
compute_jitter = 0.1
workers = 2
iterations = 3
arrival_s = 1
"#;

    #[test]
    fn a_scenario_becomes_a_plan_with_places() {
        let scenario = Scenario::parse(TEXT, Notation::Toml, "two.toml", Path::new(".")).unwrap();
        let scenario = scenario.for_testbed(&[]).unwrap();
        let plan = RunPlan::of(&scenario).unwrap();
        assert_eq!(plan.fabric.cables.len(), 2);
        assert_eq!(plan.fabric.cables[0].ab, sluice_schedule::Rate::mbps(100));
        assert_eq!(plan.jobs[0].bytes, Bytes(10_000));
        assert_eq!(plan.jobs[0].compute.len(), 3);
        let mut queue = ScenarioQueue::new(&scenario);
        queue.arrived(0);
        let (job, place) = queue.next().unwrap();
        assert_eq!((job, place.workers.len()), (0, 2));
        assert!(queue.next().is_none());
    }

    #[test]
    fn what_the_scenario_says_of_the_schedule_reaches_the_daemons() {
        let options = "fair_floor = 0.3\nfair_floor_alone = 0\nfair_floor_brief = 0.2\nnewcomer_share = 0.1\npromote_kappa = 2\nmax_wait_ms = 5000\nwork_conserving = false\nchunk_lead = false\nsurplus = \"never\"\n";
        let text = format!("{TEXT}\n[scheduler]\nname = \"sluice\"\n[scheduler.sluice]\n{options}");
        let scenario = Scenario::parse(&text, Notation::Toml, "two.toml", Path::new(".")).unwrap();
        let plan = RunPlan::of(&scenario.for_testbed(&[]).unwrap()).unwrap();
        let expected = options.replace("= 0\n", "= 0.0\n").replace("= 2\n", "= 2.0\n");
        assert_eq!(plan.schedule, expected);
    }

    #[test]
    fn nic_tables_reach_every_sluice_policy() {
        let text = format!("{TEXT}\n[scheduler]\nname = \"sluice\"\n[scheduler.sluice]\ntables = \"nic\"\n");
        let Ok(scenario) = Scenario::parse(&text, Notation::Toml, "two.toml", Path::new(".")) else {
            panic!("the options of sluice have moved");
        };
        let asked = ["fair:bbr", "sluice:primal-dual"].map(|p| p.parse().unwrap());
        let names: Vec<String> = policies(&scenario, &asked).unwrap().iter().map(Policy::to_string).collect();
        assert_eq!(names, ["fair:bbr", "sluice:primal-dual@nic"]);
    }
}
