//! Whose mode holds on a host: the fleet's, or one that somebody set there by hand.
//!
//! A hand on the host wins until the host is given back. What was set for a time gives itself back, and then the fleet's
//! mode of *that* moment holds, not the one of the moment before. Nothing that etcd does or fails to do changes a mode
//! here, but a new word for this host's group.

use sluice_wire::snapshot::Mode;

/// Whether a hand is on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hand {
    /// The fleet's mode holds.
    #[default]
    Off,
    /// For a time, and then the fleet's again.
    ForATime,
    /// Until it is given back.
    Kept,
    /// Until it is given back, and now another mode for a time.
    KeptAndForATime,
}

/// Whose mode holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    fleet: Option<Mode>,
    hand: Hand,
}

impl Standing {
    /// Of a host that has just begun; `by_hand`: its mode was kept by hand, or it stays out for a reason of its own.
    pub fn new(by_hand: bool) -> Standing {
        Standing { fleet: None, hand: if by_hand { Hand::Kept } else { Hand::Off } }
    }
    /// The fleet's mode for this host, as last heard.
    pub fn fleet(&self) -> Option<Mode> {
        self.fleet
    }
    /// Does a mode hold that was set by hand?
    pub fn by_hand(&self) -> bool {
        self.hand != Hand::Off
    }
    /// The fleet's mode as heard now; the mode to set, if the fleet's holds.
    pub fn heard(&mut self, mode: Option<Mode>) -> Option<Mode> {
        self.fleet = mode.or(self.fleet);
        self.wanted()
    }
    /// Somebody set a mode here; `for_a_time`: it returns by itself.
    pub fn set_by_hand(&mut self, for_a_time: bool) {
        self.hand = match (self.hand, for_a_time) {
            (Hand::Off | Hand::ForATime, true) => Hand::ForATime,
            (Hand::Kept | Hand::KeptAndForATime, true) => Hand::KeptAndForATime,
            (_, false) => Hand::Kept,
        };
    }
    /// The time of what was set for a time is over; the mode to set, if the fleet's holds now.
    pub fn time_over(&mut self) -> Option<Mode> {
        self.hand = match self.hand {
            Hand::Off | Hand::ForATime => Hand::Off,
            Hand::Kept | Hand::KeptAndForATime => Hand::Kept,
        };
        self.wanted()
    }
    /// The host is given back to the fleet; the mode to set, if one is known.
    pub fn give_back(&mut self) -> Option<Mode> {
        self.hand = Hand::Off;
        self.wanted()
    }
    /// The mode that is to hold, if the fleet's does.
    pub fn wanted(&self) -> Option<Mode> {
        self.fleet.filter(|_| self.hand == Hand::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_wins_until_the_host_is_given_back() {
        let mut standing = Standing::default();
        assert_eq!(standing.heard(Some(Mode::Active)), Some(Mode::Active));
        standing.set_by_hand(false);
        assert!(standing.by_hand());
        assert_eq!(standing.heard(Some(Mode::Observe)), None);
        // A key that is gone takes no mode away.
        assert_eq!(standing.heard(None), None);
        assert_eq!(standing.give_back(), Some(Mode::Observe));
        assert_eq!(standing.heard(None), Some(Mode::Observe));
    }

    #[test]
    fn what_was_set_for_a_time_ends_in_the_fleets_present_mode() {
        let mut standing = Standing::default();
        standing.heard(Some(Mode::Active));
        standing.set_by_hand(true);
        assert_eq!(standing.heard(Some(Mode::Observe)), None);
        assert_eq!(standing.time_over(), Some(Mode::Observe));
        // Under a hand that stays, it ends in what that hand set.
        standing.set_by_hand(false);
        standing.set_by_hand(true);
        assert_eq!(standing.time_over(), None);
        assert!(standing.by_hand());
    }

    #[test]
    fn a_host_that_was_told_nothing_keeps_its_own_mode() {
        let mut standing = Standing::default();
        assert_eq!(standing.heard(None), None);
        assert_eq!(Standing::new(true).heard(Some(Mode::Active)), None);
    }
}
