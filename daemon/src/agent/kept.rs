//! A mode that is kept over a restart, in `sluiced.d/90-mode.toml` of the state directory: below /etc the service may not
//! write. A thread that may wait for the disk writes and removes it, in the order in which that was asked for, and then
//! answers whoever asked: of two who ask at once the last has his way.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use sluice_wire::snapshot::{Command, Outcome, Refused};

use crate::config::{self, Config, Mode};
use crate::stored::{self, Keeper};

const FILE: &str = "90-mode.toml";
const HELP: &str = "make node.state_dir a directory that the daemon may write";

/// Was the mode of this configuration set by `sluice mode --persist`?
pub(super) fn by_hand(loaded: &config::Loaded) -> bool {
    let kept = loaded.config.kept_settings().join(FILE);
    loaded.origins.get("mode").is_some_and(|origin| origin.file == kept)
}

/// What a command means for the mode that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The mode that it sets is kept.
    Keep,
    /// None is kept any more.
    Forget,
}

impl Wish {
    /// Of a command; `None`: what is kept stays as it is.
    pub(super) const fn of(command: &Command) -> Option<Wish> {
        match command {
            Command::Mode(asked) if asked.job.is_some() => None,
            Command::Mode(asked) if asked.fleet => Some(Wish::Forget),
            Command::Mode(asked) if asked.persist => Some(Wish::Keep),
            Command::Mode(_) | Command::Reload | Command::Drain(_) | Command::Log(_) => None,
        }
    }

    /// Has it done, where `mode` was set by the command and `outcome` came of it, and answers with that; or says why it was not.
    pub(super) fn carry_out(
        self,
        keeper: &mut Keeper,
        config: &Config,
        mode: Mode,
        outcome: Outcome,
        answer: SyncSender<Result<Outcome, Refused>>,
    ) {
        let (dir, waiting) = (config.kept_settings(), answer.clone());
        let left = keeper.leave(move || {
            let told = match self {
                Wish::Keep => keep(&dir, mode).map(|file| {
                    let message = format!("{}, kept in {}", outcome.message, file.display());
                    Outcome { message, ..outcome }
                }),
                Wish::Forget => stored::remove(&dir.join(FILE)).map(|()| outcome),
            };
            // A caller that has gone away is not told.
            drop(answer.try_send(told.map_err(|error| self.not_done(&error.to_string()))));
        });
        if !left {
            drop(waiting.try_send(Err(self.not_done("what was asked before is not on the disk yet"))));
        }
    }

    fn not_done(self, why: &str) -> Refused {
        let message = match self {
            Wish::Keep => format!("the mode changed, but is not kept: {why}"),
            Wish::Forget => {
                format!("the fleet's mode holds, but {FILE} still keeps one by hand for the next start: {why}")
            }
        };
        Refused::new("E_PERM", message, HELP)
    }
}

fn keep(dir: &Path, mode: Mode) -> io::Result<PathBuf> {
    let text = format!("# Set by `sluice mode --persist`.\nmode = \"{}\"\n", mode.word());
    stored::replace_in(dir, FILE, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::time::Duration;

    use sluice_wire::snapshot::{DrainRequest, ModeRequest};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// A keeper that does nothing before the other end is dropped.
    fn held() -> (Keeper, std::sync::mpsc::SyncSender<()>) {
        let (go, wait) = sync_channel(1);
        let mut keeper = Keeper::default();
        assert!(keeper.leave(move || _ = wait.recv()));
        (keeper, go)
    }

    fn asks(wish: Wish, keeper: &mut Keeper, config: &Config) -> Receiver<Result<Outcome, Refused>> {
        let (answer, wait) = sync_channel(1);
        wish.carry_out(keeper, config, Mode::Bypass, Outcome::default(), answer);
        wait
    }

    #[test]
    fn of_two_who_ask_at_once_the_last_has_his_way() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = Config::default();
        config.node.state_dir = dir.path().to_owned();
        let kept = config.kept_settings().join(FILE);
        for (wishes, stays) in [([Wish::Keep, Wish::Forget], false), ([Wish::Forget, Wish::Keep], true)] {
            let (mut keeper, go) = held();
            let answers = wishes.map(|wish| asks(wish, &mut keeper, &config));
            assert!(answers.iter().all(|answer| answer.try_recv().is_err()), "nobody waits for the disk meanwhile");
            drop(go);
            for (wish, answer) in wishes.into_iter().zip(answers) {
                let outcome = answer.recv_timeout(LONG).expect("an answer").expect("it is done");
                assert_eq!(outcome.message.contains(FILE), wish == Wish::Keep, "{}", outcome.message);
            }
            assert_eq!(kept.exists(), stays, "{wishes:?}");
        }
        // Where nothing is kept there is nothing to forget; and what cannot be done is said.
        let (mut keeper, go) = held();
        drop(go);
        std::fs::remove_dir_all(config.kept_settings()).expect("removed");
        let forgotten = asks(Wish::Forget, &mut keeper, &config).recv_timeout(LONG).expect("an answer");
        assert!(forgotten.is_ok(), "{forgotten:?}");
        std::fs::write(config.kept_settings(), "in the way").expect("written");
        for wish in [Wish::Keep, Wish::Forget] {
            let refused =
                asks(wish, &mut keeper, &config).recv_timeout(LONG).expect("an answer").expect_err("in the way");
            assert_eq!(refused.message.contains(FILE), wish == Wish::Forget, "{}", refused.message);
        }
    }

    #[test]
    fn what_a_command_means_for_the_mode_that_is_kept() {
        let asked = |fleet, persist, job: Option<&str>| {
            Command::Mode(ModeRequest { fleet, persist, job: job.map(str::to_owned), ..ModeRequest::default() })
        };
        for (command, wish) in [
            (asked(false, false, None), None),
            (asked(false, true, None), Some(Wish::Keep)),
            (asked(true, false, None), Some(Wish::Forget)),
            (asked(true, true, None), Some(Wish::Forget)),
            (asked(false, true, Some("a")), None),
            (Command::Drain(DrainRequest::default()), None),
            (Command::Reload, None),
        ] {
            assert_eq!(Wish::of(&command), wish, "{command:?}");
        }
    }
}
