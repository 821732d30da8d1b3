//! `cargo xtask test`: every test there is.

use std::fs;
use std::time::Instant;

use crate::count::Counts;
use crate::lanes::{self, Chore, Program};
use crate::setup;
use crate::shell::{Early, Step, Stream, is_root, options, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask test [--nextest | --gpu]

Installs what is missing, builds every program and test, and runs every test. Ends with one line: how many passed, failed
and were skipped, and why. As root on a kernel that has what Sluice needs no test may be skipped for want of either; for
want of anything else only those of testbed/skip/allowed.txt may. Up to three tests of a program that use the kernel,
networks or time and fail beside others are tried once more with nothing beside them; the last line names those that pass then.

  --nextest   run with cargo-nextest instead of cargo test
  --gpu       only a real NCCL with the profiler plug-in: two ranks on one GPU, over sockets. Needs a GPU, its driver and
              libnccl.so.2 (SLUICE_NCCL_LIBRARY names its file, for example the one in torch's site-packages)
";

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    let given = options(args, HELP, &["--nextest", "--gpu"])?;
    if given.contains(&"--gpu") {
        return Ok(gpu()?);
    }
    setup::ensure()?;
    Ok(all(given.contains(&"--nextest"), &[])?)
}

/// Two ranks of a real NCCL, where there is a GPU.
fn gpu() -> Result<(), String> {
    if !std::path::Path::new("/dev/nvidia0").exists() {
        return Err("no GPU: /dev/nvidia0 is not here".into());
    }
    Step::cargo(&["test", "--locked", "-p", "sluice-nccl", "--test", "all", "gpu", "--", "--nocapture"]).run()
}

/// Builds and tests. Cargo builds the programs of every package with its tests; building them before would compile
/// most of it twice, since what only tests depend on turns further features of shared dependencies on. `chores` are done
/// beside the tests, once these are built.
pub(crate) fn all(nextest: bool, chores: &[Chore]) -> Result<(), String> {
    if !is_root() {
        eprintln!("xtask: not root: tests of namespaces and eBPF will be skipped");
    }
    let skips = target_dir().join("skips.txt");
    fs::create_dir_all(target_dir()).map_err(|e| format!("creating {}: {e}", target_dir().display()))?;
    fs::write(&skips, "").map_err(|e| format!("writing {}: {e}", skips.display()))?;
    let vars = [("SLUICE_SKIPS", skips.to_string_lossy().into_owned())];
    let cargo = |words: &[&str]| {
        let step = Step::cargo(words).args(["--workspace", "--locked"]);
        // What makes the next build of a crate quicker makes its first one a third slower.
        let incremental = std::env::var("CARGO_INCREMENTAL").unwrap_or_else(|_| "0".to_owned());
        step.with("CARGO_INCREMENTAL", &incremental)
    };
    // Tests ask cargo what programs link, without network: also of what is not built here.
    Step::cargo(&["fetch", "--locked"]).run()?;
    let (mut counts, mut again) = (Counts::default(), Vec::new());
    let ran = if nextest {
        let step = cargo(&["nextest", "run", "--no-fail-fast"]).with(vars[0].0, &vars[0].1);
        step.through(Stream::Err, |line| counts.line(line))
    } else {
        // Examples were compiled by clippy, and the documentation's are guides that tests run.
        let began = Instant::now();
        let (mut programs, step) = (Vec::new(), cargo(&["test", "--tests", "--no-run"]));
        let step = step.arg("--message-format=json-render-diagnostics");
        step.through(Stream::Messages, |line| programs.extend(Program::built(line)))?;
        if programs.is_empty() {
            return Err("cargo named no test program: nothing was tested".to_owned());
        }
        let (count, built) = (programs.len(), began.elapsed().as_secs());
        eprintln!("\n{count} test programs, built in {built} s, side by side; what each says: target/tests");
        let all = lanes::run(&programs, chores, &vars)?;
        (counts, again) = (all.counts, all.again);
        if all.failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", all.failed.join(", "))) }
    };
    counts.skips(&fs::read_to_string(&skips).map_err(|e| format!("reading {}: {e}", skips.display()))?);
    println!("\ntests: {counts}");
    if !again.is_empty() {
        println!("passed at their second try, with nothing beside them: {}", again.join(", "));
    }
    ran
}
