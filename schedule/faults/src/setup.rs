//! Builds the cluster and its jobs from the options.

use std::collections::BTreeMap;

use sluice_schedule::clock::SlotClock;
use sluice_schedule::host::HostConfig;
use sluice_schedule::switch::{Limits, LinkConfig};
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, Bytes, FlowId, HolderId, HostId, JobId, LinkId, Nanos, Rate};
use sluice_schedule::{FlowSpec, Hop, JobSpec, Pattern, PredKind, Predecessor, Role};

use crate::Mutant;
use crate::actors::{Clock, Daemon, Holder};
use crate::kernel::{Cable, Flow, Kernel};
use crate::options::{JobOptions, Options, Shape};
use crate::rng::Rng;
use crate::routes::connection;
use crate::rows::Rows;

/// A job of the run.
pub struct Job {
    pub spec: JobSpec,
    pub members: Vec<usize>,
    /// Places of its flows in the kernel.
    pub flows: Vec<usize>,
    pub bytes: f64,
    /// Bytes per flow of the round at hand, and what is claimed of them.
    pub round_bytes: f64,
    pub claim: Bytes,
    claim_percent: u64,
    pub bursty: bool,
    /// It has come.
    pub born: bool,
    pub compute: Nanos,
    pub dies: Option<u64>,
    pub dead: bool,
    pub running: bool,
    /// Rounds finished, and those of them that began after the core was healed.
    pub finished: u64,
    pub finished_healed: u64,
    pub rounds: u64,
    /// Bytes delivered and bytes plain TCP would have given, while the calm is measured.
    pub got: f64,
    pub fair: f64,
    pub longest: Nanos,
    pub began: Nanos,
    /// Time its round needs on its tightest link, as claimed.
    pub least: Nanos,
}

pub struct Cluster {
    pub daemons: Vec<Daemon>,
    pub holders: Vec<Holder>,
    pub kernel: Kernel,
    pub jobs: Vec<Job>,
    pub specs: Vec<FlowSpec>,
    /// The other one of two equal cables.
    pub twins: BTreeMap<usize, usize>,
}

impl Job {
    /// Decides how large the next round is.
    pub fn size_round(&mut self, rng: &mut Rng) {
        let part = if self.bursty { *rng.pick(&[1.0, 1.0, 0.3, 0.05]) } else { 1.0 };
        self.round_bytes = self.bytes * part;
        self.claim = Bytes((self.round_bytes / 100.0 * self.claim_percent as f64) as u64);
    }
}

pub fn host_id(h: usize) -> HostId {
    HostId::of(&format!("h{h}"))
}

fn leaf_id(l: usize) -> HolderId {
    HolderId::of(&format!("leaf{l}"))
}

struct Plan<'a> {
    options: &'a Options,
    capacity: Rate,
    cables: Vec<Cable>,
}

impl Plan<'_> {
    fn leaf(&self, h: usize) -> usize {
        h % self.options.leaves.max(1)
    }
    fn down(&self, h: usize) -> (LinkId, HolderId) {
        if self.options.leaves == 0 {
            (LinkId::ingress(host_id(h)), host_id(h).holder())
        } else {
            (LinkId::new(leaf_id(self.leaf(h)).0, h as u32 + 1), leaf_id(self.leaf(h)))
        }
    }
    fn up(&self, leaf: usize, plane: usize) -> (LinkId, Rate) {
        (LinkId::new(leaf_id(leaf).0, 100 + plane as u32), Rate(self.capacity.0 / 100 * self.options.uplink_percent))
    }
    /// The path by this one of the equal up-links.
    fn path(&self, from: usize, to: usize, plane: usize) -> Vec<Hop> {
        let mut path = vec![Hop { link: LinkId::egress(host_id(from)), capacity: self.capacity, holder: None }];
        if self.options.leaves > 1 && self.leaf(from) != self.leaf(to) {
            let (link, capacity) = self.up(self.leaf(from), plane);
            path.push(Hop { link, capacity, holder: Some(leaf_id(self.leaf(from))) });
        }
        let (link, holder) = self.down(to);
        path.push(Hop { link, capacity: self.capacity, holder: Some(holder) });
        path
    }
    fn cable(&mut self, hop: &Hop) -> usize {
        match self.cables.iter().position(|cable| cable.link == hop.link) {
            Some(at) => at,
            None => {
                self.cables.push(Cable { link: hop.link, capacity: hop.capacity });
                self.cables.len() - 1
            }
        }
    }
}

