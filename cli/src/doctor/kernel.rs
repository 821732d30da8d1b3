//! What the kernel lets us do: type information, capabilities, bpffs, sockets, and the whole datapath, tried and undone.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use sluice_ebpf::cleanup::cleanup;
use sluice_ebpf::{Kernel, Options, Tier};
use sluiced::sock_diag;

use super::Check;
use super::fix::Remedy;

/// Where bpffs is expected.
const BPFFS: &str = "/sys/fs/bpf";
/// First bytes of BTF.
const BTF_MAGIC: [u8; 2] = [0x9f, 0xeb];
/// Whoever has it may load programs.
const CAP_BPF: u32 = 39;
/// Capabilities by bit, with what misses without each.
const CAPABILITIES: [(u32, &str, &str); 5] = [
    (CAP_BPF, "CAP_BPF", "nothing can be enforced"),
    (12, "CAP_NET_ADMIN", "nothing can be enforced"),
    (38, "CAP_PERFMON", "the programs do not load"),
    (2, "CAP_DAC_READ_SEARCH", "progress pages of other users are not read: rounds are inferred"),
    (19, "CAP_SYS_PTRACE", "ranks and roles are not read from processes"),
];

/// Kernel release and its type information.
pub fn btf() -> Check {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut magic = [0; 2];
    let read = fs::File::open("/sys/kernel/btf/vmlinux").and_then(|mut file| file.read_exact(&mut magic));
    match read {
        Ok(()) if magic == BTF_MAGIC => Check::ok("btf", format!("kernel {release}, BTF present")),
        Ok(()) => Check::fail("btf", format!("kernel {release}: /sys/kernel/btf/vmlinux is not BTF"))
            .cost("flows run as without Sluice")
            .fix("boot a distribution kernel"),
        Err(error) => Check::fail("btf", format!("kernel {release}: no BTF ({error})"))
            .expected("/sys/kernel/btf/vmlinux readable")
            .cost("flows run as without Sluice")
            .fix("boot a kernel with CONFIG_DEBUG_INFO_BTF=y"),
    }
}

/// The kernel tells of TCP sockets, by which the daemon finds those of jobs.
pub fn sockets() -> Check {
    match sock_diag::open().and_then(|netlink| sock_diag::dump(&netlink)) {
        Ok(_) => Check::ok("sockets", "the kernel tells of TCP sockets (sock_diag)"),
        Err(error) => Check::fail("sockets", format!("the kernel tells of no TCP socket (sock_diag): {error}"))
            .cost("connections of jobs are not found: they run as without Sluice")
            .fix("modprobe tcp_diag, and before anything forbids modules"),
    }
}

/// What the kernel says of this process.
fn status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// The effective capabilities, by what the kernel says of a process.
fn effective(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// May a process load programs as far as capabilities go?
fn may_load(status: &str) -> bool {
    effective(status).is_some_and(|set| set & (1 << CAP_BPF) != 0)
}

/// Does a filter of system calls stand between a process that may load programs and bpf(2)?
fn filtered(status: &str) -> bool {
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    may_load(status) && mode.is_some_and(|mode| mode.trim() == "2")
}

/// What to do where nothing can be enforced.
const fn remedy(filtered: bool) -> &'static str {
    if filtered {
        "a filter of system calls (seccomp) is on this process and may forbid bpf(): in Kubernetes seccompProfile \
         type: Unconfined, or a newer container runtime; otherwise a kernel of 6.0 or later with BPF and struct_ops"
    } else {
        "run as root; otherwise a kernel of 6.0 or later with BPF and struct_ops"
    }
}

/// Capabilities of this process.
pub fn capabilities() -> Check {
    let Some(set) = effective(&status()) else {
        return Check::warn("capabilities", "the capability set cannot be read").fix("mount /proc");
    };
    let missing: Vec<_> = CAPABILITIES.iter().filter(|(bit, ..)| set & (1 << bit) == 0).collect();
    if missing.is_empty() {
        return Check::ok("capabilities", "this user has the capabilities the daemon needs");
    }
    let names: Vec<&str> = missing.iter().map(|(_, name, _)| *name).collect();
    let costs: Vec<String> = missing.iter().map(|(_, name, cost)| format!("{name}: {cost}")).collect();
    Check::warn("capabilities", format!("this user lacks {}", names.join(", ")))
        .expected("the capabilities of sluiced.service; a test without them says less than the daemon would")
        .cost(costs.join("; "))
        .fix("sudo sluice doctor")
}

/// bpffs: mounted, and a directory can be made there.
pub fn bpffs() -> Check {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(BPFFS) && fields.next() == Some("bpf")
    });
    let cost = "a restart of the daemon loses its flows for a moment";
    if !mounted {
        return Check::warn("bpffs", format!("{BPFFS} is not a mounted bpffs"))
            .cost(cost)
            .fix(format!("sluice doctor --fix, or mount -t bpf bpf {BPFFS}"))
            .remedy(Remedy::Bpffs(BPFFS.into()));
    }
    let probe = Path::new(BPFFS).join(format!("sluice-doctor-{}", std::process::id()));
    match fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)) {
        Ok(()) => Check::ok("bpffs", format!("bpffs at {BPFFS}, writable (tried, removed)")),
        Err(error) => Check::warn("bpffs", format!("nothing can be made in {BPFFS}: {error}"))
            .cost(cost)
            .fix("sudo sluice doctor"),
    }
}

