//! A heap of times by small index: each index has one time at most, and it can be changed.

/// Stands where no time is set.
pub(crate) const NEVER: u64 = u64::MAX;

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

/// The earliest of many times, each with an index. Equal times leave in order of index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    heap: Vec<(u64, u32)>,
    place: Vec<u32>,
}

impl Agenda {
    /// The earliest time, or [`NEVER`].
    pub(crate) fn next(&self) -> u64 {
        self.heap.first().map_or(NEVER, |e| e.0)
    }

    /// Gives an index its time; [`NEVER`] takes it out.
    pub(crate) fn set(&mut self, index: u32, time: u64) {
        if time == NEVER {
            return self.remove(index);
        }
        let i = index as usize;
        if self.place.len() <= i {
            self.place.resize(i + 1, NOWHERE);
        }
        let at = self.place[i];
        if at == NOWHERE {
            self.heap.push((time, index));
            self.place[i] = self.heap.len() as u32 - 1;
            self.rise(self.heap.len() - 1);
            return;
        }
        let at = at as usize;
        let old = std::mem::replace(&mut self.heap[at].0, time);
        if time < old {
            self.rise(at);
        } else if time > old {
            self.sink(at);
        }
    }

    /// Takes an index out, if it is in.
    pub(crate) fn remove(&mut self, index: u32) {
        let Some(at) = self.place.get(index as usize).copied().filter(|&p| p != NOWHERE) else { return };
        let at = at as usize;
        self.place[index as usize] = NOWHERE;
        let last = self.heap.len() - 1;
        self.heap.swap_remove(at);
        if at < last {
            self.place[self.heap[at].1 as usize] = at as u32;
            self.rise(at);
            self.sink(at);
        }
    }

    /// Takes an index whose time is `now` or before.
    pub(crate) fn pop(&mut self, now: u64) -> Option<u32> {
        let &(time, index) = self.heap.first()?;
        if time > now {
            return None;
        }
        self.remove(index);
        Some(index)
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let up = (at - 1) / 2;
            if self.heap[up] <= self.heap[at] {
                break;
            }
            self.swap(at, up);
            at = up;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                break;
            }
            let right = left + 1;
            let down = if right < self.heap.len() && self.heap[right] < self.heap[left] { right } else { left };
            if self.heap[at] <= self.heap[down] {
                break;
            }
            self.swap(at, down);
            at = down;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].1 as usize] = a as u32;
        self.place[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map from index to time, searched.
        #[test]
        fn a_map_would_say_the_same(steps in prop::collection::vec((0u32..20, 0u64..30, 0u8..4), 0..200)) {
            let (mut agenda, mut map) = (Agenda::default(), BTreeMap::new());
            for (index, time, what) in steps {
                match what {
                    0 => {
                        agenda.remove(index);
                        map.remove(&index);
                    }
                    1 => {
                        let first = map.iter().map(|(&i, &t)| (t, i)).min().filter(|&(t, _)| t <= time);
                        prop_assert_eq!(agenda.pop(time), first.map(|(_, i)| i));
                        first.map(|(_, i)| map.remove(&i));
                    }
                    _ => {
                        agenda.set(index, time);
                        map.insert(index, time);
                    }
                }
                prop_assert_eq!(agenda.next(), map.values().copied().min().unwrap_or(NEVER));
            }
        }
    }
}
