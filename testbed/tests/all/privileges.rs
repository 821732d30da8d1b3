//! A daemon whose privileges are a helper's, with flows: they are managed and held to their rates as ever, and whichever of the
//! two ends, or stands still, flows lose nothing but their orders. What each process is stands in `daemon/tests/privileges.rs`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_schedule::Rate;
use sluice_skip::skip;
use sluice_testbed::chaos::halves::{SPLIT, give_away, helper_of};
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::fail_open::plan;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::job;
use sluice_testbed::run::Policy;

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged, snapshot};

const PATIENCE: Duration = Duration::from_secs(20);
/// Until all flows are plain when whoever orders has died.
const RELEASED: Duration = Duration::from_millis(400);
/// A machine that is busy for a moment gets other tries.
const TRIES: usize = 3;

fn status(pid: u32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn gone(pid: u32) {
    let began = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() && !status(pid, "State").starts_with('Z') {
        assert!(began.elapsed() < PATIENCE, "process {pid} does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), signal).expect("it lives");
}

/// Promises: P-1, P-22
#[test]
fn a_split_daemon_holds_flows_to_their_rates_and_whichever_half_ends_gives_them_back() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let bench = Bench { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let (mut plan, place) = plan(Rate::mbps(200), 2);
    plan.daemon_extra.push_str(SPLIT);
    // An order is all that a flow may take, so that being above it shows as well.
    plan.schedule.push_str("surplus = \"never\"\n");
    let session = dir.join("live");
    give_away(&session, &plan.fabric.hosts).expect("given");
    let mut live = Live::start(&bench, &plan, &place, &"sluice".parse::<Policy>().unwrap(), 4).unwrap();
    if let Err(error) = live.until(0, true, PATIENCE) {
        let conditions = live.daemons.get(0, "/api/v1/conditions").unwrap_or_default();
        let log = std::fs::read_to_string(session.join("sluiced-h0.log")).unwrap_or_default();
        assert!(conditions.contains("backend"), "not managed, and no condition says why: {error} {conditions}\n{log}");
        return skip!(Kernel, "nothing is enforced here: {conditions}");
    }

    // The brain has nothing, and holds every flow to its order all the same.
    let brain = live.daemons.pid(0);
    let helper = helper_of(brain).expect("a helper");
    assert_eq!(snapshot(&live.daemons, 0)["daemon"]["split"], true);
    assert_eq!((status(brain, "CapEff"), status(brain, "Seccomp")), ("0000000000000000".into(), "2".into()));
    assert!(!status(brain, "Uid").starts_with('0') && status(helper, "Uid").starts_with('0'));
    live.run_for(Duration::from_secs(1)).unwrap();
    let mut errors = Vec::new();
    for _ in 0..30 {
        live.run_for(Duration::from_millis(50)).unwrap();
        let flows = snapshot(&live.daemons, 0)["flows"].as_array().cloned().unwrap_or_default();
        assert_eq!(flows.iter().filter(|flow| flow["state"] == "managed").count(), 2, "{flows:#?}");
        errors.extend(flows.iter().filter_map(|flow| flow["error_ratio"].as_f64()));
    }
    errors.sort_by(f64::total_cmp);
    eprintln!("off their orders by {:?} (median of {})", errors.get(errors.len() / 2), errors.len());
    assert!(errors.len() >= 20 && errors[errors.len() / 2] < 0.1, "{errors:?}");

    // A helper that stands still is asked for nothing that an order needs.
    signal(helper, Signal::SIGSTOP);
    let (stopped, before) = (job::now(), live.samples.len());
    live.run_for(Duration::from_secs(2)).unwrap();
    signal(helper, Signal::SIGCONT);
    let lost =
        live.samples[before..].iter().filter(|sample| sample.rank == 0 && sample.flows.iter().any(|flow| !flow.1));
    assert_eq!(lost.count(), 0, "flows were given back while the helper stood still");
    let second = 1_000_000_000;
    let (rate, had) = (live.rate(0, stopped, stopped + 2 * second), live.rate(0, stopped - second, stopped));
    assert!(rate > 0.9 * had, "{rate} while it stood still, {had} before");

    // Whoever ends: flows are plain, nobody is left, and the next start takes them again.
    let mut in_time = Vec::new();
    for victims in ["helper", "brain", "both"].into_iter().flat_map(|victims| [victims; TRIES]) {
        if in_time.contains(&victims) {
            continue;
        }
        let brain = live.daemons.pid(0);
        let helper = helper_of(brain).expect("a helper");
        let at = job::now();
        if victims != "brain" {
            signal(helper, Signal::SIGKILL);
        }
        if victims != "helper" {
            signal(brain, Signal::SIGKILL);
        }
        let plain = live.until(0, false, PATIENCE).expect("flows are given back");
        let took = Duration::from_nanos(plain.saturating_sub(at));
        eprintln!("{victims} killed: flows plain after {took:?}");
        in_time.extend((took <= RELEASED).then_some(victims));
        gone(helper);
        gone(brain);
        live.daemons.kill(0);
        live.daemons.restart(&live.fabric, 0).expect("it starts again");
        live.until(0, true, PATIENCE).expect("flows are managed again");
    }
    assert_eq!(in_time, ["helper", "brain", "both"], "others took longer than {RELEASED:?} each of {TRIES} times");

    let log: PathBuf = session.join("sluiced-h0.log");
    let said = std::fs::read_to_string(&log).expect("a log");
    for wrong in ["is refused in the", "helper-refused", "panic"] {
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(wrong)).collect();
        assert!(lines.is_empty(), "{lines:#?}");
    }
    for event in ["helper-ready", "helper-opened", "helper-ended", "\"split\""] {
        assert!(said.contains(event), "{event} is not in the log: {said}");
    }
}
