//! The exact table: sums per link and slot from which every promise can be taken back.
//!
//! Each link has a ring of sums by slot. A promise is added when it comes and subtracted, the same numbers from the same
//! slots, when it is replaced or its lease ends; so a sum is always the sum of the live promises and nothing is cleared.
//! The ring is long enough that two slots of live promises never share a place.

use super::{LoadTable, Promises, TableKind};
use crate::units::Rate;

/// Sums of live promises.
#[derive(Clone, Debug)]
pub struct ExactTable {
    horizon: usize,
    ring: usize,
    sums: Vec<u64>,
}

impl ExactTable {
    /// Empty sums for `links` links, K = `horizon`, for promises that live at most `lease_slots`.
    pub fn new(links: usize, horizon: usize, lease_slots: u32) -> ExactTable {
        // Live promises start at most lease + 1 slots ago and at most one ahead.
        let ring = horizon + lease_slots as usize + 4;
        ExactTable { horizon, ring, sums: vec![0; links * ring] }
    }

    fn place(&self, link: u32, slot: u64) -> usize {
        link as usize * self.ring + (slot % self.ring as u64) as usize
    }

    fn change(&mut self, promises: &Promises, apply: fn(u64, u64) -> u64) {
        for (at, entry) in promises.entries.iter().enumerate() {
            for (ahead, rate) in promises.rates_of(at, self.horizon).iter().enumerate() {
                let place = self.place(entry.link, promises.start + ahead as u64);
                if let Some(sum) = self.sums.get_mut(place) {
                    *sum = apply(*sum, rate.0);
                }
            }
        }
    }
}

impl LoadTable for ExactTable {
    fn kind(&self) -> TableKind {
        TableKind::Exact
    }

    /// At most 2⁵⁰ bit/s, so that sums over all hosts cannot overflow.
    fn quantise(&self, rate: Rate) -> Rate {
        rate.min(Rate(1 << 50))
    }

    fn replace(&mut self, old: &Promises, new: &mut Promises) {
        self.remove(old);
        self.change(new, u64::saturating_add);
    }

    fn remove(&mut self, old: &Promises) {
        self.change(old, u64::saturating_sub);
    }

    /// From when it came in: a host whose clock lags is not forgotten between two of its announcements.
    fn lease_from(&self, start: u64, now: u64) -> u64 {
        start.max(now)
    }

    fn load(&self, link: u32, now: u64, out: &mut [Rate]) {
        for (ahead, rate) in out.iter_mut().enumerate() {
            let beyond = ahead >= self.horizon;
            let place = self.place(link, now + ahead as u64);
            *rate = Rate(if beyond { 0 } else { self.sums.get(place).copied().unwrap_or(0) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Entry;
    use crate::units::FlowId;

    fn promise(start: u64, rates: &[u64]) -> Promises {
        Promises {
            start,
            entries: vec![Entry { link: 1, flow: FlowId(7), which: 0 }],
            rates: rates.iter().map(|&rate| Rate(rate)).collect(),
        }
    }

    #[test]
    fn replacing_takes_the_old_numbers_out_of_their_own_slots() {
        let mut table = ExactTable::new(2, 3, 2);
        let mut first = promise(100, &[1, 2, 3]);
        table.replace(&Promises::default(), &mut first);
        let mut load = [Rate::ZERO; 3];
        table.load(1, 101, &mut load);
        assert_eq!(load, [Rate(2), Rate(3), Rate(0)]);
        let mut second = promise(101, &[5, 5, 5]);
        table.replace(&first, &mut second);
        table.load(1, 100, &mut load);
        assert_eq!(load, [Rate(0), Rate(5), Rate(5)]);
        table.remove(&second);
        assert!(table.sums.iter().all(|&sum| sum == 0));
    }
}
