//! The whole system by each transport between daemons and a switch: real daemons, a real `sluice-switch`, three hosts.

use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, job, metrics, privileged, star};
use sluice_scenario::Transport;
use sluice_schedule::{Nanos, Rate};
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::Fabric;
use sluice_testbed::job::Arch;
use sluice_testbed::run::{Binaries, FixedQueue, Placement, Policy, RunPlan, Session, Silent, run_once};

/// What the switch has counted of this transport, from its metrics; 0: no such line.
fn updates(fabric: &Fabric, transport: &str) -> f64 {
    let text = fabric.management.run(|| metrics("127.0.0.1:9606")).unwrap().unwrap_or_default();
    let ours = |line: &&str| {
        line.starts_with("sluice_switchd_updates_total")
            && line.contains(&format!("transport=\"{transport}\""))
            && line.contains("result=\"applied\"")
    };
    text.lines().filter(ours).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// What host 0's daemon says of its switch, by this name in the snapshot.
fn said(live: &Live, name: &str) -> Option<String> {
    let snapshot: serde_json::Value = serde_json::from_str(&live.daemons.get(0, "/api/v1/snapshot")?).ok()?;
    Some(snapshot["switches"].as_array()?.first()?[name].as_str()?.to_owned())
}

/// Lets the job run until the daemon says this of its switch.
fn until_said(live: &mut Live, name: &str, expected: &str) {
    let began = Instant::now();
    loop {
        live.run_for(Duration::from_millis(100)).unwrap();
        let said = said(live, name);
        if said.as_deref() == Some(expected) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{name} is never {expected}: {said:?}");
    }
}

/// Lets the job run until this condition holds.
fn until_condition(live: &mut Live, code: &str) {
    let began = Instant::now();
    loop {
        let conditions = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
        if conditions.contains(code) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "never {code}: {conditions}");
        live.run_for(Duration::from_millis(100)).unwrap();
    }
}

/// Two jobs on three hosts are managed and end, and the switch has heard of them by this transport and no other.
fn two_jobs(programs: &Binaries, transport: Transport) {
    let (_keep, dir) = dir();
    let mut work = vec![job("a", Arch::Ring, 3, 0, 2_000_000, 8), job("b", Arch::Ps, 2, 1, 2_000_000, 8)];
    work.iter_mut().for_each(|j| j.compute = vec![Nanos::from_millis(60)]);
    let plan = RunPlan { fabric: star(3, Rate::mbps(200)), jobs: work, transport, ..RunPlan::default() };
    let places = vec![
        Placement { workers: vec![0, 1, 2], servers: vec![] },
        Placement { workers: vec![0, 1], servers: vec![2] },
    ];
    let session = Session { binaries: programs, dir: dir.clone(), stop: &NEVER };
    let policy = "sluice".parse::<Policy>().unwrap();
    let run = run_once(&plan, &mut FixedQueue::new(places), &policy, &session, &mut Silent).unwrap();
    assert!(run.jobs.iter().all(|result| result.rounds.len() == 8), "{transport:?}: {:?}", run.jobs);
    for host in &plan.fabric.hosts {
        let file = dir.join(format!("sluiced-{host}.snapshot.json"));
        let snapshot: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let [managed, other] =
            ["acked_managed_bytes", "acked_other_bytes"].map(|name| snapshot["counters"][name].as_u64().unwrap());
        assert!(managed > 9 * other && managed > 16_000_000, "{transport:?}, {host}: {managed} managed, {other} not");
        let switch = &snapshot["switches"][0];
        assert_eq!(switch["transport"].as_str(), Some(transport.as_str()));
        assert_eq!(switch["rejects"].as_u64(), Some(0), "{transport:?}: {switch:#}");
        let feedback = snapshot["counters"]["decisions_feedback"].as_u64();
        assert!(feedback.is_some_and(|count| count > 0), "{transport:?}: nothing was heard");
    }
}

/// The switch is killed while a job runs: the job goes on, the daemon says so, and hears the next one.
fn a_switch_dies(programs: &Binaries, transport: Transport) {
    let (_keep, dir) = dir();
    let bench = Bench { binaries: programs, dir: dir.clone(), stop: &NEVER };
    let plan = RunPlan {
        name: "dies".into(),
        fabric: star(3, Rate::mbps(200)),
        jobs: vec![job("a", Arch::Ring, 3, 0, 2_000_000, 1_000_000)],
        transport,
        ..RunPlan::default()
    };
    let place = Placement { workers: vec![0, 1, 2], servers: vec![] };
    let mut live = Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().unwrap(), 20).unwrap();
    if let Err(why) = live.until(0, true, Duration::from_secs(10)) {
        let conditions = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
        assert!(conditions.contains("backend"), "flows are not managed, and no condition says why: {why} {conditions}");
        skip!(Kernel, "nothing is enforced here: {conditions}");
        return;
    }
    until_said(&mut live, "state", "up");
    live.run_for(Duration::from_secs(1)).unwrap();
    assert!(updates(&live.fabric, transport.as_str()) > 10.0, "{transport:?}");
    let others = [Transport::Session, Transport::Unary, Transport::Udp].into_iter().filter(|other| *other != transport);
    others.for_each(|other| assert_eq!(updates(&live.fabric, other.as_str()), 0.0, "{other:?} is not {transport:?}"));
    let moved = |live: &Live| live.samples.iter().rev().find(|s| s.rank == 0).map_or(0, |s| s.flows[0].0);
    let before = moved(&live);
    live.daemons.kill_switches();
    until_said(&mut live, "state", "silent");
    until_condition(&mut live, "switch-unreachable");
    live.run_for(Duration::from_secs(1)).unwrap();
    let between = moved(&live);
    assert!(between > before, "{transport:?}: the job stood still");
    let session = Session { binaries: programs, dir: dir.join("live"), stop: &NEVER };
    live.daemons.restart_switches(&live.fabric, &plan, &session).unwrap();
    until_said(&mut live, "state", "up");
    live.run_for(Duration::from_secs(1)).unwrap();
    assert!(updates(&live.fabric, transport.as_str()) > 5.0, "{transport:?}: nothing was announced again");
    until_said(&mut live, "view", "fresh");
    assert_eq!(said(&live, "transport").as_deref(), Some(transport.as_str()));
    assert!(moved(&live) > between);
    // The flows are managed still.
    live.until(0, true, Duration::from_secs(5)).unwrap();
}

#[test]
fn by_calls() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    two_jobs(&daemons(), Transport::Unary);
    a_switch_dies(&daemons(), Transport::Unary);
}

#[test]
fn by_datagrams() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    two_jobs(&daemons(), Transport::Udp);
    a_switch_dies(&daemons(), Transport::Udp);
}
