//! The commented defaults, from the tables of [`super::settings`].

use super::settings::{Config, KEYS, LINK_KEYS, LinkEntry, SWITCH_KEYS, SwitchEntry};

/// A valid `sluiced.toml` in which every key stands with its default, range and sentence.
pub fn commented_defaults() -> String {
    use std::fmt::Write as _;
    let config = Config::default();
    let mut out = String::from("# sluiced.toml: every key with its default. Units are in the names.\n");
    let mut table = "";
    // A key outside any table may not follow a table header.
    let (roots, tabled): (Vec<_>, Vec<_>) = KEYS.iter().partition(|key| !key.path.contains('.'));
    for key in roots.into_iter().chain(tabled) {
        let (head, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if head != table {
            let _ = write!(out, "\n[{head}]\n");
            table = head;
        }
        let restart = if key.restart { " Needs a restart." } else { "" };
        let unit = if key.unit.is_empty() { String::new() } else { format!(" [{}]", key.unit) };
        let _ = writeln!(out, "# {}{unit} Allowed: {}.{restart}", key.meaning, key.rule.allowed());
        let value = (key.get)(&config);
        let unset = value.is_empty() || value == "\"\"";
        let _ = writeln!(out, "{}{name} = {value}", if unset { "# " } else { "" });
    }
    out.push_str("\n# [[links]]\n");
    for key in LINK_KEYS {
        let _ = writeln!(out, "# {} = {}  # {}", key.path, (key.get)(&LinkEntry::default()), key.meaning);
    }
    out.push_str("\n# [[switches]]\n");
    for key in SWITCH_KEYS {
        let _ = writeln!(out, "# {} = {}  # {}", key.path, (key.get)(&SwitchEntry::default()), key.meaning);
    }
    out
}
