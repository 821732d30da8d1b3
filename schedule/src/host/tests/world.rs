//! A fluid star for tests: hosts with brains, one switch brain, rings that compute and send, in steps of a millisecond.

use std::collections::BTreeMap;

use crate::event::{Action, Event, FlowProgress, FlowSpec, Hop, JobSpec, Now, Pattern};
use crate::host::{Host, HostConfig, PolicyName};
use crate::message::{Announcement, Feedback};
use crate::switch::{Limits, LinkConfig, Switch};
use crate::units::{BootId, Bytes, FlowId, HolderId, HostId, JobId, LinkId, Nanos, Rate, Slot};

const SWITCH: HolderId = HolderId::of("s0");
const STEP: Nanos = Nanos(1_000_000);

/// A ring that computes, then moves `round` bytes over every hop, for ever.
pub struct Ring {
    name: String,
    members: Vec<usize>,
    round: Bytes,
    compute: Nanos,
    /// When the present compute phase ends, or none while a round runs.
    computing_until: Option<Nanos>,
    starts: Vec<Nanos>,
    left: Vec<f64>,
}

impl Ring {
    pub fn new(name: &str, members: &[usize], round: Bytes, compute: Nanos) -> Ring {
        Ring {
            name: name.into(),
            members: members.into(),
            round,
            compute,
            computing_until: Some(Nanos::ZERO),
            starts: Vec::new(),
            left: vec![0.0; members.len()],
        }
    }
    fn hop(&self, i: usize) -> (usize, usize) {
        (self.members[i], self.members[(i + 1) % self.members.len()])
    }
    fn flow(&self, i: usize) -> FlowId {
        let (from, to) = self.hop(i);
        FlowId(
            u64::from(host_id(from).0) << 32
                | u64::from(crate::units::fnv1a32(format!("{}{to}", self.name).as_bytes())),
        )
    }
    fn job(&self) -> JobId {
        JobId::of(&self.name)
    }
}

pub struct World {
    now: Nanos,
    delay: Nanos,
    rate: Rate,
    hosts: Vec<Host>,
    switch: Switch,
    rings: Vec<Ring>,
    orders: BTreeMap<FlowId, Rate>,
    to_switch: Vec<(Nanos, Announcement)>,
    to_host: Vec<(Nanos, usize, Feedback)>,
}

fn host_id(i: usize) -> HostId {
    HostId::of(&format!("h{i}"))
}

fn down(i: usize) -> LinkId {
    LinkId::new(SWITCH.0, i as u32)
}

fn brain(i: usize, policy: PolicyName) -> Host {
    let config = HostConfig::new(host_id(i), BootId(1 + i as u64));
    Host::new(HostConfig { reserve: 0.0, policy, phase: Nanos::from_millis(3 * i as u64), ..config })
}

impl World {
    pub fn star(hosts: usize, rate: Rate, delay: Nanos) -> World {
        let links: Vec<LinkConfig> =
            (0..hosts).map(|i| LinkConfig { link: down(i), capacity: rate, ..LinkConfig::default() }).collect();
        let mut switch = Switch::new(BootId(99), Limits::default(), &links);
        // It has run for a while: its tables are full.
        switch.expire(Slot(0).offset(-10));
        switch.expire(Slot(0));
        World {
            now: Nanos::ZERO,
            delay,
            rate,
            hosts: (0..hosts).map(|i| brain(i, PolicyName::SrptP)).collect(),
            switch,
            rings: Vec::new(),
            orders: BTreeMap::new(),
            to_switch: Vec::new(),
            to_host: Vec::new(),
        }
    }

    pub fn policy(mut self, policy: PolicyName) -> World {
        self.hosts = (0..self.hosts.len()).map(|i| brain(i, policy)).collect();
        self
    }

