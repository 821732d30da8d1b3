//! Invariants of what flows get and cables carry: at every twelfth of a slot, most of them in the calm.

use std::collections::BTreeMap;

use sluice_schedule::host::{PolicyName, ViewState};
use sluice_schedule::units::{Nanos, Rate};

use crate::Mutant;
use crate::kernel::{BURST, Flow};
use crate::queue::Ev;
use crate::setup::host_id;
use crate::situations::Situation;
use crate::world::World;

impl World {
    /// Every twelfth of a slot: what the kernel does, and what the cables are promised.
    pub fn kernel_tick(&mut self) {
        self.settle();
        self.note_situations();
        self.cluster.kernel.share();
        self.end_rounds();
        self.check_flows();
        // Sums alone name no ranks, so where holders keep only sums a link's bound is the business of TCP.
        let ranks = !self.options.double_buffer;
        // To the letter a link's load is that of *other jobs*, so hosts of one job each take what the others leave; and a
        // flow that lags goes beyond the headroom. The own links stay bounded, which invariant 1 checks.
        let counts_all = self.options.policy != PolicyName::PrimalDualLiteral;
        let known = !self.options.tight();
        if self.settled() && self.measures.honest && self.options.events && ranks && counts_all && known {
            self.check_cables();
        }
        if self.settled() {
            self.check_views();
            self.measure_fairness();
            if known {
                self.check_room();
                self.check_meetings();
                self.check_rounds();
                self.check_routes();
            }
        }
        if self.calm && self.options.core.is_some() {
            if self.measures.core_rounds.is_some() {
                self.measure_fairness();
            }
            self.check_core();
        }
        self.measures.last_kernel = self.now;
        self.after(Nanos(self.slot.0 / 12), Ev::Kernel);
    }

    /// Counts the situations a run should come to, so that a simulator which no longer does is noticed.
    fn note_situations(&mut self) {
        let kernel = &self.cluster.kernel;
        let expired =
            kernel.flows.iter().enumerate().filter(|(at, flow)| {
                flow.order.is_some() && flow.live_order(self.now).is_none() && kernel.sending(*at)
            });
        let expired = expired.count() as u64;
        let waits = |flow: &&Flow| flow.has_demand() && flow.rate == 0.0 && flow.stalled_since.is_none();
        let waiting = kernel.flows.iter().filter(waits).count() as u64;
        let (mut held, mut decaying, mut local, mut promoted) = (0, 0, 0, 0);
        for brain in self.cluster.daemons.iter().filter_map(|daemon| daemon.brain.as_ref()) {
            for (_, state) in brain.views() {
                match state {
                    ViewState::Fresh => {}
                    ViewState::Holding => held += 1,
                    ViewState::Decaying => decaying += 1,
                    ViewState::Local => local += 1,
                }
            }
            promoted += brain.jobs().filter(|job| job.promoted).count() as u64;
        }
        let passed = |slots: u64| {
            let base = self.options.first_slot;
            let before = base + self.measures.last_kernel.0 / self.slot.0;
            before < slots && base + self.now.0 / self.slot.0 >= slots
        };
        let (wrapped, half) = (passed(1 << 32), passed(1 << 31));
        for (what, count) in [
            (Situation::OrderExpired, expired),
            (Situation::WaitedForPredecessor, waiting),
            (Situation::Promoted, promoted),
            (Situation::ViewHeld, held),
            (Situation::ViewDecayed, decaying),
            (Situation::ViewLocal, local),
            (Situation::Wrapped, u64::from(wrapped)),
            (Situation::HalfWrapped, u64::from(half)),
            (Situation::WrappedWhileHolding, u64::from(wrapped && held + decaying > 0)),
            (Situation::LastingCut, u64::from(self.calm && self.options.lasting.is_some())),
        ] {
            self.report.seen.note(what, count);
        }
        if self.cluster.jobs.iter().any(|job| job.running) {
            self.measures.moved = self.now;
        }
    }

