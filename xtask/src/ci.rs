//! `cargo xtask ci`: what must hold for every commit.

use std::fmt;
use std::time::{Duration, Instant};

use crate::shell::{Early, Step, options};
use crate::{setup, ship, supply, test};

pub(crate) const HELP: &str = "\
cargo xtask ci

Format check, clippy with warnings as errors on all targets, documentation without warnings, what comes from elsewhere as
`cargo xtask dependencies` has it, the libraries that jobs load as `cargo xtask ship` has them, then exactly what
`cargo xtask test` does, in which are the table of promises, the corpora of the parsers and a part of every suite of
`cargo xtask verify`.
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
        let clippy = ["clippy", "--workspace", "--locked", "--all-targets", "--", "-D", "warnings"];
        let doc = Step::cargo(&["doc", "--workspace", "--locked", "--no-deps"]).with("RUSTDOCFLAGS", "-D warnings");
        self.run("setup", setup::ensure)?;
        self.run("format", || Step::cargo(&["fmt", "--all", "--check"]).run())?;
        self.run("clippy", || Step::cargo(&clippy).run())?;
        self.run("documentation", || doc.run())?;
        self.run("dependencies", supply::check)?;
        self.run("ship", ship::all)?;
        self.run("tests", || test::all(false))
    }

    fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<(), String>) -> Result<(), Early> {
        let began = Instant::now();
        let ended = work();
        self.0.push((name, began.elapsed()));
        Ok(ended?)
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(name, took)| format!("{name} {} s", took.as_secs())).collect();
        write!(f, "{}", parts.join(", "))
    }
}
