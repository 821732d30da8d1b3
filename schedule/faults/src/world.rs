//! The run itself: one thread, virtual time, events in order of (time, tie-break from the seed).

use std::collections::BTreeMap;

use sluice_schedule::clock::trust;
use sluice_schedule::message::Refusal;
use sluice_schedule::units::{Bytes, FlowId, Nanos, Rate};
use sluice_schedule::{Action, ClockTrust, Event, FlowProgress, Now};

use crate::checks::{Measures, Violation};
use crate::dial::Dial;
use crate::options::{Mode, Options};
use crate::plan::{Fate, Faults, draw};

use crate::queue::{Ev, Queue};
use crate::rng::Rng;
use crate::setup::{Cluster, build};
use crate::situations::Situation;
use crate::{Mutant, Outcome, Report};

/// Directions (to the holder, to the host) that are cut, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub ways: [bool; 2],
    pub since: Nanos,
}

/// One message's way: host, holder, and whether the host gets it.
pub type Way = (usize, usize, bool);

pub struct World {
    pub options: Options,
    pub mutant: Option<Mutant>,
    queue: Queue,
    pub now: Nanos,
    pub slot: Nanos,
    pub cluster: Cluster,
    pub cuts: BTreeMap<(usize, usize), Cut>,
    /// Every host's connection to every holder, host by host.
    pub dials: Vec<Dial>,
    pub calm: bool,
    /// When the calm began.
    pub calm_at: Nanos,
    /// Since when all could be as in the calm.
    pub unsettled: Nanos,
    /// The run ends then, if it has not before.
    pub last: Nanos,
    /// When the bounds of the calm began to hold.
    pub settled_at: Option<Nanos>,
    pub boots: u64,
    /// What the leaf switches that stay slow are late by.
    pub slow_leaves: BTreeMap<usize, Nanos>,
    pub measures: Measures,
    pub report: Report,
    /// The fates of messages, if they are given; otherwise they are drawn and recorded.
    given: Option<BTreeMap<(Way, u64), Fate>>,
    pub faults: Faults,
    pub sent: BTreeMap<Way, u64>,
    wrong: Option<Violation>,
}

impl World {
    /// A run under these faults, or under those that the options draw.
    pub fn new(options: Options, faults: Option<Faults>, mutant: Option<Mutant>) -> World {
        let cluster = build(&options, mutant);
        let slot = Nanos::from_millis(options.slot_ms);
        let forked: Vec<usize> = (0..cluster.specs.len()).filter(|&at| !cluster.specs[at].forks.is_empty()).collect();
        let key = |fault: &crate::plan::MessageFault| ((fault.host, fault.holder, fault.back), fault.nth);
        let given =
            faults.as_ref().map(|faults| faults.messages.iter().map(|fault| (key(fault), fault.fate)).collect());
        let timed = faults.map(|faults| faults.timed);
        let timed = timed.unwrap_or_else(|| draw(&options, cluster.holders.len(), &forked));
        let dials = (0..cluster.daemons.len() * cluster.holders.len()).map(|_| Dial::new(mutant)).collect();
        let mut world = World {
            measures: Measures::new(&options, cluster.kernel.cables.len()),
            mutant,
            queue: Queue::new(options.seed),
            now: Nanos::ZERO,
            slot,
            cluster,
            cuts: BTreeMap::new(),
            dials,
            calm: false,
            calm_at: Nanos::MAX,
            unsettled: Nanos::ZERO,
            last: Nanos::MAX,
            settled_at: None,
            boots: 1_000_000,
            slow_leaves: BTreeMap::new(),
            report: Report::default(),
            given,
            faults: Faults { timed, messages: Vec::new() },
            sent: BTreeMap::new(),
            wrong: None,
            options,
        };
        world.first_events();
        world
    }

