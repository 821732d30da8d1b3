//! `cargo xtask fuzz`: the parsers of `testbed/fuzz-targets`, guided by coverage, with libFuzzer on the same compiler as
//! everything else; with the address sanitizer where there is a nightly one.

mod coverage;
mod run;
mod seen;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::shell::{Early, Step, output, root};
use run::Bound;
use seen::Seen;

pub(crate) const HELP: &str = "\
cargo xtask fuzz NAME|all [--minutes N] [--inputs N] [--jobs N] [--asan] [--record] [--merge]
cargo xtask fuzz --list | --corpus | --table | --coverage

Feeds parsers with inputs that an engine makes which sees what code they reach (libFuzzer), and with edits that know the
language. Whatever breaks a target is made as small as it can be and put into its corpus, where every run of the tests tries it
again; the command then fails. NAME is a folder of testbed/fuzz-targets/corpus, or its number (F01).

  --minutes N  processor time that each target gets; default 10
  --inputs N   a target that has had so many inputs is done sooner; default: none is
  --jobs N     processes at a time; of one target that many run together; default 2
  --asan       with the address sanitizer, which needs a nightly compiler
  --record     write what was seen into benchmarks/fuzz.tsv as each target ends, for --table
  --merge      at the end, put inputs that reach new code into the corpora, small ones, as long as there is room
  --list       name the targets
  --corpus     write the inputs anew that our own encoders make
  --table      write the table of docs/fuzzing.md anew
  --coverage   which lines of which crates the corpora and their edits reach; needs the component llvm-tools

The first build takes some minutes, in target/fuzz; inputs, logs and what was found are in target/fuzz/runs.
";

/// What tells libFuzzer which code was reached and what was compared with what. Stable compilers take all of it.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
/// Of one input: longer is a finding, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(10);
/// Of one input on a machine that is not: longer is one too.
const SLOW: Duration = Duration::from_secs(1);
/// Memory of a process at most.
const MEMORY_MIB: u64 = 512;

/// What was asked for.
struct Asked {
    targets: Vec<String>,
    minutes: u64,
    /// Of each process, where there is a bound.
    inputs: Option<u64>,
    jobs: usize,
    asan: bool,
    record: bool,
    merge: bool,
}

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    if args.is_empty() || args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return if args.is_empty() { Err(Early::Usage("nothing to do".to_owned())) } else { Err(Early::Helped) };
    }
    match args {
        [one] if one == "--list" => {
            println!("{}", targets()?.join("\n"));
            Ok(())
        }
        [one] if one == "--corpus" => Ok(anew("the_corpora_are_what_our_encoders_make_and_small")?),
        [one] if one == "--table" => Ok(anew("the_page_has_the_table_of_what_was_run")?),
        [one] if one == "--coverage" => Ok(coverage::report()?),
        _ => Ok(fuzz(&read(args)?)?),
    }
}

/// Has a test write what it compares.
fn anew(test: &str) -> Result<(), String> {
    let args = ["test", "-p", "sluice-fuzz-targets", "--test", "replay", "--", "--exact", test];
    Step::cargo(&args).with("SLUICE_UPDATE_EXPECTED", "1").run()
}

fn corpora() -> PathBuf {
    root().join("testbed/fuzz-targets/corpus")
}

/// Every target's name: each has a folder.
fn targets() -> Result<Vec<String>, String> {
    let folder = corpora();
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn read(args: &[String]) -> Result<Asked, Early> {
    let all = targets()?;
    let mut asked =
        Asked { targets: Vec::new(), minutes: 10, inputs: None, jobs: 2, asan: false, record: false, merge: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = |most: u32| {
            let text = args.next().map_or("", String::as_str);
            let number = text.parse::<u32>().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| Early::Usage(format!("{arg} takes a number from 1 to {most}, not {text:?}")))
        };
        match arg.as_str() {
            "--minutes" => asked.minutes = number(1440)?.into(),
            "--inputs" => asked.inputs = Some(number(1_000_000_000)?.into()),
            "--jobs" => asked.jobs = number(1440)? as usize,
            "--asan" => asked.asan = true,
            "--record" => asked.record = true,
            "--merge" => asked.merge = true,
            "all" => asked.targets.clone_from(&all),
            name => {
                let same = |known: &&String| *known == name || known.split('-').next() == Some(name);
                let known = all.iter().find(same);
                let known =
                    known.ok_or_else(|| Early::Usage(format!("no target {name:?}; there are {}", all.join(", "))))?;
                asked.targets.push(known.clone());
            }
        }
    }
    if asked.targets.is_empty() {
        return Err(Early::Usage(format!("no target\n\n{HELP}")));
    }
    Ok(asked)
}

