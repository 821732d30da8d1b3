//! The records behind BENCHMARKS.md, and behind what docs/verification.md says of long runs: `benchmarks/AREA.tsv`, a line per
//! figure, and the table that each becomes.

use crate::shell::root;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// First line of every record.
const COLUMNS: &str = "figure\tbar\tvalue\tspread\tcommand\tsource\tdate\tcommit";
/// First line of every table.
const HEAD: &str = "| figure | bar or anchor | measured | command | when |\n| --- | --- | --- | --- | --- |\n";
/// The value of a figure that nobody has measured yet: its date and commit are those of its row, and of no run.
const NOT_RUN: &str = "not run yet";
/// Areas whose table is not in BENCHMARKS.md but in a page of docs.
const ELSEWHERE: [&str; 1] = ["chaos"];
/// Stands before a table, with the area's name and `-->` after it.
const BEGIN: &str = "<!-- table of benchmarks/";
/// Stands after a table.
const END: &str = "<!-- end -->";
/// The area of long runs, and the page that has its table.
pub(crate) const VERIFY: (&str, &str) = ("verify", crate::promises::PAGE);
/// The page of all other areas.
const BENCHMARKS: &str = "BENCHMARKS.md";

/// Where a figure is read when its area is recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// Nowhere: somebody reads it from what the command prints and writes it into the file.
    Hand,
    /// The median in this directory of `target/criterion`.
    Criterion(String),
    /// The first number behind `label` in the last line of the output that begins with `line`; in this unit if it has none.
    Printed { line: String, label: String, unit: String },
}

impl Source {
    fn read(text: &str) -> Result<Source, String> {
        match text.split_once(' ') {
            None if text == "hand" => Ok(Source::Hand),
            Some(("criterion", dir)) => Ok(Source::Criterion(dir.to_owned())),
            Some(("printed", place)) => {
                let unit = place.strip_suffix(']').and_then(|rest| rest.rsplit_once(" ["));
                let (place, unit) = unit.unwrap_or((place, ""));
                let (line, label) = place.split_once(" … ").unwrap_or((place, ""));
                let [line, label, unit] = [line, label, unit].map(str::to_owned);
                Ok(Source::Printed { line, label, unit })
            }
            _ => Err(format!("no source {text:?}; allowed: hand, criterion DIRECTORY, printed LINE … LABEL [UNIT]")),
        }
    }
}

/// A line of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) figure: String,
    /// What it should be, or what it is compared with; may be empty.
    pub(crate) bar: String,
    /// What was measured, with its unit.
    pub(crate) value: String,
    /// How far single runs lie apart, or what else belongs to the value; may be empty.
    pub(crate) spread: String,
    /// What to type to see it.
    pub(crate) command: String,
    /// How it is read from that, as [`Source::read`] takes it.
    source: String,
    /// The day, as `2026-11-22`.
    pub(crate) date: String,
    /// The commit that brought it; with `+` when files had changes besides.
    pub(crate) commit: String,
}

impl Row {
    fn read(line: &str) -> Result<Row, String> {
        let cells: Vec<&str> = line.split('\t').collect();
        let &[figure, bar, value, spread, command, source, date, commit] = cells.as_slice() else {
            return Err(format!("{} columns; allowed: 8, with tabs between", cells.len()));
        };
        for (name, cell) in [("figure", figure), ("value", value), ("command", command)] {
            if cell.is_empty() {
                return Err(format!("no {name}"));
            }
        }
        let parts = date.split('-').map(str::len).eq([4, 2, 2]);
        if !parts || !date.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return Err(format!("date {date:?}; allowed: as 2026-11-22"));
        }
        let hex = commit.strip_suffix('+').unwrap_or(commit);
        if hex.len() != 7 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("commit {commit:?}; allowed: seven hexadecimal digits, and + for files with changes"));
        }
        Source::read(source)?;
        let [figure, bar, value, spread, command, source, date, commit] =
            [figure, bar, value, spread, command, source, date, commit].map(str::to_owned);
        Ok(Row { figure, bar, value, spread, command, source, date, commit })
    }

    /// A row that is written by a program which knows all of it.
    pub(crate) fn known([figure, bar, value, spread, command]: [String; 5], date: String, commit: String) -> Row {
        Row { figure, bar, value, spread, command, source: "hand".to_owned(), date, commit }
    }

    /// How it is read from what the command prints.
    pub(crate) fn source(&self) -> Result<Source, String> {
        Source::read(&self.source)
    }

    fn text(&self) -> String {
        [&self.figure, &self.bar, &self.value, &self.spread, &self.command, &self.source, &self.date, &self.commit]
            .map(String::as_str)
            .join("\t")
    }
}

/// The figures of one area.
#[derive(Debug)]
pub(crate) struct Record {
    /// The file's name without its ending.
    pub(crate) area: String,
    /// In the order of the table.
    pub(crate) rows: Vec<Row>,
}

