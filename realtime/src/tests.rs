//! Real threads of this process, and what the kernel says of them.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sluice_clock::{monotonic, thread_cpu};
use sluice_skip::skip;

use super::*;

const BOUND: Bound = Bound { slice: Nanos::from_millis(200), percent: 50 };
/// Says to a process of this test that it is one.
const ALONE: &str = "SLUICE_REALTIME_ALONE";
/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);

/// The policy of the calling thread with its flags, its priority, and its nice value.
#[allow(unsafe_code)]
fn policy() -> (libc::c_int, libc::c_int, libc::c_int) {
    let mut priority: libc::c_int = -1;
    // SAFETY: plain integers; the kernel writes one int.
    let policy = unsafe {
        libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority);
        libc::syscall(libc::SYS_sched_getscheduler, 0)
    };
    // SAFETY: plain integers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    (libc::c_int::try_from(policy).expect("a policy"), priority, nice)
}

const RR: libc::c_int = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
const OTHER: libc::c_int = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;

/// Tests change limits of the process and have its one place in turn; `None`: nobody here may be real-time.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !nix::unistd::geteuid().is_root() {
        skip!(Privilege, "not root");
        return None;
    }
    Some(turn)
}

/// Runs on a thread of its own, which may do with itself what it likes.
fn apart<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"))
}

fn taken(bound: Bound) -> Realtime {
    let mut realtime = Realtime::new(bound);
    assert_eq!(policy(), (libc::SCHED_OTHER, 0, NICE), "nothing is asked for yet");
    assert_eq!(realtime.look(true, monotonic(), thread_cpu()), Standing::Realtime);
    realtime
}

/// Gives up root, in this thread alone: the C library would ask all threads to.
#[allow(unsafe_code)]
fn nobody() {
    // SAFETY: plain integers.
    let done = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
    assert_eq!(done, 0, "root may");
}

/// Runs without a sleep until `over` or for too long.
fn spin(mut over: impl FnMut() -> bool) {
    let began = Instant::now();
    while !over() {
        assert!(began.elapsed() < PATIENCE, "nothing ends it");
    }
}

#[test]
fn the_thread_is_real_time_and_what_it_starts_is_not() {
    let Some(_turn) = turn() else { return };
    apart(|| {
        let mut realtime = taken(BOUND);
        assert_eq!(policy(), (RR, 1, NICE));
        assert_eq!(apart(policy), (libc::SCHED_OTHER, 0, 0), "a thread of its own");
        let stat = std::process::Command::new("cat").arg("/proc/self/stat").output().expect("cat").stdout;
        let stat = String::from_utf8(stat).expect("text");
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
        // nice, rt_priority and policy are numbers 19, 40 and 41 of proc(5); two are before the bracket.
        assert_eq!((fields[16], fields[37], fields[38]), ("0", "0", "0"), "a process of its own: {stat}");
        realtime.pause();
        assert_eq!(policy(), (OTHER, 0, NICE), "for work that can wait");
        assert_eq!(realtime.look(true, monotonic(), thread_cpu()), Standing::Realtime);
        assert_eq!(policy().0, RR, "and back");
        // A second thread of the process has to do without, and takes nothing away.
        let second = apart(|| Realtime::new(BOUND).look(true, monotonic(), thread_cpu()));
        assert_eq!((second, policy().0), (Standing::Refused(Refusal::Taken), RR));
        assert_eq!(realtime.look(false, monotonic(), thread_cpu()), Standing::Ordinary);
        assert_eq!(policy(), (OTHER, 0, NICE));
        realtime.look(true, monotonic(), thread_cpu());
        drop(realtime);
        assert_eq!(policy(), (OTHER, 0, NICE), "nobody forgets to give it back");
    });
}

#[test]
fn a_thread_that_does_not_sleep_loses_it_by_the_kernels_signal_and_may_ask_again_later() {
    let Some(_turn) = turn() else { return };
    apart(|| {
        let mut realtime = taken(BOUND);
        // As in a decision that does not end: nobody looks.
        spin(|| policy().0 != RR);
        assert_eq!(policy(), (OTHER, 0, NICE));
        let now = monotonic();
        let overran = Standing::Overran(Overrun::Slice { bound: BOUND.slice });
        assert_eq!(realtime.look(true, now, thread_cpu()), overran);
        realtime.pause();
        assert_eq!(realtime.look(true, now.plus(Backoff::MIN).minus(Nanos(1)), thread_cpu()), overran);
        assert_eq!(realtime.look(true, now.plus(Backoff::MIN), thread_cpu()), Standing::Realtime);
        // It begins anew: a few ticks of the kernel's clock do not end it again.
        let began = thread_cpu();
        spin(|| thread_cpu().minus(began) > Nanos(BOUND.slice.0 / 10));
        assert_eq!(policy().0, RR);
        // And the limit is where it was, not a second later, where the kernel has moved it meanwhile.
        spin(|| policy().0 != RR);
        assert!(thread_cpu().minus(began) < Nanos::from_millis(900), "{}", thread_cpu().minus(began));
        assert_eq!(realtime.look(true, monotonic(), thread_cpu()), overran);
    });
}

