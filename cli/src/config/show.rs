//! `sluice config show`: the keys of the running daemon, or of files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_formats::problem::hint;
use sluiced::config::{self, reference};

use super::args::ShowArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

/// A key with what holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    key: String,
    /// As JSON; null: not set.
    value: Value,
    default: Value,
    /// `file:line`; null: its default holds.
    origin: Option<String>,
}

/// What the daemon answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    keys: BTreeMap<String, Said>,
    links: Vec<BTreeMap<String, String>>,
    switches: Vec<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    value: String,
    from: Option<String>,
}

pub fn run(global: &Global, args: &ShowArgs) -> Result<(), Failure> {
    let mut rows = if args.files || args.config.is_some() { of_files(args)? } else { of_daemon(global)? };
    for wanted in &args.keys {
        if !rows.iter().any(|row| begins(&row.key, wanted)) {
            let hint = hint(wanted, rows.iter().map(|row| row.key.as_str())).map(|hint| format!("; {hint}"));
            let hint = hint.unwrap_or_default();
            return Err(Failure::input(format!("no key `{wanted}`{hint}\n  help: sluice config defaults lists them")));
        }
    }
    rows.retain(|row| args.keys.is_empty() || args.keys.iter().any(|wanted| begins(&row.key, wanted)));
    rows.retain(|row| !args.changed || row.value != row.default);
    output::list(global, "keys", &rows, || text(&rows, args.origin))
}

/// `enforce` and `enforce.backend` are what `enforce` names, `enforcement` is not.
fn begins(key: &str, wanted: &str) -> bool {
    key.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn of_files(args: &ShowArgs) -> Result<Vec<Row>, Failure> {
    // What only this host knows is no part of what files say.
    let loaded = config::load(args.config.as_deref(), true)?;
    let row = |key: reference::Holding| Row {
        key: key.key,
        value: value(&key.value),
        default: value(&key.default),
        origin: key.origin.map(|origin| format!("{}:{}", origin.file.display(), origin.line)),
    };
    Ok(reference::holding(&loaded).into_iter().map(row).collect())
}

fn of_daemon(global: &Global) -> Result<Vec<Row>, Failure> {
    let said: Document = Client::new(global)?.json("/api/v1/config").map_err(|failure| match failure.code {
        4 => failure.with_help("sluice config show --files shows what a start would take"),
        _ => failure,
    })?;
    let defaults: BTreeMap<String, String> =
        reference::reference().into_iter().map(|key| (key.key, key.default)).collect();
    // A key of a newer daemon has no default here.
    let default = |key: &str| defaults.get(key).map_or(Value::Null, |text| value(text));
    let mut rows: Vec<Row> = Vec::new();
    for (key, said) in said.keys {
        rows.push(Row { value: value(&said.value), default: default(&key), origin: said.from, key });
    }
    // In the order of the reference; what it does not know comes last.
    let order: Vec<String> = reference::reference().into_iter().map(|key| key.key).collect();
    rows.sort_by_key(|row| order.iter().position(|key| *key == row.key).unwrap_or(usize::MAX));
    for (list, entries) in [("links", said.links), ("switches", said.switches)] {
        for entry in entries {
            let name = entry.get("name").map(|text| value(text)).and_then(|name| name.as_str().map(str::to_owned));
            let name = name.unwrap_or_default();
            for (key, text) in entry {
                let default = default(&format!("{list}[].{key}"));
                rows.push(Row { key: format!("{list}.{name}.{key}"), value: value(&text), default, origin: None });
            }
        }
    }
    Ok(rows)
}

/// A value of the file's TOML, which JSON can say too.
fn value(toml: &str) -> Value {
    match toml {
        "" => Value::Null,
        toml => serde_json::from_str(toml).unwrap_or_else(|_| toml.into()),
    }
}

fn text(rows: &[Row], origin: bool) -> String {
    let width = rows.iter().map(|row| row.key.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for row in rows {
        let shown = if row.value.is_null() { "-".to_owned() } else { row.value.to_string() };
        let place = match (origin, &row.origin) {
            (false, _) => String::new(),
            (true, Some(place)) => format!("   # {place}"),
            (true, None) => "   # default".into(),
        };
        out += format!("{:<width$}  {shown}{place}", row.key).trim_end();
        out.push('\n');
    }
    if rows.is_empty() {
        out += "every key has its default\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_itself_and_what_lies_below_it() {
        assert!(begins("enforce.backend", "enforce") && begins("mode", "mode"));
        assert!(!begins("enforcement", "enforce") && !begins("mode", "mode.x"));
    }

    #[test]
    fn values_are_json_and_what_is_not_set_is_null() {
        assert_eq!(value(""), Value::Null);
        assert_eq!(value("\"observe\""), "observe");
        assert_eq!(value("[\"a\", \"b\"]"), serde_json::json!(["a", "b"]));
        assert_eq!(value("10.0"), 10.0);
    }

    #[test]
    fn places_stand_behind_what_they_set() {
        let row = |key: &str, origin: Option<&str>| Row {
            key: key.into(),
            value: 60.into(),
            default: 60.into(),
            origin: origin.map(str::to_owned),
        };
        let rows = [row("slot.length_ms", Some("/etc/a.toml:7")), row("mode", None)];
        assert_eq!(text(&rows, true), "slot.length_ms  60   # /etc/a.toml:7\nmode            60   # default\n");
        assert_eq!(text(&rows[1..], false), "mode  60\n");
        assert!(text(&[], false).contains("default"));
    }
}