/// Opens the datapath for no socket at all, and undoes it.
pub fn datapath() -> Vec<Check> {
    let Some((root, hybrid)) = cgroup_root() else {
        return vec![
            Check::fail("cgroup", "no cgroup v2 is mounted")
                .expected("a mount of type cgroup2")
                .cost("sockets cannot be found: flows run as without Sluice")
                .fix("mount -t cgroup2 none /sys/fs/cgroup/unified"),
        ];
    };
    let shown = root.display().to_string() + if hybrid { " (hybrid)" } else { "" };
    let status = status();
    let mut probe = Probe { cgroup: root.join(format!("sluice-doctor-{}", std::process::id())), options: None };
    let mut tiers = vec![Tier::StructOps, Tier::StructOpsNoLink];
    let mut cgroups = Vec::new();
    let cgroup = match fs::create_dir(&probe.cgroup) {
        Ok(()) => {
            tiers.push(Tier::SetSockOpt);
            cgroups.push(probe.cgroup.clone());
            Check::ok("cgroup", format!("cgroup v2 at {shown}"))
        }
        // As in a pod of deploy/kubernetes. The congestion control needs no cgroup.
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem && may_load(&status) => {
            Check::info("cgroup", format!("cgroup v2 at {shown}, read-only: pacing ceilings were not tried"))
        }
        Err(error) => {
            return vec![
                Check::warn("cgroup", format!("cgroup v2 at {shown}, but nothing can be made there: {error}"))
                    .cost("the programs were not tried")
                    .fix("sudo sluice doctor"),
            ];
        }
    };
    // A name of our own and an empty cgroup; nothing is captured but a connection of this process: no other is touched.
    let options = Options {
        instance: format!("doc{}", std::process::id() % 100_000),
        cgroups,
        max_flows: 64,
        tiers,
        ..Options::default()
    };
    probe.options = Some(options.clone());
    let started = Instant::now();
    let opened = Kernel::open(&options);
    let took = started.elapsed();
    let cost = "rates follow orders less exactly; without any way, flows run as without Sluice";
    let tried = match opened {
        Ok(opened) if opened.tier == Tier::StructOps => Check::ok(
            "datapath",
            format!(
                "the congestion control loads, registers with a link and attaches in {:.0} ms (tried, removed)",
                took.as_secs_f64() * 1e3
            ),
        ),
        Ok(opened) => {
            Check::warn("datapath", format!("only {} works here: {}", opened.tier.name(), opened.reasons.join("; ")))
                .expected("struct_ops with a link")
                .cost(cost)
                .fix("a kernel of 6.4 or later; `sluice status` shows what is in use")
        }
        Err(error) => Check::fail("datapath", format!("no way to enforce works here: {error}"))
            .cost(cost)
            .fix(remedy(filtered(&status))),
    };
    vec![cgroup, tried]
}

/// Undoes the probe, whatever happened.
struct Probe {
    cgroup: PathBuf,
    options: Option<Options>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(options) = &self.options {
            cleanup(options);
            // The pins are gone; their directory may be left.
            let _ = fs::remove_dir(options.pin_dir());
        }
        let _ = fs::remove_dir(&self.cgroup);
    }
}

/// Where cgroup v2 is mounted, and whether v1 is mounted beside it.
fn cgroup_root() -> Option<(PathBuf, bool)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of_kind = |kind: &'static str| {
        mounts.lines().filter_map(move |line| {
            let mut fields = line.split(' ').skip(1);
            let path = fields.next()?;
            (fields.next()? == kind).then(|| PathBuf::from(path))
        })
    };
    Some((of_kind("cgroup2").next()?, of_kind("cgroup").next().is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_system_calls_is_named_where_capabilities_are_not_what_misses() {
        // CAP_BPF and CAP_PERFMON, as `grep -E 'CapEff|Seccomp' /proc/self/status` shows them.
        let of = |set: &str, mode: &str| format!("Name:\tx\nCapEff:\t{set}\nSeccomp:\t{mode}\nSeccomp_filters:\t2\n");
        let able = "000000c000000000";
        assert!(filtered(&of(able, "2")) && remedy(true).contains("Unconfined"));
        // None, and the strict mode, in which nobody asks; without CAP_BPF the kernel refuses by itself.
        assert!(!filtered(&of(able, "0")) && !filtered(&of(able, "1")));
        assert!(!filtered(&of("0000000000003000", "2")) && !filtered(""));
        assert!(may_load(&of(able, "0")) && !may_load(&of("0000000000003000", "0")) && !may_load(""));
        assert!(!remedy(false).contains("seccomp"));
    }
}
