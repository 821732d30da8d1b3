//! Where results go: stdout, in the form that was asked for. Everything else goes to stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sluice_formats::problem::hint;
use sluice_wire::snapshot::SCHEMA;

use crate::failure::Failure;
use crate::format::UNKNOWN;
use crate::global::{Color, Format, Global};
use crate::table::Table;

/// Writes to stdout; a reader that went away ends the command in silence.
///
/// # Errors
/// stdout cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// Width of the terminal; `None` where stdout is none.
pub fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|&columns| columns > 0)
}

/// May colours be used?
pub fn colors(global: &Global) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    match global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto if set("CLICOLOR_FORCE") => true,
        Color::Auto => {
            io::stdout().is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

/// Prints one object as a whole.
///
/// # Errors
/// stdout cannot be written.
pub fn one(global: &Global, value: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Failure> {
    match global.format() {
        Format::Table => print(&table()),
        Format::Json => print(&format!("{:#}\n", to_value(value)?)),
        Format::Jsonl => print(&format!("{}\n", to_value(value)?)),
        Format::Csv => {
            let value = to_value(value)?;
            let rows = std::slice::from_ref(&value);
            print(&csv(rows, &keys(global, rows)?))
        }
    }
}

/// Prints a list: `{"schema":1,"NAME":[…]}`, objects per line, CSV, or the table.
///
/// # Errors
/// stdout cannot be written; a field of `--fields` that nothing has.
pub fn list<T: Serialize>(
    global: &Global,
    name: &str,
    rows: &[T],
    table: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if global.format() == Format::Table && global.fields.is_empty() {
        return print(&table());
    }
    let rows = rows.iter().map(to_value).collect::<Result<Vec<Value>, Failure>>()?;
    let keys = keys(global, &rows)?;
    let chosen = |row: &Value| -> Value {
        if global.fields.is_empty() {
            return row.clone();
        }
        keys.iter().map(|key| (key.clone(), row.get(key).cloned().unwrap_or_default())).collect::<Map<_, _>>().into()
    };
    match global.format() {
        Format::Json => {
            print(&format!("{:#}\n", json!({ "schema": SCHEMA, name: rows.iter().map(chosen).collect::<Vec<_>>() })))
        }
        Format::Jsonl => print(&rows.iter().map(|row| format!("{}\n", chosen(row))).collect::<String>()),
        Format::Csv => print(&csv(&rows, &keys)),
        Format::Table => {
            let mut table = Table::new(keys.iter().map(|key| key.to_uppercase()));
            for row in &rows {
                table.row(keys.iter().map(|key| words(row.get(key), UNKNOWN)).collect());
            }
            print(&table.render(width()))
        }
    }
}

fn to_value(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(Failure::failed)
}

/// The keys to show; without `--fields` those of the first row.
fn keys(global: &Global, rows: &[Value]) -> Result<Vec<String>, Failure> {
    let known: Vec<String> =
        rows.first().and_then(Value::as_object).map(|row| row.keys().cloned().collect()).unwrap_or_default();
    if global.fields.is_empty() {
        return Ok(known);
    }
    if let Some(wrong) = global.fields.iter().find(|field| !rows.is_empty() && !known.contains(field)) {
        let hint = hint(wrong, known.iter().map(String::as_str)).map(|hint| format!("; {hint}")).unwrap_or_default();
        let known = known.join(", ");
        return Err(Failure::input(format!("--fields: no field `{wrong}`{hint}\n  allowed: {known}")));
    }
    Ok(global.fields.clone())
}

/// Rows under a line of their keys; lists and objects are JSON in their cells, what is not known is empty.
pub fn csv(rows: &[Value], keys: &[String]) -> String {
    let quoted = |text: String| {
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    let rows = rows.iter().map(|row| line(keys.iter().map(|key| words(row.get(key), "")).collect()));
    std::iter::once(line(keys.to_vec())).chain(rows).collect()
}

fn words(value: Option<&Value>, unknown: &str) -> String {
    match value {
        None | Some(Value::Null) => unknown.into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
