//! The shipped units with the real programs: ready, two jobs scheduled, reload, a mode that is kept, coasting over a restart,
//! an end in order, nothing left. Needs root, for namespaces.

mod jobs;
mod site;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use sluice_skip::skip;
use sluice_testbed::fabric::NetNs;

use jobs::Jobs;
use site::{Host, Site};

const PATIENCE: Duration = Duration::from_secs(30);

/// Can this process make namespaces, mounts and cgroups?
fn privileged() -> bool {
    if let Err(why) = NetNs::create("probe") {
        skip!(Privilege, "{why}");
        return false;
    }
    let cgroups = sluice_testbed::fabric::cgroup::mount_point();
    if let Err(why) = &cgroups {
        skip!(Kernel, "{why}");
    }
    cgroups.is_ok()
}

/// Waits until `seen` is content with what the daemon says of itself.
fn until(host: &mut Host, what: &str, seen: impl Fn(&Value) -> bool) {
    let began = Instant::now();
    loop {
        host.service.watch(Duration::from_millis(100)).unwrap_or_else(|e| panic!("{what}: {e}"));
        let snapshot = host.snapshot();
        if seen(&snapshot) {
            return;
        }
        let log = std::fs::read_to_string(&host.service.log).unwrap_or_default();
        assert!(began.elapsed() < PATIENCE, "{what}: {} {}\n{log}", snapshot["jobs"], snapshot["conditions"]);
    }
}

fn managed(snapshot: &Value, job: &str) -> bool {
    let flows = snapshot["flows"].as_array().map(Vec::as_slice).unwrap_or_default();
    flows.iter().any(|flow| flow["job"].as_str().is_some_and(|id| id.contains(job)) && flow["state"] == "managed")
}

/// Threads in the real-time class, by name; priority 1 is the lowest.
fn urgent(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    // rt_priority and policy are fields 40 and 41 of proc(5); two are before the last bracket.
    let urgent = stats
        .filter(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.split(' ').skip(37).take(2).eq(["1", "2"])));
    urgent.filter_map(|stat| Some(stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned())).collect()
}

/// Waits until the thread of this name is in the real-time class, and no other is.
fn decides_in_time(pid: u32, name: &str) {
    let began = Instant::now();
    while urgent(pid) != [name] {
        assert!(began.elapsed() < PATIENCE, "{name}: {:?}", urgent(pid));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A field of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field}: {text}")).trim().to_owned()
}

/// Its effective capabilities.
fn capabilities(pid: u32) -> u64 {
    u64::from_str_radix(&status(pid, "CapEff"), 16).expect("a number")
}

#[test]
fn services_schedule_two_jobs_reload_keep_their_mode_and_coast_over_a_restart() {
    if privileged() {
        schedule_reload_and_coast(false);
    }
}

#[test]
fn services_whose_privileges_are_a_helpers_do_so_too_under_the_same_unit() {
    if privileged() {
        schedule_reload_and_coast(true);
    }
}

