//! Becoming two: the process starts itself once more as its helper and gives up everything itself, before it has a thread or
//! a word from the network.
//!
//! It is the brain that stays the process that was started, with its pid: whoever signals, waits for or watches the daemon
//! means the one that decides. The helper is a new program image, not a copy, so that who has found out where things lie in one
//! knows nothing of the other. Whichever ends, the other does: the helper when its lines break, the brain when its child is gone.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{User, chown, geteuid};

use super::calls::Process;
use super::confine::{self, ConfineError};
use super::helper::{self, Known};
use super::line::{End, Line};
use super::remote::Helper;
use crate::config::{self, Loaded};
use crate::logging;

/// Exit status when the helper has ended.
pub const EXIT_HELPER: u8 = 5;
/// Whom the brain runs as where the configured user is none.
const NOBODY: &str = "nobody";
/// A nice value of -10 for the deciding thread, as the kernel counts it here.
const NICE: u64 = 30;

/// Why there are not two.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    #[error("privilege.split: the process has {0} threads already, and each would keep what one gives up")]
    Threads(usize),
    #[error("privilege.split: a line to the helper: {0}")]
    Line(io::Error),
    #[error("privilege.split: the helper cannot be started: {0}")]
    Start(io::Error),
    #[error("privilege.split: the helper does not answer: {0}; what it says stands above")]
    Silent(io::Error),
    #[error("privilege.split: there is neither a user {0} nor nobody")]
    NoUser(String),
    #[error("privilege.split: {path}: {error}")]
    Directory { path: PathBuf, error: io::Error },
    #[error("privilege.split: {0}")]
    Confine(#[from] ConfineError),
}

/// The brain's side of a split.
pub struct Split {
    pub helper: Arc<Helper>,
    child: Child,
    /// Whom this process runs as now.
    pub user: String,
}

/// Starts the helper, gives up what this process has, and greets it. The process must have one thread.
///
/// # Errors
/// Why it was not done; the process may have given up some of its privileges then, and has to end.
pub fn become_two(loaded: &Loaded, file: Option<&Path>) -> Result<Split, SplitError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads != 1 {
        return Err(SplitError::Threads(threads));
    }
    let [deciding, far_deciding] = End::pair().map_err(SplitError::Line)?;
    let [looking, far_looking] = End::pair().map_err(SplitError::Line)?;
    let child = spawn(file, [&far_deciding, &far_looking])?;
    drop((far_deciding, far_looking));
    let user = if geteuid().is_root() { Some(user(&loaded.config.privilege.user)?) } else { None };
    if let Some(user) = &user {
        make_over(&loaded.config.node.run_dir, user)?;
        allow_haste();
    }
    confine::become_nobody(user.as_ref())?;
    confine::filter(Process::Brain)?;
    let helper = Helper::new(Line::new(deciding), Line::new(looking));
    helper.greet().map_err(SplitError::Silent)?;
    let user = user.map_or_else(|| format!("uid {}", geteuid()), |user| user.name);
    Ok(Split { helper: Arc::new(helper), child, user })
}

impl Split {
    /// Says what came of it, once there is a log.
    pub fn tell(&self, loaded: &Loaded) {
        let wanted = &loaded.config.privilege.user;
        if self.user == NOBODY && wanted != NOBODY {
            tracing::warn!(
                event = "split-user",
                user = NOBODY,
                cost = "files of the daemon belong to a user that other programs may run as",
                next = "make the user (deploy/systemd/sluice.sysusers.conf), or set privilege.user",
                "there is no user {wanted}"
            );
        }
        let (helper, user) = (self.child.id(), &self.user);
        tracing::info!(event = "split", helper, user, "a helper has the privileges, and this process has none");
    }

    /// The helper's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends this process as soon as the helper has ended: nothing could be captured, seen or set any more, and the service
    /// manager starts both anew. Flows fall back by themselves.
    ///
    /// # Errors
    /// When there can be no further thread.
    pub fn watch(self) -> io::Result<()> {
        let Split { helper, mut child, .. } = self;
        let body = move || {
            // The lines break with this process, and not before: the helper's end is never this one's.
            let _lines = helper;
            let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            tracing::error!(
                event = "helper-ended",
                status,
                cost = "the daemon ends; flows fall back to ordinary congestion control within their orders' life",
                next =
                    "the service manager starts it again; if it comes again, report it with the lines before this one",
                "the helper has ended"
            );
            std::process::exit(EXIT_HELPER.into());
        };
        std::thread::Builder::new().name("helper-watch".into()).spawn(body).map(drop)
    }
}

