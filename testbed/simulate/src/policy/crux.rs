//! `crux`: flows of the jobs that lose most GPU time per second of communication go first, on the paths that are least
//! crowded, in as many priorities as a switch has.
//!
//! After Cao et al., "Crux: GPU-Efficient Communication Scheduling for Deep Learning Training" (SIGCOMM 2024).
//! Intensity I = W/t: W is the job's `flops` or, without them, compute_s × workers; t is the round's bytes over rate on
//! its busiest link. Priorities and paths are taken anew when a job starts or ends. Simplified: priorities are compressed
//! for each group of jobs that share links on its own, which is at least as good as doing it for all at once, since
//! groups do not meet; the correction knows two jobs and one link.
//!
//! Costs: where hosts have one path only, an event costs its group; where there are several, a job that starts or ends
//! makes every flow look at all its paths.

mod correction;
mod levels;
mod paths;

use std::collections::BTreeMap;

pub use correction::{Periodic, correction};
pub use levels::{Edge, compress};

use self::paths::Paths;
use super::meeting::Meeting;
use super::under_way::id_ranks;
use crate::scheduler::{Change, Needs, Order, Orders, Scheduler};
use crate::world::{FlowIx, JobIx, World};
use sluice_scenario::random::Stream;
use sluice_scenario::{LinkIx, Scenario};

/// Priorities by GPU intensity.
#[derive(Clone, Debug)]
pub struct Crux {
    correct: bool,
    levels: usize,
    orders: u32,
    rank: Vec<usize>,
    /// `None`: flows stay where they are.
    paths: Option<Paths>,
    meeting: Meeting,
    rng: Stream,
    running: BTreeMap<JobIx, Running>,
}

/// What is known of a running job.
#[derive(Clone, Debug, Default)]
struct Running {
    /// W: work of one iteration.
    work: f64,
    compute_s: f64,
    period_s: f64,
    /// Its flows, their bytes and where they go now.
    flows: Vec<(FlowIx, f64, Vec<LinkIx>)>,
    /// t: seconds of a round on its busiest link.
    round_s: f64,
}

impl Running {
    fn intensity(&self) -> f64 {
        // A job that sends nothing is in nobody's way and comes first.
        if self.round_s > 0.0 { self.work / self.round_s } else { f64::INFINITY }
    }

    fn bytes(&self) -> BTreeMap<LinkIx, f64> {
        let mut bytes = BTreeMap::new();
        for (_, own, path) in &self.flows {
            for &link in path {
                *bytes.entry(link).or_default() += own;
            }
        }
        bytes
    }

    fn measure(&mut self, capacity: &[f64]) {
        let seconds = |(l, bytes): (&LinkIx, &f64)| bytes / capacity.get(l.0).copied().unwrap_or(f64::INFINITY);
        self.round_s = self.bytes().iter().map(seconds).fold(0.0, f64::max);
    }
}

impl Crux {
    /// With the options of `[scheduler.crux]`.
    pub fn new(scenario: &Scenario) -> Crux {
        let o = &scenario.schedulers.options;
        Crux {
            correct: o.crux_correction,
            levels: o.crux_levels as usize,
            orders: o.crux_orders,
            rank: id_ranks(scenario),
            paths: o.crux_paths.then(Paths::default),
            meeting: Meeting::default(),
            rng: Stream::new(scenario.seed, "crux"),
            running: BTreeMap::new(),
        }
    }

    fn started(&mut self, world: &World<'_>, job: JobIx) {
        let (Some(state), Some(spec)) = (world.jobs.get(job.0), world.scenario.jobs.get(job.0)) else { return };
        let flows = world.flows_of(job).map(|(ix, f)| (ix, f.bytes, f.path.clone())).collect();
        let mut running = Running {
            work: spec.flops.unwrap_or(state.compute_s * f64::from(spec.workers)),
            compute_s: state.compute_s,
            period_s: state.isolated_period_s(),
            flows,
            round_s: 0.0,
        };
        running.measure(&world.capacity);
        self.enter(job, &running);
        self.running.insert(job, running);
    }

    fn enter(&mut self, job: JobIx, running: &Running) {
        self.meeting.enter(job, running.flows.iter().flat_map(|f| f.2.iter().copied()).collect());
    }

