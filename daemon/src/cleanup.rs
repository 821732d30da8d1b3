//! `sluiced cleanup`: undoes what any daemon of this instance left outside itself. Works without one and more than once.

#![allow(clippy::print_stdout, reason = "a command says what it did")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sluice_ebpf::cleanup;

use crate::config::Loaded;
use crate::enforce;
use crate::journal::Journal;
use crate::rundir;
use crate::starts::Starts;

/// For the answer of a daemon that runs.
const PATIENCE: Duration = Duration::from_millis(500);
const MAX_ANSWER: u64 = 64 << 10;

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
    if let Some(Err(error)) = &lock {
        if !options.force {
            eprintln!("sluiced cleanup: {error}; or use --force");
            return ExitCode::from(4);
        }
        match stand_aside(&config.socket()) {
            Ok(()) => println!("told the daemon that runs to manage nothing until it is started anew"),
            // One that does not answer renews no orders for long, and one that does will be seen.
            Err(error) => eprintln!("sluiced cleanup: the daemon that runs was not told to manage nothing: {error}"),
        }
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

/// Tells the daemon that runs to leave all flows alone: it would take again what is given back here.
fn stand_aside(socket: &Path) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = r#"{"mode":"bypass","reason":"sluiced cleanup --force"}"#;
    let length = body.len();
    let head = "POST /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json";
    stream.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    if status.starts_with("HTTP/1.1 200") {
        return Ok(());
    }
    Err(std::io::Error::other(format!("it answered {status:?}")))
}

fn remove(path: &Path, left: &mut Vec<String>) {
    match std::fs::remove_file(path) {
        Ok(()) => println!("removed {}", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => left.push(format!("{}: {error}", path.display())),
    }
}
