//! Delays of a scenario's cables on the testbed: round trips take as long as they say, links carry what they should, jobs run.
//! Needs root and TAP devices.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use sluice_scenario::{Notation, Scenario};
use sluice_schedule::Nanos;
use sluice_testbed::fabric::Fabric;
use sluice_testbed::run::convert::ScenarioQueue;
use sluice_testbed::run::{Policy, RunPlan, Session, Silent, run_once};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};
use crate::fabric::move_bytes;

/// Three hosts with 200 Mbit/s each, after scaling.
fn scenario(delay_us: u64) -> Scenario {
    let text = format!(
        "version = 1\nname = \"far\"\n[network]\nkind = \"star\"\nhosts = 3\ngpus = 2\ngbps = 10\ndelay_us = {delay_us}\n\
         [testbed]\nscale = 50\n[[jobs]]\nid = \"a\"\nbytes = 150000000\ncompute_s = 0.05\narch = \"ring\"\nworkers = 3\niterations = 4\n"
    );
    let text = text.replace("[testbed]", "[placement]\none_per_host = true\n[testbed]");
    let read = Scenario::parse(&text, Notation::Toml, "far.toml", Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
    read.for_testbed(&[]).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn cables_of_a_scenario_delay_and_carry_their_rates() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let far = RunPlan::of(&scenario(5_000)).unwrap();
    let fabric = Fabric::build(far.fabric.clone()).unwrap();
    assert_eq!((fabric.delays.cables(), fabric.undelayed()), (3, Nanos::ZERO));
    // Two cables there and two back.
    let address = (fabric.hosts[1].address, 9_001);
    let listener = fabric.hosts[1].ns.run(move || TcpListener::bind(address)).unwrap().unwrap();
    let connect = move || {
        let began = Instant::now();
        TcpStream::connect(address).map(|_| began.elapsed())
    };
    let took = fabric.hosts[0].ns.run(connect).unwrap().unwrap();
    drop(listener);
    assert!(took >= Duration::from_millis(20), "{took:?}");
    let payload = fabric.spec.payload(fabric.spec.cables[0].ab).0 as f64;
    let got = move_bytes(&fabric, 0, 1, Duration::from_millis(2_500));
    println!("a connection in {took:?}; {:.3} of the payload rate", got / payload);
    assert!(got < payload * 1.02 && got > payload * 0.5, "{:.2} of the payload rate", got / payload);
    assert_eq!(fabric.delays.overflowed(), 0);
}

#[test]
fn jobs_run_over_cables_that_delay_and_a_run_says_which_do_not() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let run = |scenario: &Scenario, plan: &RunPlan, policy: &str| {
        let (_keep, dir) = dir();
        let session = Session { binaries: &programs, dir, stop: &NEVER };
        let policy = policy.parse::<Policy>().unwrap();
        let run = run_once(plan, &mut ScenarioQueue::new(scenario), &policy, &session, &mut Silent).unwrap();
        assert!(run.jobs.iter().all(|job| job.rounds.len() == 4), "{:?}", run.jobs);
        run
    };
    let far = scenario(5_000);
    let plan = RunPlan::of(&far).unwrap();
    for policy in ["fair:cubic", "sluice"] {
        let ran = run(&far, &plan, policy);
        assert!(ran.notes.iter().any(|note| note.starts_with("3 cables delayed")), "{:?}", ran.notes);
        // A ring passes each byte on twice; every hop takes as long as two cables.
        for (began, ended) in &ran.jobs[0].rounds {
            assert!(ended - began > 0.02, "{began} to {ended}");
        }
    }
    // Too short for user space, and not wanted at all.
    let near = scenario(100);
    let plan = RunPlan::of(&near).unwrap();
    let ran = run(&near, &plan, "fair:cubic");
    assert!(ran.notes.iter().any(|note| note.contains("not applied")), "{:?}", ran.notes);
    let mut plan = RunPlan::of(&far).unwrap();
    plan.fabric.relays = None;
    let ran = run(&far, &plan, "fair:cubic");
    assert!(ran.notes.iter().any(|note| note.contains("5.00 ms per cable are not applied")), "{:?}", ran.notes);
}
