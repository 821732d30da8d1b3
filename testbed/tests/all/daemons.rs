//! The whole system: two job hosts, each with a real `sluiced`, and a real `sluice-switch`, in namespaces.
//! Needs root, BPF and the built daemons.

use std::path::Path;
use std::time::Duration;

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, job, privileged, quiet, star};
use nix::sys::signal::Signal;
use sluice_report::PolicyRun;
use sluice_schedule::{Bytes, Nanos, Rate};
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::fail_open::plan;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::fabric::FabricSpec;
use sluice_testbed::job::{self as jobs, Arch};
use sluice_testbed::run::pages::Pages;
use sluice_testbed::run::{Binaries, FixedQueue, Placement, Policy, RunPlan, Session, Silent, run_once};

const SECOND: u64 = 1_000_000_000;

/// The programs, where they can be run.
fn programs() -> Option<Binaries> {
    privileged().then(daemons)
}

/// Orders are enforced only where the kernel takes BPF; elsewhere a daemon observes, and these tests have no subject.
fn live(bench: &Bench<'_>, flows: usize) -> Option<Live> {
    let (plan, place) = plan(Rate::mbps(200), flows);
    let policy = "sluice".parse::<Policy>().unwrap();
    let mut live = Live::start(bench, &plan, &place, &policy, 4).unwrap();
    match live.until(0, true, Duration::from_secs(10)) {
        Ok(_) => Some(live),
        Err(e) => {
            let snapshot = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
            assert!(snapshot.contains("backend"), "flows are not managed, and no condition says why: {e} {snapshot}");
            skip!(Kernel, "nothing is enforced here: {snapshot}");
            None
        }
    }
}

/// Bytes that a host's managed flows and its others had acknowledged when the run ended, from its daemon's last snapshot.
fn acknowledged(dir: &Path, host: &str) -> [u64; 2] {
    let file = dir.join(format!("sluiced-{host}.snapshot.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap();
    ["acked_managed_bytes", "acked_other_bytes"].map(|name| snapshot["counters"][name].as_u64().unwrap())
}

#[test]
fn two_hosts_a_switch_and_two_jobs_end_to_end() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(programs) = programs() else { return };
    for policy in ["sluice", "sluice:primal-dual@nic"] {
        let (_keep, dir) = dir();
        let mut work = vec![job("a", Arch::Ring, 2, 0, 2_000_000, 8), job("b", Arch::Ps, 1, 1, 2_000_000, 8)];
        work.iter_mut().for_each(|j| j.compute = vec![Nanos::from_millis(60)]);
        let plan = RunPlan { fabric: star(2, Rate::mbps(200)), jobs: work, ..RunPlan::default() };
        let places =
            vec![Placement { workers: vec![0, 1], servers: vec![] }, Placement { workers: vec![0], servers: vec![1] }];
        let session = Session { binaries: &programs, dir: dir.clone(), stop: &NEVER };
        let policy = policy.parse::<Policy>().unwrap();
        let run = run_once(&plan, &mut FixedQueue::new(places), &policy, &session, &mut Silent).unwrap();
        for result in &run.jobs {
            assert_eq!(result.rounds.len(), 8, "{policy}: {result:?}");
        }
        assert!(run.cpu.daemons > 0.0);
        assert!(!run.notes.iter().any(|n| n.contains("ended with") || n.contains("did not end")), "{:?}", run.notes);
        // Each host sends for both jobs, 2 MB in each of 8 rounds.
        for host in &plan.fabric.hosts {
            let [managed, other] = acknowledged(&dir, host);
            assert!(managed > 9 * other && managed > 16_000_000, "{policy}, {host}: {managed} managed, {other} not");
        }
    }
}

#[test]
fn hosts_with_two_cards_use_both_and_both_are_scheduled() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(programs) = programs() else { return };
    for policy in ["sluice", "sluice:srpt-p@nic"] {
        let (_keep, dir) = dir();
        let mut work = vec![job("a", Arch::Ring, 3, 0, 3_000_000, 6), job("b", Arch::Ps, 2, 1, 3_000_000, 6)];
        work.iter_mut().for_each(|j| j.compute = vec![Nanos::from_millis(60)]);
        let fabric = FabricSpec::rails(3, 2, Rate::mbps(100), Bytes(400_000));
        let plan = RunPlan { fabric, jobs: work, ..RunPlan::default() };
        let places = vec![
            Placement { workers: vec![0, 1, 2], servers: vec![] },
            Placement { workers: vec![0, 1], servers: vec![2] },
        ];
        let session = Session { binaries: &programs, dir: dir.clone(), stop: &NEVER };
        let policy = policy.parse::<Policy>().unwrap();
        let run = run_once(&plan, &mut FixedQueue::new(places), &policy, &session, &mut Silent).unwrap();
        assert!(run.jobs.iter().all(|result| result.rounds.len() == 6), "{policy}: {:?}", run.jobs);
        for host in &plan.fabric.hosts {
            let file = dir.join(format!("sluiced-{host}.snapshot.json"));
            let snapshot: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let own: Vec<(String, u64)> = snapshot["links"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|link| Some((link["name"].as_str()?.to_owned(), link["managed_bytes"].as_u64()?)))
                .filter(|(name, _)| name.starts_with("eth"))
                .collect();
            let [(_, first), (_, second)] = &own[..] else { panic!("{policy}, {host}: {snapshot:#}") };
            // A ring of three sends 4/3 of its bytes in each of six rounds.
            assert!(first.min(second) * 2 > 3_000_000 * 6, "{policy}, {host}: {own:?}");
            assert!(first.abs_diff(*second) * 10 < first + second, "{policy}, {host}: one card has more: {own:?}");
            let [managed, other] = acknowledged(&dir, host);
            assert!(managed > 9 * other, "{policy}, {host}: {managed} managed, {other} not");
        }
    }
}

