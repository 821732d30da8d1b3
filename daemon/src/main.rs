//! `sluiced`: reads its arguments and does what they say; everything else is in the library.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use sluiced::args::{Arguments, Check, Command, Form};
use sluiced::config::{self, Loaded};
use sluiced::daemon::EXIT_INVALID;
use sluiced::{cleanup, daemon, privilege, probe, sys};

/// No thread waits for another one to free memory. In the C library's allocator the deciding loop, a real-time thread, waited
/// half a second for ordinary ones that held its arena's lock and had no processor, and all orders ran out.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sys::keep_little_memory();
    let arguments = Arguments::parse();
    if arguments.check.defaults {
        print!("{}", config::commented_defaults());
        return ExitCode::SUCCESS;
    }
    let file = arguments.input.config.as_deref();
    match arguments.command {
        None if arguments.check.check => check(file, &arguments.check),
        None => match config::load_to_start(file) {
            Ok(loaded) => run(loaded, arguments.input.config),
            Err(problems) => {
                eprintln!("{problems}. Nothing was started.");
                ExitCode::from(EXIT_INVALID)
            }
        },
        // These work on what an invalid configuration left behind too.
        Some(Command::Cleanup { dry_run, force, expired }) => {
            cleanup::run(&lenient(file), cleanup::Options { dry_run, force, expired })
        }
        Some(Command::Probe) => probe::run(&lenient(file)),
        Some(Command::Privileges) => privilege::tried::run(&lenient(file), file),
        Some(Command::Helper { lines }) => privilege::start::help(&lines, file),
    }
}

fn run(loaded: Loaded, file: Option<PathBuf>) -> ExitCode {
    match daemon::run(loaded, file) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("sluiced: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check(file: Option<&Path>, check: &Check) -> ExitCode {
    match (config::load(file, check.offline), check.output) {
        (Ok(_), Form::Json) => println!("[]"),
        (Ok(loaded), Form::Text) => println!("the configuration is valid ({} files)", loaded.files.len()),
        (Err(problems), form) => {
            match (form, serde_json::to_string_pretty(&problems)) {
                (Form::Json, Ok(json)) => println!("{json}"),
                _ => eprintln!("{problems}"),
            }
            return ExitCode::from(EXIT_INVALID);
        }
    }
    ExitCode::SUCCESS
}

/// The configuration, or as much of it as is valid.
fn lenient(file: Option<&Path>) -> Loaded {
    config::load(file, true).unwrap_or_else(|problems| {
        eprintln!("{problems}\nThe defaults are used instead.");
        Loaded::default()
    })
}
