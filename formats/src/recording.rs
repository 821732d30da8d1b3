//! Recordings: what the daemon of one host saw of its jobs' work, round by round, as lines of JSON, so that a simulator can do
//! the same work again.
//!
//! | `kind` | says |
//! | --- | --- |
//! | `start` | a daemon began to write: the format's version, its host with its addresses and links, its slot |
//! | `job` | a job is on this host, with its name and how its ranks talk |
//! | `flow` | a connection by which this host sends for a job, to whom (a host's name, else an address), in which role |
//! | `round` | a round of a job as this host saw it: begin and end (ns since 1970), and the bytes of each of its flows |
//! | `lost` | so many lines before this one could not be written |
//! | `full` | the file has reached its bound; nothing follows |
//!
//! A file may hold several starts, one after another: a daemon that is started again goes on in it. Ids mean something within
//! one start and one file only, but for those of jobs, which all hosts of a job have alike.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::document::{Collector, Item, Node, Notation, Table};
use crate::file;
use crate::problem::{E_LIMIT, E_MISSING, E_RANGE, E_REF, E_VERSION, Problem, Problems};

/// The version of the format.
pub const VERSION: u64 = 1;
/// Most bytes of a file that are read.
pub const MAX_BYTES: u64 = 1 << 30;
/// Most bytes of one line.
pub const MAX_LINE: usize = 1 << 20;
/// Most bytes of a name.
const MAX_NAME: usize = 256;
/// Most entries of one list.
const MAX_LIST: usize = 65_536;
/// Nanoseconds since 1970 are below this, in the year 2262.
const MAX_TIME: u64 = i64::MAX as u64;
/// Most bytes of a flow in one round, as in scenarios.
const MAX_ROUND: u64 = 1_000_000_000_000_000;

/// How the ranks of a job talk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Nobody said.
    #[default]
    Unknown,
    /// Every rank sends to the next.
    Ring,
    /// Workers send to servers, which send back.
    Ps,
    /// Reduce up, broadcast down.
    Tree,
    /// The edges of a plan.
    Plan,
}

const PATTERNS: [(&str, Pattern); 5] = [
    ("unknown", Pattern::Unknown),
    ("ring", Pattern::Ring),
    ("ps", Pattern::Ps),
    ("tree", Pattern::Tree),
    ("plan", Pattern::Plan),
];

/// The part of a flow in its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Not known.
    #[default]
    Plain,
    /// To the next rank of a ring.
    Ring,
    /// Worker to server.
    Aggregate,
    /// Server to worker.
    Broadcast,
    /// Child to parent.
    Reduce,
    /// Parent to child.
    Spread,
}

const ROLES: [(&str, Role); 6] = [
    ("plain", Role::Plain),
    ("ring", Role::Ring),
    ("aggregate", Role::Aggregate),
    ("broadcast", Role::Broadcast),
    ("reduce", Role::Reduce),
    ("spread", Role::Spread),
];

/// A link by which the host sends and receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Of its card.
    pub name: String,
    /// Payload, bit/s.
    pub rate: u64,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Line {
    /// A daemon began to write.
    Start {
        /// [`VERSION`].
        version: u64,
        /// Name of the host.
        host: String,
        /// Its addresses, as peers see them.
        addresses: Vec<String>,
        /// Its links.
        links: Vec<Link>,
        /// Its slot, ms.
        slot_ms: u64,
        /// When, ns since 1970.
        unix_ns: u64,
    },
    /// A job is on this host, or its facts changed.
    Job {
        /// Its id, alike on all hosts.
        job: String,
        /// Its name.
        name: String,
        /// How its ranks talk.
        pattern: Pattern,
    },
    /// A connection by which this host sends, or its facts changed.
    Flow {
        /// Its id.
        flow: String,
        /// The job it belongs to.
        job: String,
        /// The host that receives: its name, else its address.
        to: String,
        /// Its part.
        role: Role,
    },
    /// A round of a job as this host saw it.
    Round {
        /// The job.
        job: String,
        /// When it began, ns since 1970.
        began_ns: u64,
        /// When it had ended.
        ended_ns: u64,
        /// Bytes by flow.
        flows: Vec<(String, u64)>,
    },
    /// Lines that could not be written.
    Lost {
        /// How many.
        lines: u64,
    },
    /// The file has reached its bound.
    Full {},
}

