//! Every line that the two programs can write has a name of the table, at the level that the table says; a warning says what
//! it costs and what to do; and no line above `debug` shows the address of another host. Read from the sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sluice_logs::Event;

/// The rooms whose lines reach the log of `sluiced` or `sluice-switch`.
const ROOMS: [&str; 19] = [
    "attribution/src",
    "clock/src",
    "daemon/src",
    "ebpf/src",
    "ebpf/struct-ops/src",
    "fleet/src",
    "fleet/etcd/src",
    "formats/src",
    "logs/src",
    "page/src",
    "progress/src",
    "realtime/src",
    "route/src",
    "schedule/src",
    "switch-emulator/data-plane/src",
    "switch-emulator/p4runtime/src",
    "switch-emulator/src",
    "switch-emulator/telemetry/src",
    "wire/src",
];

/// Where the event's name is the code of a condition.
const CONDITIONS: &str = "daemon/src/conditions.rs";
/// Names by which lines give addresses of others.
const ADDRESSES: [&str; 8] = ["%from", "%peer", "%uri", "%address", "%remote", "{from}", "{peer}", "{uri}"];

/// One line of the log in the source.
#[derive(Debug)]
struct Call {
    at: String,
    level: &'static str,
    arguments: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a repository").to_owned()
}

/// Rust files below a folder that are part of the programs: no tests.
fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, out);
            }
        } else if name.ends_with(".rs") && !["tests.rs", "testing.rs"].contains(&name) {
            out.push(path);
        }
    }
}

/// The arguments of a macro: what stands before the bracket that closes it, strings and characters passed over.
fn arguments(text: &str) -> &str {
    let (mut depth, mut string, mut escaped) = (1, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if string => escaped = true,
            '"' => string = !string,
            '(' if !string => depth += 1,
            ')' if !string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(..at).unwrap_or_default();
        }
    }
    panic!("a macro without an end: {text:.80}");
}

fn calls(file: &str, text: &str) -> Vec<Call> {
    // What stands in a module of tests is no part of a program.
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut calls = Vec::new();
    for level in ["info", "warn", "error"] {
        for (at, found) in text.match_indices(&format!("tracing::{level}!(")) {
            let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
            let rest = text.get(at + found.len()..).unwrap_or_default();
            calls.push(Call { at: format!("{file}:{line}"), level, arguments: arguments(rest).to_owned() });
        }
    }
    calls
}

fn has_field(arguments: &str, name: &str) -> bool {
    [format!("{name} ="), format!("%{name},"), format!(" {name},"), format!("({name},")]
        .iter()
        .any(|form| arguments.contains(form))
        || arguments.starts_with(&format!("{name},"))
}

/// What is wrong with a call, and the event that it names, if that is one of the table.
fn judge(call: &Call, condition: bool) -> (Vec<String>, Option<Event>) {
    let mut wrong = Vec::new();
    let mut say = |what: &str| wrong.push(format!("{}: {}!: {what}", call.at, call.level));
    let named =
        call.arguments.split_once("event = \"").and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name);
    let event = named.and_then(Event::of);
    match (named, event) {
        (None, _) if condition => {}
        (None, _) => say("no `event = \"…\"`; names are in logs/src/event.rs"),
        (Some(name), None) => say(&format!("event \"{name}\" is not in logs/src/event.rs")),
        (Some(name), Some(event)) => {
            let level = event.level().as_str().to_ascii_lowercase();
            if level != call.level {
                say(&format!("\"{name}\" is of level {level} in logs/src/event.rs"));
            }
        }
    }
    if call.level != "info" {
        for field in ["cost", "next"] {
            if !has_field(&call.arguments, field) {
                say(&format!("no field `{field}`: a warning says what it costs and what to do"));
            }
        }
    }
    if let Some(address) = ADDRESSES.iter().find(|address| call.arguments.contains(**address)) {
        say(&format!("{address} may be another host's address; those are for debug"));
    }
    (wrong, event)
}

#[test]
fn every_line_has_a_name_of_the_table_and_every_name_a_line() {
    let (mut wrong, mut used, mut seen) = (Vec::new(), BTreeSet::new(), 0);
    for room in ROOMS {
        let mut files = Vec::new();
        sources(&root().join(room), &mut files);
        for path in files {
            let file = path.strip_prefix(root()).expect("below the repository").display().to_string();
            let text = std::fs::read_to_string(&path).expect("a source");
            if text.contains("use tracing::{") && text.contains("info") && file != "logs/src/limited.rs" {
                wrong.push(format!("{file}: write tracing::info!, so that this test finds it"));
            }
            for call in calls(&file, &text) {
                seen += 1;
                let (bad, event) = judge(&call, file == CONDITIONS);
                wrong.extend(bad);
                used.extend(event);
            }
        }
    }
    for event in Event::ALL.iter().filter(|event| !used.contains(*event)) {
        wrong.push(format!("logs/src/event.rs: nobody writes \"{}\"", event.name()));
    }
    assert!(wrong.is_empty(), "{} of {seen} calls:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen >= 60, "{seen} calls: are the sources still there?");
}

#[test]
fn the_test_finds_what_it_is_for() {
    let judged = |source: &str| {
        let calls = calls("a.rs", source);
        calls.iter().flat_map(|call| judge(call, false).0).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(judged(r#"tracing::info!(event = "job-begin", job = name(")"), "a job {}", x());"#), "");
    assert_eq!(judged(r#"tracing::warn!(event = "late", cost = "a", next = "b", "c");"#), "");
    assert!(judged(r#"tracing::info!("bare");"#).contains("no `event"));
    assert!(judged(r#"tracing::info!(event = "no-such", "x");"#).contains("not in logs"));
    assert!(judged(r#"tracing::info!(event = "late", "x");"#).contains("of level warn"));
    assert!(judged(r#"tracing::warn!(event = "late", cost = "a", "x");"#).contains("`next`"));
    assert!(judged(r#"tracing::info!(event = "job-begin", %from, "x");"#).contains("another host's"));
    assert!(judged("x\n#[cfg(test)]\nmod tests {\ntracing::info!(\"bare\");}").is_empty());
}
