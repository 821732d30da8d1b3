//! The few facts of the running process that the standard library does not give, each one system call or one small
//! file of `/proc`; every failure is 0 or `None`. Also the guard that tells a forked child from its parent.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// The time on CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The same as of the kernel's last tick, up to 10 ms ago (4 ms at 250 Hz): a fifth of the cost, since nothing asks the
/// processor for its counter.
#[inline]
pub(crate) fn tick_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE)
}

/// A clock in nanoseconds; 0 if it cannot be read.
#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return 0;
    }
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Lower half of this boot's id; 0 where the kernel does not tell.
pub(crate) fn boot_id() -> u64 {
    let text = read_small("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    hex.get(16..32).and_then(|low| u64::from_str_radix(low, 16).ok()).unwrap_or(0)
}

/// Start time of a process in clock ticks (field 22 of `stat`); `None` if it is gone.
pub(crate) fn start_ticks(pid: &str) -> Option<u64> {
    let stat = read_small(&format!("/proc/{pid}/stat"))?;
    // The command may contain blanks and parentheses: fields are counted after its last one.
    let rest = stat.rsplit_once(')')?.1;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Does a process run with this uid (real, effective, saved or of its file accesses)? `None` if it cannot be told.
pub(crate) fn runs_as(pid: u32, uid: u32) -> Option<bool> {
    let status = read_small(&format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    Some(line.split_ascii_whitespace().any(|text| text.parse() == Ok(uid)))
}

/// Inode of the pid namespace; 0 where the kernel does not tell.
pub(crate) fn pid_namespace() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino() as u32)
}

/// Is this process's monotonic clock the host's? True also where time namespaces do not exist.
pub(crate) fn host_monotonic() -> bool {
    let Some(offsets) = read_small("/proc/self/timens_offsets") else { return true };
    let line = offsets.lines().find_map(|line| line.strip_prefix("monotonic"));
    line.is_none_or(|line| line.split_ascii_whitespace().all(|field| field == "0"))
}

/// The first 4 KiB of a small kernel file.
fn read_small(path: &str) -> Option<String> {
    // All of it in one call: a growing buffer takes one for each time that it grows.
    let mut text = String::with_capacity(4096 + 1);
    File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The result of a system call as `io::Result`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A classic write lock on byte 0, as `fcntl` wants it.
pub(crate) fn byte0() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    }
}

/// Holds byte 0 of the file for the rest of this process's life; an error if another process has it.
pub(crate) fn lock_byte0(fd: RawFd) -> io::Result<()> {
    let lock = byte0();
    // SAFETY: F_SETLK reads one flock, which `lock` is.
    check(unsafe { libc::fcntl(fd, libc::F_SETLK, &lock) }).map(drop)
}

/// Who holds byte 0: `None` nobody, otherwise the pid in the caller's namespace (0: not visible there).
pub(crate) fn holder_of_byte0(file: &File) -> io::Result<Option<u32>> {
    let mut lock = byte0();
    // SAFETY: F_GETLK reads and writes one flock, which `lock` is.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock) })?;
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    Ok(Some(u32::try_from(lock.l_pid).unwrap_or(0)))
}

static CURRENT: AtomicI32 = AtomicI32::new(0);
static REGISTER: Once = Once::new();

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

unsafe extern "C" fn after_fork_in_child() {
    // SAFETY: getpid has no preconditions and is safe after fork.
    CURRENT.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// Makes [`current_pid`] follow forks; called before the first page is created.
pub(crate) fn watch_forks() {
    REGISTER.call_once(|| {
        // SAFETY: getpid has no preconditions; the handler only stores an atomic.
        unsafe {
            CURRENT.store(libc::getpid(), Ordering::Relaxed);
            pthread_atfork(None, None, Some(after_fork_in_child));
        }
    });
}

/// The pid of this process without a system call; right after [`watch_forks`].
#[inline]
pub(crate) fn current_pid() -> i32 {
    CURRENT.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_this_process_are_there() {
        watch_forks();
        assert_eq!(current_pid() as u32, std::process::id());
        assert!(start_ticks("self").is_some());
        let (tick, now) = (tick_ns(), monotonic_ns());
        assert!(0 < tick && tick <= now, "{tick} {now}");
        // SAFETY: geteuid has no preconditions.
        let uid = unsafe { libc::geteuid() };
        assert_eq!(runs_as(std::process::id(), uid), Some(true));
        assert_eq!(runs_as(std::process::id(), 4_000_000_000), Some(false));
    }
}
