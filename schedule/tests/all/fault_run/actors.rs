//! The actors around the brains: clocks that go wrong, daemon processes, holder processes.

use std::collections::BTreeMap;

use sluice_schedule::clock::SlotClock;
use sluice_schedule::host::{Host, HostConfig};
use sluice_schedule::message::Announcement;
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::table::TableKind;
use sluice_schedule::units::{BootId, FlowId, HolderId, HostId, Nanos, Rate, Slot};
use sluice_schedule::{ClockTrust, Now};

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

/// A daemon: up with a brain, or down.
pub struct Daemon {
    pub id: HostId,
    pub config: HostConfig,
    pub brain: Option<Host>,
    pub clock: Clock,
    pub grid: SlotClock,
    pub edge: Option<Slot>,
    /// Counts processes, so that ticks of a dead one are not taken for those of the next.
    pub life: u32,
    pub died: Option<Nanos>,
    pub born: Nanos,
    pub trust: ClockTrust,
    /// Slot differences last seen of each holder.
    pub offsets: BTreeMap<HolderId, i32>,
    /// What was last said to each holder.
    pub said: BTreeMap<HolderId, Announcement>,
    /// Announcements to each holder in the slot.
    pub spoken: BTreeMap<HolderId, Vec<Nanos>>,
    /// Orders at the beginning of the slot and of the one before, for the limit on steps.
    pub orders: [BTreeMap<FlowId, Rate>; 2],
    /// Best delivery rates of each flow in its last 64 slots with bytes (a host may remember those before an idle time).
    pub best: BTreeMap<FlowId, Vec<f64>>,
}

impl Daemon {
    pub fn new(config: HostConfig, clock: Clock) -> Daemon {
        Daemon {
            id: config.host,
            brain: Some(Host::new(config.clone())),
            grid: SlotClock::new(config.slot),
            config,
            clock,
            edge: None,
            life: 0,
            died: None,
            born: Nanos::ZERO,
            trust: ClockTrust::Trusted,
            offsets: BTreeMap::new(),
            said: BTreeMap::new(),
            spoken: BTreeMap::new(),
            orders: Default::default(),
            best: BTreeMap::new(),
        }
    }

    pub fn kill(&mut self, now: Nanos) {
        self.brain = None;
        self.died = Some(now);
        self.life += 1;
    }

    pub fn start(&mut self, now: Nanos, boot: BootId) {
        self.config.boot = boot;
        let fresh = Daemon::new(self.config.clone(), self.clock);
        *self = Daemon { life: self.life + 1, born: now, ..fresh };
    }

    /// The daemon's clocks at true time `now`; `raw` skips the grid's promise never to go back (a mutant).
    pub fn now(&mut self, now: Nanos, raw: bool) -> Now {
        let wall = self.clock.wall(now);
        let reading = self.grid.read(now, wall);
        let slot = if raw { Slot((wall.0 / self.config.slot.0) as u32) } else { reading.slot };
        Now { mono: now, wall, slot, into_slot: reading.into_slot }
    }
}

/// A holder: a switch process of its own, or part of a host's daemon.
pub struct Holder {
    pub id: HolderId,
    pub links: Vec<LinkConfig>,
    pub limits: Limits,
    pub table: TableKind,
    pub switch: Option<Switch>,
    pub clock: Clock,
    pub grid: SlotClock,
    pub life: u32,
    pub boots: u64,
    pub born: Nanos,
    /// The daemon it is part of.
    pub within: Option<usize>,
    pub push_due: bool,
    /// Announcements on their way here.
    pub in_flight: u64,
}

impl Holder {
    pub fn boot(&self) -> BootId {
        BootId(u64::from(self.id.0) << 16 | self.boots)
    }
    pub fn start(&mut self, now: Nanos) {
        self.boots += 1;
        self.life += 1;
        self.born = now;
        self.grid = SlotClock::new(self.grid.length());
        self.switch = Some(Switch::with_table(self.boot(), self.limits.clone(), &self.links, self.table));
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
