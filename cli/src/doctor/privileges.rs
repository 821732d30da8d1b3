//! Which arrangement of privileges the daemon runs in.

use sluice_wire::snapshot::Snapshot;

use super::Check;

/// Both are right; which one it is, somebody may want to know.
pub fn of_daemon(snapshot: &Snapshot) -> Check {
    if snapshot.daemon.split {
        return Check::ok("privileges", "sluiced has none; a helper has them (privilege.split)");
    }
    Check::ok("privileges", "sluiced is one process; privilege.split = true would give them to a helper")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_which_arrangement_runs() {
        let mut snapshot = Snapshot::default();
        assert!(of_daemon(&snapshot).found.contains("one process"));
        snapshot.daemon.split = true;
        assert!(of_daemon(&snapshot).found.contains("a helper has them"));
    }
}
