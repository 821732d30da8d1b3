//! Hosts and a switch that prove who they are, with real daemons and a running job: they exchange, take other certificates
//! without a break, and go on by themselves when one is over. Needs root, BPF and the built daemons.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_identity::authority::{Authority, subject};
use sluice_identity::credentials::unix_now;
use sluice_identity::{Files, Kind};
use sluice_schedule::Rate;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::live::Live;
use sluice_testbed::job::Arch;
use sluice_testbed::run::{Placement, Policy, RunPlan};

use crate::common::{NEVER, ONE_AT_A_TIME, also, daemons, dir, job, privileged, snapshot, star};

const PATIENCE: Duration = Duration::from_secs(40);
/// The cluster of every testbed.
const CLUSTER: &str = "testbed";

/// The files of somebody in the directory of a run.
fn files(dir: &Path, of: &str) -> Files {
    let directory = dir.join("tls").join(of);
    std::fs::create_dir_all(&directory).expect("a directory");
    Files::in_directory(&directory)
}

/// A certificate for so many seconds from now.
fn issue(authority: &Authority, (kind, id): (Kind, &str), files: &Files, seconds: i64) {
    let (subject, now) = (subject(CLUSTER, kind, id).expect("a name"), unix_now());
    let issued = authority.issue_between(&subject, now - 100, now + seconds).expect("issued");
    issued.write(files).expect("written");
}

/// What a daemon's configuration says of them.
fn settings(Files { authorities, certificate, key }: &Files) -> String {
    format!("[tls]\nca = {authorities:?}\ncert = {certificate:?}\nkey = {key:?}\n")
}

fn codes(live: &Live, host: usize) -> Vec<String> {
    let snapshot = snapshot(&live.daemons, host);
    let all = snapshot["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|condition| condition["code"].as_str().map(str::to_owned)).collect()
}

fn switch(live: &Live, host: usize) -> (String, String) {
    let snapshot = snapshot(&live.daemons, host);
    let text = |key: &str| snapshot["switches"][0][key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("view"))
}

/// Runs until it is so.
fn until(live: &mut Live, what: &str, so: impl Fn(&Live) -> bool) {
    let began = Instant::now();
    while !so(live) {
        let (state, codes) = (switch(live, 1), codes(live, 1));
        assert!(began.elapsed() < PATIENCE, "{what} within {PATIENCE:?}: {state:?}, {codes:?}");
        live.run_for(Duration::from_millis(50)).expect("the job goes on");
    }
}

fn events(log: &Path, event: &str) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["event"] == event).count()
}

#[test]
fn hosts_with_certificates_exchange_take_new_ones_without_a_break_and_go_local_when_one_is_over() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let run = dir.join("live");
    let authority = Authority::new(CLUSTER, 1).expect("made");
    let spec = star(2, Rate::mbps(200));
    let jobs = vec![job("a", Arch::Ring, 2, 0, 1 << 20, 100_000)];
    let plan = RunPlan { name: "identity".into(), fabric: spec.clone(), jobs, ..RunPlan::default() };
    let place = Placement { workers: vec![0, 1], servers: Vec::new() };
    issue(&authority, (Kind::Switch, &spec.switches[0]), &files(&run, "switch"), 10_000);
    for host in &spec.hosts {
        issue(&authority, (Kind::Host, host), &files(&run, host), 10_000);
        also(&run, std::slice::from_ref(host), &settings(&files(&run, host)));
    }
    let bench = Bench { binaries: &programs, dir, stop: &NEVER };
    let policy = "sluice".parse::<Policy>().expect("a policy");
    let mut live = Live::start(&bench, &plan, &place, &policy, 50).expect("it starts");
    let up = |live: &Live, host: usize| switch(live, host) == ("up".to_owned(), "fresh".to_owned());
    until(&mut live, "both hear the switch", |live| up(live, 0) && up(live, 1));
    for host in 0..2 {
        assert!(!codes(&live, host).contains(&"unauthenticated".to_owned()), "{:?}", codes(&live, host));
    }

    // Other certificates: they are read, and nobody notices.
    let log = |host: &str| run.join(format!("sluiced-{host}.log"));
    issue(&authority, (Kind::Switch, &spec.switches[0]), &files(&run, "switch"), 20_000);
    spec.hosts.iter().for_each(|host| issue(&authority, (Kind::Host, host), &files(&run, host), 20_000));
    until(&mut live, "they are read", |_| spec.hosts.iter().all(|host| events(&log(host), "certificates-read") >= 1));
    live.run_for(Duration::from_secs(2)).expect("the job goes on");
    assert!(up(&live, 0) && up(&live, 1));
    assert_eq!(events(&log(&spec.hosts[1]), "switch-down"), 0, "the session went on");

    // One that is nearly over, for a daemon that begins with it: it says so, then it is on its own, and its job goes on.
    issue(&authority, (Kind::Host, &spec.hosts[1]), &files(&run, &spec.hosts[1]), 12);
    live.daemons.kill(1);
    live.daemons.restart(&live.fabric, 1).expect("it starts");
    until(&mut live, "it hears the switch again", |live| up(live, 1));
    until(&mut live, "it says that its certificate ends", |live| codes(live, 1).contains(&"cert-expires-soon".into()));
    until(&mut live, "it is on its own", |live| {
        switch(live, 1).1 == "local" && codes(live, 1).contains(&"cert-expired".into())
    });
    let before = live.iterations.len();
    live.run_for(Duration::from_secs(2)).expect("the job goes on");
    assert!(live.iterations.len() > before, "no round ended while one host was on its own");

    // A new one mends it without a restart.
    issue(&authority, (Kind::Host, &spec.hosts[1]), &files(&run, &spec.hosts[1]), 10_000);
    until(&mut live, "it hears the switch again", |live| {
        up(live, 1) && !codes(live, 1).contains(&"cert-expired".to_owned())
    });
}