pub fn build(options: &Options, mutant: Option<Mutant>) -> Cluster {
    let mut rng = Rng::of(options.seed, &[0xc1]);
    let planted = mutant.and_then(Mutant::in_brain);
    let slot = Nanos::from_millis(options.slot_ms);
    let capacity = Rate::mbps(options.capacity_mbps);
    let mut plan = Plan { options, capacity, cables: Vec::new() };
    let base = Nanos(options.first_slot * slot.0);
    let mut clock = || Clock { base, offset: rng.around(slot.0 / 20), drift_ppm: rng.around(options.drift_ppm) };
    let mut daemons: Vec<Daemon> = Vec::new();
    for h in 0..options.hosts {
        let (link, holder) = plan.down(h);
        let config = HostConfig {
            slot,
            horizon: options.horizon,
            phase: Nanos(slot.0 / 2 * (h as u64) / options.hosts as u64),
            relay: options.leaves == 0,
            switches: (0..options.leaves).map(leaf_id).collect(),
            ingress: vec![Hop { link, capacity, holder: Some(holder) }],
            policy: options.policy,
            events: options.events,
            fair_floor: options.fair_floor as f64 / 100.0,
            chunk_lead: options.chunk_lead,
            fair_floor_alone: options.fair_floor as f64 / 100.0,
            ..HostConfig::new(host_id(h), BootId(1000 + h as u64))
        };
        daemons.push(Daemon::new(config, clock(), planted));
    }
    let limits = Limits {
        horizon: options.horizon,
        hosts: options.limits.hosts,
        promises_per_host: options.limits.promises,
        ..Limits::default()
    };
    let table = if options.double_buffer { TableKind::DoubleBuffer } else { TableKind::Exact };
    let holders = (0..if options.leaves == 0 { options.hosts } else { options.leaves }).map(|n| {
        let within = (options.leaves == 0).then_some(n);
        let id = within.map_or(leaf_id(n), |h| host_id(h).holder());
        let mut links: Vec<LinkConfig> = (0..options.hosts)
            .map(|h| (plan.down(h), h))
            .filter(|((_, holder), _)| *holder == id)
            .map(|((link, _), h)| LinkConfig { link, capacity, cross: Rate::ZERO, attached: Some(host_id(h)) })
            .collect();
        if options.leaves > 1 {
            links.extend((0..options.planes).map(|plane| {
                let (link, capacity) = plan.up(n, plane);
                LinkConfig { link, capacity, ..LinkConfig::default() }
            }));
        }
        let clock = within.map_or_else(&mut clock, |h| daemons[h].clock);
        let mut holder = Holder {
            id,
            links,
            limits: limits.clone(),
            table,
            planted,
            switch: None,
            clock,
            grid: SlotClock::new(slot),
            life: 0,
            boots: 0,
            born: Nanos::ZERO,
            hangs_until: Nanos::ZERO,
            within,
            push_due: false,
            in_flight: 0,
            edge: None,
        };
        holder.start(Nanos::ZERO);
        holder
    });
    let holders: Vec<Holder> = holders.collect();
    let mut cluster = Cluster {
        daemons,
        holders,
        kernel: Kernel {
            flows: Vec::new(),
            cables: Vec::new(),
            rows: vec![Rows::new(options.limits.rows); options.hosts],
            by_id: BTreeMap::new(),
            now: Nanos::ZERO,
            orders_for_ever: mutant == Some(Mutant::OrdersForEver),
        },
        jobs: Vec::new(),
        specs: Vec::new(),
        twins: BTreeMap::new(),
    };
    for (n, job) in options.jobs.iter().enumerate() {
        add_job(&mut cluster, &mut plan, n, job, slot);
    }
    cluster.kernel.cables = plan.cables;
    bottlenecks(&mut cluster);
    cluster
}

/// (from, to, role, places of the feeding flows within the job, lead as part of the demand, finish to start)
pub type Edge = (usize, usize, Role, Vec<usize>, f64, bool);

/// The flows of a job, by places of its members.
pub fn edges(job: &JobOptions) -> Vec<Edge> {
    let n = job.members.len();
    match job.shape {
        Shape::Ring => {
            let lead = 1.0 / n as f64;
            (0..n).map(|i| (i, (i + 1) % n, Role::RingNext, vec![(i + n - 1) % n], lead, false)).collect()
        }
        Shape::ParameterServer => {
            let mut edges: Vec<Edge> = (1..n).map(|i| (i, 0, Role::Aggregate, vec![], 0.0, false)).collect();
            edges.extend((1..n).map(|i| (0, i, Role::Broadcast, (0..n - 1).collect(), 0.0, true)));
            edges
        }
        Shape::Tree => {
            let parent = |i: usize| (i - 1) / 2;
            let up = |i: usize| i - 1;
            let children = |i: usize| (1..n).filter(move |&c| parent(c) == i);
            let reduce = (1..n).map(|i| (i, parent(i), Role::Reduce, children(i).map(up).collect(), 0.0, false));
            let mut edges: Vec<Edge> = reduce.collect();
            edges.extend((1..n).map(|i| {
                let from = parent(i);
                let feeds = if from == 0 { children(0).map(up).collect() } else { vec![n - 1 + from - 1] };
                (from, i, Role::Spread, feeds, 0.0, false)
            }));
            edges
        }
    }
}