fn schedule_reload_and_coast(split: bool) {
    let mut site = Site::start(split);
    let mut jobs = Jobs::start(&site, &["left", "right"]);
    for host in &mut site.hosts {
        until(host, "two jobs are scheduled", |s| managed(s, "left") && managed(s, "right"));
        let pid = host.service.pid().expect("it runs");
        if split && !sluice_units::confine::may_raise_limits().expect("capabilities") {
            // Here a capability stands for the unit's limit, and the brain gives up all of them: it says what it lacks.
            until(host, "it says why its thread is an ordinary one", |s| {
                let conditions = s["conditions"].to_string();
                conditions.contains("realtime-refused") && conditions.contains("RLIMIT_RTPRIO is 0")
            });
        } else {
            decides_in_time(pid, "loop");
        }
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it lives");
        let helper: Option<u32> = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        assert_eq!((helper.is_some(), capabilities(pid) == 0), (split, split), "{children}");
        if let Some(helper) = helper {
            assert!(capabilities(helper) != 0 && !status(helper, "Uid").starts_with('0'));
            assert_eq!((status(helper, "NoNewPrivs"), status(pid, "NoNewPrivs")), ("1".into(), "1".into()));
        }
        let clock = host.snapshot()["clock"].clone();
        assert!(clock["max_error_ns"].as_u64().is_some_and(|ns| ns > 0), "the filters let the clock be read: {clock}");
    }

    // A reload of a good file; of a bad one the first command fails, and the daemon hears nothing of it.
    let host = &mut site.hosts[0];
    host.write("etc/sluice/sluiced.d/20-log.toml", "[log]\nlevel = \"debug\"\n");
    assert!(host.reload().success());
    let filter = |host: &mut Host| host.post("/api/v1/log", "{}");
    let began = Instant::now();
    while !filter(host).contains("debug") {
        assert!(began.elapsed() < PATIENCE, "{}", filter(host));
        std::thread::sleep(Duration::from_millis(20));
    }
    host.write("etc/sluice/sluiced.d/20-log.toml", "[log]\nlevel = 3\n");
    assert_eq!(host.reload().code(), Some(2));
    until(host, "it does not know of the bad file", |s| !s["conditions"].to_string().contains("config-rejected"));
    host.write("etc/sluice/sluiced.d/20-log.toml", "");

    // Stopped and started: flows are still under their last orders while nobody is there, and under new ones after.
    host.stop();
    let gone = jobs.now();
    std::thread::sleep(Duration::from_millis(300));
    let back = jobs.now();
    assert!(jobs.all_managed(0, gone, back), "coasting");
    host.after();
    host.start();
    until(host, "both are scheduled again", |s| managed(s, "left") && managed(s, "right"));
    assert!(jobs.moved(0, gone, jobs.now()), "no byte was acknowledged over the restart");

    // A mode that is kept lies where the unit lets it be written, and nowhere else may it write.
    assert!(host.post("/api/v1/mode", r#"{"mode":"bypass","persist":true}"#).contains("bypass"));
    host.stop();
    host.after();
    host.start();
    until(host, "the mode was kept", |s| s["daemon"]["mode"] == "bypass");
    assert!(host.root.at("/var/lib/sluice/sluiced.d/90-mode.toml").exists());
    let said = std::fs::read_to_string(&host.service.log).expect("a log");
    assert!(!said.contains("Read-only") && !said.contains("ermission denied"), "{said}");
    assert!(!said.contains("is refused in the"), "{said}");

    jobs.still_run();
    site.end();
}

/// In a user namespace of its own, as its unit has it, no capability stands for a limit that this machine may not raise.
#[test]
fn a_switch_serves_in_time_under_its_unit() {
    if !privileged() {
        return;
    }
    if !sluice_units::confine::may_raise_limits().expect("capabilities") {
        return skip!(Thing, "no CAP_SYS_RESOURCE, so the unit's LimitRTPRIO cannot be raised");
    }
    let site = Site::only_switch();
    let switch = site.switch.as_ref().expect("it has one");
    decides_in_time(switch.pid().expect("it runs"), "sluice-switch");
    site.end();
}

#[test]
fn a_fresh_installation_only_looks_and_its_watchdog_sees_a_hanging_daemon() {
    if !privileged() {
        return;
    }
    let mut site = Site::quiet();
    let host = &mut site.hosts[0];
    assert_eq!(host.snapshot()["daemon"]["mode"], "observe", "a fresh installation only looks");
    // The drop-in says 2 s: a living one has spoken.
    host.service.watch(Duration::from_secs(3)).expect("alive");
    host.service.signal(Signal::SIGSTOP).expect("it lives");
    let error = host.service.watch(Duration::from_secs(4)).expect_err("a manager would restart it").to_string();
    assert!(error.contains("WatchdogSec"), "{error}");
    host.service.kill().expect("it lives");
    site.end();
}
