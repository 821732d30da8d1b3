//! A daemon or a switch of a run as a process: its start, its end, its start again, and what it says of itself.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{KillOnDrop, RunError};
use crate::fabric::{Cgroup, NetNs};

/// How long a daemon may take until it is ready.
const READY: Duration = Duration::from_secs(20);

/// One process of ours that is not a job.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: &'static str,
    pub(super) host: String,
    pub(super) child: KillOnDrop,
    /// It was killed on purpose, and nobody has started it again.
    pub(super) down: bool,
    program: PathBuf,
    config: PathBuf,
}

impl Process {
    /// Starts `program` with this configuration; its log stands beside it.
    pub(super) fn start(
        name: &'static str,
        host: &str,
        (ns, cgroup): (&NetNs, &Cgroup),
        program: PathBuf,
        config: PathBuf,
    ) -> Result<Process, RunError> {
        let child = spawn((ns, cgroup), &program, &config)?;
        Ok(Process { name, host: host.into(), child, down: false, program, config })
    }

    /// Kills it at once, as `kill -9` does, and takes its status away.
    pub(super) fn kill(&mut self) {
        self.down = true;
        self.child.end();
    }

    /// Starts it anew after [`Process::kill`], with the configuration and the log that it had.
    pub(super) fn start_again(&mut self, (ns, cgroup): (&NetNs, &Cgroup)) -> Result<(), RunError> {
        self.child = spawn((ns, cgroup), &self.program, &self.config)?;
        self.down = false;
        Ok(())
    }

    /// Tells it to end and waits so long; how it ended.
    pub(super) fn end(&mut self, patience: Duration) -> Result<ExitStatus, RunError> {
        self.signal(Signal::SIGTERM);
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.kill();
                return Err(self.failed(&format!("did not end within {} s of SIGTERM", patience.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// How it ended, if it has; then it counts as down on purpose.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.0.try_wait().ok().flatten()?;
        self.down = true;
        Some(status)
    }

    /// It is this program from its next start on.
    pub(super) fn replace(&mut self, program: PathBuf) {
        self.program = program;
    }

    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.0.id())
            && !self.down
        {
            // It may have ended; then there is nobody to tell.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Does it run, or is it down on purpose?
    pub(super) fn is_as_it_should_be(&self) -> bool {
        self.down || alive(self.child.0.id())
    }

    fn log(&self) -> PathBuf {
        self.config.with_extension("log")
    }

    /// The first plan that it refused to follow, if any.
    pub(super) fn rejected(&self) -> Option<String> {
        let why = rejection(&std::fs::read_to_string(self.log()).unwrap_or_default())?;
        Some(format!("{} on {} does not follow: {why}", self.name, self.host))
    }

    pub(super) fn failed(&self, what: &str) -> RunError {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        let last: Vec<&str> = lines.into_iter().rev().collect();
        let what = format!("{what}; last lines of {}:\n  {}", self.log().display(), last.join("\n  "));
        RunError::Daemon { name: self.name, host: self.host.clone(), what }
    }
}

/// Why a daemon refused a plan, if its log says that it did.
fn rejection(log: &str) -> Option<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut rejected = lines.filter(|line| line["event"] == "plan-rejected");
    rejected.find_map(|line| line["msg"].as_str().map(str::to_owned))
}

pub(super) fn await_ready(process: &mut Process, mut ready: impl FnMut() -> bool) -> Result<(), RunError> {
    let deadline = Instant::now() + READY;
    while !ready() {
        if let Ok(Some(status)) = process.child.0.try_wait() {
            return Err(process.failed(&format!("ended with {status} before it was ready")));
        }
        if Instant::now() > deadline {
            return Err(process.failed("was not ready within 20 s"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Does a process run? One whose status nobody took does not.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X') | None))
}

fn spawn((ns, cgroup): (&NetNs, &Cgroup), program: &Path, config: &Path) -> Result<KillOnDrop, RunError> {
    let log = config.with_extension("log");
    let open = || File::options().create(true).append(true).open(&log);
    let out = open().map_err(RunError::io(format!("opening {}", log.display())))?;
    let err = open().map_err(RunError::io(format!("opening {}", log.display())))?;
    let mut command = Command::new(program);
    command.arg("--config").arg(config).stdin(Stdio::null()).stdout(out).stderr(err);
    Ok(KillOnDrop(ns.spawn(command, Some(cgroup.procs()?))?))
}

fn request(stream: &mut (impl Read + Write), route: &str) -> Option<(u16, String)> {
    let text = format!("GET {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(64 << 20).read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split_whitespace().nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Some((status, body.to_owned()))
}

pub(super) fn ask_unix(socket: &Path, route: &str) -> Option<(u16, String)> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    request(&mut stream, route)
}

pub(super) fn ask_tcp(address: &str, route: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    request(&mut stream, route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_plan_that_was_refused_is_told() {
        let line = |event: &str, message: &str| serde_json::json!({"event": event, "msg": message}).to_string();
        let log = [
            line("start", "sluiced runs"),
            "no JSON".into(),
            line("plan-rejected", "job a: plan.json: E_RANGE"),
            line("plan-rejected", "over: job a: plan.json: E_RANGE"),
        ];
        assert_eq!(rejection(&log.join("\n")).as_deref(), Some("job a: plan.json: E_RANGE"));
        assert_eq!(rejection(&log[..2].join("\n")), None);
        assert_eq!(rejection(""), None);
    }
}
