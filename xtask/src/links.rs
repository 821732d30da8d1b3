//! What the programs link: whoever installs `sluiced` or a small `sluice` gets no planner, solver, simulator or testbed.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::shell::root;

/// `cargo tree` reads files that are here already; it takes less than a second.
const LIMIT: Duration = Duration::from_secs(60);

/// The packages that a package links or builds with, tests and benchmarks left out.
fn linked(package: &str, options: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p}"]);
    // Plain packages, whatever this process was started with.
    cargo.args(["--edges", "normal,build", "-p", package]).args(options).env_remove("CARGO_TARGET_DIR");
    let mut child = cargo.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("cargo");
    let mut stdout = child.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut stdout).expect("text"));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if begun.elapsed() > LIMIT {
            drop(child.kill());
            panic!("cargo tree -p {package} took longer than {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "cargo tree -p {package}: {status}");
    let text = reader.join().expect("a reader");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn ours(packages: &BTreeSet<String>) -> Vec<&str> {
    packages.iter().map(String::as_str).filter(|name| name.starts_with("sluice")).collect()
}

#[test]
fn the_daemon_links_no_planner_solver_simulator_or_testbed() {
    let allowed = [
        "sluice-attribution",
        "sluice-clock",
        "sluice-ebpf",
        "sluice-etcd",
        "sluice-fleet",
        "sluice-formats",
        "sluice-identity",
        "sluice-logs",
        "sluice-page",
        "sluice-plan",
        "sluice-progress",
        "sluice-realtime",
        "sluice-route",
        "sluice-schedule",
        "sluice-struct-ops",
        "sluice-wire",
        "sluiced",
    ];
    let linked = linked("sluiced", &[]);
    assert!(linked.contains("sluice-schedule"), "{linked:?}");
    let more: Vec<&str> = ours(&linked).into_iter().filter(|name| !allowed.contains(name)).collect();
    assert!(more.is_empty(), "sluiced links {more:?}");
    assert!(!linked.iter().any(|name| name.starts_with("highs")), "{linked:?}");
}

#[test]
fn a_sluice_without_features_links_neither_testbed_nor_solver() {
    let heavy = ["sluice-testbed", "sluice-planners-lp", "sluice-solver", "highs", "highs-sys", "clarabel"];
    let whole = linked("sluice", &[]);
    let small = linked("sluice", &["--no-default-features"]);
    for name in heavy {
        assert!(whole.contains(name), "{name} has another name now: this test must know it");
        assert!(!small.contains(name), "sluice without features links {name}");
    }
    // What plans without a solver is in every `sluice`.
    for name in ["sluice-simulate", "sluice-planners", "sluice-planners-wan"] {
        assert!(small.contains(name), "{name}: {small:?}");
    }
}

#[test]
fn no_program_links_the_fault_simulator_which_plants_defects() {
    // All that packages are built of, in one build whose parts share their features.
    for package in ["sluiced", "sluice-switch", "sluice", "sluice-testbed"] {
        assert!(!linked(package, &[]).contains("sluice-faults"), "{package} links what plants defects in the brains");
    }
}

#[test]
fn nobody_but_the_fuzzer_links_libfuzzer() {
    for package in ["sluice", "sluiced", "sluice-switch", "sluice-testbed"] {
        let linked = linked(package, &[]);
        assert!(!linked.contains("sluice-fuzz-targets") && !linked.contains("libfuzzer-sys"), "{package}: {linked:?}");
    }
    assert!(!linked("sluice-fuzz-targets", &[]).contains("libfuzzer-sys"), "the tests would build it");
    assert!(linked("sluice-fuzz-targets", &["--features", "libfuzzer"]).contains("libfuzzer-sys"));
}
