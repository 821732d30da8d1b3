//! A real `sluiced` that observes, and a real `sluice-switch`, on sockets and loopback ports of their own; and the fabric with
//! daemons that enforce.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use sluice_testbed::run::Binaries;

use crate::attacker::{self, PATIENCE, until};

/// All programs, which `cargo xtask test` builds.
pub fn binaries() -> Binaries {
    let found = Binaries::find().expect("cargo builds sluice-job before the tests of its package");
    found.daemon().and(found.switch()).and(found.sluice()).expect("`cargo build --bins` builds them");
    found
}

/// What this command starts ends with the thread that starts it, however that ends.
fn die_with_this_thread(command: &mut Command) {
    let setup = || {
        // SAFETY: it takes one integer and touches no memory of ours.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(setup) };
}

/// A daemon that observes and enforces nothing, with a run directory of its own.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// With further keys at the end of its file.
    pub fn start(more: &str) -> Daemon {
        let dir = attacker::dir();
        let child = spawn(&Daemon::configured(dir.path(), more), dir.path());
        let mut daemon = Daemon { child, dir };
        until("the daemon is ready", || {
            if let Ok(Some(status)) = daemon.child.try_wait() {
                panic!("sluiced ended with {status}: {}", daemon.log());
            }
            daemon.get("/readyz").is_some_and(|(status, _)| status == 200)
        });
        daemon
    }

    /// Its file in this directory, which holds all that is its own.
    pub fn configured(dir: &Path, more: &str) -> PathBuf {
        let file = dir.join("sluiced.toml");
        let text = format!(
            "[node]\nname = \"h0\"\nrun_dir = \"{}\"\nstate_dir = \"{}\"\n[enforce]\nbackend = \"none\"\n\
             [log]\nlevel = \"debug\"\nformat = \"json\"\n{more}\n",
            dir.join("run").display(),
            dir.join("state").display()
        );
        let peer = if more.contains("[peer]") { "" } else { "[peer]\nlisten = []\n" };
        let http = if more.contains("[http]") { "" } else { "[http]\nlisten = []\n" };
        std::fs::write(&file, text + peer + http).expect("written");
        file
    }

    /// Runs it to its end, which a directory that is refused is; its exit status, and what it said.
    ///
    /// # Panics
    /// It goes on.
    pub fn run(dir: &Path) -> (Option<i32>, String) {
        let mut child = spawn(&Daemon::configured(dir, ""), dir);
        let began = std::time::Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("waited for") {
                break status;
            }
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                panic!("it took what it should refuse, and runs");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        (status.code(), std::fs::read_to_string(dir.join("log")).unwrap_or_default())
    }

    pub fn pages(&self) -> PathBuf {
        self.dir.path().join("run/progress")
    }
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("run/sluiced.sock")
    }
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn get(&self, route: &str) -> Option<(u16, String)> {
        let stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        ask(stream, &format!("GET {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    pub fn snapshot(&self) -> Value {
        let (_, body) = self.get("/api/v1/snapshot").expect("it answers");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Labels of the jobs that live.
    pub fn jobs(&self) -> Vec<String> {
        jobs(&self.snapshot())
    }

    /// Of what was not believed.
    pub fn refused(&self, what: &str) -> f64 {
        self.metric(&format!("sluice_refused_total{{what=\"{what}\"}}"))
    }

    /// The value of a series.
    pub fn metric(&self, series: &str) -> f64 {
        value(&self.get("/metrics").expect("it answers").1, series)
    }

    /// It goes on deciding: slots pass.
    pub fn goes_on(&self) {
        let slots = || self.snapshot()["counters"]["slots"].as_u64().expect("a count");
        let before = slots();
        until("slots pass", || slots() > before + 5);
    }
}

fn spawn(config: &Path, dir: &Path) -> Child {
    let log = std::fs::File::create(dir.join("log")).expect("a file");
    let mut command = Command::new(binaries().daemon().expect("built"));
    command.arg("--config").arg(config).env_remove("SLUICE_LOG").env_remove("NOTIFY_SOCKET");
    command.stdout(Stdio::null()).stderr(log);
    die_with_this_thread(&mut command);
    command.spawn().expect("it starts")
}

/// Labels of the jobs that live in a snapshot.
pub fn jobs(snapshot: &Value) -> Vec<String> {
    let live = snapshot["jobs"].as_array().expect("a list").iter().filter(|job| job["ended_unix_ns"].is_null());
    live.map(|job| job["id"].as_str().expect("text").to_owned()).collect()
}

/// The value of a series on a page of metrics; 0 where it is not there.
pub fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// An HTTP request and its answer: status and body.
pub fn ask(mut stream: impl Read + Write, request: &str) -> Option<(u16, String)> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

/// A process that keeps the tables of `s0` (to `h0` and `h1`, 10 Gbit/s) and `s1` (to `h2`), on loopback.
#[derive(Debug)]
pub struct Switch {
    child: Child,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub udp: SocketAddr,
    dir: tempfile::TempDir,
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Switch {
    /// With these keys at the head of its file.
    pub fn start(keys: &str) -> Switch {
        Switch::of(
            keys,
            "[[switches]]\nname = \"s0\"\nports = [{ id = 0, to = \"h0\", gbps = 10, routes = [\"10.0.0.1\"] }, \
             { id = 1, to = \"h1\", gbps = 10, routes = [\"10.0.0.2\"] }]\n\
             [[switches]]\nname = \"s1\"\nports = [{ id = 0, to = \"h2\", gbps = 1 }]\n",
        )
    }

    /// With these switches.
    pub fn of(keys: &str, switches: &str) -> Switch {
        let dir = attacker::dir();
        let config = dir.path().join("switch.toml");
        let text = format!(
            "{keys}\nlease_slots = 5\nslot.length_ms = 200\nclock.require_sync = false\n[log]\nlevel = \"debug\"\nformat = \"json\"\n\
             [listen]\ngrpc = \"127.0.0.1:0\"\nudp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n{switches}"
        );
        std::fs::write(&config, text).expect("written");
        let log = std::fs::File::create(dir.path().join("log")).expect("a file");
        let mut command = Command::new(binaries().switch().expect("built"));
        command.arg("--config").arg(&config).stdout(Stdio::piped()).stderr(log);
        die_with_this_thread(&mut command);
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let bound: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("no addresses: {line} {}", std::fs::read_to_string(dir.path().join("log")).unwrap_or_default())
        });
        let address = |key: &str| bound[key].as_str().and_then(|text| text.parse().ok()).expect("an address");
        let (grpc, http, udp) = (address("grpc"), address("http"), address("udp"));
        Switch { child, grpc, http, udp, dir }
    }

    pub fn uri(&self) -> String {
        format!("http://{}", self.grpc)
    }
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let stream = TcpStream::connect(self.http).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        ask(stream, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// The sum of all series of this name that have this text in their labels. Pages are a second old at most.
    pub fn metric(&self, name: &str, labels: &str) -> f64 {
        let page = self.get("/metrics").expect("it answers").1;
        let of = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(labels)
        };
        page.lines().filter(of).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// Bytes of a text that could drive a terminal, forge a line, or show something else than is there.
pub fn unsafe_in(text: &str) -> Vec<char> {
    let ends_of_lines = text.replace("\r\n", "\n");
    ends_of_lines.chars().filter(|c| *c != '\n' && sluice_formats::label::is_hidden(*c)).collect()
}

/// Runs `sluice` with a limit on memory and time; its status, what it printed, and how long it took.
pub fn sluice(arguments: &[&str], memory: u64) -> (Option<i32>, String, Duration) {
    let mut command = Command::new(binaries().sluice().expect("built"));
    command.args(arguments).env("NO_COLOR", "1");
    let limit = move || {
        let limit = libc::rlimit { rlim_cur: memory, rlim_max: memory };
        // SAFETY: the limit lives through the call, which reads it.
        match unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(limit) };
    die_with_this_thread(&mut command);
    let began = std::time::Instant::now();
    let output = command.output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned(), began.elapsed())
}