fn spawn(file: Option<&Path>, lines: [&End; 2]) -> Result<Child, SplitError> {
    let mut numbers = Vec::new();
    for fd in lines.iter().flat_map(|line| line.descriptors()) {
        // Nobody else starts anything meanwhile: there is one thread.
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|errno| SplitError::Line(errno.into()))?;
        numbers.push(std::os::fd::AsRawFd::as_raw_fd(&fd).to_string());
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("sluiced-helper").arg("helper").arg("--lines").arg(numbers.join(",")).stdin(Stdio::null());
    if let Some(file) = file {
        command.arg("--config").arg(file);
    }
    // The service manager hears of the brain only.
    command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
    command.spawn().map_err(SplitError::Start)
}

fn user(name: &str) -> Result<User, SplitError> {
    let find = |name: &str| User::from_name(name).ok().flatten();
    find(name).or_else(|| find(NOBODY)).ok_or_else(|| SplitError::NoUser(name.to_owned()))
}

/// Makes the run directory for the user, if it is missing: where it lies only root may make one.
fn make_over(path: &Path, user: &User) -> Result<(), SplitError> {
    let failed = |error| SplitError::Directory { path: path.to_owned(), error };
    if path.symlink_metadata().is_ok() {
        return Ok(()); // Whether it will do is judged by who uses it.
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).map_err(failed)?;
    std::fs::DirBuilder::new().mode(0o755).create(path).map_err(failed)?;
    chown(path, Some(user.uid), Some(user.gid)).map_err(|errno| failed(errno.into()))
}

/// What root may and its successor could not: a real-time thread, and nice values below 0.
fn allow_haste() {
    for (resource, least) in [(Resource::RLIMIT_RTPRIO, 1), (Resource::RLIMIT_NICE, NICE)] {
        if let Ok((soft, hard)) = getrlimit(resource) {
            // Refused, it decides in an ordinary thread and says so.
            let _ = setrlimit(resource, soft.max(least), hard.max(least));
        }
    }
}

/// The helper's life: `lines` are four descriptors that were left open for it.
pub fn help(lines: &[i32], file: Option<&Path>) -> ExitCode {
    match try_to_help(lines, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("sluiced helper: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_to_help(lines: &[i32], file: Option<&Path>) -> anyhow::Result<()> {
    let [socket, desk, other_socket, other_desk] = *lines else {
        anyhow::bail!("four descriptors are needed; a daemon starts it for itself");
    };
    let mut taken = Vec::new();
    for fd in [socket, desk, other_socket, other_desk] {
        anyhow::ensure!(fd > 2 && !taken.contains(&fd), "descriptor {fd} is none of a line");
        taken.push(fd);
        // SAFETY: only looks whether there is such a descriptor.
        anyhow::ensure!(
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0,
            "descriptor {fd} is not open"
        );
    }
    // SAFETY: each is open, as was just seen, no other, and nothing else in this process knows of it.
    let own = |fd: i32| unsafe { OwnedFd::from_raw_fd(fd) };
    let (deciding, looking) = (End::of(own(socket), own(desk)), End::of(own(other_socket), own(other_desk)));
    nix::sys::prctl::set_name(c"sluiced-helper")?;
    // Whoever ends the daemon ends the brain; it may need its helper until then.
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: to ignore a signal calls nothing.
        unsafe { sigaction(signal, &ignore) }?;
    }
    let loaded = config::load_administrators(file)?;
    let mut kept = confine::HELPERS.to_vec();
    if loaded.config.capture.environ {
        kept.push(confine::FOR_ENVIRONMENTS);
    }
    // Before there is a second thread, which would keep what it has.
    confine::keep(&kept)?;
    let filter = logging::start(&loaded.config.log);
    sluice_logs::abort_on_panic("the brain ends too; flows fall back to ordinary congestion control", || {});
    let known = Known::new(&loaded);
    // Once, while it may mount.
    known.prepare();
    confine::filter(Process::Helper)?;
    tracing::info!(
        event = "helper-ready",
        uid = geteuid().as_raw(),
        environ = loaded.config.capture.environ,
        "the helper is ready"
    );
    helper::serve(deciding, looking, known)?;
    filter.finish();
    Ok(())
}
