//! The daemon, its directories, its configuration, and what an earlier one left.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use sluice_progress::{Ident, Source, Writer};
use sluiced::config;

use super::Check;
use super::fix::Remedy;

/// Does the daemon answer?
pub fn daemon(socket: &Path) -> Check {
    let shown = socket.display();
    match UnixStream::connect(socket) {
        Ok(_) => Check::ok("daemon", format!("sluiced answers on {shown}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Check::info("daemon", format!("sluiced is not running (no {shown})")).fix("systemctl start sluiced")
        }
        Err(error) => Check::warn("daemon", format!("{shown}: {error}"))
            .cost("status, top and commands do not work")
            .fix("systemctl status sluiced"),
    }
}

/// The directory of progress pages: mode, file system, and a page can be made.
pub fn progress(dir: &Path) -> Check {
    let cost = "jobs cannot say what they are about to send: rounds are inferred from traffic";
    let Ok(meta) = fs::symlink_metadata(dir) else {
        let found = format!("{} does not exist; the daemon makes it", dir.display());
        return Check::info("progress", found).cost(cost).remedy(Remedy::Pages(dir.into()));
    };
    let mode = meta.permissions().mode() & 0o7777;
    if !meta.is_dir() || mode & 0o1777 != 0o1777 {
        return Check::warn("progress", format!("{} has mode {mode:04o}, owner {}", dir.display(), meta.uid()))
            .expected("a directory of mode 1777")
            .cost(cost)
            .fix(format!("sluice doctor --fix, or chmod 1777 {}", dir.display()))
            .remedy(Remedy::Pages(dir.into()));
    }
    match Writer::create(dir, &Ident::new(Source::Application)) {
        Ok(_) => Check::ok("progress", format!("a progress page can be made in {} (tried, removed)", dir.display())),
        Err(error) => Check::warn("progress", format!("no progress page can be made in {}: {error}", dir.display()))
            .cost(cost)
            .fix("look at the file system: df, mount"),
    }
}

/// Pins below `root` that nobody uses. An empty folder is none: tmpfiles.d makes one at boot.
pub fn leftovers(root: &Path, running: bool) -> Check {
    let has_pins = |entry: &fs::DirEntry| fs::read_dir(entry.path()).map_or(true, |mut inside| inside.next().is_some());
    let pins: Vec<String> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter(has_pins)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("sluice") && !name.starts_with("sluice-doctor"))
        // Probes of this command, maybe of this very run.
        .filter(|name| !name.starts_with("sluicedoc"))
        .collect();
    match (pins.is_empty(), running) {
        (true, _) => Check::ok("leftovers", "nothing of Sluice is pinned"),
        (false, true) => Check::ok("leftovers", format!("pinned while the daemon runs: {}", pins.join(", "))),
        (false, false) => {
            Check::info("leftovers", format!("pinned without a daemon on this socket: {}", pins.join(", ")))
                .fix("sluiced cleanup --dry-run shows what would go")
        }
    }
}

/// The configuration, read and judged as the daemon does at its start.
pub fn configuration(file: Option<&Path>) -> Check {
    let shown = file.unwrap_or(Path::new(config::DEFAULT_FILE)).display();
    match config::load(file, false) {
        Ok(loaded) if loaded.files.is_empty() => {
            Check::ok("configuration", format!("there is no {shown}: every key has its default"))
        }
        Ok(_) => Check::ok("configuration", format!("{shown} is valid")),
        Err(problems) => {
            let said = problems.to_string();
            let first: String = said.lines().next().unwrap_or_default().chars().take(200).collect();
            Check::fail("configuration", format!("{shown}: {first}"))
                .cost("the daemon does not start")
                .fix(format!("sluice config check {shown} shows every problem"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn an_empty_folder_is_no_pin_that_was_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = |running| leftovers(dir.path(), running).state;
        fs::create_dir(dir.path().join("sluice")).expect("made");
        assert_eq!(state(false), State::Ok);
        fs::create_dir(dir.path().join("sluice/abi4")).expect("made");
        assert_eq!((state(false), state(true)), (State::Info, State::Ok));
    }

    #[test]
    fn the_file_that_is_named_is_the_one_that_is_judged() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("sluiced.toml");
        let judged = |text: &str| {
            std::fs::write(&file, format!("{text}\n[node]\nstate_dir = \"/nonexistent\"\n")).expect("written");
            configuration(Some(&file))
        };
        assert_eq!(judged("mode = \"active\"").state, State::Ok);
        for wrong in ["mode = \"fast\"", "[[links]]\nname = \"no-such-card\""] {
            let check = judged(wrong);
            assert!(check.state == State::Fail && check.found.contains("sluiced.toml: error[E_"), "{check:?}");
        }
        let none = configuration(Some(Path::new("/nonexistent/sluiced.toml")));
        assert!(none.state == State::Fail && none.found.contains("/nonexistent/sluiced.toml"), "{none:?}");
    }
}
