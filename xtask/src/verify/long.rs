//! The long runs: what nobody waits for, each with its bar, and its last result in benchmarks/verify.tsv.

use std::fs;

use super::line::Line;
use super::suite::{LOAD, Outcome, programs};
use crate::record::{Stamp, step};
use crate::records::{self, Row, VERIFY, write_tables};
use crate::shell::{Step, output, target_dir};
use crate::supply;

/// A long run.
#[derive(Debug)]
pub(super) struct Long {
    pub(super) name: &'static str,
    /// For the list and the table.
    what: &'static str,
    pub(super) bar: &'static str,
    /// What its draws begin from, where it has draws.
    pub(super) seed: Option<&'static str>,
    how: How,
}

#[derive(Debug)]
enum How {
    /// These, one after the other; the figure is the last line that the last one prints.
    Commands(&'static [&'static str]),
    /// Rows of the chaos table, with what no other run builds.
    Chaos,
    /// Known weaknesses of what comes from elsewhere.
    Advisories,
    /// Changes of the brains' arithmetic, so many of all, as `.cargo/mutants.toml` says.
    Arithmetic(usize),
    /// Tests of these packages under Miri, with so many schedules.
    Miri(&'static [&'static [&'static str]]),
    /// As [`How::Commands`], by a nightly toolchain.
    Nightly(&'static [&'static str]),
}

pub(super) const LONG: [Long; 15] = [
    Long {
        name: "seeds",
        what: "T-S: the brains under faults, with further seeds",
        bar: "0 seeds fail",
        seed: Some("0 to 49999"),
        how: How::Commands(&[
            "cargo run --release --locked -p sluice-faults --example fault_sim -- --mode both --seeds 50000 --least 100",
        ]),
    },
    Long {
        name: "mutants",
        what: "T-S: planted bugs of the brains and of what the simulator puts around them, and how many seeds it takes to see them",
        bar: "every mutant is caught",
        seed: Some("0 and on"),
        how: How::Commands(&["cargo run --release --locked -p sluice-faults --example fault_sim -- --mutants"]),
    },
    Long {
        name: "cargo-mutants",
        what: "T-S: 20 changes of the brains' arithmetic, of all that there are at even distances; needs cargo-mutants",
        bar: "a test notices every change",
        seed: None,
        how: How::Arithmetic(20),
    },
    Long {
        name: "fuzz",
        what: "T-F: every parser by libFuzzer, ten minutes or ten million inputs each",
        bar: "0 crashes, 0 inputs over 1 s",
        seed: None,
        how: How::Commands(&["cargo xtask fuzz all --minutes 10 --inputs 10000000 --record"]),
    },
    Long {
        name: "asan",
        what: "T-F: parsers with unsafe code by libFuzzer with the address sanitizer, two hours each; needs a nightly toolchain",
        bar: "0 crashes",
        seed: None,
        how: How::Nightly(&["cargo xtask fuzz F05 F16 F17 F18 F19 F20 --minutes 120 --asan"]),
    },
    Long {
        name: "chaos",
        what: "T-C: rows C1 to C20 of the chaos table, the long ones included",
        bar: "every row holds",
        seed: None,
        how: How::Chaos,
    },
    Long {
        name: "load",
        what: "T-L: rows of load and exhaustion at full size, ten minutes each of those that have a length",
        bar: "every row holds",
        seed: None,
        how: How::Commands(&[LOAD, "sluice-experiment chaos L1 L2 L3 L4 L5 R1 R2 R3 R4 --minutes 10"]),
    },
    Long {
        name: "benefit",
        what: "T-B: every cell of the benefit table, and the canary",
        bar: "every row holds",
        seed: None,
        how: How::Commands(&["sluice-experiment chaos B1 B2 --cells all"]),
    },
    Long {
        name: "adversary",
        what: "T-A: a job alone and beside a host that lies as itself, as another, as nobody, with TLS; ten minutes",
        bar: "others keep 97 to 103 %, every attack is counted and named",
        seed: None,
        how: How::Commands(&["sluice-experiment adversary --turns 5 --seconds 10"]),
    },
    Long {
        name: "kernels",
        what: "T-V: Debian's kernels in QEMU",
        bar: "each loads, or says why not",
        seed: None,
        how: How::Commands(&["cargo xtask kernels"]),
    },
    Long {
        name: "soak",
        what: "L6: virtual days, fifty daemons under faults, thousands of flows; eight hours",
        bar: "≤ 0.5 MiB/h of memory, descriptors and tasks flat",
        seed: None,
        how: How::Commands(&["sluice-experiment soak --hours 4"]),
    },
    Long {
        name: "advisories",
        what: "T-X: known weaknesses of what comes from elsewhere; needs network and cargo-deny",
        bar: "0",
        seed: None,
        how: How::Advisories,
    },
    Long {
        name: "miri",
        what: "T-M: unsafe code that asks no kernel, under Miri with 64 schedules; needs a nightly toolchain with it",
        bar: "0 undefined",
        seed: Some("0 to 63"),
        how: How::Miri(&[
            &["-p", "sluice-struct-ops", "--lib", "--", "finds_members", "refuses_what"],
            &["-p", "sluice-progress", "--lib", "--", "layout::", "writer::heap::"],
            &["-p", "sluice-ebpf", "--lib", "--", "abi::tests::records_from", "abi::tests::names_have"],
            &["-p", "sluice-nccl", "--lib", "--", "comms::", "translate::tests::any_descriptor"],
        ]),
    },
    Long {
        name: "leak",
        what: "what the brains of a host and a switch hold on the heap after an hour of jobs that come and go, by dhat",
        bar: "as much as after half an hour",
        seed: None,
        how: How::Commands(&["cargo run --release --locked -p sluice-schedule --example leak"]),
    },
    Long {
        name: "bench",
        what: "every benchmark and every measured experiment of BENCHMARKS.md",
        bar: "each ends",
        seed: None,
        how: How::Commands(&["cargo xtask bench"]),
    },
];

