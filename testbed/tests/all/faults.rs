//! The scenario of faults, shortened, with real daemons and a real switch: each fault happens, and no job notices more than
//! that rates change. Needs root, BPF and the built daemons.

use std::path::Path;

use sluice_scenario::Scenario;
use sluice_schedule::Nanos;
use sluice_testbed::run::convert::ScenarioQueue;
use sluice_testbed::run::{Policy, RunPlan, Session, Silent, run_once};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};

/// The scenario, its faults moved into the first seconds; a partition lasts longer than connections bear, and the wrong clock
/// is wrong enough to be counted.
fn shortened() -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/failures.toml");
    let scenario = Scenario::load(&file).unwrap_or_else(|e| panic!("{e}"));
    let mut scenario = scenario.for_testbed(&[]).unwrap_or_else(|e| panic!("{e}"));
    let [kill, restart, partition, skew, stops @ ..] = &mut scenario.faults[..] else { panic!("five faults") };
    assert_eq!(stops.len(), 5);
    stops.iter_mut().for_each(|stop| stop.at = Nanos::from_millis(1_000 + 400 * stop.before));
    (kill.at, kill.lasts) = (Nanos::from_millis(1_500), Some(Nanos::from_millis(1_000)));
    restart.at = Nanos::from_millis(3_000);
    // By then all are back at the switch, which they spread over up to two seconds.
    (partition.at, partition.lasts) = (Nanos::from_millis(6_000), Some(Nanos::from_millis(3_000)));
    (skew.at, skew.lasts, skew.slots) = (Nanos::from_millis(4_500), Some(Nanos::from_millis(1_500)), 3.0);
    scenario.jobs.iter_mut().for_each(|job| job.iterations = if job.id == "gpt2" { 5 } else { 6 });
    scenario
}

/// How often it happened, with those that were one line too many in their minute: `"of":"4 switch-up, 1 switch-down"`.
fn events(log: &Path, event: &str) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_else(|e| panic!("{}: {e}", log.display()));
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let times = |line: serde_json::Value| {
        let of = line["of"].as_str().filter(|_| line["event"] == "suppressed").unwrap_or_default().to_owned();
        let counts = of.split(", ").filter_map(|part| part.split_once(' ')).filter(|(_, what)| *what == event);
        let unsaid: usize = counts.map(|(count, _)| count.parse::<usize>().unwrap()).sum();
        unsaid + usize::from(line["event"] == event)
    };
    lines.map(times).sum()
}

/// Promises: P-2
#[test]
fn every_fault_of_a_scenario_happens_and_no_job_stops() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let scenario = shortened();
    let plan = RunPlan::of(&scenario).unwrap();
    assert!(plan.own_switches());
    let session = Session { binaries: &programs, dir: dir.clone(), stop: &NEVER };
    let policy = "sluice".parse::<Policy>().unwrap();
    let run = run_once(&plan, &mut ScenarioQueue::new(&scenario), &policy, &session, &mut Silent).unwrap();
    // A connection that was reset would have failed its job, and so would a byte that is wrong.
    for (job, result) in plan.jobs.iter().zip(&run.jobs) {
        assert_eq!(result.rounds.len() as u64, job.iterations, "{}", job.id);
    }
    let notes = run.notes.join("\n");
    for what in
        ["daemon-kill of h0", "switch-restart of s0", "partition of h4", "clock-skew of h2", "daemon-stop of h5"]
    {
        for when in ["begins", "over"] {
            assert!(notes.contains(&format!("{what} {when}")), "{what} {when}: {notes}");
        }
    }
    for unwanted in ["ended with", "did not end", "not ready again", "after the end"] {
        assert!(!notes.contains(unwanted), "{notes}");
    }
    assert!(notes.contains("the daemon of h0 is ready"), "{notes}");
    assert!(notes.contains("daemon-stop of h5 came 4 more times"), "{notes}");
    assert!(notes.contains("packets between daemons and switches were dropped"), "{notes}");
    let log = |name: &str| dir.join(format!("{name}.log"));
    assert_eq!(events(&log("sluiced-h0"), "start"), 2);
    assert_eq!(events(&log("sluiced-h1"), "start"), 1);
    // Everybody loses the switch once when it starts anew, and who is cut off once more.
    assert!(events(&log("sluiced-h1"), "switch-down") >= 1);
    let cut_off = events(&log("sluiced-h4"), "switch-down");
    assert!(cut_off >= 2, "{cut_off}: {}", std::fs::read_to_string(log("sluiced-h4")).unwrap());
    let snapshot = |host: &str| {
        let text = std::fs::read_to_string(dir.join(format!("sluiced-{host}.snapshot.json"))).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let steps = |host: &str| {
        let counters = &snapshot(host)["counters"];
        ["clock_steps_forward", "clock_steps_backward"].map(|name| counters[name].as_u64().unwrap())
    };
    assert_eq!((steps("h2"), steps("h1")), ([1, 1], [0, 0]));
}

#[test]
fn what_cannot_be_done_to_real_processes_is_refused_by_name() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/failures.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (was, is, why) in [
        ("kind = \"daemon-kill\", target = \"h0\"", "kind = \"host-death\", target = \"h0\"", "host-death of h0"),
        ("kind = \"daemon-kill\", target = \"h0\"", "kind = \"daemon-kill\", target = \"s0\"", "daemon-kill of s0"),
        ("target = \"s0\" }", "target = \"h0\" }", "switch-restart of the host h0"),
        (
            "kind = \"clock-skew\", target = \"h2\"",
            "kind = \"clock-skew\", target = \"s0\"",
            "clock-skew of the switch s0",
        ),
        ("name = \"sluice\"\n", "name = \"sluice\"\nsluice = { tables = \"nic\" }\n", "s0 keeps no table"),
    ] {
        let changed = text.replacen(was, is, 1);
        assert_ne!(changed, text, "{was}");
        let parsed = Scenario::parse(&changed, sluice_scenario::Notation::Toml, "f.toml", Path::new("."));
        let error = parsed.unwrap_or_else(|e| panic!("{e}")).for_testbed(&[]).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("/faults/"), "{error}");
    }
}
