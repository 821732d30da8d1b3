//! `benchmarks/kernels.tsv`, a line for each kernel and feature, and the table of docs/kernels.md that it becomes.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use super::judge::{Row, Seen};
use crate::shell::root;

/// The file's name without its ending: no area of BENCHMARKS.md, since it has columns of its own.
pub(crate) const AREA: &str = "kernels";
const COLUMNS: &str = "kernel\tby\tfeature\tvalue\tdate\tcommit";
const PAGE: &str = "docs/kernels.md";
const BEGIN: &str = "<!-- table of benchmarks/kernels.tsv -->";
const END: &str = "<!-- end -->";

/// What was seen of one kernel, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    seen: Seen,
    date: String,
    commit: String,
}

fn file() -> PathBuf {
    root().join("benchmarks").join(format!("{AREA}.tsv"))
}

/// Keeps these results in place of earlier ones of the same kernels, and writes the table anew.
pub(super) fn record(seen: &[Seen], date: &str, commit: &str) -> Result<(), String> {
    let path = file();
    let text = fs::read_to_string(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    let mut columns = read(&text)?;
    for seen in seen {
        columns.retain(|column| column.seen.kernel != seen.kernel);
        // How the kernel calls itself is the column's name.
        let rows = seen.rows.iter().filter(|row| row.feature != "release").cloned().collect();
        let seen = Seen { rows, ..seen.clone() };
        columns.push(Column { seen, date: date.to_owned(), commit: commit.to_owned() });
    }
    columns.sort_by_key(|column| numbers(&column.seen.kernel));
    fs::write(&path, text_of(&columns)).map_err(|e| format!("writing {}: {e}", path.display()))?;
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    let page = with_table(&page, &columns)?;
    fs::write(&path, page).map_err(|e| format!("writing {}: {e}", path.display()))
}

/// Every number of a release, for the order of columns.
fn numbers(release: &str) -> Vec<u32> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn read(text: &str) -> Result<Vec<Column>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(COLUMNS) {
        return Err(format!("benchmarks/{AREA}.tsv:1: the first line must be {COLUMNS:?}"));
    }
    let mut columns: Vec<Column> = Vec::new();
    for (number, line) in lines.enumerate() {
        let cells: Vec<&str> = line.split('\t').collect();
        let &[kernel, by, feature, value, date, commit] = cells.as_slice() else {
            let place = format!("benchmarks/{AREA}.tsv:{}", number + 2);
            return Err(format!("{place}: {} columns; allowed: 6, with tabs between", cells.len()));
        };
        let row = Row { feature: feature.to_owned(), value: value.to_owned() };
        match columns.last_mut().filter(|column| column.seen.kernel == kernel) {
            Some(column) => column.seen.rows.push(row),
            None => {
                let [kernel, by, date, commit] = [kernel, by, date, commit].map(str::to_owned);
                columns.push(Column { seen: Seen { kernel, by, rows: vec![row] }, date, commit });
            }
        }
    }
    Ok(columns)
}

fn text_of(columns: &[Column]) -> String {
    let mut out = format!("{COLUMNS}\n");
    for Column { seen, date, commit } in columns {
        for Row { feature, value } in &seen.rows {
            // Writing into a string cannot fail.
            let _ = writeln!(out, "{}\t{}\t{feature}\t{value}\t{date}\t{commit}", seen.kernel, seen.by);
        }
    }
    out
}

/// Features in the order in which the first kernel that has them told them; those of the machine alone are left away.
fn features(columns: &[Column]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for row in columns.iter().flat_map(|column| &column.seen.rows) {
        if !all.contains(&row.feature.as_str()) && !row.feature.starts_with("machine: ") {
            all.push(&row.feature);
        }
    }
    all
}

fn table(columns: &[Column]) -> String {
    if columns.is_empty() {
        return "No kernel has been tried yet.\n".to_owned();
    }
    let cells = |first: &str, of: &dyn Fn(&Column) -> String| {
        let cells = columns.iter().map(of).map(|cell| cell.replace('|', "\\|"));
        format!("| {first} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut out = cells("feature", &|column| column.seen.kernel.clone());
    out += &cells("---", &|_| "---".to_owned());
    out += &cells("run by; when", &|column| format!("{}; {}, {}", column.seen.by, column.date, column.commit));
    for feature in features(columns) {
        out += &cells(feature, &|column| {
            let value = column.seen.rows.iter().find(|row| row.feature == feature).map(|row| row.value.as_str());
            value.unwrap_or_default().to_owned()
        });
    }
    out
}

/// The page with the table between its marks.
fn with_table(page: &str, columns: &[Column]) -> Result<String, String> {
    let parts = page.split_once(&format!("{BEGIN}\n")).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or_else(|| format!("{PAGE} has no place between {BEGIN:?} and {END:?}"))?;
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", table(columns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kernel: &str, by: &str, rows: &[(&str, &str)]) -> Column {
        let row = |(feature, value): &(&str, &str)| Row { feature: (*feature).to_owned(), value: (*value).to_owned() };
        let rows = rows.iter().map(row).collect();
        let seen = Seen { kernel: kernel.into(), by: by.into(), rows };
        Column { seen, date: "2026-11-26".into(), commit: "0123abc+".into() }
    }

    #[test]
    fn the_page_is_what_the_record_says() {
        let text = fs::read_to_string(file()).expect("a record");
        let columns = read(&text).expect("a table");
        assert_eq!(text_of(&columns), text);
        let page = fs::read_to_string(root().join(PAGE)).expect("a page");
        assert!(with_table(&page, &columns).expect("a place") == page, "{PAGE}: `cargo xtask kernels` writes it anew");
    }

    #[test]
    fn kernels_stand_beside_each_other() {
        let columns = [
            column("6.1", "translated", &[("machine: up", "yes"), ("a", "x|y"), ("t: ordered 10 Mbit/s", "9 Mbit/s")]),
            column("6.12", "KVM", &[("a", "z"), ("b", "yes"), ("t: ordered 10 Mbit/s", "10 Mbit/s")]),
        ];
        assert_eq!(read(&text_of(&columns)).as_deref(), Ok(&columns[..]));
        let is = "| feature | 6.1 | 6.12 |\n| --- | --- | --- |\n\
                  | run by; when | translated; 2026-11-26, 0123abc+ | KVM; 2026-11-26, 0123abc+ |\n\
                  | a | x\\|y | z |\n| t: ordered 10 Mbit/s | 9 Mbit/s | 10 Mbit/s |\n| b |  | yes |\n";
        assert_eq!(table(&columns), is);
        let page = format!("# K\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(with_table(&page, &columns), Ok(format!("# K\n{BEGIN}\n{is}{END}\nafter\n")));
        assert!(with_table("# K\n", &columns).is_err());
        assert!(read("").is_err() && read(&format!("{COLUMNS}\na\tb")).is_err());
        assert!(numbers("6.1.0-56-cloud-amd64") < numbers("6.12.117+deb12-amd64"));
    }
}