/// Schedules that Miri tries.
const SCHEDULES: &str = "-Zmiri-many-seeds=0..64 -Zmiri-disable-isolation -Zmiri-ignore-leaks";

/// Of a property, for each of them.
const DRAWS: &str = "8";

pub(super) fn find(name: &str) -> Option<&'static Long> {
    LONG.iter().find(|run| run.name == name)
}

/// All of them, a line each.
pub(super) fn list() -> String {
    LONG.iter().map(|run| format!("  {:<14}{}; must be: {}\n", run.name, run.what, run.bar)).collect()
}

impl Long {
    pub(super) fn run(&self) -> Outcome {
        if let Some(why) = self.lacks() {
            return Outcome::skipped(why);
        }
        Outcome::of(match self.how {
            How::Commands(commands) | How::Nightly(commands) => programs(commands),
            How::Chaos => chaos(),
            How::Advisories => supply::advisories().map(|()| "0".to_owned()),
            How::Arithmetic(most) => arithmetic(most),
            How::Miri(sets) => miri(sets),
        })
    }

    /// The tool that it takes and that is not here.
    fn lacks(&self) -> Option<&'static str> {
        let (tool, why): (&[&str], _) = match self.how {
            How::Arithmetic(_) => (&["mutants", "--version"], "no cargo-mutants: cargo install cargo-mutants --locked"),
            How::Advisories => (&["deny", "--version"], "no cargo-deny: cargo install cargo-deny --locked"),
            How::Miri(_) => (
                &["+nightly", "miri", "--version"],
                "no Miri: rustup toolchain install nightly --component miri rust-src",
            ),
            How::Nightly(_) => {
                (&["+nightly", "--version"], "no nightly toolchain: rustup toolchain install nightly --profile minimal")
            }
            How::Commands(_) | How::Chaos => return None,
        };
        output("cargo", tool).is_err().then_some(why)
    }
}

/// Row C11 takes another build, here the next version of the kernel interface: a row that lacks what it takes is not run, which is
/// no pass.
fn chaos() -> Result<String, String> {
    let next = target_dir().join("next");
    let packages = ["build", "--locked", "--bins", "-p", "sluiced", "-p", "sluice-switch", "--target-dir"];
    Step::cargo(&packages).arg(&next.to_string_lossy()).with("RUSTFLAGS", "--cfg sluice_next_abi").run()?;
    step(&format!("sluice-experiment chaos --all --old {}", next.join("debug").display()))?.read()
}