#[test]
fn the_signal_is_understood_in_whatever_thread_it_comes_to() {
    let Some(_turn) = turn() else { return };
    let ((told, tell), (done, wait)) = (mpsc::channel(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let mut realtime = taken(BOUND);
            told.send(()).expect("somebody waits");
            wait.recv_timeout(PATIENCE).expect("the signal was sent");
            (policy().0, realtime.look(true, monotonic(), thread_cpu()))
        });
        tell.recv_timeout(PATIENCE).expect("it is real-time");
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGXCPU).expect("sent to this very thread");
        done.send(()).expect("it waits");
        let (policy, standing) = thread.join().expect("it does not panic");
        assert_eq!((policy, standing), (OTHER, Standing::Overran(Overrun::Slice { bound: BOUND.slice })));
    });
}

#[test]
fn a_thread_that_takes_too_much_of_a_core_gives_it_back() {
    let Some(_turn) = turn() else { return };
    apart(|| {
        let mut realtime = taken(BOUND);
        let (at, second) = (monotonic(), Nanos::from_millis(1_000));
        assert_eq!(realtime.look(true, at, Nanos::ZERO), Standing::Realtime);
        assert_eq!(realtime.look(true, at.plus(second), Nanos::from_millis(499)), Standing::Realtime);
        let over = realtime.look(true, at.plus(second.times(2)), Nanos::from_millis(1_100));
        assert_eq!(over, Standing::Overran(Overrun::Share { percent: 60, bound: 50 }));
        assert_eq!(policy(), (OTHER, 0, NICE));
    });
}

/// How a thread without capabilities fares.
fn as_nobody() -> (Standing, Standing, (libc::c_int, libc::c_int, libc::c_int)) {
    apart(|| {
        let mut realtime = Realtime::new(BOUND);
        nobody();
        let at = monotonic();
        let first = realtime.look(true, at, thread_cpu());
        assert_eq!(realtime.look(true, at.plus(Nanos(1)), thread_cpu()), first);
        // Back and in again: who may not take the flag away that children are reset by leaves it.
        realtime.pause();
        assert_eq!(policy().0, OTHER);
        let again = realtime.look(true, at.plus(AGAIN), thread_cpu());
        (first, again, policy())
    })
}

#[test]
fn without_a_limit_or_a_capability_it_is_refused() {
    let Some(_turn) = turn() else { return };
    let (soft, hard) = getrlimit(Resource::RLIMIT_RTPRIO).expect("a limit");
    setrlimit(Resource::RLIMIT_RTPRIO, 0, hard).expect("lower");
    let refused = Standing::Refused(Refusal::Permission);
    assert_eq!(as_nobody(), (refused, refused, (OTHER, 0, NICE)));
    setrlimit(Resource::RLIMIT_RTPRIO, soft, hard).expect("as it was");
}

#[test]
fn the_units_limit_is_enough_without_a_capability() {
    let Some(_turn) = turn() else { return };
    let (soft, hard) = getrlimit(Resource::RLIMIT_RTPRIO).expect("a limit");
    if setrlimit(Resource::RLIMIT_RTPRIO, 1, hard.max(1)).is_err() {
        return skip!(Thing, "RLIMIT_RTPRIO is 0 and may not be raised");
    }
    assert_eq!(as_nobody(), (Standing::Realtime, Standing::Realtime, (RR, 1, NICE)));
    setrlimit(Resource::RLIMIT_RTPRIO, soft, hard).expect("as it was");
}

#[test]
fn a_hard_limit_is_kept_away_from_and_one_that_is_too_near_asked_for_nothing() {
    let Some(_turn) = turn() else { return };
    // Limits of a process of its own: a lower hard limit is for ever.
    let name = "a_hard_limit_is_kept_away_from_and_one_that_is_too_near_asked_for_nothing";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().expect("a path"));
        alone.args(["--exact", &format!("tests::{name}")]).env(ALONE, "1");
        let done = alone.output().expect("it starts");
        assert!(done.status.success(), "{}{}", done.status, String::from_utf8_lossy(&done.stdout));
        return;
    }
    // The thread stops at half of it: the process lives.
    setrlimit(Resource::RLIMIT_RTTIME, 200_000, 200_000).expect("lower");
    apart(|| {
        let _realtime = taken(Bound { slice: Nanos::from_millis(10_000), ..BOUND });
        assert_eq!(getrlimit(Resource::RLIMIT_RTTIME).expect("a limit"), (100_000, 200_000));
        spin(|| policy().0 != RR);
    });
    setrlimit(Resource::RLIMIT_RTTIME, 39_999, 39_999).expect("lower");
    let standing = apart(|| Realtime::new(BOUND).look(true, monotonic(), thread_cpu()));
    assert_eq!(standing, Standing::Refused(Refusal::Deadly { hard_us: 39_999 }));
}

#[test]
fn a_cgroup_without_real_time_runtime_is_a_refusal_of_its_own() {
    let Some(_turn) = turn() else { return };
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let roots = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let Some(root) = roots.map(std::path::Path::new).find(|root| root.join("cpu.rt_runtime_us").exists()) else {
        return skip!(Thing, "no cpu cgroup tells its real-time runtime");
    };
    let group = root.join(format!("sluice-realtime-{}", std::process::id()));
    std::fs::create_dir(&group).expect("root may");
    let standing = apart(|| {
        std::fs::write(group.join("tasks"), nix::unistd::gettid().to_string()).expect("it moves");
        let standing = Realtime::new(BOUND).look(true, monotonic(), thread_cpu());
        std::fs::write(root.join("tasks"), nix::unistd::gettid().to_string()).expect("it moves back");
        (standing, policy().0)
    });
    std::fs::remove_dir(&group).expect("nobody is in it");
    assert_eq!(standing, (Standing::Refused(Refusal::Elsewhere), OTHER));
}
