//! A mode that is kept over a restart, in `sluiced.d/90-mode.toml` of the state directory: below /etc the service may not
//! write. A thread that may wait for the disk writes it, and then answers whoever asked.

use std::sync::mpsc::SyncSender;

use sluice_wire::snapshot::{Outcome, Refused};

use crate::config::{self, Config, Mode};
use crate::stored::{Keeper, replace_in};

const FILE: &str = "90-mode.toml";
const HELP: &str = "make node.state_dir a directory that the daemon may write";

/// Was the mode of this configuration set by `sluice mode --persist`?
pub(super) fn by_hand(loaded: &config::Loaded) -> bool {
    let kept = loaded.config.kept_settings().join(FILE);
    loaded.origins.get("mode").is_some_and(|origin| origin.file == kept)
}

/// Keeps the mode and answers with `outcome`, or says why it is not kept.
pub(super) fn keep(
    keeper: &mut Keeper,
    config: &Config,
    mode: Mode,
    outcome: Outcome,
    answer: SyncSender<Result<Outcome, Refused>>,
) {
    let (dir, waiting) = (config.kept_settings(), answer.clone());
    let left = keeper.leave(move || {
        let text = format!("# Set by `sluice mode --persist`.\nmode = \"{}\"\n", mode.word());
        let kept = replace_in(&dir, FILE, text.as_bytes());
        let told = kept.map_err(|error| not_kept(&error.to_string())).map(|file| {
            let message = format!("{}, kept in {}", outcome.message, file.display());
            Outcome { message, ..outcome }
        });
        drop(answer.try_send(told)); // A caller that has gone away is not told.
    });
    if !left {
        drop(waiting.try_send(Err(not_kept("what was asked before is not on the disk yet"))));
    }
}

fn not_kept(why: &str) -> Refused {
    Refused::new("E_PERM", format!("the mode changed, but is not kept: {why}"), HELP)
}

/// A mode is kept no longer.
pub(super) fn forget(config: &Config) -> Result<(), Refused> {
    let kept = config.kept_settings().join(FILE);
    match std::fs::remove_file(&kept) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let message = format!("{} keeps a mode by hand and cannot be removed: {error}", kept.display());
            Err(Refused::new("E_PERM", message, HELP))
        }
        _ => Ok(()),
    }
}
