//! The page of a real process: who gets it, what its stream says of real hosts, and what a browser makes of it, also after the
//! process was killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use sluice_browser::{Browser, BrowserError, Scheme};
use sluice_page::SWITCH;
use sluice_schedule::{HolderId, Rate};

use crate::support::{PATIENCE, Switch, announcement, connect, hello};

/// A folder for pictures, if somebody wants to look at them.
const PICTURES: &str = "SLUICE_PICTURES";

fn ask(switch: &Switch, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(switch.http).unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// The lines of a stream of events.
fn stream(switch: &Switch, hz: u32) -> impl Iterator<Item = String> {
    let mut stream = TcpStream::connect(switch.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /api/v1/stream?hz={hz} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    BufReader::new(stream).lines().map_while(Result::ok)
}

fn snapshots(switch: &Switch, hz: u32) -> impl Iterator<Item = Value> {
    stream(switch, hz).filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
}

#[test]
fn it_is_only_to_be_read_by_its_own_name_and_its_policy_is_its_own() {
    let switch = Switch::start();
    let (status, answer) = ask(&switch, "GET", "/", "localhost");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!((status, body), (200, SWITCH.html));
    assert_eq!(head.matches(&format!("content-security-policy: {}", SWITCH.policy)).count(), 1, "{head}");
    for path in ["/", "/api/v1/stream", "/api/v1/snapshot"] {
        assert_eq!(ask(&switch, "GET", path, "evil.example").0, 403, "{path}");
        for method in ["POST", "PUT", "DELETE"] {
            assert_eq!(ask(&switch, method, path, "localhost").0, 405, "{method} {path}");
        }
    }
    let (status, answer) = ask(&switch, "GET", "/api/v1/stream?hz=3", "localhost");
    assert!(status == 400 && answer.contains("allowed are 1 and 4") && answer.contains("hz=1 or hz=4"), "{answer}");
    let (status, answer) = ask(&switch, "GET", "/api/v1/snapshot", "localhost");
    assert!(status == 200 && answer.contains("\"schema\":1"), "{answer}");
}

#[test]
fn who_finds_no_connection_is_counted() {
    let switch = Switch::start();
    let held: Vec<_> = (0..40).map(|_| TcpStream::connect(switch.http).unwrap()).collect();
    // Accepted in their order: where the last one is closed at once, all before it were seen.
    held[39].set_read_timeout(Some(PATIENCE)).unwrap();
    let closed = (&held[39]).read(&mut [0]);
    let reset = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(matches!(closed, Ok(0)) || closed.as_ref().is_err_and(reset), "{closed:?}");
    drop(held);
    let began = std::time::Instant::now();
    let counted = loop {
        let mut stream = TcpStream::connect(switch.http).unwrap();
        let mut answer = String::new();
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_string(&mut answer); // Places of those that are gone may not be free yet.
        let of = |line: &str| {
            line.strip_prefix("sluice_switchd_askers_refused_total{reason=\"connections\"} ")?.parse::<u64>().ok()
        };
        match answer.lines().find_map(of) {
            Some(counted) => break counted,
            None => assert!(began.elapsed() < PATIENCE, "{answer}"),
        }
    };
    assert!(counted >= 8, "{counted} of 40");
}

#[test]
fn streams_have_eight_places_and_end_in_order() {
    let switch = Switch::start();
    let mut streams: Vec<_> = (0..8).map(|_| stream(&switch, 4)).collect();
    assert!(streams.iter_mut().all(|lines| lines.next().unwrap().contains("200")));
    let (status, answer) = ask(&switch, "GET", "/api/v1/stream", "localhost");
    assert!(status == 503 && answer.contains("8 pages are open already"), "{answer}");
    let (_, metrics) = ask(&switch, "GET", "/metrics", "localhost");
    assert!(metrics.contains("sluice_switchd_askers_refused_total{reason=\"streams\"} 1\n"), "{metrics}");
    assert_eq!(ask(&switch, "GET", "/livez", "localhost").0, 200);
    // All are told the same, put together once: also when it was taken.
    let taken = |lines: &mut dyn Iterator<Item = String>| -> Vec<String> {
        lines.filter(|line| line.starts_with("data: ")).take(4).map(|line| line[..60].to_owned()).collect()
    };
    let told: Vec<Vec<String>> = streams.iter_mut().map(|lines| taken(lines)).collect();
    let in_common = told[0].iter().filter(|one| told.iter().all(|all| all.contains(one))).count();
    assert!(in_common >= 1, "{told:?}");
    // Before its connection ends it says that it does: with the chunk that is empty.
    let last: Vec<String> = streams.remove(0).collect();
    assert_eq!(last.iter().rev().find(|line| !line.is_empty()).map(String::as_str), Some("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_real_hosts_and_says_when_the_process_is_gone() {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(BrowserError::Missing) => return sluice_skip::skip!(Thing, "no chromium"),
        Err(error) => panic!("{error}"),
    };
    let switch = Switch::start();
    let (one, two) = (connect(&switch, "h0").await, connect(&switch, "elsewhere").await);
    let mut wrong = hello("h9");
    wrong.grid.cluster = "other".into();
    assert!(sluice_wire::session::SessionClient::connect(&switch.uri(), &wrong).await.is_err());
    let (first, second) = (one.sender, two.sender);
    let announcing = tokio::spawn(async move {
        for seq in 1.. {
            first.announce(HolderId::of("s0"), announcement("h0", seq, 1, Rate::mbps(4000)));
            second.announce(HolderId::of("s0"), announcement("elsewhere", seq, 1, Rate::mbps(2000)));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let receiving = tokio::spawn(async move {
        let (mut first, mut second) = (one.receiver, two.receiver);
        while let (Ok(Some(_)), Ok(Some(_))) = (first.next().await, second.next().await) {}
    });
    let (url, pid) = (format!("http://{}/", switch.http), switch.pid());
    let json = tokio::task::block_in_place(|| {
        snapshots(&switch, 4)
            .find(|snapshot| snapshot["hosts"].as_array().is_some_and(|hosts| hosts.len() == 2))
            .unwrap()
    });
    let link = &json["links"][0];
    assert_eq!(
        (link["switch"].as_str(), link["port"].as_u64(), link["to"].as_str()),
        (Some("s0"), Some(1), Some("h1"))
    );
    assert_eq!(link["next_bps"][0].as_u64(), Some(6_000_000_000), "those with load come first");
    let names: Vec<&str> = json["hosts"].as_array().unwrap().iter().filter_map(|host| host["host"].as_str()).collect();
    assert!(names.contains(&"h0") && names.contains(&"elsewhere"), "a name that no port has was said: {names:?}");
    tokio::task::block_in_place(|| {
        browser.look(1280, 900, Scheme::Light, false).unwrap();
        browser.open(&url).unwrap();
        holds(&mut browser, "document.querySelectorAll('#hosts tr').length === 2");
        let part = (6e9 / Rate::mbps(10_000).payload().0 as f64 * 100.0).round();
        holds(&mut browser, &format!("document.querySelector('#links .slots li').textContent === '{part}'"));
        holds(&mut browser, "document.getElementById('exchange-note').textContent.includes('p50 ≤')");
        let text = browser.eval("document.body.innerText").unwrap().as_str().unwrap_or_default().to_owned();
        for part in [
            "cluster-mismatch",
            "Costs: that host is not listened to.",
            "Do: make slot.length_ms",
            "s0:1",
            &format!("to h1, {}", Rate::mbps(10_000).payload()),
            "2 flows",
            "elsewhere",
            "session",
            "complete",
            "hellos refused",
            &switch.boot,
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        for (name, width, scheme) in [
            ("light", 1280, Scheme::Light),
            ("dark", 1280, Scheme::Dark),
            ("zoomed", 640, Scheme::Light),
            ("narrow", 360, Scheme::Dark),
        ] {
            browser.look(width, 900, scheme, true).unwrap();
            let wide = browser.eval("document.documentElement.scrollWidth").unwrap();
            assert!(wide.as_u64() <= Some(width.into()), "{name}: {wide}");
            picture(&mut browser, name);
        }
        assert_eq!(browser.complaints(), [] as [String; 0], "the console is clean");
        assert!(browser.asked().iter().all(|asked| asked.method == "GET" && asked.url.starts_with(&url)));
        announcing.abort();
        receiving.abort();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), nix::sys::signal::Signal::SIGKILL).unwrap();
        holds(
            &mut browser,
            "/^Stale: last update [0-9.]+ s ago\\. Does sluice-switch still run\\?$/.test(document.getElementById('age').textContent)",
        );
        assert_eq!(browser.eval("document.querySelectorAll('#hosts tr').length").unwrap(), 2, "the last state stays");
    });
}

fn holds(browser: &mut Browser, expression: &str) {
    if !browser.wait(expression, Duration::from_secs(60)).unwrap() {
        let text = browser.eval("document.body.innerText").unwrap();
        panic!("never so: {expression}\n{}\n{:?}", text.as_str().unwrap_or_default(), browser.complaints());
    }
}

fn picture(browser: &mut Browser, name: &str) {
    let png = browser.picture(true).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{name}: {} bytes", png.len());
    if let Some(dir) = std::env::var_os(PICTURES) {
        std::fs::write(std::path::Path::new(&dir).join(format!("sluice-switch-{name}.png")), png).unwrap();
    }
}
