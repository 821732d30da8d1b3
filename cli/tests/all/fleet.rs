//! A small fleet of real daemons, Debian's etcd, and the operator's commands: following, rollouts that go through and that
//! return, etcd away, hands on a host, values that cannot be taken. Needs no privilege.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluice_skip::skip;

use crate::desk::{Desk, stderr, stdout};

const PATIENCE: Duration = Duration::from_secs(30);

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(30));
    }
}

struct Fleet {
    desk: Desk,
    etcd: Option<Running>,
    port: u16,
    peer: u16,
    hosts: Vec<Host>,
}

struct Host {
    name: &'static str,
    group: &'static str,
    http: u16,
    process: Option<Running>,
}

impl Fleet {
    fn start_etcd(&mut self) {
        let (client, peer) = (format!("http://127.0.0.1:{}", self.port), format!("http://127.0.0.1:{}", self.peer));
        let mut etcd = Command::new("etcd");
        etcd.arg("--data-dir").arg(self.desk.path("etcd")).args(["--name", "one", "--log-level", "error"]);
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
        etcd.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("one={peer}")]);
        etcd.args(["--unsafe-no-fsync"]).stdout(Stdio::null()).stderr(Stdio::null());
        self.etcd = Some(Running(etcd.spawn().expect("etcd starts")));
    }
    fn start_host(&mut self, index: usize) {
        let Host { name, group, http, .. } = self.hosts[index];
        let dir = self.desk.path(name);
        std::fs::create_dir_all(&dir).expect("made");
        let config = dir.join("sluiced.toml");
        let (run, state) = (dir.join("run"), dir.join("state"));
        let text = format!(
            "[node]\nname = \"{name}\"\nrun_dir = \"{}\"\nstate_dir = \"{}\"\n[enforce]\nbackend = \"none\"\n[peer]\nlisten = []\n\
             [clock]\nrequire_sync = false\n[http]\nlisten = [\"127.0.0.1:{http}\"]\n\
             [fleet]\netcd = [\"http://127.0.0.1:{}\"]\ngroup = \"{group}\"\n",
            run.display(),
            state.display(),
            self.port
        );
        std::fs::write(&config, text).expect("written");
        let sluiced = Path::new(env!("CARGO_BIN_EXE_sluice")).with_file_name("sluiced");
        let mut command = Command::new(&sluiced);
        command.arg("--config").arg(&config).env_remove("NOTIFY_SOCKET").env_remove("SLUICE_LOG");
        let log = std::fs::File::create(dir.join("log")).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("`cargo build --bins` builds sluiced");
        self.hosts[index].process = Some(Running(child));
        wait(name, || self.brief(index).is_some());
    }
    fn line(&self, line: &str) -> String {
        format!("{line} --etcd http://127.0.0.1:{} --config none.toml", self.port)
    }
    fn run(&self, line: &str) -> Output {
        self.desk.run(&self.line(line))
    }
    fn good(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.good(&format!("{line} --json"))).expect("one JSON document")
    }
    fn brief(&self, index: usize) -> Option<Value> {
        serde_json::from_str(&http(self.hosts[index].http, "/api/v1/host")?).ok()
    }
    fn modes(&self) -> Vec<String> {
        let mode =
            |index| self.brief(index).map_or("silent".into(), |brief| brief["mode"].as_str().unwrap_or("?").into());
        (0..self.hosts.len()).map(mode).collect()
    }
    fn until_modes(&self, modes: [&str; 3]) {
        wait(&format!("{modes:?}, but {:?}", self.modes()), || self.modes() == modes);
    }
    fn until_connected(&self, connected: bool) {
        let is = |index| self.brief(index).is_some_and(|brief| brief["fleet"]["connected"] == connected);
        wait("connected", || (0..self.hosts.len()).all(is));
    }
    fn conditions(&self, index: usize) -> Vec<String> {
        let brief = self.brief(index).expect("it answers");
        let codes = brief["conditions"].as_array().expect("a list").iter();
        codes.map(|condition| condition["code"].as_str().unwrap_or_default().to_owned()).collect()
    }
    fn hand(&self, index: usize, mode: &str) {
        let socket = self.desk.path(self.hosts[index].name).join("run/sluiced.sock");
        let output = self.desk.run(&format!("mode {mode} --socket {}", socket.display()));
        assert!(output.status.success(), "{}", stderr(&output));
    }
    /// What somebody writes past all checks.
    fn etcdctl(&self, arguments: &[&str]) -> String {
        let mut etcdctl = Command::new("etcdctl");
        etcdctl.env("ETCDCTL_API", "3").arg(format!("--endpoints=http://127.0.0.1:{}", self.port)).args(arguments);
        let output = etcdctl.output().expect("etcdctl");
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    }
}

