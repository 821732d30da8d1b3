//! Keys of the configuration by what they change of a running daemon: who reads details over HTTP, what is set of the
//! kernel, and the clock that slots are counted on where the kernel has no offset for it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use sluice_skip::skip;

use super::{PATIENCE, Running, program};

/// An address of this machine that is no loopback address, in a network of a test's own.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 231, 7, 1);
/// What a daemon sets of a network namespace.
const SYSCTLS: [&str; 2] = ["tcp_tso_rtt_log", "tcp_wmem"];

/// Runs a test in a network of its own that has the address [`OWN`]; where that may not be, the test is skipped.
fn alone(body: impl FnOnce() + Send) {
    let inside = || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        for line in ["link set lo up".to_owned(), format!("addr add {OWN}/32 dev lo")] {
            let made = Command::new("ip").args(line.split(' ')).status().expect("ip (iproute2)");
            assert!(made.success(), "ip {line}");
        }
        body();
        Ok::<_, nix::Error>(())
    };
    // A thread has one network for good, and this one may be that of all tests.
    let done = std::thread::scope(|scope| scope.spawn(inside).join());
    if let Err(error) = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        skip!(Privilege, "no network of its own: {error}");
    }
}

/// Writes settings that are read after those of [`program`].
fn more(dir: &Path, text: &str) {
    std::fs::create_dir_all(dir.join("sluiced.d")).expect("made");
    std::fs::write(dir.join("sluiced.d/more.toml"), text).expect("written");
}

fn start(dir: &Path) -> Running {
    Running::start(dir, program(dir).stdout(Stdio::null()).stderr(Stdio::null()))
}

fn snapshot(running: &Running) -> Value {
    let (status, body) = running.ask("GET", "/api/v1/snapshot", "").expect("answers");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

fn reload(running: &Running) {
    let (status, body) = running.ask("POST", "/api/v1/reload", "").expect("answers");
    assert_eq!(status, 200, "{body}");
}

/// The condition of this code, if it holds.
fn condition(snapshot: &Value, code: &str) -> Option<Value> {
    let all = snapshot["conditions"].as_array().expect("a list");
    all.iter().find(|condition| condition["code"] == code).cloned()
}

/// It is told and not refused: a host that does not start would leave its flows to nobody, and tell nobody why.
#[test]
fn a_host_whose_kernel_has_no_offset_of_tai_starts_says_so_and_schedules_alone() {
    let kernel = sluice_clock::kernel().expect("adjtimex may be asked").tai_offset;
    // Whatever the kernel of this machine has, it is another one than what is asked for; mostly it has none.
    let asked = if kernel == 37 { 36 } else { 37 };
    let dir = tempfile::tempdir().expect("a directory");
    let clock = |source: &str| {
        more(dir.path(), &format!("mode = \"active\"\n[clock]\nsource = \"{source}\"\ntai_offset_s = {asked}\n"));
    };
    clock("tai");
    let mut running = start(dir.path());
    running.wait_until(|running| condition(&snapshot(running), "clock-tai-unset").is_some());
    let seen = snapshot(&running);
    let told = condition(&seen, "clock-tai-unset").expect("it holds");
    let sentence = told["sentence"].as_str().expect("a sentence");
    let offsets = format!("the kernel's TAI offset is {kernel} s, not {asked}");
    assert!(sentence.contains(&offsets) && told["severity"] == "degraded", "{told}");
    assert_eq!((&seen["clock"]["source"], &seen["clock"]["trusted"]), (&"tai".into(), &false.into()));
    assert_eq!(condition(&seen, "clock-unsafe"), None, "one condition for one fault");
    assert_eq!(seen["daemon"]["mode"], "active");
    // Slots go on.
    let slots = |running: &Running| snapshot(running)["counters"]["slots"].as_u64().expect("counted");
    let before = slots(&running);
    running.wait_until(|running| slots(running) > before + 3);
    running.end();

    clock("realtime");
    let mut running = start(dir.path());
    running.wait_until(|running| slots(running) > 3);
    assert_eq!(condition(&snapshot(&running), "clock-tai-unset"), None);
    running.end();
}

/// The status of an answer over TCP.
fn status(to: SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(to).expect("the port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn the_page_and_its_numbers_are_for_this_machine_unless_details_are_opened_to_all() {
    alone(|| {
        let near = SocketAddr::from((Ipv4Addr::LOCALHOST, 9605));
        let far = SocketAddr::from((OWN, 9605));
        for (key, expected) in [("", 403), ("details = \"loopback\"\n", 403), ("details = \"all\"\n", 200)] {
            let dir = tempfile::tempdir().expect("a directory");
            more(dir.path(), &format!("[http]\nlisten = [\"0.0.0.0:9605\"]\n{key}"));
            let mut running = start(dir.path());
            for path in ["/", "/api/v1/snapshot", "/api/v1/flows"] {
                assert_eq!((status(near, path), status(far, path)), (200, expected), "{key:?}: {path}");
            }
            // What names no job in words is for everybody.
            assert_eq!((status(far, "/livez"), status(far, "/metrics")), (200, 200), "{key:?}");
            running.end();
        }
    });
}

/// Gives back what a daemon with this configuration has left outside itself.
struct Cleaned<'a>(&'a Path);

impl Drop for Cleaned<'_> {
    fn drop(&mut self) {
        let done = program(self.0).arg("cleanup").stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(std::thread::panicking() || done.is_ok_and(|status| status.success()), "something is left");
    }
}

