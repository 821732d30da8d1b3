//! A scenario as one machine can carry it: every rate and every byte count divided by `testbed.scale`; times stay.

use std::collections::HashSet;

use sluice_formats::problem::{E_TESTBED, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_schedule::{Nanos, Rate};

use super::jobs::Job;
use super::network::NodeIx;
use super::scenario::Scenario;
use super::scheduler::{Policy, Tables};
use super::settings::{Control, Fault, FaultKind};
use super::workload::arrival_order;

/// Most hosts and switches of a testbed.
const MAX_NODES: usize = 64;

impl Scenario {
    /// This scenario for the testbed: scaled, and checked against what one machine carries.
    ///
    /// # Errors
    /// `E_TESTBED`: too many nodes, too much rate, or a policy that exists only in the simulator.
    pub fn for_testbed(&self, policies: &[Policy]) -> Result<Scenario, Problems> {
        let mut problems = Vec::new();
        let mut refuse = |pointer: &str, what: String, allowed: &str| {
            problems.push(Problem::new(E_TESTBED, pointer, what).allowed(allowed).in_file(&self.name));
        };
        if self.network.nodes() > MAX_NODES {
            refuse("/network", format!("{} hosts and switches", self.network.nodes()), "at most 64 in all");
        }
        for policy in policies.iter().filter(|p| p.name != "fair" && p.name != "sluice") {
            refuse(
                "/scheduler",
                format!("{policy} exists only in the simulator"),
                "fair, fair:cubic, fair:reno, fair:bbr, fair:mltcp, sluice, sluice:…",
            );
        }
        let sluice = &self.schedulers.options.sluice;
        if sluice.tables == Tables::Own {
            refuse("/scheduler/sluice/tables", "\"own\" exists only in the simulator".into(), "switch or nic");
        }
        if sluice.announce_gap.is_some() {
            refuse("/scheduler/sluice/announce_gap_ms", "exists only in the simulator".into(), "leave it out");
        }
        if sluice.known_routes {
            refuse("/scheduler/sluice/known_routes", "exists only in the simulator".into(), "leave it out");
        }
        for (at, fault) in self.faults.iter().enumerate() {
            if let Some((what, allowed)) = self.not_on_the_testbed(fault) {
                refuse(&format!("/faults/{at}"), what, allowed);
            }
        }
        let mut scaled = self.clone();
        let scale = &self.testbed.scale;
        let rate = |r: Rate| Rate(divide(r.0, scale));
        for link in &mut scaled.network.links {
            link.rate = rate(link.rate);
        }
        for job in &mut scaled.jobs {
            if job.bytes > 0 {
                job.bytes = divide(job.bytes, scale);
            }
            if job.granule > 0 {
                job.granule = divide(job.granule, scale);
            }
            job.flows.iter_mut().for_each(|f| f.bytes = divide(f.bytes, scale));
        }
        for flow in &mut scaled.cross_flows {
            flow.rate = flow.rate.map(rate);
        }
        if let Some(cross) = &mut scaled.cross_traffic {
            cross.rate = cross.rate.map(rate);
        }
        let hosts = scaled.network.hosts.len();
        let total = (0..hosts).map(|i| scaled.network.nic(NodeIx(i))).fold(Rate::ZERO, Rate::plus);
        if total > self.testbed.max_rate {
            let seen = format!("the hosts' rates add up to {:.1} Gbit/s after scaling", total.0 as f64 / 1e9);
            refuse("/testbed/scale", seen, "a larger scale, or a larger testbed.max_gbps");
        }
        Problems::of(problems).map_or(Ok(scaled), Err)
    }

    /// The first jobs only, as many as `jobs`, in the order in which they arrive, with at most so many iterations each; for
    /// trying. Arrivals, faults and cross traffic come sooner by as much as there are fewer iterations.
    pub fn shortened(&self, jobs: usize, iterations: u32) -> Scenario {
        let mut short = self.clone();
        let order = arrival_order(self);
        let mut kept: Vec<usize> = order.into_iter().take(jobs).collect();
        kept.sort_unstable();
        short.jobs = kept.iter().filter_map(|&at| self.jobs.get(at).cloned()).collect();
        let count = |jobs: &[Job]| jobs.iter().map(|job| u64::from(job.iterations)).sum::<u64>().max(1) as f64;
        let before = count(&short.jobs);
        short.jobs.iter_mut().for_each(|job| job.iterations = job.iterations.min(iterations.max(1)));
        let part = count(&short.jobs) / before;
        let sooner = |time: &mut Nanos| *time = time.scaled(part);
        short.jobs.iter_mut().for_each(|job| sooner(&mut job.arrival));
        for fault in &mut short.faults {
            sooner(&mut fault.at);
            fault.lasts.iter_mut().for_each(sooner);
        }
        for flow in &mut short.cross_flows {
            sooner(&mut flow.start);
            sooner(&mut flow.end);
            flow.end = flow.end.max(flow.start.plus(Nanos(1)));
        }
        let ids: HashSet<&String> = short.jobs.iter().map(|job| &job.id).collect();
        short.schedulers.options.static_order.retain(|id| ids.contains(id));
        short
    }

    /// Why this fault cannot be had of real processes, and what can.
    fn not_on_the_testbed(&self, fault: &Fault) -> Option<(String, &'static str)> {
        let target = self.network.name(fault.target);
        let on_host = self.network.is_host(fault.target);
        match fault.kind {
            FaultKind::HostDeath => Some((
                format!("host-death of {target} exists only in the simulator: real jobs end with their host"),
                "daemon-kill, daemon-stop, switch-restart, partition or clock-skew",
            )),
            FaultKind::DaemonKill | FaultKind::DaemonStop if !on_host => {
                Some((format!("{} of {target}, which has no daemon", fault.kind.as_str()), "an id of a host"))
            }
            FaultKind::ClockSkew if !on_host => {
                Some((format!("clock-skew of the switch {target} exists only in the simulator"), "an id of a host"))
            }
            FaultKind::SwitchRestart if on_host => Some((
                format!("switch-restart of the host {target}, whose table is in its daemon"),
                "an id of a switch, or daemon-kill",
            )),
            FaultKind::SwitchRestart | FaultKind::Partition
                if !on_host && self.schedulers.options.sluice.tables != Tables::Switch =>
            {
                Some((
                    format!("{target} keeps no table here: scheduler.sluice.tables is not \"switch\""),
                    "an id of a host",
                ))
            }
            _ => None,
        }
    }

    /// What the testbed does not do with this scenario, in sentences for the report.
    pub fn testbed_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.placement.freeze {
            notes.push(
                "placement.freeze is for the simulator: the testbed places a job when its GPUs are free".to_owned(),
            );
        }
        let Control { delay, jitter, loss } = self.control;
        if delay > Control::default().delay || jitter > Nanos::ZERO {
            notes.push(
                "control.delay_us and control.jitter_us are the simulator's: messages took what this machine takes"
                    .to_owned(),
            );
        }
        if loss > 0.0 {
            notes.push(
                "control.loss: packets between daemons and switches were lost, so that messages came late, as TCP repeats \
                 them; the simulator loses messages"
                    .to_owned(),
            );
        }
        if self.dropped_jobs > 0 {
            notes.push(format!("{} jobs of the trace were larger than max_gpus and left out", self.dropped_jobs));
        }
        notes
    }
}

/// `value / scale`, rounded half to even, at least 1.
fn divide(value: u64, scale: &Rational) -> u64 {
    let exact = scale.recip().and_then(|inverse| inverse.to_units(value));
    exact.unwrap_or(value).max(1)
}
