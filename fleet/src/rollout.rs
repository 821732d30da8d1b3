//! A rollout: groups of hosts get a mode, one after the other, with a wait after each, and get their earlier mode back
//! when something says that it is not good.
//!
//! ```text
//!             begin                 step: next group, wait            last wait over
//!   (none) ──────────► running ──────────────────────────► running ─────────────────► done
//!                       │  ▲ │
//!                 pause │  │ │ a fault that lasts: every group that was touched gets its earlier mode
//!                       ▼  │ └──────────────────────────────────────────────────────► returned
//!                    paused   resume                       abort: the same ─────────► aborted
//! ```
//!
//! Its whole state lies in etcd under one key, so that it goes on from another terminal, and every step is written
//! together with the modes it sets under the condition that nobody wrote that key since it was read: of two operators
//! one takes the step, and the other reads again. A paused rollout is judged all the same.

mod file;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sluice_wire::snapshot::Mode;

use crate::UnixTime;
use crate::key::Name;

pub use step::{Step, Turn};

/// How a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Groups follow one another.
    Running,
    /// No further group until it is resumed.
    Paused,
    /// All groups have the mode.
    Done,
    /// It returned by itself.
    Returned,
    /// An operator ended it.
    Aborted,
}

impl Status {
    /// Every one, by its word.
    pub const WORDS: [(&'static str, Status); 5] = [
        ("running", Status::Running),
        ("paused", Status::Paused),
        ("done", Status::Done),
        ("returned", Status::Returned),
        ("aborted", Status::Aborted),
    ];
    /// The word for people and files.
    pub fn word(self) -> &'static str {
        Status::WORDS.iter().find(|(_, status)| *status == self).map_or("", |(word, _)| word)
    }
    /// Will nothing happen any more?
    pub fn over(self) -> bool {
        !matches!(self, Status::Running | Status::Paused)
    }
}

/// A group of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The group.
    pub group: Name,
    /// What it returns to.
    pub earlier: Mode,
    /// What was wrong with each of its hosts before it was touched, by condition and subject; hosts that did not answer
    /// then are not in it.
    pub before: BTreeMap<Name, BTreeSet<String>>,
}

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The mode for all.
    pub to: Mode,
    /// After each group.
    pub pause: Duration,
    /// A host that has not followed, or does not answer, is a fault after this time.
    pub patience: Duration,
    /// So many hosts of a group need not answer.
    pub unanswered: usize,
    /// Who asks.
    pub by: String,
    /// Why, in his words.
    pub reason: String,
}

/// A line of a rollout's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When it was.
    pub at: UnixTime,
    /// What happened.
    pub text: String,
}

/// A rollout and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// What was asked for.
    pub order: Order,
    /// The groups, in order.
    pub stages: Vec<Stage>,
    /// How many of them were touched.
    pub touched: usize,
    /// When the last of those was.
    pub touched_at: UnixTime,
    /// When all hosts of it were first seen to follow: the wait begins there.
    pub settled_at: Option<UnixTime>,
    /// How it stands.
    pub status: Status,
    /// Why it ended, if not because all is done.
    pub ended_by: String,
    /// What happened, the oldest first.
    pub notes: Vec<Note>,
}

/// Lines of history that are kept.
pub const MAX_NOTES: usize = 64;

impl Rollout {
    /// Of these groups, each with the mode that it has now. Nothing is touched yet.
    pub fn new(order: Order, groups: Vec<(Name, Mode)>, now: UnixTime) -> Rollout {
        let stage = |(group, earlier)| Stage { group, earlier, before: BTreeMap::new() };
        let mut rollout = Rollout {
            order,
            stages: groups.into_iter().map(stage).collect(),
            touched: 0,
            touched_at: now,
            settled_at: None,
            status: Status::Running,
            ended_by: String::new(),
            notes: Vec::new(),
        };
        let (by, to, reason) = (&rollout.order.by, rollout.order.to.as_str(), &rollout.order.reason);
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let text = format!("begun by {by}, to {to}{reason}");
        rollout.note(now, text);
        rollout
    }
    /// The groups that were touched, in order.
    pub fn touched(&self) -> &[Stage] {
        self.stages.get(..self.touched).unwrap_or(&self.stages)
    }
    /// The group that is next.
    pub fn next(&self) -> Option<&Stage> {
        self.stages.get(self.touched)
    }
    /// Does it have a say in the mode of this group now?
    pub fn holds(&self, group: &Name) -> bool {
        !self.status.over() && self.stages.iter().any(|stage| stage.group == *group)
    }
    /// When the wait after the last touched group is over; `None`: it has not begun, since not all of its hosts follow yet.
    pub fn wait_ends(&self) -> Option<UnixTime> {
        self.settled_at.map(|at| at.plus(self.order.pause))
    }
    /// May the next group be touched, as far as time goes?
    pub fn due(&self, now: UnixTime) -> bool {
        self.touched == 0 || self.wait_ends().is_some_and(|end| now >= end)
    }
    fn note(&mut self, at: UnixTime, text: impl Into<String>) {
        self.notes.push(Note { at, text: text.into() });
        let surplus = self.notes.len().saturating_sub(MAX_NOTES);
        self.notes.drain(..surplus);
    }
}