/// What the kernel has of the settings that a daemon changes while it enforces.
fn values() -> [String; SYSCTLS.len()] {
    SYSCTLS.map(|key| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{key}")).expect("read"))
}

/// What the kernel has of them before, one of them as no daemon would have it, and a configuration that enforces under a
/// name of its own.
fn before_enforcing(letter: char) -> ([String; SYSCTLS.len()], String) {
    std::fs::write("/proc/sys/net/ipv4/tcp_tso_rtt_log", "7").expect("written");
    let instance = format!("{letter}{:06}", std::process::id() % 1_000_000);
    let begin = format!("mode = \"active\"\nnode.instance = \"{instance}\"\n[enforce]\nbackend = \"auto\"\n");
    (values(), begin)
}

#[test]
fn what_the_kernel_has_of_two_settings_is_changed_while_it_enforces_unless_the_key_says_no() {
    alone(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (before, begin) = before_enforcing('k');
        more(dir.path(), &begin);
        let _cleaned = Cleaned(dir.path());
        for (key, changed) in [("sysctls = false\n", false), ("", true), ("sysctls = true\n", true)] {
            more(dir.path(), &format!("{begin}{key}"));
            let mut running = start(dir.path());
            let backend = snapshot(&running)["enforcement"]["backend"].clone();
            assert_ne!(backend, "none", "nothing is enforced, and so nothing is set");
            assert_eq!(values() != before, changed, "{key:?}: {:?}, before {before:?}", values());
            assert_eq!(values()[0].trim() == "0", changed, "{key:?}");
            running.end();
            assert_eq!(values(), before, "{key:?}: given back at the end");
        }
    });
}

#[test]
fn who_may_read_details_changes_with_a_reload() {
    alone(|| {
        let (dir, far) = (tempfile::tempdir().expect("a directory"), SocketAddr::from((OWN, 9605)));
        let near = SocketAddr::from((Ipv4Addr::LOCALHOST, 9605));
        let listen = "[http]\nlisten = [\"0.0.0.0:9605\"]\n";
        more(dir.path(), listen);
        let mut running = start(dir.path());
        for (word, codes) in [("all", [200; 2]), ("loopback", [403, 200]), ("operators", [403; 2])] {
            more(dir.path(), &format!("{listen}details = \"{word}\"\n"));
            reload(&running);
            assert_eq!([far, near].map(|at| status(at, "/api/v1/snapshot")), codes, "{word}");
            // The daemon's own user on the Unix socket reads them, and everybody the metrics.
            snapshot(&running);
            assert_eq!(status(near, "/metrics"), 200, "{word}");
        }
        running.end();
    });
}

#[test]
fn the_settings_of_the_kernel_follow_the_key_with_a_reload() {
    alone(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (before, begin) = before_enforcing('l');
        more(dir.path(), &format!("{begin}sysctls = false\n"));
        let _cleaned = Cleaned(dir.path());
        let mut running = start(dir.path());
        for (key, changed) in [("sysctls = true\n", true), ("sysctls = false\n", false)] {
            more(dir.path(), &format!("{begin}{key}"));
            reload(&running);
            // The deciding loop takes it up by itself, after the answer.
            running.wait_until(|_| (values() != before) == changed);
        }
        running.end();
    });
}