    pub fn add(&mut self, ring: Ring) {
        let now = self.clock();
        for i in 0..ring.members.len() {
            let (from, to) = ring.hop(i);
            let host = &mut self.hosts[from];
            host.handle(now, Event::JobSeen(JobSpec { job: ring.job(), pattern: Pattern::Ring }));
            let egress = Hop { link: LinkId::egress(host_id(from)), capacity: self.rate, holder: None };
            let ingress = Hop { link: down(to), capacity: self.rate, holder: Some(SWITCH) };
            let spec = FlowSpec {
                flow: ring.flow(i),
                job: ring.job(),
                to: host_id(to),
                path: vec![egress, ingress],
                ..FlowSpec::default()
            };
            host.handle(now, Event::FlowOpened(spec));
        }
        self.rings.push(ring);
    }

    fn clock(&self) -> Now {
        let slot = Nanos::from_millis(60).0;
        Now {
            mono: self.now,
            wall: self.now,
            slot: Slot((self.now.0 / slot) as u32),
            into_slot: Nanos(self.now.0 % slot),
        }
    }

    pub fn run(&mut self, time: Nanos) {
        let end = self.now.plus(time);
        while self.now < end {
            self.begin_rounds();
            self.deliver_messages();
            self.decide();
            self.send();
            self.now = self.now.plus(STEP);
        }
    }

    fn begin_rounds(&mut self) {
        let now = self.clock();
        for ring in &mut self.rings {
            if ring.computing_until.is_some_and(|end| end <= now.mono) {
                ring.computing_until = None;
                ring.starts.push(now.mono);
                ring.left.fill(ring.round.0 as f64);
                for i in 0..ring.members.len() {
                    let flows = vec![(ring.flow(i), ring.round)];
                    self.hosts[ring.hop(i).0].handle(now, Event::RoundBegan { job: ring.job(), flows });
                }
            }
        }
    }

    fn deliver_messages(&mut self) {
        let now = self.clock();
        let (due, later): (Vec<_>, Vec<_>) = self.to_switch.drain(..).partition(|(at, _)| *at <= now.mono);
        self.to_switch = later;
        let index = |host: HostId| (0..).find(|&i| host_id(i) == host).unwrap();
        for (_, announcement) in due {
            let feedback = self.switch.announce(now.slot, &announcement);
            self.to_host.push((now.mono.plus(self.delay), index(announcement.host), feedback));
        }
        for host in self.switch.take_stale() {
            if let Some(feedback) = self.switch.feedback(now.slot, host) {
                self.to_host.push((now.mono.plus(self.delay), index(host), feedback));
            }
        }
        let (due, later): (Vec<_>, Vec<_>) = self.to_host.drain(..).partition(|(at, ..)| *at <= now.mono);
        self.to_host = later;
        for (_, host, feedback) in due {
            self.hosts[host].handle(now, Event::Feedback { holder: SWITCH, feedback });
        }
    }

    fn decide(&mut self) {
        let now = self.clock();
        for host in &mut self.hosts {
            if now.into_slot == Nanos::ZERO {
                host.handle(now, Event::SlotEdge);
            }
            let mut actions = Vec::new();
            host.decide(now, &mut actions);
            for action in actions {
                match action {
                    Action::Order { flow, rate, .. } => {
                        self.orders.insert(flow, rate);
                    }
                    Action::Announce { announcement, .. } => {
                        self.to_switch.push((now.mono.plus(self.delay), announcement));
                    }
                    Action::Release { flow, .. } => {
                        self.orders.remove(&flow);
                    }
                    Action::Routed { .. } => unreachable!("there are no equal paths here"),
                }
            }
        }
    }

