//! The page and its stream of events: who gets them, how they are framed, and what they may cost.

use std::io::BufReader;
use std::time::Instant;

use futures_util::StreamExt as _;
use sluice_page::pace::Hz;
use sluice_wire::snapshot::{Flow, Label};

use super::super::guard::Caller;
use super::super::stream::{STREAMS_TCP, Streams, told};
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A stream whose head was read.
struct Stream {
    reader: BufReader<TcpStream>,
    head: String,
}

impl Stream {
    fn open(daemon: &Running, query: &str) -> Stream {
        let stream = TcpStream::connect(("127.0.0.1", daemon.tcp)).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut stream = BufReader::new(stream);
        let request = format!("GET /api/v1/stream{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.get_mut().write_all(request.as_bytes()).expect("written");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        Stream { reader: stream, head: String::from_utf8(head).expect("UTF-8") }
    }

    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// The next chunk of the body; none: its end.
    fn chunk(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.reader.read_exact(&mut byte).expect("a length");
            line.push(byte[0]);
        }
        let length = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).expect("hexadecimal");
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk).expect("a chunk");
        chunk.truncate(length);
        (length > 0).then(|| String::from_utf8(chunk).expect("UTF-8"))
    }

    /// The next snapshot.
    fn snapshot(&mut self) -> Value {
        loop {
            let chunk = self.chunk().expect("the stream goes on");
            let event = chunk.split("\n\n").find_map(|event| event.strip_prefix("event: snapshot\ndata: "));
            if let Some(data) = event {
                assert!(chunk.ends_with("\n\n") && !data.contains('\n'), "{chunk}");
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }
}

impl Running {
    /// The loop publishes a snapshot with so many flows.
    fn publish(&self, taken_unix_ns: u64, flows: usize) {
        let flow = |n: usize| Flow {
            id: format!("{n:016x}"),
            job: Label::new(if n == 0 { "first" } else { "others" }),
            ..Flow::default()
        };
        let flows = (0..flows).map(flow).collect();
        self.fake.snapshots.send_replace(Arc::new(Snapshot { taken_unix_ns, flows, ..Snapshot::default() }.settle()));
    }
}

#[test]
fn the_page_comes_with_its_own_policy_and_only_to_be_read() {
    let daemon = start();
    let (status, answer) = daemon.get("/", "localhost");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert_eq!((status, body), (200, sluice_page::HOST.html));
    for line in [
        "content-type: text/html; charset=utf-8",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        &format!("content-security-policy: {}", sluice_page::HOST.policy),
    ] {
        assert_eq!(head.matches(line).count(), 1, "{line} in {head}");
    }
    assert_eq!(head.matches("content-security-policy").count(), 1);
    assert_eq!(daemon.get("/", "evil.example").0, 421);
    assert_eq!(daemon.get("/api/v1/stream", "evil.example").0, 421);
    for method in ["POST", "PUT", "DELETE"] {
        for path in ["/", "/api/v1/stream"] {
            let stream = TcpStream::connect(("127.0.0.1", daemon.tcp)).expect("connect");
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            );
            assert_eq!(exchange(stream, &request).0, 405, "{method} {path}");
            assert_eq!(daemon.ask_unix(&request).0, 405, "{method} {path}");
        }
    }
}

impl Running {
    fn ask_unix(&self, request: &str) -> (u16, String) {
        exchange(UnixStream::connect(&self.unix).expect("connect"), request)
    }
}

#[test]
fn a_rate_that_there_is_not_is_refused_by_the_names_of_those_there_are() {
    let daemon = start();
    for hz in ["0", "2", "10", "fast", "%0a"] {
        let (status, answer) = daemon.get(&format!("/api/v1/stream?hz={hz}"), "localhost");
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("allowed are 1 and 4") && answer.contains("\"help\":\"hz=1 or hz=4\""), "{answer}");
    }
    assert_eq!(daemon.get("/api/v1/stream?hz=1&hz=4", "localhost").0, 400);
}

#[test]
fn a_stream_begins_with_what_was_and_goes_on_with_what_is() {
    let daemon = start();
    daemon.publish(7, 3);
    let mut stream = Stream::open(&daemon, "?hz=4");
    assert_eq!(stream.status(), 200);
    let head = stream.head.to_ascii_lowercase();
    for line in
        ["content-type: text/event-stream; charset=utf-8\r\n", "cache-control: no-store\r\n", "connection: close\r\n"]
    {
        assert!(head.contains(line), "{line} in {head}");
    }
    let first = stream.chunk().expect("a beginning");
    let events: Vec<&str> = first.split("\n\n").collect();
    assert_eq!((events[0], events.len()), ("retry: 250", 4), "{first}");
    let history = events[1].strip_prefix("event: history\ndata: ").expect("a history");
    let history: Value = serde_json::from_str(history).expect("JSON");
    // The fake's one job, a minute of it.
    assert_eq!(history["slots"], 1000);
    assert_eq!(history["jobs"][0]["levels"].as_str().map(str::len), Some(1000));
    assert!(events[2].starts_with("event: snapshot\ndata: {\"schema\":1,\"taken_unix_ns\":7,"), "{}", events[2]);
    // Every event has the last seconds of it, so that nothing is lost with an event.
    std::thread::sleep(Duration::from_millis(300));
    daemon.publish(8, 2);
    let second = loop {
        let snapshot = stream.snapshot();
        if snapshot["taken_unix_ns"] == 8 {
            break snapshot;
        }
    };
    assert_eq!((second["lanes"]["slots"].as_u64(), second["flows"].as_array().map(Vec::len)), (Some(50), Some(2)));
    // One job's flows.
    let mut filtered = Stream::open(&daemon, "?job=first");
    let snapshot = filtered.snapshot();
    assert_eq!((snapshot["flows"].as_array().map(Vec::len), snapshot["totals"]["flows"].as_u64()), (Some(1), Some(2)));
}

