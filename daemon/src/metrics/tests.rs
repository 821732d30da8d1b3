//! The page of metrics: its form, its bounds, and whether everything on it is counted.

mod bounds;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use sluice_wire::snapshot::{Flow, Job, Link, SwitchStatus};

use super::*;

/// (name, labels) of every sample; panics on a line that is neither comment nor sample.
fn parse(page: &str) -> BTreeMap<(String, Vec<(String, String)>), f64> {
    let mut samples = BTreeMap::new();
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
        let (name, labels) = match series.split_once('{') {
            None => (series, vec![]),
            Some((name, rest)) => {
                let rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("no brace: {line}"));
                let split = |pair: &str| {
                    let (name, value) = pair.split_once('=').unwrap_or_else(|| panic!("no label value: {line}"));
                    let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                    (name.to_owned(), value.unwrap_or_else(|| panic!("no quotes: {line}")).to_owned())
                };
                (name, rest.split(',').map(split).collect())
            }
        };
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
        let value = if value == "+Inf" { f64::INFINITY } else { value.parse().unwrap_or_else(|_| panic!("{line}")) };
        assert!(samples.insert((name.to_owned(), labels), value).is_none(), "twice: {line}");
    }
    samples
}

fn full(jobs: usize, flows: usize) -> Snapshot {
    let hostile = ["a\"b", "line\nbreak", "back\\slash", "{job_id=\"x\"}", "snow☃man", ""];
    let mut snapshot = Snapshot::default();
    snapshot.daemon.metrics_job_ids = true;
    snapshot.daemon.metrics_max_jobs = 32;
    for n in 0..jobs {
        let name = hostile.get(n).map_or_else(|| format!("job-{n}-{}", "x".repeat(10_000)), |name| (*name).to_owned());
        snapshot.jobs.push(Job { id: Label::new(&name), source: name, flows: 1, ..Job::default() });
    }
    snapshot.flows = vec![Flow::default(); flows];
    for n in 0..40 {
        snapshot.links.push(Link { name: format!("eth{n}"), own: n % 2 == 0, capacity_bps: 8, ..Link::default() });
        snapshot.switches.push(SwitchStatus { name: format!("leaf-{n}"), ..SwitchStatus::default() });
    }
    snapshot.settle()
}

#[test]
fn every_series_exists_from_the_start() {
    let samples = parse(&render(&Snapshot::default()).expect("renders"));
    let there =
        |samples: &BTreeMap<(String, _), f64>, family: &str| samples.keys().any(|(name, _)| name.starts_with(family));
    // A certificate that nobody gave is not over since 1970: whoever asks when it is hears nothing.
    let expiry = "sluice_certificate_expiry_timestamp_seconds";
    let always = |family: &&Family| {
        family.name != expiry && !family.labels.iter().any(|l| ["job_id", "link", "switch"].contains(l))
    };
    for family in all().filter(always) {
        assert!(there(&samples, family.name), "{}", family.name);
    }
    assert!(!there(&samples, expiry));
    let mut certified = Snapshot::default();
    certified.daemon.certificate_expires_unix_s = Some(1_900_000_000);
    let certified = parse(&render(&certified).expect("renders"));
    assert_eq!(certified[&(expiry.to_owned(), vec![])], 1_900_000_000.0);
    assert_eq!(samples[&("sluice_mode".into(), vec![("mode".into(), "observe".into())])], 1.0);
    assert_eq!(
        samples.keys().filter(|(name, _)| name == "sluice_condition").count(),
        crate::conditions::ConditionCode::ALL.len()
    );
    assert!(samples.keys().all(|(_, labels)| labels.iter().all(|(name, _)| name != "job" && name != "instance")));
}

#[test]
fn names_follow_the_rules() {
    let mut seen = BTreeSet::new();
    for family in all() {
        assert!(seen.insert(family.name), "{} is there twice", family.name);
        assert!(family.name.starts_with("sluice_") || family.name.starts_with("process_"));
        assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
        assert!(family.help.ends_with('.'), "{}", family.name);
    }
}

#[test]
fn lists_are_bounded_and_hostile_names_are_clean() {
    let snapshot = full(10_000, 65_536);
    let started = Instant::now();
    let page = render(&snapshot).expect("renders");
    println!("{} bytes in {:?}", page.len(), started.elapsed());
    assert!(page.len() < 200_000, "{} bytes", page.len());
    let samples = parse(&page);
    assert!(samples.len() <= 1024, "{} series", samples.len());
    let ids = samples.keys().filter(|(name, _)| name == "sluice_job_flows").count();
    assert_eq!(ids, 33, "32 ids and the rest");
    let other = samples[&("sluice_job_flows".into(), vec![("job_id".into(), "_other".into())])];
    // The empty name and nothing else is cleaned to another id's label here.
    assert!(other >= 9_900.0, "{other}");
    for (_, labels) in samples.keys() {
        assert!(labels.iter().all(|(_, value)| value.len() <= Label::MAX_BYTES), "{labels:?}");
    }
}

