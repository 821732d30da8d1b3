//! `cargo xtask setup`: what a Debian machine with Rust lacks.

use crate::debs::{self, With};
use crate::shell::{Early, Step, have, is_root, options, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask setup [--check] [--workloads] [--packages]

Installs what building and testing need and what is missing: Debian packages (with apt-get, as root or with
sudo), and clippy and rustfmt (with rustup, where it is there). Prometheus is only unpacked, below the target
directory, since its package starts a service. Says what it does. Nothing else is changed.

  --check       only say what is missing; exit status 1 if something is
  --packages    also install what `cargo xtask package` needs: cargo-deb, lintian, mmdebstrap, bpftool
  --workloads   also fetch PyTorch with Gloo and Open MPI from Debian (160 MB) and MXNet from PyPI (60 MB, where
                Python 3.11 is), all below the target directory, for the testbed's real workloads; installs nothing
                elsewhere, and goes on where it was stopped
";

/// A program, the Debian package it is in, and what it is for.
const PROGRAMS: [(&str, &str, &str); 13] = [
    ("cc", "gcc", "links everything, compiles the C header's tests"),
    ("c++", "g++", "compiles the solver of linear programs"),
    ("chromium", "chromium", "opens the pages of the daemons in tests"),
    ("clang", "clang", "compiles the eBPF programs, reads the solver's C header"),
    ("cmake", "cmake", "builds the solver of linear programs"),
    ("llvm-strip", "llvm", "strips the eBPF programs"),
    ("ip", "iproute2", "builds the testbed's network namespaces"),
    ("etcd", "etcd-server", "what a fleet agrees through, in tests"),
    ("etcdctl", "etcd-client", "the same"),
    ("iperf3", "iperf3", "foreign traffic in tests"),
    ("shellcheck", "shellcheck", "judges the prolog for Slurm"),
    ("systemd-analyze", "systemd", "judges the units and knows groups of system calls"),
    ("tc", "iproute2", "shapes the testbed's links"),
];

/// The same for building packages and trying them, which only `cargo xtask package` does.
const PACKAGING: [(&str, &str, &str); 4] = [
    ("dpkg-shlibdeps", "dpkg-dev", "finds what packages depend on"),
    ("lintian", "lintian", "judges packages"),
    ("mmdebstrap", "mmdebstrap", "makes fresh roots to try packages in"),
    ("bpftool", "bpftool", "lists what is in the kernel before and after"),
];

/// Headers, by a file that shows they are there.
const HEADERS: [(&str, &str, &str); 2] = [
    ("/usr/include/bpf/bpf_helpers.h", "libbpf-dev", "headers of eBPF programs"),
    ("/usr/include/linux/bpf.h", "linux-libc-dev", "the kernel's headers for user space"),
];

/// Programs of Debian's `prometheus`, which tests of rules and dashboards ask.
const PROMETHEUS: [&str; 2] = ["promtool", "prometheus"];

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
    let given = options(args, HELP, &["--check", "--packages", "--workloads"])?;
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
    if lacks_prometheus() {
        println!("missing: prometheus (Debian package, unpacked below the target directory)");
    }
    if packages.is_empty() && components.is_empty() && !lacks_prometheus() {
        println!("setup: nothing is missing");
    } else if given.contains(&"--check") {
        return Err("something is missing; `cargo xtask setup` installs it".to_owned().into());
    }
    install(&packages, &components)?;
    unpack_prometheus()?;
    if given.contains(&"--packages") {
        crate::package::tools()?;
    }
    if workloads { Ok(crate::workloads::run()?) } else { Ok(()) }
}

/// Prometheus is neither installed nor unpacked.
fn lacks_prometheus() -> bool {
    let unpacked = target_dir().join("prometheus/root/usr/bin");
    !PROMETHEUS.iter().all(|program| have(program) || unpacked.join(program).is_file())
}

fn unpack_prometheus() -> Result<(), String> {
    if !lacks_prometheus() {
        return Ok(());
    }
    debs::unpack("prometheus", &target_dir().join("prometheus"), &["prometheus"], With::Nothing)
}

/// Installs what is missing before another command needs it.
pub(crate) fn ensure() -> Result<(), String> {
    install(&missing_packages(), &missing_components())?;
    if let Err(why) = unpack_prometheus() {
        eprintln!("xtask: {why}: what asks Prometheus will be skipped");
    }
    Ok(())
}

/// Installs what only `cargo xtask package` needs.
pub(crate) fn ensure_packages() -> Result<(), String> {
    let mut missing: Vec<_> =
        PACKAGING.iter().filter(|(program, ..)| !have(program)).map(|(_, p, why)| (*p, *why)).collect();
    missing.sort_unstable();
    install(&missing, &[])
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
