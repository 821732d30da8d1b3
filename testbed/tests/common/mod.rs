//! What the whole-system tests share: the privilege check, programs, directories.

#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_testbed::fabric::{Fabric, FabricSpec, NetNs};
use sluice_testbed::job::Arch;
use sluice_testbed::run::{Binaries, JobPlan};

/// Tests of one file take turns: two fabrics at once would measure each other.
pub static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Nobody interrupts a test.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Can this process make network namespaces? Says "skipped: why" otherwise.
pub fn privileged() -> bool {
    match NetNs::create("probe").map(drop).and_then(|()| sluice_testbed::fabric::cgroup::mount_point().map(drop)) {
        Ok(()) => true,
        Err(e) => {
            println!("skipped: {e}");
            false
        }
    }
}

/// The programs; `sluice-job` is built with the tests.
pub fn binaries() -> Binaries {
    Binaries::find().expect("cargo builds sluice-job before the tests of its package")
}

/// A small star.
pub fn star(hosts: usize, rate: Rate) -> FabricSpec {
    FabricSpec::star(hosts, rate, Bytes(250_000))
}

/// Builds it, or says why the test is skipped.
pub fn build(spec: FabricSpec) -> Option<Fabric> {
    Fabric::build(spec).map_err(|e| println!("skipped: {e}")).ok()
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

/// A directory that goes with the test.
pub fn dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_owned();
    (dir, path)
}
