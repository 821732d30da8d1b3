//! F23, F29, F30 and F31: files that daemons write for their own use, torn by a crash or put there by somebody else.

use std::cell::OnceCell;
use std::fs;

use sluice_attribution::record;
use sluice_attribution::seen::sample as seen;
use sluice_fleet::key::{Name, Space};
use sluice_fleet::view::View;
use sluice_formats::label::is_hidden;
use sluice_schedule::Nanos;
use sluice_wire::audit::{Audit, Entry};
use sluice_wire::record::{replay, sample};
use sluiced::journal::Journal;
use tempfile::TempDir;

use super::topologies::refused;
use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses a file, then its content.
pub static STATE: Target = Target {
    name: "F23-state-files",
    parser: "files of the run and state directories: last starts, journal of changes, what the fleet said last",
    property: "ignored or valid: no more starts than a loop has, no change of anything but the two sysctls, no value that its key does not take",
    shape: Shape::ChosenText(&[
        "schema",
        "starts_ns",
        "sysctls",
        "key",
        "old",
        "new",
        "tcp_tso_rtt_log",
        "tcp_wmem",
        "version",
        "space",
        "etcd",
        "revision",
        "epoch",
        "items",
        "value",
        "hosts/epoch",
        "hosts/modes/rack1",
        "hosts/switches",
        "null",
        "{",
        "[",
    ]),
    run: state,
    seeds: state_seeds,
};

/// A byte that says whether segments follow, each of a head and frames, or what one frame holds.
pub static FLIGHT: Target = Target {
    name: "F29-flight-records",
    parser: "flight records of hosts: segments of frames with checksums",
    property: "slots in the order of their time, no more than frames fit; what is read is written so that it is read the same",
    shape: Shape::Bytes,
    run: flight,
    seeds: flight_seeds,
};

/// Lines of a configuration, events and decisions.
pub static DECISIONS: Target = Target {
    name: "F30-decisions",
    parser: "records of a brain's events and decisions, replayed",
    property: "replayed only where every decision comes out byte for byte; a refusal names a line that there is; the same each time",
    shape: Shape::Text(&[
        "\"config\"",
        "\"event\"",
        "\"decision\"",
        "SlotEdge",
        "FlowOpened",
        "RoundBegan",
        "mono",
        "wall",
        "slot",
        "into_slot",
        "null",
    ]),
    run: decisions,
    seeds: decisions_seeds,
};

/// Lines of the audit log.
pub static AUDIT: Target = Target {
    name: "F31-audit",
    parser: "the audit log of commands",
    property: "every line is an entry or counted; texts are short and have no hidden character; an entry is written so that it is read the same",
    shape: Shape::Text(&[
        "\"schema\":1",
        "\"way\"",
        "\"socket\"",
        "\"uid\"",
        "\"command\"",
        "\"reason\"",
        "\"result\"",
        "\"done\"",
        "\\u202e",
        "\\u0000",
        "null",
    ]),
    run: audit,
    seeds: audit_seeds,
};

thread_local! {
    static PLACE: OnceCell<TempDir> = const { OnceCell::new() };
}

fn state(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    PLACE.with(|place| {
        let dir = place.get_or_init(crate::places::place).path();
        match choice % 3 {
            0 => {
                fs::write(dir.join("starts.json"), rest).expect("written");
                let count = sluiced::fuzz::starts(dir, Nanos(1 << 40));
                assert!((1..=5).contains(&count), "{count} starts");
                let again = sluiced::fuzz::starts(dir, Nanos(1 << 40));
                assert_eq!(again, (count + 1).min(5), "what it wrote it reads");
            }
            1 => {
                fs::write(dir.join("changes.json"), rest).expect("written");
                for change in Journal::new(dir).read() {
                    assert!(["tcp_tso_rtt_log", "tcp_wmem"].contains(&change.key.as_str()), "{change:?}");
                }
            }
            _ => kept(rest),
        }
    });
}

fn kept(bytes: &[u8]) {
    let group = || Name::parse("rack1").expect("a name");
    let read = |bytes: &[u8]| View::read(Space::new("/sluice", "c"), group(), bytes, "fleet.json");
    match read(bytes) {
        Ok(view) => {
            if let Some(text) = view.write() {
                let again = read(text.as_bytes()).expect("what is written is read");
                assert_eq!(again.write(), Some(text));
                assert_eq!((again.mode(), again.revision()), (view.mode(), view.revision()));
            }
        }
        Err(problems) => refused(&problems),
    }
}

