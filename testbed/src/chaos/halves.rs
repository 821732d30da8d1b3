//! A daemon of two processes: the brain, which parses the network and may do nothing, and its helper, which may.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use nix::unistd::User;

use crate::run::RunError;

/// What makes a daemon two processes, TOML text.
pub const SPLIT: &str = "[privilege]\nsplit = true\n";

/// Which of the two a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// It decides.
    Brain,
    /// It loads and opens for the brain.
    Helper,
    /// Both in the same moment.
    Both,
}

impl Half {
    /// As it stands in a figure.
    pub fn word(self) -> &'static str {
        match self {
            Half::Brain => "the brain",
            Half::Helper => "the helper",
            Half::Both => "brain and helper",
        }
    }
}

/// Makes the directories in a session's that brains write to, and gives them to the user that brains run as.
///
/// # Errors
/// A directory cannot be made or given, or this machine knows neither `sluice` nor `nobody`.
pub fn give_away(session: &Path, hosts: &[String]) -> Result<(), RunError> {
    let find = |name| User::from_name(name).ok().flatten();
    let user = find("sluice").or_else(|| find("nobody"));
    let user =
        user.ok_or_else(|| RunError::Plan("brains run as the user sluice or nobody, and neither is known".into()))?;
    for dir in session.parent().into_iter().chain([session]) {
        std::fs::create_dir_all(dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir, open).map_err(RunError::io(format!("opening {}", dir.display())))?;
    }
    for host in hosts {
        for dir in [session.join(format!("run-{host}")), session.join(format!("run-{host}/state"))] {
            std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
            let given = chown(&dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()));
            given.map_err(RunError::io(format!("giving away {}", dir.display())))?;
        }
    }
    Ok(())
}

/// The helper of a brain: its child. `None`: it has none.
pub fn helper_of(brain: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{brain}/task/{brain}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