#[test]
fn histograms_are_cumulative_and_end_at_infinity() {
    let mut snapshot = Snapshot::default();
    for value in [0.0002, 0.0002, 0.5] {
        snapshot.counters.lateness_s.observe(value);
    }
    let samples = parse(&render(&snapshot).expect("renders"));
    let bucket = |le: &str| samples[&("sluice_slot_lateness_seconds_bucket".into(), vec![("le".into(), le.into())])];
    assert_eq!((bucket("0.0001"), bucket("0.0003"), bucket("0.06"), bucket("+Inf")), (0.0, 2.0, 2.0, 3.0));
    assert_eq!(samples[&("sluice_slot_lateness_seconds_count".into(), vec![])], 3.0);
}

#[test]
fn job_series_can_be_switched_off_and_vanish_after_the_end() {
    let mut snapshot = full(3, 0);
    snapshot.taken_unix_ns = 1_000_000_000_000;
    snapshot.jobs[0].ended_unix_ns = Some(1);
    snapshot.jobs[1].ended_unix_ns = Some(999_000_000_000);
    let count = |snapshot: &Snapshot| {
        let samples = parse(&render(snapshot).expect("renders"));
        samples.keys().filter(|(name, _)| name == "sluice_job_flows").count()
    };
    assert_eq!(count(&snapshot), 2);
    snapshot.daemon.metrics_job_ids = false;
    assert_eq!(count(&snapshot), 0);
}

/// The text of every source file of this crate that is no test and exports nothing.
fn counting_code() -> String {
    let mut text = String::new();
    let mut dirs = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("the sources are there").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "metrics"].contains(&name.as_str()) {
                dirs.push(path);
            } else if name.ends_with(".rs") && !["tests.rs", "metrics.rs", "testing.rs"].contains(&name.as_str()) {
                let file = std::fs::read_to_string(&path).expect("readable");
                text += file.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            }
        }
    }
    text
}

/// The keys of something as JSON.
fn keys(value: &impl serde::Serialize) -> Vec<String> {
    let value = serde_json::to_value(value).expect("JSON");
    value.as_object().expect("a table").keys().cloned().collect()
}

/// Does a statement of this code set this field, alone or among others, add to it, or observe into it?
fn is_set(code: &str, field: &str) -> bool {
    code.match_indices(field).any(|(at, _)| {
        let rest = &code[at + field.len()..];
        let statement = rest.split([';', '{', '}']).next().unwrap_or_default();
        let set = statement.contains(" = ") || statement.contains(" +=") || statement.starts_with(".observe(");
        set && !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

#[test]
fn a_field_is_set_by_what_sets_it() {
    for code in ["c.a += 1;", "c.a +=\n 1;", "c.a = b;", "(c.a, c.b) = x;", "c.a.observe(1.0);"] {
        assert!(is_set(code, "c.a"), "{code}");
    }
    for code in ["c.a_more += 1;", "b = c.a;", "if c.a == 0 { b = 1; }", "show(c.a); b = 1;"] {
        assert!(!is_set(code, "c.a"), "{code}");
    }
}

#[test]
fn every_counter_is_counted_somewhere_and_exported() {
    let code = counting_code();
    let table = include_str!("table.rs");
    // Refusals of connections are counted by reason elsewhere, and taken over all at once.
    let taken_over = include_str!("../../../wire/src/snapshot/counters.rs").split("impl Counters {").nth(1);
    let taken_over = taken_over.filter(|_| code.contains("counters.refused_connections(")).unwrap_or_default();
    for name in keys(&sluice_wire::snapshot::Counters::default()) {
        let counts = is_set(&code, &format!("counters.{name}"))
            || code.contains(&format!("&mut self.counters.{name}"))
            || is_set(taken_over, &format!("self.{name}"));
        assert!(counts, "nothing counts {name}: count it, or take it out of wire and of the table of metrics");
        let exported = [" ", ")", "."].iter().any(|end| table.contains(&format!("counters.{name}{end}")));
        let exported = exported || table.contains(&format!(": {name}")) || table.contains(&format!("c.{name}"));
        assert!(exported, "{name} is counted and not exported");
    }
}

#[test]
fn every_number_of_a_job_a_link_and_a_switch_is_filled_in() {
    let files =
        [include_str!("../snapshot.rs"), include_str!("../snapshot/flows.rs"), include_str!("../core/benefit.rs")];
    let code = files.concat();
    let lists = [
        keys(&Job::default()),
        keys(&sluice_wire::snapshot::Stalls::default()),
        keys(&sluice_wire::snapshot::Benefit::default()),
        keys(&Flow::default()),
        keys(&Link::default()),
        keys(&SwitchStatus::default()),
    ];
    for name in lists.concat() {
        let filled = [": ", ",", ")", " = ", " += ", ".clone_from("].iter().any(|after| {
            let found = format!("{name}{after}");
            let before = code.match_indices(&found).map(|(at, _)| code[..at].chars().next_back());
            before.flatten().any(|c| !c.is_alphanumeric() && c != '_')
        });
        assert!(filled, "nothing fills in {name}");
    }
}
