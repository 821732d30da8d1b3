//! Births and deaths in a run: rounds, jobs, connections, daemons, holders.

use sluice_schedule::Event;
use sluice_schedule::coast::{self, Coasting};
use sluice_schedule::units::{BootId, FlowId, Nanos, Rate};

use crate::Mutant;
use crate::kernel::Order;
use crate::queue::Ev;
use crate::rows::Place;
use crate::situations::Situation;
use crate::world::World;

/// What the kernel says of a host's connections, and what its daemon makes of it.
#[derive(Debug, Default)]
pub struct Told {
    closed: Vec<FlowId>,
    opened: Vec<(FlowId, Place)>,
    events: Vec<Event>,
}

/// So long the kernel's word usually takes.
const WORD: Nanos = Nanos(50_000);

impl World {
    fn own_flows(&self, host: usize, job: usize) -> Vec<usize> {
        let flows = &self.cluster.kernel.flows;
        self.cluster.jobs[job].flows.iter().copied().filter(|&at| flows[at].host == host).collect()
    }

    /// Demands of a job's flows that a host knows.
    fn demands(&self, host: usize, job: usize) -> Vec<(FlowId, sluice_schedule::Bytes)> {
        let claim = self.cluster.jobs[job].claim;
        let ids = self.own_flows(host, job).into_iter().map(|at| self.cluster.kernel.flows[at].id);
        ids.filter(|id| self.cluster.daemons[host].known.contains_key(id)).map(|id| (id, claim)).collect()
    }

    /// Opens a job's connections.
    pub fn bear(&mut self, job: usize) {
        self.cluster.jobs[job].born = true;
        for at in self.cluster.jobs[job].flows.clone() {
            self.open(at);
        }
    }

    fn open(&mut self, at: usize) {
        self.cluster.kernel.open(at);
        let flow = &self.cluster.kernel.flows[at];
        let recycled = flow.row.map(|place| self.cluster.kernel.rows[flow.host].is_recycled(place));
        match recycled {
            None => self.seen(Situation::TableFull),
            Some(true) => self.seen(Situation::RowRecycled),
            Some(false) => {}
        }
    }

    /// A job comes while others run.
    pub fn job_comes(&mut self, job: usize) {
        if self.cluster.jobs[job].dead {
            return;
        }
        self.bear(job);
        self.seen(Situation::JobBorn);
        for host in self.cluster.jobs[job].members.clone() {
            let mut told =
                Told { events: vec![Event::JobSeen(self.cluster.jobs[job].spec.clone())], ..Told::default() };
            for at in self.own_flows(host, job) {
                self.say_opened(at, &mut told);
            }
            self.tell(host, told);
        }
    }

    fn say_opened(&self, at: usize, told: &mut Told) {
        let flow = &self.cluster.kernel.flows[at];
        if let Some(place) = flow.row {
            told.opened.push((flow.id, place));
            told.events.push(Event::FlowOpened(self.cluster.specs[at].clone()));
        }
    }

    /// The kernel's word to a daemon: in order, and now and then late.
    fn tell(&mut self, host: usize, told: Told) {
        let daemon = &mut self.cluster.daemons[host];
        let late = std::mem::take(&mut daemon.late_event);
        daemon.told = daemon.told.plus(Nanos(1)).max(self.now.plus(WORD).plus(late));
        let (at, life) = (daemon.told, daemon.life);
        if late > Nanos::ZERO && !told.closed.is_empty() {
            self.seen(Situation::SocketEventLate);
        }
        self.at(at, Ev::Told { host, life, told: Box::new(told) });
    }

