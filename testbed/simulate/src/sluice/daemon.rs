//! One simulated daemon: the very brain, fed in the order in which the daemon's loop feeds it.
//!
//! A turn takes in what holders said, the slot edge, what happened to jobs and flows here, how far flows are, what the
//! interface counters show; then decides. When it turns is the caller's business, which follows [`Daemon::next_look`].

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_schedule::clock::{Shown, trust};
use sluice_schedule::host::{Host, HostConfig};
use sluice_schedule::{
    Action, BootId, Bytes, ClockTrust, Event, Feedback, FlowProgress, HolderId, Nanos, Now, Rate, Slot,
};
use sluice_wire::record::Recorder;

use super::clock::Clock;
use super::fabric::flow_id;
use super::traffic::Traffic;
use crate::world::{FlowIx, FlowPhase, JobIx, World};

/// While flows have demand, a daemon looks this often if nothing else wakes it. The daemon's loop looks every 5 ms at
/// best and takes progress alone for a reason to decide when 7 ms have passed, so every second look decides. Flow ends,
/// round starts and holders' news wake it at once, as the kernel's events and the exchange do there.
pub(super) const LOOK: Nanos = Nanos::from_millis(10);
/// What holders say waits so long after a turn, so that the news of many is taken in at once; the daemon's
/// loop waits 2 to 5 ms, as its turns cost.
pub(super) const GATHER: Nanos = Nanos(2_500_000);

/// A brain, and perhaps a record of what it is told and says.
#[derive(Debug)]
pub(super) struct Brain {
    host: Host,
    recorder: Option<Recorder>,
}

impl Brain {
    /// A brain that knows nothing yet.
    pub fn new(config: HostConfig, mut recorder: Option<Recorder>) -> Brain {
        if let Some(recorder) = &mut recorder {
            recorder.start(&config);
        }
        Brain { host: Host::new(config), recorder }
    }

    /// Takes one event in.
    pub fn handle(&mut self, now: Now, event: Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, &event);
        }
        self.host.handle(now, event);
    }

    /// Decides; `actions` must be empty. Returns the seconds it took.
    fn decide(&mut self, now: Now, actions: &mut Vec<Action>) -> f64 {
        let began = Instant::now();
        self.host.decide(now, actions);
        let took = began.elapsed().as_secs_f64();
        if let Some(recorder) = &mut self.recorder {
            recorder.decision(now, actions);
        }
        took
    }

    /// What it is, to look at.
    pub fn host(&self) -> &Host {
        &self.host
    }
}

/// A host's daemon and what it sees of its host.
#[derive(Debug)]
pub(super) struct Daemon {
    config: HostConfig,
    node: usize,
    brain: Option<Brain>,
    boots: u64,
    edge: Option<Slot>,
    offsets: BTreeMap<HolderId, Shown>,
    trust: ClockTrust,
    heard: Vec<Event>,
    news: Vec<Event>,
    /// The clock of its host.
    pub clock: Clock,
    /// Counts the processes, so that messages to an earlier one are lost.
    pub life: u64,
    /// False from the daemon's death to its return.
    pub runs: bool,
    /// It stands still: nothing is taken in and nothing decided.
    pub stands: bool,
    /// Jobs with flows on this host, in order of their starts.
    pub jobs: Vec<JobIx>,
    /// Flows of those jobs that this host sends.
    pub own: Vec<FlowIx>,
    /// Those of them that had demand at the last look.
    sending: Vec<FlowIx>,
    /// What its interfaces carry; only kept where there is unmanaged traffic.
    pub traffic: Option<Traffic>,
    pub turned: Option<Nanos>,
    /// The latest timer; older ones are void.
    pub stamp: u64,
    pub look_at: Option<Nanos>,
    /// Takes down what the brain is told and says.
    pub recorder: Option<Recorder>,
}

impl Daemon {
    /// A daemon on an idle host.
    pub fn new(node: usize, config: HostConfig, clock: Clock, traffic: Option<Traffic>) -> Daemon {
        Daemon {
            config,
            node,
            brain: None,
            boots: 0,
            edge: None,
            offsets: BTreeMap::new(),
            trust: ClockTrust::Trusted,
            heard: Vec::new(),
            news: Vec::new(),
            clock,
            life: 0,
            runs: true,
            stands: false,
            jobs: Vec::new(),
            own: Vec::new(),
            sending: Vec::new(),
            traffic,
            turned: None,
            stamp: 0,
            look_at: None,
            recorder: None,
        }
    }

    /// Is there anything to turn for?
    pub fn awake(&self) -> bool {
        self.runs && !self.jobs.is_empty()
    }

    /// The brain, if the daemon runs and ever had something to do.
    pub fn brain(&self) -> Option<&Host> {
        self.brain.as_ref().map(Brain::host)
    }

    /// The process is gone, with everything it knew.
    pub fn stop(&mut self) {
        self.recorder = self.brain.take().and_then(|brain| brain.recorder);
        self.runs = false;
        self.life += 1;
        self.stamp += 1;
        self.look_at = None;
        self.heard.clear();
        self.news.clear();
        self.offsets.clear();
        self.trust = ClockTrust::Trusted;
        self.sending.clear();
        self.edge = None;
    }

    /// A new process; it learns its jobs from the caller.
    pub fn start(&mut self) {
        self.runs = true;
        self.clock = self.clock.restarted();
    }

    /// Something happened to jobs or flows here.
    pub fn note(&mut self, event: Event) {
        if self.runs {
            self.news.push(event);
        }
    }

