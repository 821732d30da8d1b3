//! Stock jobs of PyTorch over Gloo, of Open MPI and of MXNet, unmodified, with and without Sluice. Needs root and
//! `cargo xtask setup --workloads`.

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::real::fault::Fault;
use sluice_testbed::experiment::real::{Kind, Settings, real};

#[test]
fn pytorch_learns_the_same_and_its_iterations_are_known() {
    same_and_known(Kind::Ddp);
}

#[test]
fn mxnet_adds_up_the_same_and_its_iterations_are_known() {
    same_and_known(Kind::Mxnet);
}

#[test]
fn open_mpi_sums_the_same_and_its_iterations_are_known() {
    same_and_known(Kind::Mpi);
}

fn same_and_known(kind: Kind) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    if let Err(why) = kind.root() {
        return skip!(Thing, "{why}");
    }
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let settings = Settings {
        kind,
        rate: Rate::mbps(200),
        jobs: 1,
        ranks: 3,
        iterations: 10,
        megabytes: 12.0,
        reserve: 0.01,
        library: false,
        fault: Fault::None,
        load_ms: 100.0,
        repeats: 1,
        policies: vec!["fair:cubic".parse().unwrap(), "sluice".parse().unwrap()],
    };
    let result = real(&bench, &settings).unwrap();
    assert!(result.identical, "losses and weights differ");
    let run = &result.runs[1];
    if run.unmanaged_iterations.is_none() {
        return skip!(Kernel, "nothing is enforced here");
    }
    // Gloo adds a message of 48 bytes to each piece.
    let close = |(_, off): &&(u64, f64)| off.abs() < 0.001;
    assert!(run.learned.iter().filter(close).count() >= 2, "{run:?}");
}
