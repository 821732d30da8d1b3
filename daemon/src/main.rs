//! `sluiced`: reads its arguments and does what they say; everything else is in the library.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sluiced::config::{self, Loaded};
use sluiced::{cleanup, daemon, probe};

/// Exit status for a configuration that is not valid.
const EXIT_INVALID: u8 = 2;

/// Schedules the training traffic of this host.
///
/// Finds training jobs, plans their rounds with the other hosts, and holds each flow to its rate in the kernel. If it
/// ends, for whatever reason, flows go back to ordinary congestion control by themselves.
///
/// Example: sluiced --config /etc/sluice/sluiced.toml
#[derive(Parser)]
#[command(name = "sluiced", version, about, long_about, verbatim_doc_comment)]
struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    check: Check,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args)]
#[command(next_help_heading = "Input")]
struct Input {
    /// Configuration; sluiced.d/*.toml beside it is read after it.
    #[arg(long, global = true, value_name = "FILE", env = "SLUICE_CONFIG")]
    config: Option<PathBuf>,
}

#[derive(Args)]
#[command(next_help_heading = "Check")]
struct Check {
    /// Judge the configuration, say everything that is wrong, and end.
    #[arg(long)]
    check: bool,
    /// With --check: leave out what only this host knows.
    #[arg(long, requires = "check")]
    offline: bool,
    /// With --check: form of the errors.
    #[arg(short, long, value_name = "FORM", default_value = "text", requires = "check")]
    output: Form,
    /// Print every key with its default, range and meaning, as a valid file, and end.
    #[arg(long, conflicts_with = "check")]
    defaults: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Undo what a daemon left outside itself: sockets, programs, pins, sysctls.
    Cleanup {
        /// Only say what would be done.
        #[arg(long)]
        dry_run: bool,
        /// Even while a daemon runs.
        #[arg(long)]
        force: bool,
        /// Only give back sockets whose order has run out.
        #[arg(long)]
        expired: bool,
    },
    /// Try what the daemon needs of this kernel and undo it; prints JSON.
    Probe,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.check.defaults {
        print!("{}", config::commented_defaults());
        return ExitCode::SUCCESS;
    }
    let file = arguments.input.config.as_deref();
    match arguments.command {
        None if arguments.check.check => check(file, &arguments.check),
        None => match config::load(file, false) {
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