    pub fn hear_kernel(&mut self, host: usize, told: Told) {
        let daemon = &mut self.cluster.daemons[host];
        if daemon.brain.is_none() {
            return;
        }
        if daemon.hangs_until > self.now {
            let (then, life) = (daemon.hangs_until.max(daemon.waited.plus(Nanos(1))), daemon.life);
            (daemon.waited, daemon.told) = (then, daemon.told.max(then));
            return self.at(then, Ev::Told { host, life, told: Box::new(told) });
        }
        daemon.known.retain(|id, _| !told.closed.contains(id));
        let mut events = told.events;
        let jobs = self.cluster.jobs.iter().filter(|job| job.running);
        let demand = |id: FlowId| {
            let at = self.cluster.kernel.by_id.get(&id)?;
            jobs.clone().find(|job| job.flows.contains(at)).map(|job| job.claim)
        };
        let demands = told.opened.iter().filter_map(|(flow, _)| Some((*flow, demand(*flow)?)));
        events.extend(demands.map(|(flow, demand)| Event::DemandChanged { flow, demand }));
        daemon.known.extend(told.opened);
        self.wake(host, events);
    }

    /// All of a host's flows connect anew, so that their rows change hands.
    pub fn reconnect(&mut self, host: usize, turn: usize) {
        let open = |at: &usize| self.cluster.kernel.flows[*at].open && self.cluster.kernel.flows[*at].host == host;
        let mut flows: Vec<usize> = (0..self.cluster.kernel.flows.len()).filter(open).collect();
        if flows.is_empty() {
            return;
        }
        let mut told = Told::default();
        for &at in &flows {
            self.cluster.kernel.close(at);
            let id = self.cluster.kernel.flows[at].id;
            told.closed.push(id);
            told.events.push(Event::FlowClosed(id));
        }
        let turn = turn % flows.len();
        flows.rotate_left(turn);
        for &at in &flows {
            self.open(at);
            self.say_opened(at, &mut told);
        }
        self.seen(Situation::FlowsReconnected);
        self.cluster.kernel.share();
        self.tell(host, told);
    }

    pub fn begin_round(&mut self, job: usize) {
        let seed = self.options.seed;
        let facts = &mut self.cluster.jobs[job];
        if facts.dead || facts.running || !facts.born {
            return;
        }
        facts.running = true;
        facts.rounds += 1;
        facts.began = self.now;
        facts.size_round(&mut crate::rng::Rng::of(seed, &[0x512e, job as u64, facts.rounds]));
        let (bytes, short) = (facts.round_bytes, facts.round_bytes < facts.bytes / 2.0);
        let members = facts.members.clone();
        let id = facts.spec.job;
        let claimed = facts.claim.0 as f64 / bytes.max(1.0);
        for &at in &facts.flows {
            let flow = &mut self.cluster.kernel.flows[at];
            (flow.demand, flow.delivered, flow.granted) = (bytes, 0.0, 0.0);
        }
        self.report.rounds += 1;
        self.report.seen.note(Situation::ShortRound, u64::from(short));
        self.report.seen.note(Situation::ClaimTooLarge, u64::from(claimed > 1.5));
        self.report.seen.note(Situation::ClaimTooSmall, u64::from(claimed < 0.75));
        for host in members {
            if self.cluster.daemons[host].brain.is_none() {
                self.seen(Situation::RoundBeganUnseen);
            }
            let flows = self.demands(host, job);
            self.wake(host, vec![Event::RoundBegan { job: id, flows }]);
        }
        self.cluster.kernel.share();
    }

    /// Ends the rounds that are through.
    pub fn end_rounds(&mut self) {
        for job in 0..self.cluster.jobs.len() {
            let facts = &self.cluster.jobs[job];
            if !facts.running || facts.dead || facts.flows.iter().any(|&at| self.cluster.kernel.flows[at].has_demand())
            {
                continue;
            }
            let part = self.chance(&[0xc0, job as u64, facts.rounds]).range(0, 1000) as f64 / 1000.0;
            let compute = facts.compute.scaled(0.8 + 0.4 * part);
            let unseen = facts.members.iter().any(|&host| self.cluster.daemons[host].brain.is_none());
            let facts = &mut self.cluster.jobs[job];
            facts.running = false;
            facts.finished += 1;
            facts.finished_healed += u64::from(facts.began >= self.calm_at);
            facts.longest = facts.longest.max(self.now.minus(facts.began));
            self.after(compute, Ev::RoundDue(job));
            if unseen {
                self.seen(Situation::RoundEndedUnseen);
            }
        }
    }

