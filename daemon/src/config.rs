//! `sluiced.toml`: settings, their keys, and reading them so that every mistake is shown at once.
//!
//! Defaults < the fleet's topology and switches < main file < `sluiced.d/*.toml` beside it in byte order < `sluiced.d/*.toml` of the state directory < command
//! line. One table says what each key is called and may hold (`settings`), [`read`] goes from text to struct, `check`
//! judges what keys mean together. Nothing here opens a socket or asks the kernel for anything but names.

pub(crate) mod check;
mod choices;
mod defaults;
mod keys;
pub mod read;
pub mod reference;
mod settings;
pub(crate) mod value;

use std::path::Path;

use sluice_formats::problem::Problems;

pub(crate) use choices::*;
pub use defaults::commented_defaults;
pub use read::{Loaded, Origin};
pub(crate) use settings::*;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "/etc/sluice/sluiced.toml";

/// Reads the main file, its `sluiced.d` and that of the state directory, then judges the whole. `offline` leaves out what only this host knows.
///
/// Without `main` the default file is read if it is there.
///
/// # Errors
/// [`Problems`] with everything that is wrong in all files.
pub fn load(main: Option<&Path>, offline: bool) -> Result<Loaded, Problems> {
    let reader = layers(read::Reader::default(), main);
    let Some(fleets) = reader.config().fleet_layer().filter(|layer| layer.is_file()) else {
        return judge(reader, offline);
    };
    // What the fleet says stands below everything that this host's own files say.
    let mut below = read::Reader::default();
    below.file(&fleets);
    judge(layers(below, main), offline)
}

/// As [`load`], for a start: what the fleet last said keeps no daemon from starting, and is left out if it cannot be used.
///
/// # Errors
/// As [`load`], for this host's own files.
pub fn load_to_start(main: Option<&Path>) -> Result<Loaded, Problems> {
    load(main, false).or_else(|problems| {
        let own = layers(read::Reader::default(), main);
        let fleets = own.config().fleet_layer().is_some_and(|layer| layer.is_file());
        if fleets { judge(own, false).map_err(|_| problems) } else { Err(problems) }
    })
}

/// What the administrator's own files say: the main one and its `sluiced.d`. For who does not believe what a daemon has written
/// into its state directory.
///
/// # Errors
/// [`Problems`] with everything that is wrong in them.
pub fn load_administrators(main: Option<&Path>) -> Result<Loaded, Problems> {
    judge(administrators(read::Reader::default(), main), true)
}

/// The main file, its `sluiced.d` and that of the state directory, over what was read already.
fn layers(reader: read::Reader, main: Option<&Path>) -> read::Reader {
    let mut reader = administrators(reader, main);
    let kept = reader.config().kept_settings();
    reader.directory(&kept);
    reader
}

fn administrators(mut reader: read::Reader, main: Option<&Path>) -> read::Reader {
    let file = main.unwrap_or(Path::new(DEFAULT_FILE));
    if main.is_some() || file.exists() {
        reader.file(file);
    }
    if let Some(folder) = file.parent() {
        reader.directory(&folder.join("sluiced.d"));
    }
    reader
}

/// Judges what a reader read.
///
/// # Errors
/// [`Problems`] with everything that is wrong.
pub fn judge(reader: read::Reader, offline: bool) -> Result<Loaded, Problems> {
    let (mut loaded, mut problems) = reader.parts();
    if loaded.config.node.name.is_empty() {
        loaded.config.node.name = host_name();
    }
    problems.extend(check::cross(&loaded));
    if !offline && problems.is_empty() {
        problems.extend(check::environment(&loaded));
    }
    Problems::of(problems).map_or(Ok(loaded), Err)
}

/// Keys whose value differs from the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    /// Those whose new value holds.
    pub taken: Vec<&'static str>,
    /// Those whose new value will hold after a restart.
    pub waiting: Vec<&'static str>,
}

/// Takes a new configuration over a running one: keys that need a restart keep their old value.
///
/// Returns what now holds, and what became of the keys that differ.
pub fn reload(old: &Config, new: &Config) -> (Config, ChangedKeys) {
    let mut merged = new.clone();
    let mut differing = ChangedKeys::default();
    for key in KEYS.iter().filter(|key| (key.get)(old) != (key.get)(new)) {
        if key.restart {
            (key.keep)(&mut merged, old);
            differing.waiting.push(key.path);
        } else {
            differing.taken.push(key.path);
        }
    }
    for (name, differs) in [("links", old.links != new.links), ("switches", old.switches != new.switches)] {
        if differs {
            differing.taken.push(name);
        }
    }
    (merged, differing)
}

fn host_name() -> String {
    let raw = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let name: String = raw
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' })
        .take(63)
        .collect();
    if name.is_empty() { "localhost".into() } else { name }
}

#[cfg(test)]
mod tests;
