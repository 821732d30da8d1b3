//! What came of the suites, as one page for a browser.

use std::fmt::Write as _;
use std::fs;

use super::line::{Line, escaped};
use crate::shell::{output, target_dir};

const HEAD: &str =
    "<tr><th>suite<th>seen<th>must be<th>verdict<th>skipped<th>seconds<th>seed<th>timers late, p99 ms<th>load</tr>\n";
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em;max-width:90em}table{border-collapse:collapse}\
th,td{border-bottom:1px solid #8886;padding:.3em .7em;text-align:left;vertical-align:top}\
tr.FAIL{background:#d332}:root{color-scheme:light dark}";

/// Writes target/verify/report.html; `kind` says in its title what ran.
pub(super) fn write(kind: &str, lines: &[Line]) -> Result<(), String> {
    let path = target_dir().join("verify/report.html");
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, page(kind, lines)));
    made.map_err(|e| format!("writing {}: {e}", path.display()))
}

fn page(kind: &str, lines: &[Line]) -> String {
    let say = |program: &str, args: &[&str]| escaped(&output(program, args).unwrap_or_else(|_| "unknown".to_owned()));
    let (date, commit) = (say("date", &["-u", "+%F %R UTC"]), say("git", &["rev-parse", "--short=7", "HEAD"]));
    let machine = say("uname", &["-srm"]);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Sluice verified: {kind}</title>\n<style>{STYLE}</style>\n\
         <h1>Sluice verified: {kind}</h1>\n<p>{date}, commit {commit}, {machine}. A skip is no pass. Bars of time were judged \
         beside timers as late as the table says.</p>\n<table>\n{HEAD}"
    );
    for line in lines {
        // Writing into a string cannot fail.
        let _ = write!(out, "{}", line.row());
    }
    let failed = lines.iter().filter(|line| !line.pass).count();
    let _ = writeln!(out, "</table>\n<p>{} ran, {failed} failed.</p>", lines.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_row_and_failures_are_counted() {
        let line = |name: &str, pass| Line { name: name.into(), pass, ..Line::default() };
        let page = page("suites", &[line("T-S", true), line("T-C", false)]);
        assert!(page.contains("<td>T-S</td>") && page.contains("class=\"FAIL\""), "{page}");
        assert!(page.contains("2 ran, 1 failed") && !page.contains("http"), "{page}");
    }
}
