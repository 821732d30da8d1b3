//! `cargo xtask ci`: what must hold for every commit.

use crate::shell::{Early, Step, options};
use crate::{setup, ship, supply, test};

const HELP: &str = "\
cargo xtask ci

Format check, clippy with warnings as errors on all targets, documentation without warnings, what comes from elsewhere as
`cargo xtask dependencies` has it, the libraries that jobs load as `cargo xtask ship` has them, then exactly what
`cargo xtask test` does, in which are the table of promises, the corpora of the parsers and a part of every suite of
`cargo xtask verify`.
";

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    options(args, HELP, &[])?;
    setup::ensure()?;
    Step::cargo(&["fmt", "--all", "--check"]).run()?;
    Step::cargo(&["clippy", "--workspace", "--locked", "--all-targets", "--", "-D", "warnings"]).run()?;
    Step::cargo(&["doc", "--workspace", "--locked", "--no-deps"]).with("RUSTDOCFLAGS", "-D warnings").run()?;
    supply::check()?;
    ship::all()?;
    Ok(test::all(false)?)
}
