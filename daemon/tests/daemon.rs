//! The program as a whole: checks, start, status, reload, a second start, the ways of ending. Needs no privilege.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon of its own run directory; killed and removed when dropped.
struct Daemon {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(config: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluiced"));
    command.arg("--config").arg(config).args(arguments).env_remove("SLUICE_LOG").env_remove("NOTIFY_SOCKET");
    command
}

fn run(config: &Path, arguments: &[&str]) -> Output {
    program(config, arguments).output().expect("the program runs")
}

fn write_config(dir: &Path, extra: &str) -> PathBuf {
    write_config_with(dir, extra, "[peer]\nlisten = []")
}

fn write_config_with(dir: &Path, extra: &str, peer: &str) -> PathBuf {
    let file = dir.join("sluiced.toml");
    let text = format!(
        "{extra}\n[node]\nname = \"h0\"\nrun_dir = \"{}\"\nstate_dir = \"{}\"\n[enforce]\nbackend = \"none\"\n[http]\nlisten = []\n{peer}\n",
        dir.join("run").display(),
        dir.join("state").display()
    );
    std::fs::write(&file, text).expect("written");
    file
}

fn start(extra: &str) -> Daemon {
    let dir = tempfile::tempdir().expect("a directory");
    let config = write_config(dir.path(), extra);
    start_in(dir, &config)
}

fn start_in(dir: tempfile::TempDir, config: &Path) -> Daemon {
    let child = program(config, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut daemon = Daemon { child, dir };
    daemon.wait_until(|daemon| daemon.get("/readyz").is_some_and(|(status, _)| status == 200));
    daemon
}

impl Daemon {
    fn wait_until(&mut self, done: impl Fn(&Daemon) -> bool) {
        let began = Instant::now();
        while !done(self) {
            if let Ok(Some(status)) = self.child.try_wait() {
                let mut text = String::new();
                self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut text));
                panic!("ended with {status}: {text}");
            }
            assert!(began.elapsed() < PATIENCE, "not in 30 s");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    fn socket(&self) -> PathBuf {
        self.dir.path().join("run/sluiced.sock")
    }
    fn ask(&self, request: &str) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split_whitespace().nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }
    fn get(&self, route: &str) -> Option<(u16, String)> {
        self.ask(&format!("GET {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }
    fn post(&self, route: &str, body: &str) -> Option<(u16, String)> {
        let length = body.len();
        self.ask(&format!(
            "POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
    }
    fn snapshot(&self) -> Value {
        let (_, body) = self.get("/api/v1/snapshot").expect("answers");
        serde_json::from_str(&body).expect("JSON")
    }
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        kill(pid, signal).expect("it lives");
    }
    fn end(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waited for") {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_check_says_everything_that_is_wrong_and_touches_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = write_config(dir.path(), "mode = \"fast\"\n[slot]\nlenght_ms = 5\nhorizon = 99");
    let output = run(&config, &["--check", "--offline"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.ends_with("3 errors\n") && text.contains("did you mean `length_ms`"), "{text}");
    let output = run(&config, &["--check", "--offline", "-o", "json"]);
    let problems: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(problems.as_array().map(Vec::len), Some(3));
    // Without --check it does not start either.
    assert_eq!(run(&config, &[]).status.code(), Some(2));
    assert!(!dir.path().join("run").exists());
}

#[test]
fn the_printed_defaults_are_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("defaults.toml");
    std::fs::write(&file, run(&file, &["--defaults"]).stdout).expect("written");
    let output = run(&file, &["--check", "--offline"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn it_starts_without_privilege_says_so_and_ends_cleanly() {
    let mut daemon = start("mode = \"active\"");
    let snapshot = daemon.snapshot();
    assert_eq!(snapshot["enforcement"]["backend"], "none");
    assert_eq!(snapshot["daemon"]["mode"], "active");
    let conditions = snapshot["conditions"].as_array().expect("a list");
    assert!(conditions.iter().any(|condition| condition["code"] == "enforcement-none"), "{conditions:?}");
    assert_eq!(daemon.get("/livez").map(|(status, _)| status), Some(200));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
    assert!(!daemon.socket().exists());
}

/// Whether the deciding loop is a real-time thread, and what is said of that.
fn urgency(daemon: &Daemon) -> (bool, Vec<String>) {
    let snapshot = daemon.snapshot();
    let codes = snapshot["conditions"].as_array().expect("a list").iter().map(|c| c["code"].as_str().expect("a code"));
    let codes = codes.filter(|code| code.starts_with("realtime-")).map(str::to_owned).collect();
    (snapshot["daemon"]["realtime"].as_bool().expect("said"), codes)
}

#[test]
fn the_loop_is_a_real_time_thread_while_it_enforces_until_it_overruns_or_shall_not_be() {
    if !nix::unistd::geteuid().is_root() {
        return sluice_skip::skip!(Privilege, "not root");
    }
    let active = |more| format!("mode = \"active\"\n[schedule]\nrealtime = {more}\n");
    let mut daemon = start(&active("true"));
    let dir = daemon.dir.path().to_owned();
    let reload = |daemon: &Daemon, text: &str| {
        write_config(&dir, text);
        assert_eq!(daemon.post("/api/v1/reload", "{}").map(|(status, _)| status), Some(200));
    };
    daemon.wait_until(|daemon| urgency(daemon) == (true, vec![]));
    // What the kernel sends if a decision does not end.
    daemon.signal(Signal::SIGXCPU);
    daemon.wait_until(|daemon| urgency(daemon) == (false, vec!["realtime-overrun".into()]));
    reload(&daemon, &active("false"));
    daemon.wait_until(|daemon| urgency(daemon) == (false, vec![]));
    reload(&daemon, &active("true"));
    daemon.wait_until(|daemon| urgency(daemon) == (true, vec![]));
    reload(&daemon, "mode = \"observe\"");
    daemon.wait_until(|daemon| urgency(daemon) == (false, vec![]));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn where_the_kernel_refuses_a_real_time_thread_that_is_said_and_nothing_else_is_amiss() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = write_config(dir.path(), "mode = \"active\"");
    let sluiced = program(&config, &[]);
    let mut command = if nix::unistd::geteuid().is_root() {
        // Root, but for the one capability.
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice", "--"]);
        command.arg(sluiced.get_program()).args(sluiced.get_args());
        command.env_remove("SLUICE_LOG").env_remove("NOTIFY_SOCKET");
        command
    } else {
        sluiced
    };
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut daemon = Daemon { child, dir };
    daemon.wait_until(|daemon| daemon.get("/readyz").is_some_and(|(status, _)| status == 200));
    daemon.wait_until(|daemon| urgency(daemon) == (false, vec!["realtime-refused".into()]));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
}

/// Promises: P-25
#[test]
fn a_second_daemon_names_the_first_and_a_killed_one_leaves_no_obstacle() {
    let mut daemon = start("");
    let second = run(&daemon.dir.path().join("sluiced.toml"), &[]);
    assert_eq!(second.status.code(), Some(4));
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(text.contains(&daemon.child.id().to_string()), "{text}");
    daemon.signal(Signal::SIGKILL);
    assert_eq!(daemon.end(), None);
    let config = daemon.dir.path().join("sluiced.toml");
    daemon.child = program(&config, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    daemon.wait_until(|daemon| daemon.get("/readyz").is_some_and(|(status, _)| status == 200));
}

/// Promises: P-24
#[test]
fn a_crash_loop_ends_in_bypass_and_somebody_who_asks_for_a_mode_ends_it() {
    let mut daemon = start("mode = \"active\"");
    let config = daemon.dir.path().join("sluiced.toml");
    let again = |daemon: &mut Daemon, signal| {
        daemon.signal(signal);
        daemon.end();
        daemon.child = program(&config, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        daemon.wait_until(|daemon| daemon.get("/readyz").is_some_and(|(status, _)| status == 200));
        let snapshot = daemon.snapshot();
        (snapshot["daemon"]["mode"] == "bypass", snapshot["conditions"].to_string().contains("restart-loop"))
    };
    // However often it is restarted in order.
    for _ in 0..6 {
        assert_eq!(again(&mut daemon, Signal::SIGTERM), (false, false));
    }
    // The seventh start is the first that does not end in order.
    let crashed: Vec<_> = (0..4).map(|_| again(&mut daemon, Signal::SIGKILL)).collect();
    assert_eq!(crashed, [(false, false), (false, false), (false, false), (true, true)]);
    let (status, body) = daemon.post("/api/v1/mode", r#"{"mode":"active"}"#).expect("answers");
    assert_eq!(status, 200, "{body}");
    let snapshot = daemon.snapshot();
    assert_eq!(snapshot["daemon"]["mode"], "active");
    assert!(!snapshot["conditions"].to_string().contains("restart-loop"));
}

#[test]
fn reload_takes_a_good_file_and_refuses_a_bad_one() {
    let mut daemon = start("");
    let file = daemon.dir.path().join("sluiced.toml");
    let good = std::fs::read_to_string(&file).expect("there");
    std::fs::write(&file, format!("mode = \"bypass\"\n{good}")).expect("written");
    let (status, body) = daemon.post("/api/v1/reload", "").expect("answers");
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"mode\""), "{body}");
    daemon.wait_until(|daemon| daemon.snapshot()["daemon"]["mode"] == "bypass");
    std::fs::write(&file, "mode = 3").expect("written");
    let (status, body) = daemon.post("/api/v1/reload", "").expect("answers");
    assert!(status >= 400 && body.contains("E_PARSE"), "{status} {body}");
    let conditions = daemon.snapshot()["conditions"].to_string();
    assert!(conditions.contains("config-rejected"), "{conditions}");
    // SIGHUP is the other way; a good file ends the condition.
    std::fs::write(&file, format!("mode = \"observe\"\n{good}")).expect("written");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_until(|daemon| daemon.snapshot()["daemon"]["mode"] == "observe");
    daemon.wait_until(|daemon| !daemon.snapshot()["conditions"].to_string().contains("config-rejected"));
    // What is logged changes with it; in which form, with a restart.
    std::fs::write(&file, format!("{good}\n[log]\nlevel = \"warn\"\nformat = \"text\"\n")).expect("written");
    let (_, body) = daemon.post("/api/v1/reload", "").expect("answers");
    let outcome: Value = serde_json::from_str(&body).expect("JSON");
    assert!(outcome["changed"].as_array().expect("a list").contains(&"log.level".into()), "{body}");
    assert_eq!(outcome["waiting"], serde_json::json!(["log.format"]));
    let (_, body) = daemon.post("/api/v1/log", "{}").expect("answers");
    assert!(body.contains("log filter: warn"), "{body}");
}

#[test]
fn the_mode_changes_for_a_time_and_the_log_filter_too() {
    let mut daemon = start("");
    let (status, body) = daemon.post("/api/v1/mode", r#"{"mode":"bypass","for_ns":300000000}"#).expect("answers");
    assert_eq!(status, 200, "{body}");
    assert_eq!(daemon.snapshot()["daemon"]["mode"], "bypass");
    daemon.wait_until(|daemon| daemon.snapshot()["daemon"]["mode"] == "observe");
    let (status, body) = daemon.post("/api/v1/log", r#"{"filter":"debug"}"#).expect("answers");
    assert_eq!(status, 200, "{body}");
    let (status, _) = daemon.post("/api/v1/log", r#"{"filter":"=,=bad["}"#).expect("answers");
    assert!(status >= 400);
    let (status, body) = daemon.post("/api/v1/drain", r#"{"job":"nobody"}"#).expect("answers");
    assert!(status >= 400 && body.contains("not-found"), "{status} {body}");
}

#[test]
fn a_mode_that_is_to_be_kept_is_kept_below_the_state_directory() {
    let mut daemon = start("");
    let config = daemon.dir.path().join("sluiced.toml");
    let (status, body) = daemon.post("/api/v1/mode", r#"{"mode":"bypass","persist":true}"#).expect("answers");
    assert!(status == 200 && body.contains("state/sluiced.d/90-mode.toml"), "{status} {body}");
    assert!(!daemon.dir.path().join("sluiced.d").exists(), "nothing is written beside the configuration");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
    daemon.child = program(&config, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    daemon.wait_until(|daemon| daemon.get("/readyz").is_some_and(|(status, _)| status == 200));
    assert_eq!(daemon.snapshot()["daemon"]["mode"], "bypass");
}

#[test]
fn the_service_manager_is_told_and_the_watchdog_fed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).expect("bound");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let config = write_config(dir.path(), "");
    let child = program(&config, &[]).env("NOTIFY_SOCKET", &path).stderr(Stdio::null()).spawn().expect("starts");
    let mut daemon = Daemon { child, dir };
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !(seen.contains("READY=1") && seen.contains("STATUS=") && seen.contains("WATCHDOG=1")) {
        let n = manager.recv(&mut buffer).expect("news in time");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
    while !seen.contains("STOPPING=1") {
        let n = manager.recv(&mut buffer).expect("news in time");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
}

/// A manager may be busy for long, as one that loads all its units again.
#[test]
fn a_service_manager_that_takes_nothing_does_not_hold_the_loop() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).expect("bound");
    let crowd = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
    crowd.set_nonblocking(true).expect("set");
    while crowd.send_to(b"X_CROWD=1", &path).is_ok() {}
    let config = write_config(dir.path(), "");
    let child = program(&config, &[]).env("NOTIFY_SOCKET", &path).stderr(Stdio::null()).spawn().expect("starts");
    let mut daemon = Daemon { child, dir };
    daemon.wait_until(|daemon| daemon.get("/readyz").is_some_and(|(status, _)| status == 200));
    let (status, answer) = daemon.post("/api/v1/mode", r#"{"mode":"bypass"}"#).expect("answers");
    assert_eq!(status, 200, "{answer}");
    // What it owes is told once there is room.
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let (mut seen, mut buffer) = (String::new(), [0; 4096]);
    while !seen.contains("READY=1") {
        let n = manager.recv(&mut buffer).expect("news in time");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
}

/// A daemon without switches, so that other hosts connect to it, on a free port of every address.
fn with_peer_service(root: &str, keys: &str) -> (tempfile::TempDir, PathBuf, u16) {
    let dir = tempfile::tempdir().expect("a directory");
    let topology = dir.path().join("topology.json");
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"h0","kind":"host","addresses":["127.0.0.1"]},{"id":"s","kind":"switch"}],
        "links":[{"from":"h0","to":"s","capacity":"1Gbit/s","duplex":true}]}"#;
    std::fs::write(&topology, text).expect("written");
    let port = TcpListener::bind("0.0.0.0:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let peer = format!("[peer]\nlisten = [\"0.0.0.0:{port}\"]\n{keys}\n[[links]]\nname = \"lo\"\ngbps = 1\n");
    let config = write_config_with(dir.path(), &format!("{root}\ntopology = {topology:?}"), &peer);
    (dir, config, port)
}

/// Does the service answer what every HTTP/2 client says first?
fn answers_http2(port: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    // Preface and empty settings; somebody who is hung up on may learn of it while writing.
    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    stream.read(&mut [0; 9]).is_ok_and(|n| n > 0)
}

#[test]
fn a_peer_service_beyond_loopback_needs_to_know_its_peers() {
    let (_dir, config, port) = with_peer_service("", "");
    let output = run(&config, &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in
        ["sluiced.toml:", "peer.listen", &format!("0.0.0.0:{port}"), "loopback address", "write [tls]", "peers = ["]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn only_listed_peers_are_answered_and_an_open_service_is_told_of() {
    for (keys, admitted, open) in [
        ("peers = [\"10.0.0.0/8\"]", false, false),
        ("peers = [\"127.0.0.0/8\"]", true, false),
        ("open = true", true, true),
    ] {
        let (dir, config, port) = with_peer_service("unauthenticated = true", keys);
        let daemon = start_in(dir, &config);
        assert_eq!(answers_http2(port), admitted, "{keys}");
        let conditions = daemon.snapshot()["conditions"].to_string();
        assert_eq!(conditions.contains("peers-open"), open, "{keys}: {conditions}");
        assert!(conditions.contains("unauthenticated"), "{conditions}");
    }
}

/// Promises: P-8
#[test]
fn cleanup_is_harmless_twice_and_refuses_while_a_daemon_runs() {
    let daemon = start("");
    let config = daemon.dir.path().join("sluiced.toml");
    assert_eq!(run(&config, &["cleanup"]).status.code(), Some(4));
    drop(daemon);
    let dir = tempfile::tempdir().expect("a directory");
    // An instance of its own, so that no other daemon's pins are near.
    let config = write_config(dir.path(), "");
    let text = std::fs::read_to_string(&config).expect("there").replace("[node]", "[node]\ninstance = \"zzcl\"");
    std::fs::write(&config, text).expect("written");
    for arguments in [&["cleanup", "--dry-run"][..], &["cleanup"], &["cleanup"]] {
        let output = run(&config, arguments);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
