//! `cargo xtask ci`: what must hold for every commit.

use std::fmt;
use std::time::{Duration, Instant};

use crate::lanes::Chore;
use crate::shell::{Early, Step, options};
use crate::{setup, test};

pub(crate) const HELP: &str = "\
cargo xtask ci

Format check, then exactly what `cargo xtask test` does, in which are the table of promises, the corpora of the parsers and a
part of every suite of `cargo xtask verify`; and beside its tests, which mostly wait: clippy with warnings as errors on all
targets, documentation without warnings, what comes from elsewhere as `cargo xtask dependencies` has it, and the libraries
that jobs load as `cargo xtask ship` has them.
";

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    options(args, HELP, &[])?;
    let mut stages = Stages::default();
    let all = stages.all();
    eprintln!("xtask ci: {stages}");
    all
}

/// How long each part took, in order.
#[derive(Default)]
struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    fn all(&mut self) -> Result<(), Early> {
        self.run("setup", setup::ensure)?;
        self.run("format", || Step::cargo(&["fmt", "--all", "--check"]).run())?;
        self.run("tests and all beside them", || test::all(false, &chores()))
    }

    fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<(), String>) -> Result<(), Early> {
        let began = Instant::now();
        let ended = work();
        self.0.push((name, began.elapsed()));
        Ok(ended?)
    }
}

/// What only computes, the quickest to fail first.
fn chores() -> [Chore; 4] {
    let own = |command: &str| Step::cargo(&["xtask", command]);
    let clippy = ["clippy", "--workspace", "--locked", "--all-targets", "--", "-D", "warnings"];
    let doc = Step::cargo(&["doc", "--workspace", "--locked", "--no-deps"]).with("RUSTDOCFLAGS", "-D warnings");
    [
        Chore { name: "dependencies", step: own("dependencies") },
        Chore { name: "clippy", step: Step::cargo(&clippy) },
        Chore { name: "documentation", step: doc },
        Chore { name: "ship", step: own("ship") },
    ]
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(name, took)| format!("{name} {} s", took.as_secs())).collect();
        write!(f, "{}", parts.join(", "))
    }
}
