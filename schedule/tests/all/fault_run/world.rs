//! The run itself: one thread, one generator, virtual time, events in order of (time, tie-break from the seed).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use sluice_schedule::clock::{ClockFacts, trust};
use sluice_schedule::message::{Announcement, Feedback};
use sluice_schedule::units::{Bytes, FlowId, HolderId, Nanos, Rate};
use sluice_schedule::{Action, ClockTrust, Event, FlowProgress, Now};

use super::checks::{Measures, Violation};
use super::options::Options;
use super::rng::Rng;
use super::setup::{Cluster, build, host_id};
use super::{Bug, Report};

/// What happens.
pub enum Ev {
    Tick { host: usize, life: u32 },
    HolderTick { holder: usize, life: u32 },
    ToHolder { holder: usize, from: usize, announcement: Box<Announcement> },
    ToHost { host: usize, holder: HolderId, feedback: Box<Feedback> },
    Push(usize),
    Kernel,
    RoundDue(usize),
    JobDies(usize),
    Crash(usize),
    Restart(usize),
    HolderDown(usize),
    HolderUp(usize),
    Link { host: usize, holder: usize, up: bool },
    StepHost { host: usize, by: i64 },
    StepHolder { holder: usize, by: i64 },
    Cut { host: usize, holder: usize, ways: [bool; 2] },
    Heal { host: usize, holder: usize },
    Calm,
    Redraw(usize),
}

struct Entry {
    at: Nanos,
    tie: u64,
    event: Ev,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.tie) == (other.at, other.tie)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.tie).cmp(&(other.at, other.tie))
    }
}

pub struct World {
    pub options: Options,
    pub bug: Option<Bug>,
    pub rng: Rng,
    queue: BinaryHeap<Reverse<Entry>>,
    pub now: Nanos,
    pub slot: Nanos,
    pub cluster: Cluster,
    /// Directions (to the holder, to the host) that are cut.
    pub cuts: BTreeMap<(usize, usize), [bool; 2]>,
    pub calm: bool,
    pub boots: u64,
    pub measures: Measures,
    pub report: Report,
    /// Earlier announcements that are added again (a mutant).
    pub piled: BTreeMap<(usize, usize), Announcement>,
    wrong: Option<Violation>,
}

impl World {
    pub fn new(options: Options, bug: Option<Bug>) -> World {
        let mut rng = Rng::new(options.seed);
        let cluster = build(&options, &mut rng, bug);
        let slot = Nanos::from_millis(options.slot_ms);
        let measures = Measures::new(&options, cluster.kernel.cables.len());
        let mut world = World {
            bug,
            rng,
            queue: BinaryHeap::new(),
            now: Nanos::ZERO,
            slot,
            cluster,
            cuts: BTreeMap::new(),
            calm: false,
            boots: 1_000_000,
            measures,
            report: Report::default(),
            piled: BTreeMap::new(),
            wrong: None,
            options,
        };
        world.first_events();
        world
    }

    fn first_events(&mut self) {
        let slots = self.options.fault_slots;
        for host in 0..self.cluster.daemons.len() {
            self.at(Nanos(self.rng.clone().next() % self.slot.0), Ev::Tick { host, life: 0 });
            self.introduce(host);
        }
        for holder in 0..self.cluster.holders.len() {
            let life = self.cluster.holders[holder].life;
            self.at(Nanos::ZERO, Ev::HolderTick { holder, life });
        }
        for job in 0..self.cluster.jobs.len() {
            let start = Nanos(self.rng.range(0, self.slot.0 * 5));
            self.at(start, Ev::RoundDue(job));
            if let Some(slot) = self.cluster.jobs[job].dies {
                self.at(self.slot.times(slot), Ev::JobDies(job));
            }
        }
        self.at(Nanos::ZERO, Ev::Kernel);
        self.at(self.slot.times(slots), Ev::Calm);
        self.plan_faults();
        self.plan_redraws();
    }

    pub fn at(&mut self, at: Nanos, event: Ev) {
        let tie = self.rng.next();
        self.queue.push(Reverse(Entry { at, tie, event }));
    }

    pub fn after(&mut self, delay: Nanos, event: Ev) {
        self.at(self.now.plus(delay), event);
    }

