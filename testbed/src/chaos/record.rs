//! Notes outcomes in `benchmarks/chaos.tsv`, a line a row in the columns of every record there, and writes the table of
//! docs/chaos.md anew from it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Figure, Outcome, Verdict};
use super::rows::{ROWS, Row};
use crate::run::{RunError, write};

/// First line of every record.
const COLUMNS: &str = "figure\tbar\tvalue\tspread\tcommand\tsource\tdate\tcommit";
/// Around the table in the page.
const BEGIN: &str = "<!-- rows -->\n";
const END: &str = "<!-- end -->\n";
const HEAD: &str = "| row | what is injected | figure | bar | last result |\n| --- | --- | --- | --- | --- |\n";
/// Figures that a line tells of; all that are beyond their bars are among them.
const TOLD: usize = 6;

/// What stands in a line is one line's.
fn cell(text: &str) -> String {
    text.replace(['\t', '\n'], " ").trim().to_owned()
}

/// Runs a program and takes the first line that it prints.
fn asked(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().map(str::to_owned))?
}

/// How near a figure is to its bar: beyond 1 it is beyond it.
fn nearness(figure: &Figure) -> f64 {
    use super::figure::Bar;
    match figure.bar {
        Bar::AtMost(bar) if bar > 0.0 => figure.seen / bar,
        Bar::AtLeast(bar) if figure.seen > 0.0 => bar / figure.seen,
        _ if figure.passes(0.0) => 0.0,
        _ => f64::INFINITY,
    }
}

/// The line of one outcome.
fn line(row: &Row, outcome: &Outcome, date: &str, commit: &str) -> String {
    let beyond = outcome.figures.iter().filter(|figure| !figure.passes(outcome.widened_ms)).count();
    let all = outcome.figures.len();
    let value = match (beyond, outcome.leaks.len()) {
        (0, 0) => format!("all {all} figures within"),
        (beyond, 0) => format!("**{beyond} of {all} figures beyond**"),
        (beyond, leaks) => format!("**{beyond} of {all} figures beyond, {leaks} things left behind**"),
    };
    let mut nearest: Vec<&Figure> = outcome.figures.iter().collect();
    nearest.sort_by(|a, b| nearness(b).total_cmp(&nearness(a)));
    let told = nearest.iter().take(TOLD.max(beyond));
    let told = told.map(|figure| format!("{} {} ({})", cell(&figure.what), figure.seen_text(), figure.bar_text()));
    let run = if outcome.tries > 1 { format!("run {}", outcome.tries) } else { "one run".to_owned() };
    let busy = format!("{run}, load {:.1}, timers late by {:.1} ms (p99)", outcome.load, outcome.lateness_p99_ms);
    let widened = if outcome.widened_ms > 0.0 { ", bars in ms wider by that" } else { "" };
    [
        format!("{}: {}", row.id, cell(row.figure)),
        cell(row.bar),
        value,
        format!("nearest to their bars: {}; {busy}{widened}", told.collect::<Vec<_>>().join("; ")),
        format!("sluice-experiment chaos {}", row.id),
        "hand".to_owned(),
        date.to_owned(),
        commit.to_owned(),
    ]
    .join("\t")
}

/// Puts the row's line into the file, which is made if it is missing, and the table into docs/chaos.md beside the file's
/// directory, if that is there. A row that broke or was not run changes nothing.
///
/// # Errors
/// A file cannot be read or written, or neither `date` nor `git` is there.
pub fn note(file: &Path, row: &Row, outcome: &Outcome) -> Result<(), RunError> {
    if !matches!(outcome.verdict, Verdict::Passed | Verdict::Failed) {
        return Ok(());
    }
    let missing = |what: &str| RunError::Plan(format!("{what} is not known, so nothing can be recorded"));
    let date = asked("date", &["-u", "+%Y-%m-%d"]).ok_or_else(|| missing("today's date"))?;
    let commit = asked("git", &["rev-parse", "--short=7", "HEAD"]).ok_or_else(|| missing("the commit"))?;
    let dirty = asked("git", &["status", "--porcelain"]).is_some();
    let commit = format!("{commit}{}", if dirty { "+" } else { "" });
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(RunError::io(format!("reading {}", file.display()))(error)),
    };
    let text = merged(&text, row.id, &line(row, outcome, &date, &commit));
    write(file, &text)?;
    let page = file.canonicalize().ok().and_then(|file| Some(file.parent()?.parent()?.join("docs/chaos.md")));
    let Some((page, before)) = page.and_then(read) else { return Ok(()) };
    with_table(&before, &text).map_or(Ok(()), |after| write(&page, after))
}

