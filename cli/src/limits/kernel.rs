//! What the kernel holds a process to: its cgroup, its own resources, and the file system of progress pages.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::Limit;

/// Bounds of the process with this pid; nothing of what cannot be read.
pub fn limits(pid: u32, pages: &Path) -> Vec<Limit> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let mut found = of_process(&proc);
    if let Some(cgroup) = cgroup(&proc) {
        found.extend(of_cgroup(&cgroup));
    }
    found.extend(of_pages(pages));
    found
}

fn limit(name: &str, used: Option<u64>, allowed: Option<u64>, unit: &str, beyond: &str) -> Limit {
    Limit { name: name.into(), used, allowed, unit: unit.into(), of: "kernel", beyond: beyond.into() }
}

fn of_process(proc: &Path) -> Vec<Limit> {
    let Ok(text) = fs::read_to_string(proc.join("limits")) else { return Vec::new() };
    let soft = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let open = fs::read_dir(proc.join("fd")).ok().map(|entries| entries.count() as u64);
    let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
    let of_status = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    vec![
        limit("open-files", open, soft("Max open files"), "descriptors", "connections and namespaces are not opened"),
        limit(
            "locked-memory",
            of_status("VmLck:").map(|kib| kib << 10),
            soft("Max locked memory"),
            "bytes",
            "maps of older kernels are not made",
        ),
    ]
}

/// The cgroup v2 directory of a process.
fn cgroup(proc: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(proc.join("cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
    })?;
    Some(root.join(path))
}

fn of_cgroup(cgroup: &Path) -> Vec<Limit> {
    let number = |name: &str| fs::read_to_string(cgroup.join(name)).ok()?.trim().parse::<u64>().ok();
    let mut found = Vec::new();
    if let Some(used) = number("memory.current") {
        found.push(limit(
            "memory",
            Some(used),
            number("memory.max"),
            "bytes",
            "the kernel ends the daemon; orders run out",
        ));
    }
    if let Some(used) = number("pids.current") {
        found.push(limit("tasks", Some(used), number("pids.max"), "threads", "no thread can be started"));
    }
    // `max 100000`, or microseconds in a period.
    let quota = fs::read_to_string(cgroup.join("cpu.max")).ok().and_then(|text| {
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
        let (quota, period) = (fields.next()??, fields.next()??);
        (quota * 1000).checked_div(period)
    });
    if let Some(allowed) = quota {
        found.push(limit(
            "cpu",
            None,
            Some(allowed),
            "thousandths of a core",
            "ordinary threads wait for the next period",
        ));
    }
    found
}

fn of_pages(pages: &Path) -> Vec<Limit> {
    let Ok(stat) = statvfs(pages) else { return Vec::new() };
    let (blocks, free) = (stat.blocks(), stat.blocks_free());
    let (files, left) = (stat.files(), stat.files_free());
    let size = stat.fragment_size();
    let beyond = "a job has no page: its rounds are inferred";
    let bytes = blocks.saturating_sub(free).saturating_mul(size);
    vec![
        limit("page-space", Some(bytes), Some(blocks.saturating_mul(size)), "bytes", beyond),
        limit("page-files", Some(files.saturating_sub(left)), (files > 0).then_some(files), "files", beyond),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_cgroup_are_read_as_the_kernel_writes_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        write(
            "limits",
            "Limit                     Soft Limit           Hard Limit           Units\nMax open files            65536                65536                files\nMax locked memory         unlimited            unlimited            bytes\n",
        );
        write("status", "Name:\tx\nVmLck:\t      64 kB\n");
        fs::create_dir(dir.path().join("fd")).expect("made");
        (0..3).for_each(|n| write(&format!("fd/{n}"), ""));
        let found = of_process(dir.path());
        assert_eq!((found[0].used, found[0].allowed), (Some(3), Some(65_536)));
        assert_eq!((found[1].used, found[1].allowed), (Some(65_536), None));
        write("memory.current", "1000\n");
        write("memory.max", "max\n");
        write("pids.current", "7\n");
        write("pids.max", "128\n");
        write("cpu.max", "50000 100000\n");
        let found = of_cgroup(dir.path());
        let told: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.used, one.allowed)).collect();
        assert_eq!(told, [("memory", Some(1000), None), ("tasks", Some(7), Some(128)), ("cpu", None, Some(500))]);
        assert_eq!(of_process(Path::new("/nonexistent")), []);
        assert!(!limits(std::process::id(), dir.path()).is_empty());
    }
}