    /// Notes a broken invariant; the first one ends the run.
    pub fn blame(&mut self, invariant: u8, what: String) {
        if self.wrong.is_none() {
            self.wrong = Some(Violation { invariant, at: self.now, slot: self.now.0 / self.slot.0, what });
        }
    }

    pub fn run(mut self) -> Result<Report, Violation> {
        let end = self.slot.times(self.options.fault_slots + self.options.calm_slots);
        while let Some(Reverse(entry)) = self.queue.pop() {
            if entry.at > end {
                break;
            }
            self.now = entry.at;
            self.cluster.kernel.advance(self.now);
            self.happen(entry.event);
            if let Some(wrong) = self.wrong.take() {
                return Err(wrong);
            }
        }
        self.check_windows();
        match self.wrong.take() {
            Some(wrong) => Err(wrong),
            None => Ok(self.finish()),
        }
    }

    fn happen(&mut self, event: Ev) {
        match event {
            Ev::Tick { host, life } if self.cluster.daemons[host].life == life => self.tick(host),
            Ev::HolderTick { holder, life } if self.cluster.holders[holder].life == life => self.holder_tick(holder),
            Ev::Tick { .. } | Ev::HolderTick { .. } => {}
            Ev::ToHolder { holder, from, announcement } => self.holder_hears(holder, from, *announcement),
            Ev::ToHost { host, holder, feedback } => self.host_hears(host, holder, *feedback),
            Ev::Push(holder) => self.push(holder),
            Ev::Kernel => self.kernel_tick(),
            Ev::RoundDue(job) => self.begin_round(job),
            Ev::JobDies(job) => self.kill_job(job),
            Ev::Crash(host) => self.crash(host),
            Ev::Restart(host) => self.restart(host),
            Ev::HolderDown(holder) => self.holder_down(holder),
            Ev::HolderUp(holder) => self.holder_up(holder),
            Ev::Link { host, holder, up } => {
                let id = self.cluster.holders[holder].id;
                let reachable = self.cluster.holders[holder].switch.is_some();
                if up == reachable {
                    self.wake(host, vec![if up { Event::HolderBack(id) } else { Event::HolderLost(id) }]);
                }
            }
            Ev::StepHost { host, by } => {
                self.cluster.daemons[host].clock.offset += by;
                self.share_clock(host);
            }
            Ev::StepHolder { holder, by } => match self.cluster.holders[holder].within {
                Some(host) => self.happen(Ev::StepHost { host, by }),
                None => self.cluster.holders[holder].clock.offset += by,
            },
            Ev::Cut { host, holder, ways } => {
                if !self.calm {
                    self.cuts.insert((host, holder), ways);
                }
            }
            Ev::Heal { .. } if self.calm => {}
            Ev::Heal { host, holder } => drop(self.cuts.remove(&(host, holder))),
            Ev::Calm => self.become_calm(),
            Ev::Redraw(flow) => self.redraw(flow),
        }
    }

    fn share_clock(&mut self, host: usize) {
        let clock = self.cluster.daemons[host].clock;
        let inside = self.cluster.holders.iter_mut().find(|holder| holder.within == Some(host));
        inside.into_iter().for_each(|holder| holder.clock = clock);
    }

    fn become_calm(&mut self) {
        self.calm = true;
        self.cuts.clear();
        for host in 0..self.cluster.daemons.len() {
            let offset = self.rng.around(self.slot.0 / 20);
            self.cluster.daemons[host].clock.set_right(offset);
            self.share_clock(host);
            self.restart(host);
        }
        for holder in 0..self.cluster.holders.len() {
            if self.cluster.holders[holder].within.is_none() {
                let offset = self.rng.around(self.slot.0 / 20);
                self.cluster.holders[holder].clock.set_right(offset);
            }
            self.holder_up(holder);
            if let Some(lasting) = self.options.lasting {
                self.cuts.insert((lasting.host, holder), lasting.ways);
            }
        }
    }

    fn tick(&mut self, host: usize) {
        self.wake(host, Vec::new());
        let daemon = &self.cluster.daemons[host];
        let edge = daemon.grid.until_edge(daemon.clock.wall(self.now));
        let next = Nanos(self.slot.0 / 8).min(edge).max(Nanos(1000));
        let life = daemon.life;
        self.after(next, Ev::Tick { host, life });
    }

