//! A4: what a local user can do to the daemon's socket, and to its page of metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::attacker::{Local, PATIENCE, Who, once, turn, until};
use crate::programs::{Daemon, ask, value};

fn post(socket: &std::path::Path, route: &str, body: &str) -> usize {
    let stream = UnixStream::connect(socket).expect("everybody may connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = format!(
        "POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    ask(stream, &request).map_or(0, |(status, _)| usize::from(status))
}

/// A-8: commands of somebody who may not give any.
#[test]
fn a_user_who_is_no_operator_changes_nothing_and_is_noted() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let socket = daemon.socket();
    for (route, body) in [
        ("/api/v1/mode", r#"{"mode":"bypass"}"#),
        ("/api/v1/reload", ""),
        ("/api/v1/drain", r#"{"job":"a"}"#),
        ("/api/v1/log", r#"{"filter":"trace"}"#),
    ] {
        assert_eq!(once(Who::attacker(), || post(&socket, route, body)), 403, "{route}");
    }
    assert_eq!(daemon.snapshot()["daemon"]["mode"], "observe");
    until("it is in the log", || daemon.log().contains("command-refused"));
    assert_eq!(post(&socket, "/api/v1/mode", r#"{"mode":"bypass"}"#), 200, "an operator may");
}

/// A-27: what others' jobs do, asked for by a user where that is for operators.
#[test]
fn where_details_are_for_operators_another_user_reads_none() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("[http]\nlisten = []\ndetails = \"operators\"");
    let socket = daemon.socket();
    let ask_for = |route: &str| {
        let stream = UnixStream::connect(&socket).expect("everybody may connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let request = format!("GET {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        ask(stream, &request).map_or(0, |(status, _)| usize::from(status))
    };
    for of in ["snapshot", "host", "jobs", "flows", "schedule", "explain/1", "timeline", "flight", "stream"] {
        assert_eq!(once(Who::attacker(), || ask_for(&format!("/api/v1/{of}"))), 403, "{of}");
    }
    assert_eq!(once(Who::attacker(), || ask_for("/livez")), 200, "it is only told what is for everybody");
    assert_eq!(ask_for("/api/v1/snapshot"), 200, "an operator reads them");
}

/// A-8: connections that are held, and say nothing, or too little.
#[test]
fn held_connections_shut_nobody_out() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let socket = daemon.socket();
    let (holder, held) = Local::start(Who::attacker(), || {
        let mut all: Vec<UnixStream> =
            (0..64).map(|_| UnixStream::connect(&socket).expect("everybody may connect")).collect();
        std::thread::sleep(Duration::from_millis(300));
        let mut open = 0;
        for stream in &mut all {
            stream.set_read_timeout(Some(Duration::from_millis(5))).expect("set");
            // A byte now and then, as a slow client: a closed one cannot be written to.
            let closed = stream.write_all(b"G").is_err() || matches!(stream.read(&mut [0]), Ok(0));
            open += usize::from(!closed);
        }
        std::mem::forget(all);
        open
    });
    assert!(held <= 8, "{held} connections of one user are open");
    let began = Instant::now();
    assert_eq!(daemon.get("/livez").map(|(status, _)| status), Some(200), "an operator is answered");
    let other = once(Who::victim(), || {
        let stream = UnixStream::connect(&socket).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        ask(stream, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .map_or(0, |a| usize::from(a.0))
    });
    assert_eq!(other, 200, "and so is another user");
    assert!(began.elapsed() < Duration::from_secs(20));
    // Who says too little is hung up on.
    let left = once(Who::attacker(), || {
        let mut stream = UnixStream::connect(&socket).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let _ = stream.write_all(b"GET /livez HT");
        let mut rest = Vec::new();
        // What it wrote may be unread when it is hung up on, which it learns as a reset.
        let end = stream.read_to_end(&mut rest).map_err(|error| error.kind());
        usize::from(end.is_err_and(|kind| kind != std::io::ErrorKind::ConnectionReset))
    });
    assert_eq!(left, 0, "a header that never ends is closed");
    drop(holder);
}

/// A-8: requests that are too large.
#[test]
fn a_request_that_is_too_large_is_refused_and_costs_no_memory() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let socket = daemon.socket();
    let before = daemon.metric("process_resident_memory_bytes");
    assert!(before > 0.0, "nothing tells its memory");
    let status = once(Who::attacker(), || {
        let (mut last, mut cut) = (0_usize, 0);
        for _ in 0..50 {
            let mut stream = UnixStream::connect(&socket).expect("connected");
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
            let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ");
            // Ten megabytes of a header, or as much as is taken.
            let piece = [b'a'; 64 << 10];
            for _ in 0..160 {
                if stream.write_all(&piece).is_err() {
                    cut += 1;
                    break;
                }
            }
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer).into_owned();
            last = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        }
        format!("{last} {cut}")
    });
    let (status, cut) = status.split_once(' ').expect("two words");
    assert_eq!(cut, "50", "so many of fifty endless headers were cut off");
    // Who is cut off while it writes may never read the answer.
    assert!(["431", "400", "0"].contains(&status), "{status}");
    // Of who may not command no body is read, whatever its length.
    let refused = once(Who::attacker(), || post(&socket, "/api/v1/mode", &" ".repeat(1 << 20)));
    assert!(refused == 403 || refused == 0, "{refused}");
    until("it is noted", || daemon.log().contains("command-refused"));
    assert_eq!(post(&socket, "/api/v1/log", &" ".repeat(70_000)), 413, "of an operator at most 64 KiB are");
    std::thread::sleep(Duration::from_millis(1_100));
    let grown = daemon.metric("process_resident_memory_bytes") - before;
    assert!(grown < 16e6, "{grown} bytes more");
    daemon.goes_on();
}

/// A-8: what somebody put in the socket's place while no daemon ran.
#[test]
fn what_stands_in_the_sockets_place_is_not_removed() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("made");
    let precious = dir.path().join("precious");
    std::fs::write(&precious, "x").expect("written");
    std::os::unix::fs::symlink(&precious, run.join("sluiced.sock")).expect("a link");
    let file = Daemon::configured(dir.path(), "");
    let mut command = std::process::Command::new(crate::programs::binaries().daemon().expect("built"));
    let log = std::fs::File::create(dir.path().join("log")).expect("a file");
    let mut child =
        command.arg("--config").arg(file).stdout(log.try_clone().expect("a copy")).stderr(log).spawn().expect("runs");
    let said = || std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    until("it says that the path is taken", || said().contains("is not a socket"));
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(std::fs::read_to_string(precious).expect("still there"), "x");
}

/// Sixteen who ask without a pause, until somebody had a page, and somebody was told to come again since as many as may
/// were reading: how many of each there were.
fn crowd(scrape: impl Fn() -> Option<(u16, String)> + Sync) -> String {
    let (pages, denied, began) = (AtomicUsize::new(0), AtomicUsize::new(0), Instant::now());
    let reader = || {
        let seen = |count: &AtomicUsize| count.load(Ordering::Relaxed) > 0;
        while !(seen(&pages) && seen(&denied)) && began.elapsed() < PATIENCE {
            match scrape() {
                Some((200, _)) => _ = pages.fetch_add(1, Ordering::Relaxed),
                Some((503, why)) if why.contains("as many as may at a time") => {
                    denied.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    };
    std::thread::scope(|scope| (0..16).for_each(|_| _ = scope.spawn(reader)));
    format!("{} {}", pages.into_inner(), denied.into_inner())
}

/// A-27: metrics asked for in a loop, by many.
#[test]
fn a_loop_of_scrapes_costs_a_page_a_second() {
    let Some(_turn) = turn() else { return };
    let at = free();
    let daemon = Daemon::start(&format!("[http]\nlisten = [\"{at}\"]"));
    let cpu = || daemon.metric("process_cpu_seconds_total");
    std::thread::sleep(Duration::from_secs(1));
    let (before, began) = (cpu(), Instant::now());
    let scrape = move || {
        let stream = TcpStream::connect(at).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        ask(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    };
    let is_page = |page: &str| value(page, "process_cpu_seconds_total") > 0.0;
    let (scraper, first) = Local::start(Who::attacker().here(), || {
        let first = scrape().map_or(0, |(status, _)| usize::from(status));
        for _ in 0..8 {
            std::thread::spawn(move || {
                loop {
                    let _ = scrape();
                }
            });
        }
        first
    });
    assert_eq!(first, 200, "the attacker reaches it");
    // Meanwhile an operator has its pages.
    let mut pages = std::collections::BTreeSet::new();
    while began.elapsed() < Duration::from_secs(4) || pages.len() < 3 {
        assert!(began.elapsed() < PATIENCE, "{} pages in {:?}", pages.len(), began.elapsed());
        let Some((200, page)) = daemon.get("/metrics") else { continue };
        assert!(page.len() <= 2 << 20, "{} bytes", page.len());
        assert!(is_page(&page), "{page}");
        pages.insert(page);
        std::thread::sleep(Duration::from_millis(20));
    }
    let elapsed = began.elapsed();
    assert!(pages.len() as u64 <= elapsed.as_secs() + 2, "{} pages in {elapsed:?}", pages.len());
    let told = once(Who::attacker().here(), || crowd(scrape));
    let counts: Vec<usize> = told.split(' ').map(|count| count.parse().expect("a number")).collect();
    assert!(counts.iter().all(|count| *count > 0), "so many had a page, and so many were told to come again: {told}");
    scraper.kill();
    until("an ordinary scraper has its page", || {
        scrape().is_some_and(|(status, page)| status == 200 && is_page(&page))
    });
    daemon.goes_on();
    println!("{} pages and {:.2} s of processor in {elapsed:?}", pages.len(), cpu() - before);
}

/// An address of loopback that nobody has at the moment.
fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// A-27: metrics and details asked for by outsiders.
#[test]
fn an_outsider_learns_no_details_and_no_name_is_rebound() {
    let Some(_turn) = turn() else { return };
    let at = free();
    let daemon = Daemon::start(&format!("[http]\nlisten = [\"{at}\"]"));
    let ask_as = |host: &str, route: &str| {
        let stream = TcpStream::connect(at).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        ask(stream, &format!("GET {route} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).map(|a| a.0)
    };
    assert_eq!(ask_as("evil.example", "/metrics"), Some(421));
    assert_eq!(ask_as("localhost", "/metrics"), Some(200));
    let stream = TcpStream::connect(at).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let command = "POST /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(stream, command).map(|a| a.0), Some(405), "nobody commands by TCP");
    // Another network namespace has another loopback.
    let reached = once(Who::attacker(), || usize::from(TcpStream::connect(at).is_ok()));
    assert_eq!(reached, 0);
    daemon.goes_on();
}
