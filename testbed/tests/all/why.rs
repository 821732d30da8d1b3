//! What flight records say of a real job that is made slower by one cause after the other, and that they outlive their
//! daemons. Needs root, BPF and the built daemons.

use sluice_schedule::Rate;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::why::{Settings, why};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};

/// So many causes are tried. One of them may come out otherwise, in a second try as well: the guide says which does.
const CAUSES: usize = 6;
/// A machine that does other things as well gets another try.
const TRIES: usize = 3;

#[test]
fn flight_records_of_killed_daemons_name_what_made_the_job_slow() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let run = || {
        let (_keep, dir) = dir();
        let bench = Bench { binaries: &programs, dir, stop: &NEVER };
        let result = why(&bench, &Settings { rate: Rate::mbps(400), runs: 1, rounds: 4 }).unwrap();
        assert_eq!(result.found.len() + result.without, CAUSES, "{}", result.table());
        assert!(result.recorded_bytes > 0 && result.recorded_bytes <= 64 << 20, "{}", result.recorded_bytes);
        assert!(result.recorder_cpu > 0.0, "its thread ran");
        result
    };
    let good = |of: &sluice_testbed::experiment::why::WhyResult| {
        of.found.len() >= CAUSES - 2 && of.found.iter().filter(|found| !found.right).count() <= 1
    };
    let mut tables = String::new();
    for _ in 0..TRIES {
        let result = run();
        if good(&result) {
            return;
        }
        tables += &result.table();
    }
    panic!("{tables}");
}
