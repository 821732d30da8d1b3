//! Jobs that carry a plan out, over real sockets in namespaces: exact results, and daemons that follow the plan.
//! Needs root, and for the second and third test BPF and the built daemons.

use crate::common::{NEVER, ONE_AT_A_TIME, binaries, dir, everywhere, follower, privileged, seen};
use sluice_plan::plan::Collective;
use sluice_schedule::{Nanos, Rate};
use sluice_testbed::experiment::forest::{Tiers, plan_on};
use sluice_testbed::job::Arch;
use sluice_testbed::run::{FixedQueue, JobPlan, Policy, RunPlan, Session, Silent, run_once};

/// Four hosts, two on each of two leaves, with unequal links.
fn tiers() -> Tiers {
    let (host, leaves) = (Rate::mbps(200), vec![Rate::mbps(200), Rate::mbps(150)]);
    Tiers { host, leaves, hosts_per_leaf: 2, middles: [Rate::mbps(100), Rate::mbps(120)] }
}

#[test]
fn every_collective_ends_with_exact_floats() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let (programs, spec) = (binaries(), tiers().spec());
    let collectives = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];
    let planned = collectives.map(|c| plan_on(&spec, c, dir.join(format!("{}.json", c.word()))).unwrap());
    let jobs: Vec<JobPlan> = planned
        .iter()
        .zip(collectives)
        .map(|(planned, c)| follower(c.word(), planned.file.clone(), &spec, 400_003, 3))
        .collect();
    let places = vec![everywhere(&spec); jobs.len()];
    let plan = RunPlan { name: "forest".into(), fabric: spec, jobs, ..RunPlan::default() };
    let session = Session { binaries: &programs, dir, stop: &NEVER };
    let run = run_once(&plan, &mut FixedQueue::new(places), &Policy::Fair(None), &session, &mut Silent).unwrap();
    for (job, planned) in run.jobs.iter().zip(&planned) {
        assert_eq!(job.rounds.len(), 3, "{}", job.figures.id);
        assert_eq!(job.tcp.values().sum::<usize>(), planned.flows, "one connection per pair of members: {job:?}");
    }
}

#[test]
fn a_daemon_follows_the_plan_and_says_so() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let spec = tiers().spec();
    let planned = plan_on(&spec, Collective::AllReduce, dir.join("plan.json")).unwrap();
    let mut job = follower("followed", planned.file, &spec, 4_000_000, 10_000);
    job.compute = vec![Nanos::from_millis(20)];
    let wanted =
        |s: &serde_json::Value| s["jobs"][0]["plan"] == "plan.json" && s["jobs"][0]["round"].as_u64() > Some(2);
    let snapshot = seen(job, spec, wanted);
    let of = &snapshot["jobs"][0];
    assert_eq!((of["pattern"].as_str(), of["id"].as_str()), (Some("plan"), Some("followed")));
    assert!(snapshot["flows"].as_array().is_some_and(|flows| !flows.is_empty()));
}

#[test]
fn a_job_with_a_plan_that_is_no_good_runs_all_the_same() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let (_keep, dir) = dir();
    let spec = tiers().spec();
    let damaged = dir.join("damaged.json");
    let good = plan_on(&spec, Collective::AllReduce, damaged.clone()).unwrap();
    let text = std::fs::read_to_string(&good.file).unwrap();
    std::fs::write(&damaged, text.replacen("\"weight\":", "\"weight\":1", 1)).unwrap();
    for file in [dir.join("absent.json"), damaged] {
        // A ring needs no plan; its processes name one all the same.
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let job = JobPlan { arch: Arch::Ring, ..follower("unfollowed", file, &spec, 1_000_000, 10_000) };
        let wanted = |s: &serde_json::Value| {
            let condition =
                |c: &serde_json::Value| c["code"] == "plan-rejected" && c["sentence"].to_string().contains(&name);
            s["conditions"].as_array().is_some_and(|all| all.iter().any(condition))
                && s["jobs"][0]["round"].as_u64() > Some(2)
        };
        let snapshot = seen(job, spec.clone(), wanted);
        assert_eq!(
            (snapshot["jobs"][0]["pattern"].as_str(), snapshot["jobs"][0]["plan"].as_str()),
            (Some("ring"), Some(""))
        );
    }
}