/// The body of an answer with status 200.
fn http(port: u16, route: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {route} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.starts_with("HTTP/1.1 200").then_some(text.split_once("\r\n\r\n")?.1.to_owned())
}

/// A host of group rack2 whose job gets slower as soon as its group is active: it answers as a daemon does.
fn slower_host(port: u16, etcd: u16, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("its port");
    listener.set_nonblocking(true).expect("set");
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            stream.set_nonblocking(false).expect("set");
            let _ = stream.read(&mut [0; 4096]);
            let output = Command::new("etcdctl")
                .env("ETCDCTL_API", "3")
                .args([
                    &format!("--endpoints=http://127.0.0.1:{etcd}"),
                    "get",
                    "--print-value-only",
                    "/sluice/default/hosts/modes/rack2",
                ])
                .output()
                .expect("etcdctl");
            let active = stdout(&output).contains("active");
            let state = if active { "released" } else { "managed" };
            let body = json!({
                "schema": 1, "host": "worse", "mode": if active { "active" } else { "observe" },
                "jobs": [{ "id": "4711", "benefit": { "state": state } }], "fleet": { "group": "rack2" },
            })
            .to_string();
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        }
    })
}

fn fleet() -> Fleet {
    let host = |name, group| Host { name, group, http: free_port(), process: None };
    let hosts = vec![host("h0", "rack1"), host("h1", "rack1"), host("h2", "rack2")];
    let mut fleet = Fleet { desk: Desk::new(), etcd: None, port: free_port(), peer: free_port(), hosts };
    fleet.start_etcd();
    (0..3).for_each(|index| fleet.start_host(index));
    fleet.until_connected(true);
    fleet
}

/// The file that says what the fleet is.
fn file(fleet: &Fleet, more: &str) -> PathBuf {
    let entry = |host: &Host| {
        format!("[[hosts]]\nname = \"{}\"\nhttp = \"127.0.0.1:{}\"\ngroup = \"{}\"\n", host.name, host.http, host.group)
    };
    let hosts: String = fleet.hosts.iter().map(entry).collect();
    fleet.desk.write("fleet.toml", &format!("version = 1\n{hosts}{more}"));
    fleet.desk.path("fleet.toml")
}