fn read(page: PathBuf) -> Option<(PathBuf, String)> {
    let text = std::fs::read_to_string(&page).ok()?;
    Some((page, text))
}

/// Whose line this is.
fn of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
}

/// The record with a row's line replaced, in the order of the rows.
fn merged(text: &str, id: &str, fresh: &str) -> String {
    let mut all: Vec<&str> = text.lines().skip(1).filter(|line| of(line) != id).collect();
    all.push(fresh);
    all.sort_by_key(|line| ROWS.iter().position(|row| row.id == of(line)).unwrap_or(usize::MAX));
    std::iter::once(COLUMNS).chain(all).map(|line| format!("{line}\n")).collect()
}

/// The page with its table as rows and record have it; `None`: it has no place for one.
fn with_table(page: &str, record: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let last = |id: &str| {
        let line = record.lines().find(|line| of(line) == id)?;
        let cells: Vec<&str> = line.split('\t').collect();
        Some(format!("{}, {}, {}", cells.get(2)?, cells.get(6)?, cells.get(7)?))
    };
    let row = |row: &Row| {
        let Row { id, core, injected, figure, bar, .. } = row;
        let last = last(id).unwrap_or_else(|| "not recorded yet".into());
        format!("| {id}{} | {injected} | {figure} | {bar} | {last} |\n", if *core { "*" } else { "" })
    };
    let rows: String = ROWS.iter().map(row).collect();
    Some(format!("{before}{BEGIN}{HEAD}{rows}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::figure::Unit;
    use super::*;

    #[test]
    fn a_rows_line_is_replaced_and_others_stay_in_order() {
        let first = merged("", "C2", "C2: b\tx");
        assert_eq!(first, format!("{COLUMNS}\nC2: b\tx\n"));
        let both = merged(&first, "C1", "C1: a\ty");
        assert_eq!(both, format!("{COLUMNS}\nC1: a\ty\nC2: b\tx\n"));
        let again = merged(&both, "C1", "C1: a\tnew");
        assert_eq!(again, format!("{COLUMNS}\nC1: a\tnew\nC2: b\tx\n"));
        // C1 is not C10.
        assert!(merged(&again, "C10", "C10: c\tq").contains("C1: a\tnew"));
    }

    #[test]
    fn a_line_has_every_column_and_names_what_is_beyond() {
        let figures = vec![
            Figure::at_most("quick", 10.0, Unit::Ms, 100.0),
            Figure::at_most("slow", 300.0, Unit::Ms, 100.0),
            Figure::shown("seen", 1.0, Unit::Count),
        ];
        let outcome = Outcome {
            suite: "chaos",
            row: "C1",
            verdict: Verdict::Failed,
            pass: false,
            figures,
            leaks: Vec::new(),
            why: String::new(),
            seconds: 1.0,
            tries: 1,
            seed: 1,
            lateness_p99_ms: 3.0,
            widened_ms: 0.0,
            load: 2.0,
        };
        let text = line(&ROWS[0], &outcome, "2026-11-26", "0123abc+");
        let cells: Vec<&str> = text.split('\t').collect();
        assert_eq!(cells.len(), COLUMNS.split('\t').count());
        assert_eq!(cells[2], "**1 of 3 figures beyond**");
        assert!(cells[3].starts_with("nearest to their bars: slow 300 ms (≤ 100 ms); quick"), "{}", cells[3]);
    }

    #[test]
    fn the_page_has_the_rows_and_the_record() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let record = std::fs::read_to_string(root.join("benchmarks/chaos.tsv")).unwrap_or_default();
        let (page, before) = read(root.join("docs/chaos.md")).expect("docs/chaos.md");
        let after = with_table(&before, &record).expect("a place for the table");
        if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
            std::fs::write(&page, &after).expect("written");
            return;
        }
        assert!(
            before == after,
            "docs/chaos.md is not what rows and record say; SLUICE_UPDATE_EXPECTED=1 writes it anew"
        );
    }
}
