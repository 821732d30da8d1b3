//! Why a close needs the strongest order: every execution of one close beside one call, by the rule that decides it.
//!
//! Each thread writes one place and then reads the other. Two accesses of a thread may change places unless both take part
//! in the one order of all sequentially consistent accesses, which is what arm64 makes of them too: there a swap that
//! acquires and releases may still be passed by an acquiring load that follows it.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A call: one user more.
    Enter,
    /// A call: the pointer is read.
    Take,
    /// A close: the pointer leaves the table.
    Withdraw,
    /// A close: is anybody inside?
    Ask,
}

/// The orders in which a thread's two accesses may take effect.
fn orders([first, second]: [Step; 2], order: Ordering) -> Vec<[Step; 2]> {
    let either = [[first, second], [second, first]];
    either.into_iter().take(if order == Ordering::SeqCst { 1 } else { 2 }).collect()
}

/// Does a close free what a call has taken, in some execution?
fn frees_under_a_call(order: Ordering) -> bool {
    let (calls, closes) = (orders([Step::Enter, Step::Take], order), orders([Step::Withdraw, Step::Ask], order));
    let mut bad = false;
    for (call, close) in calls.iter().flat_map(|call| closes.iter().map(move |close| (call, close))) {
        // All ways to lay two steps of the one among two of the other.
        for at in (0_u32..16).filter(|at| at.count_ones() == 2) {
            let (mut call, mut close) = (call.iter(), close.iter());
            let (mut inside, mut present, mut taken, mut freed) = (false, true, false, false);
            for turn in 0..4 {
                let step = if at >> turn & 1 == 1 { call.next() } else { close.next() };
                match step.expect("two each") {
                    Step::Enter => inside = true,
                    Step::Take => taken = present,
                    Step::Withdraw => present = false,
                    Step::Ask => freed = !inside,
                }
            }
            bad |= taken && freed;
        }
    }
    bad
}

#[test]
fn no_execution_of_a_close_frees_what_a_call_holds_and_less_order_would() {
    assert!(!frees_under_a_call(HANDSHAKE), "the order that `sluice_close` uses");
    assert!(frees_under_a_call(Ordering::AcqRel), "what it must not be weakened to");
}

/// The same on this machine's own memory: the two patterns side by side, many times.
#[test]
fn a_close_and_a_call_never_miss_each_other() {
    const ROUNDS: u64 = 20_000;
    let (users, pointer) = (AtomicUsize::new(0), AtomicPtr::new(ptr::dangling_mut::<u8>()));
    let (missed, answer) = (AtomicU64::new(0), [AtomicBool::new(false), AtomicBool::new(false)]);
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                barrier.wait();
                users.fetch_add(1, HANDSHAKE);
                answer[0].store(!pointer.load(HANDSHAKE).is_null(), Ordering::Relaxed);
                barrier.wait();
            }
        });
        for _ in 0..ROUNDS {
            users.store(0, Ordering::SeqCst);
            pointer.store(ptr::dangling_mut(), Ordering::SeqCst);
            barrier.wait();
            let held = pointer.swap(ptr::null_mut(), HANDSHAKE);
            answer[1].store(!held.is_null() && users.load(HANDSHAKE) == 0, Ordering::Relaxed);
            barrier.wait();
            let both = answer.iter().all(|answer| answer.load(Ordering::Relaxed));
            missed.fetch_add(both.into(), Ordering::Relaxed);
        }
    });
    assert_eq!(missed.load(Ordering::Relaxed), 0, "taken and freed");
}
