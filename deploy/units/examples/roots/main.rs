//! The packages' life in fresh roots, as `cargo xtask package check roots` runs it: installed and used, upgraded and downgraded
//! under traffic, purged. Services run under their units' sandbox, by `sluice-unit`; maintainer scripts reach them through a
//! `systemctl` that [`machine`] answers. Needs root.

mod dump;
mod machine;
mod steady;
mod stories;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What every step may fail with: a sentence.
type Result<T> = std::result::Result<T, String>;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    inside: Option<Inside>,
    /// Archive of a fresh root
    #[arg(long)]
    root: Option<PathBuf>,
    /// Folder for roots and logs
    #[arg(long)]
    work: Option<PathBuf>,
    /// The package
    #[arg(long)]
    old: Option<PathBuf>,
    /// The same of another version
    #[arg(long)]
    new: Option<PathBuf>,
    /// Package sluice-switch
    #[arg(long)]
    switch: Option<PathBuf>,
    /// Only this story: fresh, upgrade or purge
    #[arg(long)]
    only: Option<String>,
    /// A copy of the command `sluice` from outside of the package
    #[arg(long)]
    sluice: Option<PathBuf>,
}

/// What this program is when it starts itself as a job.
#[derive(Subcommand)]
enum Inside {
    /// Sends in rounds.
    Send {
        /// Only some, and then without end
        #[arg(long)]
        endless: bool,
        to: Vec<std::net::SocketAddr>,
    },
    /// Receives, and says what it saw.
    Sink { at: std::net::SocketAddr },
}

/// What the checks are told.
pub(crate) struct Given {
    root: PathBuf,
    work: PathBuf,
    old: PathBuf,
    new: PathBuf,
    switch: PathBuf,
    sluice: PathBuf,
    only: Option<String>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments { inside: Some(Inside::Send { endless, to }), .. } => steady::send(endless, &to),
        Arguments { inside: Some(Inside::Sink { at }), .. } => steady::sink(at),
        Arguments {
            root: Some(root),
            work: Some(work),
            old: Some(old),
            new: Some(new),
            switch: Some(switch),
            sluice: Some(sluice),
            only,
            ..
        } => {
            // Mounts are known by their whole path.
            let work = std::path::absolute(&work).map_err(step(work.display()));
            work.and_then(|work| stories::all(&Given { root, work, old, new, switch, sluice, only }))
        }
        _ => Err("run it by: cargo xtask package check roots".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("roots: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A step's failure as a sentence.
fn step<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    let what = what.to_string();
    move |why| format!("{what}: {why}")
}