    pub fn kill_job(&mut self, job: usize) {
        let facts = &mut self.cluster.jobs[job];
        let running = std::mem::replace(&mut facts.running, false);
        facts.dead = true;
        let (id, members) = (facts.spec.job, facts.members.clone());
        self.seen(if running { Situation::JobDiedInRound } else { Situation::JobDied });
        for host in members {
            let mut told = Told::default();
            for at in self.own_flows(host, job) {
                self.cluster.kernel.close(at);
                let flow = self.cluster.kernel.flows[at].id;
                told.closed.push(flow);
                told.events.push(Event::FlowClosed(flow));
            }
            told.events.push(Event::JobGone(id));
            if self.chance(&[0xdead, job as u64, host as u64]).chance(50) {
                told.events.reverse();
            }
            self.tell(host, told);
        }
    }

    /// What a new daemon finds on its host.
    pub fn introduce(&mut self, host: usize) {
        let before = std::mem::take(&mut self.cluster.daemons[host].known);
        let mut told = Told::default();
        for job in self.cluster.jobs.iter().filter(|job| job.born && !job.dead && job.members.contains(&host)) {
            told.events.push(Event::JobSeen(job.spec.clone()));
            let own = |at: &usize| self.cluster.kernel.flows[*at].host == host;
            job.flows.iter().copied().filter(own).for_each(|at| self.say_opened(at, &mut told));
        }
        let live = |at: usize| self.cluster.kernel.flows[at].live_order(self.now).is_some();
        let adopted = told.opened.iter().any(|(id, _)| self.cluster.kernel.find(*id).is_some_and(live));
        let gone = before.keys().any(|id| told.opened.iter().all(|(flow, _)| flow != id));
        self.report.seen.note(Situation::AdoptedLiveOrder, u64::from(adopted));
        self.report.seen.note(Situation::OwnerDiedMeanwhile, u64::from(gone));
        self.cluster.daemons[host].known = told.opened.iter().copied().collect();
        let mut events = told.events;
        for job in 0..self.cluster.jobs.len() {
            let facts = &self.cluster.jobs[job];
            if facts.running && facts.members.contains(&host) {
                events.push(Event::RoundBegan { job: facts.spec.job, flows: self.demands(host, job) });
            }
        }
        self.wake(host, events);
    }

    pub fn crash(&mut self, host: usize) {
        if self.cluster.daemons[host].brain.is_none() {
            return;
        }
        let sends = (0..self.cluster.kernel.flows.len())
            .any(|at| self.cluster.kernel.flows[at].host == host && self.cluster.kernel.sending(at));
        self.seen(if sends { Situation::DaemonCrashedInRound } else { Situation::DaemonCrashed });
        self.end_daemon(host, false);
    }

    /// A daemon ends in order: it writes the last orders, which live as long as they may.
    pub fn stop(&mut self, host: usize) {
        let Some(brain) = &self.cluster.daemons[host].brain else { return };
        let known = &self.cluster.daemons[host].known;
        let rows = &self.cluster.kernel.rows[host];
        let owner = |id: &FlowId| known.get(id).and_then(|place| rows.owner(*place));
        let managed = brain.flows().filter_map(|flow| Some((owner(&flow.spec.flow)?, flow.order)));
        let (flows, orders): (Vec<usize>, Vec<Rate>) = managed.unzip();
        let coasting: Vec<Coasting> = orders.iter().map(|&order| Coasting { link: 0, order }).collect();
        let egress = Rate::mbps(self.options.capacity_mbps);
        let rates = coast::rates(&coasting, &[egress]);
        let sum = rates.iter().fold(Rate::ZERO, |sum, rate| sum.plus(*rate));
        let lasts = Nanos::from_millis(self.options.coast_ms);
        let lasts = if self.mutant == Some(Mutant::GraceWithoutEnd) { lasts.times(1000) } else { lasts };
        let expires = self.now.plus(lasts);
        let fitted = orders.iter().fold(Rate::ZERO, |sum, order| sum.plus(*order)) <= egress;
        for (&at, rate) in flows.iter().zip(rates) {
            self.cluster.kernel.flows[at].order = Some(Order { rate, expires });
        }
        self.seen(Situation::DaemonStopped);
        if fitted && sum > egress.times(1.000_001).plus(Rate(flows.len() as u64)) {
            self.blame(1, format!("the last orders of host {host} come to {sum} on its own {egress}"));
        }
        self.end_daemon(host, true);
        self.cluster.kernel.share();
    }