    fn first_events(&mut self) {
        for job in 0..self.cluster.jobs.len() {
            match self.options.jobs[job].born {
                0 => self.bear(job),
                slot => self.at(self.slot.times(slot), Ev::JobBorn(job)),
            }
            let start = self.chance(&[0x10b, job as u64]).range(0, self.slot.0 * 5);
            self.at(self.slot.times(self.options.jobs[job].born).plus(Nanos(start)), Ev::RoundDue(job));
            if let Some(slot) = self.cluster.jobs[job].dies {
                self.at(self.slot.times(slot), Ev::JobDies(job));
            }
        }
        for host in 0..self.cluster.daemons.len() {
            let first = self.chance(&[0x7c, host as u64]).range(0, self.slot.0);
            self.at(Nanos(first), Ev::Tick { host, life: 0 });
            self.introduce(host);
        }
        for holder in 0..self.cluster.holders.len() {
            let life = self.cluster.holders[holder].life;
            self.at(Nanos::ZERO, Ev::HolderTick { holder, life });
        }
        self.at(Nanos::ZERO, Ev::Kernel);
        self.at(self.slot.times(self.options.fault_slots), Ev::Calm);
        for n in 0..self.faults.timed.len() {
            self.at(Nanos(self.faults.timed[n].at), Ev::Fault(n));
        }
    }

    pub fn at(&mut self, at: Nanos, event: Ev) {
        self.queue.put(at, event);
    }

    pub fn after(&mut self, delay: Nanos, event: Ev) {
        self.at(self.now.plus(delay), event);
    }

    /// The chance of one thing that happens.
    pub fn chance(&self, name: &[u64]) -> Rng {
        Rng::of(self.options.seed, name)
    }

    pub fn seen(&mut self, what: Situation) {
        self.report.seen.note(what, 1);
    }

    /// The fate of the next message on this way, if it is not the ordinary one.
    pub fn fate(&mut self, way: Way, nth: u64, rng: &mut Rng) -> Option<Fate> {
        match &self.given {
            Some(given) => given.get(&(way, nth)).copied(),
            None => {
                let fate = crate::plan::fate(&self.options, rng)?;
                let (host, holder, back) = way;
                self.faults.messages.push(crate::plan::MessageFault { host, holder, back, nth, fate });
                Some(fate)
            }
        }
    }

    /// Notes a broken invariant; the first one ends the run.
    pub fn blame(&mut self, invariant: u8, what: String) {
        if self.wrong.is_none() {
            self.wrong = Some(Violation { invariant, at: self.now, slot: self.now.0 / self.slot.0, what });
        }
    }

    pub fn run(mut self) -> Outcome {
        while let Some((at, event)) = self.queue.take() {
            if at > self.end().min(self.last) {
                break;
            }
            self.now = at;
            self.cluster.kernel.advance(self.now);
            self.happen(event);
            if self.wrong.is_some() {
                break;
            }
        }
        if self.wrong.is_none() {
            self.check_end();
        }
        self.finish();
        self.faults.messages.sort_unstable();
        Outcome { report: self.report, violation: self.wrong, faults: self.faults }
    }

    fn end(&self) -> Nanos {
        match (self.options.mode, self.settled_at) {
            (Mode::Safety, Some(settled)) => {
                settled.max(self.slot.times(self.options.fault_slots)).plus(self.slot.times(self.options.calm_slots))
            }
            (Mode::Safety, None) => self.slot.times(self.options.fault_slots).plus(self.latest_rest()),
            (Mode::Liveness, _) => self.slot.times(self.options.fault_slots).plus(self.core_time()),
        }
    }

    /// How long after the faults a cluster is at rest at the latest: clocks that were set back are waited for, and a host
    /// dials every five seconds at least.
    pub fn latest_rest(&self) -> Nanos {
        let amounts = self.options.amounts;
        let clocks = self.slot.times(2 * amounts.steps * amounts.step_tenths / 10);
        clocks.plus(Nanos::from_millis(5_500)).plus(self.slot.times(40))
    }

