//! The page of a real daemon in a real browser: on a host without jobs, after a command, and after the daemon was killed.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use sluice_browser::{Browser, BrowserError, Scheme};

use super::{Running, program};

const PATIENCE: Duration = Duration::from_secs(60);

fn holds(browser: &mut Browser, expression: &str) {
    if !browser.wait(expression, PATIENCE).expect("evaluates") {
        let text = browser.eval("document.body.innerText").expect("evaluates");
        panic!("never so: {expression}\n{}\n{:?}", text.as_str().unwrap_or_default(), browser.complaints());
    }
}

#[test]
fn a_browser_shows_a_real_daemon_and_says_when_it_is_gone() {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(BrowserError::Missing) => return sluice_skip::skip!(Thing, "no chromium"),
        Err(error) => panic!("{error}"),
    };
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = program(dir.path());
    // A port that was free just now, since the file must name one.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    std::fs::create_dir(dir.path().join("sluiced.d")).expect("created");
    std::fs::write(dir.path().join("sluiced.d/http.toml"), format!("http.listen = [\"{free}\"]\n")).expect("written");
    let mut running = Running::start(dir.path(), command.stdout(Stdio::null()).stderr(Stdio::null()));
    let url = format!("http://{free}/");
    browser.look(1280, 900, Scheme::Light, false).expect("a size");
    browser.open(&format!("{url}?hz=4")).expect("opens");
    holds(&mut browser, "document.getElementById('host').textContent === 'h0'");
    holds(&mut browser, "document.getElementById('mode').textContent === 'observe'");
    assert_eq!(browser.eval("document.querySelector('input[value=\"4\"]').checked").expect("evaluates"), true);
    let text = browser.eval("document.body.innerText").expect("evaluates");
    let text = text.as_str().unwrap_or_default();
    for part in [
        "enforcement-none",
        "Costs: flows run under ordinary congestion control",
        "No jobs on this host now.",
        "None now.",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    // What somebody commands elsewhere is seen here, and said to who listens.
    assert_eq!(
        running.ask("POST", "/api/v1/mode", r#"{"mode":"bypass","for_ns":600000000000}"#).expect("answers").0,
        200
    );
    holds(&mut browser, "document.getElementById('mode').textContent.startsWith('bypass, returns in ')");
    assert_eq!(browser.complaints(), [] as [String; 0], "the console is clean");
    assert!(browser.asked().iter().all(|asked| asked.method == "GET" && asked.url.starts_with(&url)));
    running.signal(Signal::SIGKILL);
    running.child.wait().expect("waited for");
    holds(&mut browser, "document.body.classList.contains('stale')");
    holds(&mut browser, "document.getElementById('age').textContent.endsWith('Does sluiced still run?')");
    // A new one is found by itself.
    let _running = Running::start(dir.path(), command.stdout(Stdio::null()).stderr(Stdio::null()));
    holds(&mut browser, "!document.body.classList.contains('stale')");
    holds(&mut browser, "document.getElementById('mode').textContent === 'observe'");
}
