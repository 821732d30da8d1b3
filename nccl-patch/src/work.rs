//! When the network phase of a communicator is over. Not when no operation happens to be under way: between two
//! collectives in a row there is none for a moment, although the next has long been enqueued.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts what is enqueued and what has been on the wire.
#[derive(Debug, Default)]
pub struct Work {
    /// Number of the last piece of work that will go over the network.
    enqueued: AtomicU64,
    /// The highest number of which an operation ended.
    done: AtomicU64,
    /// Operations under way.
    ops: AtomicU64,
    /// The page still counts the last operation, in place of the one that has to come.
    held: AtomicBool,
}

/// What the end of an operation means for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// One less is under way.
    One,
    /// More is enqueued: the page goes on.
    Held,
    /// All that was enqueued has been sent.
    Phase {
        /// The page counts one operation more than there is.
        held: bool,
    },
}

impl Work {
    /// A piece of work that will go over the network is enqueued; its number.
    pub fn enqueue(&self) -> u64 {
        self.enqueued.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The number of the last piece of work.
    pub fn last(&self) -> u64 {
        self.enqueued.load(Ordering::SeqCst)
    }

    /// Is something enqueued that no operation has ended of?
    pub fn pending(&self) -> bool {
        self.done.load(Ordering::SeqCst) < self.last()
    }

    /// An operation begins. True: the page has to count it; false: it does already.
    pub fn op_begins(&self) -> bool {
        self.ops.fetch_add(1, Ordering::SeqCst) != 0 || !self.release()
    }

    /// An operation of the work with this number ends.
    pub fn op_ends(&self, number: u64) -> Ended {
        // It only rises, so a look is enough where it is as high already; locked operations are what an event costs.
        if self.done.load(Ordering::SeqCst) < number {
            self.done.fetch_max(number, Ordering::SeqCst);
        }
        let before = self.ops.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |ops| ops.checked_sub(1));
        if before != Ok(1) {
            return Ended::One;
        }
        if !self.pending() {
            return Ended::Phase { held: self.release() };
        }
        if self.held.swap(true, Ordering::SeqCst) { Ended::One } else { Ended::Held }
    }

    /// The page no longer counts the operation that was held, if one was.
    fn release(&self) -> bool {
        self.held.load(Ordering::SeqCst) && self.held.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the page counts, and what is true.
    #[derive(Default)]
    struct Model {
        page: i64,
        open: Vec<u64>,
        ended: Vec<u64>,
        last: u64,
    }

    proptest! {
        #[test]
        fn a_phase_ends_exactly_when_the_last_work_was_sent(steps in prop::collection::vec((0_u8..3, any::<u16>()), 0..200)) {
            let (work, mut model) = (Work::default(), Model::default());
            for (what, pick) in steps {
                match what {
                    0 => {
                        model.last += 1;
                        prop_assert_eq!(work.enqueue(), model.last);
                    }
                    1 if model.last > 0 => {
                        model.open.push(u64::from(pick) % model.last + 1);
                        model.page += i64::from(work.op_begins());
                    }
                    2 if !model.open.is_empty() => {
                        let number = model.open.swap_remove(usize::from(pick) % model.open.len());
                        model.ended.push(number);
                        let ended = work.op_ends(number);
                        model.page -= match ended {
                            Ended::One => 1,
                            Ended::Held => 0,
                            Ended::Phase { held } => 1 + i64::from(held),
                        };
                        let over = model.open.is_empty() && model.ended.contains(&model.last);
                        prop_assert_eq!(matches!(ended, Ended::Phase { .. }), over);
                    }
                    _ => {}
                }
                // The page counts the operations, and one more while it waits for the next.
                let extra = model.page - model.open.len() as i64;
                prop_assert!(extra == 0 || extra == 1 && model.open.is_empty(), "{} {}", model.page, model.open.len());
            }
        }
    }
}
