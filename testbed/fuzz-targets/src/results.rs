//! What long runs have shown: `benchmarks/fuzz.tsv`, a line for each target and driver, written by `cargo xtask fuzz`; and the
//! table that docs/fuzzing.md has of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::targets;

/// First line of the file.
pub const COLUMNS: &str = "target\tdriver\texecutions\tseconds\tedges\tslowest_ms\trss_mib\tfound\tdate\tcommit";
/// Stands before and behind the table in the page.
const BEGIN: &str = "<!-- table of targets, by `cargo xtask fuzz --table` -->\n";
const END: &str = "<!-- end -->\n";

/// One run of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Name of the target.
    pub target: String,
    /// `libfuzzer` or `libfuzzer+asan`.
    pub driver: String,
    /// Inputs that were fed.
    pub executions: u64,
    /// Processor time that they took, in seconds.
    pub seconds: u64,
    /// Inputs that broke the target.
    pub found: u64,
    /// The day.
    pub date: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads the file's text.
///
/// # Errors
/// The line that is none, with its number.
pub fn read(text: &str) -> Result<Vec<Run>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(COLUMNS) {
        return Err(format!("benchmarks/fuzz.tsv:1: the first line must be {COLUMNS:?}"));
    }
    let run = |(at, line): (usize, &str)| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [target, driver, executions, seconds, _edges, _slowest, _rss, found, date, _commit] = fields[..] else {
            return Err(format!("benchmarks/fuzz.tsv:{}: {} fields; allowed are 10", at + 2, fields.len()));
        };
        let number =
            |text: &str| text.parse().map_err(|_| format!("benchmarks/fuzz.tsv:{}: {text:?} is no number", at + 2));
        let (executions, seconds, found) = (number(executions)?, number(seconds)?, number(found)?);
        Ok(Run { target: target.into(), driver: driver.into(), executions, seconds, found, date: date.into() })
    };
    lines.enumerate().map(run).collect()
}

/// The table: every target, its parser and property, and how long its last long run was.
pub fn table(runs: &[Run]) -> String {
    let mut out = String::from(
        "| target | parser | property | last long run: inputs, processor time, date |\n| --- | --- | --- | --- |\n",
    );
    for target in targets::all() {
        let of_target = runs.iter().filter(|run| run.target == target.name);
        let shown: Vec<String> = of_target
            .map(|run| {
                let broken = if run.found > 0 { format!(", {} broke it", run.found) } else { String::new() };
                let driver = if run.driver == "libfuzzer" { "" } else { ", address sanitizer" };
                format!("{} in {} s{broken}, {}{driver}", grouped(run.executions), run.seconds, run.date)
            })
            .collect();
        let shown = if shown.is_empty() { "—".to_owned() } else { shown.join("; ") };
        let _ = writeln!(out, "| {} | {} | {} | {shown} |", target.name, target.parser, target.property); // Text takes everything.
    }
    out
}

/// With commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        let _ = write!(out, "{digit}"); // Text takes everything.
    }
    out
}

/// The page and what it has to be, by the file of runs.
///
/// # Errors
/// One of the two cannot be read, or the page has no place for the table.
pub fn page() -> Result<(PathBuf, String, String), String> {
    let path = repository().join("docs/fuzzing.md");
    let text = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let (page, runs) = (text(&path)?, read(&text(&repository().join("benchmarks/fuzz.tsv"))?)?);
    let (before, rest) = page.split_once(BEGIN).ok_or_else(|| format!("docs/fuzzing.md has no {BEGIN:?}"))?;
    let (_, behind) = rest.split_once(END).ok_or_else(|| format!("docs/fuzzing.md has no {END:?}"))?;
    let made = format!("{before}{BEGIN}{}{END}{behind}", table(&runs));
    Ok((path, page, made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_and_shown_and_what_is_none_is_told() {
        let text = format!("{COLUMNS}\nF01-grpc\tlibfuzzer\t1234567\t60\t900\t3\t80\t0\t2026-11-26\tabc\n");
        let runs = read(&text).expect("a run");
        assert_eq!((runs[0].executions, runs[0].date.as_str()), (1_234_567, "2026-11-26"));
        let table = table(&runs);
        assert!(table.contains("| 1,234,567 in 60 s, 2026-11-26 |"), "{table}");
        assert_eq!(table.lines().count(), 2 + targets::all().count());
        assert!(read("x").is_err_and(|why| why.contains("fuzz.tsv:1")));
        assert!(read(&format!("{COLUMNS}\nF01\n")).is_err_and(|why| why.contains("fuzz.tsv:2")));
        assert_eq!([grouped(0), grouped(999), grouped(1000)], ["0", "999", "1,000"]);
    }
}
