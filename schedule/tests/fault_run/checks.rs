//! The invariants, checked at every step; numbers as in the promises of the reliability page.

use std::collections::BTreeMap;
use std::fmt;

use sluice_schedule::host::PolicyName;
use sluice_schedule::message::{Announcement, Feedback, Refusal};
use sluice_schedule::units::{BootId, Bytes, HolderId, LinkId, Nanos, Rate, Slot};
use sluice_schedule::{ClockTrust, Now};

use super::options::Options;
use super::setup::host_id;
use super::world::{Ev, World};
use super::{Bug, Report};

/// A broken invariant.
#[derive(Debug)]
pub struct Violation {
    pub invariant: u8,
    pub at: Nanos,
    pub slot: u64,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} at {} (slot {} of the run): {}", self.invariant, self.at, self.slot, self.what)
    }
}

/// What a daemon heard last of a holder.
pub struct Heard {
    pub at: Nanos,
    /// The last answer whose views count.
    pub last: Feedback,
}

/// What the checks remember.
pub struct Measures {
    /// The first slot of the run in which calm bounds hold.
    pub settled: u64,
    pub heard: BTreeMap<(usize, HolderId), Heard>,
    spoken: BTreeMap<(usize, BootId, HolderId), (Slot, u64)>,
    /// Highest sequence number that reached a holder's process of a host's.
    reached: BTreeMap<(BootId, BootId), u64>,
    /// Since when a cable has been promised too much.
    over_since: Vec<Option<Nanos>>,
    last_kernel: Nanos,
    honest: bool,
}

impl Measures {
    pub fn new(options: &Options, cables: usize) -> Measures {
        // A clock that was set back is waited for; two slots for leases, two for reconnects, two to be warm again.
        let wait = if options.faults.steps > 0 { 2 * options.faults.step_tenths / 10 + 1 } else { 1 };
        Measures {
            settled: options.fault_slots + wait + 6,
            heard: BTreeMap::new(),
            spoken: BTreeMap::new(),
            reached: BTreeMap::new(),
            over_since: vec![None; cables],
            last_kernel: Nanos::ZERO,
            honest: options.jobs.iter().all(|job| job.claim_percent == 100),
        }
    }
}

impl World {
    fn settled(&self) -> bool {
        self.now >= self.slot.times(if self.options.faultless() { 12 } else { self.measures.settled })
    }

    /// A slot began for a daemon.
    pub fn note_slot(&mut self, host: usize) {
        let own = self.cluster.kernel.flows.iter().filter(|flow| flow.open && flow.from == host_id(host));
        let orders = own.filter_map(|flow| Some((flow.id, flow.live_order(self.now)?))).collect();
        let daemon = &mut self.cluster.daemons[host];
        daemon.orders.rotate_right(1);
        daemon.orders[0] = orders;
        daemon.best.rotate_right(1);
        daemon.best[0].clear();
    }

    /// Best rates of the slot, as the daemon reads them.
    pub fn note_rates(&mut self, host: usize) {
        let own = self.cluster.kernel.flows.iter().filter(|flow| flow.open && flow.from == host_id(host));
        for flow in own {
            let best = self.cluster.daemons[host].best[0].entry(flow.id).or_default();
            *best = best.max(flow.rate);
        }
    }

    pub fn note_heard(&mut self, host: usize, holder: HolderId, feedback: &Feedback) {
        match self.measures.heard.get_mut(&(host, holder)) {
            Some(known) => {
                known.at = self.now;
                if feedback.warm {
                    known.last = feedback.clone();
                }
            }
            None => {
                self.measures.heard.insert((host, holder), Heard { at: self.now, last: feedback.clone() });
            }
        }
    }

