//! Where results go: stdout, in the form that was asked for. Everything else goes to stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sluice_wire::snapshot::SCHEMA;

use crate::args::{Color, Format, Global};
use crate::failure::Failure;
use crate::format::{UNKNOWN, nearest};
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
            let heads: Vec<String> = keys.iter().map(|key| key.to_uppercase()).collect();
            let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
            for row in &rows {
                table.row(keys.iter().map(|key| plain(row.get(key))).collect());
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
        let hint = nearest(wrong, known.iter().map(String::as_str)).map(|near| format!("; did you mean `{near}`?"));
        let known = known.join(", ");
        return Err(Failure::input(format!(
            "--fields: no field `{wrong}`{}\n  allowed: {known}",
            hint.unwrap_or_default()
        )));
    }
    Ok(global.fields.clone())
}

fn csv(rows: &[Value], keys: &[String]) -> String {
    let mut out = keys.join(",") + "\n";
    for row in rows {
        let cells: Vec<String> = keys.iter().map(|key| quoted(row.get(key))).collect();
        out += &(cells.join(",") + "\n");
    }
    out
}

/// A CSV cell; lists and objects are JSON in it, what is not known is empty.
fn quoted(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => UNKNOWN.into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
