//! One member of a training job: reads its job file, exchanges
//! and reduces real buffers with its peers, and prints one JSON line per event.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use sluice_testbed::job::{self, JobFile};

/// One rank of a training job on real sockets.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Job file: a JSON document that names the job, its members and this member's rank.
    file: std::path::PathBuf,
}

fn main() -> ExitCode {
    match read(&Arguments::parse()) {
        Err(e) => {
            eprintln!("sluice-job: {e:#}");
            ExitCode::from(2)
        }
        Ok(file) => match job::run(&file, std::io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("sluice-job: {} rank {}: {e}", file.job, file.rank);
                ExitCode::from(if matches!(e, job::JobError::File { .. }) { 2 } else { 1 })
            }
        },
    }
}

fn read(arguments: &Arguments) -> anyhow::Result<JobFile> {
    let name = arguments.file.display();
    let mut text = String::new();
    let file = std::fs::File::open(&arguments.file).with_context(|| format!("opening {name}"))?;
    // A job of 4096 members and its compute times stay far below this.
    file.take(64 << 20).read_to_string(&mut text).with_context(|| format!("reading {name}"))?;
    serde_json::from_str(&text).with_context(|| format!("{name} is not a job file"))
}
