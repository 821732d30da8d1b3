//! Who commanded what is told by the running program, by its file, and by the next program.

use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Stdio;

use super::{Running, program};

fn entries(running: &Running) -> Vec<Value> {
    let (status, body) = running.ask("GET", "/api/v1/audit?last=50", "").expect("answers");
    assert_eq!(status, 200, "{body}");
    let audit: Value = serde_json::from_str(&body).expect("JSON");
    audit["entries"].as_array().cloned().unwrap_or_default()
}

#[test]
fn who_commanded_what_and_why_outlives_the_daemon_however_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = std::fs::File::create(dir.path().join("log")).expect("a file");
    let mut command = program(dir.path());
    command.stdout(Stdio::null()).stderr(log);
    let mut running = Running::start(dir.path(), &mut command);
    let pid = std::process::id();
    assert_eq!(
        running.ask("POST", "/api/v1/mode", r#"{"mode":"bypass","reason":"is it\nSluice?"}"#).expect("answers").0,
        200
    );
    assert_eq!(running.ask("POST", "/api/v1/reload", r#"{"reason":"new links"}"#).expect("answers").0, 200);
    assert_eq!(running.ask("POST", "/api/v1/reload", "").expect("answers").0, 200);
    assert_eq!(running.ask("POST", "/api/v1/drain", r#"{"job":"none"}"#).expect("answers").0, 422);
    running.signal(Signal::SIGHUP);
    running.wait_until(|running| entries(running).len() == 5);
    let seen = entries(&running);
    let of = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        [text("command"), text("asked"), text("reason"), text("result"), text("way")]
    };
    let seen: Vec<[String; 5]> = seen
        .iter()
        .inspect(|entry| {
            let signal = entry["way"] == "signal";
            assert!(signal || entry["pid"] == pid && entry["uid"] == nix::unistd::getuid().as_raw(), "{entry}");
        })
        .map(of)
        .collect();
    let is = [
        ["mode", "bypass", "is it Sluice?", "done", "socket"],
        ["reload", "", "new links", "done", "socket"],
        ["reload", "", "", "done", "socket"],
        ["drain", "none", "", "refused", "socket"],
        ["reload", "", "", "asked", "signal"],
    ];
    assert_eq!(seen, is.map(|row| row.map(str::to_owned)));
    // Killed: what was told is there, and the next daemon goes on.
    running.signal(Signal::SIGKILL);
    drop(running);
    let log = std::fs::read_to_string(dir.path().join("log")).expect("a log");
    let told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert_eq!(told.filter(|line| line["event"] == "command").count(), 5, "{log}");
    let running = Running::start(dir.path(), program(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()));
    assert_eq!(entries(&running).len(), 5);
    let (_, metrics) = running.ask("GET", "/metrics", "").expect("answers");
    assert!(metrics.contains("\nsluice_commands_unrecorded_total 0\n"), "{metrics}");
}

/// Promises: P-33
#[test]
fn a_state_directory_that_takes_nothing_keeps_no_command_from_being_carried_out() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("state"), "no directory").expect("written");
    let running = Running::start(dir.path(), program(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()));
    let (status, body) = running.ask("POST", "/api/v1/mode", r#"{"mode":"bypass"}"#).expect("answers");
    assert!(status == 200 && body.contains("bypass"), "{status} {body}");
    let (_, body) = running.ask("GET", "/api/v1/audit", "").expect("answers");
    let audit: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&audit["entries"], &audit["unrecorded"]), (&Value::Array(vec![]), &1.into()));
    let mut running = running;
    running.wait_until(|running| {
        running
            .ask("GET", "/metrics", "")
            .is_some_and(|(_, text)| text.contains("\nsluice_commands_unrecorded_total 1\n"))
    });
}
