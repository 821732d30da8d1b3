//! The system calls: into the real-time class, out of it, and out of it by the kernel's own signal.
//!
//! The kernel counts how long a real-time thread runs without a sleep (RLIMIT_RTTIME) and says SIGXCPU to the *process*,
//! even in the middle of a decision that does not end. So the handler takes the class from the thread that has it, by its
//! number, whichever thread the signal has come to. The soft limit is this thread's to set; at the hard limit the kernel
//! would kill the process, so it has to lie far behind.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, sigaction};
use sluice_schedule::Nanos;

/// The lowest priority of the class: everything that is real-time for a better reason goes before.
const PRIORITY: libc::c_int = 1;
/// Less than this the kernel's ticks cannot count, at 100 of them in a second.
const LEAST: Nanos = Nanos::from_millis(20);
/// Long enough to leave the processor: a shorter timer may be over before the thread sleeps.
const SLEEP: Duration = Duration::from_micros(200);
const CAP_SYS_NICE: u32 = 23;

/// The number of the thread that is real-time; its negative once the handler has ended that; 0: none is.
static THREAD: AtomicI32 = AtomicI32::new(0);

/// Why a thread is not real-time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Neither the limit nor a capability allows it.
    #[error("RLIMIT_RTPRIO is 0, and CAP_SYS_NICE is missing")]
    Permission,
    /// The limits allow it, and it is refused all the same.
    #[error(
        "its limits allow it, but not the kernel: a cpu cgroup without real-time runtime (CONFIG_RT_GROUP_SCHED), a \
         user namespace, or a filter of system calls"
    )]
    Elsewhere,
    /// The kernel would kill the process before the thread could give it back.
    #[error("the hard limit of RLIMIT_RTTIME is {hard_us} µs; 40 000 or more leave time to give it back")]
    Deadly {
        /// The limit in microseconds.
        hard_us: u64,
    },
    /// Another thread of this process has it.
    #[error("another thread of this process is real-time")]
    Taken,
    /// Anything else.
    #[error("the kernel says: {0}")]
    Other(Errno),
}

/// Makes the calling thread real-time, for at most `slice` without a sleep.
pub fn take(slice: Nanos) -> Result<(), Refusal> {
    let tid = nix::unistd::gettid().as_raw();
    if THREAD.compare_exchange(0, tid, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return Err(Refusal::Taken);
    }
    enter(tid, slice).inspect_err(|_| give_back())
}

fn enter(tid: i32, slice: Nanos) -> Result<(), Refusal> {
    let (_, hard) = getrlimit(Resource::RLIMIT_RTTIME).map_err(Refusal::Other)?;
    let slice = if hard == RLIM_INFINITY { slice.0 / 1_000 } else { (slice.0 / 1_000).min(hard / 2) };
    if slice < LEAST.0 / 1_000 {
        return Err(Refusal::Deadly { hard_us: hard });
    }
    listen().map_err(Refusal::Other)?;
    // The kernel goes on counting where an earlier time in the class ended, until the thread has slept once in it: so the
    // limit comes after the first sleep. What was counted before is far from the hard limit.
    setrlimit(Resource::RLIMIT_RTTIME, hard, hard).map_err(Refusal::Other)?;
    schedule(tid, libc::SCHED_RR, PRIORITY).map_err(|errno| match errno {
        Errno::EPERM if may() => Refusal::Elsewhere,
        Errno::EPERM => Refusal::Permission,
        errno => Refusal::Other(errno),
    })?;
    std::thread::sleep(SLEEP);
    setrlimit(Resource::RLIMIT_RTTIME, slice, hard).map_err(Refusal::Other)
}

/// Makes the calling thread an ordinary one again, with the nice value that it has.
pub fn give_back() {
    let tid = nix::unistd::gettid().as_raw();
    // Always allowed. Children keep being ordinary: who may not take that flag away leaves it.
    let _ = schedule(tid, libc::SCHED_OTHER, 0);
    let _ = THREAD.compare_exchange(tid, 0, Ordering::SeqCst, Ordering::SeqCst);
    let _ = THREAD.compare_exchange(-tid, 0, Ordering::SeqCst, Ordering::SeqCst);
}

/// Has the handler taken it from the calling thread?
pub fn overran() -> bool {
    THREAD.load(Ordering::Relaxed) == -nix::unistd::gettid().as_raw()
}

/// `sched_setscheduler`, past the C library: musl's always fails.
fn schedule(tid: i32, policy: libc::c_int, priority: libc::c_int) -> Result<(), Errno> {
    let policy = policy | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads one int, the priority, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const priority) };
    Errno::result(result).map(drop)
}

/// Do the thread's limit or its capabilities allow a real-time class?
fn may() -> bool {
    let by_limit = getrlimit(Resource::RLIMIT_RTPRIO).is_ok_and(|(soft, _)| soft >= PRIORITY as u64);
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    by_limit || effective.is_some_and(|set| set & (1 << CAP_SYS_NICE) != 0)
}

/// The handler, once for the process; and the calling thread takes the signal, whatever its parent has blocked.
fn listen() -> Result<(), Errno> {
    static SET: OnceLock<Result<(), Errno>> = OnceLock::new();
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXCPU);
    let action = SigAction::new(SigHandler::Handler(on_overrun), SaFlags::SA_RESTART, SigSet::all());
    // SAFETY: the handler does only what a handler may: atomics and a system call.
    SET.get_or_init(|| unsafe { sigaction(Signal::SIGXCPU, &action) }.map(drop))
        .and_then(|()| pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&signals), None))
}

extern "C" fn on_overrun(_: libc::c_int) {
    // SAFETY: the calling thread's own errno, which the code that was interrupted may be about to read.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let errno = unsafe { *place };
    let tid = THREAD.load(Ordering::SeqCst);
    if tid > 0 && schedule(tid, libc::SCHED_OTHER, 0).is_ok() {
        let _ = THREAD.compare_exchange(tid, -tid, Ordering::SeqCst, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *place = errno };
}
