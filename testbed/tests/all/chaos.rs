//! Core rows of docs/chaos.md that no other test is about, at their smallest: one case each. Needs root, BPF and the built
//! daemons.

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};
use sluice_skip::skip;
use sluice_testbed::chaos::figure::Verdict;
use sluice_testbed::chaos::ground::{Ground, Size};
use sluice_testbed::chaos::{one, rows};
use sluice_testbed::experiment::Bench;

/// The row, once: what runs it tries again where a time or a rate alone is beyond its bar, which a machine that is busy for a
/// moment may be why. A count that is wrong once is wrong, and so is what a row leaves behind.
fn passes(id: &str) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let ground = Ground { bench: &bench, seed: 1, size: Size::Small, others: &[], cells: &[], minutes: 0.1 };
    let outcome = one(&ground, rows::named(id).expect("a row"));
    match outcome.verdict {
        Verdict::Passed => {}
        Verdict::NotRun => skip!(Kernel, "{}", outcome.why),
        _ => panic!("{}", outcome.table()),
    }
}

/// Promises: P-1, P-2
#[test]
fn a_daemon_whose_deciding_loop_stands_lets_its_flows_go() {
    passes("C3");
}

/// Promises: P-24
#[test]
fn a_daemon_that_dies_of_its_input_again_and_again_stays_out_of_the_way() {
    passes("C12");
}

/// Promises: P-8
#[test]
fn cleaning_up_under_load_leaves_nothing() {
    passes("C16");
}

/// Promises: P-29, P-30
#[test]
fn what_a_namespace_a_cgroup_or_an_interface_leaves_behind_is_given_back() {
    passes("C15");
}
