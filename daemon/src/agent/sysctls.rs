//! The sysctls that exact pacing needs, set and given back while the loop runs: what is noted of them waits for a disk, so the
//! keeper does it, in this order. The end of the process waits for that, for [`PATIENCE`] at most.

use std::time::Duration;

use sluice_ebpf::sysctl::{Applied, Change};

use super::{Agent, told};
use crate::journal::Journal;
use crate::stored::Keeper;

/// How long the end waits for what is noted; less than the main thread waits for the loop.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sets them by `apply`, soon.
pub(super) fn set(keeper: &mut Keeper, journal: &Journal, apply: impl FnOnce() -> Applied + Send + 'static) {
    let journal = journal.clone();
    if !keeper.leave(move || journal.apply_by(apply)) {
        tracing::warn!(
            event = "sysctl-refused",
            cost = "rates below 100 Mbit/s are off",
            next = "look why writing to node.run_dir or node.state_dir takes long, and set the mode again",
            "the sysctls are not set: what was asked before is not on the disk yet"
        );
    }
}

/// Undoes everything noted by `restore`, soon; what is left is logged.
fn give_back_soon(
    keeper: &mut Keeper,
    journal: &Journal,
    restore: impl FnOnce(&[Change]) -> Vec<String> + Send + 'static,
) {
    let journal = journal.clone();
    if !keeper.leave(move || journal.restore_by(restore).iter().for_each(|left| told::sysctl_left(left))) {
        told::sysctl_left("not given back: what was asked before is not on the disk yet");
    }
}

impl Agent {
    /// A reload has changed the key: they are set where something is enforced, or what was set is given back.
    pub(super) fn sysctls_as_configured(&mut self) {
        if !self.core.config().enforce.sysctls {
            give_back_soon(&mut self.keeper, &self.journal, self.powers.restorer());
        } else if self.core.enforces() {
            set(&mut self.keeper, &self.journal, self.powers.setter());
        }
    }
}

/// Undoes everything noted by `restore`. Returns a sentence for each change that was left.
pub(super) fn give_back(
    keeper: &mut Keeper,
    journal: &Journal,
    restore: impl FnOnce(&[Change]) -> Vec<String> + Send + 'static,
) -> Vec<String> {
    let own = journal.clone();
    let left = keeper.within(PATIENCE, move || own.restore_by(restore));
    left.unwrap_or_else(|| vec![format!("not given back within {} s: the disk is waited for", PATIENCE.as_secs())])
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    fn change() -> Change {
        Change { key: "tcp_tso_rtt_log".into(), old: "9".into(), new: "0".into() }
    }

    #[test]
    fn the_loop_waits_for_no_note_and_the_end_not_for_long() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::new(dir.path());
        let mut keeper = Keeper::default();
        let (go, wait) = mpsc::sync_channel::<()>(1);
        assert!(keeper.leave(move || _ = wait.recv()), "it waits for a disk");
        set(&mut keeper, &journal, || Applied { changes: vec![change()], ..Applied::default() });
        assert_eq!(journal.read(), [], "nothing is noted yet, and nobody waited");
        let (told, restored) = mpsc::sync_channel(1);
        let began = Instant::now();
        let left = give_back(&mut keeper, &journal, move |changes| {
            let _ = told.send(changes.to_vec());
            Vec::new()
        });
        assert!(began.elapsed() >= PATIENCE && left.len() == 1 && left[0].contains("within 1 s"), "{left:?}");
        // The disk comes back: what was set is given back, since one follows the other.
        drop(go);
        assert_eq!(restored.recv_timeout(Duration::from_secs(30)), Ok(vec![change()]));
        let ended = keeper.within(Duration::from_secs(30), || ());
        assert!(ended.is_some() && journal.read().is_empty());
    }

    #[test]
    fn what_is_left_is_said() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut keeper, journal) = (Keeper::default(), Journal::new(dir.path()));
        set(&mut keeper, &journal, || Applied { changes: vec![change()], ..Applied::default() });
        let left =
            give_back(&mut keeper, &journal, |changes| changes.iter().map(|change| change.key.clone()).collect());
        assert_eq!(left, ["tcp_tso_rtt_log"]);
    }
}
