//! What a run of all tests came to, in one line: the runners' own counts, and the skips that tests noted.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of a run. A skipped test returns early, so its runner has counted it as passed; `skips` takes it off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Tests by the reason why they were skipped.
    skipped: BTreeMap<String, usize>,
}

impl Counts {
    /// Adds what a line of a runner's output tells: each test program's result of libtest, or nextest's summary.
    pub(crate) fn line(&mut self, line: &str) {
        let libtest = line.strip_prefix("test result: ").and_then(|result| result.split_once(". "));
        let nextest = line.trim_start().strip_prefix("Summary ").and_then(|summary| summary.split_once(": "));
        let Some((_, told)) = libtest.or(nextest) else { return };
        // A failed test shows the output of processes that it started; those were told to run one test of many.
        if libtest.is_some() && !told.contains(" 0 filtered out") {
            return;
        }
        for part in told.split([',', ';']) {
            let Some((number, what)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match what {
                "failed" | "timed out" | "exec failed" => self.failed += number,
                // What nextest calls skipped was marked to be ignored.
                "ignored" | "skipped" => self.ignored += number,
                // nextest adds in brackets how many were slow.
                _ if what.starts_with("passed") => self.passed += number,
                _ => {}
            }
        }
    }

    /// Adds those of another program.
    pub(crate) fn add(&mut self, other: &Counts) {
        (self.passed, self.failed) = (self.passed + other.passed, self.failed + other.failed);
        self.ignored += other.ignored;
        for (why, tests) in &other.skipped {
            *self.skipped.entry(why.clone()).or_default() += tests;
        }
    }

    /// So many that had failed have passed at another try.
    pub(crate) fn mend(&mut self, tests: usize) {
        self.failed = self.failed.saturating_sub(tests);
        self.passed += tests;
    }

    /// Adds the skips that tests noted: lines of a test, a tab and its reason.
    pub(crate) fn skips(&mut self, noted: &str) {
        let noted: BTreeMap<&str, &str> = noted.lines().filter_map(|line| line.split_once('\t')).collect();
        for why in noted.into_values() {
            self.passed = self.passed.saturating_sub(1);
            *self.skipped.entry(why.to_owned()).or_default() += 1;
        }
    }
}

impl Counts {
    /// Tests that ran and passed.
    pub(crate) fn passed(&self) -> usize {
        self.passed
    }

    /// Tests that could not run.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped.values().sum()
    }

    /// What ran, without what its runner was told to leave out.
    pub(crate) fn ran(&self) -> String {
        let skipped: String = self.skipped.iter().map(|(why, tests)| format!("; skipped {tests}: {why}")).collect();
        format!("{} passed, {} failed{skipped}", self.passed, self.failed)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.skipped();
        write!(f, "{} passed, {} failed, {skipped} skipped", self.passed, self.failed)?;
        for (number, (why, tests)) in self.skipped.iter().enumerate() {
            write!(f, "{}{tests}: {why}", if number == 0 { " (" } else { "; " })?;
        }
        let end = if skipped > 0 { ")" } else { "" };
        write!(f, "{end}, {} not run (long measurements, and processes that tests start)", self.ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts.line(line));
        counts
    }

    #[test]
    fn programs_of_libtest_are_added_up() {
        let counts = of(&[
            "running 12 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.16s",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.16s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.16s",
        ]);
        assert_eq!(counts, Counts { passed: 15, failed: 2, ignored: 1, skipped: BTreeMap::new() });
    }

    #[test]
    fn the_summary_of_nextest_is_read() {
        let counts = of(&[
            "        PASS [   0.010s] sluice-skip tests::releases_have_two_numbers",
            "     Summary [  12.345s] 1520 tests run: 1512 passed (2 slow, 1 flaky), 5 failed, 3 timed out, 18 skipped",
        ]);
        assert_eq!(counts, Counts { passed: 1512, failed: 8, ignored: 18, skipped: BTreeMap::new() });
        assert_eq!(of(&["     Summary [   0.1s] 1 test run: 1 passed, 0 skipped"]).passed, 1);
    }

    #[test]
    fn a_skipped_test_has_not_passed_and_counts_once() {
        let mut counts = Counts { passed: 9, failed: 1, ignored: 2, skipped: BTreeMap::new() };
        counts.skips("p a\tno GPU\np b\tno GPU\np a\tno GPU\np c\tno iperf3\nno tab\n");
        let end = "2 not run (long measurements, and processes that tests start)";
        let why = "2: no GPU; 1: no iperf3";
        assert_eq!(counts.to_string(), format!("6 passed, 1 failed, 3 skipped ({why}), {end}"));
        assert_eq!(
            (counts.skipped(), counts.ran()),
            (3, "6 passed, 1 failed; skipped 2: no GPU; skipped 1: no iperf3".into())
        );
        assert_eq!(Counts::default().to_string(), format!("0 passed, 0 failed, 0 skipped, {}", end.replace('2', "0")));
    }
}
