//! When the network phase of a communicator is over. Not when no operation happens to be under way: between two
//! collectives in a row there is none for a moment, although the next has long been enqueued.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is enqueued and what has been on the wire. How many operations are under way is what the page counts: an event
/// costs what its locked operations cost.
#[derive(Debug, Default)]
pub struct Work {
    /// Number of the last piece of work that will go over the network.
    last: AtomicU64,
    /// The highest number of which an operation ended.
    done: AtomicU64,
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
    /// A piece of work that will go over the network is enqueued, with this number: higher than all before, not 0.
    pub fn enqueued(&self, number: u64) {
        if self.last() < number {
            self.last.store(number, Ordering::Release);
        }
    }

    /// The number of the last piece of work.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// Is something enqueued that no operation has ended of?
    pub fn pending(&self) -> bool {
        self.done.load(Ordering::SeqCst) < self.last()
    }

    /// An operation begins. True: the page has to count it; false: it does already.
    pub fn op_begins(&self) -> bool {
        !self.release()
    }

    /// An operation of the work with this number has ended. [`Work::op_ends`] follows.
    pub fn op_done(&self, number: u64) {
        // It only rises, so a look is enough where it is as high already.
        if self.done.load(Ordering::SeqCst) < number {
            self.done.fetch_max(number, Ordering::SeqCst);
        }
    }

    /// An operation ends while the page counts so many.
    pub fn op_ends(&self, counted: u64) -> Ended {
        let held = self.held.load(Ordering::SeqCst);
        if counted != 1 + u64::from(held) {
            return Ended::One;
        }
        if !self.pending() {
            return Ended::Phase { held: self.release() };
        }
        if held || self.held.swap(true, Ordering::SeqCst) { Ended::One } else { Ended::Held }
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
                        model.last += 1 + u64::from(pick % 3);
                        work.enqueued(model.last);
                        prop_assert_eq!(work.last(), model.last);
                    }
                    1 if model.last > 0 => {
                        model.open.push(u64::from(pick) % model.last + 1);
                        model.page += i64::from(work.op_begins());
                    }
                    2 if !model.open.is_empty() => {
                        let number = model.open.swap_remove(usize::from(pick) % model.open.len());
                        model.ended.push(number);
                        work.op_done(number);
                        let ended = work.op_ends(model.page as u64);
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
