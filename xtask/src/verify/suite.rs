//! The suites of a run, in order, and how each is run.

use std::fs;

use crate::count::Counts;
use crate::kernels::SKIPPED;
use crate::record::step;
use crate::shell::{Step, Stream, target_dir};
use crate::supply;

/// What came of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) figure: String,
    pub(super) pass: bool,
    /// Tests that could not run here.
    pub(super) skipped: usize,
}

impl Outcome {
    /// What programs printed last, or why one of them failed.
    pub(super) fn of(said: Result<String, String>) -> Outcome {
        match said {
            Ok(said) => Outcome { figure: figure(&said), pass: true, skipped: skips(&said) },
            Err(why) => Outcome::failed(last(&why)),
        }
    }

    pub(super) fn failed(why: String) -> Outcome {
        Outcome { figure: why, pass: false, skipped: 0 }
    }

    /// Of a run that lacks a tool: it has shown nothing, and is counted as not run.
    pub(super) fn skipped(why: &str) -> Outcome {
        Outcome { figure: format!("skipped: {why}"), pass: false, skipped: 1 }
    }
}

/// Letters of a figure at most; the log has the rest.
const FIGURE: usize = 240;

/// Builds the load generator, which row L1 starts; it is an example, and no program that other runs build.
pub(super) const LOAD: &str = "cargo build --release --locked -p sluice-switch --example load";

/// A suite of the run.
#[derive(Debug)]
pub(super) struct Suite {
    /// As docs/verification.md names it.
    pub(super) name: &'static str,
    pub(super) bar: &'static str,
    /// What its draws begin from, where it has draws of its own.
    pub(super) seed: Option<&'static str>,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// Every program and every test.
    Build,
    /// What needs no run: form, lints, documentation, dependencies.
    Static,
    /// Tests that a filter of nextest takes.
    Tests(&'static str),
    /// These programs, one after the other; the figure is the last line that the last one prints.
    Programs(&'static [&'static str]),
    /// All that no filter of the others takes.
    OtherTests,
}

/// Cheap and deterministic first.
pub(super) const SUITES: [Suite; 12] = [
    Suite { name: "build", bar: "0 warnings", seed: None, work: Work::Build },
    Suite { name: "T-X static", bar: "0 findings", seed: None, work: Work::Static },
    Suite { name: "T-U, T-P unit and property tests", bar: "0 fail", seed: None, work: Work::OtherTests },
    Suite {
        name: "T-S simulation",
        bar: "0 seeds fail, every mutant caught",
        seed: Some("0 and on, 1000000 and on"),
        work: Work::Tests("package(sluice-faults)"),
    },
    Suite {
        name: "T-F corpora and mutations",
        bar: "0 fail",
        seed: None,
        work: Work::Tests("package(sluice-fuzz-targets)"),
    },
    Suite { name: "T-M memory orders", bar: "0 violations", seed: None, work: Work::Tests("binary(memory)") },
    Suite {
        name: "T-V verifier",
        bar: "0 fail",
        seed: None,
        work: Work::Tests("package(sluice-ebpf) & test(/verifier/)"),
    },
    Suite {
        name: "T-C chaos",
        bar: "every core row holds",
        seed: Some("1"),
        work: Work::Programs(&["sluice-experiment chaos --core"]),
    },
    Suite {
        name: "T-A adversary",
        bar: "0 attacks get through",
        seed: None,
        work: Work::Tests("test(/adversary/) | binary(adversary)"),
    },
    Suite { name: "T-R exhaustion", bar: "no order late", seed: None, work: Work::Tests("test(/^exhaustion::/)") },
    Suite {
        name: "T-L load",
        bar: "every row holds",
        seed: None,
        work: Work::Programs(&[LOAD, "sluice-experiment chaos L1 L2 L3 L4 --minutes 1"]),
    },
    Suite {
        name: "T-B benefit",
        bar: "no job slower than promised, nor a stranger's",
        seed: None,
        work: Work::Programs(&["sluice-experiment chaos B1 B2"]),
    },
];

impl Suite {
    pub(super) fn run(&self) -> Outcome {
        match self.work {
            Work::Build => build(),
            Work::Static => findings(),
            Work::Tests(filter) => tests(filter),
            Work::Programs(commands) => Outcome::of(programs(commands)),
            Work::OtherTests => tests(&others()),
        }
    }
}

/// Runs commands as records have them, and gives back what the last one printed.
pub(super) fn programs(commands: &[&str]) -> Result<String, String> {
    commands.iter().try_fold(String::new(), |_, command| step(command)?.read())
}

/// How many kernels a program has said that it did not try.
fn skips(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with(SKIPPED)).count()
}

/// How many rows of chaos hold, where it says a line of JSON for each; the verdict of a document that has one; else its
/// last line.
fn figure(said: &str) -> String {
    let row = |line: &str| line.starts_with("{\"suite\":\"chaos\",").then(|| line.contains("\"pass\":true"));
    let rows: Vec<bool> = said.lines().filter_map(row).collect();
    if rows.is_empty() {
        return verdict(said).unwrap_or_else(|| last(said));
    }
    format!("{} of {} rows hold", rows.iter().filter(|holds| **holds).count(), rows.len())
}

/// What a document of JSON, on the last line that says something, says of itself.
fn verdict(said: &str) -> Option<String> {
    let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let (_, rest) = line.strip_prefix('{')?.split_once("\"verdict\":\"")?;
    let (verdict, _) = rest.split_once('"')?;
    Some(last(verdict))
}

/// The last line that says something, not too long for a table.
fn last(said: &str) -> String {
    let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    line.chars().take(FIGURE).collect()
}

