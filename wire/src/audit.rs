//! The audit log of commands: what a line of it says, and how a file of such lines is read. Who writes it, where and how much
//! is the daemon's business.

use serde::{Deserialize, Serialize};
use sluice_formats::label::is_hidden;

/// Version of a line; it only gains fields.
pub const SCHEMA: u32 = 1;
/// Characters of a text in an entry at most.
const MAX_TEXT: usize = 300;

/// How a command came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Over the Unix socket; the kernel told who was at the other end.
    #[default]
    Socket,
    /// As a signal to the daemon; nobody tells from whom.
    Signal,
    /// As the fleet's word, out of etcd; who wrote it there stands in what `sluice fleet` told.
    Fleet,
    /// By nobody: what the daemon did of itself when it began.
    Start,
    /// A way of a later version.
    #[serde(other)]
    Unknown,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Result {
    /// It was carried out.
    #[default]
    Done,
    /// It was not, and nothing or not all has changed; the message says why.
    Refused,
    /// It was passed on; what came of it stands in the log.
    Asked,
    /// A result of a later version.
    #[serde(other)]
    Unknown,
}

impl Result {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Result::Done => "done",
            Result::Refused => "refused",
            Result::Asked => "asked",
            Result::Unknown => "unknown",
        }
    }
}

/// One command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// When it was given, nanoseconds since 1970.
    pub unix_ns: u64,
    /// How it came.
    pub way: Way,
    /// The user's number, where the kernel told it.
    pub uid: Option<u32>,
    /// The user's name at that time, if the system knows one.
    pub user: Option<String>,
    /// The process that asked, where the kernel told it.
    pub pid: Option<i32>,
    /// `mode`, `reload`, `drain`, `log`.
    pub command: String,
    /// What was asked in particular: `active for 600 s`.
    pub asked: String,
    /// Why, in the words of whoever asked; empty: not said.
    pub reason: String,
    /// What came of it.
    pub result: Result,
    /// The answer, in one sentence.
    pub message: String,
    /// Time until the answer.
    pub took_ns: u64,
}

impl Entry {
    /// The entry as it may stand in a file: texts cut to a length, and nothing in them that would end a line or hurt a
    /// terminal.
    #[must_use]
    pub fn bounded(mut self) -> Entry {
        self.schema = SCHEMA;
        for text in [&mut self.command, &mut self.asked, &mut self.reason, &mut self.message] {
            *text = clean(text);
        }
        self.user = self.user.map(|user| clean(&user));
        self
    }
}

fn clean(text: &str) -> String {
    let whole = text.chars().nth(MAX_TEXT).is_none();
    let kept = text.chars().take(MAX_TEXT).map(|c| if is_hidden(c) { ' ' } else { c });
    kept.chain((!whole).then_some('…')).collect()
}

/// Entries of files, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Audit {
    /// Version of this form, [`SCHEMA`].
    pub schema: u32,
    /// The commands.
    pub entries: Vec<Entry>,
    /// Lines that could not be read: torn by a crash, or not of ours.
    pub unreadable: usize,
    /// Commands of this daemon's life that could not be written.
    pub unrecorded: u64,
}

impl Audit {
    /// Takes the lines of a file, which are younger than those before.
    pub fn read(&mut self, bytes: &[u8]) {
        self.schema = SCHEMA;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Entry>(line) {
                Ok(entry) if entry.schema >= 1 => self.entries.push(entry.shown()),
                _ => self.unreadable += 1,
            }
        }
    }

    /// Keeps the last so many.
    pub fn keep(&mut self, last: usize) {
        let surplus = self.entries.len().saturating_sub(last);
        self.entries.drain(..surplus);
    }
}

impl Entry {
    /// A line of a file is outside, too.
    fn shown(self) -> Entry {
        let schema = self.schema;
        Entry { schema, ..self.bounded() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever people write, an entry is one short line that reads back as it is, and mutated lines neither panic nor
        /// become long.
        #[test]
        fn an_entry_is_one_line_and_comes_back(
            reason in ".{0,900}", asked in "\\PC{0,40}", uid in proptest::option::of(0u32..70000), at in 0usize..400, byte in any::<u8>(),
        ) {
            let entry = Entry { reason, asked, uid, command: "mode".into(), ..Entry::default() }.bounded();
            prop_assert!(entry.reason.chars().count() <= MAX_TEXT + 1);
            let mut line = serde_json::to_vec(&entry).expect("JSON");
            prop_assert!(!line.contains(&b'\n') && line.len() < 8 * 1024);
            let mut audit = Audit::default();
            audit.read(&line);
            prop_assert_eq!((&audit.entries, audit.unreadable), (&vec![entry], 0));
            if let Some(place) = line.get_mut(at) {
                *place = byte;
            }
            let mut audit = Audit::default();
            audit.read(&line);
            prop_assert!(audit.entries.iter().all(|entry| entry.reason.chars().count() <= MAX_TEXT + 1));
        }
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_later_versions_are_read_as_far_as_they_are_known() {
        let mut audit = Audit::default();
        audit.read(b"{\"schema\":1,\"command\":\"mode\"}\n{\"schema\":1,\"comm\n\xff\n{}\n");
        audit.read(b"{\"schema\":2,\"command\":\"new\",\"way\":\"dream\",\"result\":\"maybe\",\"more\":1}\n");
        let of = |entry: &Entry| (entry.command.clone(), entry.way, entry.result);
        let entries: Vec<_> = audit.entries.iter().map(of).collect();
        assert_eq!(
            entries,
            [("mode".into(), Way::Socket, Result::Done), ("new".into(), Way::Unknown, Result::Unknown)]
        );
        assert_eq!(audit.unreadable, 3);
        audit.keep(1);
        assert_eq!(audit.entries[0].command, "new");
    }
}