impl Record {
    fn read(area: &str, text: &str) -> Result<Record, String> {
        let mut lines = text.lines();
        if lines.next() != Some(COLUMNS) {
            return Err(format!("benchmarks/{area}.tsv:1: the first line must be {COLUMNS:?}"));
        }
        let row = |(n, line)| Row::read(line).map_err(|why: String| format!("benchmarks/{area}.tsv:{}: {why}", n + 2));
        let rows = lines.enumerate().map(row).collect::<Result<Vec<_>, _>>()?;
        Ok(Record { area: area.to_owned(), rows })
    }

    fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.text() + "\n");
        std::iter::once(format!("{COLUMNS}\n")).chain(rows).collect()
    }

    /// Writes `benchmarks/AREA.tsv`.
    pub(crate) fn save(&self) -> Result<(), String> {
        let path = directory().join(format!("{}.tsv", self.area));
        fs::write(&path, self.text()).map_err(|e| format!("writing {}: {e}", path.display()))
    }

    /// As Markdown. A command that stands in the row above is not repeated.
    fn table(&self) -> String {
        let mut out = HEAD.to_owned();
        let mut above = "";
        for row in &self.rows {
            let value =
                if row.spread.is_empty() { row.value.clone() } else { format!("{} ({})", row.value, row.spread) };
            let command = if row.command == above { "the same".to_owned() } else { format!("`{}`", row.command) };
            above = &row.command;
            let when = if row.value == NOT_RUN {
                "still to be run".to_owned()
            } else {
                format!("{}, {}", row.date, row.commit)
            };
            let cells = [row.figure.clone(), row.bar.clone(), value, command, when];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            // Writing into a string cannot fail.
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out
    }
}

fn directory() -> PathBuf {
    root().join("benchmarks")
}

/// All areas, by name.
pub(crate) fn load() -> Result<Vec<Record>, String> {
    let unreadable = |e| format!("reading {}: {e}", directory().display());
    let mut records = Vec::new();
    for entry in fs::read_dir(directory()).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let Some(area) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".tsv")) else {
            continue;
        };
        // Other forms: `cargo xtask fuzz` writes one, and docs/fuzzing.md has its table; `cargo xtask kernels` the other.
        if area == "fuzz" || area == crate::kernels::AREA {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
        records.push(Record::read(area, &text)?);
    }
    records.sort_by(|a, b| a.area.cmp(&b.area));
    Ok(records)
}

