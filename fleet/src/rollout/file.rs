//! A rollout as it lies in etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use sluice_formats::document::{Item, Table};
use sluice_formats::problem::{E_CONFLICT, Problem, Problems};

use super::{MAX_NOTES, Note, Order, Rollout, Stage, Status};
use crate::UnixTime;
use crate::key::{Key, MAX_GROUPS, MAX_HOSTS, NAME, Name};
use crate::value::{self, MODES, VERSION};

/// A year, in seconds: no wait is longer.
const YEAR: u64 = 366 * 86_400;
/// Conditions of one host that are remembered.
const MAX_CONDITIONS: usize = 64;

impl Rollout {
    /// As it is stored, and shown to programs.
    pub fn to_json(&self) -> serde_json::Value {
        let stage = |stage: &Stage| {
            let before: BTreeMap<&str, Vec<&String>> = stage
                .before
                .iter()
                .map(|(host, set)| (host.as_str(), set.iter().take(MAX_CONDITIONS).collect()))
                .collect();
            json!({ "group": stage.group.as_str(), "earlier": stage.earlier.as_str(), "before": before })
        };
        let note = |note: &Note| json!({ "unix_s": note.at.0, "text": note.text });
        json!({
            "version": VERSION,
            "to": self.order.to.as_str(),
            "pause_s": self.order.pause.as_secs(),
            "patience_s": self.order.patience.as_secs(),
            "unanswered": self.order.unanswered,
            "by": self.order.by,
            "reason": self.order.reason,
            "status": self.status.word(),
            "ended_by": self.ended_by,
            "touched": self.touched,
            "touched_unix_s": self.touched_at.0,
            "settled_unix_s": self.settled_at.map_or(0, |at| at.0),
            "stages": self.stages.iter().map(stage).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(note).collect::<Vec<_>>(),
        })
    }

    /// As it is stored.
    pub fn write(&self) -> String {
        format!("{:#}\n", self.to_json())
    }

    /// Reads what is stored.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Rollout, Problems> {
        let name = Key::Rollout.to_string();
        value::bounded(&name, bytes)?;
        value::document(&name, bytes, table)
    }
}

fn table(table: &Table<'_>) -> Option<Rollout> {
    let seconds = |key| table.require(key)?.int(&(0..=YEAR)).map(Duration::from_secs);
    let text = |key| table.require(key)?.text().map(str::to_owned);
    let to = table.require("to").and_then(|item| item.choice(&MODES));
    let (pause, patience) = (seconds("pause_s"), seconds("patience_s"));
    let unanswered = table.require("unanswered").and_then(|item| item.int(&(0..=MAX_HOSTS as u64)));
    let (by, reason, ended_by) = (text("by"), text("reason"), text("ended_by"));
    let status = table.require("status").and_then(|item| item.choice(&Status::WORDS));
    let touched = table.require("touched").and_then(|item| item.int(&(0..=MAX_GROUPS as u64)));
    let touched_at = table.require("touched_unix_s").and_then(|item| item.int(&(0..=u64::MAX)));
    let settled = table.require("settled_unix_s").and_then(|item| item.int(&(0..=u64::MAX)));
    let stages = table.require("stages").and_then(|item| item.list_of(MAX_GROUPS)).and_then(|items| all(items, stage));
    let notes = table.require("notes").and_then(|item| item.list_of(MAX_NOTES)).and_then(|items| all(items, note));
    let (stages, touched) = (stages?, usize::try_from(touched?).ok()?);
    if touched > stages.len() || stages.is_empty() {
        let message = format!("{touched} groups touched of {}", stages.len());
        table.item.refuse(
            Problem::new(E_CONFLICT, "", message).allowed("no more groups touched than there are, and one at least"),
        );
        return None;
    }
    Some(Rollout {
        order: Order {
            to: to?,
            pause: pause?,
            patience: patience?,
            unanswered: usize::try_from(unanswered?).ok()?,
            by: by?,
            reason: reason?,
        },
        stages,
        touched,
        touched_at: UnixTime(touched_at?),
        settled_at: Some(UnixTime(settled?)).filter(|at| at.0 > 0),
        status: status?,
        ended_by: ended_by?,
        notes: notes?,
    })
}

/// Every element, or none if one could not be read; all are looked at, so that all mistakes are told.
fn all<T>(items: Vec<Item<'_>>, read: impl Fn(Table<'_>) -> Option<T>) -> Option<Vec<T>> {
    let read: Vec<Option<T>> = items.iter().map(|item| read(item.table()?)).collect();
    read.into_iter().collect()
}

fn stage(table: Table<'_>) -> Option<Stage> {
    let group = value::name(&table, "group");
    let earlier = table.require("earlier").and_then(|item| item.choice(&MODES));
    let before = table.require("before").and_then(|item| item.table()).map(|table| {
        let host = |(entry, item): (&sluice_formats::document::Entry, Item<'_>)| {
            let Some(name) = Name::parse(&entry.name) else {
                item.out_of_range(NAME);
                return None;
            };
            let set = item.list_of(MAX_CONDITIONS)?.iter().filter_map(|item| Some(item.text()?.to_owned())).collect();
            Some((name, set))
        };
        table.entries().take(MAX_HOSTS).filter_map(host).collect::<BTreeMap<Name, BTreeSet<String>>>()
    });
    table.finish();
    Some(Stage { group: group?, earlier: earlier?, before: before? })
}

fn note(table: Table<'_>) -> Option<Note> {
    let at = table.require("unix_s").and_then(|item| item.int(&(0..=u64::MAX)));
    let text = table.require("text").and_then(|item| item.text().map(str::to_owned));
    table.finish();
    Some(Note { at: UnixTime(at?), text: text? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluice_wire::snapshot::Mode;

    use super::*;
    use crate::judge::Verdict;
    use crate::rollout::Step;

    fn sample() -> Rollout {
        let name = |text| Name::parse(text).expect("a name");
        let order = Order {
            to: Mode::Active,
            pause: Duration::from_secs(600),
            patience: Duration::from_secs(60),
            unanswered: 2,
            by: "ops@desk".into(),
            reason: "first \"try\"".into(),
        };
        let rollout =
            Rollout::new(order, vec![(name("rack1"), Mode::Observe), (name("rack2"), Mode::Bypass)], UnixTime(7));
        let before = BTreeMap::from([(name("gpu-1"), BTreeSet::from(["switch-unreachable leaf-2".to_owned()]))]);
        match rollout.step(UnixTime(9), &Verdict::default(), &before) {
            Step::Turn(turn) => turn.rollout,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rollout_is_read_as_it_is_written() {
        let rollout = sample();
        assert_eq!(Rollout::read(rollout.write().as_bytes()).expect("good"), rollout);
    }

    #[test]
    fn what_does_not_hang_together_is_refused() {
        let text = sample().write().replace("\"touched\": 1", "\"touched\": 3").replace("\"running\"", "\"runing\"");
        let problems = Rollout::read(text.as_bytes()).expect_err("refused").to_string();
        assert!(problems.contains("E_CONFLICT") && problems.contains("did you mean `running`"), "{problems}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at in 0..900usize, byte in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = sample().write().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if cut {
                bytes.truncate(at);
            }
            if let Ok(rollout) = Rollout::read(&bytes) {
                prop_assert!(rollout.touched <= rollout.stages.len());
            }
        }
    }
}
