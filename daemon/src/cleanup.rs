//! `sluiced cleanup`: undoes what any daemon of this instance left outside itself. Works without one and more than once.

#![allow(clippy::print_stdout, reason = "a command says what it did")]

use std::path::Path;
use std::process::ExitCode;

use sluice_ebpf::cleanup;

use crate::config::Loaded;
use crate::enforce;
use crate::journal::Journal;
use crate::rundir;
use crate::starts::Starts;

/// How far a clean-up goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Even while a daemon runs.
    pub force: bool,
    /// Only give back sockets whose order has run out.
    pub expired: bool,
}

/// Does it and prints each step. Exit status 0 if nothing is left, 1 if something is, 4 if a daemon runs.
pub fn run(loaded: &Loaded, options: Options) -> ExitCode {
    let config = &loaded.config;
    let kernel = enforce::options(loaded, None);
    if options.expired {
        return match cleanup::sweep(&kernel) {
            Ok(count) => {
                println!("gave back {count} sockets whose order had run out");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("sluiced cleanup: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let journal = Journal::new(&config.node.run_dir);
    let starts = Starts::new(&config.node.run_dir);
    let files = [config.socket(), config.lock(), starts.path().to_owned()];
    if options.dry_run {
        for entry in std::fs::read_dir(kernel.pin_dir()).into_iter().flatten().flatten() {
            println!("would remove {}", entry.path().display());
        }
        for change in journal.read() {
            println!("would restore net.ipv4.{} to {:?}", change.key, change.old);
        }
        for path in files.iter().filter(|path| path.exists()) {
            println!("would remove {}", path.display());
        }
        return ExitCode::SUCCESS;
    }
    let lock = if config.node.run_dir.is_dir() { Some(rundir::lock(&config.lock())) } else { None };
    if let Some(Err(error)) = &lock
        && !options.force
    {
        eprintln!("sluiced cleanup: {error}; or use --force");
        return ExitCode::from(4);
    }
    let report = cleanup::cleanup(&kernel);
    report.done.iter().for_each(|line| println!("{line}"));
    let mut left = report.left;
    left.extend(journal.restore());
    for path in &files {
        remove(path, &mut left);
    }
    left.iter().for_each(|line| println!("left: {line}"));
    println!("{}", if left.is_empty() { "nothing is left" } else { "the rest falls back by itself or needs a hand" });
    if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn remove(path: &Path, left: &mut Vec<String>) {
    match std::fs::remove_file(path) {
        Ok(()) => println!("removed {}", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => left.push(format!("{}: {error}", path.display())),
    }
}