fn add_job(cluster: &mut Cluster, plan: &mut Plan<'_>, n: usize, options: &JobOptions, slot: Nanos) {
    let id = JobId::of(&format!("job{n}"));
    let bytes = plan.capacity.over(slot).0 as f64 * options.tenths as f64 / 10.0;
    let first = cluster.kernel.flows.len();
    let edges = edges(options);
    let flow_id = |place: usize| {
        let from = host_id(options.members[edges[place].0]);
        FlowId(u64::from(from.0) << 32 | (n as u64) << 8 | place as u64)
    };
    for (place, (from, to, role, feeds, lead, after)) in edges.iter().enumerate() {
        let ends = (*from, *to);
        let (from, to) = (options.members[*from], options.members[*to]);
        let at = cluster.kernel.flows.len();
        let paths: Vec<Vec<Hop>> = (0..plan.options.planes).map(|plane| plan.path(from, to, plane)).collect();
        let real = &paths[at % paths.len()];
        // Only what all equal paths share is known at first.
        let path: Vec<Hop> = real.iter().filter(|hop| paths.iter().all(|path| path.contains(hop))).copied().collect();
        let gap = real.iter().find(|hop| !path.contains(hop));
        let forks: Vec<HolderId> = gap.and_then(|hop| hop.holder).into_iter().collect();
        if let [Some(one), Some(other)] = [0, 1].map(|plane| Some(paths.get(plane).filter(|_| gap.is_some())?[1])) {
            let (one, other) = (plan.cable(&one), plan.cable(&other));
            cluster.twins.extend([(one, other), (other, one)]);
        }
        let kind = if *after { PredKind::FinishToStart } else { PredKind::Pipelined };
        let back = |other: &Edge| *role == Role::Aggregate && (other.0, other.1) == (ends.1, ends.0);
        let watches = edges.iter().enumerate().filter(|(_, other)| back(other)).map(|(place, _)| flow_id(place));
        let preds = feeds.iter().map(|&by| Predecessor { flow: flow_id(by), kind, lead: Bytes((lead * bytes) as u64) });
        cluster.specs.push(FlowSpec {
            flow: flow_id(place),
            job: id,
            to: host_id(to),
            role: *role,
            preds: preds.collect(),
            watches: watches.collect(),
            path,
            connection: Some(connection(at)),
            forks,
            ..FlowSpec::default()
        });
        cluster.kernel.by_id.insert(flow_id(place), at);
        cluster.kernel.flows.push(Flow {
            id: flow_id(place),
            from: host_id(from),
            host: from,
            row: None,
            path: real.iter().map(|hop| plan.cable(hop)).collect(),
            order: None,
            asleep: None,
            open: false,
            demand: 0.0,
            delivered: 0.0,
            granted: 0.0,
            feeds: feeds.iter().map(|by| first + by).collect(),
            lead: lead * bytes,
            after: *after,
            rate: 0.0,
            peak: 0.0,
            stalled_since: None,
            throttled_since: None,
            fed: None,
        });
    }
    let pattern = match options.shape {
        Shape::Ring => Pattern::Ring,
        Shape::ParameterServer => Pattern::ParameterServer,
        Shape::Tree => Pattern::Tree,
    };
    cluster.jobs.push(Job {
        spec: JobSpec { job: id, pattern },
        members: options.members.clone(),
        flows: (first..cluster.kernel.flows.len()).collect(),
        bytes,
        round_bytes: bytes,
        claim: Bytes((bytes / 100.0 * options.claim_percent as f64) as u64),
        claim_percent: options.claim_percent,
        bursty: options.bursty,
        born: false,
        compute: slot.times(options.compute_tenths).scaled(0.1),
        dies: options.dies,
        dead: false,
        running: false,
        finished: 0,
        finished_healed: 0,
        rounds: 0,
        got: 0.0,
        fair: 0.0,
        longest: Nanos::ZERO,
        began: Nanos::ZERO,
        least: Nanos::ZERO,
    });
}

/// The time each job's round needs where it has most to send.
fn bottlenecks(cluster: &mut Cluster) {
    for job in &mut cluster.jobs {
        let flows = || job.flows.iter().map(|&at| &cluster.kernel.flows[at]);
        let time = |(link, cable): (usize, &Cable)| {
            let here = flows().filter(|flow| flow.path.contains(&link)).count() as f64;
            Bytes((here * job.bytes.max(job.claim.0 as f64)) as u64).at(cable.capacity)
        };
        job.least = cluster.kernel.cables.iter().enumerate().map(time).max().unwrap_or(Nanos::ZERO);
    }
}