    /// Invariants 1, 4 and 10, after each single order.
    pub fn check_order(&mut self, host: usize, now: Now, at: usize, before: Option<Rate>) {
        let rate = self.cluster.kernel.flows[at].order.map_or(Rate::ZERO, |order| order.rate);
        let kernel = &self.cluster.kernel;
        let flow = &kernel.flows[at];
        let slowest = flow.path.iter().map(|&link| kernel.cables[link].capacity).min().unwrap_or(Rate::ZERO);
        let own = || kernel.flows.iter().filter(|other| other.open && other.from == host_id(host));
        let config = &self.cluster.daemons[host].config;
        let floor = config.floor.max(slowest.times(config.floor_ratio)).min(slowest.share(10));
        let crowd = flow.path.iter().map(|link| own().filter(|other| other.path.contains(link)).count() as u64).max();
        let least = floor.min(slowest.times(1.0 - config.reserve).share(crowd.unwrap_or(1)));
        if rate > slowest || rate < Rate(least.0 - least.0 / 100) {
            return self.blame(4, format!("host {host} orders {rate} for {}, path {slowest}, floor {least}", flow.id));
        }
        // Lowering one order of several cannot do harm; what is raised must fit.
        if before.is_none_or(|before| rate > before) {
            self.check_egress(host);
        }
        self.check_step(host, now, at, rate);
    }

    /// Invariant 1: what is ordered on the own link fits, but for flows without demand, which keep their floor.
    pub fn check_egress(&mut self, host: usize) {
        let daemon = &self.cluster.daemons[host];
        let Some(brain) = &daemon.brain else { return };
        // A new daemon does not know the orders of the dead one until it has replaced them all.
        if daemon.life > 0 && self.now.minus(daemon.born) < self.slot {
            return;
        }
        let kernel = &self.cluster.kernel;
        let own = kernel.flows.iter().filter(|flow| flow.open && flow.from == host_id(host));
        let sum: u64 = own.filter_map(|flow| flow.live_order(self.now)).map(|rate| rate.0).sum();
        let idle = brain.flows().filter(|flow| flow.demand <= flow.delivered).count() as u64;
        let egress = Rate::mbps(self.options.capacity_mbps);
        let floor = daemon.config.floor.max(egress.times(daemon.config.floor_ratio)).min(egress.share(10));
        if sum > egress.0 + idle * floor.0 {
            self.blame(1, format!("host {host} ordered {} on its own {egress} in all", Rate(sum)));
        }
    }

    fn check_step(&mut self, host: usize, now: Now, at: usize, rate: Rate) {
        let daemon = &self.cluster.daemons[host];
        let flow = &self.cluster.kernel.flows[at];
        let Some(brain) = &daemon.brain else { return };
        let busy: Vec<_> = brain.flows().filter(|flow| flow.demand > flow.delivered).collect();
        let Some(status) = busy.iter().find(|status| status.spec.flow == flow.id) else { return };
        let slots = |n: f64| self.slot.scaled(n);
        let (mut stale, mut share) = (false, u64::MAX);
        for hop in &status.spec.path {
            let own = busy.iter().filter(|other| other.spec.path.iter().any(|h| h.link == hop.link)).count() as u64;
            let heard = hop.holder.and_then(|holder| self.measures.heard.get(&(host, holder)));
            let view = heard.and_then(|heard| heard.last.links.iter().find(|view| view.link == hop.link));
            let others = view.map_or(0, |view| view.flows.iter().filter(|flow| flow.rate(0) > Rate::ZERO).count());
            let age = heard.map(|heard| self.now.minus(heard.at).minus(now.into_slot));
            // Held views only: later ones are given up slot by slot, and without any the own links alone decide.
            let held = age.is_some_and(|age| age > slots(1.6) && age < slots(self.options.horizon as f64 - 2.0));
            stale |= hop.holder.is_some() && held;
            share = share.min(hop.capacity.0 / (own + others as u64));
        }
        let before = daemon.orders[0].get(&flow.id).copied().unwrap_or(Rate::ZERO);
        let best = daemon.best.iter().filter_map(|slot| slot.get(&flow.id)).fold(0.0, |a: f64, b| a.max(*b));
        let limit = (before.0 as f64).max(best) * daemon.config.max_step_up;
        if stale && daemon.trust == ClockTrust::Trusted && rate.0 as f64 > limit.max(share as f64) * 1.01 + 1.0 {
            let why = format!("had {before}, delivered {}, share {}", Rate(best as u64), Rate(share));
            self.blame(10, format!("host {host} raises {} to {rate} on an old view: {why}", flow.id));
        }
    }

