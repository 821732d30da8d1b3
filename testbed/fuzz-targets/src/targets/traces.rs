//! F11 and F32: what was recorded elsewhere, or by us, and is read to be run or shown again.

use std::cell::OnceCell;
use std::fs;

use serde_json::Value;
use sluice_formats::document::Notation;
use sluice_formats::recording::{self, Line, Link, Pattern, Role};
use sluice_scenario::Scenario;
use sluice_schedule::policy::Why;
use sluice_schedule::{Bytes, FlowId, JobId, LinkId, Nanos, Rate, Slot};
use sluice_wire::snapshot::{ConditionCode, Mode};
use sluice_wire::timeline::{
    Anchor, EventKind, EventRecord, Filter, FlowRecord, Limits, LinkRecord, Timeline, Trigger, merge,
};
use tempfile::TempDir;

use super::topologies::refused;
use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses a form, then a file of it.
pub static TRACES: Target = Target {
    name: "F11-traces",
    parser: "traces of arrivals and lists of hosts (CSV), and recordings of a host (JSON lines)",
    property: "a refusal of a CSV names a file, one of a recording no line that is not there; every round of a recording is a known job's and ends no earlier than it began",
    shape: Shape::ChosenText(&[
        "minute,jobs",
        "host,asw,psw,dsw",
        ",",
        "\n",
        "{\"kind\":\"start\"",
        "job",
        "flow",
        "round",
        "lost",
        "full",
        "kind",
        "version",
        "host",
        "addresses",
        "links",
        "rate",
        "slot_ms",
        "unix_ns",
        "pattern",
        "ring",
        "role",
        "began_ns",
        "ended_ns",
        "flows",
        "[\"f\",1]",
    ]),
    run: traces,
    seeds: traces_seeds,
};

/// A byte that chooses, then names, or a trace.
pub static TIMELINES: Target = Target {
    name: "F32-timelines",
    parser: "timelines: traces that are joined; and names of jobs, links, hosts and switches in Chrome's form and in OpenTelemetry's",
    property: "whatever the names are, what is written is one JSON document without a control character; joined traces keep every event",
    shape: Shape::ChosenText(&[
        "traceEvents",
        "otherData",
        "slot_length_ns",
        "first_slot",
        "host",
        "ts",
        "pid",
        "tid",
        "ph",
        "id",
        "name",
        "args",
        "\"X\"",
        "\"M\"",
    ]),
    run: timelines,
    seeds: timelines_seeds,
};

thread_local! {
    static PLACE: OnceCell<TempDir> = const { OnceCell::new() };
}

fn traces(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 3 {
        0 => beside(
            rest,
            "[network]\nkind = \"star\"\nhosts = 2\ngbps = 1\n[arrivals]\nkind = \"per-minute\"\nfile = \"t.csv\"\nmax_jobs = 500\niterations = 1\nmix = [{model = \"vgg16\", arch = \"ring\", workers = 2}]\n",
        ),
        1 => beside(
            rest,
            "[network]\nkind = \"file\"\nfile = \"t.csv\"\ngpus = 2\ngbps = [25, 100, 100]\nuplinks = [2, 1]\n[[jobs]]\nid = \"a\"\nbytes = 9\ncompute_s = 0\narch = \"ring\"\nworkers = 2\niterations = 1\n",
        ),
        _ => recording(rest),
    }
}

/// A scenario that names these bytes as its file.
fn beside(bytes: &[u8], text: &str) {
    PLACE.with(|place| {
        let place = place.get_or_init(crate::places::place).path();
        fs::write(place.join("t.csv"), bytes).expect("written");
        let text = format!("version = 1\nname = \"t\"\n{text}");
        match Scenario::parse(&text, Notation::Toml, "s.toml", place) {
            Ok(scenario) => assert!(scenario.jobs.iter().all(|job| job.iterations > 0)),
            Err(problems) => {
                refused(&problems);
                assert!(problems.all().iter().all(|problem| !problem.file.is_empty()), "{problems}");
            }
        }
    });
}

fn recording(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match recording::parse(text, "r.jsonl") {
        Ok(read) => {
            assert!(!read.host.name.is_empty() && (1..=1000).contains(&read.slot_ms));
            for round in &read.rounds {
                assert!(read.jobs.contains_key(&round.job) && round.began <= round.ended, "{round:?}");
            }
        }
        Err(problems) => {
            refused(&problems);
            let lines = text.lines().count();
            assert!(problems.all().iter().all(|problem| problem.line <= lines), "{problems}");
        }
    }
}