/// What no other suite runs.
fn others() -> String {
    let filters = SUITES.iter().filter_map(|suite| match suite.work {
        Work::Tests(filter) => Some(format!("({filter})")),
        _ => None,
    });
    format!("not ({})", filters.collect::<Vec<_>>().join(" | "))
}

/// Programs and tests; every line that a compiler warns by counts.
fn build() -> Outcome {
    let release = ["sluice", "sluiced", "sluice-switch", "sluice-testbed"].iter().flat_map(|name| ["-p", *name]);
    let steps = [
        Step::cargo(&["nextest", "run", "--workspace", "--locked", "--no-run"]),
        Step::cargo(&["build", "--release", "--locked", "--bins"]).args(release),
    ];
    let mut warnings = 0;
    for step in steps {
        let heard = |line: &str| warnings += usize::from(line.starts_with("warning") && !line.contains(" generated "));
        if let Err(why) = step.through(Stream::Err, heard) {
            return Outcome::failed(why);
        }
    }
    Outcome { figure: format!("{warnings} warnings"), pass: warnings == 0, skipped: 0 }
}

/// Each check that fails is a finding; all are run.
fn findings() -> Outcome {
    let steps = [
        Step::cargo(&["fmt", "--all", "--check"]),
        Step::cargo(&["clippy", "--workspace", "--locked", "--all-targets", "--", "-D", "warnings"]),
        Step::cargo(&["doc", "--workspace", "--locked", "--no-deps"]).with("RUSTDOCFLAGS", "-D warnings"),
    ];
    let mut found: Vec<String> = steps.iter().filter_map(|step| step.run().err()).collect();
    found.extend(supply::check().err());
    let skipped = usize::from(!supply::has_deny());
    let without = if skipped > 0 { ", without cargo-deny" } else { "" };
    let figure = match found.as_slice() {
        [] => format!("0 findings{without}"),
        some => format!("{} findings{without}: {}", some.len(), some.join("; ")),
    };
    Outcome { figure, pass: found.is_empty(), skipped }
}

/// Runs what the filter takes. A filter that takes nothing fails: what does not exist shows nothing.
pub(super) fn tests(filter: &str) -> Outcome {
    let noted = target_dir().join("verify/skips.txt");
    let made = noted.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&noted, ""));
    if let Err(error) = made {
        return Outcome::failed(format!("writing {}: {error}", noted.display()));
    }
    let mut counts = Counts::default();
    let step = Step::cargo(&["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "-E", filter]);
    let ran = step.with("SLUICE_SKIPS", &noted.to_string_lossy()).through(Stream::Err, |line| counts.line(line));
    counts.skips(&fs::read_to_string(&noted).unwrap_or_default());
    outcome(&counts, ran.is_ok())
}

/// A run in which nothing passed shows nothing, however well it ended: every test of it was skipped, or none was there.
fn outcome(counts: &Counts, ended_well: bool) -> Outcome {
    Outcome { figure: counts.ran(), pass: ended_well && counts.passed() > 0, skipped: counts.skipped() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_last_line_that_says_something() {
        assert_eq!(last("a\n  0 of 9 seeds fail \n\n"), "0 of 9 seeds fail");
        assert_eq!(last(""), "it said nothing");
        assert_eq!(last(&"x".repeat(999)).len(), FIGURE);
        let row = |pass: bool| {
            format!("{{\"suite\":\"chaos\",\"row\":\"C1\",\"verdict\":\"x\",\"pass\":{pass},\"figures\":[]}}\n")
        };
        assert_eq!(figure(&(row(true) + &row(false) + "files: /x\n")), "1 of 2 rows hold");
        assert_eq!(figure("a\nb\n"), "b");
        let document = "{\"beside\":[{\"ratio\":1.0}],\"pass\":true,\"verdict\":\"others have 99 %\"}\n";
        assert_eq!(figure(document), "others have 99 %");
        assert_eq!(figure("{\"hours\":4.0}\n"), "{\"hours\":4.0}");
    }

    #[test]
    fn kernels_that_were_not_tried_are_skips_and_no_pass_where_those_are_none() {
        let line = format!("{SKIPPED}6.1: the archive does not answer\n");
        let said = format!("{line}{line}kernels: 1 tried, 2 skipped, 0 faults\n");
        let outcome = Outcome::of(Ok(said));
        let figure = "kernels: 1 tried, 2 skipped, 0 faults".to_owned();
        assert_eq!(outcome, Outcome { figure, pass: true, skipped: 2 });
    }

    #[test]
    fn a_suite_of_which_nothing_ran_has_not_passed() {
        let mut counts = Counts::default();
        assert!(!outcome(&counts, true).pass, "no test at all");
        counts.line("     Summary [   0.1s] 2 tests run: 2 passed, 0 skipped");
        assert!(outcome(&counts, true).pass && !outcome(&counts, false).pass);
        counts.skips("p a\tnot root\np b\tnot root\n");
        let all_skipped = outcome(&counts, true);
        assert_eq!((all_skipped.pass, all_skipped.skipped), (false, 2));
    }

    #[test]
    fn a_test_is_run_by_one_suite() {
        let others = others();
        assert!(others.starts_with("not ((") && others.ends_with("))"), "{others}");
        for suite in &SUITES {
            if let Work::Tests(filter) = suite.work {
                assert!(others.contains(filter), "{}", suite.name);
            }
        }
        assert_eq!(SUITES.iter().filter(|suite| matches!(suite.work, Work::OtherTests)).count(), 1);
    }
}