/// Each is built and tested in a copy of the tree. The first of every so many is taken, so that it is the same ones each time as
/// long as the code is.
fn arithmetic(most: usize) -> Result<String, String> {
    const OF: [&str; 3] = ["mutants", "--package", "sluice-schedule"];
    let all = output("cargo", &[&OF[..], &["--list"]].concat())?.lines().count();
    let dir = target_dir().join("mutants");
    let shard = format!("0/{}", all.div_ceil(most).max(1));
    let step = Step::cargo(&OF).args(["--sharding", "round-robin", "--shard", shard.as_str(), "--output"]);
    let ended = step.arg(&dir.to_string_lossy()).run();
    let count = |what: &str| {
        let text = fs::read_to_string(dir.join("mutants.out").join(format!("{what}.txt")));
        text.map_or(0, |text| text.lines().count())
    };
    let [caught, endless, missed, broken] = ["caught", "timeout", "missed", "unviable"].map(count);
    let seen =
        format!("{missed} missed of {all} / {shard}: {caught} caught, {endless} never ended, {broken} not compiled");
    match ended {
        // What makes something run for ever is noticed, too.
        _ if missed == 0 && caught + endless > 0 => Ok(seen),
        _ if missed > 0 => Err(seen),
        Ok(()) => Err("cargo-mutants changed nothing".to_owned()),
        Err(why) => Err(why),
    }
}

fn miri(sets: &[&[&str]]) -> Result<String, String> {
    let mut all = 0;
    for set in sets {
        let tests = Step::new("cargo", &["+nightly", "miri", "test", "--locked"]).args(set.iter().copied());
        let tests = tests.with("MIRIFLAGS", SCHEDULES).with("PROPTEST_CASES", DRAWS);
        let ran = passed(&tests.read()?);
        if ran == 0 {
            return Err(format!("no test has one of these names: {}", set.join(" ")));
        }
        all += ran;
    }
    Ok(format!("0 undefined in {all} runs of tests of {} packages", sets.len()))
}

/// How many tests passed, by what libtest said, once for each schedule.
fn passed(said: &str) -> usize {
    let count = |line: &str| line.strip_prefix("test result: ok. ")?.split_once(" passed")?.0.parse::<usize>().ok();
    said.lines().filter_map(count).sum()
}

/// Writes what came of a run into its row, and the tables anew.
pub(super) fn record(run: &Long, line: &Line) -> Result<(), String> {
    let mut all = records::load()?;
    let record = all.iter_mut().find(|record| record.area == VERIFY.0).ok_or("benchmarks/verify.tsv is not there")?;
    let Stamp { date, commit } = Stamp::now()?;
    let number = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| format!("{value:.1}"));
    let spread =
        format!("{:.0} s, load {}, timers {} ms late", line.seconds, number(line.load), number(line.lateness_p99_ms));
    let cells = [figure(run), run.bar.to_owned(), value(line), spread, command(run)];
    let row = Row::known(cells, date, commit);
    match record.rows.iter_mut().find(|old| old.figure == row.figure) {
        Some(old) => *old = row,
        None => record.rows.push(row),
    }
    record.save()?;
    write_tables(&all)
}

/// What was seen, in bold where it missed its bar. One that was not tried for is not missed.
fn value(line: &Line) -> String {
    let seen = line.figure.replace('\t', " ");
    if line.pass || line.skipped > 0 { seen } else { format!("**{seen}**") }
}

fn figure(run: &Long) -> String {
    format!("{}: {}", run.name, run.what)
}

fn command(run: &Long) -> String {
    format!("cargo xtask verify --long {}", run.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_takes_no_test_is_noticed() {
        let said =
            "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\ntest result: ok. 2 passed; 0 failed\n";
        assert_eq!(passed(said), 4);
        assert_eq!(passed("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n"), 0);
    }

    #[test]
    fn what_lacks_its_tool_neither_passes_nor_misses_its_bar() {
        let outcome = Outcome::skipped("no Miri");
        let line = Line { figure: outcome.figure, pass: outcome.pass, skipped: outcome.skipped, ..Line::default() };
        assert_eq!((line.pass, line.skipped, value(&line).as_str()), (false, 1, "skipped: no Miri"));
        assert_eq!(value(&Line { figure: "3\tmissed".into(), ..Line::default() }), "**3 missed**");
    }

    #[test]
    fn every_long_run_has_one_row_with_its_bar_and_its_command() {
        let records = records::load().expect("records");
        let record = records.iter().find(|record| record.area == VERIFY.0).expect("benchmarks/verify.tsv");
        let rows: Vec<_> =
            record.rows.iter().map(|row| (row.figure.clone(), row.bar.clone(), row.command.clone())).collect();
        let runs: Vec<_> = LONG.iter().map(|run| (figure(run), run.bar.to_owned(), command(run))).collect();
        assert_eq!(rows, runs);
    }
}
