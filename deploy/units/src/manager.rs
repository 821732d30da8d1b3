//! What is left of a service manager: a root in which services run, their start, their word that they are ready, the
//! watchdog, reload and stop.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::confine::{self, NOTIFY};
use crate::unit::{Unit, UnitError};

/// The user `sluice` of a bare root: nobody's number on any machine.
const USER: u32 = 61_234;
/// Where a root has what links and loads programs, by name, where this machine's are links.
const LINKS: [&str; 5] = ["bin", "sbin", "lib", "lib32", "lib64"];

/// What went wrong with a service, for people.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Its unit.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A step that the system refused.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        why: String,
    },
    /// It did not do in time what it had to, or ended instead.
    #[error("{unit}: {what}; its log:\n{log}")]
    Failed {
        /// The unit.
        unit: String,
        /// What it did instead.
        what: String,
        /// What it had said.
        log: String,
    },
}

fn system<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> ServiceError {
    let what = what.to_string();
    move |why| ServiceError::System { what, why: why.to_string() }
}

/// A directory that is a host's root.
#[derive(Clone, Debug)]
pub struct Root {
    /// The directory.
    pub dir: PathBuf,
    /// This machine's `/usr` shines through, but for `/usr/bin`.
    pub bare: bool,
}

impl Root {
    /// A bare root with these programs in `/usr/bin`, a user `sluice`, and what tmpfiles.d makes below `/run`.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn bare(dir: &Path, programs: &[&Path], tmpfiles: &str) -> Result<Root, ServiceError> {
        let made = |path: &str| fs::create_dir_all(dir.join(path)).map_err(system(path));
        for path in ["etc", "usr/bin", "var/lib", "var/tmp", "run/systemd", "run/user", "tmp", "home", "root"] {
            made(path)?;
        }
        for name in LINKS {
            let at = Path::new("/").join(name);
            match fs::read_link(&at) {
                Ok(target) => symlink(target, dir.join(name)).map_err(system(at.display()))?,
                Err(_) if at.is_dir() => made(name)?,
                Err(_) => {}
            }
        }
        // Nobody but the services comes through here, and they are not root.
        fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(system(dir.display()))?;
        for program in programs {
            let at = dir.join("usr/bin").join(program.file_name().unwrap_or_default());
            fs::copy(program, &at).map_err(system(program.display()))?;
        }
        for (file, rest) in [("passwd", format!("{USER}::/nonexistent:/usr/sbin/nologin")), ("group", String::new())] {
            let text = format!("root:x:0:0\nsluice:x:{USER}:{rest}\n");
            fs::write(dir.join("etc").join(file), text).map_err(system(file))?;
        }
        for line in tmpfiles.lines().filter(|line| line.starts_with("d /run/")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(path), Some(mode)) =
                (words.get(1), words.get(2).and_then(|mode| u32::from_str_radix(mode, 8).ok()))
            else {
                return Err(system(line)("is no line of tmpfiles.d that is known here"));
            };
            let at = dir.join(path.trim_start_matches('/'));
            fs::create_dir_all(&at).map_err(system(path))?;
            fs::set_permissions(&at, Permissions::from_mode(mode)).map_err(system(path))?;
            chown(&at, Some(USER), Some(USER)).map_err(system(path))?;
        }
        Ok(Root { dir: dir.to_owned(), bare: true })
    }

    /// A path of the root, from outside.
    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path.trim_start_matches('/'))
    }

    /// Number of a user or group of this root, `passwd` or `group`.
    pub fn id(&self, file: &str, name: &str) -> Option<u32> {
        confine::id(&self.dir, file, name)
    }
}

/// A service of a root that may run or not.
#[derive(Debug)]
pub struct Service {
    /// `sluice-unit`.
    pub launcher: PathBuf,
    /// The unit and its drop-ins.
    pub files: (PathBuf, Vec<PathBuf>),
    /// Where it runs.
    pub root: Root,
    /// Where its words go.
    pub log: PathBuf,
    unit: Unit,
    manager: UnixDatagram,
    /// Since when a word of life has been due.
    alive: Instant,
    child: Option<Child>,
}

