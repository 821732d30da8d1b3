//! Every example of the manual against a fake daemon: a Unix socket that serves the committed snapshot.
//!
//! `SLUICE_UPDATE_EXPECTED=1 cargo test -p sluice` writes the expected outputs anew; read the difference before
//! committing it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::Value;

const SNAPSHOT: &str = include_str!("../data/snapshot.json");
const EXPLAIN: &str = include_str!("../data/explain.json");
const TRACE: &str = r#"{"displayTimeUnit":"ms","otherData":{"host":"a","slot_length_ns":60000000,"first_slot":7},
"traceEvents":[{"name":"1 Gbit/s","ph":"X","ts":0.0,"dur":60000.0,"pid":2,"tid":1,"args":{"slot":7}}]}"#;

struct Daemon {
    dir: tempfile::TempDir,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    fn start(snapshot: &str) -> Daemon {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let listener = UnixListener::bind(dir.path().join("d.sock")).expect("a socket");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (snapshot, log) = (snapshot.to_owned(), Arc::clone(&requests));
        // Ends with the test's process; each connection is one request.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &snapshot, &log);
            }
        });
        Daemon { dir, requests }
    }
    fn socket(&self) -> PathBuf {
        self.dir.path().join("d.sock")
    }
    fn run(&self, args: &[&str]) -> Output {
        sluice(&self.socket(), args)
    }
    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("lock").clone()
    }
}

