//! Whether a holder of tables is believed: what it says is held against itself and against what this host measures.
//!
//! A switch is trusted for how well links are used, never for whether a job goes on. One that lies, or is broken, can say
//! that links are empty, so that everybody bursts, or that they are full, so that everybody keeps to the floor, or be another
//! one with every word. Two signs give it away, and from then on its words are not handed to the brain for a while: its view
//! grows old there as that of a switch that is silent, holds, decays, and leaves an equal share.
//!
//! | sign | doubted for |
//! | --- | --- |
//! | its boot id changed four times in a minute while the connection stood: no process can do that | a minute |
//! | five slots in a row what flows got was half or twice of what it said there was | as long as it does, and ten slots |
//!
//! Pure, with the time as an argument.

use std::collections::{BTreeMap, VecDeque};

use sluice_schedule::{BootId, Bytes, HolderId, LinkId, Nanos, Now, Rate};

use super::Core;

/// So many other boot ids on one connection ...
const BOOTS: usize = 4;
/// ... within this time are no restarts.
const WITHIN: Nanos = Nanos::from_millis(60_000);
/// So long nothing of such a holder counts.
const IGNORED: Nanos = Nanos::from_millis(60_000);
/// Slots in a row in which a holder is contradicted until it is doubted, ...
const CONTRADICTED: u32 = 5;
/// ... and slots without that until it is believed again.
const AGREED: u32 = 10;
/// What is off by this factor contradicts.
const OFF: u64 = 2;
/// A link so full of own flows has no others that count.
const MOST: f64 = 0.75;

/// What speaks against a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Another boot id with every word.
    Boots,
    /// Flows got far more, or far less, than there is by its tables.
    Contradicted,
}

/// What a slot showed of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What the link carries, and what of it its holder says that others leave.
    pub capacity: Rate,
    pub room: Rate,
    /// Orders of own flows there that had bytes waiting all the slot.
    pub ordered: Rate,
    /// What own flows delivered over it.
    pub delivered: Rate,
    /// Some of them lost segments.
    pub lost: bool,
}

impl Seen {
    /// Cannot be both true: what the holder said, and this?
    pub fn contradicts(self) -> bool {
        let Seen { capacity, room, ordered, delivered, lost } = self;
        let twice = |rate: Rate| Rate(rate.0.saturating_mul(OFF));
        // It said that others have the link, and this host alone fills most of it.
        let empty = delivered > twice(room.max(ordered)) && delivered > capacity.times(MOST);
        // It said that there is room, flows keep to it, and segments are lost: a slow reader loses none.
        let full = lost && ordered > Rate::ZERO && ordered <= room && twice(delivered) < ordered;
        empty || full
    }
}

#[derive(Clone, Debug, Default)]
struct Holder {
    boot: Option<BootId>,
    /// When it was another one than before on the same connection.
    changes: VecDeque<Nanos>,
    ignored_until: Nanos,
    contradicted: u32,
    agreed: u32,
    contradicts: bool,
}

/// All holders that have said something.
#[derive(Clone, Debug, Default)]
pub struct Doubts(BTreeMap<HolderId, Holder>);

impl Doubts {
    /// It is connected anew: whatever process answers there may be another one.
    pub fn connected(&mut self, holder: HolderId) {
        self.0.entry(holder).or_default().boot = None;
    }

    /// It said something as this process. Is that to be believed?
    pub fn believes(&mut self, now: Nanos, holder: HolderId, boot: BootId) -> bool {
        let state = self.0.entry(holder).or_default();
        if state.boot.replace(boot).is_some_and(|before| before != boot) {
            state.changes.push_back(now);
            if state.changes.len() > BOOTS {
                state.changes.pop_front();
            }
            let first = state.changes.front().copied().unwrap_or(now);
            if state.changes.len() == BOOTS && now.minus(first) < WITHIN {
                state.changes.clear();
                state.ignored_until = now.plus(IGNORED);
            }
        }
        now >= state.ignored_until && !state.contradicts
    }

    /// A slot is over, in which what this holder said was contradicted or not; a slot that says nothing does not come here.
    pub fn slot(&mut self, holder: HolderId, contradicted: bool) {
        let Some(state) = self.0.get_mut(&holder) else { return };
        if contradicted {
            (state.contradicted, state.agreed) = (state.contradicted + 1, 0);
            state.contradicts |= state.contradicted >= CONTRADICTED;
        } else {
            (state.contradicted, state.agreed) = (0, state.agreed + 1);
            state.contradicts &= state.agreed < AGREED;
        }
    }

    /// Holders that are not believed now.
    pub fn doubted(&self, now: Nanos) -> impl Iterator<Item = (HolderId, Doubt)> + '_ {
        self.0.iter().filter_map(move |(holder, state)| {
            let doubt = match (now < state.ignored_until, state.contradicts) {
                (true, _) => Some(Doubt::Boots),
                (false, true) => Some(Doubt::Contradicted),
                (false, false) => None,
            };
            Some((*holder, doubt?))
        })
    }
}

