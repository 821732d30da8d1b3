//! `sluiced probe`: tries, with the daemon's own privileges, what the daemon would need, and undoes it.

#![allow(clippy::print_stdout, reason = "a command says what it did")]

use std::process::ExitCode;

use serde_json::json;
use sluice_ebpf::{Kernel, Options, Tier, cleanup};

use crate::clock;
use crate::config::Loaded;
use crate::enforce;

/// Capabilities the daemon uses, by their bit.
const CAPABILITIES: [(&str, u32); 6] = [
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_NET_ADMIN", 12),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
];

/// Prints one JSON document. Exit status 0 if the best way of enforcing works, 3 if only a worse one or none.
pub fn run(loaded: &Loaded) -> ExitCode {
    let wanted = enforce::options(loaded, None);
    let tiers = [Tier::StructOps, Tier::StructOpsNoLink, Tier::SetSockOpt];
    let tried: Vec<_> = tiers.into_iter().map(|tier| try_tier(&wanted, tier)).collect();
    let best = tiers.iter().zip(&tried).find(|(_, refused)| refused.is_none()).map(|(tier, _)| tier.name());
    let effective = effective_capabilities();
    let capabilities = CAPABILITIES.iter().map(|(name, bit)| ((*name).to_owned(), json!(effective >> bit & 1 == 1)));
    let kernel = clock::kernel();
    let document = json!({
        "schema": 1,
        "backend": best.unwrap_or("none"),
        "backends": tiers.iter().zip(&tried).map(|(tier, refused)| json!({
            "name": tier.name(), "works": refused.is_none(), "refused": refused,
        })).collect::<Vec<_>>(),
        "capabilities": capabilities.collect::<serde_json::Map<_, _>>(),
        "btf": std::path::Path::new("/sys/kernel/btf/vmlinux").exists(),
        "cgroups": wanted.cgroups,
        "cgroups_present": wanted.cgroups.iter().all(|path| path.is_dir()) && !wanted.cgroups.is_empty(),
        "bpffs_writable": nix::unistd::access(&wanted.pin_root, nix::unistd::AccessFlags::W_OK).is_ok(),
        "clock_synchronised": kernel.map(|kernel| kernel.synchronised),
        "clock_max_error_ns": kernel.map(|kernel| kernel.max_error.0),
        "progress_dir": loaded.config.progress_dir(),
        "progress_dir_present": loaded.config.progress_dir().is_dir(),
    });
    println!("{document:#}");
    if best == Some(Tier::StructOps.name()) { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// Opens one tier under a name of its own and removes it again; the reason if it was refused.
fn try_tier(wanted: &Options, tier: Tier) -> Option<String> {
    let instance = format!("p{:06}", std::process::id() % 1_000_000);
    let options = Options { instance, tiers: vec![tier], max_flows: 64, cgroups: Vec::new(), ..wanted.clone() };
    let refused = match Kernel::open(&options) {
        Ok(opened) => {
            drop(opened);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let _ = cleanup::cleanup(&options); // What it could not remove belongs to a process that has just ended.
    refused
}

fn effective_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}
