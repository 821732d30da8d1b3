//! The record of one host's brain: what it was told at start, every event, every decision and what it said, as lines of
//! JSON; and the replay that shows that the same brain says the same again.
//!
//! | line | is |
//! | --- | --- |
//! | `{"config": …}` | a new brain begins with this [`HostConfig`] |
//! | `{"event": [now, …]}` | [`Host::handle`] |
//! | `{"decision": [now, [actions]]}` | [`Host::decide`] and what it appended |
//!
//! Names and shapes are those of [`sluice_schedule`]'s own types. A process that dies and comes back begins again with a
//! `config` line in the same record.

#[doc(hidden)]
pub mod sample;

use std::fmt;
use std::io::{BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use sluice_schedule::host::{Host, HostConfig};
use sluice_schedule::{Action, Event, Now};

use crate::limits;

/// Bytes of a line at most.
const MAX_LINE: u64 = 64 << 20;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Entry<'a> {
    Config(&'a HostConfig),
    Event(Now, &'a Event),
    Decision(Now, &'a [Action]),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Config(Box<HostConfig>),
    Event(Now, Box<Event>),
    Decision(Now, serde::de::IgnoredAny),
}

/// Writes a record. A write that fails ends it; [`Recorder::failed`] says why. Nothing else is disturbed.
pub struct Recorder {
    out: Box<dyn Write + Send>,
    failed: Option<std::io::Error>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A record that is empty so far. Give it something buffered.
    pub fn new(out: Box<dyn Write + Send>) -> Recorder {
        Recorder { out, failed: None }
    }
    /// Writes down that a brain with this configuration begins.
    pub fn start(&mut self, config: &HostConfig) {
        self.line(&Entry::Config(config));
    }
    /// It is told something.
    pub fn event(&mut self, now: Now, event: &Event) {
        self.line(&Entry::Event(now, event));
    }
    /// It decided and said this.
    pub fn decision(&mut self, now: Now, actions: &[Action]) {
        self.line(&Entry::Decision(now, actions));
    }
    /// Why the record ends early, if it does.
    pub fn failed(&self) -> Option<&std::io::Error> {
        self.failed.as_ref()
    }

    fn line(&mut self, line: &Entry<'_>) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.out, line).map_err(std::io::Error::from);
        self.failed = written.and_then(|()| self.out.write_all(b"\n")).err();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.out.flush(); // Whoever reads the record finds its end missing.
    }
}

/// What a replay went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many brains began in the record.
    pub brains: u64,
    /// How many events they handled.
    pub events: u64,
    /// Decisions that came out the same.
    pub decisions: u64,
    /// Actions of those decisions.
    pub actions: u64,
}

/// Why a record could not be replayed, or that a brain decides otherwise.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct ReplayError {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub fault: ReplayFault,
}

/// What is wrong with a line of a record.
#[derive(Debug, thiserror::Error)]
pub enum ReplayFault {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(std::io::Error),
    /// It is no record.
    #[error("{0}; expected a config, event or decision as this version writes them")]
    Form(serde_json::Error),
    /// A line is too long.
    #[error("longer than {MAX_LINE} bytes")]
    Long,
    /// A configuration that no daemon has: a brain of it could want any memory.
    #[error("the config's `{field}` is {found}; allowed {least} to {most}")]
    Config {
        /// Which field.
        field: &'static str,
        /// What it says.
        found: u64,
        /// The least that it may say.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Something comes before the first configuration.
    #[error("no config before it; a record begins with one")]
    NoConfig,
    /// The brain says something else.
    #[error("the brain decides otherwise: recorded {recorded}, now {now}")]
    Differs {
        /// The line as it was recorded.
        recorded: String,
        /// The line as it would be written now.
        now: String,
    },
}

/// Puts every recorded event through a fresh brain and holds its decisions against the recorded ones, byte for byte.
///
/// # Errors
/// The first line that cannot be read, or that comes out otherwise.
pub fn replay(mut record: impl BufRead) -> Result<Replayed, ReplayError> {
    let (mut replayed, mut brain, mut text) = (Replayed::default(), None::<Host>, Vec::new());
    for line in 1.. {
        text.clear();
        let wrong = |fault| ReplayError { line, fault };
        let read = record.by_ref().take(MAX_LINE).read_until(b'\n', &mut text);
        match read.map_err(|error| wrong(ReplayFault::Read(error)))? {
            0 => break,
            bytes if bytes as u64 == MAX_LINE => return Err(wrong(ReplayFault::Long)),
            _ => {}
        }
        let form = |error| wrong(ReplayFault::Form(error));
        let again = match (serde_json::from_slice(&text).map_err(form)?, &mut brain) {
            (Line::Config(config), _) => {
                bounded(&config).map_err(wrong)?;
                replayed.brains += 1;
                let again = serde_json::to_string(&Entry::Config(&config));
                brain = Some(Host::new(*config));
                again
            }
            (_, None) => return Err(wrong(ReplayFault::NoConfig)),
            (Line::Event(now, event), Some(brain)) => {
                replayed.events += 1;
                let again = serde_json::to_string(&Entry::Event(now, &event));
                brain.handle(now, *event);
                again
            }
            (Line::Decision(now, _), Some(brain)) => {
                let mut actions = Vec::new();
                brain.decide(now, &mut actions);
                replayed.decisions += 1;
                replayed.actions += actions.len() as u64;
                serde_json::to_string(&Entry::Decision(now, &actions))
            }
        };
        let again = again.map_err(form)?;
        if text.strip_suffix(b"\n").unwrap_or(&text) != again.as_bytes() {
            let recorded = String::from_utf8_lossy(&text).trim_end().to_owned();
            return Err(wrong(ReplayFault::Differs { recorded, now: again }));
        }
    }
    Ok(replayed)
}

/// Is this a configuration that a daemon may have, as far as memory goes by it?
fn bounded(config: &HostConfig) -> Result<(), ReplayFault> {
    let within = |field, found: u64, least: u64, most: u64| {
        if (least..=most).contains(&found) { Ok(()) } else { Err(ReplayFault::Config { field, found, least, most }) }
    };
    within("slot", config.slot.0, 1_000_000, 1_000_000_000)?;
    within("horizon", config.horizon as u64, 1, limits::HORIZON as u64)?;
    within("history_slots", config.history_slots as u64, 1, 32)
}

#[cfg(test)]
mod tests {
    use super::sample::round;
    use super::*;

    #[test]
    fn what_was_recorded_comes_out_again() {
        let text = round();
        let replayed = replay(text.as_bytes()).expect("the same");
        assert_eq!((replayed.brains, replayed.events, replayed.decisions), (1, 3, 3));
        assert!(replayed.actions >= 2, "{replayed:?}");
    }

    #[test]
    fn another_event_gives_another_decision_and_is_found() {
        let text = round();
        let changed = text.replacen("10000000000", "9000000000", 1);
        assert_ne!(text, changed);
        assert!(matches!(replay(changed.as_bytes()), Err(ReplayError { fault: ReplayFault::Differs { .. }, .. })));
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let said = |text: &str| replay(text.as_bytes()).expect_err("no record").to_string();
        assert!(said("x\n").starts_with("line 1: "));
        let event = round().lines().nth(1).expect("an event").to_owned();
        assert!(said(&event).contains("no config before it"));
        assert!(said("{\"config\":1}").contains("expected a config"));
    }
}
