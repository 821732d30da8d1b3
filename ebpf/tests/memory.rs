//! The protocols over memory that the kernel's programs and the daemon share, in every execution that a weakly ordered
//! processor allows: `src/words.rs` itself, compiled on loom's memory, and twins of `bpf/sluice_maps.h`, word for word.
//!
//! A twin's `barrier` is what `fence()` in the header is on such a processor: an atomic operation that orders both sides.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[path = "../src/words.rs"]
mod words;

/// What `words` is compiled on.
mod atomic {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use Ordering::{Acquire, Relaxed, SeqCst};
use words::{Order, OrderWords, reclaim};

fn barrier() {
    fence(SeqCst);
}

/// One order, as the daemon writes it.
struct Ctl {
    rate: AtomicU64,
    expiry: AtomicU64,
    link: AtomicU64,
    flags: AtomicU32,
    generation: AtomicU32,
}

impl Ctl {
    fn new() -> Arc<Ctl> {
        let (zero, none) = (|| AtomicU64::new(0), || AtomicU32::new(0));
        Arc::new(Ctl { rate: zero(), expiry: zero(), link: zero(), flags: none(), generation: none() })
    }

    fn order(&self, generation: u32, value: u64) {
        let Ctl { rate, expiry, link, flags, generation: owner } = self;
        let order = Order { rate: value, expiry: value, link: value, flags: value as u32 };
        OrderWords { generation: owner, rate, expiry, link, flags }.write(generation, order);
    }

    /// `read_order`.
    fn read(&self, generation: u32, between: fn()) -> Option<(u64, u64)> {
        let before = self.generation.load(Relaxed);
        between();
        let (expiry, rate) = (self.expiry.load(Relaxed), self.rate.load(Relaxed));
        between();
        (before == generation && self.generation.load(Relaxed) == generation).then_some((rate, expiry))
    }
}

/// Orders for two owners of a row, one after the other, while the second one reads: does it ever take a part of the
/// first one's?
fn takes_anothers_order(between: fn()) {
    loom::model(move || {
        let ctl = Ctl::new();
        let writer = ctl.clone();
        let thread = loom::thread::spawn(move || {
            writer.order(5, 50);
            writer.order(6, 60);
        });
        if let Some(seen) = ctl.read(6, between) {
            assert_eq!(seen, (60, 60), "a part of another owner's order");
        }
        thread.join().expect("no panic");
    });
}

#[test]
fn an_order_is_taken_whole_by_the_owner_it_is_for() {
    takes_anothers_order(barrier);
}

#[test]
#[should_panic(expected = "a part of another owner's order")]
fn without_barriers_it_would_not_be() {
    takes_anothers_order(|| {});
}

/// What a hook measured.
struct Stat {
    seq: AtomicU32,
    acked: AtomicU64,
    queued: AtomicU64,
}

impl Stat {
    /// `write_row`.
    fn write(&self, value: u64, between: fn()) {
        let seq = self.seq.load(Relaxed);
        self.seq.store(seq | 1, Relaxed);
        between();
        self.acked.store(value, Relaxed);
        self.queued.store(value, Relaxed);
        between();
        self.seq.store((seq | 1) + 1, Relaxed);
    }