    /// Invariants 6, 11 and 14 of what a host says.
    pub fn check_announcement(&mut self, host: usize, now: Now, holder: HolderId, said: &Announcement) {
        let key = (host, said.boot, holder);
        if let Some((slot, seq)) = self.measures.spoken.insert(key, (said.slot, said.seq))
            && (said.slot.since(slot) < 0 || said.seq <= seq)
        {
            return self
                .blame(6, format!("host {host} says slot {} after {slot}, seq {} after {seq}", said.slot, said.seq));
        }
        let gap = self.cluster.daemons[host].config.announce_gap;
        let spoken = self.cluster.daemons[host].spoken.entry(holder).or_default();
        *spoken = if spoken.0 == now.slot { (now.slot, spoken.1 + 1) } else { (now.slot, 1) };
        let (count, most) = (spoken.1, self.slot.0 / gap.0 + 2);
        self.report.announcements += 1;
        if count > most && self.calm {
            return self.blame(11, format!("host {host} says {count} things to {holder} in slot {}", now.slot));
        }
        for promise in &said.flows {
            let Some(at) = self.cluster.kernel.find(promise.flow) else { continue };
            let real = self.cluster.kernel.flows[at].delivered;
            let long = promise.rates.len() > self.options.horizon;
            if long || promise.delivered > promise.demand || promise.delivered.0 as f64 > real + 1.0 {
                let what = format!("{} of {}, really {}", promise.delivered, promise.demand, Bytes(real as u64));
                return self.blame(14, format!("host {host} says {} has delivered {what}", promise.flow));
            }
        }
    }

    /// Invariant 12, while faults go on: news of a living process is never taken for old. (A process whose clock was set
    /// back over its predecessor's slots has to wait for the lease.)
    pub fn check_refusal(&mut self, holder: usize, from: usize, said: (BootId, u64), refused: Option<Refusal>) {
        let reached = self.measures.reached.entry((self.cluster.holders[holder].boot(), said.0)).or_default();
        let news = said.1 > *reached && self.cluster.daemons[from].config.boot == said.0;
        *reached = (*reached).max(said.1);
        if news && refused == Some(Refusal::Old) && self.options.faults.steps == 0 {
            self.blame(12, format!("news {} of host {from} (boot {}) is refused as old", said.1, said.0));
        }
    }

    /// Invariants 3 and 9: leases in force at a holder.
    pub fn check_leases(&mut self, holder: usize, slot: Slot) {
        let place = &self.cluster.holders[holder];
        let Some(switch) = &place.switch else { return };
        let steady = self.options.faults.steps == 0 || self.settled();
        let mut wrong = None;
        for lease in switch.leases() {
            let left = lease.ends.since(slot);
            let age = slot.since(lease.slot);
            if !(1..=3).contains(&left) || !(-1..=3).contains(&age) {
                wrong = Some(format!("{} holds slot {} of {} until {}", place.id, lease.slot, lease.host, lease.ends));
            }
            let Some(daemon) = self.cluster.daemons.iter().find(|daemon| daemon.id == lease.host) else { continue };
            let gone = match daemon.died {
                Some(died) if daemon.brain.is_none() => Some(died),
                _ if daemon.config.boot != lease.boot && self.bug.is_none() => Some(daemon.born),
                _ => None,
            };
            if steady && gone.is_some_and(|gone| self.now.minus(gone) > self.slot.scaled(5.0)) {
                wrong = Some(format!("{} still holds boot {} of {}", place.id, lease.boot, lease.host));
            }
        }
        if switch.hosts().count() > self.options.hosts
            || switch.statuses() > self.options.hosts * self.options.jobs.len()
        {
            return self.blame(9, format!("{} keeps more hosts or statuses than there are", place.id));
        }
        if let Some(wrong) = wrong {
            self.blame(3, wrong);
        }
    }