    fn end_daemon(&mut self, host: usize, in_order: bool) {
        self.cluster.daemons[host].kill(self.now, in_order);
        if let Some(holder) = self.cluster.holders.iter().position(|holder| holder.within == Some(host)) {
            self.holder_down(holder);
        }
    }

    pub fn hang(&mut self, host: usize, time: Nanos) {
        if self.cluster.daemons[host].brain.is_none() {
            return;
        }
        let daemon = &mut self.cluster.daemons[host];
        daemon.hangs_until = daemon.hangs_until.max(self.now.plus(time));
        self.seen(if time > self.slot.times(3) { Situation::HungPastLease } else { Situation::DaemonHung });
    }

    pub fn restart(&mut self, host: usize, older: bool) {
        if self.cluster.daemons[host].brain.is_some() || self.stays_down(host) {
            return;
        }
        let in_order = self.cluster.daemons[host].died.is_some_and(|death| death.in_order);
        let lives =
            self.cluster.kernel.flows.iter().any(|flow| flow.host == host && flow.live_order(self.now).is_some());
        if in_order {
            self.seen(if lives { Situation::BackInsideGrace } else { Situation::GraceRanOut });
        }
        if older {
            self.seen(Situation::OtherVersion);
        }
        self.boots += 1;
        let known = std::mem::take(&mut self.cluster.daemons[host].known);
        self.cluster.daemons[host].start(self.now, BootId(self.boots), older);
        self.cluster.daemons[host].known = known;
        self.note_restarted(host);
        if let Some(holder) = self.cluster.holders.iter().position(|holder| holder.within == Some(host)) {
            self.holder_up(holder);
        }
        let life = self.cluster.daemons[host].life;
        self.after(Nanos(1000), Ev::Tick { host, life });
        self.dial_all(host);
        self.introduce(host);
    }

    pub fn holder_down(&mut self, holder: usize) {
        let within = self.cluster.holders[holder].within;
        let inside_living = within.is_some_and(|host| self.cluster.daemons[host].brain.is_some());
        if inside_living || self.cluster.holders[holder].switch.is_none() {
            return;
        }
        self.count_switch(holder);
        self.cluster.holders[holder].kill();
        self.seen(Situation::HolderDied);
        for host in 0..self.cluster.daemons.len() {
            let delay = self.chance(&[0x2e5, host as u64, holder as u64, self.now.0]).range(150_000, 400_000);
            self.disconnect(host, holder, Nanos(delay));
        }
    }

    pub fn holder_up(&mut self, holder: usize) {
        let within = self.cluster.holders[holder].within;
        let inside_dead = within.is_some_and(|host| self.cluster.daemons[host].brain.is_none());
        if inside_dead || self.cluster.holders[holder].switch.is_some() || self.leaf_stays_down(holder) {
            return;
        }
        self.cluster.holders[holder].start(self.now);
        let life = self.cluster.holders[holder].life;
        self.after(Nanos(1000), Ev::HolderTick { holder, life });
    }

    /// Adds what a holder that is going away has counted to the list of things that happened.
    pub fn count_switch(&mut self, holder: usize) {
        let Some(switch) = &self.cluster.holders[holder].switch else { return };
        let counters = switch.counters();
        for (what, count) in [
            (Situation::Repeated, counters.duplicates),
            (Situation::TooLate, counters.old),
            (Situation::GuardRefused, counters.guard_rejects),
            (Situation::LeaseEnded, counters.expirations),
            (Situation::BackInsideLease, counters.restarts),
            (Situation::QuotaRefused, counters.quota_refusals),
            (Situation::Clipped, counters.clipped),
            (Situation::StatusLeftOut, counters.statuses_left_out),
        ] {
            self.report.seen.note(what, count);
        }
    }
}
