//! The actors around the brains: clocks that go wrong, daemon processes, holder processes.

use std::collections::{BTreeMap, VecDeque};

use sluice_schedule::clock::{self, Reading, Shown, SlotClock};
use sluice_schedule::host::{Host, HostConfig};
use sluice_schedule::message::{Announcement, Feedback};
use sluice_schedule::mutant::Mutant as InBrain;
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, FlowId, HolderId, HostId, Nanos, Rate, Slot};
use sluice_schedule::{ClockTrust, Event, Now};

use crate::rows::Place;

/// A machine's wall clock against true time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub base: Nanos,
    pub offset: i64,
    pub drift_ppm: i64,
}

impl Clock {
    pub fn wall(&self, now: Nanos) -> Nanos {
        let drift = i128::from(now.0) * i128::from(self.drift_ppm) / 1_000_000;
        Nanos((i128::from(self.base.0) + i128::from(now.0) + i128::from(self.offset) + drift) as u64)
    }
    /// Back to good time, but for a small error.
    pub fn set_right(&mut self, offset: i64) {
        (self.offset, self.drift_ppm) = (offset, 0);
    }
}

/// How a daemon's life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    pub at: Nanos,
    /// It wrote last orders, which live as long as they may.
    pub in_order: bool,
}

/// A daemon: up with a brain, or down.
pub struct Daemon {
    pub id: HostId,
    pub config: HostConfig,
    pub brain: Option<Host>,
    pub planted: Option<InBrain>,
    pub clock: Clock,
    pub grid: SlotClock,
    pub edge: Option<Slot>,
    /// When it noticed that this slot had begun.
    pub edge_at: Nanos,
    /// Counts processes, so that ticks of a dead one are not taken for those of the next.
    pub life: u32,
    pub died: Option<Death>,
    pub born: Nanos,
    pub trust: ClockTrust,
    /// Slots in a row that began while it was in doubt of its clock and had said nothing.
    pub speechless: u64,
    /// It does nothing until then; what comes in waits in the inbox.
    pub hangs_until: Nanos,
    pub inbox: Vec<Event>,
    /// It does everything so much late until then.
    pub slow: (Nanos, Nanos),
    /// A version that says and reads less.
    pub older: bool,
    /// The rows that it was told of, by flow.
    pub known: BTreeMap<FlowId, Place>,
    /// How much later than usual the kernel's next word on a connection comes.
    pub late_event: Nanos,
    /// When its last word comes; words keep their order, so no two come at one time.
    pub told: Nanos,
    /// When the last of the words comes that wait for it to go on.
    pub waited: Nanos,
    /// Slot differences last seen of each holder.
    pub offsets: BTreeMap<HolderId, Shown>,
    /// What was last said to each holder.
    pub said: BTreeMap<HolderId, Announcement>,
    /// In which slots the last things were said to each, by their numbers.
    pub said_in: BTreeMap<HolderId, VecDeque<(u64, Slot)>>,
    /// Announcements to each holder in the slot.
    pub spoken: BTreeMap<HolderId, Vec<Nanos>>,
    /// Orders at the beginning of the slot and of the one before, for the limit on steps.
    pub orders: [BTreeMap<FlowId, Rate>; 2],
    /// Best delivery rates of each flow in its last 64 slots with bytes (a host may remember those before an idle time).
    pub best: BTreeMap<FlowId, Vec<f64>>,
}

/// Announcements whose slots are remembered, as in the daemon.
const REMEMBERED: usize = 64;

/// What waits for a process that hangs, at most; a socket holds no more.
const INBOX: usize = 256;

impl Daemon {
    pub fn new(config: HostConfig, clock: Clock, planted: Option<InBrain>) -> Daemon {
        Daemon {
            id: config.host,
            brain: Some(brain(&config, planted)),
            planted,
            grid: SlotClock::new(config.slot),
            config,
            clock,
            edge: None,
            edge_at: Nanos::ZERO,
            life: 0,
            died: None,
            born: Nanos::ZERO,
            trust: ClockTrust::Trusted,
            speechless: 0,
            hangs_until: Nanos::ZERO,
            inbox: Vec::new(),
            slow: (Nanos::ZERO, Nanos::ZERO),
            older: false,
            known: BTreeMap::new(),
            late_event: Nanos::ZERO,
            told: Nanos::ZERO,
            waited: Nanos::ZERO,
            offsets: BTreeMap::new(),
            said: BTreeMap::new(),
            said_in: BTreeMap::new(),
            spoken: BTreeMap::new(),
            orders: Default::default(),
            best: BTreeMap::new(),
        }
    }

