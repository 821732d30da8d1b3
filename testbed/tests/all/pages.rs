//! Jobs whose pages have no place, or are on one host only, under Sluice: they end, and every sum is right (a wrong one is
//! an error of the run). Needs root and the built daemons.

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, job, privileged, star};
use sluice_schedule::{Nanos, Rate};
use sluice_testbed::job::Arch;
use sluice_testbed::run::pages::{Full, FullDir, Pages};
use sluice_testbed::run::{FixedQueue, Placement, Policy, RunPlan, Session, Silent, run_once};

/// Promises: P-7
#[test]
fn a_job_without_a_place_for_its_pages_ends_as_without_sluice() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, root) = dir();
    let full = |name: &str, full: Full| FullDir::make(&root.join(name), full).unwrap();
    let (names, bytes) = (full("names", Full::Names), full("bytes", Full::Bytes));
    let cases = [
        ("missing", Pages::In(root.join("no-such-directory"))),
        ("no room for a name", Pages::In(names.path().to_owned())),
        ("no room for a byte", Pages::In(bytes.path().to_owned())),
        ("one host only", Pages::FirstHost),
    ];
    for (what, pages) in cases {
        let (_keep, dir) = dir();
        let mut work = vec![job("a", Arch::Ring, 2, 0, 2_000_000, 5), job("b", Arch::Ps, 1, 1, 1_000_000, 5)];
        work.iter_mut().for_each(|job| job.compute = vec![Nanos::from_millis(30)]);
        let plan = RunPlan { fabric: star(2, Rate::mbps(200)), jobs: work, pages, ..RunPlan::default() };
        let places =
            vec![Placement { workers: vec![0, 1], servers: vec![] }, Placement { workers: vec![0], servers: vec![1] }];
        let session = Session { binaries: &programs, dir, stop: &NEVER };
        let policy = "sluice".parse::<Policy>().unwrap();
        let run = run_once(&plan, &mut FixedQueue::new(places), &policy, &session, &mut Silent).unwrap();
        for result in &run.jobs {
            assert_eq!(result.rounds.len(), 5, "{what}: {result:?}");
            assert!(result.acked > 0, "{what}");
        }
    }
}
