//! `cargo xtask test`: every test there is.

use crate::setup;
use crate::shell::{Step, is_root, options};

const HELP: &str = "\
cargo xtask test [--nextest | --gpu]

Installs what is missing, builds all programs that the whole-system tests start, and runs every test. Tests that need
root, network namespaces or BPF say \"skipped: why\" where they cannot run; as root nothing is skipped on a kernel that
has what Sluice needs.

  --nextest   run with cargo-nextest instead of cargo test
  --gpu       only a real NCCL with the profiler plug-in: two ranks on one GPU, over sockets. Needs a GPU, its driver and
              libnccl.so.2 (SLUICE_NCCL_LIBRARY names its file, for example the one in torch's site-packages)
";

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let given = options(args, HELP, &["--nextest", "--gpu"])?;
    if given.contains(&"--gpu") {
        return gpu();
    }
    setup::ensure()?;
    all(given.contains(&"--nextest"))
}

/// Two ranks of a real NCCL, where there is a GPU.
fn gpu() -> Result<(), String> {
    if !std::path::Path::new("/dev/nvidia0").exists() {
        println!("skipped: no GPU (/dev/nvidia0 is not here)");
        return Ok(());
    }
    Step::cargo(&["test", "--locked", "-p", "sluice-nccl", "--test", "gpu", "--", "--nocapture"]).run()
}

/// Builds and tests. One profile for programs and tests, so that nothing is compiled twice.
pub(crate) fn all(nextest: bool) -> Result<(), String> {
    if !is_root() {
        eprintln!("xtask: not root: tests of namespaces and eBPF will say that they are skipped");
    }
    Step::cargo(&["build", "--workspace", "--locked", "--bins"]).run()?;
    if nextest {
        return Step::cargo(&["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]).run();
    }
    // One test program after the other: whole-system tests want the machine for themselves.
    // Examples were compiled by clippy, and the documentation's are guides that tests run.
    Step::cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--tests"]).run()
}
