use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;
use sluice_schedule::policy::Why;
use sluice_schedule::{Bytes, JobId, Nanos, Rate, Slot};
use sluice_wire::snapshot::{Counters, Mode, SCHEMA};
use sluice_wire::timeline::{FlowRecord, Limits, Trigger};

use super::*;

mod audit;
mod stream;

/// Slots of the fake's timeline: more than the buffers of a connection hold of it.
const SLOTS: u32 = 40_000;

struct Fake {
    snapshots: watch::Sender<Arc<Snapshot>>,
    /// How often the loop's lock would have been taken for the timeline.
    looks: AtomicUsize,
    age: Mutex<Option<Duration>>,
    commands: Mutex<Vec<Command>>,
    noted: Mutex<Vec<Entry>>,
    flight: Mutex<Option<PathBuf>>,
    /// Whoever asks for a snapshot waits while this is taken.
    still: Mutex<()>,
    turned_away: TurnedAway,
}

impl Control for Fake {
    fn snapshot(&self) -> Arc<Snapshot> {
        drop(self.still.lock().expect("lock"));
        let mut snapshot = Snapshot::default();
        snapshot.daemon.ready = true;
        snapshot.clock.slot_length_ns = 60_000_000;
        Arc::new(snapshot.settle())
    }
    fn published(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.subscribe()
    }
    fn loop_age(&self) -> Option<Duration> {
        *self.age.lock().expect("lock")
    }
    fn timeline(&self) -> Timeline {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let limits = Limits { time: Nanos(u64::MAX), ..Limits::default() };
        let mut timeline = Timeline::new("h", Nanos(60_000_000), limits);
        for slot in 0..SLOTS {
            timeline.flow(FlowRecord {
                flow: FlowId(1),
                job: JobId::of("a"),
                ordered: Rate(u64::from(slot)),
                delivered: Bytes(1),
                remaining: Bytes(1),
                slot: Slot(slot),
                why: Why::Rank,
                trigger: Trigger::Slot,
            });
        }
        timeline
    }
    fn explain(&self, flow: FlowId) -> Option<Explanation> {
        (flow == FlowId(0x1a3)).then(Explanation::default)
    }
    fn flight(&self) -> Option<PathBuf> {
        self.flight.lock().expect("lock").clone()
    }
    fn config(&self) -> Value {
        json!({ "mode": "observe" })
    }
    fn command(&self, command: Command) -> Result<Outcome, Refused> {
        if command == Command::Reload {
            return Err(Refused::new("E_RANGE", "slot.length_ms is out of range", "write 60"));
        }
        let mode = if let Command::Mode(request) = &command { request.mode } else { Mode::Observe };
        self.commands.lock().expect("lock").push(command);
        Ok(Outcome { schema: SCHEMA, mode, ..Outcome::default() })
    }
    fn note(&self, entry: Entry) {
        self.noted.lock().expect("lock").push(entry);
    }
    fn audit(&self, last: usize) -> Audit {
        let mut audit = Audit { entries: self.noted.lock().expect("lock").clone(), ..Audit::default() };
        audit.keep(last);
        audit
    }
    fn turned_away(&self, lack: Lack) {
        self.turned_away.add(lack);
    }
}

