//! One cgroup (version 2) per host, so that a daemon captures the jobs of its own host and their CPU time is counted.
//!
//! They stand in `sluice-testbed-PID` below the cgroup v2 root. Whatever a dead process of that name left is removed at
//! the next start.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::FabricError;

/// How the directory of one run begins; the process id follows.
pub const PREFIX: &str = "sluice-testbed-";
/// Where version 1 is mounted, a folder for each controller, on machines that keep some of them there.
pub const V1_ROOT: &str = "/sys/fs/cgroup";
/// Controllers of version 1 in which runs make cgroups.
const V1: [&str; 2] = ["memory", "pids"];

/// A cgroup that exists, known by its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Its directory below the cgroup v2 root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `cgroup.procs`, open for writing: what a child writes itself into.
    ///
    /// # Errors
    /// When the cgroup is gone or may not be written.
    pub fn procs(&self) -> Result<OwnedFd, FabricError> {
        let file = self.path.join("cgroup.procs");
        fs::OpenOptions::new()
            .write(true)
            .open(&file)
            .map(OwnedFd::from)
            .map_err(FabricError::io(format!("opening {}", file.display())))
    }

    /// CPU time its processes have used, µs; 0 where the kernel does not say.
    pub fn cpu_us(&self) -> u64 {
        let text = fs::read_to_string(self.path.join("cpu.stat")).unwrap_or_default();
        text.lines().find_map(|l| l.strip_prefix("usage_usec ")?.trim().parse().ok()).unwrap_or(0)
    }
}

/// The cgroups of one run; removed when dropped, with what still runs in them.
#[derive(Debug)]
pub struct CgroupTree {
    root: PathBuf,
    hosts: Vec<Cgroup>,
}

impl CgroupTree {
    /// One cgroup per host for its jobs, one for its daemon, and one for the switches.
    ///
    /// # Errors
    /// When no cgroup v2 file system is mounted or it may not be written.
    pub fn create(hosts: &[String]) -> Result<CgroupTree, FabricError> {
        let base = mount_point()?;
        let root = (0..1000)
            .map(|n| base.join(format!("{PREFIX}{}-{n}", std::process::id())))
            .find(|p| !p.exists())
            .ok_or_else(|| FabricError::Spec("a thousand fabrics of this process exist".into()))?;
        let mut tree = CgroupTree { root: root.clone(), hosts: Vec::new() };
        let make = |path: PathBuf| {
            fs::create_dir(&path).map_err(FabricError::io(format!("creating the cgroup {}", path.display())))?;
            Ok::<Cgroup, FabricError>(Cgroup { path })
        };
        make(root.clone())?;
        make(root.join("switches"))?;
        for name in hosts {
            let cgroup = make(root.join(name))?;
            tree.hosts.push(cgroup);
            make(root.join(format!("{name}.daemon")))?;
        }
        Ok(tree)
    }

    /// Where host `i`'s job processes go.
    pub fn jobs(&self, i: usize) -> &Cgroup {
        &self.hosts[i]
    }

    /// Where host `i`'s daemon goes.
    pub fn daemon(&self, i: usize) -> Cgroup {
        let mut path = self.hosts[i].path.clone().into_os_string();
        path.push(".daemon");
        Cgroup { path: path.into() }
    }

    /// Where the switch processes go.
    pub fn switches(&self) -> Cgroup {
        Cgroup { path: self.root.join("switches") }
    }
}

impl Drop for CgroupTree {
    fn drop(&mut self) {
        remove(&self.root);
    }
}

/// The cgroup v2 mount: `/sys/fs/cgroup` or, beside version 1, `/sys/fs/cgroup/unified`.
///
/// # Errors
/// When none is mounted.
pub fn mount_point() -> Result<PathBuf, FabricError> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .map(PathBuf::from)
        .find(|p| p.join("cgroup.controllers").exists())
        .ok_or_else(|| FabricError::Missing {
            what: "a cgroup v2 file system".into(),
            why: "neither /sys/fs/cgroup nor /sys/fs/cgroup/unified holds cgroup.controllers".into(),
        })
}

/// Removes what dead runs left: their cgroups and whatever still runs in them. Returns how many there were.
pub fn remove_leftovers() -> usize {
    let bases = mount_point().into_iter().chain(V1.map(|controller| Path::new(V1_ROOT).join(controller)));
    let entries = bases.flat_map(|base| fs::read_dir(base).into_iter().flatten().flatten());
    let dead = entries.filter(|e| {
        let name = e.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    });
    dead.map(|e| remove(&e.path())).count()
}

/// Removes a cgroup with those in it, once nothing runs there any more; in version 2 whatever runs there is killed.
pub(crate) fn remove(root: &Path) {
    drop(fs::write(root.join("cgroup.kill"), "1"));
    let deadline = Instant::now() + Duration::from_secs(3);
    // A cgroup can be removed once its processes are reaped, a moment after they were killed.
    while root.exists() && Instant::now() < deadline {
        for child in fs::read_dir(root).into_iter().flatten().flatten().filter(|e| e.path().is_dir()) {
            drop(fs::remove_dir(child.path()));
        }
        if fs::remove_dir(root).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
