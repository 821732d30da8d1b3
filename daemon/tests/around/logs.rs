//! Where lines go: to journald with fields where systemd says so, else as JSON; an idle daemon is silent.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{PATIENCE, Running, program};

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn in_a_container_every_line_is_an_object_with_an_event_and_an_idle_daemon_writes_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let file = std::fs::File::create(&log).expect("a file");
    let mut running = Running::start(dir.path(), program(dir.path()).stdout(Stdio::null()).stderr(file));
    // What the start brings to light is told by then.
    std::thread::sleep(Duration::from_millis(700));
    let started = lines(&log);
    let start = started.iter().find(|line| line["event"] == "start").expect("a line of the start");
    for key in
        ["version", "kernel", "backend", "mode", "slot_ms", "horizon", "clock", "links", "files", "ts", "target", "msg"]
    {
        assert!(start.get(key).is_some(), "no {key}: {start}");
    }
    assert!(start["files"].as_str().is_some_and(|files| files.ends_with("sluiced.toml")), "{start}");
    for line in &started {
        let name = line["event"].as_str().unwrap_or_default();
        let condition = sluice_wire::snapshot::ConditionCode::ALL.iter().any(|code| code.as_str() == name);
        assert!(condition || sluice_logs::Event::of(name).is_some(), "{line}");
        let warns = line["level"] == "warn" || line["level"] == "error";
        assert!(!warns || line.get("cost").is_some() && line.get("next").is_some(), "{line}");
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(lines(&log).len(), started.len(), "an idle daemon: {:?}", lines(&log).last());
    running.end();
    assert_eq!(lines(&log).last().map(|line| line["event"].clone()), Some("stop".into()));
}

/// One field of a datagram to journald: `NAME=value`, or the name, eight bytes of length, and the value.
fn field(message: &[u8], name: &str) -> Option<String> {
    let mut rest = message;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        let (key, value, next) = match line.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&line[..equals], &line[equals + 1..], after),
            None => {
                let length = u64::from_le_bytes(after.get(..8)?.try_into().ok()?) as usize;
                (line, after.get(8..8 + length)?, after.get(8 + length + 1..)?)
            }
        };
        if key == name.as_bytes() {
            return Some(String::from_utf8_lossy(value).into_owned());
        }
        rest = next;
    }
    None
}

#[test]
fn under_systemd_the_journal_gets_fields_of_its_own_and_stderr_nothing() {
    if !nix::unistd::geteuid().is_root() {
        sluice_skip::skip!(Privilege, "a journal of its own needs a mount namespace");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("journal")).expect("made");
    let journal = UnixDatagram::bind(dir.path().join("journal/socket")).expect("a socket");
    journal.set_read_timeout(Some(PATIENCE)).expect("set");
    let stderr = dir.path().join("stderr");
    let daemon = program(dir.path());
    // The stand-in for journald lies where the real one would, in a view of the file system of this program alone.
    let script = format!(
        "mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {dir}/journal /run/systemd/journal \
         && export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) && exec \"$@\"",
        dir = dir.path().display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(daemon.get_program()).args(daemon.get_args());
    for (name, value) in daemon.get_envs() {
        assert_eq!(value, None);
        command.env_remove(name);
    }
    let mut running = Running::start(
        dir.path(),
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&stderr).expect("a file")),
    );
    let mut bytes = vec![0; 64 * 1024];
    let start = loop {
        let length = journal.recv(&mut bytes).expect("a line of the start");
        let message = bytes[..length].to_vec();
        if field(&message, "SLUICE_EVENT").as_deref() == Some("start") {
            break message;
        }
    };
    let is = |name: &str| field(&start, name).unwrap_or_default();
    assert_eq!(
        (is("PRIORITY"), is("SYSLOG_IDENTIFIER"), is("SLUICE_MODE")),
        ("6".into(), "sluiced".into(), "observe".into())
    );
    assert_eq!(is("MESSAGE"), "sluiced runs");
    assert_eq!((is("SLUICE_HORIZON"), is("SLUICE_SLOT_MS")), ("10".into(), "60".into()));
    running.end();
    assert_eq!(std::fs::read_to_string(&stderr).expect("a file"), "");
    // Inherited by something that is not connected to the journal: lines stay where they are asked for.
    let log = dir.path().join("log");
    let file = std::fs::File::create(&log).expect("a file");
    let mut running =
        Running::start(dir.path(), program(dir.path()).env("JOURNAL_STREAM", "1:2").stdout(Stdio::null()).stderr(file));
    running.end();
    assert!(lines(&log).iter().any(|line| line["event"] == "start"));
}
