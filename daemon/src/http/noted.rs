//! A command as the audit log has it: what was asked, by whom, and what came of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_wire::audit::{self, Entry};
use sluice_wire::snapshot::{Command, Outcome, Refused};

use super::guard::Caller;

/// What was asked, in words, before it is carried out.
pub(super) struct Noted {
    command: &'static str,
    asked: String,
    reason: String,
    unix_ns: u64,
}

impl Noted {
    /// Of a command that comes now; `reason` where the command itself has none.
    pub(super) fn new(command: &Command, reason: Option<String>) -> Noted {
        let for_time = |ns: Option<u64>| ns.map(|ns| format!(" for {} s", ns / 1_000_000_000)).unwrap_or_default();
        let (command, asked, own) = match command {
            Command::Mode(request) => {
                let job = request.job.as_ref().map(|job| format!(" for job {job}")).unwrap_or_default();
                let kept = if request.persist { ", kept" } else { "" };
                let mode = if request.fleet { "fleet" } else { request.mode.as_str() };
                let asked = format!("{mode}{}{job}{kept}", for_time(request.for_ns));
                ("mode", asked, request.reason.clone())
            }
            Command::Reload => ("reload", String::new(), String::new()),
            Command::Drain(request) => ("drain", request.job.clone().unwrap_or_default(), request.reason.clone()),
            Command::Log(request) => {
                let asked = match &request.filter {
                    Some(filter) => format!("{filter}{}", for_time(request.for_ns)),
                    None => "show".into(),
                };
                ("log", asked, request.reason.clone())
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        Noted { command, asked, reason: reason.unwrap_or(own), unix_ns: now }
    }

    /// With who it was and the answer. Asks the system for a name, which may take a while.
    pub(super) fn entry(self, caller: Caller, answer: &Result<Outcome, Refused>, took: Duration) -> Entry {
        let Noted { command, asked, reason, unix_ns } = self;
        let (uid, pid) = match caller {
            Caller::Unix { uid, pid, .. } => (Some(uid), pid),
            Caller::Tcp(_) => (None, None),
        };
        let (result, message) = match answer {
            Ok(outcome) => (audit::Result::Done, outcome.message.clone()),
            Err(refused) => (audit::Result::Refused, refused.message.clone()),
        };
        Entry {
            unix_ns,
            uid,
            user: uid.and_then(name),
            pid,
            command: command.into(),
            asked,
            reason,
            result,
            message,
            took_ns: took.as_nanos() as u64,
            ..Entry::default()
        }
    }
}

fn name(uid: u32) -> Option<String> {
    nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

/// Tells that somebody may not give the command of this path. Not in the audit file: who may do nothing shall not be able to
/// push out what others did.
pub(super) fn refused(caller: Option<Caller>, path: &str) {
    let Some(Caller::Unix { uid, pid, .. }) = caller else { return };
    let command = path.rsplit('/').next().unwrap_or_default();
    let user = name(uid).unwrap_or_else(|| uid.to_string());
    tracing::warn!(
        event = "command-refused",
        user,
        uid,
        pid,
        command,
        cost = "nothing was done",
        next = "if the user shall command: make it a member of control.group",
        "a user who may not give commands tried to"
    );
}

#[cfg(test)]
mod tests {
    use sluice_wire::snapshot::{DrainRequest, LogRequest, Mode, ModeRequest};

    use super::*;

    #[test]
    fn what_was_asked_reads_like_the_command() {
        let mode = ModeRequest {
            mode: Mode::Active,
            for_ns: Some(600_000_000_000),
            persist: true,
            reason: "rack 7".into(),
            ..ModeRequest::default()
        };
        let job = ModeRequest { mode: Mode::Bypass, job: Some("a".into()), ..ModeRequest::default() };
        let log = LogRequest { filter: Some("debug".into()), for_ns: Some(5_000_000_000), ..LogRequest::default() };
        for (command, reason, is) in [
            (Command::Mode(mode), None, ("mode", "active for 600 s, kept", "rack 7")),
            (Command::Mode(job), None, ("mode", "bypass for job a", "")),
            (Command::Reload, Some("new file".to_owned()), ("reload", "", "new file")),
            (
                Command::Drain(DrainRequest { job: Some("b".into()), reason: "slow".into() }),
                None,
                ("drain", "b", "slow"),
            ),
            (Command::Log(log), None, ("log", "debug for 5 s", "")),
            (Command::Log(LogRequest::default()), None, ("log", "show", "")),
        ] {
            let noted = Noted::new(&command, reason);
            assert_eq!((noted.command, noted.asked.as_str(), noted.reason.as_str()), is);
        }
    }

    #[test]
    fn an_entry_names_the_user_and_the_answer() {
        let caller = Caller::Unix { uid: 0, gid: 0, pid: Some(5) };
        let answer = Err(Refused::new("E_RANGE", "too long", "write less"));
        let entry = Noted::new(&Command::Reload, None).entry(caller, &answer, Duration::from_millis(3));
        assert_eq!((entry.uid, entry.user.as_deref(), entry.pid), (Some(0), Some("root"), Some(5)));
        assert_eq!(
            (entry.result, entry.message.as_str(), entry.took_ns),
            (audit::Result::Refused, "too long", 3_000_000)
        );
        assert!(entry.unix_ns > 1_700_000_000_000_000_000);
    }
}
