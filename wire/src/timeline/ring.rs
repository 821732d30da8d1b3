//! A ring of records in shared pieces, and the names that belong to them: a copy costs a pointer for each piece.
//!
//! Whoever reads a timeline takes a copy while the deciding loop waits, and may then be slow. Of the records only those of
//! the last piece are copied; all others are shared for as long as a reader has them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Records in a piece at most. No copy takes more of them along.
pub(super) const PIECE: usize = 512;
/// A ring has at least so many pieces, so that what is forgotten and still in memory is a small part of it.
const LEAST_PIECES: usize = 16;
/// Names of one generation; there are two.
const MAX_NAMES: usize = 2048;
/// Characters of a name.
const MAX_NAME: usize = 128;

/// The newest records, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    pieces: VecDeque<Arc<Vec<T>>>,
    /// The newest records, which become a piece once they are enough.
    open: Vec<T>,
    /// So many of the first piece are forgotten.
    forgotten: usize,
    /// Records that are not forgotten.
    kept: usize,
    /// Records kept at most.
    most: usize,
}

impl<T> Ring<T> {
    /// An empty ring that keeps so many bytes of records.
    pub fn new(bytes: usize) -> Ring<T> {
        Ring { pieces: VecDeque::new(), open: Vec::new(), forgotten: 0, kept: 0, most: bytes / size_of::<T>() }
    }

    #[cfg(test)]
    pub const fn len(&self) -> usize {
        self.kept
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flat_map(|piece| piece.iter()).chain(&self.open).skip(self.forgotten)
    }

    /// The same from the newest on.
    pub fn newest_first(&self) -> impl Iterator<Item = &T> {
        let pieces = self.pieces.iter().rev().flat_map(|piece| piece.iter().rev());
        self.open.iter().rev().chain(pieces).take(self.kept)
    }

    /// Adds a record; the oldest goes if there is no room.
    pub fn push(&mut self, record: T) {
        if self.most == 0 {
            return;
        }
        if self.kept >= self.most {
            self.forget_first();
        }
        self.open.push(record);
        self.kept += 1;
        if self.open.len() >= (self.most / LEAST_PIECES).clamp(1, PIECE) {
            self.pieces.push_back(Arc::new(std::mem::take(&mut self.open)));
        }
    }

    /// Forgets the oldest records for as long as they are old.
    pub fn forget(&mut self, old: impl Fn(&T) -> bool) {
        while self.first().is_some_and(&old) {
            self.forget_first();
        }
    }

    fn first(&self) -> Option<&T> {
        self.pieces.front().map_or(self.open.as_slice(), |piece| piece.as_slice()).get(self.forgotten)
    }

    fn forget_first(&mut self) {
        self.forgotten += 1;
        self.kept -= 1;
        match self.pieces.front() {
            Some(piece) if piece.len() > self.forgotten => {}
            Some(_) => {
                self.pieces.pop_front();
                self.forgotten = 0;
            }
            None if self.open.len() > self.forgotten => {}
            None => {
                self.open.clear();
                self.forgotten = 0;
            }
        }
    }
}

/// Names by what they are of. Those that were given last are known for longest.
#[derive(Clone, Debug)]
pub(super) struct Names<K> {
    young: Arc<BTreeMap<K, String>>,
    old: Arc<BTreeMap<K, String>>,
}

impl<K> Default for Names<K> {
    fn default() -> Names<K> {
        Names { young: Arc::default(), old: Arc::default() }
    }
}

impl<K: Ord + Clone> Names<K> {
    pub fn get(&self, key: &K) -> Option<&str> {
        self.young.get(key).or_else(|| self.old.get(key)).map(String::as_str)
    }

    /// Gives this name. One that is known already costs no memory, also while somebody reads.
    pub fn set(&mut self, key: K, name: &str) {
        let clean = || name.chars().take(MAX_NAME).map(|c| if c.is_control() { '_' } else { c });
        let known = self.young.get(&key);
        if known.is_some_and(|known| known.chars().eq(clean())) {
            return;
        }
        if known.is_none() && self.young.len() >= MAX_NAMES {
            self.old = std::mem::take(&mut self.young);
        }
        Arc::make_mut(&mut self.young).insert(key, clean().collect());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Bytes of pieces that these rings have together; what they share counts once.
    fn shared(rings: &[Ring<[u64; 6]>]) -> usize {
        let pieces: BTreeSet<(usize, usize)> = rings
            .iter()
            .flat_map(|ring| &ring.pieces)
            .map(|piece| (Arc::as_ptr(piece) as usize, piece.len()))
            .collect();
        pieces.iter().map(|(_, records)| records * 48).sum()
    }

    #[test]
    fn sixty_four_copies_of_a_ring_are_hardly_more_than_one() {
        const BYTES: usize = 4 << 20;
        let mut ring = Ring::new(BYTES);
        (0..200_000).for_each(|n| ring.push([n; 6]));
        assert_eq!(ring.len(), BYTES / 48);
        let copies: Vec<Ring<[u64; 6]>> = (0..64)
            .map(|n| {
                ring.push([n; 6]);
                ring.clone()
            })
            .collect();
        // A copy takes a pointer for each piece, and the records of no whole piece.
        assert!(copies.iter().all(|copy| copy.open.len() < PIECE && copy.pieces.len() <= BYTES / 48 / PIECE + 1));
        let all = shared(&copies) + copies.iter().map(|copy| copy.open.len() * 48).sum::<usize>();
        assert!(all < BYTES + 64 * PIECE * 48, "{all} bytes");
        // What readers still have while everything became another is freed with the last of them.
        let first = Arc::downgrade(&copies[0].pieces[1]);
        (0..200_000).for_each(|n| ring.push([n; 6]));
        assert_eq!(copies[0].iter().last(), Some(&[0; 6]));
        assert!(first.upgrade().is_some());
        drop(copies);
        assert!(first.upgrade().is_none());
    }

    #[test]
    fn names_are_bounded_and_the_ones_in_use_stay() {
        let mut names = Names::default();
        names.set(0_u64, "in\nuse");
        for n in 1..100_000 {
            names.set(n, "passes by");
            names.set(0, "in\nuse");
        }
        assert!(names.young.len() + names.old.len() <= 2 * MAX_NAMES);
        assert_eq!((names.get(&0), names.get(&99_999), names.get(&1)), (Some("in_use"), Some("passes by"), None));
        // Somebody reads: what is known is not copied again.
        let reader = names.clone();
        names.set(0, "in\nuse");
        assert!(Arc::ptr_eq(&reader.young, &names.young));
        names.set(0, "another");
        assert_eq!((reader.get(&0), names.get(&0)), (Some("in_use"), Some("another")));
    }

    proptest! {
        #[test]
        fn it_is_a_queue_that_forgets_its_oldest(most in 0_usize..70, steps in prop::collection::vec(0_u64..40, 0..300)) {
            let (mut ring, mut queue) = (Ring::<u64>::new(most * 8), VecDeque::new());
            for step in steps {
                if step < 4 {
                    let below = step * 10;
                    ring.forget(|n| *n < below);
                    while queue.front().is_some_and(|n| *n < below) {
                        queue.pop_front();
                    }
                } else if most > 0 {
                    ring.push(step);
                    queue.push_back(step);
                    while queue.len() > most {
                        queue.pop_front();
                    }
                }
                prop_assert_eq!(ring.len(), queue.len());
                prop_assert!(ring.iter().eq(&queue));
                prop_assert!(ring.newest_first().eq(queue.iter().rev()));
            }
        }
    }
}
