//! When a round of a process begins and when all it usually sends in one is sent, from the keys alone: lock-free, in a
//! fixed table.
//!
//! A round is the n-th time for some key, for the highest n so far. A worker that lags behind, whose keys come n−1 times
//! meanwhile, begins none.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Keys that are followed; those of further ones count in bytes only.
const CELLS: usize = 4096;
/// Cells that are tried for a key.
const PROBES: usize = 256;
/// Keys that differ in these bits only lie side by side: they come one after the other, and memory that was not read for
/// a while is most of what a small tensor costs.
const BESIDE: u64 = 7;

/// The keys of one kind of message.
pub struct Rounds {
    cells: [Cell; CELLS],
    /// Keys in the table.
    known: AtomicU32,
    /// The round under way; 0 before the first.
    round: AtomicU32,
    /// Keys that are through with it.
    done: AtomicU32,
    /// Bytes of all keys as each came last.
    bytes: AtomicU64,
}

struct Cell {
    /// Key of the tensor; 0 where the row is free.
    id: AtomicU64,
    count: AtomicU32,
    bytes: AtomicU64,
    done_in: AtomicU32,
}

/// Names a key at one peer; never 0.
pub fn id(peer: u64, key: u64) -> u64 {
    let (group, within) = (key & !BESIDE, key & BESIDE);
    let mixed = (peer ^ group.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ group;
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed & !(2 * BESIDE + 1) | within << 1 | 1
}

impl Rounds {
    pub const fn new() -> Rounds {
        let cells = [const {
            Cell {
                id: AtomicU64::new(0),
                count: AtomicU32::new(0),
                bytes: AtomicU64::new(0),
                done_in: AtomicU32::new(0),
            }
        }; CELLS];
        let (known, round, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        Rounds { cells, known, round, done, bytes: AtomicU64::new(0) }
    }

    /// This key comes, with so many bytes. True: a round begins with it.
    pub fn comes(&self, id: u64, bytes: u64) -> bool {
        let Some(cell) = self.cell(id) else { return false };
        // Nearly always a key comes as it came before; locked operations are what this costs.
        if cell.bytes.load(Relaxed) != bytes {
            let before = cell.bytes.swap(bytes, Relaxed);
            self.bytes.fetch_add(bytes.wrapping_sub(before), Relaxed);
        }
        let count = cell.count.fetch_add(1, Relaxed).wrapping_add(1);
        let round = self.round.load(Relaxed);
        let begins = count > round && self.round.compare_exchange(round, count, Relaxed, Relaxed).is_ok();
        if begins {
            self.done.store(0, Relaxed);
        }
        begins
    }

    /// This key is through. True: with it all are, as far as earlier rounds showed.
    pub fn is_through(&self, id: u64) -> bool {
        let (Some(cell), round) = (self.cell(id), self.round.load(Relaxed)) else { return false };
        if cell.done_in.swap(round, Relaxed) == round {
            return false;
        }
        let done = self.done.fetch_add(1, Relaxed) + 1;
        round > 1 && done >= self.known.load(Relaxed)
    }

    /// Bytes of a whole round; `None` in the first, which is not known to be whole.
    pub fn usual(&self) -> Option<u64> {
        (self.round.load(Relaxed) > 1).then(|| self.bytes.load(Relaxed))
    }

    pub fn any(&self) -> bool {
        self.round.load(Relaxed) > 0
    }

    fn cell(&self, id: u64) -> Option<&Cell> {
        let start = (id >> 40 & !BESIDE | id >> 1 & BESIDE) as usize;
        for step in 0..PROBES {
            let cell = self.cells.get((start + step) % CELLS)?;
            if cell.id.load(Relaxed) == id {
                return Some(cell);
            }
            match cell.id.compare_exchange(0, id, Relaxed, Relaxed) {
                Ok(_) => {
                    self.known.fetch_add(1, Relaxed);
                    return Some(cell);
                }
                Err(found) if found == id => return Some(cell),
                Err(_) => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    /// The same with all that ever came in hand.
    #[derive(Default)]
    struct Naive {
        came: Vec<(u64, u64)>,
        through: HashSet<u64>,
        rounds: usize,
    }

    impl Naive {
        fn comes(&mut self, key: u64, bytes: u64) -> bool {
            self.came.push((key, bytes));
            let times = self.came.iter().filter(|(other, _)| *other == key).count();
            let begins = times > self.rounds;
            if begins {
                self.rounds = times;
                self.through.clear();
            }
            begins
        }

        fn is_through(&mut self, key: u64) -> bool {
            let keys: HashSet<u64> = self.came.iter().map(|(key, _)| *key).collect();
            self.through.insert(key) && self.rounds > 1 && self.through.len() >= keys.len()
        }

        fn usual(&self) -> u64 {
            self.came.iter().copied().collect::<HashMap<_, _>>().values().sum()
        }
    }

    proptest! {
        #[test]
        fn rounds_are_what_counting_everything_says(keys in prop::collection::vec((1_u64..8, 1_u64..1000), 0..60)) {
            let (rounds, mut naive) = (Box::new(Rounds::new()), Naive::default());
            for (key, bytes) in keys {
                prop_assert_eq!(rounds.comes(id(7, key), bytes), naive.comes(key, bytes));
                prop_assert_eq!(rounds.is_through(id(7, key)), naive.is_through(key));
                prop_assert_eq!(rounds.usual(), (naive.rounds > 1).then(|| naive.usual()));
            }
        }
    }

    #[test]
    fn every_round_begins_once_however_many_threads_send() {
        let rounds = Box::new(Rounds::new());
        let begun = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (rounds, begun) = (&rounds, &begun);
                scope.spawn(move || {
                    for _ in 0..500 {
                        for key in 0..20 {
                            begun.fetch_add(rounds.comes(id(thread, key), 10).into(), Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!((begun.load(Relaxed), rounds.usual()), (500, Some(4 * 20 * 10)));
    }

    #[test]
    fn a_full_table_follows_no_further_key_and_no_id_is_free() {
        let rounds = Box::new(Rounds::new());
        let followed = (0..3 * CELLS as u64).filter(|key| rounds.cell(id(1, *key)).is_some()).count();
        assert!(followed <= CELLS && followed > CELLS / 2, "{followed}");
        assert_eq!(rounds.known.load(Relaxed) as usize, followed);
        assert!((0..1000).all(|key| id(key, key) != 0 && id(0, key) != 0));
        let ids: HashSet<u64> = (0..100).flat_map(|peer| (0..1000).map(move |key| id(peer << 20, key))).collect();
        assert_eq!(ids.len(), 100 * 1000);
    }
}
