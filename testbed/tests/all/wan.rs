//! Collectives between sites over real sockets in namespaces: every flow comes, waits for what it must, and takes about
//! as long as the planner says. Needs root and the built `sluice`, which plans.

use crate::common::{NEVER, ONE_AT_A_TIME, binaries, dir, privileged, quiet};
use sluice_schedule::Nanos;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::wan::{Settings, WanResult, wan};

#[test]
fn flows_over_sites_wait_for_each_other() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = binaries();
    let run = || -> WanResult {
        let (_keep, dir) = dir();
        let settings = Settings {
            sites: "ring:6".parse().unwrap(),
            collectives: 2,
            participants: 3,
            seed: 1,
            scale: 20.0,
            delay: Nanos::from_millis(5),
            methods: ["tcp", "multiring_ldv"].map(|word| word.parse().unwrap()).into(),
            runs: 1,
            no_daemon: true,
            reserve: 0.01,
        };
        wan(&Bench { binaries: &programs, dir, stop: &NEVER }, &settings).unwrap()
    };
    let result = quiet(run);
    print!("{}", result.table());
    assert_eq!((result.sites, result.cables, result.runs.len()), (6, 6, 2));
    for run in &result.runs {
        assert_eq!((run.t.len(), run.violations), (2, 0), "{run:?}");
    }
    // TCP is no max-min fairness, but nothing else limits it than the links do.
    let tcp = &result.summaries[0];
    assert!((0.6..2.0).contains(&tcp.ratio), "{tcp:?}");
}
