//! `cargo xtask test`: every test there is.

use crate::setup;
use crate::shell::{Step, is_root, options};

const HELP: &str = "\
cargo xtask test [--nextest]

Installs what is missing, builds all programs that the whole-system tests start, and runs every test. Tests that need
root, network namespaces or BPF say \"skipped: why\" where they cannot run; as root nothing is skipped on a kernel that
has what Sluice needs.

  --nextest   run with cargo-nextest instead of cargo test
";

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let given = options(args, HELP, &["--nextest"])?;
    setup::ensure()?;
    all(given.contains(&"--nextest"))
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
