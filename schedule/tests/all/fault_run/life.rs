//! Births and deaths in a run: rounds, jobs, daemons, holders, and when which fault happens.

use sluice_schedule::Event;
use sluice_schedule::units::{BootId, Nanos};

use super::rng::Rng;
use super::setup::host_id;
use super::world::{Ev, World};

impl World {
    /// Draws when which fault happens; all of them end before the calm begins.
    pub fn plan_faults(&mut self) {
        let faults = self.options.faults.clone();
        let (slots, hosts, holders) =
            (self.options.fault_slots, self.cluster.daemons.len() as u64, self.cluster.holders.len() as u64);
        let slot = self.slot.0;
        let moment = |rng: &mut Rng| Nanos(rng.range(0, slots * slot));
        for _ in 0..faults.crashes {
            let (host, at) = (self.rng.range(0, hosts) as usize, moment(&mut self.rng));
            let down = Nanos(self.rng.range(self.slot.0 / 4, self.slot.0 * 8));
            self.at(at, Ev::Crash(host));
            self.at(at.plus(down), Ev::Restart(host));
        }
        for _ in 0..faults.holder_restarts {
            let (holder, at) = (self.rng.range(0, holders) as usize, moment(&mut self.rng));
            let down = Nanos(self.rng.range(self.slot.0, self.slot.0 * 6));
            self.at(at, Ev::HolderDown(holder));
            self.at(at.plus(down), Ev::HolderUp(holder));
        }
        for _ in 0..faults.steps {
            let at = moment(&mut self.rng);
            let by = self.rng.around(self.slot.0 * faults.step_tenths / 10);
            let event = if self.rng.chance(60) {
                Ev::StepHost { host: self.rng.range(0, hosts) as usize, by }
            } else {
                Ev::StepHolder { holder: self.rng.range(0, holders) as usize, by }
            };
            self.at(at, event);
        }
        for _ in 0..faults.cuts {
            let (host, holder) = (self.rng.range(0, hosts) as usize, self.rng.range(0, holders) as usize);
            let at = moment(&mut self.rng);
            let ways = *self.rng.pick(&[[true, true], [true, false], [false, true]]);
            self.at(at, Ev::Cut { host, holder, ways });
            let cut = self.slot.times(self.rng.range(1, 20));
            self.at(at.plus(cut), Ev::Heal { host, holder });
        }
    }

    pub fn begin_round(&mut self, job: usize) {
        let facts = &mut self.cluster.jobs[job];
        if facts.dead || facts.running {
            return;
        }
        facts.running = true;
        facts.rounds += 1;
        facts.began = self.now;
        for &at in &facts.flows {
            let flow = &mut self.cluster.kernel.flows[at];
            (flow.demand, flow.delivered) = (facts.bytes, 0.0);
        }
        self.report.rounds += 1;
        let (id, claim, members) = (facts.spec.job, facts.claim, facts.members.clone());
        let flows = facts.flows.clone();
        for host in members {
            let own = flows.iter().map(|&at| &self.cluster.kernel.flows[at]).filter(|flow| flow.from == host_id(host));
            let demands = own.map(|flow| (flow.id, claim)).collect();
            self.wake(host, vec![Event::RoundBegan { job: id, flows: demands }]);
        }
        self.cluster.kernel.share();
    }

    /// Ends the rounds that are through.
    pub fn end_rounds(&mut self) {
        for job in 0..self.cluster.jobs.len() {
            let facts = &self.cluster.jobs[job];
            let open = facts.flows.iter().any(|&at| self.cluster.kernel.flows[at].has_demand());
            if facts.running && !facts.dead && !open {
                let compute = facts.compute.scaled(0.8 + 0.4 * (self.rng.range(0, 1000) as f64 / 1000.0));
                let facts = &mut self.cluster.jobs[job];
                facts.running = false;
                facts.longest = facts.longest.max(self.now.minus(facts.began));
                self.after(compute, Ev::RoundDue(job));
            }
        }
    }

