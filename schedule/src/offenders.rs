//! Who asks for too much, and is not listened to for a while: after [`PATIENCE`] refusals in a row, for [`PENALTY`].
//!
//! Whoever keeps an account says what it holds things against: a name that nobody can borrow, or a name and where it came
//! from. Times are of the monotonic clock, so that no step of the other one ends a penalty or makes it longer.

use std::collections::BTreeMap;

use crate::units::Nanos;

/// After so many refusals for too much in a row somebody is shut out ...
pub const PATIENCE: u32 = 10;
/// ... for so long.
pub const PENALTY: Nanos = Nanos::from_millis(60_000);

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    refusals: u32,
    /// It is not listened to before.
    until: Nanos,
}

/// The account of all who asked for too much.
#[derive(Clone, Debug)]
pub struct Offenders<K> {
    most: usize,
    accounts: BTreeMap<K, Account>,
}

impl<K: Ord> Offenders<K> {
    /// Keeps account of so many at most: where nobody proves who it is, names can be made up.
    pub const fn new(most: usize) -> Offenders<K> {
        Offenders { most, accounts: BTreeMap::new() }
    }

    /// Is it shut out at `now`?
    pub fn is_shut_out(&self, now: Nanos, who: &K) -> bool {
        self.accounts.get(who).is_some_and(|account| account.until > now)
    }

    /// It asked for more than it may. True: it is shut out from now on.
    pub fn offended(&mut self, now: Nanos, who: K) -> bool {
        if self.accounts.len() >= self.most && !self.accounts.contains_key(&who) {
            return false;
        }
        let account = self.accounts.entry(who).or_default();
        if account.until > now {
            return false;
        }
        account.refusals += 1;
        if account.refusals < PATIENCE {
            return false;
        }
        *account = Account { refusals: 0, until: now.plus(PENALTY) };
        true
    }

    /// What it asked for was in order: what follows begins anew, unless it is shut out.
    pub fn behaved(&mut self, now: Nanos, who: &K) {
        if !self.is_shut_out(now, who) {
            self.accounts.remove(who);
        }
    }

    /// Forgets what is over; call it once a slot. Where names were made up until there was no room for more, counting begins
    /// anew: nobody keeps penalties from everybody.
    pub fn forget_old(&mut self, now: Nanos) {
        let full = self.accounts.len() >= self.most;
        self.accounts.retain(|_, account| account.until > now || (account.refusals > 0 && !full));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_millis(5);

    #[test]
    fn ten_refusals_in_a_row_are_a_minute_of_silence() {
        let mut offenders = Offenders::new(4);
        for _ in 1..PATIENCE {
            assert!(!offenders.offended(NOW, "a") && !offenders.offended(NOW, "b"));
        }
        offenders.behaved(NOW, &"b");
        assert!(offenders.offended(NOW, "a"));
        assert!(!offenders.offended(NOW, "b"), "in a row");
        assert!(offenders.is_shut_out(NOW, &"a") && !offenders.is_shut_out(NOW, &"b"));
        assert!(!offenders.offended(NOW, "a"), "it is shut out already");
        offenders.behaved(NOW, &"a");
        offenders.forget_old(NOW);
        assert!(offenders.is_shut_out(NOW.plus(PENALTY).minus(Nanos(1)), &"a"));
        let later = NOW.plus(PENALTY);
        assert!(!offenders.is_shut_out(later, &"a"));
        offenders.forget_old(later);
        assert_eq!(offenders.accounts.keys().collect::<Vec<_>>(), [&"b"]);
    }

    #[test]
    fn names_that_are_made_up_keep_penalties_from_others_until_the_next_slot_only() {
        let mut offenders = Offenders::new(64);
        (0..64).for_each(|name| assert!(!offenders.offended(NOW, name)));
        assert!((0..10).all(|_| !offenders.offended(NOW, 1_000)), "there is no room for it");
        offenders.forget_old(NOW);
        assert_eq!((0..10).filter(|_| offenders.offended(NOW, 1_000)).count(), 1);
    }
}
