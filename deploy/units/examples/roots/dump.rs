//! Everything that a package could leave behind, as lines that can be compared.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::Machine;
use crate::{Result, step};

/// What every installation of any package changes, and what belongs to the machine that the root lies on.
const OTHERS: [&str; 13] = [
    "/proc",
    "/sys",
    "/dev",
    "/tmp",
    "/var/cache",
    "/var/log",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/run/units-manager",
    "/run/systemd/notify",
    "/root/sluice",
    "/etc/.pwd.lock",
    "/run/systemd/inaccessible",
];

/// All of it. Names of other instances, which tests beside this one have, are left out.
pub fn all(machine: &Machine) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    files(&machine.root.dir, Path::new("/"), &mut lines)?;
    for file in ["passwd", "group", "shadow", "gshadow"] {
        let text = std::fs::read_to_string(machine.root.at("/etc").join(file)).map_err(step(file))?;
        lines.extend(text.lines().map(|line| format!("{file}: {}", line.split(':').next().unwrap_or_default())));
    }
    // The host's network namespace and mounts are those of the thread that runs its programs.
    let kernel = machine.inside(|| -> std::io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
        lines.extend(
            list.split_whitespace().filter(|name| ours(name)).map(|name| format!("congestion control: {name}")),
        );
        for entry in std::fs::read_dir("/proc/sys/net/ipv4")?.flatten() {
            // Some can only be written.
            if let Ok(text) = std::fs::read_to_string(entry.path()) {
                lines.push(format!("sysctl: {} = {}", entry.path().display(), text.trim()));
            }
        }
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo")?;
        let mounts = mounts
            .lines()
            .filter_map(|line| line.split_whitespace().nth(4))
            .filter(|at| at.contains("sluice/progress"));
        lines.extend(mounts.map(|at| format!("mount: {at}")));
        for entry in std::fs::read_dir("/sys/fs/bpf")?.flatten() {
            lines.push(format!("pin: {}", entry.path().display()));
        }
        Ok(lines)
    })?;
    let lasting = |line: &String| !line.starts_with("pin: /sys/fs/bpf/sluicet");
    lines.extend(kernel.map_err(step("the kernel"))?.into_iter().filter(lasting));
    let tree = Command::new("bpftool").args(["cgroup", "tree"]).output().map_err(step("bpftool (package bpftool)"))?;
    let text = String::from_utf8_lossy(&tree.stdout).into_owned();
    lines.extend(text.lines().filter(|line| line.contains("sluice")).map(|line| {
        // The number of a program is another one every time.
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        format!("cgroup program: {}", words.join(" "))
    }));
    Ok(lines)
}

/// A congestion control of the instance without a name.
fn ours(name: &str) -> bool {
    !name.starts_with("sluice") || ["sluice", "sluice1"].contains(&name)
}

fn files(root: &Path, at: &Path, lines: &mut BTreeSet<String>) -> Result<()> {
    let outside = root.join(at.strip_prefix("/").unwrap_or(at));
    for entry in std::fs::read_dir(&outside).map_err(step(outside.display()))?.flatten() {
        let inside: PathBuf = at.join(entry.file_name());
        let shown = inside.display().to_string();
        // Copies that passwd's tools keep of the last state.
        let backup = ["passwd-", "group-", "shadow-", "gshadow-"].iter().any(|name| shown == format!("/etc/{name}"));
        if OTHERS.contains(&shown.as_str()) || backup {
            continue;
        }
        let meta = entry.metadata().map_err(step(&shown))?;
        lines.insert(format!("file: {shown} {:o} {}:{}", meta.mode(), meta.uid(), meta.gid()));
        if meta.is_dir() {
            files(root, &inside, lines)?;
        }
    }
    Ok(())
}

/// What is in one and not in the other, with a sign.
pub fn difference(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let more = after.difference(before).map(|line| format!("+ {line}"));
    more.chain(before.difference(after).map(|line| format!("- {line}"))).collect()
}