/// Writes the tables of both pages anew.
pub(crate) fn write_tables(records: &[Record]) -> Result<(), String> {
    for (name, records) in by_page(records) {
        let path = root().join(name);
        let page = fs::read_to_string(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
        let page = tables(name, &page, &records)?;
        fs::write(&path, page).map_err(|e| format!("writing {}: {e}", path.display()))?;
    }
    Ok(())
}

/// Pages and the areas that each has.
fn by_page(records: &[Record]) -> [(&'static str, Vec<&Record>); 2] {
    let (verify, others) = records.iter().partition(|record| record.area == VERIFY.0);
    [(BENCHMARKS, others), (VERIFY.1, verify)]
}

/// The page with the records' tables between its marks. Every area must have a place in it, and only one.
fn tables(name: &str, page: &str, records: &[&Record]) -> Result<String, String> {
    let mut out = String::new();
    let mut placed: Vec<&str> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(area) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(".tsv -->")) else { continue };
        let record = records.iter().find(|r| r.area == area);
        let record = record.ok_or_else(|| format!("{name} has a table of {area}, which is no area of it"))?;
        if !lines.any(|line| line == END) {
            return Err(format!("{name}: the table of {area} has no {END:?}"));
        }
        placed.push(&record.area);
        out += &record.table();
        out += END;
        out.push('\n');
    }
    placed.sort_unstable();
    let areas: Vec<&str> = records.iter().map(|r| r.area.as_str()).filter(|area| !ELSEWHERE.contains(area)).collect();
    if placed != areas {
        return Err(format!("{name} has tables of {placed:?}; there must be one of each of {areas:?}"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_LINES: usize = 250;

    fn page(name: &str) -> String {
        fs::read_to_string(root().join(name)).expect(name)
    }

    #[test]
    fn the_pages_are_what_the_records_say_and_one_is_short() {
        let records = load().expect("records");
        for (name, records) in by_page(&records) {
            let drifted = "is not what the records say: `cargo xtask bench --tables` writes it anew";
            assert!(tables(name, &page(name), &records).expect("tables") == page(name), "{name} {drifted}");
        }
        let lines = page(BENCHMARKS).lines().count();
        assert!(lines <= MAX_LINES, "BENCHMARKS.md has {lines} lines; at most {MAX_LINES}");
        for record in records {
            let path = directory().join(format!("{}.tsv", record.area));
            assert_eq!(record.text(), fs::read_to_string(path).expect("a record"), "{}", record.area);
        }
    }

    /// Files that a word behind `-p` and one of these options may mean.
    const TARGETS: [(&str, &str); 3] = [("--bench", "benches"), ("--test", "tests"), ("--example", "examples")];

    /// The folder of a package of this workspace.
    fn folder(package: &str) -> Option<PathBuf> {
        let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
        let members = workspace.lines().find_map(|line| line.strip_prefix("members = [")).expect("members in one line");
        let named = format!("name = \"{package}\"");
        let is = |dir: &PathBuf| {
            let text = fs::read_to_string(dir.join("Cargo.toml")).expect("a member");
            text.lines().skip_while(|line| *line != "[package]").nth(1) == Some(named.as_str())
        };
        members.split('"').skip(1).step_by(2).map(|member| root().join(member)).find(is)
    }

    #[test]
    fn every_command_names_what_is_there() {
        for record in load().expect("records") {
            for row in record.rows {
                let words: Vec<&str> = row.command.split_whitespace().collect();
                let place = format!("{}: {}", record.area, row.command);
                let after = |option: &str| words.windows(2).find(|w| w[0] == option).map(|w| w[1]);
                let package =
                    after("-p").map(|name| folder(name).unwrap_or_else(|| panic!("no package {name}: {place}")));
                for (option, dir) in TARGETS {
                    let (Some(name), Some(package)) = (after(option), &package) else { continue };
                    let dir = package.join(dir);
                    let there = dir.join(format!("{name}.rs")).is_file() || dir.join(name).join("main.rs").is_file();
                    assert!(there, "no {option} {name}: {place}");
                }
                for file in words.iter().filter(|word| word.starts_with("testbed/scenarios/")) {
                    assert!(root().join(file).is_file(), "no {file}: {place}");
                }
            }
        }
    }

    const ROW: &str =
        "p99 of a|b\t≤ 50 µs\t25 µs\t24 to 26\tcargo bench\tprinted single, A … p99\t2026-11-22\t0123abc+";

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let other = |source| ROW.replace("printed single, A … p99", source);
        let text = format!("{COLUMNS}\n{ROW}\n{}\n{}\n", other("printed { … \"x\": [ms]"), other("criterion a_b"));
        let record = Record::read("a", &text).expect("a record");
        assert_eq!(record.text(), text);
        let printed = |line: &str, label: &str, unit: &str| {
            let [line, label, unit] = [line, label, unit].map(str::to_owned);
            Source::Printed { line, label, unit }
        };
        assert_eq!(record.rows[0].source(), Ok(printed("single, A", "p99", "")));
        assert_eq!(record.rows[1].source(), Ok(printed("{", "\"x\":", "ms")));
        let last = "| p99 of a\\|b | ≤ 50 µs | 25 µs (24 to 26) | the same | 2026-11-22, 0123abc+ |\n";
        assert!(record.table().ends_with(last), "{}", record.table());
    }

    #[test]
    fn what_was_not_run_has_no_date_of_a_run() {
        let text = format!("{COLUMNS}\n{}\n", ROW.replace("25 µs\t24 to 26", &format!("{NOT_RUN}\t")));
        let table = Record::read("a", &text).expect("a record").table();
        assert!(table.ends_with("| not run yet | `cargo bench` | still to be run |\n"), "{table}");
    }

    #[test]
    fn a_damaged_record_is_refused_with_its_line() {
        for (from, to, why) in [
            ("\t25 µs", "", "7 columns"),
            ("25 µs", "", "no value"),
            ("2026-11-22", "22.11.2026", "date"),
            ("0123abc+", "0123abg", "commit"),
            ("printed single", "guessed", "no source"),
        ] {
            let text = format!("{COLUMNS}\n{ROW}\n{}\n", ROW.replace(from, to));
            let said = Record::read("a", &text).expect_err(to);
            assert!(said.starts_with("benchmarks/a.tsv:3: ") && said.contains(why), "{said}");
        }
        assert!(Record::read("a", ROW).is_err());
    }

    #[test]
    fn every_area_has_one_place_in_the_page() {
        let record = |area: &str| Record { area: area.into(), rows: Vec::new() };
        let [a, b] = &["a", "b"].map(record);
        let tables = |page: &str, records: &[&Record]| tables("P", page, records);
        let page = format!("# A\n{BEGIN}a.tsv -->\nold\n{END}\nafter\n");
        let written = tables(&page, &[a]).expect("tables");
        assert_eq!(written, format!("# A\n{BEGIN}a.tsv -->\n{HEAD}{END}\nafter\n"));
        assert!(tables(&page, &[b]).is_err());
        assert!(tables(&page, &[a, b]).is_err());
        assert!(tables(&format!("{page}{page}"), &[a]).is_err());
        assert!(tables(&page.replace(END, ""), &[a]).is_err());
    }
}