    /// One try.
    fn read(&self) -> Option<(u64, u64)> {
        words::read(&self.seq, || (self.acked.load(Relaxed), self.queued.load(Relaxed)))
    }
}

fn reads_a_torn_row(between: fn()) {
    loom::model(move || {
        let zero = || AtomicU64::new(0);
        let stat = Arc::new(Stat { seq: AtomicU32::new(0), acked: zero(), queued: zero() });
        let hook = stat.clone();
        let thread = loom::thread::spawn(move || {
            hook.write(1, between);
            hook.write(2, between);
        });
        if let Some((acked, queued)) = stat.read() {
            assert_eq!(acked, queued, "a torn row");
        }
        thread.join().expect("no panic");
    });
}

#[test]
fn a_row_is_read_as_one_hook_wrote_it() {
    reads_a_torn_row(barrier);
}

#[test]
#[should_panic(expected = "a torn row")]
fn without_barriers_it_would_be_torn() {
    reads_a_torn_row(|| {});
}

/// Who has a row: the hook that gives it back when its socket closes, the daemon that takes it from a silent one, and the
/// next socket.
#[test]
fn a_row_is_given_back_once_and_never_while_it_has_a_new_owner() {
    loom::model(|| {
        let (generation, free) = (Arc::new(AtomicU32::new(5)), Arc::new(AtomicU32::new(0)));
        let (other, others) = (generation.clone(), free.clone());
        // `free_row`.
        let hook = loom::thread::spawn(move || {
            if other.compare_exchange(5, 6, SeqCst, SeqCst).is_ok() {
                others.fetch_add(1, SeqCst);
            }
        });
        if reclaim(&generation, &AtomicU32::new(1), 5) {
            free.fetch_add(1, SeqCst);
        }
        // `take_row`, once the queue has it.
        if free.load(SeqCst) == 1 {
            generation.store(7, SeqCst);
        }
        hook.join().expect("no panic");
        assert_eq!(free.load(SeqCst), 1, "the queue holds the row twice, or not at all");
        assert!([6, 7].contains(&generation.load(SeqCst)));
    });
}

/// A daemon that adopts a row while its socket ends and the row gets another one: does an order for the first ever reach
/// the second? `checked` is whether a hook compares the generation of an order with its own.
fn adopts_while_a_row_changes_hands(checked: bool) {
    loom::model(move || {
        let (ctl, owner) = (Ctl::new(), Arc::new(AtomicU32::new(5)));
        let (orders, owners) = (ctl.clone(), owner.clone());
        // `Datapath::adopt`, in a process that has just been started: who has the row, and an order for that one.
        let daemon = loom::thread::spawn(move || {
            let generation = owners.load(Acquire);
            orders.order(generation, u64::from(generation) * 10);
        });
        // `free_row` by the socket that ends, `take_row` by the next one, which then looks for its orders.
        assert!(owner.compare_exchange(5, 6, SeqCst, SeqCst).is_ok());
        owner.store(7, SeqCst);
        let seen = if checked { ctl.read(7, barrier) } else { Some((ctl.rate.load(Relaxed), 0)) };
        if let Some((rate, _)) = seen {
            assert!([0, 70].contains(&rate), "an order for the socket before: {rate}");
        }
        daemon.join().expect("no panic");
    });
}

/// Promises: P-22
#[test]
fn an_adopted_order_never_reaches_the_next_socket_of_its_row() {
    adopts_while_a_row_changes_hands(true);
}

#[test]
#[should_panic(expected = "an order for the socket before")]
fn without_generations_it_would() {
    adopts_while_a_row_changes_hands(false);
}

/// A planned restart: the old daemon's last orders, then its lock is free; the new one takes the lock and renews. The lock is
/// flock's, in the kernel.
fn hands_over(locked: bool) {
    loom::model(move || {
        let (ctl, lock) = (Ctl::new(), Arc::new(loom::sync::Mutex::new(())));
        let (orders, held) = (ctl.clone(), lock.clone());
        let old = loom::thread::spawn(move || {
            let _held = locked.then(|| held.lock().expect("nobody panics"));
            orders.order(5, 1);
        });
        {
            let _held = locked.then(|| lock.lock().expect("nobody panics"));
            ctl.order(5, 2);
        }
        old.join().expect("no panic");
        // Whoever was last, the hook has one order whole.
        let (rate, expiry) = ctl.read(5, barrier).expect("an order stands");
        assert_eq!(rate, expiry, "a mixture of two daemons' orders");
    });
}

#[test]
fn two_daemons_never_mix_their_orders() {
    hands_over(true);
}

#[test]
#[should_panic(expected = "a mixture of two daemons' orders")]
fn without_the_lock_they_would() {
    hands_over(false);
}

/// The queue of free rows is the kernel's, under its lock; sockets come and go on two processors while the daemon takes a
/// silent one's row. No row is ever lost, or had by two.
#[test]
fn every_row_is_free_or_has_one_owner() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let queue = Arc::new(loom::sync::Mutex::new(vec![1_usize]));
        let generations = Arc::new([AtomicU32::new(5), AtomicU32::new(0)]);
        let give_back =
            |queue: &loom::sync::Mutex<Vec<usize>>, generations: &[AtomicU32; 2], row: usize, generation: u32| {
                let mine = generations[row].compare_exchange(generation, generation + 1, SeqCst, SeqCst).is_ok();
                if mine {
                    queue.lock().expect("nobody panics").push(row);
                }
            };
        let (queues, rows) = (queue.clone(), generations.clone());
        // The socket that has row 0 ends, on one processor ...
        let ends = loom::thread::spawn(move || give_back(&queues, &rows, 0, 5));
        let (queues, rows) = (queue.clone(), generations.clone());
        // ... another begins and ends, on another ...
        let begins = loom::thread::spawn(move || {
            let row = queues.lock().expect("nobody panics").pop();
            if let Some(row) = row {
                let generation = rows[row].load(SeqCst) + 1;
                rows[row].store(generation, SeqCst);
                give_back(&queues, &rows, row, generation);
            }
        });
        // ... and the daemon takes row 0, which it has seen silent under generation 5.
        if reclaim(&generations[0], &AtomicU32::new(1), 5) {
            queue.lock().expect("nobody panics").push(0);
        }
        ends.join().expect("no panic");
        begins.join().expect("no panic");
        let mut free = queue.lock().expect("nobody panics").clone();
        free.sort_unstable();
        assert_eq!(free, [0, 1]);
    });
}