/// What the compiler calls this machine.
fn host() -> Result<String, String> {
    let said = output("rustc", &["-vV"])?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    Ok(host.to_owned())
}

/// Builds the driver; its path.
fn build(asan: bool) -> Result<PathBuf, String> {
    let triple = host()?;
    if asan && output("rustc", &["+nightly", "-V"]).is_err() {
        return Err(
            "the address sanitizer needs a nightly compiler, and there is none: `rustup toolchain install nightly \
                    --profile minimal`, or leave out --asan"
                .to_owned(),
        );
    }
    let folder = root().join(if asan { "target/fuzz-asan" } else { "target/fuzz" });
    let flags = if asan { format!("{COVERAGE} -Zsanitizer=address") } else { COVERAGE.to_owned() };
    let place = folder.to_string_lossy().into_owned();
    // With a target named, build scripts and macros are built without the flags, which would not link.
    let args = ["build", "--profile", "fuzz", "--target", triple.as_str(), "--target-dir", place.as_str()];
    let step = if asan { Step::new("cargo", &["+nightly"]) } else { Step::cargo(&[]) };
    let step = step.args(args).args(["-p", "sluice-fuzz-targets", "--features", "libfuzzer", "--bin", "sluice-fuzz"]);
    step.with("RUSTFLAGS", &flags).run()?;
    Ok(folder.join(triple).join("fuzz/sluice-fuzz"))
}

fn fuzz(asked: &Asked) -> Result<(), String> {
    let program = build(asked.asan)?;
    let runs = root().join(if asked.asan { "target/fuzz-asan/runs" } else { "target/fuzz/runs" });
    let bound = Bound { processor: Duration::from_secs(60 * asked.minutes), inputs: asked.inputs };
    // Of one target several run together and show each other what they find; of several each runs once.
    let copies = if asked.targets.len() == 1 { asked.jobs } else { 1 };
    let waiting: Mutex<VecDeque<(String, usize)>> =
        Mutex::new(asked.targets.iter().flat_map(|name| (0..copies).map(|copy| (name.clone(), copy))).collect());
    let all: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
    let rounds = (asked.targets.len() * copies).div_ceil(asked.jobs) as u64;
    println!(
        "{} targets, {} at a time, {} min of a processor each at most: about {} min",
        asked.targets.len(),
        asked.jobs,
        asked.minutes,
        rounds * asked.minutes
    );
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs {
            scope.spawn(|| {
                let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop_front());
                while let Some((name, copy)) = next() {
                    let seen = run::one(&program, &runs, &name, copy, bound);
                    println!("{}", seen.line());
                    if let Ok(mut all) = all.lock() {
                        // A run of hours may be cut short, so what is done is looked at and written at once.
                        all.push(if copies == 1 { done(&program, &runs, asked, seen) } else { seen });
                    }
                }
            });
        }
    });
    let mut all = all.into_inner().map_err(|_| "a process's thread panicked")?;
    if copies > 1 {
        all = seen::together(all).into_iter().map(|seen| done(&program, &runs, asked, seen)).collect();
    }
    println!("\n{}", seen::summary(&all));
    let failed: Vec<String> = all.iter().flat_map(Seen::failures).collect();
    // The last line is what a record keeps.
    let inputs: u64 = all.iter().map(|seen| seen.executions).sum();
    println!("{inputs} inputs for {} targets, {} findings", all.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("{} findings:\n  {}", failed.len(), failed.join("\n  "))) }
}