    pub fn kill(&mut self, now: Nanos, in_order: bool) {
        self.brain = None;
        self.inbox.clear();
        self.died = Some(Death { at: now, in_order });
        self.life += 1;
    }

    pub fn start(&mut self, now: Nanos, boot: BootId, older: bool) {
        self.config.boot = boot;
        let fresh = Daemon::new(self.config.clone(), self.clock, self.planted);
        *self = Daemon { life: self.life + 1, born: now, older, died: self.died, ..fresh };
    }

    /// Its clocks at true time `now`; `raw` skips the grid's promise never to go back (a mutant).
    pub fn now(&mut self, now: Nanos, raw: bool) -> (Now, Reading) {
        let wall = self.clock.wall(now);
        let reading = self.grid.read(now, wall);
        let slot = if raw { Slot((wall.0 / self.config.slot.0) as u32) } else { reading.slot };
        (Now { mono: now, wall, slot, into_slot: reading.into_slot }, reading)
    }

    /// Notes in which slot something is said to a holder.
    pub fn says(&mut self, holder: HolderId, seq: u64, slot: Slot) {
        let said = self.said_in.entry(holder).or_default();
        said.push_back((seq, slot));
        if said.len() > REMEMBERED {
            said.pop_front();
        }
    }

    /// How far a holder's clock is ahead, by its answer, as the daemon works it out.
    pub fn offset_of(&self, holder: HolderId, feedback: &Feedback, now: Slot) -> i32 {
        let mut said = self.said_in.get(&holder).into_iter().flatten().rev();
        let applied = said.find(|(seq, _)| *seq <= feedback.seq && feedback.refused.is_none());
        clock::offset(feedback.slot, applied.map_or(now, |(_, slot)| *slot), now)
    }

    /// Keeps what comes in while it hangs.
    pub fn keep(&mut self, events: Vec<Event>) {
        self.inbox.extend(events);
        let surplus = self.inbox.len().saturating_sub(INBOX);
        // What cannot be lost is not: only answers are.
        let mut over = surplus;
        self.inbox.retain(|event| {
            let lost = over > 0 && matches!(event, Event::Feedback { .. } | Event::Progress(_));
            over -= usize::from(lost);
            !lost
        });
    }
}

fn brain(config: &HostConfig, planted: Option<InBrain>) -> Host {
    let mut brain = Host::new(config.clone());
    if let Some(mutant) = planted {
        brain.plant(mutant);
    }
    brain
}

/// A holder: a switch process of its own, or part of a host's daemon.
pub struct Holder {
    pub id: HolderId,
    pub links: Vec<LinkConfig>,
    pub limits: Limits,
    pub table: TableKind,
    pub planted: Option<InBrain>,
    pub switch: Option<Switch>,
    pub clock: Clock,
    pub grid: SlotClock,
    pub life: u32,
    pub boots: u64,
    pub born: Nanos,
    pub hangs_until: Nanos,
    /// The daemon it is part of.
    pub within: Option<usize>,
    pub push_due: bool,
    /// Announcements on their way here.
    pub in_flight: u64,
    /// The slot of its last tick.
    pub edge: Option<Slot>,
}

impl Holder {
    pub fn boot(&self) -> BootId {
        BootId(u64::from(self.id.0) << 16 | self.boots)
    }
    pub fn start(&mut self, now: Nanos) {
        self.boots += 1;
        self.life += 1;
        self.born = now;
        self.edge = None;
        self.grid = SlotClock::new(self.grid.length());
        let mut switch = Switch::with_table(self.boot(), self.limits.clone(), &self.links, self.table);
        if let Some(mutant) = self.planted {
            switch.plant(mutant);
        }
        self.switch = Some(switch);
    }
    pub fn kill(&mut self) {
        self.switch = None;
        self.life += 1;
    }
    pub fn slot(&mut self, now: Nanos) -> Slot {
        let wall = self.clock.wall(now);
        self.grid.read(now, wall).slot
    }
}