    /// Invariant 12: in the calm a table is what the last announcements say, to the bit.
    pub fn check_table(&mut self, holder: usize, slot: Slot) {
        let place = &self.cluster.holders[holder];
        if !self.settled() || place.in_flight > 0 {
            return;
        }
        let Some(switch) = &place.switch else { return };
        let mut wrong = None;
        let mut expected: BTreeMap<LinkId, Vec<u128>> = BTreeMap::new();
        for daemon in &self.cluster.daemons {
            let Some(said) = daemon.said.get(&place.id) else { continue };
            let lease = switch.leases().find(|lease| lease.host == daemon.id);
            match lease {
                Some(lease)
                    if (lease.seq, lease.slot) == (said.seq, said.slot)
                        && (lease.boot == said.boot || self.bug == Some(Bug::SeqWithoutBoot)) =>
                {
                    add_promises(&mut expected, said, slot, self.options.horizon, &place.links);
                }
                None if slot.since(said.slot) >= 2 => {}
                other => {
                    wrong =
                        Some(format!("{}: {} said {} for {}, held {other:?}", place.id, daemon.id, said.seq, said.slot))
                }
            }
        }
        for link in switch.links() {
            let sums = expected.remove(&link.link).unwrap_or_else(|| vec![0; self.options.horizon]);
            if link.load.iter().zip(&sums).any(|(held, sum)| u128::from(held.0) != *sum) {
                wrong = Some(format!("{}: {:?} instead of {sums:?} on {}", place.id, link.load, link.link));
            }
        }
        self.report.tables += 1;
        if let Some(wrong) = wrong {
            self.blame(12, wrong);
        }
    }

    /// Every twelfth of a slot: what the kernel does, and what the cables are promised.
    pub fn kernel_tick(&mut self) {
        self.cluster.kernel.share();
        self.end_rounds();
        self.check_flows();
        if self.settled() && self.measures.honest && self.options.events {
            self.check_cables();
        }
        if self.settled() {
            self.measure_fairness();
            self.check_rounds();
        }
        self.measures.last_kernel = self.now;
        self.after(Nanos(self.slot.0 / 12), Ev::Kernel);
    }

    /// Invariants 4 (dead man) and 13.
    fn check_flows(&mut self) {
        let mut wrong = None;
        let shares: BTreeMap<usize, f64> = self.cluster.kernel.fair_shares().into_iter().collect();
        for (at, flow) in self.cluster.kernel.flows.iter().enumerate() {
            if flow.stalled_since.is_some_and(|since| self.now.minus(since) > self.slot) {
                wrong =
                    Some((13, format!("{} has bytes to send and moves none since {:?}", flow.id, flow.stalled_since)));
            }
            let daemon = self.cluster.daemons.iter().find(|daemon| daemon.id == flow.from);
            let dead = daemon.and_then(|daemon| daemon.died.filter(|_| daemon.brain.is_none()));
            let free = dead.is_some_and(|died| self.now.minus(died) > self.slot.scaled(3.2));
            // Its share against flows that are held: at least what it would get if none were.
            if free && shares.get(&at).is_some_and(|share| flow.rate < share * 0.2 && self.alone(at)) {
                wrong =
                    Some((4, format!("{} is held to {} long after its daemon died", flow.id, Rate(flow.rate as u64))));
            }
        }
        if let Some((invariant, what)) = wrong {
            self.blame(invariant, what);
        }
    }

    fn alone(&self, at: usize) -> bool {
        let flows = &self.cluster.kernel.flows;
        let meets = |other: usize| flows[other].path.iter().any(|link| flows[at].path.contains(link));
        (0..flows.len()).all(|other| other == at || !meets(other) || !self.cluster.kernel.sending(other))
    }

    /// Invariant 2.
    fn check_cables(&mut self) {
        for link in 0..self.cluster.kernel.cables.len() {
            let kernel = &self.cluster.kernel;
            let flows = kernel.flows.iter().filter(|flow| flow.path.contains(&link) && flow.has_demand());
            let sum: u64 = flows.filter_map(|flow| flow.live_order(self.now)).map(|rate| rate.0).sum();
            let ratio = sum as f64 / kernel.cables[link].capacity.0 as f64;
            self.report.samples += 1;
            self.report.over_5 += u64::from(ratio > 1.05);
            self.report.over_25 += u64::from(ratio > 1.25);
            self.report.worst = self.report.worst.max(ratio);
            let since = &mut self.measures.over_since[link];
            *since = if ratio > 1.05 { since.or(Some(self.now)) } else { None };
            if since.is_some_and(|since| self.now.minus(since) > self.slot.times(2)) {
                let cable = kernel.cables[link].link;
                self.blame(2, format!("{cable} is promised {ratio:.2} of its rate for two slots"));
            }
        }
    }

