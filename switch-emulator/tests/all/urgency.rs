//! The thread that serves is a real-time one, unless it shall not be.

use std::time::Instant;

use sluice_skip::skip;

use crate::support::{PATIENCE, Switch};

/// Priority and policy of each thread of a process, as proc(5) numbers them: 40 and 41.
fn classes(pid: u32) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
    stats
        .map(|stat| {
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
            (fields[37].to_owned(), fields[38].to_owned())
        })
        .collect()
}

#[test]
fn the_thread_that_serves_is_real_time_unless_it_shall_not_be() {
    if !nix::unistd::geteuid().is_root() {
        return skip!(Privilege, "not root");
    }
    let (rr, other) = (("1".to_owned(), libc::SCHED_RR.to_string()), ("0".to_owned(), "0".to_owned()));
    let (switch, began) = (Switch::start(), Instant::now());
    while switch.metric("sluice_switchd_realtime") != Some(1.0) {
        assert!(began.elapsed() < PATIENCE, "{:?}", classes(switch.pid()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(classes(switch.pid()), [rr]);
    assert!(switch.get("/readyz").contains("slot loop: ok, a real-time thread\n"));

    let ordinary = Switch::start_with("realtime = false", "127.0.0.1:0".parse().unwrap());
    assert!(ordinary.get("/readyz").contains("slot loop: ok, an ordinary thread\n"));
    assert_eq!(ordinary.metric("sluice_switchd_realtime"), Some(0.0));
    assert_eq!(classes(ordinary.pid()), [other]);
}
