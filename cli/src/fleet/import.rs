//! `sluice fleet import`: a file that says what a fleet is, written to etcd as far as it differs from what is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use sluice_etcd::Written;
use sluice_fleet::key::{Key, MAX_HOSTS, MAX_PLANS, MAX_SWITCHES, NAME, Name};
use sluice_fleet::value::{self, HostValue, ModeValue, SwitchValue, Value};
use sluice_formats::document::{Collector, Item, Node, Notation, Table};
use sluice_formats::file;
use sluice_formats::problem::{E_DUP, E_MISSING, E_VERSION, Problem, Problems};
use sluice_wire::snapshot::{Mode, Transport};

use super::args::FleetImportArgs;
use super::desk::{Desk, unheard};
use super::{operator, set};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

/// A file that names some thousand hosts.
const MAX_BYTES: u64 = 4 << 20;
/// Keys and bytes of one write: below what etcd takes as it comes.
const MAX_WRITE: usize = 64;
const MAX_WRITE_BYTES: usize = 1 << 20;

pub fn run(global: &Global, desk: &mut Desk, args: &FleetImportArgs) -> Result<ExitCode, Failure> {
    let wanted = read(&args.file)?;
    let there: BTreeMap<Key, (Vec<u8>, u64)> =
        desk.read("").map_err(unheard)?.into_iter().map(|held| (held.key, (held.value, held.revision))).collect();
    let mut puts: Vec<(Key, String)> = wanted
        .iter()
        .filter(|(key, text)| there.get(key).is_none_or(|(value, _)| value != text.as_bytes()))
        .cloned()
        .collect();
    // A rollout has to know what a group returns to, so every group has a mode from the beginning.
    for (key, _) in &wanted {
        if let Key::Group(group) = key
            && !there.contains_key(&Key::Mode(group.clone()))
        {
            let mode = ModeValue { mode: Mode::Observe, note: format!("new, by {}", operator()) };
            puts.push((Key::Mode(group.clone()), mode.write()));
        }
    }
    let names = |key: &Key| wanted.iter().any(|(known, _)| known == key);
    let left: Vec<String> = there
        .keys()
        .filter(|key| matches!(key, Key::Group(_) | Key::Plan(_) | Key::Topology | Key::Switches) && !names(key))
        .map(ToString::to_string)
        .collect();
    let mut revision = None;
    if !args.dry_run {
        for part in parts(&puts) {
            let unchanged: Vec<(&Key, u64)> =
                part.iter().map(|(key, _)| (key, there.get(key).map_or(0, |(_, revision)| *revision))).collect();
            match desk.write(&unchanged, part).map_err(unheard)? {
                Written::At(at) => revision = Some(at),
                Written::Overtaken => {
                    let message = "somebody else wrote one of the keys meanwhile\n  help: look at it with sluice fleet show, and import again";
                    return Err(Failure::no(message));
                }
            }
        }
    }
    let keys: Vec<String> = puts.iter().map(|(key, _)| key.to_string()).collect();
    let value = json!({ "schema": 1, "written": keys, "dry_run": args.dry_run, "left": left, "revision": revision });
    let text = || {
        let verb = if args.dry_run { "would write" } else { "wrote" };
        let mut text: String = keys.iter().map(|key| format!("{verb} {key}\n")).collect();
        if keys.is_empty() {
            text.push_str("all of it is there already\n");
        }
        left.iter().for_each(|key| text.push_str(&format!("left {key}, which the file does not name\n")));
        text
    };
    if !global.quiet {
        output::one(global, &value, text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes that etcd takes, each whole.
fn parts(puts: &[(Key, String)]) -> Vec<&[(Key, String)]> {
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (at, (_, text)) in puts.iter().enumerate() {
        if at > from && (at - from == MAX_WRITE || bytes + text.len() > MAX_WRITE_BYTES) {
            parts.extend(puts.get(from..at));
            (from, bytes) = (at, 0);
        }
        bytes += text.len();
    }
    parts.extend(puts.get(from..).filter(|rest| !rest.is_empty()));
    parts
}

/// What the file says, as keys and values.
fn read(path: &Path) -> Result<Vec<(Key, String)>, Failure> {
    let text = file::load_text(path, MAX_BYTES)?;
    let name = path.display().to_string();
    let collector = Collector::new(&name, &text, Notation::Toml);
    let node = Node::parse(&collector);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut values = Vec::new();
    let mut others: Vec<Problem> = Vec::new();
    if let Some(table) = Item::root(&node, &collector).table() {
        version(&table);
        let mut take = |key: Key, file: &str| match set::load(&key, &folder.join(file)) {
            Ok(text) => values.push((key, text)),
            Err(failure) => others.extend(failure.problems.into_iter().flat_map(Problems::into_all)),
        };
        if let Some(file) = table.has("topology").then(|| table.text("topology")).flatten() {
            take(Key::Topology, file);
        }
        for (name, file) in list(&table, "plans", MAX_PLANS).iter().filter_map(plan) {
            take(Key::Plan(name), &file);
        }
        if table.has("switches") {
            let switches: Vec<SwitchValue> = list(&table, "switches", MAX_SWITCHES).iter().filter_map(switch).collect();
            checked(&mut values, &mut others, Key::Switches, value::write_switches(&switches));
        }
        for (group, hosts) in groups(&table) {
            checked(&mut values, &mut others, Key::Group(group), value::write_hosts(&hosts));
        }
        // Known also where they are not there.
        let _ = (table.get("topology"), table.get("plans"), table.get("switches"), table.get("hosts"));
        table.finish();
    }
    let mut problems = collector.into_problems();
    problems.extend(others);
    match Problems::of(problems) {
        None => Ok(values),
        Some(problems) => Err(problems.into()),
    }
}

/// A value made here has to pass the same reader as one from anywhere.
fn checked(values: &mut Vec<(Key, String)>, problems: &mut Vec<Problem>, key: Key, text: String) {
    let read = match &key {
        Key::Group(_) => value::read_hosts(&key, text.as_bytes()).map(drop),
        _ => Value::read(&key, text.as_bytes()).map(drop),
    };
    match read {
        Ok(()) => values.push((key, text)),
        Err(wrong) => problems.extend(wrong.into_all()),
    }
}

fn version(table: &Table<'_>) {
    if let Some(version) = table.require("version")
        && version.int(&(1..=u64::MAX)).is_some_and(|number| number != 1)
    {
        version.fail(E_VERSION, "a version that this program does not know", "1");
    }
}

fn list<'a>(table: &Table<'a>, key: &'static str, most: usize) -> Vec<Item<'a>> {
    if table.has(key) { table.get(key).and_then(|item| item.list_of(most)).unwrap_or_default() } else { Vec::new() }
}

fn plan(item: &Item<'_>) -> Option<(Name, String)> {
    let table = item.table()?;
    let (name, file) = (named(&table, "name"), table.require("file").and_then(|item| item.text().map(str::to_owned)));
    table.finish();
    Some((name?, file?))
}

fn switch(item: &Item<'_>) -> Option<SwitchValue> {
    let words = Transport::ALL.map(|transport| (transport.as_str(), transport));
    let table = item.table()?;
    let (name, address) =
        (named(&table, "name"), table.require("address").and_then(|item| item.text().map(str::to_owned)));
    let transport = if table.has("transport") { table.choice("transport", &words) } else { Some(Transport::Session) };
    let _ = table.get("transport");
    table.finish();
    Some(SwitchValue { name: name?, address: address?, transport: transport? })
}

fn groups(table: &Table<'_>) -> BTreeMap<Name, Vec<HostValue>> {
    let mut groups: BTreeMap<Name, Vec<HostValue>> = BTreeMap::new();
    if !table.has("hosts") {
        table.item.refuse(
            Problem::new(E_MISSING, "", "no hosts").allowed("an entry [[hosts]] for each").help("name, http, group"),
        );
    }
    for item in list(table, "hosts", MAX_HOSTS) {
        let Some(host) = item.table() else { continue };
        let (name, group) = (named(&host, "name"), named(&host, "group"));
        let http = host.require("http").and_then(|item| item.text().map(str::to_owned));
        host.finish();
        let (Some(name), Some(group), Some(http)) = (name, group, http) else { continue };
        if groups.values().flatten().any(|known| known.name == name) {
            item.refuse(
                Problem::new(E_DUP, "", "the same host twice").found(name.as_str()).allowed("each host in one group"),
            );
        }
        groups.entry(group).or_default().push(HostValue { name, http });
    }
    groups
}

fn named(table: &Table<'_>, key: &'static str) -> Option<Name> {
    table.require(key)?.parse(NAME, Name::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(Key, String)>, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("fleet.toml");
        std::fs::write(&path, text).expect("written");
        read(&path).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_fleet_is_read_whole() {
        let text = "version = 1\n[[switches]]\nname = \"leaf-1\"\naddress = \"10.0.0.1:9604\"\n\
                    [[hosts]]\nname = \"gpu-1\"\nhttp = \"10.0.1.1:9605\"\ngroup = \"rack1\"\n\
                    [[hosts]]\nname = \"gpu-2\"\nhttp = \"10.0.1.2:9605\"\ngroup = \"rack1\"\n";
        let values = of(text).expect("good");
        let keys: Vec<String> = values.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(keys, ["hosts/switches", "groups/rack1"]);
        assert!(values[1].1.contains("gpu-2"));
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let text = "version = 2\ntopolgy = \"t.json\"\n[[plans]]\nname = \"ring\"\nfile = \"none.json\"\n\
                    [[hosts]]\nname = \"gpu-1\"\nhttp = \"h\"\ngroup = \"rack1\"\n\
                    [[hosts]]\nname = \"gpu-1\"\nhttp = \"h:1\"\ngroup = \"Rack 2\"\n";
        let problems = of(text).expect_err("wrong");
        for part in ["E_VERSION", "did you mean `topology`", "none.json", "host:port", "Rack 2"] {
            assert!(problems.contains(part), "{part}: {problems}");
        }
    }

    #[test]
    fn writes_are_no_larger_than_etcd_takes() {
        let put = |bytes: usize| (Key::Topology, "x".repeat(bytes));
        let small: Vec<_> = (0..150).map(|_| put(10)).collect();
        assert_eq!(parts(&small).iter().map(|part| part.len()).collect::<Vec<_>>(), [64, 64, 22]);
        let large = [put(900_000), put(900_000), put(10)];
        assert_eq!(parts(&large).iter().map(|part| part.len()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(parts(&[]).len(), 0);
    }
}
