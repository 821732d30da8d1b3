//! `cargo xtask bench --record AREA`: runs the commands of an area, reads its figures, writes record and table.

use crate::demo::build_release;
use crate::quantity::Quantity;
use crate::records::{self, Row, Source, write_tables};
use crate::setup;
use crate::shell::{Step, output, target_dir};
use std::fs;
use std::time::SystemTime;

/// Runs every command of the area `repeats` times. What is recorded by hand stays as it is, and is named.
pub(crate) fn record(area: &str, repeats: usize) -> Result<(), String> {
    let mut records = records::load()?;
    let areas: Vec<String> = records.iter().map(|r| r.area.clone()).collect();
    let record = records.iter_mut().find(|r| r.area == area);
    let record = record.ok_or_else(|| format!("no area {area:?}; there are {}", areas.join(", ")))?;
    let (by_hand, read): (Vec<&mut Row>, Vec<&mut Row>) =
        record.rows.iter_mut().partition(|row| row.source() == Ok(Source::Hand));
    if read.is_empty() {
        return Err(format!(
            "every figure of {area} is recorded by hand: run its commands, write what they print into benchmarks/{area}.tsv, then `cargo xtask bench --tables`"
        ));
    }
    setup::ensure()?;
    let stamp = Stamp::now()?;
    let mut seen: Vec<Vec<Quantity>> = vec![Vec::new(); read.len()];
    let mut done: Vec<&str> = Vec::new();
    for row in &read {
        if done.contains(&row.command.as_str()) {
            continue;
        }
        done.push(&row.command);
        let step = step(&row.command)?;
        for _ in 0..repeats {
            let begin = SystemTime::now();
            let said = step.read()?;
            for (other, seen) in read.iter().zip(&mut seen).filter(|(other, _)| other.command == row.command) {
                seen.push(figure(other, &said, begin).map_err(|why| format!("{}: {why}", other.figure))?);
            }
        }
    }
    let load = load()?;
    for (row, seen) in read.into_iter().zip(seen) {
        let (value, spread) = Quantity::summary(seen)?;
        let missed = value.misses(&row.bar);
        row.value = if missed { format!("**{value}**") } else { value.to_string() };
        row.spread = format!("{spread}, load {load}");
        row.date.clone_from(&stamp.date);
        row.commit.clone_from(&stamp.commit);
    }
    for row in by_hand {
        eprintln!("xtask: by hand: {}: `{}`", row.figure, row.command);
    }
    record.save()?;
    write_tables(&records)
}

/// When and of what.
pub(crate) struct Stamp {
    pub(crate) date: String,
    pub(crate) commit: String,
}

impl Stamp {
    pub(crate) fn now() -> Result<Stamp, String> {
        let date = output("date", &["-u", "+%F"])?;
        let commit = output("git", &["rev-parse", "--short=7", "HEAD"])?;
        let commit = commit.get(..7).ok_or_else(|| format!("git calls the commit {commit:?}"))?;
        let changed = output("git", &["status", "--porcelain", "-uno", "--", ".", ":!benchmarks", ":!*.md"])?;
        Ok(Stamp { date, commit: format!("{commit}{}", if changed.is_empty() { "" } else { "+" }) })
    }
}

/// How many programs wanted a processor in the last minute, which says how far to trust a time.
fn load() -> Result<String, String> {
    let path = "/proc/loadavg";
    let text = fs::read_to_string(path).map_err(|e| format!("reading {path}: {e}"))?;
    text.split_whitespace().next().map(str::to_owned).ok_or_else(|| format!("{path} is empty"))
}

