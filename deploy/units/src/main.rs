//! `sluice-unit`: becomes a program of a unit, under the unit's own sandbox. For tests and for checks of packages.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sluice_units::confine::{self, Start};
use sluice_units::unit::Unit;

/// Runs a program as its systemd unit would, where no systemd runs.
///
/// Mounts, user, capabilities, limits and filters of system calls are the unit's; a directive that is not known is an
/// error. Needs root.
///
/// Example: sluice-unit run --root /srv/root deploy/systemd/sluiced.service
#[derive(Parser)]
#[command(version, about, long_about, verbatim_doc_comment)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Become a program of a unit.
    Run(Run),
    /// Write the map of a user namespace, from outside, once a line comes.
    #[command(hide = true)]
    MapUsers { pid: u32, user: u32, group: u32 },
}

#[derive(Args)]
struct Run {
    /// The unit
    unit: PathBuf,
    /// A drop-in, read after it; repeatable
    #[arg(long = "drop-in", value_name = "FILE")]
    drop_ins: Vec<PathBuf>,
    /// The root directory that the program sees
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// The root is bare: it has a /usr/bin of its own, and the rest of /usr is this machine's
    #[arg(long, requires = "root")]
    bare: bool,
    /// Which command: ExecStart, ExecReload or ExecStopPost
    #[arg(long, value_name = "DIRECTIVE", default_value = "ExecStart")]
    line: String,
    /// Which of several, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    at: usize,
    /// What $MAINPID stands for
    #[arg(long, value_name = "PID")]
    main_pid: Option<u32>,
    /// End with the thread that started it
    #[arg(long)]
    die_with_parent: bool,
}

fn main() -> ExitCode {
    let run = match Arguments::parse().command {
        Command::Run(run) => run,
        Command::MapUsers { pid, user, group } => {
            return match confine::map_users(pid, user, group) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&format!("the users of process {pid}: {error}")),
            };
        }
    };
    let unit = match Unit::read(&run.unit, &run.drop_ins) {
        Ok(unit) => unit,
        Err(error) => return failed(&error.to_string()),
    };
    let Some(line) = unit.all("Service", &run.line).get(run.at).cloned() else {
        return failed(&format!("{}: it has no {}= of number {}", run.unit.display(), run.line, run.at));
    };
    let Run { root, bare, main_pid, die_with_parent, .. } = run;
    let start = Start { unit, line, root, bare, main_pid, die_with_parent };
    failed(&format!("{}: {}", start.line.clone(), confine::become_it(&start)))
}

/// As systemd: statuses from 200 on are failures to start.
fn failed(why: &str) -> ExitCode {
    eprintln!("sluice-unit: {why}");
    ExitCode::from(203)
}
