//! `cargo xtask`: set-up, demo, test, bench, ship, package and ci in plain Rust. Every step is printed before it is run, so that it
//! can be repeated by hand.

#![forbid(unsafe_code)]

mod bench;
mod book;
mod ci;
mod count;
mod debs;
mod demo;
#[cfg(test)]
mod documented;
mod elf;
mod fuzz;
mod image;
mod json;
mod kernels;
mod lanes;
#[cfg(test)]
mod links;
#[cfg(test)]
mod lints;
mod mxnet;
mod package;
mod pages;
mod promises;
mod qemu;
mod quantity;
mod record;
mod records;
mod sbom;
mod scoreboard;
#[cfg(test)]
mod security;
mod setup;
mod shell;
mod ship;
mod supply;
mod test;
mod verify;
mod workloads;

use std::process::ExitCode;

use crate::shell::Early;

const HELP: &str = "\
cargo xtask COMMAND [OPTIONS]

  setup   install what is missing on this machine: Debian packages, clippy, rustfmt; --workloads: real jobs
  demo    build, run training jobs under CUBIC, Reno, BBR and Sluice on network namespaces, compare
  test    build everything and run every test
  bench   benchmarks and measured experiments; bench scoreboard: every policy on every case, by turns
  fuzz    every parser guided by coverage, with libFuzzer; `fuzz --table`: what that has shown
  ship    the libraries for NCCL and PS-Lite as they are installed, checked: glibc, symbols, stripped
  package the Debian packages; `package check` tries them in fresh roots, `package boot` under a real systemd
  kernels boots the distribution's kernels in QEMU and tries there what Sluice uses; the table of docs/kernels.md
  image   a container image of release programs, as an OCI layout (needs umoci)
  book    every page as one book, with its links checked (needs mdbook)
  verify  everything that shows the promises of docs/verification.md, suite by suite; --long: what takes hours
  dependencies  licences, sources and checksums of what comes from elsewhere
  sbom    what the programs are made of, in CycloneDX
  ci      format, lints, documentation, `dependencies`, `ship`, then exactly what `test` does

cargo xtask COMMAND --help says more about one of them.
";

/// What a command does with its arguments.
type Run = fn(&[String]) -> Result<(), Early>;

/// Every command, what it does, and its help.
static COMMANDS: [(&str, Run, &str); 14] = [
    ("setup", setup::run, setup::HELP),
    ("demo", demo::run, demo::HELP),
    ("test", test::run, test::HELP),
    ("bench", bench::run, bench::HELP),
    ("fuzz", fuzz::run, fuzz::HELP),
    ("ship", ship::run, ship::HELP),
    ("package", package::run, package::HELP),
    ("kernels", kernels::run, kernels::HELP),
    ("image", image::run, image::HELP),
    ("book", book::run, book::HELP),
    ("verify", verify::run, verify::HELP),
    ("dependencies", supply::run, supply::HELP),
    ("sbom", sbom::run, sbom::HELP),
    ("ci", ci::run, ci::HELP),
];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    if matches!(command.as_str(), "" | "help" | "--help" | "-h") {
        print!("{HELP}");
        return if command.is_empty() { ExitCode::from(2) } else { ExitCode::SUCCESS };
    }
    let Some((_, run, _)) = COMMANDS.iter().find(|(name, _, _)| *name == command) else {
        eprint!("xtask: no command {command:?}\n\n{HELP}");
        return ExitCode::from(2);
    };
    let (status, why) = match run(&rest) {
        Ok(()) | Err(Early::Helped) => return ExitCode::SUCCESS,
        Err(Early::Failed(why)) => (1, why),
        Err(Early::Usage(why)) => (2, why),
    };
    eprintln!("xtask {command}: {why}");
    ExitCode::from(status)
}
