//! A job that Sluice slows down is released by itself, and is tried again. Needs root, BPF and the built programs.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{NEVER, ONE_AT_A_TIME, also, daemons, dir, everywhere, job, privileged, snapshot, star};
use sluice_schedule::{Nanos, Rate};
use sluice_skip::skip;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::job::{Arch, now};
use sluice_testbed::run::{Policy, RunPlan};

/// The network carries five times what the daemons are told.
const CARRIES: Rate = Rate::mbps(200);
const TOLD_GBPS: f64 = 0.04;
/// What changed a moment ago may not have reached the kernel yet.
const MARGIN: u64 = 500_000_000;
const PATIENCE: Duration = Duration::from_secs(180);

/// How a job stands with a host's daemon.
fn state(live: &Live, host: usize) -> String {
    snapshot(&live.daemons, host)["jobs"][0]["benefit"]["state"].as_str().unwrap_or_default().to_owned()
}

/// Runs until both daemons say one of these of the job; when that was.
fn until(live: &mut Live, wanted: &[&str]) -> u64 {
    let end = Instant::now() + PATIENCE;
    loop {
        live.run_for(Duration::from_millis(100)).unwrap();
        let states = [0, 1].map(|host| state(live, host));
        if states.iter().all(|state| wanted.contains(&state.as_str())) {
            return now();
        }
        let said = snapshot(&live.daemons, 0)["jobs"].clone();
        assert!(Instant::now() < end, "never {wanted:?} but {states:?}: {said}");
    }
}

/// The median length of the iterations that lie between these moments, ns. Few of them lie in windows without Sluice.
fn iteration(live: &Live, from: u64, to: u64) -> u64 {
    let inside = live.iterations.iter().filter(|seen| seen.began_ns >= from + MARGIN && seen.ended_ns + MARGIN <= to);
    let mut took: Vec<u64> = inside.map(|seen| seen.ended_ns - seen.began_ns).collect();
    assert!(took.len() >= 20, "{} iterations say nothing", took.len());
    took.sort_unstable();
    took[took.len() / 2]
}

/// Promises: P-3, P-4
#[test]
fn a_job_that_is_slower_with_sluice_is_released_becomes_faster_and_is_tried_again() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let sluice = programs.sluice().expect("`cargo build --bins` builds it");
    let (_keep, dir) = dir();
    let spec = star(2, CARRIES);
    // Windows of 16 slots in every 128: 0.3 s in 2.6 s, so that what takes hours is over in a minute.
    let told = format!(
        "[enforce]\nbenefit = true\nbenefit_slots = 16\nbenefit_part = 8\n[[links]]\nname = \"eth0\"\ngbps = {TOLD_GBPS}\n"
    );
    also(&dir.join("live"), &spec.hosts, &told);
    // 10 ms on the wire as the network is, 50 ms as it is said to be.
    let work = job("slowed", Arch::Ring, 2, 0, 250_000, 1_000_000);
    let slot = Nanos::from_millis(20);
    let plan = RunPlan { fabric: spec.clone(), jobs: vec![work], slot, ..RunPlan::default() };
    let bench = Bench { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let policy = "sluice".parse::<Policy>().unwrap();
    let mut live = Live::start(&bench, &plan, &everywhere(&spec), &policy, 100).unwrap();
    if let Err(error) = live.until(0, true, Duration::from_secs(20)) {
        let conditions = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
        assert!(
            conditions.contains("backend"),
            "flows are not managed, and no condition says why: {error} {conditions}"
        );
        return skip!(Kernel, "nothing is enforced here: {conditions}");
    }
    let began = now();
    let released = until(&mut live, &["released"]);
    // What an operator sees of it.
    let conditions = live.daemons.get(0, "/api/v1/conditions").expect("conditions");
    assert!(conditions.contains("not-helping"), "{conditions}");
    let socket = live.daemons.hosts[0].run_dir.join("sluiced.sock");
    let jobs = Command::new(sluice).arg("--socket").arg(&socket).arg("jobs").output().expect("sluice jobs");
    let table = String::from_utf8_lossy(&jobs.stdout).into_owned();
    assert!(table.contains("slowed") && table.contains("released: ") && table.contains("slower, again in"), "{table}");
    // Released means plain: no flow is driven by Sluice.
    let plain = live.until(0, false, Duration::from_secs(5)).expect("its flows go back");
    let again = until(&mut live, &["managed", "without"]);
    live.until(0, true, Duration::from_secs(10)).expect("its flows are captured again");
    let tried = now();
    live.run_for(Duration::from_secs(6)).unwrap();
    let [slow, fast, slow_again] =
        [(began, released), (plain, again), (tried, now())].map(|(from, to)| iteration(&live, from, to));
    let ratios = [slow, slow_again].map(|with| with as f64 / fast as f64);
    eprintln!("iterations: {slow} ns managed, {fast} ns released, {slow_again} ns tried again; ratios {ratios:.2?}");
    assert!(ratios.iter().all(|ratio| *ratio > 1.8), "{ratios:.2?}: {slow} {fast} {slow_again}");
}