    /// Lets every flow choose its path anew, jobs by descending intensity.
    fn choose_paths(&mut self, world: &World<'_>, orders: &mut Orders) {
        let Some(paths) = &mut self.paths else { return };
        let mut jobs: Vec<JobIx> = self.running.keys().copied().collect();
        let mut choice = false;
        for (ix, _, _) in self.running.values().flat_map(|r| &r.flows) {
            let Some(flow) = world.flows.get(ix.0) else { continue };
            choice |= paths.between(world.scenario, flow.src, flow.dst).len() > 1;
        }
        if !choice {
            return;
        }
        let intensity = |j: &JobIx| self.running.get(j).map_or(0.0, Running::intensity);
        jobs.sort_by(|a, b| {
            intensity(b).total_cmp(&intensity(a)).then_with(|| self.rank.get(a.0).cmp(&self.rank.get(b.0)))
        });
        let mut load = vec![0.0; world.capacity.len()];
        let mut moved = Vec::new();
        for job in jobs {
            let Some(running) = self.running.get_mut(&job) else { continue };
            let mut other = false;
            for (ix, bytes, path) in &mut running.flows {
                let Some(flow) = world.flows.get(ix.0) else { continue };
                // A job without a period sends once and is no steady load.
                let rate = if running.period_s > 0.0 { *bytes / running.period_s } else { 0.0 };
                let found = paths.least_loaded(world, flow.src, flow.dst, rate, &load);
                if let Some(found) = found.filter(|f| f != path) {
                    orders.route(*ix, found.clone());
                    *path = found;
                    other = true;
                }
                path.iter().for_each(|link| load[link.0] += rate);
            }
            if other {
                running.measure(&world.capacity);
                moved.push(job);
            }
        }
        for job in moved {
            if let Some(running) = self.running.get(&job) {
                let links = running.flows.iter().flat_map(|f| f.2.iter().copied()).collect();
                self.meeting.enter(job, links);
            }
        }
    }

    /// P = k · I of every job of a group, first to last by P, ties by id.
    fn priorities(&self, group: &[JobIx]) -> Vec<(JobIx, f64)> {
        let of = |j: &JobIx| self.running.get(j);
        let rank = |j: &JobIx| self.rank.get(j.0);
        let traffic = |j: &JobIx| of(j).map_or(0.0, |r| r.bytes().values().copied().fold(0.0, f64::max));
        let most = group.iter().max_by(|a, b| traffic(a).total_cmp(&traffic(b)).then_with(|| rank(b).cmp(&rank(a))));
        let periodic = |r: &Running| Periodic { compute_s: r.compute_s, round_s: r.round_s, work: r.work };
        let reference = most.filter(|_| self.correct).and_then(|j| Some((*j, periodic(of(j)?))));
        let priority = |&j: &JobIx| {
            let Some(running) = of(&j) else { return (j, 0.0) };
            let k = match reference {
                Some((other, r)) if other != j => correction(periodic(running), r),
                _ => 1.0,
            };
            (j, k * running.intensity())
        };
        let mut jobs: Vec<(JobIx, f64)> = group.iter().map(priority).collect();
        jobs.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| rank(&a.0).cmp(&rank(&b.0))));
        jobs
    }

    fn classes(&mut self, group: &[JobIx], orders: &mut Orders) {
        let jobs: Vec<JobIx> = self.priorities(group).into_iter().map(|j| j.0).collect();
        let place: BTreeMap<JobIx, usize> = jobs.iter().enumerate().map(|(i, &j)| (j, i)).collect();
        let mut edges = Vec::new();
        for (from, job) in jobs.iter().enumerate() {
            let Some(running) = self.running.get(job) else { continue };
            let links = self.meeting.links(*job).unwrap_or_default();
            let mut met: Vec<usize> =
                links.iter().flat_map(|&l| self.meeting.on(l)).filter_map(|j| place.get(j)).copied().collect();
            met.sort_unstable();
            met.dedup();
            // Infinite intensities belong to jobs that meet nobody.
            edges.extend(met.into_iter().filter(|&to| to > from).map(|to| Edge {
                from,
                to,
                weight: running.intensity(),
            }));
        }
        let levels = compress(jobs.len(), &edges, self.levels, self.orders, &mut self.rng);
        for (job, level) in jobs.iter().zip(levels) {
            let class = u32::try_from(level).unwrap_or(u32::MAX - 1) + 1;
            for (flow, _, _) in self.running.get(job).into_iter().flat_map(|r| &r.flows) {
                orders.set(*flow, Order { class, ..Order::default() });
            }
        }
    }
}

impl Scheduler for Crux {
    fn needs(&self) -> Needs {
        Needs::CHANGES
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        let mut others = false;
        for change in changes {
            match *change {
                Change::JobStarted(job) => {
                    self.started(world, job);
                    others = true;
                }
                Change::JobEnded(job) => {
                    self.meeting.leave(job);
                    self.running.remove(&job);
                    others = true;
                }
                _ => {}
            }
        }
        if !others {
            return;
        }
        self.choose_paths(world, orders);
        for group in self.meeting.take_touched() {
            self.classes(&group, orders);
        }
    }
}