    fn measure_fairness(&mut self) {
        let passed = self.now.minus(self.measures.last_kernel).as_secs_f64();
        let shares: BTreeMap<usize, f64> = self.cluster.kernel.fair_shares().into_iter().collect();
        for job in &mut self.cluster.jobs {
            for at in &job.flows {
                if let Some(share) = shares.get(at) {
                    job.fair += share * passed;
                    job.got += self.cluster.kernel.flows[*at].rate * passed;
                }
            }
        }
    }

    /// Invariant 5 for `srpt-p`: the order of rounds may shift work in time, but promotion bounds by how much. A round
    /// older than κ(1+D)m goes before all younger ones; D is at most one per job.
    fn check_rounds(&mut self) {
        let jobs = self.cluster.jobs.len() as f64;
        let all = self.cluster.jobs.iter().fold(Nanos::ZERO, |sum, job| sum.plus(job.least));
        let begin = self.slot.times(self.measures.settled);
        for n in 0..self.cluster.jobs.len() {
            let job = &self.cluster.jobs[n];
            let patience = job.least.scaled(4.0 * (1.0 + jobs)).plus(all.times(3)).plus(self.slot.times(10));
            let age = self.now.minus(job.began.max(begin));
            let honest = self.options.jobs[n].claim_percent == 100;
            if job.running && honest && self.settled() && age > patience {
                return self.blame(5, format!("a round of job {n} lasts {age} already, at most {patience} is due"));
            }
        }
    }

    /// Invariant 5 for `fair`, at the end: over the measured part of the calm, every job's part of its max-min share.
    pub fn check_windows(&mut self) {
        let window = self.now.minus(self.slot.times(self.measures.settled));
        for n in 0..self.cluster.jobs.len() {
            let job = &self.cluster.jobs[n];
            let present = if job.running { self.now.minus(job.began) } else { Nanos::ZERO };
            let long = window >= Nanos::from_millis(3000).max(job.longest.max(present).times(2));
            if job.fair > 0.0 && self.options.jobs[n].claim_percent == 100 && !job.dead && long {
                let part = job.got / job.fair;
                self.report.windows += 1;
                let least = self.report.least_part.entry(format!("{:?}", self.options.policy)).or_insert(f64::INFINITY);
                *least = least.min(part);
                // Half, less the reserve of 5 % that is left free.
                if part < 0.5 * 0.95 && self.options.policy == PolicyName::Fair {
                    return self.blame(5, format!("job {n} got {part:.2} of its max-min share"));
                }
            }
        }
    }

    pub fn finish(mut self) -> Report {
        for holder in 0..self.cluster.holders.len() {
            self.count_switch(holder);
        }
        let delivered: Vec<u64> = self.cluster.kernel.flows.iter().map(|flow| flow.delivered.to_bits()).collect();
        self.trace(&delivered);
        self.report
    }
}

/// Adds what one host promised, clipped to each link like a holder must, for the slots from `slot` on.
fn add_promises(
    sums: &mut BTreeMap<LinkId, Vec<u128>>,
    said: &Announcement,
    slot: Slot,
    horizon: usize,
    links: &[sluice_schedule::switch::LinkConfig],
) {
    for config in links {
        let promises = || said.flows.iter().filter(|promise| promise.links.contains(&config.link));
        for ahead in 0..horizon {
            let place = slot.offset(ahead as i32).since(said.slot);
            if !(0..horizon as i32).contains(&place) {
                continue;
            }
            let most = u128::from(config.capacity.0);
            let all: u128 = promises().map(|promise| u128::from(promise.rate(place as usize).0)).sum();
            let clip = |rate: u128| if all > most { rate * most / all } else { rate };
            let sum: u128 = promises().map(|promise| clip(u128::from(promise.rate(place as usize).0))).sum();
            sums.entry(config.link).or_insert_with(|| vec![0; horizon])[ahead] += sum;
        }
    }
}