impl Core {
    /// Once per slot: holds what holders say of links against what flows there got.
    pub(super) fn doubt_holders(&mut self, now: Now) {
        let slot = self.config.slot_length();
        let mut seen: BTreeMap<LinkId, (HolderId, Seen)> = BTreeMap::new();
        for status in self.host.flows().filter(|_| self.enforces()) {
            let Some(socket) = self.monitor.sockets.of_flow(status.spec.flow) else { continue };
            let delivered = Rate::needed(socket.moved_in_slot, slot);
            let waits = status.demand > status.delivered && socket.stats.queued > Bytes::ZERO;
            for hop in &status.spec.path {
                let Some(holder) = hop.holder else { continue };
                let (_, link) = seen.entry(hop.link).or_insert((holder, Seen::default()));
                link.delivered = link.delivered.plus(delivered);
                if waits {
                    link.ordered = link.ordered.plus(status.order);
                }
                link.lost |= socket.retransmitted_in_slot > 0;
            }
        }
        for status in self.host.links() {
            let Some((_, link)) = seen.get_mut(&status.link) else { continue };
            let others = status.load.first().copied().unwrap_or_default();
            link.capacity = status.capacity;
            link.room = status.capacity.minus(status.cross).minus(others);
        }
        let mut holders: BTreeMap<HolderId, bool> = BTreeMap::new();
        for (holder, seen) in seen.into_values().filter(|(_, seen)| seen.delivered > Rate::ZERO) {
            *holders.entry(holder).or_default() |= seen.contradicts();
        }
        for (holder, contradicted) in holders {
            self.doubts.slot(holder, contradicted);
        }
        self.judge_doubts(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: HolderId = HolderId(7);

    fn at(seconds: u64) -> Nanos {
        Nanos::from_millis(seconds * 1000)
    }

    #[test]
    fn another_process_with_every_word_is_none() {
        let mut doubts = Doubts::default();
        doubts.connected(SWITCH);
        let believed: Vec<bool> = (0..6).map(|n| doubts.believes(at(n), SWITCH, BootId(n))).collect();
        assert_eq!(believed, [true, true, true, true, false, false]);
        assert_eq!(doubts.doubted(at(5)).collect::<Vec<_>>(), [(SWITCH, Doubt::Boots)]);
        assert!(doubts.believes(at(70), SWITCH, BootId(5)), "a minute later it is heard again");
        assert_eq!(doubts.doubted(at(70)).next(), None);
    }

    #[test]
    fn a_switch_that_restarts_often_is_believed() {
        let mut doubts = Doubts::default();
        for n in 0..30 {
            doubts.connected(SWITCH);
            assert!(doubts.believes(at(2 * n), SWITCH, BootId(n)) && doubts.believes(at(2 * n), SWITCH, BootId(n)));
        }
        // Nor are changes that lie far apart a sign of anything.
        for n in 30..60 {
            assert!(doubts.believes(at(100 + 30 * n), SWITCH, BootId(n)));
        }
    }

    #[test]
    fn what_is_measured_contradicts_an_empty_and_a_full_link_and_no_honest_one() {
        let mbps = |capacity, room, ordered, delivered, lost| Seen {
            capacity: Rate::mbps(capacity),
            room: Rate::mbps(room),
            ordered: Rate::mbps(ordered),
            delivered: Rate::mbps(delivered),
            lost,
        };
        // Said to be full, and this host fills it at the floor's order.
        assert!(mbps(100, 0, 1, 80, false).contradicts());
        // Said to be empty, and half of what is sent is lost.
        assert!(mbps(100, 100, 100, 40, true).contradicts());
        for honest in [
            mbps(100, 60, 60, 59, false),
            mbps(100, 60, 60, 55, true),
            // A reader that is slow.
            mbps(100, 100, 100, 10, false),
            // A share of what others leave, beyond the order.
            mbps(100, 0, 1, 20, false),
            // Held back elsewhere, though there is room.
            mbps(100, 10, 60, 20, true),
            mbps(100, 100, 0, 90, false),
        ] {
            assert!(!honest.contradicts(), "{honest:?}");
        }
    }

    #[test]
    fn five_slots_make_a_doubt_and_ten_end_it() {
        let mut doubts = Doubts::default();
        doubts.slot(SWITCH, true);
        assert!(doubts.believes(at(0), SWITCH, BootId(1)));
        (0..4).for_each(|_| doubts.slot(SWITCH, true));
        doubts.slot(SWITCH, false);
        (0..4).for_each(|_| doubts.slot(SWITCH, true));
        assert!(doubts.believes(at(1), SWITCH, BootId(1)), "not five in a row");
        doubts.slot(SWITCH, true);
        assert!(!doubts.believes(at(2), SWITCH, BootId(1)));
        assert_eq!(doubts.doubted(at(2)).collect::<Vec<_>>(), [(SWITCH, Doubt::Contradicted)]);
        (0..9).for_each(|_| doubts.slot(SWITCH, false));
        assert!(!doubts.believes(at(3), SWITCH, BootId(1)));
        doubts.slot(SWITCH, false);
        assert!(doubts.believes(at(4), SWITCH, BootId(1)));
    }
}
