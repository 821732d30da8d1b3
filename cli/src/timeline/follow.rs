//! `sluice timeline --follow`: the ring is read again and again, and what is new of it is handed on, each slot once and whole.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use crate::args::TimelineFormat;
use crate::client::Client;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;

/// Between two readings.
const STEP: Duration = Duration::from_millis(500);
/// How far back each reading reaches, so that a late one misses nothing.
const REACH_MS: u64 = 10_000;

/// Lines that were handed on already, by their slots.
#[derive(Debug)]
pub struct Tail {
    format: TimelineFormat,
    /// The newest slot that was handed on.
    done: Option<u32>,
    headed: bool,
}

impl Tail {
    pub fn new(format: TimelineFormat) -> Tail {
        Tail { format, done: None, headed: false }
    }

    /// What is new in a reading. The newest slot may still grow: it comes with the next one.
    pub fn news(&mut self, text: &str) -> String {
        let slots: Vec<Option<u32>> = text.lines().map(|line| self.slot(line)).collect();
        let later = |a: u32, b: u32| (a.wrapping_sub(b) as i32) > 0;
        let Some(newest) = slots.iter().flatten().copied().reduce(|a, b| if later(b, a) { b } else { a }) else {
            return String::new();
        };
        let mut out = String::new();
        for (line, slot) in text.lines().zip(slots) {
            let fresh = match slot {
                // The header of CSV.
                None => !std::mem::replace(&mut self.headed, true) && self.format == TimelineFormat::Csv,
                Some(slot) => slot != newest && self.done.is_none_or(|done| later(slot, done)),
            };
            if fresh {
                out += line;
                out.push('\n');
            }
        }
        self.done = Some(newest.wrapping_sub(1));
        out
    }

    fn slot(&self, line: &str) -> Option<u32> {
        match self.format {
            TimelineFormat::Csv => line.split(',').next()?.parse().ok(),
            _ => {
                let value: Value = serde_json::from_str(line).ok()?;
                value.get("slot")?.as_u64().and_then(|slot| u32::try_from(slot).ok())
            }
        }
    }
}

/// Goes on until interrupted; `path` is the request without its length of time.
pub fn run(
    client: &Client<'_>,
    format: TimelineFormat,
    last_ms: u64,
    rest: &str,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let mut tail = Tail::new(format);
    let mut reach = last_ms.max(1);
    let stop = interrupt::flag();
    let mut out = file.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    while !stop.load(Ordering::Relaxed) {
        let bytes = client.get(&format!("/api/v1/timeline?last={reach}ms{rest}"))?;
        let news = tail.news(&String::from_utf8_lossy(&bytes));
        match &mut out {
            Some(file) => match file.write_all(news.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                result => result?,
            },
            None => output::print(&news)?,
        }
        reach = REACH_MS;
        let waited = std::time::Instant::now();
        while waited.elapsed() < STEP && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_comes_once_and_whole() {
        let mut tail = Tail::new(TimelineFormat::Csv);
        assert_eq!(tail.news("slot,flow\n"), "", "nothing was recorded yet");
        assert_eq!(tail.news("slot,flow\n4294967294,a\n4294967295,a\n4294967295,b\n"), "slot,flow\n4294967294,a\n");
        // Slots wrap.
        assert_eq!(
            tail.news("slot,flow\n4294967294,a\n4294967295,a\n4294967295,b\n0,a\n"),
            "4294967295,a\n4294967295,b\n"
        );
        assert_eq!(tail.news("slot,flow\n4294967295,b\n0,a\n"), "");
        assert_eq!(tail.news("slot,flow\n0,a\n0,b\n1,a\n"), "0,a\n0,b\n");
    }

    #[test]
    fn lines_of_json_have_no_header() {
        let mut tail = Tail::new(TimelineFormat::Jsonl);
        assert_eq!(tail.news("{\"slot\":7}\nnoise\n{\"slot\":8}\n"), "{\"slot\":7}\n");
        assert_eq!(tail.news("{\"slot\":8}\n{\"slot\":9}\n"), "{\"slot\":8}\n");
    }
}