#[test]
fn a_fleet_follows_etcd_and_a_rollout_returns_by_itself() {
    let found = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        return skip!(Thing, "no etcd: apt-get install etcd-server etcd-client");
    }
    let mut fleet = fleet();
    file(&fleet, "");
    assert!(fleet.good("fleet import fleet.toml --dry-run").contains("would write groups/rack1"));
    fleet.good("fleet import fleet.toml");
    assert!(fleet.good("fleet import fleet.toml").contains("all of it is there already"));
    assert_eq!(fleet.json("fleet show hosts/modes/rack1")["value"]["mode"], "observe");
    // A rollout goes through.
    let rollout = "fleet rollout --groups rack1,rack2 --pause 1s --look 100ms --to";
    let done = fleet.json(&format!("{rollout} active"));
    assert_eq!((&done["status"], &done["touched"]), (&json!("done"), &json!(2)));
    fleet.until_modes(["active"; 3]);
    let status = fleet.json("fleet status");
    let hosts = status["hosts"].as_array().expect("a list");
    assert!(
        hosts.len() == 3 && hosts.iter().all(|host| host["answers"] == true && host["wanted"] == "active"),
        "{status}"
    );
    assert_eq!(fleet.run("fleet set mode rack3 active").status.code(), Some(2));
    // What etcd commanded is noted on the host, as what a person commands is.
    let log = fleet.desk.path("h0/state/audit.jsonl");
    let noted = |form: &str| stdout(&fleet.desk.run(&format!("audit --file {}{form}", log.display())));
    wait("noted", || noted("").contains("mode active") && noted("").contains("the fleet"));
    assert!(noted(" --json").contains("for the group rack1"), "{}", noted(" --json"));

    // etcd is killed: nothing changes, and a host that starts meanwhile begins as it ended.
    fleet.etcd = None;
    fleet.until_connected(false);
    fleet.hosts[1].process = None;
    fleet.start_host(1);
    assert_eq!(fleet.modes(), ["active"; 3]);
    let unheard = fleet.run("fleet status");
    assert!(unheard.status.code() == Some(4) && stderr(&unheard).contains("no etcd answers"), "{}", stderr(&unheard));
    // A hand on a host wins, until it is given back.
    fleet.hand(0, "bypass");
    fleet.start_etcd();
    fleet.until_connected(true);
    fleet.good("fleet set mode rack1 observe");
    fleet.until_modes(["bypass", "observe", "active"]);
    assert!(fleet.conditions(0).contains(&"fleet-by-hand".to_owned()), "{:?}", fleet.conditions(0));
    let silent = fleet.good("fleet status");
    assert!(silent.contains("by hand") && silent.contains("follows"), "{silent}");
    fleet.hand(0, "fleet");
    fleet.until_modes(["observe", "observe", "active"]);
    assert!(!fleet.conditions(0).contains(&"fleet-by-hand".to_owned()));

    // What cannot be taken changes nothing and is told; so is a network that a host cannot use.
    fleet.etcdctl(&["put", "/sluice/default/hosts/modes/rack1", "{\"version\":1,\"mode\":\"on\"}"]);
    wait("rejected", || fleet.conditions(0).contains(&"fleet-rejected".to_owned()));
    assert_eq!(fleet.modes(), ["observe", "observe", "active"]);
    fleet.good("fleet set mode rack1 observe");
    wait("taken again", || !fleet.conditions(0).contains(&"fleet-rejected".to_owned()));
    let topology = r#"{"sluice_topology":1,"nodes":[{"id":"h0","kind":"host"},{"id":"s","kind":"switch"}],"links":[{"from":"h0","to":"s","capacity":"25Gbit/s","duplex":true}]}"#;
    fleet.desk.write("topology.json", topology);
    fleet.good("fleet set topology topology.json");
    let key = "topology";
    let taken =
        |fleet: &Fleet| http(fleet.hosts[0].http, "/api/v1/config").unwrap_or_default().contains("/fleet/topology-");
    wait(key, || taken(&fleet));
    fleet.good("fleet unset topology");
    wait(key, || !taken(&fleet));

    // A job that gets slower brings all groups back.
    let (worse, stop) = (free_port(), Arc::new(AtomicBool::new(false)));
    let thread = slower_host(worse, fleet.port, stop.clone());
    file(&fleet, &format!("[[hosts]]\nname = \"worse\"\nhttp = \"127.0.0.1:{worse}\"\ngroup = \"rack2\"\n"));
    fleet.good("fleet import fleet.toml");
    fleet.good("fleet set mode rack2 observe");
    fleet.until_modes(["observe"; 3]);
    let back = fleet.run(&format!("{rollout} active --json"));
    assert_eq!(back.status.code(), Some(3), "{}", stderr(&back));
    let back: Value = serde_json::from_str(&stdout(&back)).expect("JSON");
    assert_eq!((&back["status"], &back["touched"]), (&json!("returned"), &json!(2)), "{back}");
    assert!(back["ended_by"].as_str().is_some_and(|why| why.contains("worse: job 4711 is slower")), "{back}");
    fleet.until_modes(["observe"; 3]);

    // Paused by one, aborted by another; the terminal that drives it ends with it.
    let mut slow = fleet.desk.command(&fleet.line("fleet rollout --groups rack1 --pause 60s --look 100ms --to active"));
    let mut driver = slow.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
    fleet.until_modes(["active", "active", "observe"]);
    let second = fleet.run(&format!("{rollout} bypass"));
    assert!(second.status.code() == Some(3) && stderr(&second).contains("there is one already"), "{}", stderr(&second));
    let held = fleet.run("fleet set mode rack1 bypass");
    assert!(held.status.code() == Some(3) && stderr(&held).contains("has rack1 in hand"), "{}", stderr(&held));
    assert_eq!(fleet.json("fleet pause")["status"], "paused");
    assert_eq!(fleet.json("fleet abort")["status"], "aborted");
    assert_eq!(driver.wait().expect("it ends").code(), Some(3));
    fleet.until_modes(["observe"; 3]);
    assert_eq!(fleet.run("fleet resume").status.code(), Some(3));
    stop.store(true, Ordering::Relaxed);
    thread.join().expect("it ends");
}
