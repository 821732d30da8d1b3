//! The usual numbers of the own process, from `/proc/self`. What cannot be read is left out.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};

use super::{Family, Kind, Samples, Source};

/// The families whose source is the process and not the snapshot.
#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    family!(Counter, "process_cpu_seconds_total", [], "User and system CPU time.", |_s, o| o.some(cpu_seconds())),
    family!(Gauge, "process_resident_memory_bytes", [], "Resident memory.", |_s, o| o.some(resident_bytes().map(|bytes| bytes as f64))),
    family!(Gauge, "process_open_fds", [], "Open file descriptors.", |_s, o| o.some(open_fds())),
    family!(Gauge, "process_max_fds", [], "Limit of open file descriptors.", |_s, o| o.some(max_fds())),
    family!(Gauge, "process_start_time_seconds", [], "Start of the process since 1970.", |_s, o| o.some(start())),
];

/// Clock ticks per second in `/proc`: 100 on every Linux that Sluice runs on, whatever the kernel's own rate.
const USER_HZ: f64 = 100.0;

/// User and system CPU time of this process in seconds.
pub fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Resident memory of this process in bytes.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

fn open_fds() -> Option<f64> {
    // The listing itself holds one.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

fn max_fds() -> Option<f64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft as f64)
}

fn start() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + stat_field(22)? / USER_HZ)
}

/// Field `n` (counted from 1, as in the manual) of `/proc/self/stat`.
fn stat_field(n: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let rest = stat.rsplit_once(')')?.1;
    rest.split_ascii_whitespace().nth(n.checked_sub(3)?)?.parse().ok()
}
