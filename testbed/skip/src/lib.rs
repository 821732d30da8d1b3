//! How a test says that it cannot run here, and whether it may: [`skip!`]. For tests only; nothing that is shipped links
//! this.
//!
//! A test that cannot run is no test that passed. So every skip names what it lacks, is judged, and is counted:
//! [`Lack::Privilege`] and [`Lack::Kernel`] fail where the machine has both, and [`Lack::Thing`] fails unless the test
//! stands in `allowed.txt`. What is left is written, a line each, to the file that [`FILE`] names; `cargo xtask test`
//! sets it and ends with the counts.

#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::Write;

/// The environment variable that names the file to which skips are appended: test, tab, reason.
pub const FILE: &str = "SLUICE_SKIPS";

/// Tests and reasons that may be skipped for want of a [`Lack::Thing`].
const ALLOWED: &str = include_str!("../allowed.txt");
/// The first kernel that has all that the data path uses (docs/operating.md, "What it needs").
const KERNEL: (u32, u32) = (6, 4);
/// Bits of /proc/self/status' `CapEff`, from linux/capability.h: CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF.
const CAPABILITIES: u64 = 1 << 12 | 1 << 21 | 1 << 39;

/// What a test lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Root, or a capability. Never a reason where the process is root and has those for networks, mounts and BPF.
    Privilege,
    /// A feature of the kernel. Never a reason for such a process on a kernel from 6.4 on with type information
    /// (BTF) and cgroup v2.
    Kernel,
    /// A device, a program, a library or a file, on a machine of which the list says that it may lack it.
    Thing,
}

/// Notes that the running test is skipped, for want of a [`Lack`] (its variant's name) and a reason as `format!` takes
/// it; the test returns by itself. Panics where that is no reason to skip.
#[macro_export]
macro_rules! skip {
    ($lack:ident, $($why:tt)+) => {
        $crate::skip($crate::Lack::$lack, env!("CARGO_PKG_NAME"), &format!($($why)+))
    };
}

/// As [`skip!`], which fills in the package. To be called in the test's own thread, which bears its name.
///
/// # Panics
/// Where the test must not be skipped, and where the skip cannot be noted.
pub fn skip(lack: Lack, package: &str, why: &str) {
    let thread = std::thread::current();
    let test = format!("{package} {}", thread.name().unwrap_or("main"));
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Err(refusal) = judge(lack, &test, &why, &Machine::here(), ALLOWED) {
        panic!("{test} cannot be skipped: {why}: {refusal}");
    }
    eprintln!("skipped: {why}");
    let Some(path) = std::env::var_os(FILE) else { return };
    // One write, so that programs that run side by side do not mix their lines.
    let noted = OpenOptions::new().create(true).append(true).open(&path);
    let noted = noted.and_then(|mut file| file.write_all(format!("{test}\t{why}\n").as_bytes()));
    if let Err(error) = noted {
        panic!("{test} is skipped, and {} does not take it: {error}", path.display());
    }
}

/// What the process may do on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    /// Root, with all of [`CAPABILITIES`].
    root: bool,
    /// A kernel from [`KERNEL`] on, with BTF and cgroup v2.
    kernel: bool,
}

impl Machine {
    fn here() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let btf = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
        let kernel = release(&read("/proc/sys/kernel/osrelease")).is_some_and(|found| found >= KERNEL);
        let cgroups = read("/proc/self/mounts").lines().any(|line| line.split(' ').nth(2) == Some("cgroup2"));
        Machine { root: capable(&read("/proc/self/status")), kernel: kernel && btf && cgroups }
    }
}

/// Does /proc/self/status tell of root with [`CAPABILITIES`]?
fn capable(status: &str) -> bool {
    let words = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)).map(str::split_whitespace);
    let effective = words("CapEff:").and_then(|mut words| u64::from_str_radix(words.next()?, 16).ok()).unwrap_or(0);
    words("Uid:").and_then(|mut uids| uids.nth(1)) == Some("0") && effective & CAPABILITIES == CAPABILITIES
}

/// Major and minor version of a kernel's release.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// May this test be skipped? Otherwise why not.
fn judge(lack: Lack, test: &str, why: &str, machine: &Machine, allowed: &str) -> Result<(), &'static str> {
    match lack {
        Lack::Privilege if machine.root => Err("it has all privileges that it needs"),
        Lack::Kernel if machine.root && machine.kernel => Err("the kernel has what Sluice needs"),
        Lack::Privilege | Lack::Kernel => Ok(()),
        Lack::Thing => {
            let lines = allowed.lines().filter(|line| !line.starts_with('#'));
            let mut entries = lines.filter_map(|line| line.split_once(": "));
            let listed = entries.any(|(of, reason)| of == test && why.contains(reason));
            if listed { Ok(()) } else { Err("testbed/skip/allowed.txt has no such test with such a reason") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";

    #[test]
    fn only_root_with_its_capabilities_is_capable() {
        assert!(capable(STATUS));
        assert!(!capable(&STATUS.replace("0\t0\t0\t0", "0\t7\t0\t0")));
        assert!(!capable(&STATUS.replace("000001ff", "00000000")), "root of a container");
        assert!(!capable(""));
    }

    #[test]
    fn releases_have_two_numbers() {
        assert_eq!(release("6.18.44-fc\n"), Some((6, 18)));
        assert_eq!(release("5.15\n"), Some((5, 15)));
        assert!(["", "six", "6", "x.6"].iter().all(|text| release(text).is_none()));
    }

    #[test]
    fn what_is_there_is_no_reason_and_what_is_not_must_be_listed() {
        let machine = |root, kernel| Machine { root, kernel };
        let list = "# a comment: with more\n\na b::c: no GPU\n";
        for (lack, test, why, machine, allowed) in [
            (Lack::Privilege, "a b::c", "not root", machine(false, true), true),
            (Lack::Privilege, "a b::c", "no GPU", machine(true, false), false),
            (Lack::Kernel, "a b::c", "no BTF", machine(true, false), true),
            (Lack::Kernel, "a b::c", "no BTF", machine(false, true), true),
            (Lack::Kernel, "a b::c", "no GPU", machine(true, true), false),
            (Lack::Thing, "a b::c", "here is no GPU today", machine(true, true), true),
            (Lack::Thing, "a b::c", "no compiler", machine(false, false), false),
            (Lack::Thing, "a b::d", "no GPU", machine(false, false), false),
            (Lack::Thing, "# a comment", "with more", machine(false, false), false),
        ] {
            assert_eq!(judge(lack, test, why, &machine, list).is_ok(), allowed, "{lack:?} {test} {why} {machine:?}");
        }
    }

    #[test]
    fn every_line_of_the_list_names_a_test_and_a_reason() {
        for line in ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (test, reason) = line.split_once(": ").unwrap_or_default();
            assert!(test.split(' ').count() == 2 && !reason.trim().is_empty(), "{line:?}");
        }
    }
}
