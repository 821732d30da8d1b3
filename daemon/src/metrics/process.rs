//! The usual numbers of the own process, from `/proc/self`. What cannot be read is left out.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};

use super::{Family, Kind, Samples, Source};

/// The families whose source is the process and not the snapshot.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "process_cpu_seconds_total",
        kind: Kind::Counter,
        labels: &[],
        help: "User and system CPU time.",
        fill: cpu,
    },
    Family {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        labels: &[],
        help: "Resident memory.",
        fill: resident,
    },
    Family { name: "process_open_fds", kind: Kind::Gauge, labels: &[], help: "Open file descriptors.", fill: open_fds },
    Family {
        name: "process_max_fds",
        kind: Kind::Gauge,
        labels: &[],
        help: "Limit of open file descriptors.",
        fill: max_fds,
    },
    Family {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        labels: &[],
        help: "Start of the process since 1970.",
        fill: start,
    },
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

fn cpu(_: &Source<'_>, samples: &mut Samples) {
    cpu_seconds().into_iter().for_each(|value| samples.one(value));
}

fn resident(_: &Source<'_>, samples: &mut Samples) {
    resident_bytes().into_iter().for_each(|value| samples.one(value as f64));
}

fn open_fds(_: &Source<'_>, samples: &mut Samples) {
    // The listing itself holds one.
    fs::read_dir("/proc/self/fd").into_iter().for_each(|dir| samples.one(dir.count().saturating_sub(1) as f64));
}

fn max_fds(_: &Source<'_>, samples: &mut Samples) {
    let limit = getrlimit(Resource::RLIMIT_NOFILE);
    limit.into_iter().for_each(|(soft, _)| samples.one(soft as f64));
}

fn start(_: &Source<'_>, samples: &mut Samples) {
    let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|text| text.trim().parse::<f64>().ok())
    });
    if let (Some(boot), Some(ticks)) = (boot, stat_field(22)) {
        samples.one(boot + ticks / USER_HZ);
    }
}

/// Field `n` (counted from 1, as in the manual) of `/proc/self/stat`.
fn stat_field(n: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let rest = stat.rsplit_once(')')?.1;
    rest.split_ascii_whitespace().nth(n.checked_sub(3)?)?.parse().ok()
}
