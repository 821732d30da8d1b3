//! The view of the file system that a unit gives its service, built in the caller's own mount namespace.

use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::unit::Unit;

/// What a service with devices of its own still has.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Directories of homes.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
/// Where the kernel's settings are written.
const TUNABLES: [&str; 6] = ["/proc/sys", "/proc/fs", "/proc/irq", "/proc/bus", "/proc/acpi", "/sys"];
/// File systems that are the kernel's own; `ProtectSystem=strict` leaves them to other directives.
const API: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What could not be mounted, made or found.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct MountError {
    what: String,
    why: String,
}

fn failed(what: impl std::fmt::Display, why: impl std::fmt::Display) -> MountError {
    MountError { what: what.to_string(), why: why.to_string() }
}

/// Makes `root` a root: itself a mount, with the kernel's own file systems below it. In a bare one the host's `/usr` shines
/// through, but for `/usr/bin`, which holds what was put there.
pub(crate) fn enter(root: &Path, bare: bool) -> Result<(), MountError> {
    set_flags(Path::new("/"), MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    if root != Path::new("/") {
        bind(root, root)?;
        let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        for dir in API {
            bind(Path::new(dir), &inside(Path::new(dir)))?;
        }
        if bare {
            let entries = fs::read_dir("/usr").map_err(|e| failed("/usr", e))?.flatten();
            for entry in entries.filter(|entry| entry.file_name() != "bin" && entry.path().is_dir()) {
                bind(&entry.path(), &inside(&entry.path()))?;
            }
        }
        // Not by chroot: from there nobody makes a user namespace. The old root lies below the new one until it is let go.
        nix::unistd::chdir(root).map_err(|e| failed(root.display(), e))?;
        nix::unistd::pivot_root(".", ".").map_err(|e| failed(format!("{} as the root", root.display()), e))?;
        umount2(".", MntFlags::MNT_DETACH).map_err(|e| failed("the old root", e))?;
    }
    nix::unistd::chdir("/").map_err(|e| failed("/", e))
}

/// Does to this view what the unit says; its state directories become those of `user`.
pub(crate) fn sandbox(unit: &Unit, user: (u32, u32)) -> Result<(), MountError> {
    let writable = writable(unit, user)?;
    if unit.yes("ProtectHome") {
        for dir in HOMES.into_iter().filter(|dir| Path::new(dir).exists()) {
            tmpfs(dir, MsFlags::MS_RDONLY, "mode=0000")?;
        }
    }
    if unit.yes("ProtectKernelModules") && Path::new("/usr/lib/modules").exists() {
        tmpfs("/usr/lib/modules", MsFlags::MS_RDONLY, "mode=0000")?;
    }
    if unit.yes("ProtectKernelLogs") {
        let hidden = Path::new("/run/systemd/inaccessible");
        make(hidden, 0o000, (0, 0))?;
        let nothing = hidden.join("reg");
        let file = File::create(&nothing).map_err(|e| failed(nothing.display(), e))?;
        file.set_permissions(Permissions::from_mode(0o000)).map_err(|e| failed(nothing.display(), e))?;
        for log in ["/proc/kmsg", "/dev/kmsg"].map(Path::new).into_iter().filter(|log| log.exists()) {
            bind(&nothing, log)?;
        }
    }
    if unit.yes("PrivateDevices") {
        devices()?;
    }
    if unit.one("ProtectSystem") == Some("strict") {
        for at in mounts()? {
            let kept = API.iter().any(|api| at.starts_with(api)) || writable.iter().any(|path| at.starts_with(path));
            if !kept {
                read_only(&at)?;
            }
        }
    }
    for (key, below) in [("ProtectKernelTunables", &TUNABLES[..]), ("ProtectControlGroups", &["/sys/fs/cgroup"])] {
        for dir in below.iter().map(Path::new).filter(|dir| unit.yes(key) && dir.exists()) {
            bind(dir, dir)?;
            for at in mounts()?.into_iter().filter(|at| at.starts_with(dir)) {
                read_only(&at)?;
            }
        }
    }
    let word = |key, default| unit.one(key).unwrap_or(default);
    let options = format!("hidepid={},subset={}", word("ProtectProc", "default"), word("ProcSubset", "all"));
    let options = options.replace("hidepid=default", "hidepid=off").replace(",subset=all", "");
    if options != "hidepid=off" {
        let what = format!("/proc with {options}");
        mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), Some(&*options)).map_err(|e| failed(what, e))?;
    }
    Ok(())
}

