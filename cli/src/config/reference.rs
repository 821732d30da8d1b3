//! The reference of all keys as one page of Markdown, from the tables that the readers of the files are held to. The manual's
//! pages of these files are made of the same rows.

use sluice_formats::topology::reference as topology;
use sluice_switch::config::reference as switch;
use sluiced::config::reference;

const HEAD: &str = "\
# Configuration

Every key of `sluiced.toml`, `sluice-switch.toml` and `topology.json`. This page is printed by `sluice config reference` from the tables that
the programs read by, and a test compares the two; what settings are good for is in [Operating Sluice](operating.md). The manual has a page
for each file: `sluiced.toml(5)`, `sluice-switch.toml(5)`, `sluice-topology(5)`.
";

/// What holds of both files of settings.
pub const UNITS: &str = "\
Units are in the names of keys, and a value is a bare number of that unit (`gbps` is 10^9 bit/s). Unknown keys are refused with the name
that was probably meant, and a key that is elsewhere in this version with its place (`E_MOVED`). All mistakes of all files are told at once:
`sluice config check FILE`.
";

/// What is read, when, and who tells what holds.
pub const DAEMON: &str = "\
Defaults, then `/etc/sluice/sluiced.toml` (or `--config`), then `sluiced.d/*.toml` beside it in byte order, then `sluiced.d/*.toml` of
`node.state_dir`. An entry of `[[links]]` or `[[switches]]` replaces an earlier one with the same `name`. *Live* keys hold after
`sluice reload` (SIGHUP); *restart* keys keep their value until then, and the condition `config-rejected` names them. `sluice config show
--origin` says what holds and which line set it; `sluice config defaults` prints a valid file with every key; `sluice config schema` is a
JSON schema for editors.
";

/// The same of the switches' file.
pub const SWITCH: &str = "\
One file (`/etc/sluice/sluice-switch.toml`, or `--config`), read at start; every change waits for a restart. Paths in it are relative
to it. Which keys belong together is in its errors: `sluice config check --switch FILE`.
";

/// What the fabric's file is for, and what all of its quantities have in common.
pub const TOPOLOGY: &str = "\
The fabric: hosts, switches, and the links between them. Daemons, switches (`from_topology`), testbed, simulator and planners read the same
file. `sluice topology gen` and `sluice topology import` write one, `sluice topology check FILE` says what is wrong with it and what daemons
lack in it. A list's key is shown as `nodes[].id`. Quantities are texts, and exact: `\"25Gbit/s\"`, `\"3GB/s\"`, `\"7/2 GB/s\"`, `\"0.7us\"`. Either
every quantity has a unit or none has, and daemons and switches need units. Links lead one way. They are numbered in the order of the file,
copy by copy (`count`), forward before backward (`duplex`).
";

/// One key, as the page and the manual show it.
pub struct Row {
    /// Heading of its table, in Markdown.
    pub table: String,
    /// Its name in that table.
    pub name: String,
    /// Empty: none.
    pub unit: &'static str,
    /// As the file would have it; empty: none.
    pub default: String,
    /// What may stand there, in words.
    pub allowed: String,
    /// Of a daemon's key when a change holds, of the topology's whether it must be there; of a switch's nothing.
    pub more: &'static str,
    /// One sentence.
    pub meaning: &'static str,
}

/// Keys of `sluiced.toml`.
pub fn daemon() -> Vec<Row> {
    let row = |key: reference::KeyReference| {
        let (table, name) = split(&key.key);
        let (table, name) = (toml(table), name.to_owned());
        let more = if key.restart { "restart" } else { "live" };
        Row {
            table,
            name,
            unit: key.unit,
            default: set(&key.default),
            allowed: key.allowed,
            more,
            meaning: key.meaning,
        }
    };
    reference::reference().into_iter().map(row).collect()
}

/// Keys of `sluice-switch.toml`.
pub fn switch() -> Vec<Row> {
    let row = |key: &switch::KeyReference| {
        let (table, name) = split(key.key);
        let allowed = if key.list { format!("a list of: {}", key.allowed) } else { key.allowed.to_owned() };
        Row {
            table: toml(table),
            name: name.to_owned(),
            unit: key.unit,
            default: set(key.default),
            allowed,
            more: "",
            meaning: key.meaning,
        }
    };
    switch::KEYS.iter().map(row).collect()
}

/// Keys of `topology.json`.
pub fn topology() -> Vec<Row> {
    let row = |key: &topology::KeyReference| {
        let (table, name) = split(key.key);
        Row {
            table: if table.is_empty() { "The file".to_owned() } else { format!("`{table}`") },
            name: name.to_owned(),
            unit: "",
            default: set(key.default),
            allowed: key.allowed.to_owned(),
            more: if key.required { "yes" } else { "no" },
            meaning: key.meaning,
        }
    };
    topology::KEYS.iter().map(row).collect()
}

/// The page.
pub fn page() -> String {
    let mut page = format!("{HEAD}\n{UNITS}");
    for (file, text, rows, more) in [
        ("sluiced.toml", DAEMON, daemon(), "live or restart"),
        ("sluice-switch.toml", SWITCH, switch(), ""),
        ("topology.json", TOPOLOGY, topology(), "must be there"),
    ] {
        page += &format!("\n## {file}\n\n{text}");
        let mut table = None;
        for row in rows {
            if table.as_ref() != Some(&row.table) {
                page += &heading(&row.table, more);
                table = Some(row.table.clone());
            }
            page += &line(&row);
        }
    }
    page
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// A default; a text without a letter is none.
fn set(default: &str) -> String {
    if default == "\"\"" { String::new() } else { default.to_owned() }
}

/// The heading of a table of TOML.
fn toml(table: &str) -> String {
    match table.strip_suffix("[]") {
        _ if table.is_empty() => "Outside any table".to_owned(),
        Some(list) => format!("`[[{}]]`", list.replace("[]", "")),
        None => format!("`[{table}]`"),
    }
}

/// The heading of a table of the file and of its rows.
fn heading(title: &str, extra: &str) -> String {
    let mut heads = vec!["key", "unit", "default", "allowed"];
    heads.extend(Some(extra).filter(|extra| !extra.is_empty()));
    heads.push("meaning");
    let rule = format!("|{}\n", " --- |".repeat(heads.len()));
    format!("\n### {title}\n\n{}{rule}", cells(&heads))
}

fn line(row: &Row) -> String {
    let mut texts = vec![code(&row.name), row.unit.to_owned(), code(&row.default), row.allowed.clone()];
    texts.extend(Some(row.more).filter(|more| !more.is_empty()).map(str::to_owned));
    texts.push(row.meaning.to_owned());
    let texts: Vec<String> = texts.iter().map(|text| text.replace('|', "\\|")).collect();
    cells(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn cells(texts: &[&str]) -> String {
    format!("| {} |\n", texts.join(" | ")).replace("|  |", "| |").replace("|  |", "| |")
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_row_of_its_table() {
        let page = page();
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, reference::reference().len() + switch::KEYS.len() + topology::KEYS.len());
        for piece in [
            "### `[slot]`",
            "| `length_ms` | ms | `60` | 5 to 200 | restart |",
            "### `[[switches.ports]]`",
            "### `[[links]]`",
            "### `nodes[]`",
            "| `duplex` | | `false` | true or false | no |",
        ] {
            assert!(page.contains(piece), "{piece} in\n{page}");
        }
        assert!(!page.contains("\n\n\n") && page.ends_with(" |\n"));
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(page.lines().filter(|line| line.starts_with("| `")).all(|line| [6, 7].contains(&columns(line))));
    }
}