impl Service {
    /// A service that does not run yet. Its words are appended to `log`.
    ///
    /// # Errors
    /// A unit that is not understood, or a socket that cannot be made.
    pub fn new(
        launcher: &Path,
        files: (PathBuf, Vec<PathBuf>),
        root: &Root,
        log: &Path,
    ) -> Result<Service, ServiceError> {
        let unit = Unit::read(&files.0, &files.1)?;
        let notify = root.at(NOTIFY);
        fs::create_dir_all(root.at("/run/systemd")).map_err(system(notify.display()))?;
        match fs::remove_file(&notify) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(system(notify.display())(e)),
            _ => {}
        }
        // The path of a root may be longer than that of a socket.
        let dir = File::open(root.at("/run/systemd")).map_err(system(notify.display()))?;
        let short = format!("/proc/self/fd/{}/notify", std::os::fd::AsRawFd::as_raw_fd(&dir));
        let manager = UnixDatagram::bind(&short).map_err(system(notify.display()))?;
        fs::set_permissions(&notify, Permissions::from_mode(0o777)).map_err(system(notify.display()))?;
        let (launcher, log) = (launcher.to_owned(), log.to_owned());
        Ok(Service { launcher, files, root: root.clone(), log, unit, manager, alive: Instant::now(), child: None })
    }

    /// The unit.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// The launcher for one of the unit's command lines; who spawns it decides in which network namespace and cgroup.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn command(&self, directive: &str, at: usize) -> Result<Command, ServiceError> {
        let log = File::options().create(true).append(true).open(&self.log).map_err(system(self.log.display()))?;
        let mut command = Command::new(&self.launcher);
        command.arg("run").arg("--root").arg(&self.root.dir).args(["--line", directive, "--at", &at.to_string()]);
        command.args(self.root.bare.then_some("--bare")).arg("--die-with-parent");
        if let Some(child) = &self.child {
            command.args(["--main-pid", &child.id().to_string()]);
        }
        for file in &self.files.1 {
            command.arg("--drop-in").arg(file);
        }
        command.arg(&self.files.0).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(system(self.log.display()))?).stderr(log);
        Ok(command)
    }

    /// Starts it, and waits until it says that it is ready; of type `simple` it is so at once. `spawn` runs the launcher.
    ///
    /// # Errors
    /// When it ends or is not ready in `patience`.
    pub fn start(
        &mut self,
        patience: Duration,
        spawn: impl FnOnce(Command) -> std::io::Result<Child>,
    ) -> Result<(), ServiceError> {
        while self.hear(Duration::from_millis(1)).is_some() {} // What an earlier one had to say.
        self.child = Some(spawn(self.command("ExecStart", 0)?).map_err(system(self.files.0.display()))?);
        let began = Instant::now();
        while self.unit.one("Type") == Some("notify") {
            if let Some(said) = self.hear(Duration::from_millis(50))
                && said.lines().any(|line| line == "READY=1")
            {
                break;
            }
            if let Some(status) = self.ended()? {
                return Err(self.failed(format!("ended with {status} instead of being ready")));
            }
            if began.elapsed() > patience {
                return Err(self.failed(format!("is not ready in {patience:?}")));
            }
        }
        self.alive = Instant::now();
        Ok(())
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The next thing that it tells its manager within this time. Words of life reset the watchdog.
    pub fn hear(&mut self, time: Duration) -> Option<String> {
        let mut buffer = [0; 4096];
        self.manager.set_read_timeout(Some(time)).ok()?;
        let length = self.manager.recv(&mut buffer).ok()?;
        let said = String::from_utf8_lossy(buffer.get(..length)?).into_owned();
        if said.lines().any(|line| line == "WATCHDOG=1") {
            self.alive = Instant::now();
        }
        Some(said)
    }

    /// Listens for this time; a service with a watchdog must say meanwhile, often enough, that it is alive.
    ///
    /// # Errors
    /// When it is silent for longer than `WatchdogSec`: a manager would kill and restart it; or when it ended.
    pub fn watch(&mut self, time: Duration) -> Result<(), ServiceError> {
        let began = Instant::now();
        while began.elapsed() < time {
            self.hear(Duration::from_millis(50));
            if let Some(limit) = self.unit.time("WatchdogSec")
                && self.alive.elapsed() > limit
            {
                return Err(self.failed(format!("says nothing for longer than WatchdogSec={limit:?}")));
            }
            if let Some(status) = self.ended()? {
                return Err(self.failed(format!("ended with {status}")));
            }
        }
        Ok(())
    }

    /// Runs every command line of a directive, one after the other, until one fails; its status.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn run_all(
        &self,
        directive: &str,
        mut spawn: impl FnMut(Command) -> std::io::Result<Child>,
    ) -> Result<ExitStatus, ServiceError> {
        let mut status = ExitStatus::default();
        for at in 0..self.unit.all("Service", directive).len() {
            let mut child = spawn(self.command(directive, at)?).map_err(system(directive))?;
            status = child.wait().map_err(system(directive))?;
            if !status.success() {
                break;
            }
        }
        Ok(status)
    }

    /// Ends it as a manager does: SIGTERM, and SIGKILL after `TimeoutStopSec`. Its status.
    ///
    /// # Errors
    /// When it does not run, or had to be killed.
    pub fn stop(&mut self) -> Result<ExitStatus, ServiceError> {
        let patience = self.unit.time("TimeoutStopSec").unwrap_or(Duration::from_secs(90));
        self.signal(Signal::SIGTERM)?;
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                self.child = None;
                return Ok(status);
            }
            if began.elapsed() > patience {
                self.signal(Signal::SIGKILL)?;
                return Err(self.failed(format!("does not end in {patience:?} after SIGTERM")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it, as the watchdog of a manager does, and takes its status away.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> Result<ExitStatus, ServiceError> {
        self.signal(Signal::SIGKILL)?;
        let what = self.files.0.display().to_string();
        let Some(mut child) = self.child.take() else { return Err(self.failed("does not run".into())) };
        child.wait().map_err(system(what))
    }

    /// Does it run?
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, signal: Signal) -> Result<(), ServiceError> {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| self.failed("does not run".into()))?;
        kill(Pid::from_raw(pid), signal).map_err(system(signal))
    }

    /// Its status, if it has ended.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, ServiceError> {
        let what = self.files.0.display().to_string();
        self.child.as_mut().map_or(Ok(None), Child::try_wait).map_err(system(what))
    }

    fn failed(&self, what: String) -> ServiceError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        ServiceError::Failed { unit: self.files.0.display().to_string(), what, log }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