/// Where the service may write, made and mounted so that it stays so.
fn writable(unit: &Unit, user: (u32, u32)) -> Result<Vec<PathBuf>, MountError> {
    let mut writable: Vec<PathBuf> =
        unit.words("StateDirectory").map(|name| Path::new("/var/lib").join(name)).collect();
    for dir in &writable {
        make(dir, 0o755, user)?;
    }
    for path in unit.words("ReadWritePaths") {
        let (optional, path) = path.strip_prefix('-').map_or((false, path), |path| (true, path));
        match (Path::new(path).exists(), optional) {
            (true, _) => writable.push(path.into()),
            (false, true) => {}
            (false, false) => return Err(failed(path, "is not there: systemd would end with 226/NAMESPACE")),
        }
    }
    for path in &writable {
        bind(path, path)?;
    }
    if unit.yes("PrivateTmp") {
        for dir in ["/tmp", "/var/tmp"] {
            tmpfs(dir, MsFlags::empty(), "mode=1777")?;
            writable.push(dir.into());
        }
    }
    Ok(writable)
}

fn devices() -> Result<(), MountError> {
    let nodes = DEVICES.map(|name| (name, File::open(Path::new("/dev").join(name))));
    tmpfs("/dev", MsFlags::MS_NOSUID, "mode=0755")?;
    for (name, node) in nodes {
        // A device that this machine lacks is lacking here too.
        let Ok(node) = node else { continue };
        let at = Path::new("/dev").join(name);
        File::create(&at).map_err(|e| failed(at.display(), e))?;
        bind(Path::new(&format!("/proc/self/fd/{}", node.as_raw_fd())), &at)?;
    }
    read_only(Path::new("/dev"))
}

/// Mounts what a mount unit says below `root`; `ids` knows names of users, of `passwd`, and of groups, of `group`.
///
/// # Errors
/// What the kernel refuses, and a name that `ids` does not know.
pub fn mount_unit(unit: &Unit, root: &Path, ids: impl Fn(&str, &str) -> Option<u32>) -> Result<PathBuf, MountError> {
    let one = |key: &'static str| {
        unit.all("Mount", key).last().ok_or_else(|| failed("[Mount]", format!("has no {key}="))).map(String::as_str)
    };
    let at = root.join(one("Where")?.trim_start_matches('/'));
    let (mut flags, mut data) = (MsFlags::empty(), Vec::new());
    for option in one("Options")?.split(',') {
        match option.split_once('=') {
            None if option == "nodev" => flags |= MsFlags::MS_NODEV,
            None if option == "nosuid" => flags |= MsFlags::MS_NOSUID,
            None if option == "noexec" => flags |= MsFlags::MS_NOEXEC,
            Some((key @ ("uid" | "gid"), name)) => {
                let id = ids(if key == "uid" { "passwd" } else { "group" }, name)
                    .ok_or_else(|| failed(option, "no such user or group"))?;
                data.push(format!("{key}={id}"));
            }
            Some(_) => data.push(option.to_owned()),
            None => return Err(failed(option, "is no option that is known here")),
        }
    }
    let (what, kind) = (one("What")?, one("Type")?);
    mount(Some(what), &at, Some(kind), flags, Some(&*data.join(","))).map_err(|e| failed(at.display(), e))?;
    Ok(at)
}

/// Every mount of this view, parents first.
fn mounts() -> Result<Vec<PathBuf>, MountError> {
    let list = "/proc/self/mountinfo";
    let text = fs::read_to_string(list).map_err(|e| failed(list, e))?;
    Ok(text.lines().filter_map(|line| Some(PathBuf::from(line.split_whitespace().nth(4)?))).collect())
}

/// A directory of this user; one that exists is left as it is.
fn make(path: &Path, mode: u32, (user, group): (u32, u32)) -> Result<(), MountError> {
    if path.exists() {
        return Ok(());
    }
    let made = fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
        .and_then(|()| chown(path, Some(user), Some(group)));
    made.map_err(|e| failed(path.display(), e))
}

fn tmpfs(at: &str, flags: MsFlags, options: &str) -> Result<(), MountError> {
    mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options)).map_err(|e| failed(at, e))
}

fn bind(from: &Path, to: &Path) -> Result<(), MountError> {
    let what = || format!("{} at {}", from.display(), to.display());
    if from.is_dir() {
        fs::create_dir_all(to).map_err(|e| failed(what(), e))?;
    }
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(from), to, None::<&str>, flags, None::<&str>).map_err(|e| failed(what(), e))
}

/// Keeps what else holds for the mount: the kernel lets nobody but its owner take such flags away.
fn read_only(at: &Path) -> Result<(), MountError> {
    set_flags(at, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY)
}

fn set_flags(at: &Path, flags: MsFlags) -> Result<(), MountError> {
    mount(None::<&str>, at, None::<&str>, flags, None::<&str>).map_err(|e| failed(at.display(), e))
}