fn timelines(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    if choice % 2 == 0 {
        named(&String::from_utf8_lossy(rest));
        return;
    }
    let Ok(trace) = serde_json::from_slice::<Value>(rest) else { return };
    let events =
        trace["traceEvents"].as_array().map_or(0, |events| events.iter().filter(|event| event.is_object()).count());
    let own = chrome(&timeline("job", "eth0", "h0", "leaf-1"));
    let own = serde_json::from_slice::<Value>(&own).expect("JSON of our own");
    let more = own["traceEvents"].as_array().map_or(0, Vec::len);
    if let Ok(joined) = merge(vec![("a".into(), trace), ("b".into(), own)]) {
        assert_eq!(joined["traceEvents"].as_array().map_or(0, Vec::len), events + more);
    }
}

fn named(text: &str) {
    let mut names = text.lines();
    let [job, link, host, switch] = std::array::from_fn(|_| names.next().unwrap_or_default());
    let timeline = timeline(job, link, host, switch);
    let mut otlp = Vec::new();
    let anchor = Anchor { slot: Slot(10), unix: Nanos(1_795_253_293_000_000_000) };
    timeline.otlp(&mut otlp, &Filter::default(), anchor).expect("into memory");
    for written in [chrome(&timeline), otlp] {
        let written = String::from_utf8(written).expect("JSON is UTF-8");
        assert!(serde_json::from_str::<Value>(&written).is_ok(), "{written}");
        assert!(!written.chars().any(|c| c.is_control() && c != '\n'), "{written:?}");
    }
}

fn chrome(timeline: &Timeline) -> Vec<u8> {
    let mut out = Vec::new();
    timeline.chrome(&mut out, &Filter::default()).expect("into memory");
    out
}

/// Some slots with a round and a condition, under these names.
fn timeline(job: &str, link: &str, host: &str, switch: &str) -> Timeline {
    let mut timeline = Timeline::new(host, Nanos(60_000_000), Limits::default());
    let id = JobId::of("4711");
    timeline.name_job(id, job);
    timeline.name_link(LinkId(1), link);
    let event = |slot, kind| EventRecord { slot: Slot(slot), into_slot: Nanos(1000), kind };
    timeline.event(event(10, EventKind::RoundBegan(id, 3)));
    timeline.event(event(10, EventKind::Mode(Mode::Active)));
    let silent = [(ConditionCode::SwitchUnreachable, switch)];
    timeline.conditions(Slot(10), Nanos(1000), silent.into_iter());
    for slot in 10..14 {
        timeline.flow(FlowRecord {
            flow: FlowId(1),
            job: id,
            ordered: Rate::mbps(100 * u64::from(slot % 2)),
            delivered: Bytes(1000),
            remaining: Bytes(5),
            slot: Slot(slot),
            why: Why::Rank,
            trigger: Trigger::Slot,
        });
        let rate = Rate::mbps(7);
        timeline.link(LinkRecord {
            link: LinkId(1),
            scheduled: rate,
            managed: rate,
            other: rate,
            capacity: rate,
            slot: Slot(slot),
        });
    }
    timeline.event(event(13, EventKind::RoundEnded(id, 3)));
    timeline
}

fn traces_seeds() -> Vec<Seed> {
    let start = Line::Start {
        version: recording::VERSION,
        host: "h0".into(),
        addresses: vec!["10.0.0.1".into()],
        links: vec![Link { name: "eth0".into(), rate: 500 }],
        slot_ms: 60,
        unix_ns: 7,
    };
    let lines = [
        start,
        Line::Job { job: "j".into(), name: "a \"job\"".into(), pattern: Pattern::Ring },
        Line::Flow { flow: "f".into(), job: "j".into(), to: "h1".into(), role: Role::Ring },
        Line::Round { job: "j".into(), began_ns: 8, ended_ns: 9, flows: vec![("f".into(), 1000)] },
        Line::Lost { lines: 3 },
        Line::Full {},
    ];
    let recording: String = lines.iter().map(Line::text).collect();
    vec![
        Seed::of(0, "arrivals", "minute,jobs\n0,2\n1,1\n"),
        Seed::of(1, "hosts", "host,asw,psw,dsw\n0,S1,P1,G1\n1,S1,P1,G1\n2,S1,P2,G1\n"),
        Seed::of(2, "recording", recording),
    ]
}

fn timelines_seeds() -> Vec<Seed> {
    vec![
        Seed::of(0, "names", "4711 ring\neth0\ngpu-17\n"),
        Seed::of(0, "hostile", "a\u{1b}[2J\"\\\u{202e}\n\u{7f}\u{0}\n</script>\n"),
        Seed::of(1, "trace", chrome(&timeline("job", "eth0", "h0", "leaf-1"))),
    ]
}
