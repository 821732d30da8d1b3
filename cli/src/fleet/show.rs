//! `sluice fleet show`: what lies in etcd.

use std::process::ExitCode;

use serde_json::{Value as Json, json};
use sluice_fleet::key::Key;
use sluice_fleet::rollout::Rollout;
use sluice_fleet::value::{Value, read_hosts};

use super::args::FleetShowArgs;
use super::desk::{Desk, Held, unheard};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::table::Table;

pub fn run(global: &Global, desk: &mut Desk, args: &FleetShowArgs) -> Result<ExitCode, Failure> {
    let all = desk.read("").map_err(unheard)?;
    let Some(wanted) = &args.key else {
        let rows: Vec<Json> = all.iter().map(row).collect();
        let table = || {
            let mut table = Table::new(["KEY", ">REVISION", ">BYTES", "WHAT"]);
            for Held { key, value, revision } in &all {
                table.row(vec![key.to_string(), revision.to_string(), value.len().to_string(), what(key, value)]);
            }
            table.render(output::width())
        };
        output::list(global, "keys", &rows, table)?;
        return Ok(ExitCode::SUCCESS);
    };
    match all.iter().find(|held| held.key.to_string() == *wanted) {
        Some(held) => {
            output::one(global, &row_with_value(held), || String::from_utf8_lossy(&held.value).into_owned())?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let known: Vec<String> = all.iter().map(|held| held.key.to_string()).collect();
            let known =
                if known.is_empty() { "there are none yet: sluice fleet import".into() } else { known.join(", ") };
            Err(Failure::no(format!("{} has no key {wanted}\n  keys: {known}", desk.space.all())))
        }
    }
}

fn row(Held { key, value, revision }: &Held) -> Json {
    json!({ "key": key.to_string(), "revision": revision, "bytes": value.len(), "what": what(key, value) })
}

fn row_with_value(held: &Held) -> Json {
    let text = String::from_utf8_lossy(&held.value);
    let value = serde_json::from_str::<Json>(&text).unwrap_or_else(|_| json!(text));
    json!({ "schema": 1, "key": held.key.to_string(), "revision": held.revision, "value": value })
}

/// What a value says, in few words; or that it cannot be read.
fn what(key: &Key, value: &[u8]) -> String {
    let read = match key {
        Key::Group(_) => read_hosts(key, value).map(|hosts| format!("{} hosts", hosts.len())),
        Key::Rollout => Rollout::read(value).map(|rollout| {
            let (touched, all) = (rollout.touched, rollout.stages.len());
            format!("to {}: {}, {touched} of {all} groups", rollout.order.to.as_str(), rollout.status.word())
        }),
        _ => Value::read(key, value).map(|value| match value {
            Value::Epoch(epoch) => epoch.to_string(),
            Value::Mode(mode) if mode.note.is_empty() => mode.mode.as_str().into(),
            Value::Mode(mode) => format!("{} ({})", mode.mode.as_str(), mode.note),
            Value::Plan => "a plan".into(),
            Value::Switches(switches) => format!("{} switches", switches.len()),
            Value::Topology => "a topology".into(),
            Value::Removed => "removed".into(),
        }),
    };
    read.unwrap_or_else(|problems| {
        let first = problems.all().first();
        let text = first.map(|problem| format!("{}: {}", problem.code, problem.message)).unwrap_or_default();
        format!("not readable: {text}")
    })
}