/// A command of a record. `sluice` and `sluice-experiment` are those of the release build, with root where they need it.
pub(crate) fn step(command: &str) -> Result<Step, String> {
    if command.contains(['\'', '"', '|', '&', ';', '$', '<', '>', '…']) {
        return Err(format!("`{command}` needs a shell, or is shortened; its figures must be recorded by hand"));
    }
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", args @ ..] => Ok(Step::cargo(args)),
        [program @ ("sluice" | "sluice-experiment"), args @ ..] => {
            build_release()?;
            let step = Step::new(&target_dir().join("release").join(program).to_string_lossy(), args);
            let root = *program == "sluice-experiment" || args.first() == Some(&"testbed");
            Ok(if root { step.with_root() } else { step })
        }
        _ => Err(format!("`{command}`: allowed: cargo, sluice, sluice-experiment")),
    }
}

/// One figure from what a command said, or from what criterion wrote since `begin`.
fn figure(row: &Row, said: &str, begin: SystemTime) -> Result<Quantity, String> {
    match &row.source()? {
        Source::Hand => Err("is recorded by hand".to_owned()),
        Source::Printed { line, label, unit } => printed(said, line, label).map(|found| found.or_in(unit)),
        Source::Criterion(dir) => {
            let path = target_dir().join("criterion").join(dir).join("new").join("estimates.json");
            let unreadable = |e| format!("reading {}: {e}", path.display());
            let written = fs::metadata(&path).and_then(|m| m.modified()).map_err(unreadable)?;
            if written < begin {
                return Err(format!("{} is of an earlier run: no benchmark of that name ran", path.display()));
            }
            let text = fs::read_to_string(&path).map_err(unreadable)?;
            median(&text).ok_or_else(|| format!("{} has no median", path.display()))
        }
    }
}

/// The first number behind `label` in the last line that begins with `line`.
fn printed(said: &str, line: &str, label: &str) -> Result<Quantity, String> {
    let found = said.lines().rev().find_map(|l| l.trim_start().strip_prefix(line));
    let found = found.ok_or_else(|| format!("nothing printed begins with {line:?}"))?;
    let (_, rest) = found.split_once(label).ok_or_else(|| format!("no {label:?} behind {line:?}"))?;
    Quantity::first(rest).ok_or_else(|| format!("no number behind {line:?} … {label:?}"))
}

/// The median of criterion's estimates.json, which are nanoseconds.
fn median(estimates: &str) -> Option<Quantity> {
    let (_, median) = estimates.split_once("\"median\"")?;
    let (_, point) = median.split_once("\"point_estimate\":")?;
    let end = point.find([',', '}'])?;
    let nanos: f64 = point.get(..end)?.trim().parse().ok()?;
    Some(Quantity::seconds(nanos * 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_what_is_printed() {
        let said = "single, A: p50 9.9 µs, p99 20 µs\n  single, A: p50 10.5 µs, p99 25.2 µs\nA100 x 128: optimum in 102.34ms\n";
        let read = |line, label| printed(said, line, label).map(|q| q.to_string());
        assert_eq!(read("single, A", "p99"), Ok("25.2 µs".into()));
        assert_eq!(read("A100 x 128", ""), Ok("102.3 ms".into()));
        let json = printed(r#"{"exchange_ms":{"p90":0.26}}"#, "{", "\"p90\":").map(|q| q.or_in("ms").to_string());
        assert_eq!(json, Ok("260 µs".into()));
        assert!(read("single, B", "p99").is_err());
        assert!(read("single, A", "p98").is_err());
        assert!(read("single, A", "25.2 µs").is_err());
    }

    #[test]
    fn criterions_median_is_read_and_not_its_mean() {
        let text = r#"{"mean":{"point_estimate":7.0},"median":{"confidence_interval":{"lower_bound":1.0},"point_estimate":1234.6,"standard_error":2.0}}"#;
        assert_eq!(median(text).map(|q| q.to_string()), Some("1.235 µs".into()));
        assert_eq!(median(r#"{"median":{}}"#).map(|q| q.to_string()), None);
    }

    #[test]
    fn a_command_that_is_none_of_ours_is_not_run() {
        for command in ["rm -r target", "cargo bench && true", "cargo bench …", ""] {
            assert!(step(command).is_err(), "{command}");
        }
    }
}
