//! `cargo xtask verify`: everything that shows the promises of docs/verification.md, in order, each suite with its figure, its
//! bar and how quiet the machine was; and the long runs that nobody waits for.

mod canary;
mod line;
mod long;
mod report;
mod suite;

use std::fs;
use std::io::Write as _;
use std::time::Instant;

use crate::shell::{Early, have, is_root, target_dir};
use crate::{promises, records, setup};
use canary::Canary;
use line::Line;
use suite::{Outcome, SUITES};

pub(crate) const HELP: &str = "\
cargo xtask verify [--strict] [--keep-going]
cargo xtask verify --long [NAME [--record]]
cargo xtask verify --tables

Runs what shows the promises of docs/verification.md, cheap and deterministic first, and stops at the first suite that fails.
Needs cargo-nextest (cargo install cargo-nextest --locked), and root for the suites on real kernels.

  --strict      a test that cannot run here fails its suite
  --keep-going  go on after a suite that failed
  --long        lists the long runs
  --long NAME   runs one of them instead
  --record      writes what came of it into benchmarks/verify.tsv, with date and commit, and the tables anew
  --tables      runs nothing; writes docs/verification.md anew: the last result of every long run, and which test shows which
                promise

Each suite prints one line of JSON: its name, what was seen, what it must be, whether it passed, how many tests were skipped, for
how many seconds it ran, the seed of its draws if it has any, how many milliseconds 99 of 100 timers were late at most, and the
load of the machine. target/verify has them in lines.jsonl, and for people in report.html.
";

/// What a run is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    strict: bool,
    keep_going: bool,
}

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        [.., "--help" | "-h"] => {
            print!("{HELP}");
            return Err(Early::Helped);
        }
        ["--tables"] => {
            records::write_tables(&records::load()?)?;
            return Ok(promises::write()?);
        }
        ["--long"] => {
            print!("{}", long::list());
            return Ok(());
        }
        ["--long", name] => return one(name, false),
        ["--long", name, "--record"] => return one(name, true),
        _ => {}
    }
    let mut told = Told::default();
    for word in words {
        match word {
            "--strict" => told.strict = true,
            "--keep-going" => told.keep_going = true,
            other => return Err(Early::Usage(format!("no option {other:?}\n\n{HELP}"))),
        }
    }
    Ok(all(told)?)
}

/// One long run.
fn one(name: &str, record: bool) -> Result<(), Early> {
    let run =
        long::find(name).ok_or_else(|| Early::Usage(format!("no long run {name:?}; there are\n{}", long::list())))?;
    let line = watched(run.name, run.bar, run.seed, Told::default(), || run.run());
    told(&line)?;
    report::write("long", std::slice::from_ref(&line))?;
    if record {
        long::record(run, &line)?;
    }
    if line.pass { Ok(()) } else { Err(format!("{}: {}; it must be: {}", line.name, line.figure, line.bar).into()) }
}

/// Every suite.
fn all(how: Told) -> Result<(), String> {
    if !have("cargo-nextest") {
        return Err("cargo-nextest is not here: cargo install cargo-nextest --locked".to_owned());
    }
    if !is_root() {
        eprintln!("xtask: not root: suites on real kernels will be skipped, which is no pass");
    }
    setup::ensure()?;
    let mut lines = Vec::new();
    for suite in &SUITES {
        let line = watched(suite.name, suite.bar, suite.seed, how, || suite.run());
        told(&line)?;
        let pass = line.pass;
        lines.push(line);
        report::write("suites", &lines)?;
        if !pass && !how.keep_going {
            break;
        }
    }
    let failed: Vec<&str> = lines.iter().filter(|line| !line.pass).map(|line| line.name.as_str()).collect();
    let skipped: usize = lines.iter().map(|line| line.skipped).sum();
    let page = target_dir().join("verify/report.html");
    eprintln!(
        "\nverify: {} of {} suites ran, {} failed, {skipped} tests skipped: {}",
        lines.len(),
        SUITES.len(),
        failed.len(),
        page.display()
    );
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Runs a suite beside the canary.
fn watched(name: &str, bar: &str, seed: Option<&str>, told: Told, work: impl FnOnce() -> Outcome) -> Line {
    eprintln!("\n== {name}: {bar}");
    let (began, canary) = (Instant::now(), Canary::start());
    let Outcome { figure, pass, skipped } = work();
    Line {
        name: name.to_owned(),
        figure,
        bar: bar.to_owned(),
        pass: pass && (skipped == 0 || !told.strict),
        skipped,
        seconds: began.elapsed().as_secs_f64(),
        seed: seed.map(str::to_owned),
        lateness_p99_ms: canary.p99_ms(),
        load: canary::load(),
    }
}

/// Prints the line and keeps it.
fn told(line: &Line) -> Result<(), String> {
    println!("{}", line.json());
    let dir = target_dir().join("verify");
    let path = dir.join("lines.jsonl");
    let kept = fs::create_dir_all(&dir).and_then(|()| fs::OpenOptions::new().create(true).append(true).open(&path));
    let kept = kept.and_then(|mut file| writeln!(file, "{}", line.json()));
    kept.map_err(|e| format!("writing {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_a_failure_where_it_is_wanted_so_and_a_failure_always_is() {
        let of = |pass, skipped, strict| {
            let told = Told { strict, ..Told::default() };
            watched("T", "0", None, told, || Outcome { figure: "1 passed".into(), pass, skipped }).pass
        };
        assert!(of(true, 0, true) && of(true, 1, false));
        assert!(!of(true, 1, true) && !of(false, 0, false));
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for words in [vec!["--fast"], vec!["--long", "nothing"], vec!["--strict", "x"]] {
            let args: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match run(&args) {
                Err(Early::Usage(why)) => assert!(why.contains(words[words.len() - 1]), "{why}"),
                other => panic!("{words:?}: {other:?}"),
            }
        }
    }
}
