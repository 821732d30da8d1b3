//! `cargo xtask ship`: the libraries that jobs load, as they are installed, and what they ask of the machine.
//!
//! They are loaded into other people's processes, in containers older than the machine that built them. So each has to name
//! no newer glibc than this promises, no library beside the C library's own, nothing that only a debugger reads, and
//! exactly the symbols that NCCL or a program looks for.

use std::fs;
use std::path::Path;

use crate::elf::{self, Library};
use crate::shell::{Early, Step, options, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask ship

Builds the libraries for NCCL and PS-Lite as they are installed, checks what they ask of the machine that loads them (glibc
2.18 or later on x86-64; no further libraries; stripped), and puts them into target/ship under the names they have there.
";

/// The oldest glibc that loads them, on x86-64: what Rust's own library needs. `progress/link/old_glibc.c` keeps it there.
const BASELINE: [u32; 2] = [2, 18];
const X86_64: u16 = 62;
/// Whatever has glibc has these.
const NEEDED: [&str; 6] =
    ["libc.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];

/// A library of ours.
struct Shipped {
    package: &'static str,
    file: &'static str,
    name: &'static str,
    /// What it is looked for, or stands before.
    exports: &'static [&'static str],
}

const ALL: [Shipped; 2] = [
    Shipped {
        package: "sluice-nccl",
        file: "libnccl_profiler_sluice.so",
        name: "libnccl-profiler-sluice.so",
        exports: &[
            "ncclProfiler_v2",
            "ncclProfiler_v3",
            "ncclProfiler_v4",
            "ncclProfiler_v5",
            "ncclProfiler_v6",
            "ncclProfiler_v7",
        ],
    },
    Shipped {
        package: "sluice-pslite",
        file: "libsluice_pslite.so",
        name: "libsluice-pslite.so",
        exports: &[
            "accept",
            "accept4",
            "close",
            "close_range",
            "connect",
            "dup",
            "dup2",
            "dup3",
            "read",
            "readv",
            "recv",
            "recvfrom",
            "recvmmsg",
            "recvmsg",
            "send",
            "sendmmsg",
            "sendmsg",
            "sendto",
            "write",
            "writev",
        ],
    },
];

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    options(args, HELP, &[])?;
    Ok(all()?)
}

/// Builds and checks all of them.
pub(crate) fn all() -> Result<(), String> {
    Step::cargo(&["build", "--release", "--locked"]).args(packages()).run()?;
    check(&target_dir().join("release"), &target_dir().join("ship"))
}

/// What cargo is told to build them.
pub(crate) fn packages() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|shipped| ["-p", shipped.package])
}

/// The files that cargo makes of them.
pub(crate) fn files() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|shipped| shipped.file)
}

/// Checks those that were built into `from`, and puts them into `to` under their names.
pub(crate) fn check(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|e| format!("creating {}: {e}", to.display()))?;
    for shipped in &ALL {
        let built = from.join(shipped.file);
        let bytes = fs::read(&built).map_err(|e| format!("reading {}: {e}", built.display()))?;
        let library = elf::read(&bytes).map_err(|why| format!("{}: {why}", built.display()))?;
        let faults = faults(&library, shipped);
        if !faults.is_empty() {
            return Err(format!("{} is not to be shipped:\n  {}", built.display(), faults.join("\n  ")));
        }
        install(&bytes, &to.join(shipped.name))?;
        println!("{}: {} KiB, {}", to.join(shipped.name).display(), bytes.len() / 1024, newest(&library));
    }
    Ok(())
}

fn install(bytes: &[u8], to: &Path) -> Result<(), String> {
    // Never written in place: a job may have it mapped.
    let new = to.with_extension("new");
    fs::write(&new, bytes).and_then(|()| fs::rename(&new, to)).map_err(|e| format!("writing {}: {e}", to.display()))
}

/// What is wrong with it.
fn faults(library: &Library, shipped: &Shipped) -> Vec<String> {
    let mut faults = Vec::new();
    if library.machine == X86_64 {
        for (version, symbol) in &library.versions {
            if glibc(version).is_some_and(|of| of > BASELINE) {
                let whose = if symbol.is_empty() { "a symbol" } else { symbol };
                faults.push(format!("{whose} is that of {version}, and glibc {} has none", shown(BASELINE)));
            }
        }
    }
    for needed in library.needed.iter().filter(|needed| !NEEDED.contains(&needed.as_str())) {
        faults.push(format!("it needs {needed}"));
    }
    if library.unstripped {
        faults.push("it holds what only a debugger needs".into());
    }
    if library.soname != shipped.name {
        faults.push(format!("it calls itself {:?}, and is installed as {}", library.soname, shipped.name));
    }
    if !library.stays {
        faults.push("it can be unmapped while threads are inside".into());
    }
    let ours = |name: &str| shipped.exports.contains(&name) || name.starts_with("sluice_");
    for name in shipped.exports.iter().filter(|name| !library.exports.contains(**name)) {
        faults.push(format!("it lacks {name}"));
    }
    for name in library.exports.iter().filter(|name| !ours(name)) {
        faults.push(format!("it has {name}, which a job could meet"));
    }
    faults
}

/// Which glibc a version is of; `None` for those of other libraries. A version that is not numbers is newer than all.
fn glibc(version: &str) -> Option<[u32; 2]> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(|number| number.parse().unwrap_or(u32::MAX));
    Some([numbers.next().unwrap_or(u32::MAX), numbers.next().unwrap_or(0)])
}

fn shown([major, minor]: [u32; 2]) -> String {
    format!("{major}.{minor}")
}

fn newest(library: &Library) -> String {
    let newest = library.versions.iter().filter_map(|(version, _)| glibc(version)).max();
    newest.map_or_else(|| "no glibc".into(), |newest| format!("glibc {} or later", shown(newest)))
}

#[cfg(test)]
mod tests;
