//! What is left of a daemon that dies of its input.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PATIENCE, Running, program};

/// A daemon that lives for some slots and then dies of the input that builds with debug assertions have.
fn dies(dir: &Path) {
    let mut running = Running::start(dir, program(dir).stdout(Stdio::null()).stderr(Stdio::null()));
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(dir.join("run/poison"), "").expect("written");
    let began = Instant::now();
    while running.child.try_wait().expect("waited for").is_none() {
        assert!(began.elapsed() < PATIENCE, "it lives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Promises: P-24
#[test]
#[cfg_attr(not(debug_assertions), ignore = "other builds have no input to die of")]
fn what_it_was_told_before_it_died_again_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = dir.path().join("state/crash.jsonl");
    dies(dir.path());
    assert!(!kept.exists(), "the first time nobody knows");
    dies(dir.path());
    let text = std::fs::read_to_string(&kept).expect("kept");
    let told = |line| serde_json::from_str::<Value>(line).is_ok_and(|line| line["event"].is_array());
    assert!(text.lines().count() > 2 && text.lines().all(told), "{text}");
}