fn answer(stream: UnixStream, snapshot: &str, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request = first.trim_end_matches(" HTTP/1.1\r\n").to_owned();
    let body = String::from_utf8_lossy(&body).into_owned();
    log.lock().expect("lock").push(format!("{request} {body}").trim().to_owned());
    let (status, text) = match request.as_str() {
        "GET /api/v1/snapshot" => (200, snapshot),
        "GET /api/v1/explain/00000000000001a3" => (200, EXPLAIN),
        path if path.starts_with("GET /api/v1/timeline") => (200, TRACE),
        "POST /api/v1/mode" => {
            (200, r#"{"schema":1,"mode":"bypass","state":"ok","message":"mode is bypass for 10 min"}"#)
        }
        "POST /api/v1/drain" => {
            (403, r#"{"code":"not-permitted","message":"this user may not give commands","help":"run it as root"}"#)
        }
        "POST /api/v1/reload" => (
            422,
            r#"{"code":"E_RANGE","message":"the configuration was not taken","problems":[{"code":"E_RANGE","file":"/etc/sluice/sluiced.toml","line":7,"column":13,"key":"slot.length_ms","found":"600","allowed":"5 to 200","message":"slot.length_ms is out of range","help":"write length_ms = 60"}]}"#,
        ),
        _ => (404, r#"{"code":"not-found","message":"no such page","help":""}"#),
    };
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

fn sluice(socket: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(args)
        .env("SLUICE_SOCKET", socket)
        .env("NO_COLOR", "1")
        .output()
        .expect("the program runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_view_looks_as_committed() {
    let daemon = Daemon::start(SNAPSHOT);
    for (name, args) in [
        ("status", vec!["status"]),
        ("jobs", vec!["jobs"]),
        ("jobs-all", vec!["jobs", "--all"]),
        ("job", vec!["job", "4711"]),
        ("flows", vec!["flows", "--job", "4711", "-n", "3"]),
        ("flows-peer", vec!["flows", "--peer", "10.0.9.", "--sort", "retrans"]),
        ("flows-csv", vec!["flows", "-o", "csv", "--fields", "id,ordered_bps,next_bps"]),
        ("links", vec!["links"]),
        ("links-slots", vec!["links", "eth0", "--slots"]),
        ("switches", vec!["switches"]),
        ("schedule", vec!["schedule", "4711", "--slots", "5"]),
        ("explain", vec!["explain", "0x1a3"]),
        ("clock", vec!["clock"]),
        ("mode", vec!["mode"]),
        ("mode-set", vec!["mode", "bypass", "--for", "10m", "--reason", "test"]),
        ("top-once", vec!["top", "--once"]),
        ("concepts", vec!["concepts"]),
        ("fields", vec!["jobs", "--fields", "id,round,pattern"]),
        ("jobs-jsonl", vec!["jobs", "-o", "jsonl", "--fields", "id,round"]),
    ] {
        let output = daemon.run(&args);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/expected").join(name).with_extension("txt");
        if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("mkdir");
            std::fs::write(&path, &output.stdout).expect("write");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(stdout(&output), expected, "{name} differs from {}", path.display());
        assert!(stdout(&output).lines().all(|line| line == line.trim_end()), "{name}: blanks at a line's end");
    }
}

#[test]
fn json_is_exactly_one_document_with_a_schema() {
    let daemon = Daemon::start(SNAPSHOT);
    for args in
        [["status"], ["jobs"], ["flows"], ["links"], ["switches"], ["schedule"], ["clock"], ["mode"], ["version"]]
    {
        let output = daemon.run(&[args[0], "--json"]);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert!(value.is_object());
        assert!(args[0] == "clock" || value["schema"] == 1, "{args:?}: {value}");
        assert!(output.stderr.is_empty(), "{args:?}");
    }
    let status: Value = serde_json::from_str(&stdout(&daemon.run(&["status", "--json"]))).expect("JSON");
    assert_eq!(status["jobs"][0]["ordered_bps"], 9_400_000_000_u64);
}

#[test]
fn version_names_every_interface() {
    let daemon = Daemon::start(SNAPSHOT);
    let (wire, page) = (sluice_wire::hello::MAJOR, sluice_progress::layout::MAJOR);
    let minors = (sluice_wire::hello::MINOR, sluice_progress::layout::MINOR);
    let value: Value = serde_json::from_str(&stdout(&daemon.run(&["version", "--json"]))).expect("JSON");
    assert_eq!(value["wire"], format!("{wire}.{}", minors.0));
    assert_eq!(value["progress_page"], format!("{page}.{}", minors.1));
    assert_eq!((&value["kernel_interface"], &value["snapshot_schema"]), (&sluice_ebpf::ABI.into(), &value["schema"]));
    assert!(value["revision"].is_null() || value["revision"].as_str().is_some_and(|text| !text.is_empty()), "{value}");
    let text = stdout(&daemon.run(&["version"]));
    let formats = format!(
        "JSON schema 1, progress page {page}.{}, wire {wire}.{}, kernel interface {}\n",
        minors.1,
        minors.0,
        sluice_ebpf::ABI
    );
    assert!(text.ends_with(&formats) && text.lines().count() == 3, "{text}");
    let silent = stdout(&sluice(Path::new("/nonexistent/d.sock"), &["version"]));
    assert!(silent.contains("sluiced does not answer") && silent.ends_with(&formats), "{silent}");
}

#[test]
fn exit_statuses_are_those_of_the_manual() {
    let daemon = Daemon::start(SNAPSHOT);
    let healthy = SNAPSHOT.replace("\"state\": \"degraded\",\n  \"uptime_ns\"", "\"state\": \"ok\",\n  \"uptime_ns\"");
    assert_ne!(healthy, SNAPSHOT);
    let healthy = Daemon::start(&healthy);
    let code = |output: Output| (output.status.code(), stderr(&output));
    assert_eq!(code(healthy.run(&["status", "--check"])).0, Some(0));
    assert_eq!(code(healthy.run(&["status", "--wait", "ok"])).0, Some(0));
    let (status, message) = code(daemon.run(&["status", "--check"]));
    assert!(status == Some(3) && message.contains("degraded"), "{message}");
    let quiet = daemon.run(&["status", "--check", "-q"]);
    assert_eq!((quiet.status.code(), quiet.stdout.len(), quiet.stderr.len()), (Some(3), 0, 0));
    assert_eq!(code(daemon.run(&["status", "--wait", "ok", "--timeout", "50ms"])).0, Some(3));
    assert_eq!(code(daemon.run(&["status", "--wait", "ready", "--timeout", "50ms"])).0, Some(0));
    let (status, message) = code(sluice(Path::new("/nonexistent/d.sock"), &["status"]));
    assert!(status == Some(4) && message.contains("not running") && message.contains("help:"), "{message}");
    let (status, message) = code(daemon.run(&["drain"]));
    assert!(status == Some(4) && message.contains("run it as root"), "{message}");
    let (status, message) = code(daemon.run(&["reload"]));
    assert!(
        status == Some(2) && message.contains("/etc/sluice/sluiced.toml:7:13") && message.contains("5 to 200"),
        "{message}"
    );
    assert_eq!(code(daemon.run(&["log", "debug"])).0, Some(3));
    assert_eq!(code(daemon.run(&["mode", "active", "--job", "4711"])).0, Some(2));
    assert_eq!(code(daemon.run(&["mode", "bypass", "--for", "soon"])).0, Some(2));
    assert_eq!(code(daemon.run(&["mode", "bypass", "--host", "gpu-18"])).0, Some(2));
    assert_eq!(code(daemon.run(&["flows", "--fields", "orderd_bps"])).0, Some(2));
}

#[test]
fn misspelt_commands_ids_and_fields_get_a_suggestion() {
    let daemon = Daemon::start(SNAPSHOT);
    for (args, hint) in [
        (vec!["statsu"], "status"),
        (vec!["jobs", "471"], "did you mean `4711`"),
        (vec!["switches", "leaf1"], "did you mean `leaf-1`"),
        (vec!["explain", "0x1a"], "did you mean `0x1a"),
        (vec!["flows", "--fields", "orderd_bps"], "did you mean `ordered_bps`"),
        (vec!["flows", "--stte", "managed"], "--state"),
    ] {
        let output = daemon.run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(hint), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn every_help_has_an_example() {
    let none = Path::new("/nonexistent/d.sock");
    let long = stdout(&sluice(none, &["--help"]));
    assert!(long.contains("sluice doctor") && long.contains("Exit status"), "{long}");
    let commands = [
        "status",
        "top",
        "jobs",
        "flows",
        "links",
        "switches",
        "schedule",
        "explain",
        "clock",
        "mode",
        "reload",
        "drain",
        "log",
        "timeline",
        "doctor",
        "version",
        "bugreport",
        "config",
        "limits",
        "report",
        "man",
    ];
    for command in commands {
        let output = sluice(none, &[command, "--help"]);
        assert!(output.status.success());
        assert!(stdout(&output).contains(&format!("Example: sluice {command}")), "{command}: {}", stdout(&output));
    }
    assert!(stdout(&sluice(none, &["testbed", "run", "--help"])).contains("Example: sluice testbed run"));
    assert!(stdout(&sluice(none, &["completions", "bash"])).contains("_sluice"));
}

#[test]
fn commands_send_what_was_asked() {
    let daemon = Daemon::start(SNAPSHOT);
    daemon.run(&["mode", "bypass", "--for", "10m", "--job", "4711", "--persist", "--reason", "why not"]);
    daemon.run(&["timeline", "--last", "2m", "--format", "csv", "--job", "a/b c"]);
    let requests = daemon.requests();
    let (_, body) = requests[0].split_once("mode ").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(
        (&body["mode"], &body["for_ns"], &body["job"]),
        (&"bypass".into(), &600_000_000_000_u64.into(), &"4711".into())
    );
    assert_eq!((&body["persist"], &body["reason"]), (&true.into(), &"why not".into()));
    assert_eq!(requests[1], "GET /api/v1/timeline?last=120000ms&format=csv&job=a%2Fb%20c");
}

#[test]
fn a_timeline_is_written_and_merged() {
    let daemon = Daemon::start(SNAPSHOT);
    let file = |name: &str| daemon.dir.path().join(name).display().to_string();
    assert!(daemon.run(&["timeline", &file("a.json")]).status.success());
    std::fs::write(file("b.json"), TRACE.replace("\"first_slot\":7", "\"first_slot\":9")).expect("write");
    let merged = daemon.run(&["timeline", "merge", &file("a.json"), &file("b.json"), "--out", &file("ab.json")]);
    assert!(merged.status.success(), "{}", stderr(&merged));
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(file("ab.json")).expect("written")).expect("JSON");
    assert_eq!(trace["traceEvents"][1]["ts"], 120_000.0);
    std::fs::write(file("c.json"), "{}").expect("write");
    let refused = daemon.run(&["timeline", "merge", &file("a.json"), &file("c.json")]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("c.json") && stderr(&refused).contains("slot_length_ns"), "{}", stderr(&refused));
}

#[test]
fn doctor_needs_no_daemon_and_its_exit_status_follows_its_findings() {
    let output = sluice(Path::new("/nonexistent/d.sock"), &["doctor", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let checks = value["checks"].as_array().expect("checks");
    assert!(checks.len() >= 12, "{value:#}");
    for check in checks {
        for key in ["id", "state", "found", "expected", "cost", "fix"] {
            assert!(check[key].is_string(), "{key} in {check}");
        }
    }
    let failed = checks.iter().any(|check| check["state"] == "fail");
    assert_eq!(output.status.code(), Some(if failed { 3 } else { 0 }));
    let names = std::fs::read_dir("/sys/fs/bpf").into_iter().flatten().flatten().map(|e| e.file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("sluicedoc")).collect();
    assert!(left.is_empty(), "doctor left {left:?}");
    let table = stdout(&sluice(Path::new("/nonexistent/d.sock"), &["doctor"]));
    assert!(table.contains(" checks: ") && table.contains("clock"), "{table}");
}

#[test]
fn an_answer_of_another_version_is_a_message_not_a_panic() {
    for body in ["", "{", "[]", "{\"schema\":\"one\"}", "\u{0}\u{1}"] {
        let daemon = Daemon::start(body);
        let output = daemon.run(&["status"]);
        assert_eq!(output.status.code(), Some(1), "{body:?}: {}", stdout(&output));
        assert!(stderr(&output).contains("sluice version"), "{}", stderr(&output));
    }
    let empty = Daemon::start("{\"schema\":1}");
    for command in ["status", "jobs", "flows", "links", "switches", "schedule", "clock", "top"] {
        let output = empty.run(&[command]);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn a_scenario_is_validated_with_every_problem_and_exit_2() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("s.toml");
    let good = r#"version = 1
name = "two"
[network]
kind = "star"
hosts = 2
gpus = 2
gbps = 10
[testbed]
scale = 100
[[jobs]]
id = "a"
arch = "ring"
bytes = 1000000
compute_s = 0.1
workers = 2
iterations = 3
"#;
    let none = Path::new("/nonexistent/d.sock");
    let validate = |text: &str, more: &[&str]| {
        std::fs::write(&path, text).expect("write");
        let shown = path.display().to_string();
        sluice(none, &[&["testbed", "validate", shown.as_str()], more].concat())
    };
    let output = validate(good, &["--policy", "fair:cubic", "--policy", "sluice@nic"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("fair:cubic, sluice@nic"), "{}", stdout(&output));
    let wrong = validate(&good.replace("hosts = 2", "hostz = 2").replace("ring", "rign"), &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("s.toml:5") && stderr(&wrong).contains("rign"), "{}", stderr(&wrong));
    for policy in ["sluise", "fair:vegas", "sluice:fast@nic", "mcs"] {
        let refused = validate(good, &["--policy", policy]);
        assert_eq!(refused.status.code(), Some(2), "{policy}: {}", stderr(&refused));
    }
    assert_eq!(sluice(none, &["testbed", "run", "/nonexistent.toml"]).status.code(), Some(2));
}
