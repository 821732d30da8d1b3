//! The sequence numbers of the progress page in every execution that a weakly ordered processor allows, with at most three
//! preemptions: `src/sequence.rs` itself, compiled on loom's memory, and a twin of `Reader::read`.
//!
//! The reader copies with read(2). Around each copy the kernel takes and puts the page's folio, by atomic operations that
//! order both sides; `barrier` stands for them.

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};

#[path = "../src/sequence.rs"]
mod sequence;

/// What `sequence` is compiled on.
mod atomic {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use Ordering::{Relaxed, Release, SeqCst};

fn barrier() {
    fence(SeqCst);
}

/// A group of fields that belong together, its sequence number, and the lock of the process that writes it.
struct Group {
    lock: Mutex<()>,
    seq: AtomicU64,
    first: AtomicU64,
    second: AtomicU64,
}

/// What a writer leaves out, to show that it is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    Fence,
    Lock,
}

impl Group {
    fn new() -> Arc<Group> {
        let zero = || AtomicU64::new(0);
        Arc::new(Group { lock: Mutex::new(()), seq: zero(), first: zero(), second: zero() })
    }

    fn write(&self, value: u64, without: Without) {
        let _guard = (without != Without::Lock).then(|| self.lock.lock().expect("nobody panics"));
        let change = || {
            self.first.store(value, Relaxed);
            self.second.store(value, Relaxed);
        };
        if without != Without::Fence {
            return sequence::changed(&self.seq, change);
        }
        let odd = self.seq.load(Relaxed) | 1;
        self.seq.store(odd, Relaxed);
        change();
        self.seq.store(odd.wrapping_add(1), Release);
    }

    /// One try; `None`: a writer was seen.
    fn read(&self) -> Option<(u64, u64)> {
        barrier();
        let before = self.seq.load(Relaxed);
        barrier();
        let seen = (self.first.load(Relaxed), self.second.load(Relaxed));
        barrier();
        let after = self.seq.load(Relaxed);
        (before == after && before & 1 == 0).then_some(seen)
    }
}

/// Two threads of a job write, the daemon reads.
fn two_write_and_one_reads(without: Without) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let group = Group::new();
        let threads = [1, 2].map(|value| {
            let group = group.clone();
            loom::thread::spawn(move || group.write(value, without))
        });
        if let Some((first, second)) = group.read() {
            assert_eq!(first, second, "a torn group");
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        let (first, second) = group.read().expect("nobody writes any more");
        assert_eq!(first, second, "a torn group");
    });
}

#[test]
fn a_group_is_read_as_one_thread_wrote_it() {
    two_write_and_one_reads(Without::Nothing);
}

#[test]
#[should_panic(expected = "a torn group")]
fn without_the_fence_it_would_be_torn() {
    two_write_and_one_reads(Without::Fence);
}

#[test]
#[should_panic(expected = "a torn group")]
fn without_the_lock_two_threads_would_tear_it() {
    two_write_and_one_reads(Without::Lock);
}

/// A writer that dies within a group leaves an odd number; whoever reads on is not shown the half of it, and the next writer
/// of the same page ends it.
#[test]
fn what_a_dead_writer_left_half_is_never_taken_and_the_next_ends_it() {
    loom::model(|| {
        let group = Group::new();
        // It died behind its first store.
        group.seq.store(1, Relaxed);
        group.first.store(9, Relaxed);
        let other = group.clone();
        let next = loom::thread::spawn(move || other.write(2, Without::Nothing));
        if let Some(seen) = group.read() {
            assert_eq!(seen, (2, 2));
        }
        next.join().expect("no panic");
        assert_eq!(group.read(), Some((2, 2)));
    });
}