fn flight(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    if choice % 2 == 0 { segments(rest) } else { segments(&record::segment_of(rest)) }
}

fn segments(bytes: &[u8]) {
    let Ok(read) = record::read(bytes) else { return };
    assert!(read.slots.is_sorted_by_key(|slot| slot.to));
    assert!(read.slots.len() * record::FRAME <= bytes.len());
    assert!(read.torn <= bytes.len() / record::SEGMENT + 1);
    let mut again = record::head(1, &read.host).to_vec();
    let all = read
        .slots
        .iter()
        .take_while(|slot| record::frame(1, slot, &mut again) && again.len() <= record::SEGMENT)
        .count();
    if all == read.slots.len() {
        again.resize(record::SEGMENT, 0);
        let again = record::read(&again).expect("a segment of our own");
        assert_eq!(again.slots, read.slots);
    }
}

fn decisions(bytes: &[u8]) {
    let said = |replayed: Result<sluice_wire::record::Replayed, sluice_wire::record::ReplayError>| match replayed {
        Ok(replayed) => Ok(format!("{replayed:?}")),
        Err(error) => Err((error.line, error.to_string())),
    };
    let first = said(replay(bytes));
    if let Err((line, _)) = &first {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
        assert!((1..=lines as u64 + 1).contains(line), "line {line} of {lines}");
    }
    assert_eq!(said(replay(bytes)), first, "the same each time");
}

fn audit(bytes: &[u8]) {
    let mut audit = Audit::default();
    audit.read(bytes);
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert_eq!(audit.entries.len() + audit.unreadable, lines);
    for entry in &audit.entries {
        for text in [&entry.command, &entry.asked, &entry.reason, &entry.message] {
            assert!(text.chars().count() <= 301 && !text.chars().any(is_hidden), "{text:?}");
        }
        let line = serde_json::to_vec(entry).expect("JSON");
        assert!(!line.contains(&b'\n'));
        let mut again = Audit::default();
        again.read(&line);
        assert_eq!(again.entries, std::slice::from_ref(entry));
    }
}

fn state_seeds() -> Vec<Seed> {
    let starts = r#"{"schema":1,"starts_ns":[1099511627000,1099511627500]}"#;
    let changes =
        r#"{"schema":1,"sysctls":[{"key":"tcp_tso_rtt_log","old":"9","new":"0"},{"key":"../x","old":"1","new":"2"}]}"#;
    let fleet = r#"{"version":1,"space":"/sluice/c/","etcd":7,"revision":12,"epoch":3,"items":[
{"key":"hosts/epoch","revision":3,"value":"{\"version\":1,\"epoch\":3}"},
{"key":"hosts/modes/rack1","revision":4,"value":"{\"version\":1,\"mode\":\"active\",\"note\":\"\"}"},
{"key":"hosts/modes/rack2","revision":4,"value":"{\"version\":1,\"mode\":\"bypass\"}"},
{"key":"hosts/switches","revision":5,"value":"{\"version\":1,\"switches\":[{\"name\":\"a\",\"address\":\"h:1\"}]}"}]}"#;
    vec![Seed::of(0, "starts", starts), Seed::of(1, "changes", changes), Seed::of(2, "fleet", fleet)]
}

/// Segments without the empty part behind their frames.
fn flight_seeds() -> Vec<Seed> {
    let segment = |serial, slots: std::ops::Range<u64>| {
        let mut bytes = record::head(serial, "h0").to_vec();
        slots.for_each(|number| assert!(record::frame(serial, &seen(number), &mut bytes)));
        bytes
    };
    let one = segment(1, 0..1);
    let payload = &one[record::HEAD + record::FRAME..];
    vec![
        Seed::of(0, "one", segment(1, 0..3)),
        Seed::of(0, "many", segment(9, 4..20)),
        Seed::of(0, "empty", segment(2, 0..0)),
        Seed::of(1, "payload", payload),
    ]
}

fn decisions_seeds() -> Vec<Seed> {
    vec![Seed::new("round", sample::round().into_bytes())]
}

fn audit_seeds() -> Vec<Seed> {
    let entry = Entry {
        uid: Some(1000),
        command: "mode".into(),
        asked: "active for 600 s".into(),
        reason: "why".into(),
        ..Entry::default()
    };
    let line = serde_json::to_string(&entry.bounded()).expect("JSON");
    vec![Seed::new(
        "entries",
        format!("{line}\n{{\"schema\":1,\"comm\n{{\"schema\":2,\"way\":\"dream\",\"more\":1}}\n"),
    )]
}