impl Line {
    /// The line as it stands in a file, its end included.
    pub fn text(&self) -> String {
        // Plain data of texts and integers: this cannot fail, and an empty line is none.
        serde_json::to_string(self).map(|text| text + "\n").unwrap_or_default()
    }
}

/// A host as a recording has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its links, as of the last start.
    pub links: Vec<Link>,
}

/// A round of a job on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The job.
    pub job: String,
    /// When it began, ns since 1970.
    pub began: u64,
    /// When it had ended.
    pub ended: u64,
    /// Receiving host, role and bytes, one entry for each flow.
    pub flows: Vec<(String, Role, u64)>,
}

/// What one host's file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Who wrote it.
    pub host: Host,
    /// Slot, ms, as of the last start.
    pub slot_ms: u64,
    /// When the first daemon began to write, ns since 1970.
    pub began: u64,
    /// Name and pattern of each job, as they were told last.
    pub jobs: BTreeMap<String, (String, Pattern)>,
    /// The rounds, in the order of the file.
    pub rounds: Vec<Round>,
    /// Lines that could not be written.
    pub lost: u64,
    /// The file reached its bound.
    pub full: bool,
}

/// Reads the file of one host.
///
/// # Errors
/// Every problem of its first lines that are wrong, with the line and the key.
pub fn load(path: &Path) -> Result<Recording, Problems> {
    let text = file::load_text(path, MAX_BYTES)?;
    parse(&text, &path.display().to_string())
}

/// Reads a text; `file` is its name in messages. A last line without its end is one that was being written when its daemon
/// died, and is left out.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &str) -> Result<Recording, Problems> {
    let mut reader = Reader { file, ..Reader::default() };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    for (at, line) in text.get(..whole).unwrap_or_default().lines().enumerate() {
        if reader.problems.len() >= crate::problem::MAX_PROBLEMS {
            break;
        }
        reader.line(at + 1, line);
    }
    if reader.problems.is_empty() && !reader.started {
        let problem =
            Problem::new(E_MISSING, "/kind", "nothing is recorded in it").allowed("a first line of kind start");
        reader.problems.push(problem.in_file(file));
    }
    let Reader { recording, problems, .. } = reader;
    Problems::of(problems).map_or(Ok(recording), Err)
}

