//! Makes this process what systemd would make of it before it starts a unit's program, and becomes the program.
//!
//! For a process with one thread: namespaces, capabilities and filters are the calling thread's.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use caps::{CapSet, Capability, CapsHashSet};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::filter::{self, FilterError};
use crate::mounts::{self, MountError};
use crate::unit::Unit;

/// Where the service manager listens, in the service's view.
pub const NOTIFY: &str = "/run/systemd/notify";
/// The user and group of a service with `DynamicUser`: within systemd's own range.
const DYNAMIC: (u32, u32) = (61_500, 61_500);

/// What is to be started, and where.
#[derive(Clone, Debug)]
pub struct Start {
    /// The unit with its drop-ins.
    pub unit: Unit,
    /// The command line, one of the unit's.
    pub line: String,
    /// The root directory that the service sees.
    pub root: PathBuf,
    /// The root is bare: the host's `/usr` shines through.
    pub bare: bool,
    /// What `$MAINPID` stands for.
    pub main_pid: Option<u32>,
    /// End with the thread that started this process.
    pub die_with_parent: bool,
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file system.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The system calls.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The unit's user is not one of the root's.
    #[error("User={0}: the root's /etc/passwd has no such user; systemd-sysusers makes it")]
    User(String),
    /// A command line without words, or with a variable that is not known.
    #[error("{0:?} is no command line that is known here")]
    Line(String),
    /// The system refused a step.
    #[error("{step}: {why}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        why: String,
    },
}

fn step<E: std::fmt::Display>(step: &'static str) -> impl FnOnce(E) -> StartError {
    move |why| StartError::Step { step, why: why.to_string() }
}

/// The number of a user or group of a root, by its file of them.
pub fn id(root: &Path, file: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(root.join("etc").join(file)).ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

/// Becomes the program. Returns only why it could not.
///
/// # Errors
/// [`StartError`].
pub fn become_it(start: &Start) -> StartError {
    match confined(start) {
        Ok(mut command) => step("the program")(command.exec()),
        Err(error) => error,
    }
}

fn confined(start: &Start) -> Result<Command, StartError> {
    let unit = &start.unit;
    let mut command = command(start)?;
    // Made before anything is hidden: it asks programs of the host.
    let filters = filter::all(unit)?;
    let (user, group) = owner(start)?;
    let may_raise = may_raise_limits()?;
    limits(unit, may_raise)?;
    let mut flags = CloneFlags::CLONE_NEWNS;
    flags.set(CloneFlags::CLONE_NEWUTS, unit.yes("ProtectHostname"));
    unshare(flags).map_err(step("namespaces"))?;
    mounts::enter(&start.root, start.bare)?;
    mounts::sandbox(unit, (user, group))?;
    environment(&mut command, start, user);
    if unit.yes("PrivateUsers") {
        private_users(user, group)?;
    }
    become_user(unit, user, group, may_raise)?;
    if start.die_with_parent {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(step("die with the parent"))?;
    }
    for filter in &filters {
        seccompiler::apply_filter(filter).map_err(step("a filter of system calls"))?;
    }
    Ok(command)
}

fn command(start: &Start) -> Result<Command, StartError> {
    let bad = || StartError::Line(start.line.clone());
    let mut words = start.line.split_whitespace().map(|word| match (word, start.main_pid) {
        ("$MAINPID", Some(pid)) => Ok(pid.to_string()),
        (word, _) if word.contains(['$', '%', '"', '\'', '\\']) => Err(bad()),
        (word, _) => Ok(word.to_owned()),
    });
    let mut command = Command::new(words.next().ok_or_else(bad)??);
    command.args(words.collect::<Result<Vec<_>, _>>()?);
    Ok(command)
}

fn owner(start: &Start) -> Result<(u32, u32), StartError> {
    let find = |file, name: &str| id(&start.root, file, name).ok_or_else(|| StartError::User(name.to_owned()));
    match start.unit.one("User") {
        _ if start.unit.yes("DynamicUser") => Ok(DYNAMIC),
        Some(user) => Ok((find("passwd", user)?, find("group", start.unit.one("Group").unwrap_or(user))?)),
        None => Ok((0, 0)),
    }
}

/// CAP_SYS_RESOURCE, which root of some machines lacks: what a unit raises stays as low as it is there.
///
/// # Errors
/// When the process cannot be asked.
pub fn may_raise_limits() -> Result<bool, StartError> {
    caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_RESOURCE).map_err(step("capabilities"))
}