    /// Moves a step's bytes: every flow at its order, scaled down where a link is over-promised.
    fn send(&mut self) {
        let now = self.clock();
        let mut load: BTreeMap<LinkId, f64> = BTreeMap::new();
        for ring in &self.rings {
            for i in (0..ring.members.len()).filter(|&i| ring.left[i] > 0.0) {
                let (from, to) = ring.hop(i);
                let rate = self.orders.get(&ring.flow(i)).map_or(0, |r| r.0) as f64;
                *load.entry(LinkId::egress(host_id(from))).or_default() += rate;
                *load.entry(down(to)).or_default() += rate;
            }
        }
        let capacity = self.rate.0 as f64;
        for ring in &mut self.rings {
            for i in 0..ring.members.len() {
                let (from, to) = ring.hop(i);
                let id = ring.flow(i);
                let worst = load.get(&LinkId::egress(host_id(from))).max_by_f64(load.get(&down(to)));
                let rate = self.orders.get(&id).map_or(0.0, |r| r.0 as f64) / (worst / capacity).max(1.0);
                ring.left[i] = (ring.left[i] - rate / 8.0 * STEP.as_secs_f64()).max(0.0);
                let delivered = Bytes(ring.round.0 - ring.left[i].ceil() as u64);
                let progress = FlowProgress {
                    flow: id,
                    delivered,
                    rate: Rate(rate as u64),
                    queued: Bytes::ZERO,
                    ..Default::default()
                };
                self.hosts[from].handle(now, Event::Progress(vec![progress]));
            }
            if ring.computing_until.is_none() && ring.left.iter().all(|left| *left == 0.0) {
                ring.computing_until = Some(now.mono.plus(STEP).plus(ring.compute));
            }
        }
    }

    /// What each flow of the job promises for the current slot.
    pub fn promises(&self, job: &str) -> Vec<Rate> {
        let job = JobId::of(job);
        let flows = self.hosts.iter().flat_map(Host::flows).filter(|f| f.spec.job == job);
        flows.map(|f| f.rates.first().copied().unwrap_or_default()).collect()
    }

    pub fn orders(&self, job: &str) -> Vec<Rate> {
        let ring = self.rings.iter().find(|r| r.name == job).unwrap();
        (0..ring.members.len()).map(|i| self.orders[&ring.flow(i)]).collect()
    }

    /// Sum of the orders of flows with demand, per link.
    pub fn promised(&self) -> BTreeMap<LinkId, Rate> {
        let mut sums: BTreeMap<LinkId, Rate> = BTreeMap::new();
        for ring in &self.rings {
            for i in (0..ring.members.len()).filter(|&i| ring.left[i] > 0.0) {
                let (from, to) = ring.hop(i);
                for link in [LinkId::egress(host_id(from)), down(to)] {
                    let sum = sums.entry(link).or_default();
                    *sum = sum.plus(self.orders[&ring.flow(i)]);
                }
            }
        }
        sums
    }

    /// The job's key as its first host ranks it.
    pub fn key(&self, job: &str) -> Nanos {
        let job = JobId::of(job);
        self.hosts.iter().flat_map(Host::jobs).find(|j| j.job == job).map_or(Nanos::ZERO, |j| j.key)
    }

    /// D of the job as the host with this number sees it.
    pub fn density(&self, host: usize, job: &str) -> f64 {
        self.hosts[host].jobs.get(&JobId::of(job)).map_or(0.0, |job| job.density)
    }

    /// Longest time from round start to round start, an unfinished last round included.
    pub fn longest_iteration(&self, job: &str) -> Nanos {
        let starts = &self.rings.iter().find(|r| r.name == job).unwrap().starts;
        let ends = starts.iter().skip(1).copied().chain([self.now]);
        starts.iter().zip(ends).map(|(start, end)| end.minus(*start)).max().unwrap()
    }

    /// Mean time from round start to round start, the first `skip` left out.
    pub fn mean_iteration(&self, job: &str, skip: usize) -> Nanos {
        let starts = &self.rings.iter().find(|r| r.name == job).unwrap().starts[skip..];
        Nanos((starts[starts.len() - 1].0 - starts[0].0) / (starts.len() as u64 - 1))
    }
}

trait MaxF64 {
    fn max_by_f64(self, other: Self) -> f64;
}

impl MaxF64 for Option<&f64> {
    fn max_by_f64(self, other: Self) -> f64 {
        self.copied().unwrap_or(0.0).max(other.copied().unwrap_or(0.0))
    }
}
