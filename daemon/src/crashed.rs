//! What the deciding loop was told before it died, kept for a report.
//!
//! Whoever has crashed within the last minute remembers what the brain is told, for a minute: lines of JSON as a record of decisions
//! has them ([`sluice_wire::record`]), the last 64 KiB. If the loop panics meanwhile they are written into the state directory
//! before the process aborts. All others pay nothing for it, so it takes two crashes to know of what; a crash loop has five.
//!
//! Bytes that were no message yet are not among them; what reads bytes is fuzzed instead.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sluice_schedule::{Event, Nanos, Now};

use crate::starts::WITHIN;

/// The file's name, in the state directory.
const FILE: &str = "crash.jsonl";
/// Bytes of it at most.
const MAX_BYTES: usize = 64 << 10;

thread_local! {
    /// What the deciding loop remembers, on its thread.
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// What is remembered.
#[derive(Debug)]
struct Last {
    dir: PathBuf,
    /// CLOCK_MONOTONIC, after which there is no need any more.
    until: Nanos,
    lines: VecDeque<String>,
    /// Of all lines together.
    bytes: usize,
}

#[derive(Serialize)]
struct Line<'a> {
    event: (Now, &'a Event),
}

impl Last {
    fn add(&mut self, mut line: String) {
        if line.len() >= MAX_BYTES {
            let end = (0..MAX_BYTES).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            line.truncate(end);
        }
        line.push('\n');
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > MAX_BYTES {
            let Some(first) = self.lines.pop_front() else { break };
            self.bytes -= first.len();
        }
    }

    fn text(&self) -> String {
        self.lines.iter().map(String::as_str).collect()
    }
}

/// This thread is that of the deciding loop of a daemon that was started so many times lately without having ended in order:
/// from the second on it remembers.
pub fn remember(starts: usize, now: Nanos, dir: &Path) {
    if starts < 2 {
        return;
    }
    if starts == 2 {
        // What is there is of an earlier time.
        let _ = std::fs::remove_file(dir.join(FILE)); // Absent is as good.
    }
    let last = Last { dir: dir.to_owned(), until: now.plus(WITHIN), lines: VecDeque::new(), bytes: 0 };
    LAST.with_borrow_mut(|place| *place = Some(last));
}

/// The brain is told this.
pub fn heed(now: Now, event: &Event) {
    LAST.with_borrow_mut(|place| {
        if place.as_ref().is_some_and(|last| now.mono > last.until) {
            *place = None;
        }
        let Some(last) = place else { return };
        if let Ok(line) = serde_json::to_string(&Line { event: (now, event) }) {
            last.add(line);
        }
    });
}

/// What a thread that panics does last. A file that cannot be written changes nothing.
pub fn keep() {
    // Whoever panics while it remembers something, or has ended already, keeps nothing.
    let known = LAST.try_with(|place| {
        let place = place.try_borrow().ok()?;
        place.as_ref().map(|last| (last.dir.clone(), last.text()))
    });
    if let Ok(Some((dir, text))) = known
        && !text.is_empty()
    {
        let _ = crate::stored::replace_in(&dir, FILE, text.as_bytes());
    }
}

/// Where it is, if there is something.
pub fn kept(dir: &Path) -> Option<PathBuf> {
    let path = dir.join(FILE);
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use sluice_schedule::{Bytes, FlowId, JobId};

    use super::*;

    fn at(ms: u64) -> Now {
        Now { mono: Nanos::from_millis(ms), ..Now::default() }
    }

    /// Each test has a thread of its own, and so what is remembered.
    #[test]
    fn from_the_second_crash_on_the_last_words_are_kept_and_a_minute_later_nothing_is() {
        let dir = tempfile::tempdir().expect("a directory");
        remember(1, Nanos::ZERO, dir.path());
        heed(at(1), &Event::SlotEdge);
        keep();
        assert_eq!(kept(dir.path()), None, "the first time nobody knows");
        std::fs::write(dir.path().join(FILE), "of an earlier time").expect("written");
        remember(2, Nanos::ZERO, dir.path());
        assert_eq!(kept(dir.path()), None);
        heed(at(1), &Event::SlotEdge);
        heed(at(2), &Event::JobGone(JobId(7)));
        keep();
        let text = std::fs::read_to_string(kept(dir.path()).expect("there")).expect("read");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["event"][1], "SlotEdge");
        assert_eq!(lines[1]["event"][0]["mono"], 2_000_000);
        remember(3, Nanos::ZERO, dir.path());
        heed(at(WITHIN.0 / 1_000_000 + 1), &Event::SlotEdge);
        std::fs::remove_file(dir.path().join(FILE)).expect("removed");
        keep();
        assert_eq!(kept(dir.path()), None, "it has lived for a minute");
    }

    #[test]
    fn of_much_that_was_told_the_last_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        remember(2, Nanos::ZERO, dir.path());
        let flows =
            |count: u64| -> Vec<(FlowId, Bytes)> { (0..count).map(|flow| (FlowId(flow), Bytes(flow))).collect() };
        for round in 0..200 {
            heed(at(round), &Event::RoundBegan { job: JobId(round), flows: flows(100) });
        }
        keep();
        let read = || std::fs::read_to_string(dir.path().join(FILE)).expect("read");
        let text = read();
        assert!(text.len() <= MAX_BYTES && text.len() > MAX_BYTES / 2, "{}", text.len());
        assert!(text.lines().last().expect("a line").contains("\"job\":199"), "{text:.200}");
        heed(at(201), &Event::RoundBegan { job: JobId(201), flows: flows(20_000) });
        keep();
        assert!(read().len() == MAX_BYTES && read().starts_with("{\"event\":["), "{}", read().len());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_borne() {
        remember(2, Nanos::ZERO, Path::new("/proc/no/such/place"));
        heed(at(1), &Event::SlotEdge);
        keep();
    }
}
