//! The shipped units start: the real programs with the shipped configuration, in the view of the file system that their
//! unit gives them. Needs root, for the namespaces.

mod view;

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use view::{Installed, Unit, View};

use crate::common;

const PATIENCE: Duration = Duration::from_secs(30);
const SOCKET: &str = "/run/sluice/sluiced.sock";

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
}

fn get(route: &str) -> String {
    format!("GET {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

fn post(route: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

/// Waits until the service has told its manager that it is ready.
fn ready(manager: &UnixDatagram, log: &Path) {
    let mut buffer = [0; 4096];
    loop {
        let said = manager.recv(&mut buffer).map(|n| String::from_utf8_lossy(&buffer[..n]).into_owned());
        match said {
            Ok(said) if said.lines().any(|line| line == "READY=1") => return,
            Ok(_) => {}
            Err(e) => panic!("not ready in 30 s ({e}): {}", std::fs::read_to_string(log).unwrap_or_default()),
        }
    }
}

fn end(child: &mut Child, signal: Option<Signal>) -> ExitStatus {
    if let Some(signal) = signal {
        kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), signal).expect("it lives");
    }
    let began = Instant::now();
    loop {
        match child.try_wait().expect("waited for") {
            Some(status) => return status,
            None => assert!(began.elapsed() < PATIENCE, "does not end"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the thread with this name is a real-time one, of the lowest priority, and no other is.
fn decides_in_time(child: &Child, name: &str, log: &Path) {
    let began = Instant::now();
    // rt_priority and policy are fields 40 and 41 of proc(5); two are before the last bracket.
    let class = |stat: &str| stat.rsplit(") ").next().map(|rest| rest.split(' ').skip(37).take(2).collect::<String>());
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("it lives").flatten();
        let stats: Vec<String> =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok()).collect();
        let urgent: Vec<&String> = stats.iter().filter(|stat| class(stat).is_some_and(|class| class != "00")).collect();
        if let [one] = urgent[..]
            && one.contains(&format!(" ({name}) "))
            && class(one).as_deref() == Some("12")
        {
            return;
        }
        let said = || std::fs::read_to_string(log).unwrap_or_default();
        assert!(began.elapsed() < PATIENCE, "{stats:?}: {}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn view(unit: &str, program: PathBuf, config: &str) -> (View, Unit) {
    let unit = Unit::read(&shipped("systemd").join(unit));
    let tmpfiles = std::fs::read_to_string(shipped("systemd/sluice.tmpfiles.conf")).expect("shipped");
    (View::build(&unit, &Installed { program, config: shipped(config), tmpfiles }), unit)
}

#[test]
fn sluiced_starts_answers_keeps_its_mode_over_a_restart_and_ends() {
    if !common::privileged() {
        return;
    }
    let (view, unit) = view("sluiced.service", common::daemons().daemon().expect("built"), "sluiced.toml");
    let (_keep, dir) = common::dir();
    let log = dir.join("sluiced.log");
    let start = &unit.all("ExecStart")[0];
    let mode = || {
        let (status, snapshot) = view.ask(SOCKET, get("/api/v1/snapshot"));
        assert_eq!(status, 200, "{snapshot}");
        let snapshot: serde_json::Value = serde_json::from_str(&snapshot).expect("JSON");
        snapshot["daemon"]["mode"].as_str().expect("a mode").to_owned()
    };
    // `active` for a moment must leave the machine's own kernel alone.
    view.keep("10-none.toml", "[enforce]\nbackend = \"none\"\n");
    let mut daemon = view.start(start, &log);
    ready(&view.manager, &log);
    assert_eq!(mode(), "observe", "a fresh installation only looks");
    let (status, answer) = view.ask(SOCKET, post("/api/v1/mode", r#"{"mode":"active"}"#));
    assert_eq!(status, 200, "{answer}");
    decides_in_time(&daemon, "loop", &log);
    let (status, answer) = view.ask(SOCKET, post("/api/v1/mode", r#"{"mode":"bypass","persist":true}"#));
    assert_eq!(status, 200, "{answer}");
    // What `systemctl reload` runs first.
    let mut check = view.start(&unit.all("ExecReload")[0], &log);
    assert_eq!(end(&mut check, None).code(), Some(0));
    assert_eq!(end(&mut daemon, Some(Signal::SIGTERM)).code(), Some(0));

    let mut daemon = view.start(start, &log);
    ready(&view.manager, &log);
    assert_eq!(mode(), "bypass", "kept with --persist");
    assert_eq!(end(&mut daemon, Some(Signal::SIGTERM)).code(), Some(0));
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(!said.contains("Read-only") && !said.contains("ermission denied"), "{said}");
}

#[test]
fn sluice_switch_starts_answers_and_ends() {
    if !common::privileged() {
        return;
    }
    let program = common::daemons().switch().expect("built");
    let (view, unit) = view("sluice-switch.service", program, "sluice-switch.toml");
    let (_keep, dir) = common::dir();
    let log = dir.join("sluice-switch.log");
    let mut switch = view.start(&unit.all("ExecStart")[0], &log);
    ready(&view.manager, &log);
    decides_in_time(&switch, "sluice-switch", &log);
    let (status, answer) = view.ask_tcp(9606, get("/readyz"));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(end(&mut switch, Some(Signal::SIGTERM)).code(), Some(0));
}