struct Running {
    fake: Arc<Fake>,
    tcp: u16,
    unix: PathBuf,
    _dir: tempfile::TempDir,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn start() -> Running {
    start_with(Duration::from_secs(600))
}

/// With connections that live so long.
fn start_with(time: Duration) -> Running {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let unix = dir.path().join("d.sock");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");
    let fake = Arc::new(Fake {
        snapshots: watch::Sender::new(Arc::new(Snapshot::default().settle())),
        looks: AtomicUsize::new(0),
        age: Mutex::new(Some(Duration::ZERO)),
        commands: Mutex::new(vec![]),
        noted: Mutex::new(vec![]),
        flight: Mutex::new(None),
        still: Mutex::new(()),
        turned_away: TurnedAway::default(),
    });
    let (listeners, tcp) = runtime.block_on(async {
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        (Listeners { tcp: vec![tcp], unix: Some(bind_unix(&unix).expect("a socket")) }, port)
    });
    let control: Arc<dyn Control> = fake.clone();
    let rules = watch::Sender::new(Arc::new(Rules { own_uid: 12345, ..Rules::default() })).subscribe();
    runtime.spawn(serve::serve_each_for(time, listeners, control, rules, std::future::pending()));
    Running { fake, tcp, unix, _dir: dir, runtime: Some(runtime) }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).expect("write");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("read");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, answer)
}

impl Running {
    fn get(&self, path: &str, host: &str) -> (u16, String) {
        let stream = TcpStream::connect(("127.0.0.1", self.tcp)).expect("connect");
        exchange(stream, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    }
    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let stream = UnixStream::connect(&self.unix).expect("connect");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        exchange(stream, &(head + body))
    }
    /// Who was turned away so far: for want of connections, of places among streams, among readings, and among readers of the
    /// metrics.
    fn turned_away(&self) -> [u64; 4] {
        let mut counters = Counters::default();
        self.fake.turned_away.tell(&mut counters);
        let Counters { askers_refused_connections: connections, askers_refused_streams: streams, .. } = counters;
        [connections, streams, counters.askers_refused_readings, counters.askers_refused_metrics]
    }
}

#[test]
fn every_route_answers_with_the_right_kind() {
    let daemon = start();
    for (path, contains) in [
        ("/livez", "ok"),
        ("/readyz", "first slot ok"),
        ("/metrics", "sluice_mode{mode=\"observe\"} 1"),
        ("/api/v1/snapshot", "\"schema\":1"),
        ("/api/v1/jobs", "\"jobs\":[]"),
        ("/api/v1/flows", "\"flows\":[]"),
        ("/api/v1/links", "\"links\":[]"),
        ("/api/v1/switches", "\"switches\":[]"),
        ("/api/v1/schedule", "\"slot_length_ns\":60000000"),
        ("/api/v1/conditions", "\"state\":\"ok\""),
        ("/api/v1/config", "\"mode\":\"observe\""),
        ("/api/v1/explain/0x1a3", "\"flow\""),
        ("/api/v1/timeline?last=60s", "traceEvents"),
        ("/api/v1/timeline?format=csv", "slot,flow,name"),
    ] {
        let (status, answer) = daemon.get(path, "localhost");
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(answer.contains(contains), "{path}: {answer}");
        assert!(answer.contains("content-security-policy"), "{path}");
    }
    assert_eq!(daemon.get("/api/v1/explain/zz", "localhost").0, 400);
    assert_eq!(daemon.get("/api/v1/explain/7", "localhost").0, 404);
    assert_eq!(daemon.get("/api/v1/timeline?last=forever", "localhost").0, 400);
    assert_eq!(daemon.get("/nothing", "localhost").0, 404);
}

#[test]
fn a_foreign_host_header_and_writing_over_tcp_are_refused() {
    let daemon = start();
    assert_eq!(daemon.get("/metrics", "evil.example").0, 421);
    let stream = TcpStream::connect(("127.0.0.1", daemon.tcp)).expect("connect");
    let request = "POST /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(exchange(stream, request).0, 405);
    assert!(daemon.fake.commands.lock().expect("lock").is_empty());
}

