//! The thread that serves is a real-time one, unless it shall not be.

use std::time::Instant;

use sluice_skip::skip;

use crate::support::{PATIENCE, Switch};

/// Priority and policy of each thread of a process, as proc(5) numbers them: 40 and 41; the first is the one that serves.
fn classes(pid: u32) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut tasks: Vec<u32> = tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    tasks.sort_unstable();
    let stats = tasks.iter().map(|task| std::fs::read_to_string(format!("/proc/{pid}/task/{task}/stat")).unwrap());
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
    // The other one counts log lines that were left out.
    assert_eq!(classes(switch.pid()), [rr, other.clone()]);
    assert!(switch.get("/readyz").contains("slot loop: ok, a real-time thread\n"));

    let ordinary = Switch::start_with("realtime = false", "127.0.0.1:0".parse().unwrap());
    assert!(ordinary.get("/readyz").contains("slot loop: ok, an ordinary thread\n"));
    assert_eq!(ordinary.metric("sluice_switchd_realtime"), Some(0.0));
    assert!(classes(ordinary.pid()).iter().all(|class| *class == other));
}
