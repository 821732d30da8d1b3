//! Section 5 of the manual: the files that operators write, from the rows that the reference of all keys is made of.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::config::reference::{self, Row};

const EXAMPLE_DAEMON: &str = "\
version = 1
mode = \"observe\"
topology = \"/etc/sluice/topology.json\"

[[switches]]
name = \"leaf7\"
address = \"10.0.0.7:9604\"

[tls]
ca = \"/etc/sluice/tls/ca.pem\"
cert = \"/etc/sluice/tls/cert.pem\"
key = \"/etc/sluice/tls/key.pem\"
";

const EXAMPLE_SWITCH: &str = "\
version = 1
topology = \"topology.json\"

[listen]
grpc = \"[::]:9604\"

[tls]
ca = \"/run/credentials/sluice-switch.service/ca.pem\"
cert = \"/run/credentials/sluice-switch.service/cert.pem\"
key = \"/run/credentials/sluice-switch.service/key.pem\"

[[switches]]
name = \"leaf7\"
from_topology = true
";

const EXAMPLE_TOPOLOGY: &str = "\
{ \"sluice_topology\": 1,
  \"nodes\": [
    {\"id\": \"gpu-17\", \"kind\": \"host\", \"addresses\": [\"10.0.1.17\"]},
    {\"id\": \"gpu-18\", \"kind\": \"host\", \"addresses\": [\"10.0.1.18\"]},
    {\"id\": \"leaf7\", \"kind\": \"switch\", \"addresses\": [\"10.0.0.7:9604\"]} ],
  \"links\": [
    {\"from\": \"gpu-17\", \"to\": \"leaf7\", \"capacity\": \"100Gbit/s\", \"duplex\": true},
    {\"from\": \"gpu-18\", \"to\": \"leaf7\", \"capacity\": \"100Gbit/s\", \"duplex\": true} ] }
";

/// A page of section 5.
struct Page {
    name: &'static str,
    about: &'static str,
    /// Where the file is found.
    place: &'static str,
    /// Paragraphs of Markdown.
    text: &'static [&'static str],
    rows: fn() -> Vec<Row>,
    /// What [`Row::more`] says where it is `yes` or `no`; a daemon's words are told as they are.
    yes: &'static str,
    example: &'static str,
    /// Name and section of further pages.
    also: &'static [(&'static str, &'static str)],
}

const PAGES: [Page; 3] = [
    Page {
        name: "sluiced.toml",
        about: "configuration of sluiced, the daemon of one host",
        place: "/etc/sluice/sluiced.toml, /etc/sluice/sluiced.d/*.toml",
        text: &[reference::UNITS, reference::DAEMON],
        rows: reference::daemon,
        yes: "",
        example: EXAMPLE_DAEMON,
        also: &[("sluice", "1"), ("sluice-config", "1"), ("sluice-topology", "5"), ("sluiced", "8")],
    },
    Page {
        name: "sluice-switch.toml",
        about: "configuration of sluice-switch, which keeps load tables",
        place: "/etc/sluice/sluice-switch.toml",
        text: &[reference::UNITS, reference::SWITCH],
        rows: reference::switch,
        yes: "",
        example: EXAMPLE_SWITCH,
        also: &[("sluice-config", "1"), ("sluice-topology", "5"), ("sluice-switch", "8")],
    },
    Page {
        name: "sluice-topology",
        about: "topology.json, hosts, switches and links of a fabric",
        place: "/etc/sluice/topology.json",
        text: &[reference::TOPOLOGY],
        rows: reference::topology,
        yes: "must be there",
        example: EXAMPLE_TOPOLOGY,
        also: &[("sluice-topology", "1"), ("sluice-switch.toml", "5"), ("sluiced.toml", "5")],
    },
];

/// File name and text of every page.
pub fn pages() -> Vec<(String, String)> {
    PAGES.iter().map(|page| (format!("{}.5", page.name), text(page))).collect()
}

fn text(page: &Page) -> String {
    let mut roff = Roff::new();
    let source = format!("sluice {}", env!("CARGO_PKG_VERSION"));
    // A date would make every build another one.
    roff.control("TH", [page.name.to_uppercase().as_str(), "5", "\"\"", source.as_str(), "Sluice"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{} - {}", page.name, page.about))]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([roman(page.place)]);
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in page.text {
        roff.control("PP", []);
        roff.text(inline(paragraph.trim_end()));
    }
    roff.control("SH", ["KEYS"]);
    let mut table = None;
    for row in (page.rows)() {
        if table.as_ref() != Some(&row.table) {
            roff.control("SS", [row.table.replace('`', "").as_str()]);
            table = Some(row.table.clone());
        }
        roff.control("TP", []);
        roff.text([bold(row.name.clone()), roman(beside(page, &row))]);
        roff.text([roman(row.meaning)]);
    }
    roff.control("SH", ["EXAMPLE"]);
    roff.control("nf", []);
    for line in page.example.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.control("SH", ["SEE ALSO"]);
    let mut also = Vec::new();
    for (name, section) in page.also {
        let gap = if also.is_empty() { "" } else { ", " };
        also.extend([roman(gap), bold(*name), roman(format!("({section})"))]);
    }
    roff.text(also);
    roff.render()
}

/// What stands behind a key's name: unit, default, what is allowed, and when it holds or whether it must be there.
fn beside(page: &Page, row: &Row) -> String {
    let more = match row.more {
        "yes" => page.yes,
        "no" => "",
        other => other,
    };
    let default = if row.default.is_empty() { String::new() } else { format!("default {}", row.default) };
    let all = [row.unit, default.as_str(), row.allowed.as_str(), more];
    let all: Vec<&str> = all.into_iter().filter(|part| !part.is_empty()).collect();
    format!(" ({})", all.join("; "))
}

/// Text with `code` and *words* of Markdown.
fn inline(text: &str) -> Vec<Inline> {
    let text = text.replace('\n', " ");
    let mut parts = Vec::new();
    for (at, piece) in text.split('`').enumerate() {
        if at % 2 == 1 {
            parts.push(bold(piece));
            continue;
        }
        for (at, piece) in piece.split('*').enumerate().filter(|(_, piece)| !piece.is_empty()) {
            parts.push(if at % 2 == 1 { italic(piece) } else { roman(piece) });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_file_is_in_its_page() {
        for (page, (file, text)) in PAGES.iter().zip(pages()) {
            assert_eq!(file, format!("{}.5", page.name));
            let keys = text.matches("\n.TP\n").count();
            assert_eq!(keys, (page.rows)().len(), "{file}");
            for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "KEYS", "EXAMPLE", "\"SEE ALSO\""] {
                assert!(text.contains(&format!("\n.SH {heading}\n")), "{heading} in {file}: {text}");
            }
            assert!(!text.contains('`'), "{file}: {text}");
        }
        let (_, daemon) = pages().swap_remove(0);
        for piece in [
            ".TH SLUICED.TOML 5 \"\" \"sluice ",
            "\nsluiced.toml \\- configuration of sluiced",
            "\n.SS [slot]\n",
            "\n.TP\n\\fBlength_ms\\fR (ms; default 60; 5 to 200; restart)\n",
            "\\fBsluice config show \\-\\-origin\\fR",
            "\\fIrestart\\fR",
        ] {
            assert!(daemon.contains(piece), "{piece} in {daemon}");
        }
    }
}