    pub fn kill_job(&mut self, job: usize) {
        let facts = &mut self.cluster.jobs[job];
        (facts.dead, facts.running) = (true, false);
        let (id, members, flows) = (facts.spec.job, facts.members.clone(), facts.flows.clone());
        for &at in &flows {
            self.cluster.kernel.flows[at].open = false;
            self.cluster.kernel.flows[at].order = None;
        }
        for host in members {
            let own = flows.iter().map(|&at| &self.cluster.kernel.flows[at]).filter(|flow| flow.from == host_id(host));
            let mut events: Vec<Event> = own.map(|flow| Event::FlowClosed(flow.id)).collect();
            events.push(Event::JobGone(id));
            if self.rng.chance(50) {
                events.reverse();
            }
            self.wake(host, events);
        }
        self.seen("a job died");
    }

    pub fn crash(&mut self, host: usize) {
        if self.calm || self.cluster.daemons[host].brain.is_none() {
            return;
        }
        self.cluster.daemons[host].kill(self.now);
        self.seen("a daemon died");
        if let Some(holder) = self.cluster.holders.iter().position(|holder| holder.within == Some(host)) {
            self.holder_down(holder);
        }
    }

    pub fn restart(&mut self, host: usize) {
        if self.cluster.daemons[host].brain.is_some() {
            return;
        }
        self.boots += 1;
        self.cluster.daemons[host].start(self.now, BootId(self.boots));
        self.measures.heard.retain(|(at, _), _| *at != host);
        if let Some(holder) = self.cluster.holders.iter().position(|holder| holder.within == Some(host)) {
            self.holder_up(holder);
        }
        let life = self.cluster.daemons[host].life;
        self.after(Nanos(1000), Ev::Tick { host, life });
        self.introduce(host);
    }

    pub fn holder_down(&mut self, holder: usize) {
        let within = self.cluster.holders[holder].within;
        let inside_living = within.is_some_and(|host| self.cluster.daemons[host].brain.is_some());
        if self.calm || inside_living || self.cluster.holders[holder].switch.is_none() {
            return;
        }
        self.count_switch(holder);
        self.cluster.holders[holder].kill();
        self.seen("a holder died");
        for host in 0..self.cluster.daemons.len() {
            let delay = Nanos(self.rng.range(0, self.slot.0));
            self.after(delay, Ev::Link { host, holder, up: false });
        }
    }

    pub fn holder_up(&mut self, holder: usize) {
        let within = self.cluster.holders[holder].within;
        let inside_dead = within.is_some_and(|host| self.cluster.daemons[host].brain.is_none());
        if inside_dead || self.cluster.holders[holder].switch.is_some() {
            return;
        }
        self.cluster.holders[holder].start(self.now);
        let life = self.cluster.holders[holder].life;
        self.after(Nanos(1000), Ev::HolderTick { holder, life });
        for host in 0..self.cluster.daemons.len() {
            let delay = Nanos(self.rng.range(0, self.slot.0 * 2));
            self.after(delay, Ev::Link { host, holder, up: true });
        }
    }

    /// Adds what a holder that is going away has counted to the list of things that happened.
    pub fn count_switch(&mut self, holder: usize) {
        if let Some(switch) = &self.cluster.holders[holder].switch {
            let counters = switch.counters();
            for (what, count) in [
                ("an announcement was repeated", counters.duplicates),
                ("an announcement came too late", counters.old),
                ("the slot guard refused", counters.guard_rejects),
                ("a lease ended", counters.expirations),
                ("a host came back inside its lease", counters.restarts),
            ] {
                *self.report.sometimes.entry(what).or_default() += count;
            }
        }
    }

    pub fn seen(&mut self, what: &'static str) {
        *self.report.sometimes.entry(what).or_default() += 1;
    }
}