#[derive(Default)]
struct Reader<'f> {
    file: &'f str,
    recording: Recording,
    /// Job, receiver and role of each flow of the present start.
    flows: BTreeMap<String, (String, String, Role)>,
    started: bool,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, text: &str) {
        let mut found = Vec::new();
        if text.len() > MAX_LINE {
            let problem = Problem::new(E_LIMIT, "", format!("a line of {} bytes", text.len()));
            found.push(problem.allowed(format!("at most {MAX_LINE} bytes")));
        } else {
            let collector = Collector::new(self.file, text, Notation::Json);
            let tree = Node::parse(&collector);
            let table = if collector.count() == 0 { Item::root(&tree, &collector).table() } else { None };
            if let Some(table) = table {
                self.entry(&table);
                table.finish();
            }
            found.extend(collector.into_problems());
        }
        let file = self.file;
        self.problems.extend(found.into_iter().map(|problem| Problem { line: number, ..problem.in_file(file) }));
    }

    fn entry(&mut self, t: &Table<'_>) {
        const KINDS: [(&str, usize); 6] =
            [("start", 0), ("job", 1), ("flow", 2), ("round", 3), ("lost", 4), ("full", 5)];
        t.require("kind");
        let Some(kind) = t.choice("kind", &KINDS) else { return };
        if !self.started && kind != 0 {
            t.fail(E_MISSING, "a recording begins with a line of kind start", "start");
        }
        match kind {
            0 => drop(self.start(t)),
            1 => drop(self.job(t)),
            2 => drop(self.flow(t)),
            3 => drop(self.round(t)),
            4 => {
                let lines = t.require("lines").and_then(|i| i.int(&(0..=MAX_TIME))).unwrap_or(0);
                self.recording.lost = self.recording.lost.saturating_add(lines);
            }
            _ => self.recording.full = true,
        }
    }

    fn start(&mut self, t: &Table<'_>) -> Option<()> {
        self.started = true;
        self.flows.clear();
        if let Some(item) = t.require("version")
            && item.int(&(0..=MAX_TIME)).is_some_and(|version| version != VERSION)
        {
            item.fail(E_VERSION, "a version that this program does not know", "1");
        }
        let host = name(t, "host");
        let addresses = t.require("addresses").and_then(|i| i.list_of(MAX_LIST)).unwrap_or_default();
        let addresses = addresses.iter().filter_map(|i| i.text().map(str::to_owned)).collect();
        let links = t.require("links").and_then(|i| i.list_of(MAX_LIST)).unwrap_or_default();
        let links = links.iter().filter_map(|item| {
            let t = item.table()?;
            let (name, rate) = (name(&t, "name"), t.require("rate").and_then(|i| i.int(&(1..=MAX_TIME))));
            t.finish();
            Some(Link { name: name?, rate: rate? })
        });
        let links = links.collect();
        let slot_ms = t.require("slot_ms").and_then(|i| i.int(&(1..=1000)));
        let began = t.require("unix_ns").and_then(|i| i.int(&(0..=MAX_TIME)));
        let host = host?;
        let before = &self.recording.host.name;
        if !before.is_empty() && *before != host {
            t.fail(E_REF, format!("the file is of {before:?} and goes on as {host:?}"), "one host in one file");
        }
        if before.is_empty() {
            self.recording.began = began?;
        }
        self.recording.host = Host { name: host, addresses, links };
        self.recording.slot_ms = slot_ms?;
        Some(())
    }

    fn job(&mut self, t: &Table<'_>) -> Option<()> {
        let job = name(t, "job");
        // A name is the job's own word: any text will do.
        let said = t.require("name").and_then(|i| i.text().map(|text| text.chars().take(MAX_NAME).collect::<String>()));
        t.require("pattern");
        let pattern = t.choice("pattern", &PATTERNS);
        self.recording.jobs.insert(job?, (said?, pattern?));
        Some(())
    }

    fn flow(&mut self, t: &Table<'_>) -> Option<()> {
        let (flow, job, to) = (name(t, "flow"), name(t, "job"), name(t, "to"));
        t.require("role");
        let role = t.choice("role", &ROLES);
        self.flows.insert(flow?, (job?, to?, role?));
        Some(())
    }

    fn round(&mut self, t: &Table<'_>) -> Option<()> {
        let job = name(t, "job");
        let time = |key| t.require(key).and_then(|i| i.int(&(0..=MAX_TIME)));
        let (began, ended) = (time("began_ns"), time("ended_ns"));
        let mut flows = Vec::new();
        for item in t.require("flows").and_then(|i| i.list_of(MAX_LIST)).unwrap_or_default() {
            let Some([flow, bytes]) = item.list_of(2).and_then(|pair| <[Item<'_>; 2]>::try_from(pair).ok()) else {
                item.fail(E_RANGE, "no pair of a flow and its bytes", "[\"flow\", bytes]");
                continue;
            };
            let bytes = bytes.int(&(0..=MAX_ROUND));
            let Some(id) = flow.text() else { continue };
            match self.flows.get(id) {
                Some((_, to, role)) => flows.extend(bytes.map(|bytes| (to.clone(), *role, bytes))),
                None => flow.fail(E_REF, format!("no flow {id:?}"), "a flow of a line before this one"),
            }
        }
        let (job, began, ended) = (job?, began?, ended?);
        if !self.recording.jobs.contains_key(&job) {
            t.fail(E_REF, format!("no job {job:?}"), "a job of a line before this one");
        }
        if ended < began {
            t.fail(E_RANGE, "ended_ns is before began_ns", "began_ns ≤ ended_ns");
        }
        self.recording.rounds.push(Round { job, began, ended, flows });
        Some(())
    }
}

/// A required text of at most [`MAX_NAME`] bytes that is not empty.
fn name(t: &Table<'_>, key: &'static str) -> Option<String> {
    let item = t.require(key)?;
    let text = item.text()?;
    if text.is_empty() || text.len() > MAX_NAME {
        item.out_of_range("1 to 256 bytes");
        return None;
    }
    Some(text.to_owned())
}

#[cfg(test)]
mod tests;