    /// Invariants 4 (dead man) and 13.
    fn check_flows(&mut self) {
        let mut wrong = None;
        let any_dead = self.cluster.daemons.iter().any(|daemon| daemon.brain.is_none());
        let shares: BTreeMap<usize, f64> =
            if any_dead { self.cluster.kernel.fair_shares().into_iter().collect() } else { BTreeMap::new() };
        let coast = Nanos::from_millis(self.options.coast_ms);
        let longest = coast.max(self.slot.times(3)).plus(self.slot);
        let for_ever = self.mutant == Some(Mutant::OrdersForEver);
        for (at, flow) in self.cluster.kernel.flows.iter().enumerate() {
            if flow.stalled_since.is_some_and(|since| self.now.minus(since) > self.slot) {
                wrong =
                    Some((13, format!("{} has bytes to send and moves none since {:?}", flow.id, flow.stalled_since)));
            }
            let daemon = &self.cluster.daemons[flow.host];
            let lasts = |in_order: bool| if in_order { coast.max(self.slot.times(3)) } else { self.slot.times(3) };
            let free = daemon.died.filter(|_| daemon.brain.is_none()).is_some_and(|death| {
                // Last orders of one process may outlive the next one.
                let in_order =
                    death.in_order || flow.order.is_some_and(|order| order.expires > death.at.plus(self.slot.times(3)));
                self.now.minus(death.at) > lasts(in_order).plus(Nanos(self.slot.0 / 5))
            });
            let order = flow.order.filter(|_| flow.live_order(self.now).is_some());
            if order.is_some_and(|order| order.expires.minus(self.now) > longest) {
                wrong = Some((4, format!("{} is held by an order for longer than {longest}", flow.id)));
            }
            if order.is_some() && !for_ever && flow.delivered > flow.granted + BURST {
                let (sent, let_through) = (flow.delivered as u64, flow.granted as u64);
                wrong = Some((14, format!("{} has sent {sent} bytes, its orders let {let_through} through", flow.id)));
            }
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

    /// Invariant 2, of links that are crossed only by flows that can be promised there. A flow that has nothing to send is not
    /// counted: when nothing of it has moved for a slot its end stays as it was told, and from then on others have its part until
    /// it says that it is back; its order stands meanwhile, and is no load.
    fn check_cables(&mut self) {
        for link in 0..self.cluster.kernel.cables.len() {
            let kernel = &self.cluster.kernel;
            let flows = kernel.flows.iter().enumerate();
            let here = flows.filter(|(at, flow)| flow.path.contains(&link) && kernel.sending(*at));
            let sum: u64 = here.filter_map(|(_, flow)| flow.live_order(self.now)).map(|rate| rate.0).sum();
            let lasting = self.options.lasting.map(|lasting| host_id(lasting.host));
            let apart = |at: &usize| Some(kernel.flows[*at].from) == lasting || self.strays(*at);
            if (0..kernel.flows.len()).any(|at| kernel.flows[at].path.contains(&link) && apart(&at)) {
                continue;
            }
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

    /// What jobs get of what plain TCP would give them. A host that decides at edges only has decided nothing of a round before
    /// the first edge in it: until then its flows have what they were left while they had nothing to send.
    fn measure_fairness(&mut self) {
        let passed = self.now.minus(self.measures.last_kernel).as_secs_f64();
        let shares: BTreeMap<usize, f64> = self.cluster.kernel.fair_shares().into_iter().collect();
        let by_edges = !self.options.events;
        let (flows, daemons) = (&self.cluster.kernel.flows, &self.cluster.daemons);
        for job in &mut self.cluster.jobs {
            let began = job.began;
            let unknown = |at: usize| by_edges && daemons[flows[at].host].edge_at <= began;
            for at in &job.flows {
                if let Some(share) = shares.get(at).filter(|_| !unknown(*at)) {
                    job.fair += share * passed;
                    job.got += flows[*at].rate * passed;
                }
            }
        }
    }

    /// In the calm every view of every host that can talk is fresh, whatever stays broken elsewhere.
    fn check_views(&mut self) {
        let lasting = self.options.lasting.map(|lasting| lasting.host);
        let talking = (0..self.cluster.daemons.len()).filter(|host| Some(*host) != lasting);
        let views = talking.flat_map(|host| {
            let brain = self.cluster.daemons[host].brain.iter();
            brain.flat_map(|brain| brain.views()).map(move |(holder, state)| (host, holder, state))
        });
        let old: Vec<_> = views.filter(|(.., state)| *state != ViewState::Fresh).collect();
        if let Some((host, holder, state)) = old.first() {
            self.blame(7, format!("host {host} sees {holder} as {state:?} in the calm"));
        }
    }

    /// Invariant 7: nothing is held at its floor for nothing.
    fn check_room(&mut self) {
        // To the letter what nobody scheduled in a slot stays idle, so a deferred flow is held beside room.
        let fills = self.options.policy != PolicyName::PrimalDualLiteral;
        if !self.measures.honest || !self.options.events || self.options.lasting.is_some() || !fills {
            return;
        }
        let kernel = &self.cluster.kernel;
        let recently = |then: Nanos| self.now.minus(then) <= self.slot.scaled(4.5);
        // The paper's allocator plans a flow at the pace of its predecessor, whatever its path has, and at first tries no more
        // than a little beyond that when it is over; with the lead heeded, so does the fill.
        let heeds = self.options.policy == PolicyName::PrimalDual || self.options.chunk_lead;
        let follows = |flow: &Flow| heeds && flow.fed.is_some_and(recently);
        let held = kernel.flows.iter().filter(|flow| !follows(flow)).find(|flow| {
            let slowest = flow.path.iter().map(|&link| kernel.cables[link].capacity).min().unwrap_or(Rate::ZERO);
            let long = flow.throttled_since.is_some_and(|since| !recently(since));
            // Above a twentieth it is a share of what others left, or its job's pace: the policy's business.
            long && flow.rate < slowest.times(0.05).0 as f64
        });
        if let Some(flow) = held {
            let brains = self.cluster.daemons.iter().filter_map(|daemon| daemon.brain.as_ref());
            let why = brains.flat_map(|brain| brain.flows()).find(|known| known.spec.flow == flow.id).map(|f| f.why);
            let rate = Rate(flow.rate as u64);
            self.blame(7, format!("{} is held to {rate} by {why:?} though its path has room", flow.id));
        }
    }

    /// Invariant 15: every host that sends for a job has heard of all others that do, whichever switches their flows cross.
    fn check_meetings(&mut self) {
        if self.options.lasting.is_some() {
            return;
        }
        let kernel = &self.cluster.kernel;
        let deaf = self.cluster.jobs.iter().filter(|job| job.running).find_map(|job| {
            let mut senders: Vec<_> =
                job.flows.iter().map(|&at| &kernel.flows[at]).filter(|flow| flow.row.is_some()).collect();
            senders.sort_unstable_by_key(|flow| flow.from);
            senders.dedup_by_key(|flow| flow.from);
            senders.iter().find_map(|flow| {
                let daemon = &self.cluster.daemons[flow.host];
                let known = daemon.brain.as_ref()?.jobs().find(|report| report.job == job.spec.job)?;
                (known.peers + 1 < senders.len()).then_some((daemon.id, known, senders.len()))
            })
        });
        if let Some((host, known, hosts)) = deaf {
            self.blame(15, format!("{host} has heard of {} of the {hosts} hosts of {}", known.peers + 1, known.job));
        }
    }

    /// How long a round of a job may take: it is promoted when it is κ(1+D)m old, and then it may have to wait for all others.
    pub fn patience(&self, job: usize) -> Nanos {
        let jobs = self.cluster.jobs.len() as f64;
        let all = self.cluster.jobs.iter().fold(Nanos::ZERO, |sum, job| sum.plus(job.least));
        let least = self.cluster.jobs[job].least;
        let patience = least.scaled(4.0 * (1.0 + jobs)).plus(all.times(3)).plus(self.slot.times(10));
        // The paper's allocator may have two jobs wait for each other at their floors for seconds where it decides at edges only,
        // or where a host that nobody hears is one of theirs.
        let lasting = self.options.lasting.is_some();
        let waits = self.options.policy == PolicyName::PrimalDual && (lasting || !self.options.events);
        patience.times(if waits { 3 } else { 1 + u64::from(lasting) })
    }

    /// Invariant 5 for `srpt-p`: the order of rounds may shift work in time, but promotion bounds by how much. A round
    /// older than κ(1+D)m goes before all younger ones; D is at most one per job.
    fn check_rounds(&mut self) {
        // To the letter nothing bounds a round's time: who came first goes first, however long that lasts.
        if self.options.policy == PolicyName::PrimalDualLiteral {
            return;
        }
        let begin = self.settled_at.unwrap_or(self.now);
        for n in 0..self.cluster.jobs.len() {
            let job = &self.cluster.jobs[n];
            let patience = self.patience(n);
            let age = self.now.minus(job.began.max(begin));
            let honest = self.options.jobs[n].claim_percent == 100;
            if job.running && honest && self.settled() && age > patience {
                return self.blame(5, format!("a round of job {n} lasts {age} already, at most {patience} is due"));
            }
        }
    }

    /// Invariant 5 for `fair`, at the end: over the measured part of the calm, every job's part of its max-min share.
    pub fn check_windows(&mut self) {
        let window = self.now.minus(self.settled_at.unwrap_or(self.now));
        if self.options.tight() {
            return;
        }
        for n in 0..self.cluster.jobs.len() {
            let job = &self.cluster.jobs[n];
            let present = if job.running { self.now.minus(job.began) } else { Nanos::ZERO };
            let long = window >= Nanos::from_millis(3000).max(job.longest.max(present).times(2));
            if job.fair > 0.0 && self.options.jobs[n].claim_percent == 100 && !job.dead && long {
                let part = job.got / job.fair;
                self.report.windows += 1;
                let least = self.report.least_part.entry(format!("{:?}", self.options.policy)).or_insert(f64::INFINITY);
                *least = least.min(part);
                if window >= Nanos::from_millis(30_000).max(job.longest.max(present).times(20)) {
                    self.report.long_windows += 1;
                    let least = self
                        .report
                        .least_long_part
                        .entry(format!("{:?}", self.options.policy))
                        .or_insert(f64::INFINITY);
                    *least = least.min(part);
                }
                // Half, less the reserve of 5 % that is left free.
                if part < 0.5 * 0.95 && self.options.policy == PolicyName::Fair && self.options.lasting.is_none() {
                    return self.blame(5, format!("job {n} got {part:.2} of its max-min share"));
                }
            }
        }
    }

    pub fn finish(&mut self) {
        for holder in 0..self.cluster.holders.len() {
            self.count_switch(holder);
        }
        let delivered: Vec<u64> = self.cluster.kernel.flows.iter().map(|flow| flow.delivered.to_bits()).collect();
        self.trace(&delivered);
        self.report.virtual_time = self.report.virtual_time.plus(self.now);
    }
}
