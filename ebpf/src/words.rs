//! The order in which words that are shared with the kernel's programs are written and read: orders, measurements, and who has a row.
//!
//! This file is compiled twice: here, and by `tests/memory.rs` on the memory of a model.

use super::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The words of a row of orders.
pub struct OrderWords<'a> {
    /// Whom the order is for; 0: nobody, while it changes.
    pub generation: &'a AtomicU32,
    /// Bytes/s.
    pub rate: &'a AtomicU64,
    /// Until when.
    pub expiry: &'a AtomicU64,
    /// What it may send beyond the rate.
    pub link: &'a AtomicU64,
    /// How it may.
    pub flags: &'a AtomicU32,
}

/// What an order says, in the same words.
#[derive(Clone, Copy)]
pub struct Order {
    /// As [`OrderWords::rate`].
    pub rate: u64,
    /// As [`OrderWords::expiry`].
    pub expiry: u64,
    /// As [`OrderWords::link`].
    pub link: u64,
    /// As [`OrderWords::flags`].
    pub flags: u32,
}

impl OrderWords<'_> {
    /// Writes an order so that a hook sees all of it or none: each store is ordered after the one before.
    pub fn write(&self, generation: u32, order: Order) {
        self.generation.store(0, Ordering::Release);
        self.rate.store(order.rate, Ordering::Release);
        self.expiry.store(order.expiry, Ordering::Release);
        self.link.store(order.link, Ordering::Release);
        self.flags.store(order.flags, Ordering::Release);
        self.generation.store(generation, Ordering::Release);
    }
}

/// One try to copy what a hook writes under a sequence number, which is odd while it does; `None`: it wrote meanwhile.
pub fn read<T>(seq: &AtomicU32, copy: impl FnOnce() -> T) -> Option<T> {
    let before = seq.load(Ordering::Acquire);
    if before & 1 == 1 {
        return None;
    }
    let copied = copy();
    fence(Ordering::Acquire);
    (seq.load(Ordering::Acquire) == before).then_some(copied)
}

/// Takes a row from the owner of this generation; false: somebody else has it, or nobody.
pub fn reclaim(owner: &AtomicU32, flags: &AtomicU32, generation: u32) -> bool {
    let next = generation.wrapping_add(1).max(1);
    let taken = owner.compare_exchange(generation, next, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if taken {
        flags.store(0, Ordering::SeqCst);
    }
    taken
}
