//! `sluice fleet set` and `unset`: one value, judged before it is written.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use sluice_etcd::Written;
use sluice_fleet::key::{Key, MAX_VALUE, Name};
use sluice_fleet::value::{self, ModeValue, Value};
use sluice_formats::file;
use sluice_wire::snapshot::Mode;

use super::args::{FleetSetCmd, FleetUnsetArgs};
use super::desk::{Desk, HeldRollout, unheard};
use super::{now, operator};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

pub fn set(global: &Global, desk: &mut Desk, what: &FleetSetCmd) -> Result<ExitCode, Failure> {
    match what {
        FleetSetCmd::Mode { group, mode, reason } => set_mode(global, desk, group, *mode, reason),
        FleetSetCmd::Topology { file } => put(global, desk, Key::Topology, load(&Key::Topology, file)?),
        FleetSetCmd::Plan { name, file } => {
            let key = Key::Plan(name.clone());
            let text = load(&key, file)?;
            put(global, desk, key, text)
        }
        // Above the last one even where the copy that was restored does not know it: time only grows.
        FleetSetCmd::Epoch => put(global, desk, Key::Epoch, value::epoch(now().0)),
    }
}

pub fn unset(global: &Global, desk: &mut Desk, args: &FleetUnsetArgs) -> Result<ExitCode, Failure> {
    let key = match (args.what.as_str(), &args.name) {
        ("topology", _) => Key::Topology,
        ("plan", Some(name)) => Key::Plan(name.clone()),
        _ => Key::Switches,
    };
    put(global, desk, key, value::removed())
}

/// A file that is good as the value of a key.
pub fn load(key: &Key, path: &Path) -> Result<String, Failure> {
    let text = file::load_text(path, MAX_VALUE as u64)?;
    // In the file's name: that is where the operator mends it.
    Value::read(key, text.as_bytes()).map_err(|problems| problems.in_file(&path.display().to_string()))?;
    Ok(text)
}

fn set_mode(global: &Global, desk: &mut Desk, group: &Name, mode: Mode, reason: &str) -> Result<ExitCode, Failure> {
    let HeldRollout { rollout, revision } = desk.rollout()?;
    if rollout.is_some_and(|rollout| rollout.holds(group)) {
        return Err(Failure::no(format!(
            "a rollout has {group} in hand: it would not know what it returns to\n  help: sluice fleet abort, then set the mode"
        )));
    }
    let groups = desk.groups()?;
    if !groups.iter().any(|(known, _)| known == group) {
        let known: Vec<&str> = groups.iter().map(|(known, _)| known.as_str()).collect();
        let hint = sluice_formats::problem::hint(group.as_str(), known.iter().copied()).unwrap_or_default();
        return Err(Failure::input(format!(
            "no group {group} is known: {}; {hint}\n  help: sluice fleet import",
            known.join(", ")
        )));
    }
    let by = operator();
    let note = if reason.is_empty() { by } else { format!("{by}: {reason}") };
    let text = ModeValue { mode, note }.write();
    let key = Key::Mode(group.clone());
    match desk.write(&[(&Key::Rollout, revision)], &[(key.clone(), text)]).map_err(unheard)? {
        Written::At(revision) => written(global, &key, revision),
        Written::Overtaken => {
            Err(Failure::no("a rollout began at the same moment; nothing was written: sluice fleet status"))
        }
    }
}

fn put(global: &Global, desk: &mut Desk, key: Key, text: String) -> Result<ExitCode, Failure> {
    match desk.write(&[], &[(key.clone(), text)]).map_err(unheard)? {
        Written::At(revision) => written(global, &key, revision),
        Written::Overtaken => Err(Failure::failed("etcd did not write")),
    }
}

fn written(global: &Global, key: &Key, revision: u64) -> Result<ExitCode, Failure> {
    if !global.quiet {
        let value = json!({ "schema": 1, "written": [key.to_string()], "revision": revision });
        output::one(global, &value, || format!("wrote {key} at revision {revision}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
