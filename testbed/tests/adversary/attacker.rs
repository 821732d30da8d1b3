//! Processes of other users: an attacker has what every local user has and nothing else, in namespaces of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{ForkResult, Gid, Pid, Uid};
use sluice_progress::{Ident, Source};

/// The attacker.
pub const ATTACKER: u32 = 65534;
/// Somebody else, who is honest.
pub const VICTIM: u32 = 65533;
/// Longer than anything here takes, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One test at a time: what is measured is the machine's. `None`: this process cannot become other users, and the test is
/// skipped.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if nix::unistd::geteuid().is_root() {
        return Some(turn);
    }
    sluice_skip::skip!(Privilege, "only root can act as other users");
    None
}

/// Who a process is, and where.
#[derive(Clone, Debug, Default)]
pub struct Who {
    pub uid: u32,
    /// A thread whose network namespace it shares; `None`: it has one of its own.
    pub net_of: Option<i32>,
    /// A cgroup that it is put into.
    pub cgroup: Option<PathBuf>,
}

impl Who {
    /// The attacker, with a network namespace of its own.
    pub fn attacker() -> Who {
        Who { uid: ATTACKER, ..Who::default() }
    }
    pub fn victim() -> Who {
        Who { uid: VICTIM, ..Who::default() }
    }
    /// In this process's network namespace.
    pub fn here(self) -> Who {
        Who { net_of: Some(nix::unistd::gettid().as_raw()), ..self }
    }
}

/// A process of somebody's; killed and waited for when dropped.
#[derive(Debug)]
pub struct Local {
    pid: Pid,
}

impl Local {
    /// Runs `act` as somebody, and returns what it returned. The process then lives on with all that it holds.
    ///
    /// # Panics
    /// When the process cannot become that somebody, and when `act` panics.
    pub fn start<R: Answer>(who: Who, act: impl FnOnce() -> R) -> (Local, R) {
        let (reader, writer) = nix::unistd::pipe().expect("a pipe");
        let home = who.net_of.map(|tid| File::open(format!("/proc/{}/task/{tid}/ns/net", std::process::id())));
        let home = home.transpose().expect("the namespace is there");
        // SAFETY: the child works on its own copy of memory, never returns from here, and leaves by _exit.
        let pid = match unsafe { nix::unistd::fork() }.expect("a process") {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    become_somebody(&who, home.as_ref());
                    act()
                }));
                let mut out = File::from(writer);
                let text = match &result {
                    Ok(answer) => format!("+{}", answer.say()),
                    Err(panic) => {
                        let text = panic.downcast_ref::<String>().map(String::as_str);
                        format!("-{}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked"))
                    }
                };
                let told = out.write_all(text.as_bytes());
                drop(out);
                if told.is_ok() && result.is_ok() {
                    loop {
                        nix::unistd::pause();
                    }
                }
                // SAFETY: nothing of the parent's is run: no destructors, no buffers.
                unsafe { libc::_exit(1) }
            }
        };
        drop(writer);
        let local = Local { pid };
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).expect("text");
        match text.split_at_checked(1) {
            Some(("+", answer)) => (local, R::read(answer)),
            _ => panic!("user {}: {}", who.uid, text.get(1..).unwrap_or("ended without a word")),
        }
    }

    pub fn kill(&self) {
        let _ = nix::sys::signal::kill(self.pid, nix::sys::signal::Signal::SIGKILL);
        let _ = nix::sys::wait::waitpid(self.pid, None);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The same for somebody who is gone afterwards.
pub fn once<R: Answer>(who: Who, act: impl FnOnce() -> R) -> R {
    Local::start(who, act).1
}

/// What a process can answer.
pub trait Answer {
    fn say(&self) -> String;
    fn read(text: &str) -> Self;
}

impl Answer for () {
    fn say(&self) -> String {
        String::new()
    }
    fn read(_: &str) {}
}

impl Answer for String {
    fn say(&self) -> String {
        self.clone()
    }
    fn read(text: &str) -> String {
        text.to_owned()
    }
}

impl Answer for usize {
    fn say(&self) -> String {
        self.to_string()
    }
    fn read(text: &str) -> usize {
        text.parse().expect("a number")
    }
}

fn become_somebody(who: &Who, home: Option<&File>) {
    // SAFETY: prctl with these arguments takes integers and touches no memory.
    let set = |option, value: libc::c_ulong| assert_eq!(unsafe { libc::prctl(option, value, 0, 0, 0) }, 0, "prctl");
    if let Some(cgroup) = &who.cgroup {
        std::fs::write(cgroup.join("cgroup.procs"), "0").expect("into the cgroup");
    }
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC).expect("namespaces");
    match home {
        Some(home) => setns(home, CloneFlags::CLONE_NEWNET).expect("into the namespace"),
        None => unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace"),
    }
    let (uid, gid) = (Uid::from_raw(who.uid), Gid::from_raw(who.uid));
    nix::unistd::setgroups(&[]).expect("no groups");
    nix::unistd::setresgid(gid, gid, gid).expect("the group");
    nix::unistd::setresuid(uid, uid, uid).expect("the user");
    set(libc::PR_SET_NO_NEW_PRIVS, 1);
    // Another user's process forgets whose death it dies with.
    set(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
}

/// A directory that every user can look into.
pub fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    allow(dir.path(), 0o755);
    dir
}

pub fn allow(path: &Path, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, mode).expect("permissions");
}

/// Tries until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a page of an honest job says once.
pub fn ident(job: &str) -> Ident {
    let mut ident = Ident::new(Source::Application);
    ident.job_id = job.into();
    ident.producer = "test 1".into();
    (ident.rank, ident.nranks) = (0, 2);
    ident
}
