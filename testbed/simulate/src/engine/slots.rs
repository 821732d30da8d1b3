//! Places for flows: a job's stand next to each other, and are used again when the job has gone.

use std::collections::BTreeMap;
use std::ops::Range;

/// Hands out stretches of places.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Free stretches by their length: jobs come in few sizes.
    free: BTreeMap<usize, Vec<usize>>,
    len: usize,
}

impl Slots {
    /// A stretch of so many places that nobody uses.
    pub(super) fn take(&mut self, count: usize) -> Range<usize> {
        let start = match self.free.get_mut(&count).and_then(Vec::pop) {
            Some(start) => start,
            None => {
                self.len += count;
                self.len - count
            }
        };
        start..start + count
    }

    /// A stretch that was taken is free again.
    pub(super) fn give_back(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.free.entry(range.len()).or_default().push(range.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_used_again_and_never_twice() {
        let mut slots = Slots::default();
        let (a, b) = (slots.take(3), slots.take(2));
        assert_eq!((a.clone(), b.clone()), (0..3, 3..5));
        slots.give_back(a.clone());
        assert_eq!(slots.take(2), 5..7);
        assert_eq!(slots.take(3), a);
        assert_eq!(slots.take(0), 7..7);
    }
}
