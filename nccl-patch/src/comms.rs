//! The contexts of communicators: a static table. A context is an index and a generation, never a pointer.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::comm::Comm;

/// Communicators of one process that are served at once.
pub const MAX_COMMUNICATORS: usize = 64;
/// Turns of an end that waits for other threads; after that the communicator stays allocated for ever.
const END_TURNS: u32 = 100_000;
/// The top byte of every context: no address on this architecture looks so.
const TAG: u64 = 0x5c << 56;
const GENERATIONS: u64 = 1 << 48;

struct Slot {
    comm: AtomicPtr<Comm>,
    generation: AtomicU64,
    users: AtomicUsize,
}

struct Table([Slot; MAX_COMMUNICATORS]);

/// The communicators of this process.
static TABLE: Table = Table::new();

/// Takes a place for a communicator; its context, or `None` when all are taken.
pub fn begin(comm: Box<Comm>) -> Option<u64> {
    TABLE.begin(comm)
}

/// The communicator of a context; `None` for anything that is not one, or one that has ended.
pub fn enter(context: u64) -> Option<Inside> {
    TABLE.enter(context)
}

/// Ends a communicator, once; its page is removed.
pub fn end(context: u64) {
    TABLE.end(context);
}

/// A communicator that does not go away while this is held.
pub struct Inside {
    slot: &'static Slot,
    // No reference: that would have to hold until a function returns that this was given to, and the communicator may go as soon
    // as this is dropped in there.
    comm: NonNull<Comm>,
}

impl std::ops::Deref for Inside {
    type Target = Comm;
    fn deref(&self) -> &Comm {
        // SAFETY: while this is counted in `users`, an end does not free what it has swapped out.
        unsafe { self.comm.as_ref() }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.slot.users.fetch_sub(1, Ordering::Release);
    }
}

impl Table {
    const fn new() -> Self {
        Self(
            [const {
                Slot {
                    comm: AtomicPtr::new(ptr::null_mut()),
                    generation: AtomicU64::new(0),
                    users: AtomicUsize::new(0),
                }
            }; MAX_COMMUNICATORS],
        )
    }

    fn begin(&self, comm: Box<Comm>) -> Option<u64> {
        let comm = Box::into_raw(comm);
        for (index, slot) in self.0.iter().enumerate() {
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            if slot.users.load(Ordering::SeqCst) == 0
                && slot.comm.compare_exchange(ptr::null_mut(), comm, order.0, order.1).is_ok()
            {
                let generation = slot.generation.load(Ordering::SeqCst) % GENERATIONS;
                return Some(TAG | generation << 8 | index as u64);
            }
        }
        // SAFETY: no slot took the pointer, it is still only ours.
        drop(unsafe { Box::from_raw(comm) });
        None
    }

    fn enter(&'static self, context: u64) -> Option<Inside> {
        let (slot, generation) = self.slot_of(context)?;
        // Entered before the generation is read: an end that moves it on afterwards waits for this thread.
        slot.users.fetch_add(1, Ordering::SeqCst);
        let comm = slot.comm.load(Ordering::SeqCst);
        if slot.generation.load(Ordering::SeqCst) % GENERATIONS == generation
            && let Some(comm) = NonNull::new(comm)
        {
            return Some(Inside { slot, comm });
        }
        slot.users.fetch_sub(1, Ordering::Release);
        None
    }

    fn end(&self, context: u64) {
        let Some((slot, generation)) = self.slot_of(context) else { return };
        let now = slot.generation.load(Ordering::SeqCst);
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        if now % GENERATIONS != generation
            || slot.comm.load(Ordering::SeqCst).is_null()
            || slot.generation.compare_exchange(now, now.wrapping_add(1), order.0, order.1).is_err()
        {
            return;
        }
        let comm = slot.comm.swap(ptr::null_mut(), Ordering::SeqCst);
        for _ in 0..END_TURNS {
            // Not a load: whoever adds himself after this has seen it, and with it the generation that has moved on.
            if slot.users.fetch_add(0, Ordering::SeqCst) == 0 {
                if !comm.is_null() {
                    // SAFETY: the pointer left the table and nobody is inside.
                    drop(unsafe { Box::from_raw(comm) });
                }
                return;
            }
            std::thread::yield_now();
        }
    }

    fn slot_of(&self, context: u64) -> Option<(&Slot, u64)> {
        if context >> 56 != TAG >> 56 {
            return None;
        }
        let index = usize::try_from(context & 0xff).ok()?;
        Some((self.0.get(index)?, (context >> 8) % GENERATIONS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Shape;

    /// Miri follows every access (`cargo xtask verify --long miri`), and needs fewer.
    const ROUNDS: usize = if cfg!(miri) { 4 } else { 200 };

    fn comm() -> Box<Comm> {
        Box::new(Comm::new(None, Shape { nranks: 2, nnodes: 2, rank: 0, pid: 1 }, None))
    }

    #[test]
    fn a_context_ends_once_and_its_place_is_used_again_under_another_number() {
        static TABLE: Table = Table::new();
        let first = TABLE.begin(comm()).expect("room");
        assert!(TABLE.enter(first).is_some());
        TABLE.end(first);
        TABLE.end(first);
        assert!(TABLE.enter(first).is_none());
        let held: Vec<u64> = std::iter::from_fn(|| TABLE.begin(comm())).collect();
        assert_eq!(held.len(), MAX_COMMUNICATORS);
        assert!(!held.contains(&first));
        for context in [0, 1, u64::MAX, TAG | 0xff, TAG | 77 << 8] {
            assert!(TABLE.enter(context).is_none(), "{context:#x}");
            TABLE.end(context);
        }
        held.into_iter().for_each(|context| TABLE.end(context));
        assert!(TABLE.begin(comm()).map(|context| TABLE.end(context)).is_some());
    }

    #[test]
    fn an_end_while_threads_are_inside_frees_nothing_under_them() {
        static TABLE: Table = Table::new();
        for _ in 0..ROUNDS {
            let context = TABLE.begin(comm()).expect("room");
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| while TABLE.enter(context).is_some_and(|inside| inside.writer().is_none()) {});
                }
                TABLE.end(context);
            });
            assert!(TABLE.enter(context).is_none());
        }
    }
}