#[test]
fn an_event_is_put_together_once_for_all_who_look_and_not_more_often_than_asked() {
    let daemon = start();
    daemon.publish(1, 10);
    let mut streams: Vec<Stream> = (0..4).map(|_| Stream::open(&daemon, "?hz=4")).collect();
    let mut slow = Stream::open(&daemon, "?hz=1");
    streams.iter_mut().chain([&mut slow]).for_each(|stream| assert_eq!(stream.snapshot()["taken_unix_ns"], 1));
    // The fake takes as long as its timeline has slots; once for each beginning, and once for the snapshot that all show.
    assert_eq!(daemon.fake.looks.load(Ordering::SeqCst), 5 + 1);
    // Twenty in a second or a little more: of them the slow one is told few.
    let began = Instant::now();
    for n in 2..22 {
        daemon.publish(n, 10);
        std::thread::sleep(Duration::from_millis(60));
    }
    let took = began.elapsed().as_secs_f64();
    daemon.publish(100, 10);
    std::thread::sleep(Duration::from_millis(400));
    daemon.publish(101, 10);
    let seen = |stream: &mut Stream| -> usize {
        let mut seen = 0;
        while stream.snapshot()["taken_unix_ns"].as_u64() < Some(100) {
            seen += 1;
        }
        seen
    };
    let most = |every: f64| (took / every) as usize + 2;
    let told: Vec<usize> = streams.iter_mut().map(seen).collect();
    assert!(told.iter().all(|told| (1..=most(0.25)).contains(told)), "{told:?} of 20 in {took} s");
    let told = seen(&mut slow);
    assert!(told <= most(1.0), "{told} of 20 in {took} s");
}

#[test]
fn streams_have_few_places_of_which_each_is_free_again_and_commands_have_room() {
    let daemon = start();
    let mut streams: Vec<Stream> = (0..STREAMS_TCP).map(|_| Stream::open(&daemon, "")).collect();
    assert!(streams.iter().all(|stream| stream.status() == 200));
    let (status, answer) = daemon.get("/api/v1/stream", "localhost");
    assert_eq!(status, 503);
    assert!(answer.contains("8 pages are open already"), "{answer}");
    assert_eq!(daemon.turned_away(), [0, 1, 0, 0]);
    // Nobody else is in their way: neither over TCP, nor on the Unix socket, nor a stream there.
    assert_eq!(daemon.get("/livez", "localhost").0, 200);
    assert_eq!(daemon.get("/", "localhost").0, 200);
    assert_eq!(daemon.ask_unix("GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").0, 200);
    let (status, near) = begin_stream(&daemon);
    assert_eq!(status, 200);
    drop((near, streams.pop()));
    let began = Instant::now();
    while daemon.stream_status() != 200 {
        assert!(began.elapsed() < PATIENCE, "the place of a page that was closed is never free again");
        // The end of a connection is seen when something is to be told.
        daemon.publish(1, 1);
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn begin_stream(daemon: &Running) -> (u16, UnixStream) {
    let mut stream = UnixStream::connect(&daemon.unix).expect("connect");
    stream.write_all(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("written");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("a status");
    (String::from_utf8_lossy(&head[9..]).parse().unwrap_or(0), stream)
}

impl Running {
    fn stream_status(&self) -> u16 {
        Stream::open(self, "").status()
    }
}

#[test]
fn who_reads_nothing_is_told_the_newest_later_and_nothing_is_kept_for_him() {
    let daemon = start();
    let (runtime, streams) = (daemon.runtime.as_ref().expect("it runs"), Streams::default());
    daemon.publish(0, 1000);
    let place = streams.place(Caller::Tcp(([127, 0, 0, 1], 5).into())).expect("a place");
    let ends = tokio::time::Instant::now() + PATIENCE;
    let mut stream = Box::pin(told(daemon.fake.clone(), streams, (Hz::Four, None), ends, place));
    let mut next = || {
        let bytes = runtime.block_on(stream.next()).expect("it goes on").expect("it never fails");
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    };
    assert!(next().contains("\"taken_unix_ns\":0,"));
    let before = daemon.fake.looks.load(Ordering::SeqCst);
    // The loop goes on, and waits for nobody: there is nothing to wait for.
    (1..=1000).for_each(|n| daemon.publish(n, 10));
    assert_eq!(daemon.fake.looks.load(Ordering::SeqCst), before, "nothing is put together for him meanwhile");
    std::thread::sleep(Duration::from_millis(300));
    assert!(next().contains("\"taken_unix_ns\":1000,"), "what is old by then he is never told");
    assert_eq!(daemon.fake.looks.load(Ordering::SeqCst), before + 1);
}

#[test]
fn a_stream_ends_in_order_before_its_connection() {
    let daemon = start_with(Duration::from_millis(2600));
    daemon.publish(1, 1);
    let mut stream = Stream::open(&daemon, "");
    stream.snapshot();
    // The chunk that is empty says that nothing is missing.
    while stream.chunk().is_some() {}
    let mut rest = Vec::new();
    stream.reader.read_to_end(&mut rest).expect("and the connection is closed");
    assert!(rest.is_empty());
}
