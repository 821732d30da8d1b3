//! Jobs that carry out chunks in epochs, over real sockets in namespaces: exact results, and daemons that follow the plan.
//! Needs root, and for the second test BPF and the built daemons.
//!
//! Nothing on the way says which chunk it is: a chunk out of order ends in the wrong place, and the floats are wrong.

use std::collections::BTreeSet;

use crate::common::{NEVER, ONE_AT_A_TIME, binaries, dir, everywhere, follower, privileged, seen, star};
use sluice_plan::follow::Followed;
use sluice_plan::plan::Collective;
use sluice_schedule::{Nanos, Rate};
use sluice_testbed::experiment::epochs::{Epoch, ndv2, plan_on};
use sluice_testbed::run::{FixedQueue, Policy, RunPlan, Session, Silent, run_once};

const ROUND: Nanos = Nanos::from_millis(100);

#[test]
fn every_collective_ends_with_exact_floats_and_one_flow_a_pair() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = binaries();
    // Hosts wired to each other, and four that take turns on their links to a switch.
    for spec in [ndv2(Rate::mbps(200)), star(4, Rate::mbps(200))] {
        let (_keep, dir) = dir();
        let (mut jobs, mut flows) = (Vec::new(), Vec::new());
        for collective in [Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce] {
            let file = dir.join(format!("{}.json", collective.word()));
            let planned = plan_on(&spec, collective, 2, Epoch::Fast, ROUND, file).unwrap();
            let bytes = std::fs::read(&planned.file).unwrap();
            let followed = Followed::read(&bytes, "plan.json", Some(&spec.hosts), None).unwrap();
            let pairs: BTreeSet<(u32, u32)> = followed.steps.sent.iter().map(|sent| (sent.from, sent.to)).collect();
            flows.push(pairs.len());
            jobs.push(follower(collective.word(), planned.file, &spec, 400_003, 3));
        }
        let places = vec![everywhere(&spec); jobs.len()];
        let plan = RunPlan { name: "epochs".into(), fabric: spec, jobs, ..RunPlan::default() };
        let session = Session { binaries: &programs, dir, stop: &NEVER };
        let run = run_once(&plan, &mut FixedQueue::new(places), &Policy::Fair(None), &session, &mut Silent).unwrap();
        for (job, flows) in run.jobs.iter().zip(flows) {
            assert_eq!((job.rounds.len(), job.tcp.values().sum::<usize>()), (3, flows), "{}", job.figures.id);
        }
    }
}

#[test]
fn a_daemon_follows_chunks_in_epochs_and_says_so() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let spec = ndv2(Rate::mbps(50));
    let planned = plan_on(&spec, Collective::AllGather, 2, Epoch::Slow, ROUND, dir.join("plan.json")).unwrap();
    let bytes = planned.claim.rate.over(ROUND).0;
    let mut job = follower("followed", planned.file, &spec, bytes, 10_000);
    job.compute = vec![Nanos::from_millis(20)];
    let wanted =
        |s: &serde_json::Value| s["jobs"][0]["plan"] == "plan.json" && s["jobs"][0]["round"].as_u64() > Some(2);
    let snapshot = seen(job, spec, wanted);
    let of = &snapshot["jobs"][0];
    assert_eq!((of["pattern"].as_str(), of["id"].as_str()), (Some("plan"), Some("followed")));
    // Host 0 sends over each of its four cables.
    assert_eq!(snapshot["flows"].as_array().map(Vec::len), Some(4), "{}", snapshot["flows"]);
}
