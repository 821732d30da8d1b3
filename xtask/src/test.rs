//! `cargo xtask test`: every test there is.

use std::fs;

use crate::count::Counts;
use crate::setup;
use crate::shell::{Early, Step, Stream, is_root, options, target_dir};

const HELP: &str = "\
cargo xtask test [--nextest | --gpu]

Installs what is missing, builds every program and test, and runs every test. Ends with one line: how many passed, failed
and were skipped, and why. As root on a kernel that has what Sluice needs no test may be skipped for want of either; for
want of anything else only those of testbed/skip/allowed.txt may.

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
    Ok(all(given.contains(&"--nextest"))?)
}

/// Two ranks of a real NCCL, where there is a GPU.
fn gpu() -> Result<(), String> {
    if !std::path::Path::new("/dev/nvidia0").exists() {
        return Err("no GPU: /dev/nvidia0 is not here".into());
    }
    Step::cargo(&["test", "--locked", "-p", "sluice-nccl", "--test", "all", "gpu", "--", "--nocapture"]).run()
}

/// Builds and tests. Cargo builds the programs of every package with its tests; building them before would compile
/// most of it twice, since what only tests depend on turns further features of shared dependencies on.
pub(crate) fn all(nextest: bool) -> Result<(), String> {
    if !is_root() {
        eprintln!("xtask: not root: tests of namespaces and eBPF will be skipped");
    }
    // One test program after the other: whole-system tests want the machine for themselves (.config/nextest.toml).
    // Examples were compiled by clippy, and the documentation's are guides that tests run.
    let (words, stream): (&[&str], _) =
        if nextest { (&["nextest", "run"], Stream::Err) } else { (&["test", "--tests"], Stream::Out) };
    let skips = target_dir().join("skips.txt");
    fs::create_dir_all(target_dir()).map_err(|e| format!("creating {}: {e}", target_dir().display()))?;
    fs::write(&skips, "").map_err(|e| format!("writing {}: {e}", skips.display()))?;
    let mut step = Step::cargo(words).arg("--workspace").arg("--locked").arg("--no-fail-fast");
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        // What makes the next build of a crate quicker makes its first one a third slower.
        step = step.with("CARGO_INCREMENTAL", "0");
    }
    let mut counts = Counts::default();
    let ran = step.with("SLUICE_SKIPS", &skips.to_string_lossy()).through(stream, |line| counts.line(line));
    counts.skips(&fs::read_to_string(&skips).map_err(|e| format!("reading {}: {e}", skips.display()))?);
    println!("\ntests: {counts}");
    ran
}
