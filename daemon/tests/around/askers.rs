//! Who asks while descriptors are short is turned away at once, counted, and answered as soon as there are some.

use std::process::{Command, Stdio};

use super::{Running, program};

/// Sets how many descriptors it may have from now on.
fn limit(running: &Running, descriptors: usize) {
    let pid = running.child.id();
    let status = Command::new("prlimit")
        .args([format!("--pid={pid}"), format!("--nofile={descriptors}:")])
        .status()
        .expect("starts");
    assert!(status.success(), "{status}");
}

/// How many were turned away for want of descriptors.
fn refused(running: &Running) -> Option<u64> {
    let (_, metrics) = running.ask("GET", "/metrics", "")?;
    let of = |line: &str| line.strip_prefix("sluice_askers_refused_total{reason=\"descriptors\"} ")?.parse().ok();
    metrics.lines().find_map(of)
}

#[test]
fn who_asks_while_descriptors_are_short_is_turned_away_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut running = Running::start(dir.path(), program(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()));
    assert_eq!(refused(&running), Some(0));
    let open = std::fs::read_dir(format!("/proc/{}/fd", running.child.id())).expect("it runs").count();
    // Enough to accept somebody, too few to have some left then.
    limit(&running, open + 4);
    running.wait_until(|running| running.ask("GET", "/livez", "").is_none());
    limit(&running, 1024);
    running.wait_until(|running| refused(running).is_some_and(|refused| refused > 0));
}