#[test]
fn commands_are_taken_on_the_unix_socket_from_those_who_may() {
    let daemon = start();
    let (status, answer) = daemon.post("/api/v1/mode", r#"{"mode":"bypass","for_ns":1000}"#);
    if !nix::unistd::geteuid().is_root() {
        assert_eq!(status, 403, "{answer}");
        return;
    }
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("\"mode\":\"bypass\""), "{answer}");
    let taken = daemon.fake.commands.lock().expect("lock").clone();
    assert!(matches!(&taken[..], [Command::Mode(request)] if request.for_ns == Some(1000)), "{taken:?}");
    assert_eq!(daemon.post("/api/v1/mode", r#"{"mode":"fast"}"#).0, 400);
    assert_eq!(daemon.post("/api/v1/mode", r#"{"mode":"active","fro":1}"#).0, 400);
    let (status, answer) = daemon.post("/api/v1/reload", "");
    assert_eq!(status, 422);
    assert!(answer.contains("E_RANGE"), "{answer}");
    assert_eq!(daemon.post("/api/v1/drain", "").0, 200);
    assert_eq!(daemon.post("/api/v1/log", &" ".repeat(70_000)).0, 413);
}

#[test]
fn a_loop_that_stands_still_fails_livez_only() {
    let daemon = start();
    *daemon.fake.age.lock().expect("lock") = Some(Duration::from_secs(60));
    assert_eq!(daemon.get("/livez", "localhost").0, 503);
    assert_eq!(daemon.get("/readyz", "localhost").0, 200);
    *daemon.fake.age.lock().expect("lock") = None;
    assert_eq!(daemon.get("/livez", "localhost").0, 200);
    assert_eq!(daemon.get("/readyz", "localhost").0, 503);
}

#[test]
fn slow_and_many_clients_are_cut_off() {
    let daemon = start();
    let connect = || TcpStream::connect(("127.0.0.1", daemon.tcp)).expect("connect");
    let mut held: Vec<TcpStream> = (0..32).map(|_| connect()).collect();
    // Accepting is another task's work: ask until the one too many is closed at once.
    let refused = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        let mut extra = connect();
        extra.set_read_timeout(Some(Duration::from_millis(200))).expect("timeout");
        matches!(extra.read(&mut [0]), Ok(0))
            || matches!(extra.read(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset)
    });
    assert!(refused, "a 33rd connection was never closed");
    let [counted, others @ ..] = daemon.turned_away();
    assert!(counted > 0 && others == [0; 3], "{counted} {others:?}");
    held[0].write_all(b"GET / HT").expect("write");
    let mut rest = Vec::new();
    held[0].set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
    held[0].read_to_end(&mut rest).expect("the daemon closes a header that never ends");
}

#[test]
fn whoever_finds_no_place_on_the_unix_socket_counts() {
    let daemon = start();
    let began = Instant::now();
    // On a busy machine the first of them may have been closed for their silence before the last one comes.
    while daemon.turned_away()[0] == 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "all of 33 have a place");
        let connect = |_| UnixStream::connect(&daemon.unix).expect("connect");
        let _held: Vec<UnixStream> = (0..=serve::MAX_CONNECTIONS).map(connect).collect();
        // Accepting is another task's work.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks for the timeline and reads its status only.
fn begin_reading(mut stream: impl Read + Write) -> (u16, impl Read + Write) {
    stream.write_all(b"GET /api/v1/timeline HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("written");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("a status");
    (String::from_utf8_lossy(&head[9..]).parse().unwrap_or(0), stream)
}

#[test]
fn sixty_four_slow_readers_of_the_timeline_cost_six_looks_at_it_at_most() {
    let daemon = start();
    let readers: Vec<_> = (0..32)
        .flat_map(|_| {
            let tcp = begin_reading(TcpStream::connect(("127.0.0.1", daemon.tcp)).expect("connect"));
            let unix = begin_reading(UnixStream::connect(&daemon.unix).expect("connect"));
            [(tcp.0, Box::new(tcp.1) as Box<dyn Read>), (unix.0, Box::new(unix.1))]
        })
        .collect();
    let of = |status| readers.iter().filter(|(seen, _)| *seen == status).count();
    // Four for all, and two more for operators; the others are told so at once.
    let operators = if nix::unistd::geteuid().is_root() { 2 } else { 0 };
    assert_eq!((of(200), of(200) + of(503)), (4 + operators, 64));
    assert_eq!(daemon.fake.looks.load(Ordering::SeqCst), 4 + operators, "nobody else took the loop's lock");
    assert_eq!(daemon.turned_away()[2] as usize, of(503));
    // They go, and others find room.
    drop(readers);
    let again = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        daemon.get("/api/v1/timeline?format=csv&last=60s", "localhost").0 == 200
    });
    assert!(again, "the places of readers that are gone were never free again");
}

#[test]
fn of_five_readers_of_the_metrics_one_is_told_at_once_to_come_again() {
    let daemon = start();
    let still = daemon.fake.still.lock().expect("lock");
    let (answered, answers) = std::sync::mpsc::sync_channel(8);
    let reader = || {
        let (tcp, answered) = (daemon.tcp, answered.clone());
        std::thread::spawn(move || {
            let stream = TcpStream::connect(("127.0.0.1", tcp)).expect("connect");
            stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
            let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            let _ = answered.send(exchange(stream, request)); // Whoever listens has failed already.
        })
    };
    let readers: Vec<_> = (0..=exposition::READERS).map(|_| reader()).collect();
    // No page can be made now: whoever is answered found no place.
    let (status, answer) = answers.recv_timeout(Duration::from_secs(30)).expect("one is answered");
    assert!(status == 503 && answer.contains("as many as may at a time"), "{status}: {answer}");
    assert_eq!(daemon.turned_away(), [0, 0, 0, 1]);
    drop(still);
    for _ in 0..exposition::READERS {
        let (status, answer) = answers.recv_timeout(Duration::from_secs(30)).expect("they are answered");
        assert!(status == 200 && answer.contains("sluice_mode"), "{status}: {answer}");
    }
    readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
    // Their places are free again.
    assert_eq!(daemon.get("/metrics", "localhost").0, 200);
}

#[test]
fn a_reader_that_takes_too_long_is_cut_off_and_can_tell() {
    let daemon = start_with(Duration::from_millis(300));
    let (status, mut stream) = begin_reading(TcpStream::connect(("127.0.0.1", daemon.tcp)).expect("connect"));
    assert_eq!(status, 200);
    std::thread::sleep(Duration::from_secs(1));
    let mut rest = Vec::new();
    // Closed or reset, in the middle of the answer: its last chunk, which is empty, never comes.
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.is_empty() && !rest.ends_with(b"\r\n0\r\n\r\n"), "{} bytes", rest.len());
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let daemon = start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let _guard = runtime.enter();
    let taken = bind_unix(&daemon.unix).expect_err("a daemon lives there");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("s");
    drop(bind_unix(&path).expect("bind"));
    bind_unix(&path).expect("nobody listens any more");
    std::fs::write(dir.path().join("f"), "").expect("write");
    assert!(bind_unix(&dir.path().join("f")).is_err());
}

#[test]
fn a_flight_record_is_handed_out_as_it_lies_on_disk() {
    let daemon = start();
    let (status, answer) = daemon.get("/api/v1/flight", "localhost");
    assert!(status == 404 && answer.contains("flight.file"), "{answer}");
    let file = daemon.unix.with_file_name("flight.ring");
    // One byte over and over, since chunks end where they like, and one that no header has.
    let text = "\u{7f}".repeat(450_000);
    std::fs::write(&file, &text).expect("written");
    *daemon.fake.flight.lock().expect("lock") = Some(file.clone());
    let (status, answer) = daemon.get("/api/v1/flight", "localhost");
    assert!(status == 200 && answer.contains("application/octet-stream"), "{status}");
    assert!(answer.matches('\u{7f}').count() == 450_000, "{} bytes", answer.len());
    std::fs::remove_file(file).expect("removed");
    assert_eq!(daemon.get("/api/v1/flight", "localhost").0, 404);
}
