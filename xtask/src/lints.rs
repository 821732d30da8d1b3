//! What no lint of the compiler checks: that every crate says how it stands to `unsafe`, and every brain has its list of what it
//! must not call, and goes over no hash table.

use std::fs;

use crate::shell::root;

/// Crates with `unsafe`: what maps memory, is called by C, or has a shim over libc.
const UNSAFE: [&str; 13] = [
    "clock",
    "daemon",
    "ebpf",
    "ebpf/struct-ops",
    "nccl-patch",
    "planners/solver",
    "progress",
    "pslite-patch",
    "realtime",
    "switch-emulator/data-plane",
    "testbed",
    "testbed/fuzz-targets",
    "testbed/impairment",
];

/// Crates that decide, each with a `clippy.toml` of its own or of the folder above it.
const BRAINS: [&str; 5] = ["attribution", "fleet", "schedule", "share", "switch-emulator/pipeline"];

/// Crates around them in which the order of work decides, or is what runs are compared by.
const IN_ORDER: [&str; 3] = ["daemon", "schedule/faults", "testbed/simulate"];

/// What is not shipped: tests, what they stand on, and automation.
const NOT_SHIPPED: [&str; 8] = [
    "deploy/units",
    "page/browser",
    "schedule/faults",
    "testbed",
    "testbed/fuzz-targets",
    "testbed/impairment",
    "testbed/skip",
    "xtask",
];

/// No code that is shipped may end a process, but where a reason stands beside it.
const NO_PANIC: &str =
    "#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]";
/// A loop over a hash table has another order in every process.
const NO_HASH_ORDER: &str = "#![deny(clippy::iter_over_hash_type)]";
/// Only programs write to their output.
const NO_OUTPUT: &str = "#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

fn members() -> Vec<String> {
    let workspace = read("Cargo.toml");
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = [")).expect("members in one line");
    members.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn unsafe_code_is_forbidden_but_in_named_crates() {
    let mut wrong = Vec::new();
    for member in members() {
        let forbids = ["lib.rs", "main.rs"]
            .iter()
            .any(|file| read(&format!("{member}/src/{file}")).contains("\n#![forbid(unsafe_code)]\n"));
        if forbids == UNSAFE.contains(&member.as_str()) {
            wrong.push(format!(
                "{member}: {}",
                if forbids { "it is in the list and forbids it" } else { "it does not forbid it" }
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(UNSAFE.iter().all(|name| members().iter().any(|member| member == name)), "{UNSAFE:?}");
}

#[test]
fn every_brain_is_kept_from_clocks_threads_files_and_sockets() {
    let first = read(&format!("{}/clippy.toml", BRAINS[0]));
    for what in ["Instant::now", "SystemTime::now", "thread::spawn", "fs::write", "UdpSocket::bind", "thread_rng"] {
        assert!(first.contains(what), "{what}");
    }
    for brain in BRAINS {
        assert!(read(&format!("{brain}/clippy.toml")) == first, "{brain}/clippy.toml is not that of {}", BRAINS[0]);
    }
}

#[test]
fn who_decides_loops_over_no_hash_table() {
    for name in BRAINS.iter().chain(&IN_ORDER) {
        let text = read(&format!("{name}/src/lib.rs"));
        assert!(text.lines().any(|line| line == NO_HASH_ORDER), "{name}/src/lib.rs lacks {NO_HASH_ORDER}");
    }
}

#[test]
fn code_that_is_shipped_does_not_panic_by_unwrap_and_says_why_where_it_may() {
    let mut wrong = Vec::new();
    for member in members().into_iter().filter(|member| !NOT_SHIPPED.contains(&member.as_str())) {
        for file in ["lib.rs", "main.rs"] {
            let path = format!("{member}/src/{file}");
            let text = read(&path);
            let has = |line: &str| text.lines().any(|other| other == line);
            if !text.is_empty() && (!has(NO_PANIC) || (file == "lib.rs" && !has(NO_OUTPUT))) {
                wrong.push(format!("{path} lacks {NO_PANIC}, or {NO_OUTPUT}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
