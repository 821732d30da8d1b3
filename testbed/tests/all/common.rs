//! What the whole-system tests share: the privilege check, programs, directories.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use sluice_report::PolicyRun;
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_skip::skip;
use sluice_testbed::fabric::{FabricSpec, NetNs};
use sluice_testbed::job::Arch;
use sluice_testbed::run::{Binaries, JobPlan};

/// Tests take turns: two fabrics at once would measure each other.
pub static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Nobody interrupts a test.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Can this process make network namespaces and cgroups? Otherwise the test is skipped.
pub fn privileged() -> bool {
    if let Err(why) = NetNs::create("probe") {
        skip!(Privilege, "{why}");
        return false;
    }
    let cgroups = sluice_testbed::fabric::cgroup::mount_point();
    if let Err(why) = &cgroups {
        skip!(Kernel, "{why}");
    }
    cgroups.is_ok()
}

/// The programs; `sluice-job` is built with the tests.
pub fn binaries() -> Binaries {
    Binaries::find().expect("cargo builds sluice-job before the tests of its package")
}

/// The same with the daemons, which `cargo xtask test` builds.
pub fn daemons() -> Binaries {
    let programs = binaries();
    programs.daemon().and(programs.switch()).expect("`cargo build --bins` builds them");
    programs
}

/// A small star.
pub fn star(hosts: usize, rate: Rate) -> FabricSpec {
    FabricSpec::star(hosts, rate, Bytes(250_000))
}

/// A job plan with the usual zeros.
pub fn job(id: &str, arch: Arch, workers: usize, servers: usize, bytes: u64, iterations: u64) -> JobPlan {
    JobPlan {
        id: id.into(),
        model: String::new(),
        arch,
        workers,
        servers,
        fanout: 2,
        plan: None,
        bytes: Bytes(bytes),
        iterations,
        compute: vec![Nanos::from_millis(5)],
        overlap: 0.0,
        arrival: Nanos::ZERO,
    }
}

/// Tries of one comparison, at most.
const MAX_TRIES: usize = 5;
/// How late the machine's timers may be (p99) in a run that shows something.
const MAX_LATE_US: u64 = 20_000;

/// Repeats runs until the machine was quiet during all of them; what they gave then. A machine that is quiet in no try
/// fails the test.
pub fn quiet<const N: usize>(mut runs: impl FnMut() -> [PolicyRun; N]) -> [PolicyRun; N] {
    for number in 1..=MAX_TRIES {
        let made = runs();
        let late = made.iter().map(|run| run.lateness.p99_us).max().unwrap_or(0);
        if late <= MAX_LATE_US {
            return made;
        }
        println!("try {number}: timers were {late} us late: not quiet");
    }
    panic!("the machine was quiet in none of {MAX_TRIES} tries");
}

/// A directory that goes with the test.
pub fn dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_owned();
    (dir, path)
}