    /// What a new daemon finds on its host.
    pub fn introduce(&mut self, host: usize) {
        let mut events = Vec::new();
        for job in self.cluster.jobs.iter().filter(|job| !job.dead && job.members.contains(&host)) {
            events.push(Event::JobSeen(job.spec.clone()));
            let own = |at: &&usize| self.cluster.kernel.flows[**at].from == host_id(host);
            let flows: Vec<usize> = job.flows.iter().filter(own).copied().collect();
            events.extend(flows.iter().map(|&at| Event::FlowOpened(self.cluster.specs[at].clone())));
            if job.running {
                let demands = flows.iter().map(|&at| (self.cluster.kernel.flows[at].id, job.claim)).collect();
                events.push(Event::RoundBegan { job: job.spec.job, flows: demands });
            }
        }
        self.wake(host, events);
    }

    /// One wake-up of a daemon: slot edge if one passed, progress, events, one decision.
    pub fn wake(&mut self, host: usize, events: Vec<Event>) {
        let raw = self.bug == Some(Bug::SlotsGoBack);
        let daemon = &mut self.cluster.daemons[host];
        let now = daemon.now(self.now, raw);
        if daemon.brain.is_none() {
            return;
        }
        let mut all = Vec::new();
        if daemon.edge != Some(now.slot) {
            daemon.edge = Some(now.slot);
            all.push(Event::SlotEdge);
            let facts =
                ClockFacts { peer_offsets: daemon.offsets.values().copied().collect(), ..ClockFacts::default() };
            daemon.offsets.clear();
            let trusted = match trust(self.slot, false, &facts) {
                Ok(()) => ClockTrust::Trusted,
                Err(_) => ClockTrust::Untrusted,
            };
            if trusted != daemon.trust {
                daemon.trust = trusted;
                all.push(Event::Clock(trusted));
                *self.report.sometimes.entry("clock trust changed").or_default() += 1;
            }
            self.note_slot(host);
        }
        self.note_rates(host);
        all.push(self.progress(host));
        all.extend(events);
        if self.bug == Some(Bug::SilenceIsZero) {
            all.extend(self.imagined(host, now));
        }
        let mut actions = Vec::new();
        if let Some(brain) = &mut self.cluster.daemons[host].brain {
            all.into_iter().for_each(|event| brain.handle(now, event));
            brain.decide(now, &mut actions);
        }
        self.carry_out(host, now, actions);
    }

    fn progress(&self, host: usize) -> Event {
        let own =
            self.cluster.kernel.flows.iter().enumerate().filter(|(_, flow)| flow.open && flow.from == host_id(host));
        Event::Progress(
            own.map(|(at, flow)| FlowProgress {
                flow: flow.id,
                delivered: Bytes(flow.delivered as u64),
                rate: Rate(flow.rate as u64),
                queued: Bytes((self.cluster.kernel.available(at) - flow.delivered).max(0.0) as u64),
                rtt: Nanos::ZERO,
            })
            .collect(),
        )
    }

    fn carry_out(&mut self, host: usize, now: Now, mut actions: Vec<Action>) {
        if self.bug == Some(Bug::RaisedFirst) {
            actions.reverse();
        }
        let mut changed = false;
        for action in actions {
            match action {
                Action::Order { flow, rate, .. } => {
                    let rate = if self.bug == Some(Bug::FloorSkipped) && rate < Rate::mbps(20) {
                        rate.times(0.02)
                    } else {
                        rate
                    };
                    self.trace(&[1, host as u64, flow.0, rate.0]);
                    self.set_order(host, now, flow, rate);
                    changed = true;
                }
                Action::Release { flow, .. } => {
                    self.trace(&[2, host as u64, flow.0]);
                    if let Some(at) = self.cluster.kernel.find(flow) {
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

    fn set_order(&mut self, host: usize, now: Now, flow: FlowId, rate: Rate) {
        let Some(at) = self.cluster.kernel.find(flow) else { return };
        let expires = self.now.plus(self.slot.times(3));
        if self.cluster.kernel.flows[at].open {
            let before = self.cluster.kernel.flows[at].live_order(self.now);
            self.cluster.kernel.flows[at].order = Some(super::kernel::Order { rate, expires });
            self.check_order(host, now, at, before);
        }
    }

    /// Adds words and the present time to the hash of the run.
    pub fn trace(&mut self, words: &[u64]) {
        for word in words.iter().chain([&self.now.0]) {
            self.report.hash = (self.report.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }
}
