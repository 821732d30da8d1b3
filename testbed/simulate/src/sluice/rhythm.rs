//! When daemons look and decide: at events, or all of them on the beat of the slots.

use sluice_scenario::settings::TimeMode;
use sluice_schedule::Nanos;

use super::SluiceScheduler;
use super::agenda::Due;
use super::daemon::GATHER;
use crate::scheduler::Orders;
use crate::world::World;

/// In the slot modes what is heard waits for this part of a slot: nothing that is planned in between is urgent. Waiting
/// for the next look instead saves a fourth of the time and costs 2 to 4 % of JCT: promises settle in several exchanges.
const HEARD_PART: u64 = 6;
/// Looks per slot in the slot modes; all hosts at one time, which spares the engine showing its flows to each alone.
const LOOKS_PER_SLOT: u64 = 2;

/// At which moments daemons decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rhythm {
    /// At events, looks and slot edges.
    Events,
    /// At slot edges, once in between to see which flows have ended, and when they heard something; what they order
    /// holds from the next edge on.
    Heard,
    /// Only at the edges of slots.
    Edges,
}

impl Rhythm {
    /// The rhythm of a mode; without `events` it is that of the paper.
    pub(super) fn of(mode: TimeMode, events: bool) -> Rhythm {
        match mode {
            _ if !events => Rhythm::Edges,
            TimeMode::Event => Rhythm::Events,
            TimeMode::Slot | TimeMode::PaperSlot => Rhythm::Heard,
        }
    }
}

impl SluiceScheduler {
    /// How long after its last turn a daemon takes in what it heard.
    pub(super) fn gather(&self) -> Nanos {
        if self.rhythm == Rhythm::Heard { Nanos(self.slot.0 / HEARD_PART) } else { GATHER }
    }

    /// How far apart looks are in the rhythms of slots.
    fn beat(&self) -> u64 {
        let parts = if self.rhythm == Rhythm::Heard { LOOKS_PER_SLOT } else { 1 };
        (self.slot.0 / parts).max(1)
    }

    /// In the rhythms of slots: every daemon with jobs turns, once per beat.
    pub(super) fn beats(&mut self, world: &World<'_>, orders: &mut Orders) {
        let index = world.now.0 / self.beat();
        if !world.now.0.is_multiple_of(self.beat()) || self.last_beat == Some(index) {
            return;
        }
        self.last_beat = Some(index);
        let awake: Vec<usize> = self.awake.iter().copied().collect();
        for host in awake {
            self.turn(world.now, host, world, orders);
        }
    }

    /// Works out when the product wants to be called next.
    pub(super) fn plan_wake(&mut self, world: &World<'_>) {
        let daemons = &self.daemons;
        let stale = |due: &Due| match due {
            Due::Tick { host, stamp } => daemons.get(*host).is_none_or(|daemon| daemon.stamp != *stamp),
            _ => false,
        };
        self.next = match self.rhythm {
            Rhythm::Events => self.agenda.next(stale),
            Rhythm::Heard | Rhythm::Edges if self.awake.is_empty() => None,
            Rhythm::Edges if world.scenario.time.mode != TimeMode::Event => None,
            Rhythm::Heard | Rhythm::Edges => Some(Nanos((world.now.0 / self.beat() + 1) * self.beat())),
        };
    }
}
