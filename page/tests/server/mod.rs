//! A server that says what a busy `sluiced` says: the page with its policy, a stream of the snapshot in `cli/tests/data`, and
//! one explanation.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluice_page::{HOST, events, host};
use sluice_wire::snapshot::{Explanation, Label, Snapshot, explain};
use sluice_wire::timeline::{Lane, Lanes};

const SNAPSHOT: &str = include_str!("../../../cli/tests/data/snapshot.json");
const EXPLANATION: &str = include_str!("../../../cli/tests/data/explain.json");

/// The snapshot that is shown.
pub fn snapshot() -> Snapshot {
    serde_json::from_str(SNAPSHOT).expect("the committed snapshot")
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    stopped: AtomicBool,
    /// The lines of requests.
    asked: Mutex<Vec<String>>,
    open: Mutex<Vec<TcpStream>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                shared.open.lock().expect("lock").extend(stream.try_clone());
                let shared = Arc::clone(&shared);
                // Whoever reads may go away at any time.
                std::thread::spawn(move || {
                    drop(stream.try_clone().and_then(|stream| answer(stream, &shared)));
                    stream.shutdown(Shutdown::Both)
                });
            }
        });
        Server { address, state }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// As if the daemon were killed: nobody listens any more, and every connection ends.
    pub fn stop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        for stream in self.state.open.lock().expect("lock").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits until this was asked for.
    pub fn wait_for(&self, path: &str) {
        let began = Instant::now();
        let line = format!("GET {path} HTTP/1.1");
        while !self.state.asked.lock().expect("lock").contains(&line) {
            assert!(began.elapsed() < super::PATIENCE, "{path} was never asked for: {:?}", self.state.asked.lock());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn answer(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    state.asked.lock().expect("lock").push(request.clone());
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let policy = if path == "/" { HOST.policy } else { "default-src 'self'" };
    let mut head = |status: &str, kind: &str| {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Security-Policy: {policy}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())
    };
    if path.split('?').next() == Some("/") {
        head("200 OK", "text/html; charset=utf-8")?;
        return stream.write_all(HOST.html.as_bytes());
    }
    if path.starts_with("/api/v1/explain/") {
        let explanation: Explanation = serde_json::from_str(EXPLANATION).expect("the committed explanation");
        let sentence = explain::sentence(&explanation.why).into();
        head("200 OK", "application/json")?;
        return stream.write_all(&serde_json::to_vec(&Explanation { sentence, ..explanation })?);
    }
    if !path.starts_with("/api/v1/stream?") {
        return head("404 Not Found", "text/plain");
    }
    head("200 OK", events::CONTENT_TYPE)?;
    let job = path.split_once("job=").map(|(_, job)| Label::new(job));
    let every = Duration::from_millis(if path.contains("hz=4") { 250 } else { 1000 });
    let mut snapshot = snapshot();
    stream.write_all(&host::history(&lanes(snapshot.clock.slot, 1000))?)?;
    while !state.stopped.load(Ordering::SeqCst) {
        stream.write_all(&host::frame(&snapshot, &lanes(snapshot.clock.slot, 50), job.as_ref())?)?;
        std::thread::sleep(every);
        let slots = every.as_millis() as u32 / 60;
        snapshot.clock.slot += slots;
        snapshot.taken_unix_ns += u64::from(slots) * 60_000_000;
    }
    Ok(())
}

/// Jobs that take turns, as a function of the slot alone.
fn lanes(newest: u32, slots: u32) -> Lanes {
    let level = |job: u32, slot: u32| match (slot + job * 9) % 27 {
        0..8 => char::from_digit(9 - (slot * 7 + job) % 3, 10).unwrap_or('9'),
        8 if job == 1 => '3',
        _ => '0',
    };
    let lane = |(n, job): (u32, &str)| Lane {
        job: Label::new(job),
        levels: (0..slots).map(|i| level(n, newest - slots + 1 + i)).collect(),
    };
    let jobs = [(0, "4711"), (1, "4720"), (2, "vgg-exp")].into_iter().map(lane).collect();
    Lanes { newest: Some(newest), slots, slot_length_ns: 60_000_000, jobs }
}
