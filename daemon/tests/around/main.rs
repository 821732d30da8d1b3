//! What surrounds the program: its log, its audit file, the files that others start it and its jobs by, and what single
//! keys change of it.

mod askers;
mod audit;
mod crash;
mod fleet;
mod keys;
mod kubernetes;
mod logs;
mod page;
mod slurm;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Nothing here takes this long on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A directory of the repository.
fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a repository").join(path)
}

/// The program with a configuration in `dir` that enforces nothing and listens on its Unix socket only.
fn program(dir: &Path) -> Command {
    let file = dir.join("sluiced.toml");
    let (run, state) = (dir.join("run"), dir.join("state"));
    let text = format!(
        "[node]\nname = \"h0\"\nrun_dir = {run:?}\nstate_dir = {state:?}\n[enforce]\nbackend = \"none\"\n[http]\nlisten = []\n[peer]\nlisten = []\n"
    );
    std::fs::write(&file, text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluiced"));
    command.arg("--config").arg(file);
    for variable in ["SLUICE_LOG", "NOTIFY_SOCKET", "JOURNAL_STREAM"] {
        command.env_remove(variable);
    }
    command
}

/// A daemon that runs, and ends with this.
struct Running {
    child: Child,
    dir: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(dir: &Path, command: &mut Command) -> Running {
        let child = command.spawn().expect("starts");
        let mut running = Running { child, dir: dir.to_owned() };
        running.wait_until(|running| running.ask("GET", "/readyz", "").is_some_and(|(status, _)| status == 200));
        running
    }

    fn wait_until(&mut self, done: impl Fn(&Running) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(self.child.try_wait().expect("waited for").is_none(), "it has ended");
            assert!(began.elapsed() < PATIENCE, "not in 30 s");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(self.dir.join("run/sluiced.sock")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split_whitespace().nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("it lives");
    }

    fn end(&mut self) {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let began = Instant::now();
        while self.child.try_wait().expect("waited for").is_none() {
            assert!(began.elapsed() < PATIENCE, "does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
