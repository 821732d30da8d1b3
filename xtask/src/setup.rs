//! `cargo xtask setup`: what a Debian machine with Rust lacks.

use crate::shell::{Early, Step, have, is_root, options};

const HELP: &str = "\
cargo xtask setup [--check] [--workloads]

Installs what building and testing need and what is missing: Debian packages (with apt-get, as root or with
sudo), and clippy and rustfmt (with rustup, where it is there). Says what it does. Nothing else is changed.

  --check       only say what is missing; exit status 1 if something is
  --workloads   also fetch PyTorch with Gloo and Open MPI from Debian (160 MB) and MXNet from PyPI (60 MB, where
                Python 3.11 is), all below the target directory, for the testbed's real workloads; installs nothing
                elsewhere, and goes on where it was stopped
";

/// A program, the Debian package it is in, and what it is for.
const PROGRAMS: [(&str, &str, &str); 8] = [
    ("cc", "gcc", "links everything, compiles the C header's tests"),
    ("c++", "g++", "compiles the solver of linear programs"),
    ("clang", "clang", "compiles the eBPF programs, reads the solver's C header"),
    ("cmake", "cmake", "builds the solver of linear programs"),
    ("llvm-strip", "llvm", "strips the eBPF programs"),
    ("ip", "iproute2", "builds the testbed's network namespaces"),
    ("iperf3", "iperf3", "foreign traffic in tests"),
    ("tc", "iproute2", "shapes the testbed's links"),
];

/// Headers, by a file that shows they are there.
const HEADERS: [(&str, &str, &str); 2] = [
    ("/usr/include/bpf/bpf_helpers.h", "libbpf-dev", "headers of eBPF programs"),
    ("/usr/include/linux/bpf.h", "linux-libc-dev", "the kernel's headers for user space"),
];

/// What is missing: packages with their purpose.
fn missing_packages() -> Vec<(&'static str, &'static str)> {
    let programs = PROGRAMS.iter().filter(|(program, _, _)| !have(program)).map(|(_, package, why)| (*package, *why));
    let headers = HEADERS
        .iter()
        .filter(|(file, _, _)| !std::path::Path::new(file).exists())
        .map(|(_, package, why)| (*package, *why));
    let mut packages: Vec<_> = programs.chain(headers).collect();
    packages.sort_unstable();
    packages.dedup_by_key(|(package, _)| *package);
    packages
}

/// Cargo subcommands that come as components of the tool chain.
fn missing_components() -> Vec<&'static str> {
    [("clippy", "clippy"), ("rustfmt", "fmt")]
        .into_iter()
        .filter(|(_, command)| !Step::cargo(&[command, "--version"]).quiet())
        .map(|(component, _)| component)
        .collect()
}

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    let given = options(args, HELP, &["--check", "--workloads"])?;
    let workloads = given.contains(&"--workloads");
    if workloads && given.contains(&"--check") {
        let why = "--check does not look at workloads; `cargo xtask setup --workloads` says what it does";
        return Err(why.to_owned().into());
    }
    let (packages, components) = (missing_packages(), missing_components());
    for (package, why) in &packages {
        println!("missing: Debian package {package} ({why})");
    }
    for component in &components {
        println!("missing: {component} (rustup component)");
    }
    if packages.is_empty() && components.is_empty() {
        println!("setup: nothing is missing");
    } else if given.contains(&"--check") {
        return Err("something is missing; `cargo xtask setup` installs it".to_owned().into());
    }
    install(&packages, &components)?;
    if workloads { Ok(crate::workloads::run()?) } else { Ok(()) }
}

/// Installs what is missing before another command needs it.
pub(crate) fn ensure() -> Result<(), String> {
    install(&missing_packages(), &missing_components())
}

fn install(packages: &[(&str, &str)], components: &[&str]) -> Result<(), String> {
    if !packages.is_empty() {
        let names: Vec<&str> = packages.iter().map(|(p, _)| *p).collect();
        if !have("apt-get") {
            return Err(format!("apt-get is not here; install by hand: {}", names.join(" ")));
        }
        if !is_root() && !have("sudo") {
            return Err(format!("neither root nor sudo; as root: apt-get install {}", names.join(" ")));
        }
        Step::new("apt-get", &["update", "-qq"]).with("DEBIAN_FRONTEND", "noninteractive").with_root().run()?;
        let step = Step::new("apt-get", &["install", "-y", "-qq", "--no-install-recommends"]).args(names);
        step.with("DEBIAN_FRONTEND", "noninteractive").with_root().run()?;
    }
    if !components.is_empty() {
        if !have("rustup") {
            return Err(format!("rustup is not here; install by hand: {}", components.join(" ")));
        }
        Step::new("rustup", &["component", "add"]).args(components.iter().copied()).run()?;
    }
    Ok(())
}
