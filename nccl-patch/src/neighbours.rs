//! To whom a rank sends over the network, and from whom it receives, as operations show it: pairs of channel and rank.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use sluice_progress::layout::NO_RANK;

/// Channels that are told apart; NCCL has at most as many.
const CHANNELS: usize = 64;
/// Neighbours of a channel in one direction: a tree has a parent and two children.
const PER_CHANNEL: usize = 4;
const SEVERAL: u64 = u64::MAX;
/// Stands where no rank is known yet.
const NONE: u64 = u64::MAX - 1;

/// The pairs of one direction.
#[derive(Debug)]
pub struct Pairs {
    ranks: [[AtomicU32; PER_CHANNEL]; CHANNELS],
    count: AtomicU32,
    only: AtomicU64,
}

impl Default for Pairs {
    fn default() -> Pairs {
        let ranks = [const { [const { AtomicU32::new(NO_RANK) }; PER_CHANNEL] }; CHANNELS];
        Pairs { ranks, count: AtomicU32::new(0), only: AtomicU64::new(NONE) }
    }
}

impl Pairs {
    /// Notes a pair; true if it is new.
    pub fn note(&self, channel: u8, rank: u32) -> bool {
        let Some(cells) = self.ranks.get(usize::from(channel)).filter(|_| rank != NO_RANK) else { return false };
        for cell in cells {
            // Known nearly always, and a look costs less than a locked exchange.
            if cell.load(Ordering::Relaxed) == rank {
                return false;
            }
            match cell.compare_exchange(NO_RANK, rank, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.count.fetch_add(1, Ordering::Relaxed);
                    let one =
                        |only| Some(if only == NONE || only == u64::from(rank) { u64::from(rank) } else { SEVERAL });
                    let _ = self.only.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one);
                    return true;
                }
                Err(known) if known == rank => return false,
                Err(_) => {}
            }
        }
        false
    }

    /// How many pairs are known.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// The one rank of all pairs; `None` if there is none or more than one.
    pub fn only(&self) -> Option<u32> {
        u32::try_from(self.only.load(Ordering::Relaxed)).ok()
    }
}

/// Both directions for one algorithm.
#[derive(Debug, Default)]
pub struct Neighbours {
    pub to: Pairs,
    pub from: Pairs,
    channels: AtomicU32,
    settled: AtomicBool,
}

impl Neighbours {
    /// A collective runs on so many channels.
    pub fn runs_on(&self, channels: u8) {
        if u32::from(channels) > self.channels.load(Ordering::Relaxed) {
            self.channels.fetch_max(u32::from(channels), Ordering::Relaxed);
        }
    }

    /// A network phase is over: what was seen in it is what there is.
    pub fn settle(&self) {
        if self.to.count() > 0 {
            self.settled.store(true, Ordering::Relaxed);
        }
    }

    /// What is to be expected of `per_neighbour` bytes that go to each neighbour over all channels; `None` before the
    /// first phase.
    pub fn expected(&self, per_neighbour: u64) -> Option<u64> {
        if !self.settled.load(Ordering::Relaxed) {
            return None;
        }
        let (count, channels) = (self.to.count(), self.channels.load(Ordering::Relaxed).max(1));
        if let Some(all) = per_neighbour.checked_mul(u64::from(count)) {
            return Some(all / u64::from(channels));
        }
        let bytes = u128::from(per_neighbour) * u128::from(count) / u128::from(channels);
        Some(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_once_and_the_only_rank_is_known_until_there_is_another() {
        let pairs = Pairs::default();
        assert_eq!(pairs.only(), None);
        assert!(pairs.note(0, 3) && !pairs.note(0, 3) && pairs.note(1, 3));
        assert_eq!((pairs.count(), pairs.only()), (2, Some(3)));
        assert!(pairs.note(0, 4));
        assert_eq!((pairs.count(), pairs.only()), (3, None));
        assert!(!pairs.note(200, 1) && !pairs.note(0, NO_RANK));
        assert!(pairs.note(0, 5) && pairs.note(0, 6) && !pairs.note(0, 7), "a channel has no more neighbours than fit");
    }

    #[test]
    fn a_rank_that_leaves_its_host_on_half_the_channels_sends_half() {
        let near = Neighbours::default();
        near.runs_on(4);
        near.settle();
        assert_eq!(near.expected(1000), None, "nothing was seen yet");
        near.to.note(0, 1);
        near.to.note(2, 1);
        near.settle();
        assert_eq!(near.expected(1000), Some(500));
        assert_eq!(near.expected(u64::MAX), Some(u64::MAX / 2));
    }
}
