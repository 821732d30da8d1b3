//! `sluice doctor --fix`: the few things that doctor names and that can be put right without harm: it says what it would do,
//! asks, does it, and says what became of it. Everything else stays the operator's.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use serde::Serialize;
use sluiced::journal::Journal;

use super::Check;
use crate::failure::Failure;

/// Where the daemon's directories are, unless it is told otherwise.
const RUN_DIR: &str = "/run/sluice";

/// What puts a finding right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Set what pacing needs, noted so that the daemon's end, or `sluiced cleanup`, gives it back.
    Sysctls,
    /// Make the directory of progress pages, or give it the mode that it needs.
    Pages(PathBuf),
    /// Mount bpffs there.
    Bpffs(PathBuf),
    /// Let new sockets begin with this congestion control again.
    DefaultControl(&'static str),
}

/// What became of one remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fixed {
    /// Of the check.
    pub id: &'static str,
    pub action: String,
    pub done: bool,
    /// Why not; empty: it is done.
    pub error: String,
}

impl Remedy {
    /// What it would do, in a clause.
    pub fn action(&self) -> String {
        match self {
            Remedy::Sysctls => {
                "set net.ipv4.tcp_tso_rtt_log and tcp_wmem as pacing needs them, until the daemon's next end".into()
            }
            Remedy::Pages(dir) => format!("make {} a directory of mode 1777", dir.display()),
            Remedy::Bpffs(place) => format!("mount bpffs at {}", place.display()),
            Remedy::DefaultControl(name) => format!("set net.ipv4.tcp_congestion_control = {name}"),
        }
    }

    fn apply(&self) -> io::Result<()> {
        match self {
            Remedy::Sysctls => {
                let run_dir = Path::new(RUN_DIR);
                make(run_dir, 0o755)?;
                Journal::new(run_dir).apply();
                Ok(())
            }
            Remedy::Pages(dir) => {
                if let Some(parent) = dir.parent() {
                    make(parent, 0o755)?;
                }
                make(dir, 0o1777)
            }
            Remedy::Bpffs(place) => {
                fs::create_dir_all(place)?;
                mount(Some("bpf"), place, Some("bpf"), MsFlags::empty(), None::<&str>).map_err(io::Error::from)
            }
            Remedy::DefaultControl(name) => fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name),
        }
    }
}

/// Makes a directory for the daemon's user, where there is one, and gives it this mode.
fn make(dir: &Path, mode: u32) -> io::Result<()> {
    let new = match fs::symlink_metadata(dir) {
        Ok(meta) if meta.is_dir() => false,
        Ok(_) => return Err(io::Error::other(format!("{} is there and is no directory", dir.display()))),
        Err(_) => {
            fs::create_dir(dir)?;
            true
        }
    };
    if new && let Ok(Some(user)) = nix::unistd::User::from_name("sluice") {
        chown(dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    // What was there keeps its mode, unless it is the one that everybody publishes in.
    if new || mode & 0o1000 != 0 { fs::set_permissions(dir, Permissions::from_mode(mode)) } else { Ok(()) }
}

/// Does what the checks need, after asking; nothing where nothing can be done.
///
/// # Errors
/// Nobody can be asked, and nobody said yes before.
pub fn fix(checks: &[Check], yes: bool, quiet: bool) -> Result<Vec<Fixed>, Failure> {
    let wanted: Vec<(&'static str, &Remedy)> =
        checks.iter().filter_map(|check| Some((check.id, check.remedy.as_ref()?))).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    if !yes {
        if !io::stdin().is_terminal() {
            let actions: Vec<String> =
                wanted.iter().map(|(_, remedy)| format!("\n  would {}", remedy.action())).collect();
            let actions = actions.concat();
            return Err(Failure::input(format!(
                "--fix asks, and stdin is no terminal; add --yes to do this:{actions}"
            )));
        }
        if !agreed(&wanted)? {
            return Ok(Vec::new());
        }
    }
    let apply = |(id, remedy): (&'static str, &Remedy)| {
        let error = remedy.apply().err().map(|error| error.to_string()).unwrap_or_default();
        Fixed { id, action: remedy.action(), done: error.is_empty(), error }
    };
    let all: Vec<Fixed> = wanted.into_iter().map(apply).collect();
    if !quiet {
        for fixed in &all {
            match fixed.done {
                true => eprintln!("done: {}", fixed.action),
                false => eprintln!("not done: {}: {}", fixed.action, fixed.error),
            }
        }
    }
    Ok(all)
}

/// Asks on the terminal.
fn agreed(wanted: &[(&'static str, &Remedy)]) -> Result<bool, Failure> {
    let mut err = io::stderr().lock();
    for (id, remedy) in wanted {
        writeln!(err, "  {id}: {}", remedy.action())?;
    }
    write!(err, "Do this? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn nothing_is_done_where_nothing_needs_it_or_nobody_agreed() {
        assert_eq!(fix(&[Check::ok("a", "fine")], true, true).expect("nothing to do"), []);
        let dir = tempfile::tempdir().expect("a directory");
        let pages = dir.path().join("run/progress");
        let check = Check::warn("progress", "missing").remedy(Remedy::Pages(pages.clone()));
        if !io::stdin().is_terminal() {
            let refused = fix(std::slice::from_ref(&check), false, true).expect_err("nobody can be asked");
            assert!(refused.code == 2 && refused.to_string().contains("--yes"), "{refused}");
        }
        assert!(!pages.exists());
    }

    #[test]
    fn a_directory_of_pages_is_made_and_gets_its_mode() {
        let dir = tempfile::tempdir().expect("a directory");
        let pages = dir.path().join("run/progress");
        let check = Check::warn("progress", "missing").remedy(Remedy::Pages(pages.clone()));
        for mode in [0o1777, 0o700] {
            if pages.exists() {
                fs::set_permissions(&pages, Permissions::from_mode(mode)).expect("changed");
            }
            let fixed = fix(std::slice::from_ref(&check), true, true).expect("agreed");
            assert!(fixed[0].done, "{fixed:?}");
            assert_eq!(fs::metadata(&pages).expect("made").mode() & 0o7777, 0o1777);
        }
        fs::remove_dir(&pages).expect("removed");
        fs::write(&pages, "").expect("written");
        let fixed = fix(&[check], true, true).expect("agreed");
        assert!(!fixed[0].done && fixed[0].error.contains("no directory"), "{fixed:?}");
    }
}