    pub fn demands(&mut self, flow: FlowIx) {
        if !self.sending.contains(&flow) {
            self.sending.push(flow);
        }
    }

    /// Forgets the flows and the name of a job.
    pub fn forget(&mut self, job: JobIx, gone: impl Fn(&FlowIx) -> bool) {
        self.jobs.retain(|known| *known != job);
        self.own.retain(|flow| !gone(flow));
        self.sending.retain(|flow| !gone(flow));
    }

    /// A connection broke or stands.
    pub fn link(&mut self, holder: HolderId, up: bool) {
        if !self.runs {
            return;
        }
        if !up {
            self.offsets.remove(&holder);
        }
        self.heard.push(if up { Event::HolderBack(holder) } else { Event::HolderLost(holder) });
    }

    /// Feedback arrived. With `at_once` the brain hears it now, else at the next turn.
    pub fn hear(&mut self, at: Nanos, holder: HolderId, feedback: Feedback, at_once: bool) {
        let Some(brain) = &mut self.brain else { return };
        let now = self.clock.now(at);
        // The table that it keeps itself shows it its own clock.
        if holder != self.config.host.holder() {
            let offset = feedback.slot.since(now.slot);
            self.offsets.insert(holder, Shown { offset, at: now.mono, slot: now.slot });
        }
        let event = Event::Feedback { holder, feedback };
        if at_once && !self.stands {
            return brain.handle(now, event);
        }
        // What waits to be taken in is replaced by what the same holder says now, as in the queue of a real stream.
        let waiting = self.heard.iter_mut().rev().take_while(|heard| matches!(heard, Event::Feedback { .. }));
        let mut same = waiting.filter(|heard| matches!(heard, Event::Feedback { holder: by, .. } if *by == holder));
        match same.next() {
            Some(older) => *older = event,
            None => self.heard.push(event),
        }
    }

    /// One turn of the loop; `actions` must be empty. Returns the seconds the decision took; `None` if nobody is there.
    pub fn turn(&mut self, at: Nanos, world: &World<'_>, actions: &mut Vec<Action>) -> Option<f64> {
        if !self.runs || self.stands {
            return None;
        }
        if self.brain.is_none() {
            self.boots += 1;
            let boot = BootId((self.node as u64 + 1) << 20 | self.boots);
            self.brain = Some(Brain::new(HostConfig { boot, ..self.config.clone() }, self.recorder.take()));
        }
        // What was heard between two looks of a slot mode is worked off later, when the world has gone on.
        let sees = at == world.now;
        let progress = if sees { self.progress(world) } else { Vec::new() };
        let brain = self.brain.as_mut()?;
        let now = self.clock.now(at);
        self.heard.drain(..).for_each(|event| brain.handle(now, event));
        let edge = self.edge != Some(now.slot);
        if edge {
            self.edge = Some(now.slot);
            let shown: Vec<Shown> = self.offsets.values().copied().collect();
            self.trust = trust(now, self.config.slot, self.trust, &shown).unwrap_or(ClockTrust::Untrusted);
            brain.handle(now, Event::Clock(self.trust));
            brain.handle(now, Event::SlotEdge);
        }
        self.news.drain(..).for_each(|event| brain.handle(now, event));
        if !progress.is_empty() {
            brain.handle(now, Event::Progress(progress));
        }
        if edge
            && sees
            && let Some(traffic) = &mut self.traffic
        {
            traffic.measure(at, world).into_iter().for_each(|event| brain.handle(now, event));
        }
        self.turned = Some(at);
        Some(brain.decide(now, actions))
    }

    /// Tells the brain something in the middle of carrying its actions out: the answer of its own table.
    pub fn answer(&mut self, at: Nanos, event: Event) {
        let now = self.clock.now(at);
        if let Some(brain) = &mut self.brain {
            brain.handle(now, event);
        }
    }

    /// How far the flows are that had something to send when last looked at.
    fn progress(&mut self, world: &World<'_>) -> Vec<FlowProgress> {
        let node = self.node;
        let mut all = Vec::with_capacity(self.sending.len());
        self.sending.retain(|&flow| {
            let Some(state) = world.flows.get(flow.0) else { return false };
            let done = matches!(state.phase, FlowPhase::Done | FlowPhase::Idle);
            let delivered = if done { state.bytes } else { world.sent(flow) };
            all.push(FlowProgress {
                flow: flow_id(node, flow),
                delivered: Bytes(delivered as u64),
                rate: Rate(if done { 0 } else { (world.rate(flow) * 8.0) as u64 }),
                queued: Bytes(if done { 0 } else { (state.bytes - delivered).max(0.0) as u64 }),
                rtt: Nanos::ZERO,
            });
            !done
        });
        all
    }

    /// When the loop turns next after a turn at `at` if nothing wakes it, as the daemon's does.
    pub fn next_look(&mut self, at: Nanos) -> Nanos {
        let now = self.clock.now(at);
        let mut sleep = self.clock.until_edge(now);
        if now.into_slot < self.config.phase {
            sleep = sleep.min(self.config.phase.minus(now.into_slot));
        }
        if self.brain().is_some_and(Host::busy) {
            sleep = sleep.min(LOOK);
        }
        if let Some(due) = self.brain().and_then(|brain| brain.due_in(now)) {
            sleep = sleep.min(due);
        }
        at.plus(sleep.max(Nanos(100_000)))
    }
}
