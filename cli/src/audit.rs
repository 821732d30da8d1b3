//! `sluice audit`: the commands that this host's daemon was given, asked of the daemon or read from its file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args as ClapArgs;
use sluice_wire::audit::{Audit, Entry, Way};

use crate::client::Client;
use crate::failure::Failure;
use crate::format::age;
use crate::global::Global;
use crate::output;
use crate::table::Table;

/// Bytes of a file that are read; the daemon's own are smaller.
const MAX_BYTES: u64 = 16 << 20;

/// What `sluice audit` takes.
#[derive(Clone, Debug, ClapArgs)]
pub struct AuditArgs {
    /// At most so many, the last ones
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub last: u32,
    /// Read this file instead of asking the daemon; FILE.1 before it, if that is there
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

pub fn run(global: &Global, args: &AuditArgs) -> Result<(), Failure> {
    let audit = match &args.file {
        Some(file) => of_file(file, args.last as usize)?,
        None => Client::new(global)?.json(&format!("/api/v1/audit?last={}", args.last))?,
    };
    output::list(global, "entries", &audit.entries, || table(&audit, now()))
}

fn of_file(file: &Path, last: usize) -> Result<Audit, Failure> {
    let content = |path: &Path| {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes).map(|_| bytes)
    };
    let mut audit = Audit::default();
    let mut older = file.as_os_str().to_owned();
    older.push(".1");
    if let Ok(bytes) = content(Path::new(&older)) {
        audit.read(&bytes);
    }
    let help = "help: it is audit.jsonl in the daemon's node.state_dir; reading it needs root or the daemon's group";
    audit.read(&content(file).map_err(|error| Failure::input(format!("{}: {error}\n  {help}", file.display())))?);
    audit.keep(last);
    Ok(audit)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

fn table(audit: &Audit, now: u64) -> String {
    let mut table = Table::of(">ago  who  >pid  command  result  reason  answer");
    for entry in &audit.entries {
        table.row(vec![
            age(now.saturating_sub(entry.unix_ns)),
            who(entry),
            entry.pid.map_or_else(|| "-".into(), |pid| pid.to_string()),
            format!("{} {}", entry.command, entry.asked).trim_end().to_owned(),
            entry.result.as_str().to_owned(),
            if entry.reason.is_empty() { "-".into() } else { entry.reason.clone() },
            entry.message.clone(),
        ]);
    }
    let mut text = table.render(output::width());
    if audit.entries.is_empty() {
        text = "no command was given\n".into();
    }
    if audit.unreadable > 0 {
        text += &format!(
            "{} lines cannot be read: a crash has torn them, or they are not of this file\n",
            audit.unreadable
        );
    }
    if audit.unrecorded > 0 {
        text += &format!("{} commands could not be written; they stand in the daemon's log only\n", audit.unrecorded);
    }
    text
}

fn who(entry: &Entry) -> String {
    match (&entry.user, entry.uid, entry.way) {
        (Some(user), Some(uid), _) => format!("{user} ({uid})"),
        (None, Some(uid), _) => uid.to_string(),
        (_, None, Way::Signal) => "a signal".into(),
        (_, None, Way::Fleet) => "the fleet".into(),
        (_, None, Way::Start) => "its start".into(),
        (_, None, _) => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_who_what_why_and_what_came_of_it() {
        let entry = Entry {
            unix_ns: 1_000_000_000,
            uid: Some(1000),
            user: Some("ada".into()),
            pid: Some(77),
            command: "mode".into(),
            asked: "active".into(),
            reason: "rack 7 is next".into(),
            message: "observe -> active".into(),
            ..Entry::default()
        };
        let signal = Entry { way: Way::Signal, command: "reload".into(), ..Entry::default() };
        let audit = Audit { entries: vec![entry, signal], unreadable: 1, ..Audit::default() };
        let text = table(&audit, 61_000_000_000);
        for part in
            ["ada (1000)", "77", "mode active", "done", "rack 7 is next", "observe -> active", "a signal", "1 lines"]
        {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(table(&Audit::default(), 0).starts_with("no command"));
    }

    #[test]
    fn a_file_is_read_with_the_one_before_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("audit.jsonl");
        let line = |command: &str| format!("{{\"schema\":1,\"command\":\"{command}\"}}\n");
        std::fs::write(dir.path().join("audit.jsonl.1"), line("a") + &line("b")).expect("written");
        std::fs::write(&file, line("c") + "torn").expect("written");
        let audit = of_file(&file, 2).expect("read");
        let commands: Vec<&str> = audit.entries.iter().map(|entry| entry.command.as_str()).collect();
        assert_eq!((commands, audit.unreadable), (vec!["b", "c"], 1));
        assert_eq!(of_file(&dir.path().join("absent"), 2).expect_err("absent").code, 2);
    }
}
