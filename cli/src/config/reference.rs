//! The reference of all keys as one page of Markdown, from the tables of the two programs.

use sluice_switch::config::reference as switch;
use sluiced::config::reference;

const HEAD: &str = "\
# Configuration

Every key of `sluiced.toml` and `sluice-switch.toml`. This page is printed by `sluice config reference` from the tables that the programs
read by, and a test compares the two; what settings are good for is in [Operating Sluice](operating.md).

Units are in the names of keys, and a value is a bare number of that unit (`gbps` is 10^9 bit/s). Unknown keys are refused with the name
that was probably meant. All mistakes of all files are told at once: `sluice config check FILE`.

";

const DAEMON: &str = "\
## sluiced.toml

Defaults, then `/etc/sluice/sluiced.toml` (or `--config`), then `sluiced.d/*.toml` beside it in byte order, then `sluiced.d/*.toml` of
`node.state_dir`. An entry of `[[links]]` or `[[switches]]` replaces an earlier one with the same `name`. *Live* keys hold after
`sluice reload` (SIGHUP); *restart* keys keep their value until then, and the condition `config-rejected` names them. `sluice config show
--origin` says what holds and which line set it; `sluice config defaults` prints a valid file with every key; `sluice config schema` is a
JSON schema for editors.

";

const SWITCH: &str = "\
## sluice-switch.toml

One file (`/etc/sluice/sluice-switch.toml`, or `--config`), read at start; every change waits for a restart. Paths in it are relative
to it. Which keys belong together is in its errors: `sluice config check --switch FILE`.

";

/// The page.
pub fn page() -> String {
    let mut page = format!("{HEAD}{DAEMON}");
    let mut table = None;
    for key in reference::reference() {
        let (of, name) = split(&key.key);
        if table.as_deref() != Some(of) {
            page += &heading(of, "live or restart");
            table = Some(of.to_owned());
        }
        let holds = if key.restart { "restart" } else { "live" };
        page += &row([name, key.unit, &code(&key.default), &key.allowed, holds, key.meaning]);
    }
    page += &format!("\n{SWITCH}");
    table = None;
    for key in switch::KEYS {
        let (of, name) = split(key.key);
        if table.as_deref() != Some(of) {
            page += &heading(of, "");
            table = Some(of.to_owned());
        }
        let allowed = if key.list { format!("a list of: {}", key.allowed) } else { key.allowed.to_owned() };
        page += &row([name, key.unit, &code(key.default), &allowed, key.meaning]);
    }
    page.replace("\n\n\n", "\n\n")
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// The heading of a table of the file and of its rows.
fn heading(table: &str, extra: &str) -> String {
    let title = match table.strip_suffix("[]") {
        _ if table.is_empty() => "Outside any table".to_owned(),
        Some(list) => format!("`[[{}]]`", list.replace("[]", "")),
        None => format!("`[{table}]`"),
    };
    let mut heads = vec!["key", "unit", "default", "allowed"];
    heads.extend(Some(extra).filter(|extra| !extra.is_empty()));
    heads.push("meaning");
    let rule = format!("|{}\n", " --- |".repeat(heads.len()));
    format!("\n### {title}\n\n{}{rule}", cells(&heads))
}

fn row<const N: usize>(texts: [&str; N]) -> String {
    let mut texts: Vec<String> = texts.iter().map(|text| text.replace('|', "\\|")).collect();
    if let Some(name) = texts.first_mut() {
        *name = code(name);
    }
    cells(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn cells(texts: &[&str]) -> String {
    format!("| {} |\n", texts.join(" | ")).replace("|  |", "| |").replace("|  |", "| |")
}

fn code(text: &str) -> String {
    if text.is_empty() || text == "\"\"" { String::new() } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_row_of_its_table() {
        let page = page();
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, reference::reference().len() + switch::KEYS.len());
        for piece in [
            "### `[slot]`",
            "| `length_ms` | ms | `60` | 5 to 200 | restart |",
            "### `[[switches.ports]]`",
            "### `[[links]]`",
        ] {
            assert!(page.contains(piece), "{piece} in\n{page}");
        }
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(page.lines().filter(|line| line.starts_with("| `")).all(|line| [6, 7].contains(&columns(line))));
    }
}