    fn happen(&mut self, event: Ev) {
        match event {
            Ev::Tick { host, life } if self.cluster.daemons[host].life == life => self.tick(host),
            Ev::HolderTick { holder, life } if self.cluster.holders[holder].life == life => self.holder_tick(holder),
            Ev::Tick { .. } | Ev::HolderTick { .. } => {}
            Ev::ToHolder { holder, from, announcement } => self.holder_hears(holder, from, announcement),
            Ev::ToHost { host, holder, feedback } => self.host_hears(host, holder, *feedback),
            Ev::Push(holder) => self.push(holder),
            Ev::Kernel => self.kernel_tick(),
            Ev::RoundDue(job) => self.begin_round(job),
            Ev::JobBorn(job) => self.job_comes(job),
            Ev::JobDies(job) => self.kill_job(job),
            Ev::Fault(n) => {
                let what = self.faults.timed[n].what.clone();
                if !self.calm {
                    self.break_something(what);
                }
            }
            Ev::Restart { host, older } => self.restart(host, older),
            Ev::HolderUp(holder) => self.holder_up(holder),
            Ev::Flap(host) => self.flap(host),
            Ev::FlapHolder(holder) => self.flap_holder(holder),
            Ev::ClockBehind { .. } if self.calm => {}
            Ev::ClockBehind { host, by } => {
                self.cluster.daemons[host].clock.offset -= by;
                self.share_clock(host);
            }
            Ev::ClockRight(host) if !self.calm => {
                self.cluster.daemons[host].clock.offset = 0;
                self.share_clock(host);
            }
            Ev::ClockRight(_) => {}
            Ev::Told { host, life, told } if self.cluster.daemons[host].life == life => self.hear_kernel(host, *told),
            Ev::Told { .. } => {}
            Ev::Lost { host, holder, ticket } => self.lost(host, holder, ticket),
            Ev::Dial { host, holder, ticket } => self.dial(host, holder, ticket),
            Ev::KeepAlive { host, holder } => self.keep_alive(host, holder),
            Ev::Heal { .. } if self.calm => {}
            Ev::Heal { host, holder } => drop(self.cuts.remove(&(host, holder))),
            Ev::Calm => self.become_calm(),
        }
    }

    fn tick(&mut self, host: usize) {
        let inbox = std::mem::take(&mut self.cluster.daemons[host].inbox);
        self.act(host, inbox);
        let daemon = &self.cluster.daemons[host];
        let edge = daemon.grid.until_edge(daemon.clock.wall(self.now));
        let lag = if daemon.slow.0 > self.now { daemon.slow.1 } else { Nanos::ZERO };
        let next = Nanos(self.slot.0 / 8).min(edge).max(Nanos(1000)).plus(lag);
        let life = daemon.life;
        self.after(next, Ev::Tick { host, life });
    }

    /// Something came in: at once to a daemon that is well, later to one that is not.
    pub fn wake(&mut self, host: usize, events: Vec<Event>) {
        let daemon = &mut self.cluster.daemons[host];
        if daemon.brain.is_some() && daemon.slow.0 > self.now {
            return daemon.keep(events);
        }
        self.act(host, events);
    }

    /// One wake-up of a daemon: slot edge if one passed, progress, events, one decision.
    fn act(&mut self, host: usize, events: Vec<Event>) {
        let raw = self.mutant == Some(Mutant::SlotsGoBack);
        let daemon = &mut self.cluster.daemons[host];
        if daemon.brain.is_none() {
            return;
        }
        if daemon.hangs_until > self.now {
            return daemon.keep(events);
        }
        let (now, reading) = daemon.now(self.now, raw);
        let mut all = Vec::new();
        if daemon.edge != Some(now.slot) {
            (daemon.edge, daemon.edge_at) = (Some(now.slot), self.now);
            all.push(Event::SlotEdge);
            let shown: Vec<_> = daemon.offsets.values().copied().collect();
            let trusted = trust(now, self.slot, daemon.trust, &shown).unwrap_or(ClockTrust::Untrusted);
            let before = std::mem::replace(&mut daemon.trust, trusted);
            if trusted != before {
                all.push(Event::Clock(trusted));
            }
            let trusts = trusted.is_trusted();
            if trusts != before.is_trusted() {
                // What was heard before says nothing of the slots that others are in by now.
                self.measures.heard.retain(|(hears, _), _| !trusts || *hears != host);
                self.seen(if trusts { Situation::ClockTrustedAgain } else { Situation::ClockDistrusted });
            }
            self.note_slot(host);
            self.check_questions(host);
        }
        self.report.seen.note(Situation::SlotsSkipped, u64::from(reading.skipped > 0));
        self.report.seen.note(Situation::SlotWaited, u64::from(reading.waiting > Nanos::ZERO));
        self.note_rates(host);
        all.push(self.progress(host));
        all.extend(std::mem::take(&mut self.cluster.daemons[host].inbox));
        all.extend(events);
        for event in &all {
            // Whoever is told what happened, or that his clock is right or wrong, has something to say, however late that is.
            if !matches!(event, Event::SlotEdge | Event::Progress(_) | Event::Feedback { .. } | Event::Measured { .. })
            {
                self.measures.moved = self.now;
            }
            // What a holder in another slot says of its links does not count.
            if let Event::Feedback { holder, feedback } = event
                && feedback.refused != Some(Refusal::SlotGuard)
            {
                self.note_heard(host, *holder, feedback);
            }
        }
        let mut actions = Vec::new();
        if let Some(brain) = &mut self.cluster.daemons[host].brain {
            all.into_iter().for_each(|event| brain.handle(now, event));
            brain.decide(now, &mut actions);
        }
        self.carry_out(host, now, actions);
    }

