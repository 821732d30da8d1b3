//! What is run, fixed before any policy: fabric, jobs, cross traffic, and the queue that places jobs.

use sluice_scenario::{CrossFlow, Fault, Transport};
use sluice_schedule::host::config::RESERVE;
use sluice_schedule::{Bytes, Nanos, Rate};

use super::pages::Pages;
use crate::fabric::FabricSpec;
use crate::job::{Arch, PlanFile};

/// One job without a place.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Its id, unique.
    pub id: String,
    /// The model's name, for reports; may be empty.
    pub model: String,
    /// How its members exchange tensors.
    pub arch: Arch,
    /// Workers, 1 or more.
    pub workers: usize,
    /// Parameter servers of `ps`; relays of `plan`.
    pub servers: usize,
    /// Children of a tree's node.
    pub fanout: usize,
    /// The plan it follows; its processes name it to their daemons, and those of arch `plan` carry it out.
    pub plan: Option<PlanFile>,
    /// Gradient bytes of an iteration, already scaled.
    pub bytes: Bytes,
    /// Iterations, 1 or more.
    pub iterations: u64,
    /// Compute time of each iteration; the last one repeats.
    pub compute: Vec<Nanos>,
    /// Iterations begin at multiples of this; 0: as soon as the one before is over.
    pub period: Nanos,
    /// Part of the compute phase that may overlap the round, 0 to 1.
    pub overlap: f64,
    /// When it arrives, from the start of the run.
    pub arrival: Nanos,
}

impl JobPlan {
    /// An all-reduce in a ring that arrives at the beginning and never computes; others are made from it.
    pub fn ring(id: impl Into<String>, workers: usize, bytes: Bytes, iterations: u64) -> JobPlan {
        JobPlan {
            id: id.into(),
            model: String::new(),
            arch: Arch::Ring,
            workers,
            servers: 0,
            fanout: 2,
            plan: None,
            bytes,
            iterations,
            compute: Vec::new(),
            period: Nanos::ZERO,
            overlap: 0.0,
            arrival: Nanos::ZERO,
        }
    }
}

/// Where a job's members run, as indices of the fabric's hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// One host per worker.
    pub workers: Vec<usize>,
    /// One host per server; of a plan's relays the memories they are.
    pub servers: Vec<usize>,
}

/// Decides when and where jobs start. The runner tells it what happens; it keeps the GPUs.
pub trait Queue: Send {
    /// The job with this index arrived.
    fn arrived(&mut self, job: usize);
    /// It ended; its GPUs are free.
    fn ended(&mut self, job: usize);
    /// The next job that may start now, and where. Asked until it says `None`.
    fn next(&mut self) -> Option<(usize, Placement)>;
}

/// A queue for jobs whose places are given: each starts when it arrives.
#[derive(Clone, Debug, Default)]
pub struct FixedQueue {
    places: Vec<Placement>,
    waiting: Vec<usize>,
}

impl FixedQueue {
    /// One place per job, in the plan's order.
    pub fn new(places: Vec<Placement>) -> FixedQueue {
        FixedQueue { places, waiting: Vec::new() }
    }
}

impl Queue for FixedQueue {
    fn arrived(&mut self, job: usize) {
        self.waiting.insert(0, job);
    }
    fn ended(&mut self, _job: usize) {}
    fn next(&mut self) -> Option<(usize, Placement)> {
        let job = self.waiting.pop()?;
        self.places.get(job).map(|p| (job, p.clone()))
    }
}

/// Everything a policy may not change.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// Name for files and messages.
    pub name: String,
    /// The network to build.
    pub fabric: FabricSpec,
    /// The jobs, by arrival.
    pub jobs: Vec<JobPlan>,
    /// Nobody starts before the members of all jobs have connected: all jobs begin at one instant.
    pub together: bool,
    /// Unmanaged flows with given times.
    pub cross: Vec<CrossFlow>,
    /// What breaks when, under Sluice; nodes are hosts, then switches.
    pub faults: Vec<Fault>,
    /// Congestion control of cross traffic, and of job flows under `fair` without a name.
    pub tcp: String,
    /// How long a slot is.
    pub slot: Nanos,
    /// Slots a schedule looks ahead.
    pub horizon: u32,
    /// Iterations at the start of a job that round times leave out.
    pub warmup: u64,
    /// Unfinished jobs at this time make the run fail.
    pub limit: Nanos,
    /// The daemons' floor rate, where not their default.
    pub floor: Option<Rate>,
    /// Part of every link that the daemons leave free.
    pub reserve: f64,
    /// Each switch has a `sluice-switch` of its own, which tells hosts how its kernel routes their flows.
    pub learned_routes: bool,
    /// Every switch is a `sluice-switch` that forwards in its kernel's place, whatever the policy.
    pub data_plane: bool,
    /// How daemons speak to switches.
    pub transport: Transport,
    /// Further keys of `[schedule]` in every `sluiced.toml`, TOML text.
    pub schedule: String,
    /// Extra tables for every `sluiced.toml`, TOML text.
    pub daemon_extra: String,
    /// Where jobs publish their pages under Sluice.
    pub pages: Pages,
    /// Every daemon records its jobs' work, in [`super::daemons::RECORDING`] of its run directory.
    pub record: bool,
}

impl RunPlan {
    /// Does each switch have a process of its own, in its own namespace?
    pub fn own_switches(&self) -> bool {
        let broken = || self.faults.iter().any(|fault| fault.target.0 >= self.fabric.hosts.len());
        self.learned_routes || self.forwards() || broken()
    }

    /// Does that process forward what crosses the switch?
    pub fn forwards(&self) -> bool {
        self.data_plane || self.transport == Transport::Inband
    }
}

impl Default for RunPlan {
    fn default() -> RunPlan {
        RunPlan {
            name: "run".into(),
            fabric: FabricSpec::default(),
            jobs: Vec::new(),
            together: false,
            cross: Vec::new(),
            faults: Vec::new(),
            tcp: "cubic".into(),
            slot: Nanos::from_millis(60),
            horizon: 10,
            warmup: 1,
            limit: Nanos::from_millis(900_000),
            floor: None,
            reserve: RESERVE,
            learned_routes: false,
            data_plane: false,
            transport: Transport::Session,
            schedule: String::new(),
            daemon_extra: String::new(),
            pages: Pages::EveryHost,
            record: false,
        }
    }
}
