//! Traces in the kernel, and processes: what is registered, loaded, pinned, attached, set, and running.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns};
use sluice_ebpf::traces::{self as ebpf, PREFIX};
use sluiced::sock_diag;

use super::{Found, Kind, Trace};

const CLEANUP: &str = "sluiced cleanup";
/// Names of our processes, as the kernel cuts them to 15 bytes.
const PROCESSES: [&str; 3] = ["sluiced", "sluice-switch", "sluice-job"];
/// How the testbed's cgroups, and doctor's own, begin.
const CGROUPS: [&str; 2] = ["sluice-testbed-", "sluice-doctor-"];

/// Looks at everything; some of it needs root.
pub fn look(found: &mut Found) {
    processes(found);
    congestion_controls(found);
    sockets(found);
    programs(found);
    for place in ebpf::pinned(Path::new("/sys/fs/bpf")) {
        let many = place.names.len();
        found.traces.push(Trace::new(Kind::Pin, format!("{} ({many} pins)", place.dir.display()), CLEANUP));
    }
    if fs::read_dir("/sys/fs/bpf").is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
        found.unseen.push("pins in /sys/fs/bpf: permission refused".into());
    }
    cgroups(found);
    namespaces(found);
}

fn processes(found: &mut Found) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if let Some(name) = PROCESSES.iter().find(|known| **known == name.trim()) {
            let undo = if *name == "sluice-job" { "end it: it is one of a testbed run" } else { "systemctl stop it" };
            found.traces.push(Trace::new(Kind::Process, format!("{name}, pid {pid}"), undo));
        }
    }
}

fn sysctl(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default().trim().to_owned()
}

fn congestion_controls(found: &mut Found) {
    let available = sysctl("tcp_available_congestion_control");
    for name in available.split_ascii_whitespace().filter(|name| name.starts_with(PREFIX)) {
        found.traces.push(Trace::new(Kind::CongestionControl, format!("{name} is registered"), CLEANUP));
    }
    let default = sysctl("tcp_congestion_control");
    if default.starts_with(PREFIX) {
        let what = format!("net.ipv4.tcp_congestion_control = {default}");
        found.traces.push(Trace::new(Kind::Sysctl, what, "sluice doctor --fix"));
    }
}

/// Sockets under our congestion control in every network namespace that may be entered.
fn sockets(found: &mut Found) {
    let mut of_control: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused = 0;
    let own = namespace(Path::new("/proc/thread-self/ns/net"));
    let mut seen: Vec<u64> = own.into_iter().collect();
    if let Err(error) = count(&mut of_control) {
        found.unseen.push(format!("sockets: the kernel tells of none: {error}"));
    }
    for path in namespace_paths() {
        let Some(inode) = namespace(&path).filter(|inode| !seen.contains(inode)) else { continue };
        seen.push(inode);
        match counted_in(&path) {
            Some(counted) => {
                for (cc, sockets) in counted {
                    *of_control.entry(cc).or_default() += sockets;
                }
            }
            None => refused += 1,
        }
    }
    for (cc, sockets) in of_control {
        let word = if sockets == 1 { "socket" } else { "sockets" };
        found.traces.push(Trace::new(Kind::Socket, format!("{sockets} {word} under {cc}"), CLEANUP));
    }
    if refused > 0 {
        found
            .unseen
            .push(format!("sockets in {refused} other network namespaces: they may not be entered, or tell of none"));
    }
}

fn namespace(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|meta| meta.ino())
}

fn namespace_paths() -> Vec<PathBuf> {
    let entries = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten();
    let is_pid = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let of_processes = entries("/proc").filter(move |entry| is_pid(&entry.file_name()));
    let of_processes = of_processes.map(|entry| entry.path().join("ns/net"));
    of_processes.chain(entries("/run/netns").map(|entry| entry.path())).collect()
}

/// On a thread of its own, so that this one stays where it is.
fn counted_in(path: &Path) -> Option<BTreeMap<String, usize>> {
    let file = fs::File::open(path).ok()?;
    let thread = std::thread::spawn(move || {
        setns(&file, CloneFlags::CLONE_NEWNET).ok()?;
        let mut counted = BTreeMap::new();
        count(&mut counted).ok()?;
        Some(counted)
    });
    thread.join().ok()?
}

fn count(of_control: &mut BTreeMap<String, usize>) -> nix::Result<()> {
    for socket in sock_diag::under(&sock_diag::open()?, PREFIX)? {
        *of_control.entry(socket.cc).or_default() += 1;
    }
    Ok(())
}

fn programs(found: &mut Found) {
    match ebpf::programs() {
        Ok(programs) => {
            for program in programs {
                let what = format!("{} (id {}, {} links)", program.name, program.id, program.links);
                found.traces.push(Trace::new(Kind::Program, what, CLEANUP));
            }
        }
        Err(error) => found.unseen.push(format!("programs in the kernel: {error}")),
    }
}

fn cgroups(found: &mut Found) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(path), Some("cgroup2")) = (fields.next(), fields.next()) else { continue };
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if CGROUPS.iter().any(|begin| entry.file_name().to_string_lossy().starts_with(begin)) {
                let what = entry.path().display().to_string();
                found.traces.push(Trace::new(Kind::Cgroup, what, "rmdir it, when no run uses it"));
            }
        }
    }
}

fn namespaces(found: &mut Found) {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) {
            found.traces.push(Trace::new(Kind::Namespace, name, "sluice testbed down"));
        }
    }
}
