//! `sluice config`: judges files, shows what holds and where it was set, and prints what the table of keys says. The table,
//! the reader and the judge are the daemon's own.

pub mod args;
pub mod reference;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use sluice_wire::snapshot::SCHEMA;
use sluiced::config;

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::plan;
use args::{CheckArgs, ConfigCmd};

/// The file of `sluice-switch` where none is named.
const SWITCH_FILE: &str = "/etc/sluice/sluice-switch.toml";

pub fn run(global: &Global, command: &ConfigCmd) -> Result<ExitCode, Failure> {
    let done = match command {
        ConfigCmd::Check(args) => check(global, args),
        ConfigCmd::Show(args) => show::run(global, args),
        ConfigCmd::Defaults => {
            output::list(global, "keys", &config::reference::reference(), config::commented_defaults)
        }
        ConfigCmd::Schema => output::print(&format!("{:#}\n", config::reference::schema())),
        ConfigCmd::Reference => output::print(&reference::page()),
    };
    plan::finish(global, done.map(|()| ExitCode::SUCCESS))
}

fn check(global: &Global, args: &CheckArgs) -> Result<(), Failure> {
    let (files, told) = if args.switch {
        let file = args.file.clone().unwrap_or_else(|| SWITCH_FILE.into());
        let config = sluice_switch::config::Config::load(&file)?;
        let ports: usize = config.switches.iter().map(|switch| switch.ports.len()).sum();
        (vec![file], format!("{} switches with {ports} ports", config.switches.len()))
    } else {
        let loaded = config::load(args.file.as_deref(), args.offline)?;
        let set = config::reference::holding(&loaded).iter().filter(|key| key.origin.is_some()).count();
        (loaded.files, format!("{set} keys are set"))
    };
    if global.quiet {
        return Ok(());
    }
    let value = json!({ "schema": SCHEMA, "valid": true, "files": shown(&files), "errors": [] });
    output::one(global, &value, || match files.as_slice() {
        [] => format!("valid: there is no {}, every key has its default\n", config::DEFAULT_FILE),
        files => format!("valid: {} ({told})\n", shown(files).join(", ")),
    })
}

fn shown(files: &[PathBuf]) -> Vec<String> {
    files.iter().map(|file| Path::display(file).to_string()).collect()
}