/// What a process takes along, and only one with privileges may raise.
fn limits(unit: &Unit, may_raise: bool) -> Result<(), StartError> {
    for (key, resource) in [
        ("LimitRTPRIO", Resource::RLIMIT_RTPRIO),
        ("LimitRTTIME", Resource::RLIMIT_RTTIME),
        ("LimitNOFILE", Resource::RLIMIT_NOFILE),
        ("LimitMEMLOCK", Resource::RLIMIT_MEMLOCK),
    ] {
        if let Some(limit) = unit.limit(key) {
            let highest = if may_raise { u64::MAX } else { getrlimit(resource).map_err(step(key))?.1 };
            setrlimit(resource, limit.soft.min(highest), limit.hard.min(highest)).map_err(step(key))?;
        }
    }
    if let Some(nice) = unit.one("Nice").and_then(|text| text.parse().ok()) {
        rustix::process::nice(nice).map_err(step("Nice"))?;
    }
    // Making oneself less likely to be killed takes the same privilege.
    if let Some(score) = unit.one("OOMScoreAdjust").filter(|score| may_raise || !score.starts_with('-')) {
        std::fs::write("/proc/self/oom_score_adj", score).map_err(step("OOMScoreAdjust"))?;
    }
    let mask = unit.one("UMask").map_or(Ok(0o022), |text| u32::from_str_radix(text, 8)).map_err(step("UMask"))?;
    umask(Mode::from_bits_truncate(mask));
    Ok(())
}

/// What systemd tells a service, and nothing else.
fn environment(command: &mut Command, start: &Start, user: u32) {
    let unit = &start.unit;
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("USER", unit.one("User").map_or_else(|| user.to_string(), str::to_owned));
    if let Some(dir) = unit.words("StateDirectory").next() {
        command.env("STATE_DIRECTORY", Path::new("/var/lib").join(dir));
    }
    if unit.one("Type") == Some("notify") {
        command.env("NOTIFY_SOCKET", NOTIFY);
    }
    if let Some(time) = unit.time("WatchdogSec") {
        command.env("WATCHDOG_USEC", time.as_micros().to_string()).env("WATCHDOG_PID", std::process::id().to_string());
    }
}

/// A user namespace with root and the service's own user in it, and nobody else.
fn private_users(user: u32, group: u32) -> Result<(), StartError> {
    // Only a process outside may map more than one user.
    let mut outside = Command::new("/proc/self/exe");
    outside.args(["map-users", &std::process::id().to_string(), &user.to_string(), &group.to_string()]);
    let mut outside = outside.stdin(Stdio::piped()).spawn().map_err(step("PrivateUsers"))?;
    unshare(CloneFlags::CLONE_NEWUSER).map_err(step("PrivateUsers"))?;
    if let Some(mut stdin) = outside.stdin.take() {
        stdin.write_all(b"\n").map_err(step("PrivateUsers"))?;
    }
    let ended = outside.wait().map_err(step("PrivateUsers"))?;
    if ended.success() { Ok(()) } else { Err(step("PrivateUsers")(ended)) }
}

/// What the process outside does, once it is told that the namespace is there.
///
/// # Errors
/// What the kernel does not take.
pub fn map_users(pid: u32, user: u32, group: u32) -> std::io::Result<()> {
    std::io::stdin().read_line(&mut String::new())?;
    for (file, id) in [("uid_map", user), ("gid_map", group)] {
        std::fs::write(format!("/proc/{pid}/{file}"), format!("0 0 1\n{id} {id} 1\n"))?;
    }
    Ok(())
}

fn become_user(unit: &Unit, user: u32, group: u32, may_raise: bool) -> Result<(), StartError> {
    // Asked of the kernel itself: /proc may hide it by now.
    let all: CapsHashSet = caps::runtime::thread_all_supported();
    let mut bounding = unit.capabilities("CapabilityBoundingSet").map_or_else(|| all.clone(), CapsHashSet::from_iter);
    // What these directives say includes that.
    for (key, capabilities) in [
        ("PrivateDevices", &[Capability::CAP_MKNOD, Capability::CAP_SYS_RAWIO][..]),
        ("ProtectKernelModules", &[Capability::CAP_SYS_MODULE]),
        ("ProtectKernelLogs", &[Capability::CAP_SYSLOG]),
    ] {
        bounding.retain(|capability| !unit.yes(key) || !capabilities.contains(capability));
    }
    let mut ambient = CapsHashSet::from_iter(unit.capabilities("AmbientCapabilities").unwrap_or_default());
    if !may_raise && unit.limit("LimitRTPRIO").is_some() {
        // What stands for the limit where it may not be raised; within a user namespace of its own nothing does.
        bounding.insert(Capability::CAP_SYS_NICE);
        ambient.insert(Capability::CAP_SYS_NICE);
    }
    for capability in all.difference(&bounding) {
        caps::drop(None, CapSet::Bounding, *capability).map_err(step("CapabilityBoundingSet"))?;
    }
    caps::securebits::set_keepcaps(true).map_err(step("capabilities"))?;
    setgroups(&[]).map_err(step("Group"))?;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    setresgid(group, group, group).map_err(step("Group"))?;
    setresuid(user, user, user).map_err(step("User"))?;
    // Effective ones went with the user; they may not exceed the permitted ones, which come last.
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &ambient).map_err(step("AmbientCapabilities"))?;
    }
    caps::set(None, CapSet::Ambient, &ambient).map_err(step("AmbientCapabilities"))?;
    if unit.yes("NoNewPrivileges") {
        nix::sys::prctl::set_no_new_privs().map_err(step("NoNewPrivileges"))?;
    }
    Ok(())
}
