//! What this kernel does of all that the data path uses: each tier opened, rates followed, a socket given back, and flows that
//! go back by themselves when the process that holds them is killed; where it is asked for, the daemon. Prints a line for
//! each, `sluice-kernel: FEATURE = VALUE`.
//! Needs root; namespaces, pins and attachments of its own are removed at the end.
//!
//! `cargo run -p sluice-ebpf --example kernel_features -- [--pretend-missing=link,struct_ops,…]`
//!
//! As the first process of a machine it makes of it what it needs, runs all that once, asks `sluice doctor` and
//! `sluiced probe` for their forecasts and ends the machine: `cargo xtask kernels` boots kernels that way.

#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
#[path = "../../tests/all/common.rs"]
mod common;
mod daemon;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../tests/all/holder.rs"]
mod holder;
mod init;
mod tiers;

use std::process::ExitCode;

use sluice_ebpf::{Feature, Tier};
use sluice_struct_ops::Btf;

/// What begins every line that is a result.
const MARK: &str = "sluice-kernel: ";
/// How this program is told to be the process that holds flows.
const HOLDER: &str = "--holder";
const MISSING: &str = "--pretend-missing=";

/// Tells one result. Nothing in it ends the line or begins another value.
pub fn row(feature: &str, value: &str) {
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    println!("{MARK}{feature} = {value}");
}

fn main() -> ExitCode {
    if std::process::id() == 1 {
        init::run();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut missing = Vec::new();
    for word in args.iter().filter_map(|arg| arg.strip_prefix(MISSING)).flat_map(|words| words.split(',')) {
        match word.parse::<Feature>() {
            Ok(feature) => missing.push(feature),
            Err(why) => return usage(&why.to_string()),
        }
    }
    let rest: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with(MISSING)).collect();
    match rest.as_slice() {
        [] => all(&missing),
        [HOLDER] => holder::hold(),
        ["kernel"] => kernel(),
        ["tier", name] => match holder::TIERS.into_iter().find(|tier| tier.name() == *name) {
            Some(tier) => tiers::tier(tier, &missing),
            None => return usage(&format!("no tier {name:?}")),
        },
        ["found"] => tiers::found(&missing),
        ["daemon"] => daemon::killed(),
        [daemon::JOB, to] => daemon::job(to),
        ["forecasts"] => init::forecasts(),
        _ => return usage(&format!("{rest:?}")),
    }
    ExitCode::SUCCESS
}

fn usage(why: &str) -> ExitCode {
    eprintln!("{why}; allowed: [kernel | tier NAME | found | daemon | forecasts] [{MISSING}FEATURE,…]");
    ExitCode::from(2)
}

fn all(missing: &[Feature]) {
    kernel();
    holder::TIERS.into_iter().for_each(|tier| tiers::tier(tier, missing));
    tiers::found(missing);
}

/// What the kernel says of itself, and what its verifier says of our programs.
fn kernel() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    row("release", release.trim());
    let btf = std::fs::read("/sys/kernel/btf/vmlinux").map_err(|e| e.to_string());
    match btf.and_then(|data| Btf::parse(data).map_err(|e| e.to_string())) {
        Ok(btf) => {
            row("type information (BTF)", "yes");
            let control = btf.structure("tcp_congestion_ops");
            let parameters =
                control.and_then(|ops| btf.parameters(ops.member("cong_control").map(|(_, m)| m.type_id)?));
            row("parameters of `cong_control`", &parameters.map_or("no struct_ops".into(), |n| n.to_string()));
        }
        Err(why) => row("type information (BTF)", &format!("no: {why}")),
    }
    match sluice_ebpf::verifier::figures() {
        Ok(figures) => {
            for figure in figures {
                let name = format!("verifier, `{}`", figure.program);
                row(&name, &format!("{} instructions, {} bytes of stack", figure.processed, figure.stack));
            }
        }
        Err(why) => row("verifier", &format!("no figures: {why}")),
    }
}

/// How a tier's rows begin.
pub fn of(tier: Tier, what: &str) -> String {
    format!("{}: {what}", tier.name())
}
