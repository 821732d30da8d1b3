//! The sequence number around fields that belong together: odd while they change, so that whoever saw it odd, or another one after
//! his look than before it, has seen nothing.
//!
//! This file is compiled twice: here, and by `tests/memory.rs` on the memory of a model.

use super::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A sequence number, as wide as its place in the page.
pub trait Number {
    /// As it stands; nothing is ordered by that.
    fn value(&self) -> u64;
    /// Another one, of which as much counts as there is room for.
    fn set(&self, value: u64, order: Ordering);
}

impl Number for AtomicU64 {
    fn value(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
    fn set(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

impl Number for AtomicU32 {
    fn value(&self) -> u64 {
        self.load(Ordering::Relaxed).into()
    }
    fn set(&self, value: u64, order: Ordering) {
        self.store(value as u32, order);
    }
}

/// Changes the fields that `seq` is around. Only one thread at a time may do so; one that died within it left an odd number, which
/// ends here.
pub fn changed<T>(seq: &impl Number, change: impl FnOnce() -> T) -> T {
    let odd = seq.value() | 1;
    seq.set(odd, Ordering::Relaxed);
    fence(Ordering::Release);
    let changed = change();
    seq.set(odd.wrapping_add(1), Ordering::Release);
    changed
}