/// Looks at what all of a target's processes have seen: what broke it goes into its corpus, and the rest as was asked.
fn done(program: &Path, runs: &Path, asked: &Asked, mut seen: Seen) -> Seen {
    let mut look = || {
        for broke in std::mem::take(&mut seen.broke) {
            seen.kept.push(keep(program, &seen.target, &broke)?);
        }
        if asked.merge {
            merge(program, runs, &seen.target)?;
        }
        if asked.record { seen::record(std::slice::from_ref(&seen), asked.asan) } else { Ok(()) }
    };
    match look() {
        Ok(()) => seen,
        Err(why) => seen.failed(why),
    }
}

/// Makes an input that broke a target as small as it can be, and puts it into the corpus. One that is only slow stays as it is:
/// each try with it takes as long again, and none breaks anything.
fn keep(program: &Path, target: &str, broke: &Path) -> Result<PathBuf, String> {
    let small = broke.with_extension("small");
    let options = ["-minimize_crash=1", "-max_total_time=60", "-runs=100000"];
    let exact = format!("-exact_artifact_path={}", small.display());
    if broke.file_name().is_some_and(|name| name.to_string_lossy().starts_with("crash-")) {
        // It ends badly however well it goes.
        run::command(program, target).args(options).arg(&exact).arg(broke).quiet_end();
    }
    let file = if small.exists() { &small } else { broke };
    let digest = output("sha256sum", &[&file.to_string_lossy()])?;
    let name = format!("found-{}", digest.get(..12).unwrap_or(&digest));
    let place = corpora().join(target).join(name);
    fs::copy(file, &place).map_err(|error| format!("{}: {error}", place.display()))?;
    Ok(place)
}

/// Bytes of an input that is put into a corpus at most, and of a target's corpus with it: all of them stay below 2 MiB.
const SMALL: u64 = 4 << 10;
const ROOM: u64 = 48 << 10;

/// Puts inputs into the corpus that reach code which none of it reaches, the smallest first.
fn merge(program: &Path, runs: &Path, target: &str) -> Result<(), String> {
    let (corpus, fresh) = (corpora().join(target), runs.join(target).join("merged"));
    let _ = fs::remove_dir_all(&fresh); // Absent is as good.
    fs::create_dir_all(&fresh).map_err(|error| format!("{}: {error}", fresh.display()))?;
    let found = runs.join(target).join("inputs");
    // First all that the corpus reaches, then what the run's inputs reach beyond.
    run::command(program, target).arg("-merge=1").arg(&fresh).arg(&corpus).arg(&found).quiet_end();
    let size = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    let files = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let known: Vec<Vec<u8>> = files(&corpus).iter().filter_map(|path| fs::read(path).ok()).collect();
    let mut room = ROOM.saturating_sub(files(&corpus).iter().map(|path| size(path)).sum());
    let mut new = files(&fresh);
    new.sort_by_key(|path| size(path));
    for path in new.iter().filter(|path| size(path) <= SMALL) {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        if known.contains(&bytes) || bytes.len() as u64 > room {
            continue;
        }
        room -= bytes.len() as u64;
        let digest = output("sha256sum", &[&path.to_string_lossy()])?;
        let name = format!("found-{}", digest.get(..12).unwrap_or(&digest));
        fs::write(corpus.join(name), bytes).map_err(|error| format!("{}: {error}", corpus.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Result<Asked, Early> {
        read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn targets_are_named_whole_or_by_number_and_numbers_have_bounds() {
        let one = asked(&["F01", "--minutes", "3", "--jobs", "1", "--asan"]).unwrap_or_else(|_| panic!("a target"));
        assert_eq!((one.targets, one.minutes, one.jobs, one.asan), (vec!["F01-grpc".to_owned()], 3, 1, true));
        let all = asked(&["all"]).unwrap_or_else(|_| panic!("all"));
        assert_eq!(all.targets, targets().expect("the corpora"));
        let bound = asked(&["F02", "--inputs", "10000000"]).unwrap_or_else(|_| panic!("a bound"));
        assert_eq!((bound.inputs, bound.minutes), (Some(10_000_000), 10));
        for wrong in [
            &["F99"][..],
            &["all", "--minutes", "0"],
            &["all", "--inputs", "2000000000"],
            &["all", "--jobs"],
            &["--asan"],
        ] {
            assert!(matches!(asked(wrong), Err(Early::Usage(_))), "{wrong:?}");
        }
    }
}