    fn progress(&self, host: usize) -> Event {
        let kernel = &self.cluster.kernel;
        let known = self.cluster.daemons[host].known.keys().filter_map(|id| kernel.find(*id));
        let own = known.filter(|&at| kernel.flows[at].open).map(|at| (at, &kernel.flows[at]));
        Event::Progress(
            own.map(|(at, flow)| FlowProgress {
                flow: flow.id,
                delivered: Bytes(flow.delivered as u64),
                rate: Rate(flow.rate as u64),
                queued: Bytes((kernel.available(at) - flow.delivered).max(0.0) as u64),
                rtt: Nanos::ZERO,
            })
            .collect(),
        )
    }

    fn carry_out(&mut self, host: usize, now: Now, actions: Vec<Action>) {
        let mut changed = false;
        for action in actions {
            match action {
                Action::Order { flow, rate, .. } => {
                    self.trace(&[1, host as u64, flow.0, rate.0]);
                    self.set_order(host, now, flow, rate);
                    changed = true;
                }
                Action::Release { flow, .. } => {
                    self.trace(&[2, host as u64, flow.0]);
                    if let Some(at) = self.owner(host, flow) {
                        self.cluster.kernel.flows[at].order = None;
                    }
                    changed = true;
                }
                Action::Routed { flow, holder, link } => self.routed(host, flow, holder, link),
                Action::Announce { holder, announcement } => {
                    let first = announcement.flows.first().map_or(0, |flow| flow.rate(0).0);
                    let (seq, slot) = (announcement.seq, u64::from(announcement.slot.0));
                    self.trace(&[3, host as u64, u64::from(holder.0), seq, slot, first]);
                    self.announce(host, now, holder, announcement);
                }
            }
        }
        if changed {
            self.check_egress(host);
            self.cluster.kernel.share();
        }
    }

    /// Who gets an order for this flow: the owner of the row that its host was told of.
    fn owner(&mut self, host: usize, flow: FlowId) -> Option<usize> {
        let place = *self.cluster.daemons[host].known.get(&flow)?;
        let rows = &self.cluster.kernel.rows[host];
        if self.mutant == Some(Mutant::GenerationNotChecked) {
            return rows.anyone(place);
        }
        let owner = rows.owner(place);
        if owner.is_none() && rows.anyone(place).is_some() {
            self.seen(Situation::OrderForRecycled);
        }
        owner
    }

    fn set_order(&mut self, host: usize, now: Now, flow: FlowId, rate: Rate) {
        let Some(at) = self.owner(host, flow) else { return };
        let expires = self.now.plus(self.slot.times(3));
        let target = &mut self.cluster.kernel.flows[at];
        let id = target.id;
        let before = target.live_order(self.now);
        if self.mutant == Some(Mutant::NotWoken) {
            let had = target.asleep.or(before);
            target.asleep = before.and(had).filter(|had| rate < *had);
        }
        target.order = Some(crate::kernel::Order { rate, expires });
        if id != flow {
            return self.blame(8, format!("host {host}'s order for {flow} reached {id}, which has its row now"));
        }
        self.check_order(host, now, at, before);
    }

    /// Adds words and the present time to the hash of the run.
    pub fn trace(&mut self, words: &[u64]) {
        for word in words.iter().chain([&self.now.0]) {
            self.report.hash = (self.report.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }
}
