//! A3: what names can do to terminals, logs, metrics and pages.

use std::time::Duration;

use sluice_formats::label::Label;
use sluice_progress::Page;

use crate::attacker::{Local, Who, ident, turn, until};
use crate::programs::{Daemon, sluice, unsafe_in};

/// Sets a window's title, goes up a line, turns text around, ends a line, ends a label's quotes.
const NAME: &str = "\u{1b}]0;x\u{7}\u{1b}[A\u{202e}\n\"} 1\r";

/// A-7: control characters, escape sequences, line ends and characters that turn text around, in a job's name and its producer's.
#[test]
fn no_name_of_a_job_reaches_a_terminal_a_log_a_metric_or_a_page_raw() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("");
    let dir = daemon.pages();
    let (_attacker, _) = Local::start(Who::attacker(), || {
        let mut hostile = ident(NAME);
        hostile.producer = "\u{1b}[31m\nx\u{2066}".into();
        std::mem::forget(Page::create(&dir, hostile).expect("a page"));
        // Names that differ in what cannot be seen are two names.
        for name in ["same", "same\u{200b}"] {
            std::mem::forget(Page::create(&dir, ident(name)).expect("a page"));
        }
    });
    until("all jobs are known", || daemon.jobs().len() == 3);
    let jobs = daemon.jobs();
    assert!(jobs.iter().all(|job| job.len() <= Label::MAX_BYTES && Label::new(job).as_str() == job), "{jobs:?}");
    assert!(jobs.iter().any(|job| job == "same") && jobs.iter().any(|job| job == "same\\xe2\\x80\\x8b"), "{jobs:?}");
    until("they are in the log", || daemon.log().matches("job-begin").count() >= 3);
    let mut said = vec![("the log".to_owned(), daemon.log())];
    let documents =
        ["/metrics", "/api/v1/snapshot", "/api/v1/jobs", "/api/v1/timeline?format=csv", "/api/v1/conditions"];
    for route in documents {
        let (status, body) = daemon.get(route).expect("it answers");
        assert_eq!(status, 200, "{route}");
        said.push((route.to_owned(), body));
    }
    let socket = daemon.socket().display().to_string();
    for command in ["status", "jobs"] {
        let (status, text, _) = sluice(&["--socket", &socket, command], 2 << 30);
        assert!(status.is_some(), "sluice {command}: {text}");
        said.push((format!("sluice {command}"), text));
    }
    for (where_, text) in &said {
        assert_eq!(unsafe_in(text), [], "{where_} says {text:?}");
    }
    assert!(daemon.log().lines().all(|line| line.starts_with('{')), "a name forged a line of the log");
    let metrics = &said[1].1;
    let of_jobs = metrics.lines().filter(|line| line.starts_with("sluice_job_info{"));
    assert_eq!(of_jobs.filter(|line| line.ends_with("} 1")).count(), 3, "{metrics}");
}

/// A-7: very many names, each of which would be a series of its own for ever.
#[test]
fn very_many_names_are_few_series() {
    let Some(_turn) = turn() else { return };
    let daemon = Daemon::start("[metrics]\nmax_jobs = 8");
    let dir = daemon.pages();
    let (_attacker, _) = Local::start(Who::attacker(), || {
        for n in 0..40 {
            std::mem::forget(Page::create(&dir, ident(&format!("name-{n}"))).expect("a page"));
        }
    });
    until("all jobs are known", || daemon.jobs().len() == 40);
    std::thread::sleep(Duration::from_millis(1_100)); // The page of metrics is a second old at most.
    let page = daemon.get("/metrics").expect("it answers").1;
    let series = page.lines().filter(|line| line.starts_with("sluice_job_flows{")).count();
    assert_eq!(series, 9, "eight and the rest");
    assert!(page.contains("job_id=\"_other\""));
}
