//! What the kernel lets us do: type information, capabilities, bpffs, sockets, and the whole datapath, tried and undone.

use std::fs;
use std::io::Read;
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
/// Capabilities by bit, with what misses without each.
const CAPABILITIES: [(u32, &str, &str); 5] = [
    (39, "CAP_BPF", "nothing can be enforced"),
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

/// Capabilities of this process.
pub fn capabilities() -> Check {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(set) = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()) else {
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
    let probe = Probe { cgroup: root.join(format!("sluice-doctor-{}", std::process::id())), options: None };
    if let Err(error) = fs::create_dir(&probe.cgroup) {
        return vec![
            Check::warn("cgroup", format!("cgroup v2 at {shown}, but nothing can be made there: {error}"))
                .cost("the programs were not tried")
                .fix("sudo sluice doctor"),
        ];
    }
    let mut probe = probe;
    // A name of our own and an empty cgroup; nothing is captured but a connection of this process: no other is touched.
    let options = Options {
        instance: format!("doc{}", std::process::id() % 100_000),
        cgroups: vec![probe.cgroup.clone()],
        max_flows: 64,
        tiers: vec![Tier::StructOps, Tier::StructOpsNoLink, Tier::SetSockOpt],
        ..Options::default()
    };
    probe.options = Some(options.clone());
    let started = Instant::now();
    let opened = Kernel::open(&options);
    let took = started.elapsed();
    let cgroup = Check::ok("cgroup", format!("cgroup v2 at {shown}"));
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
            .fix("run as root; otherwise a kernel of 6.0 or later with BPF and struct_ops"),
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
