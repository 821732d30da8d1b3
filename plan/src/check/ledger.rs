//! How many copies of which part of the data each node holds: the state that schedules are replayed on.
//!
//! An item (a shard, a chunk) is cut into equal units; what a node holds of it is a list of runs of units with the same
//! number of copies, so that a whole shard costs one run however finely it is cut.

use std::collections::HashMap;

/// Runs looked at in one replay at most, so that a plan cut into splinters ends in a refusal and not next week.
const MAX_WORK: u64 = 1 << 33;

/// Units with the same number of copies: where they end, and the number.
type Run = (u64, u32);

/// Whose copies of what.
pub type Place = (usize, u64);

/// What all nodes hold.
pub struct Ledger<F> {
    /// Units of an item.
    units: u64,
    /// What a node holds of an item before anything happened.
    initial: F,
    held: HashMap<Place, Vec<Run>>,
    work: u64,
}

impl<F: Fn(Place) -> u32> Ledger<F> {
    /// Items of so many units, of which nodes hold `initial` copies.
    pub fn new(units: u64, initial: F) -> Ledger<F> {
        Ledger { units, initial, held: HashMap::new(), work: 0 }
    }
    /// Has it taken more work than any plan is worth?
    pub fn is_tired(&self) -> bool {
        self.work > MAX_WORK
    }
    /// The first unit of a part that is not there.
    pub fn missing(&mut self, place: Place, lo: u64, hi: u64) -> Option<u64> {
        let (mut begin, runs) = (0, self.held.get(&place));
        let Some(runs) = runs else { return ((self.initial)(place) == 0).then_some(lo) };
        for (end, copies) in runs {
            self.work += 1;
            if *copies == 0 && begin < hi && *end > lo {
                return Some(begin.max(lo));
            }
            begin = *end;
        }
        None
    }
    /// Takes one copy of a part away, which is there.
    pub fn take(&mut self, place: Place, lo: u64, hi: u64) {
        self.change(place, lo, hi, |copies| copies.saturating_sub(1));
    }
    /// One more copy of a part; where parts `merge`, never more than one.
    pub fn give(&mut self, place: Place, lo: u64, hi: u64, merge: bool) {
        self.change(place, lo, hi, |copies| if merge { 1 } else { copies.saturating_add(1) });
    }
    /// Nothing is left of it.
    pub fn clear(&mut self, place: Place) {
        self.held.insert(place, vec![(self.units, 0)]);
    }
    /// Does a node hold exactly so many copies of all units?
    pub fn holds(&self, place: Place, copies: u32) -> bool {
        match self.held.get(&place) {
            Some(runs) => runs.iter().all(|(_, held)| *held == copies),
            None => (self.initial)(place) == copies,
        }
    }
    /// Everything that anybody ever gave or took, in no order.
    pub fn touched(&self) -> impl Iterator<Item = Place> + '_ {
        self.held.keys().copied()
    }

    fn change(&mut self, place: Place, lo: u64, hi: u64, new: impl Fn(u32) -> u32) {
        let units = self.units;
        let initial = (self.initial)(place);
        let runs = self.held.entry(place).or_insert_with(|| vec![(units, initial)]);
        self.work += runs.len() as u64;
        if let ([(_, copies)], 0, true) = (runs.as_mut_slice(), lo, hi == units) {
            *copies = new(*copies);
            return;
        }
        let mut changed: Vec<Run> = Vec::with_capacity(runs.len() + 2);
        let mut begin = 0;
        for (end, copies) in runs.iter() {
            for (from, to, copies) in [
                (begin, *end.min(&lo), *copies),
                (begin.max(lo), *end.min(&hi), new(*copies)),
                (begin.max(hi), *end, *copies),
            ] {
                if from >= to {
                    continue;
                }
                match changed.last_mut() {
                    Some(last) if last.1 == copies => last.0 = to,
                    _ => changed.push((to, copies)),
                }
            }
            begin = *end;
        }
        *runs = changed;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any changes, against a counter per unit.
        #[test]
        fn it_counts_like_a_list_of_counters(
            initial in 0_u32..2,
            changes in proptest::collection::vec((0_u64..12, 1_u64..12, 0_u8..4), 0..40),
        ) {
            let place = (3, 7);
            let mut ledger = Ledger::new(12, |of| if of == place { initial } else { 9 });
            let mut counters = [initial; 12];
            for (lo, length, what) in changes {
                let hi = (lo + length).min(12);
                let part = &mut counters[lo as usize..hi as usize];
                let missing = part.iter().position(|copies| *copies == 0).map(|at| lo + at as u64);
                prop_assert_eq!(ledger.missing(place, lo, hi), missing);
                match what {
                    0 if missing.is_none() => {
                        ledger.take(place, lo, hi);
                        part.iter_mut().for_each(|copies| *copies -= 1);
                    }
                    1 => {
                        ledger.give(place, lo, hi, true);
                        part.fill(1);
                    }
                    2 => {
                        ledger.give(place, lo, hi, false);
                        part.iter_mut().for_each(|copies| *copies += 1);
                    }
                    _ => {}
                }
                for copies in 0..3 {
                    prop_assert_eq!(ledger.holds(place, copies), counters.iter().all(|held| *held == copies));
                }
            }
            ledger.clear(place);
            prop_assert!(ledger.holds(place, 0) && ledger.holds((3, 8), 9));
        }
    }
}