/// Tenths of a second of a first round that two jobs begin in the same moment, when neither can know of the other.
const FIRST_ROUND: usize = 14;

/// How much of what two jobs sent after their first round they sent at the same rate in the same tenth of a second: 0 is
/// turns, 1 is equal shares all the time.
fn sharing(run: &PolicyRun) -> f64 {
    let [a, b] = &run.rates[..] else { panic!("two jobs") };
    let (mut shared, mut sent) = (0.0, 0.0);
    let begun = a.iter().zip(b).skip_while(|(a, b)| a.rate + b.rate == 0.0);
    for (a, b) in begun.skip(FIRST_ROUND) {
        shared += 2.0 * a.rate.min(b.rate);
        sent += a.rate + b.rate;
    }
    shared / sent
}

/// Two equal rings on the same two hosts that begin together. Each sends for two thirds of a second and computes for a
/// tenth: too short for them to drift into turns by themselves.
fn two_rings(programs: &Binaries, policy: &str) -> PolicyRun {
    let (_keep, dir) = dir();
    let mut work = vec![job("a", Arch::Ring, 2, 0, 16_000_000, 5), job("b", Arch::Ring, 2, 0, 16_000_000, 5)];
    work.iter_mut().for_each(|j| j.compute = vec![Nanos::from_millis(100)]);
    let plan = RunPlan { fabric: star(2, Rate::mbps(200)), jobs: work, ..RunPlan::default() };
    let places = vec![Placement { workers: vec![0, 1], servers: vec![] }; 2];
    let session = Session { binaries: programs, dir, stop: &NEVER };
    run_once(&plan, &mut FixedQueue::new(places), &policy.parse::<Policy>().unwrap(), &session, &mut Silent).unwrap()
}

#[test]
fn two_jobs_take_turns() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(programs) = programs() else { return };
    let [fair, ours] = quiet(|| ["fair:cubic", "sluice"].map(|policy| two_rings(&programs, policy)));
    let (shared, turns) = (sharing(&fair), sharing(&ours));
    println!("sharing under cubic {shared:.2}, under Sluice {turns:.2}");
    assert!(3.0 * turns < 2.0 * shared, "sharing under cubic {shared}, under Sluice {turns}");
}

/// Promises: P-1, P-22
#[test]
fn a_killed_daemon_lets_go_and_its_successor_takes_over() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(programs) = programs() else { return };
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let Some(mut live) = live(&bench, 4) else { return };
    let killed = jobs::now();
    live.daemons.kill(0);
    live.until(0, false, Duration::from_secs(5)).unwrap();
    live.run_for(Duration::from_millis(500)).unwrap();
    let restarted = jobs::now();
    live.daemons.restart(&live.fabric, 0).unwrap();
    live.until(0, true, Duration::from_secs(5)).unwrap();
    live.run_for(Duration::from_millis(1_500)).unwrap();
    let end = jobs::now();
    assert_moves(&live, killed, restarted);
    assert_moves(&live, restarted, end);
}

#[test]
fn a_job_without_a_page_is_found_by_its_bytes() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(programs) = programs() else { return };
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    // With a page first: where nothing is enforced this has no subject.
    if live(&bench, 2).is_none() {
        return;
    }
    let (mut plan, place) = plan(Rate::mbps(200), 2);
    plan.pages = Pages::Nowhere;
    let policy = "sluice".parse::<Policy>().unwrap();
    let mut live = Live::start(&bench, &plan, &place, &policy, 4).unwrap();
    // New sockets are managed for the life of one order; what is managed after seconds is known to be a job's.
    live.run_for(Duration::from_secs(2)).unwrap();
    live.until(0, true, Duration::from_secs(20)).unwrap();
    live.run_for(Duration::from_secs(1)).unwrap();
    live.until(0, true, Duration::from_secs(5)).unwrap();
    let snapshot = live.daemons.get(0, "/api/v1/snapshot").unwrap_or_default();
    assert!(snapshot.contains("inferred (env)"), "{snapshot}");
}

/// Promises: P-1
#[test]
fn a_stopped_daemon_lets_go_and_takes_over_again() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(programs) = programs() else { return };
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let Some(mut live) = live(&bench, 4) else { return };
    let stopped = jobs::now();
    live.daemons.signal(0, Signal::SIGSTOP);
    let released = live.until(0, false, Duration::from_secs(5));
    live.daemons.signal(0, Signal::SIGCONT);
    released.unwrap();
    live.until(0, true, Duration::from_secs(5)).unwrap();
    assert_moves(&live, stopped, jobs::now());
}

/// Promises: P-2, P-15
#[test]
fn flows_keep_sending_through_a_partition() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let Some(programs) = programs() else { return };
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let Some(mut live) = live(&bench, 4) else { return };
    let cut = jobs::now();
    live.fabric.set_link("h0", "mgmt0", false).unwrap();
    live.run_for(Duration::from_secs(2)).unwrap();
    live.fabric.set_link("h0", "mgmt0", true).unwrap();
    live.run_for(Duration::from_secs(1)).unwrap();
    assert_moves(&live, cut, jobs::now());
}

/// Bytes moved throughout: no flow was silent for a second, and together they got more than the floor of 10 Mbit/s.
/// The exact times are figures of the `fail-open` experiment; a busy machine must not fail this test.
fn assert_moves(live: &Live, from: u64, to: u64) {
    let silence = live.longest_silence(0, from, to);
    assert!(silence < 1_000.0, "a flow was silent for {silence} ms");
    if to - from > SECOND {
        let rate = live.rate(0, from, to);
        assert!(rate > 10.0, "{rate} Mbit/s");
    }
}
