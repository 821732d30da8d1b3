//! `sluice sim list`: the scenarios that are here, and the schedulers that can be run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use sluice_formats::document::{Collector, Item, Node, Notation};
use sluice_wire::snapshot::SCHEMA;

use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::output;
use crate::table::Table;

/// Where scenarios are, the first of these that is there.
const PLACES: [&str; 4] =
    ["testbed/scenarios", "scenarios", "/usr/share/sluice/scenarios", "/usr/local/share/sluice/scenarios"];
/// Bytes of a scenario at most.
const MAX_BYTES: u64 = 16 << 20;

/// Every scheduler with what it is, in the order of the reference.
pub const SCHEDULERS: [(&str, &str); 14] = [
    (
        "fair",
        "every link is shared equally by the flows on it, as TCP does on average; fair:cubic, reno, bbr on the testbed",
    ),
    ("static", "the best of all fixed orders of the jobs, found by trying them"),
    ("sluice", "this project's: rounds of least remaining time first; sluice:primal-dual, primal-dual-literal, fair"),
    ("mcs", "rounds as chains of stages, ordered and paced by one central scheduler"),
    ("ccml", "every host shifts its jobs against each other, or treats them unequally until they slide apart"),
    ("cassini", "one time shift for each job, agreed for the whole network"),
    ("mltcp", "a flow is the more aggressive the more of its round it has sent; fair:mltcp on the testbed"),
    ("sincronia", "one order of all coflows, enforced by priorities inside the network"),
    ("varys", "the coflow with the shortest bottleneck first, every coflow at one common pace"),
    ("oracle", "the rule of sluice with one mind that knows everything at once"),
    ("aalo", "coflows sink to lower queues as they send, without anybody knowing their sizes"),
    ("echelonflow", "each flow of a round has a moment at which it should end, and the lateness is made small"),
    ("crux", "flows of the jobs that lose most GPU time per second of communication go first"),
    ("bound", "what no scheduler can beat, given where jobs stand and which paths they take"),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Listed {
    file: String,
    name: String,
    /// The first sentence of the file's comment.
    about: String,
}

pub fn run(global: &Global, dir: Option<&Path>) -> Result<ExitCode, Failure> {
    let scenarios = match dir {
        Some(dir) => scenarios(dir)?,
        None => PLACES.iter().map(Path::new).find(|place| place.is_dir()).map_or_else(|| Ok(Vec::new()), scenarios)?,
    };
    let schedulers: Vec<_> = SCHEDULERS.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
    match global.format() {
        Format::Csv | Format::Jsonl => output::list(global, "scenarios", &scenarios, String::new)?,
        _ => {
            let value = json!({ "schema": SCHEMA, "scenarios": scenarios, "schedulers": schedulers });
            output::one(global, &value, || text(&scenarios))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn scenarios(dir: &Path) -> Result<Vec<Listed>, Failure> {
    let entries = fs::read_dir(dir).map_err(|error| Failure::input(format!("{}: {error}", dir.display())))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    Ok(files.iter().filter_map(|file| listed(file)).collect())
}

/// What a file says of itself; `None`: it is no scenario.
fn listed(file: &Path) -> Option<Listed> {
    let text = sluice_formats::file::load_text(file, MAX_BYTES).ok()?;
    let collector = Collector::new("", &text, Notation::Toml);
    let node = Node::parse(&collector);
    let root = Item::root(&node, &collector).table()?;
    let name = root.text("name").filter(|_| root.has("network") || root.has("jobs"))?;
    let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    // A sentence ends where the next one begins: "k = 4. Flows", and not "0.2 %".
    let comment = comment.join(" ");
    let sentence = comment.split_once(". ").map_or(comment.as_str(), |(first, _)| first).trim_end_matches('.');
    Some(Listed { file: file.display().to_string(), name: name.to_owned(), about: sentence.to_owned() })
}

fn text(scenarios: &[Listed]) -> String {
    let mut out = String::new();
    if scenarios.is_empty() {
        out += &format!("no scenarios here; looked in {}\n", PLACES.join(", "));
    } else {
        let mut table = Table::new(["SCENARIO", "FILE", "ABOUT"]);
        for one in scenarios {
            table.row(vec![one.name.clone(), one.file.clone(), one.about.clone()]);
        }
        out += &table.render(output::width());
    }
    let mut table = Table::new(["SCHEDULER", "ABOUT"]);
    for (name, about) in SCHEDULERS {
        table.row(vec![name.into(), about.into()]);
    }
    out + "\n" + &table.render(output::width())
}

#[cfg(test)]
mod tests {
    use sluice_scenario::scheduler::NAMES;

    use super::*;

    #[test]
    fn every_scheduler_is_told() {
        let told: Vec<&str> = SCHEDULERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(told, NAMES);
    }

    #[test]
    fn shipped_scenarios_say_what_they_are() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/scenarios");
        let all = scenarios(&dir).expect("a directory");
        let files = fs::read_dir(&dir).expect("a directory").flatten();
        let files = files.filter(|entry| entry.path().extension().is_some_and(|e| e == "toml")).count();
        assert_eq!(all.len(), files);
        for one in &all {
            assert!(!one.about.is_empty() && !one.name.is_empty(), "{one:?}");
        }
        assert!(scenarios(Path::new("/nonexistent")).is_err());
    }
}
