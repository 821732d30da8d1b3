//! `sluice fleet`: what a fleet is told through etcd, how its hosts are, and rollouts from group to group.
//!
//! What is decided is decided in `sluice_fleet`; here are etcd, the hosts' HTTP, the terminal and the waiting.

mod alerts;
pub mod args;
mod desk;
mod drive;
mod hosts;
mod import;
mod set;
mod show;
mod status;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_fleet::UnixTime;

use crate::failure::Failure;
use crate::global::Global;
use args::{FleetCmd, FleetWhat};
use desk::Desk;

pub fn run(global: &Global, command: &FleetCmd) -> Result<ExitCode, Failure> {
    let mut desk = Desk::new(&command.etcd)?;
    match &command.what {
        FleetWhat::Status(args) => status::run(global, &mut desk, args),
        FleetWhat::Show(args) => show::run(global, &mut desk, args),
        FleetWhat::Set(what) => set::set(global, &mut desk, what),
        FleetWhat::Unset(args) => set::unset(global, &mut desk, args),
        FleetWhat::Import(args) => import::run(global, &mut desk, args),
        FleetWhat::Rollout(args) => drive::begin(global, &mut desk, args),
        FleetWhat::Resume(args) => drive::resume(global, &mut desk, args),
        FleetWhat::Pause => drive::pause(global, &mut desk),
        FleetWhat::Abort(args) => drive::abort(global, &mut desk, args.keep),
    }
}

/// This machine's clock.
fn now() -> UnixTime {
    UnixTime(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()))
}

/// Who sits here, for whoever reads it in etcd: user and machine.
fn operator() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.name);
    let user = user.unwrap_or_else(|| nix::unistd::getuid().to_string());
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    format!("{user}@{host}")
}
