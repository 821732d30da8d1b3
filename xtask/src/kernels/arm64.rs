//! The libraries that jobs load, built for arm64, and their tests run there by QEMU's emulation of one process.
//!
//! `progress/link/old_glibc.c` is for x86-64 alone: on arm64 every function that is used has had one version from the start,
//! so that what the libraries ask of a machine is what Rust's own library does.

use std::path::Path;

use crate::shell::{Step, have, output, target_dir};
use crate::{elf, ship};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// A program, and the package it is in.
const PROGRAMS: [(&str, &str); 2] =
    [("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"), ("qemu-aarch64-static", "qemu-user-static")];
/// Where Debian's libraries for arm64 are.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";
const AARCH64: u16 = 183;
/// Packages whose own tests run there: those of the page, and the units of both libraries. What preloads a library into
/// programs of this machine cannot.
const TESTED: [&str; 3] = ["sluice-progress", "sluice-nccl", "sluice-pslite"];

/// Tests of what the emulator cannot do: it gives no option of a socket that is longer than an int, and so no cookie.
const BEYOND_THE_EMULATOR: [&str; 1] = ["sockets::tests::new_connections_are_found_once_with_the_end_that_opened_them"];

/// Builds and tests; says in the end what was not tried.
pub(super) fn run() -> Result<(), String> {
    let missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !have(program)).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        let step = Step::new("apt-get", &["install", "-y", "-qq", "--no-install-recommends", "libc6-dev-arm64-cross"]);
        step.args(missing).with("DEBIAN_FRONTEND", "noninteractive").with_root().run()?;
    }
    if !has_target()? {
        let added = Step::new("rustup", &["target", "add", TARGET]).run();
        added.map_err(|why| {
            format!(
                "arm64 is skipped, nothing was tried: there is no Rust library for {TARGET} ({why}); RUSTC may name a \
                 compiler that has one"
            )
        })?;
    }
    let runner = format!("qemu-aarch64-static -L {SYSROOT}");
    let linked = |step: Step| {
        let step = step.with("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        step.with("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", &runner)
    };
    let build = Step::cargo(&["build", "--release", "--locked", "--target", TARGET]).args(ship::packages());
    linked(build).run()?;
    let built = target_dir().join(TARGET).join("release");
    ship::check(&built, &target_dir().join("ship-arm64"))?;
    for file in ship::files() {
        let path = built.join(file);
        let bytes = std::fs::read(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
        let library = elf::read(&bytes).map_err(|why| format!("{}: {why}", path.display()))?;
        if library.machine != AARCH64 {
            return Err(format!("{} is for machine {}, not for arm64 ({AARCH64})", path.display(), library.machine));
        }
    }
    let test = Step::cargo(&["test", "--locked", "--target", TARGET, "--lib", "--no-fail-fast"]);
    let test = test.args(TESTED.iter().flat_map(|package| ["-p", *package])).args(["--", "--exact"]);
    linked(test.args(BEYOND_THE_EMULATOR.iter().flat_map(|test| ["--skip", *test]))).run()?;
    println!("kernels: arm64: built, and the tests within {} pass there, emulated", TESTED.join(", "));
    println!(
        "kernels: arm64: not tried: a kernel, the programs for it, what preloads a library into other programs, and {}, since \
         the emulator gives no option of a socket that is longer than an int",
        BEYOND_THE_EMULATOR.join(", ")
    );
    Ok(())
}

/// Is Rust's own library for arm64 here, of the compiler that cargo will take?
fn has_target() -> Result<bool, String> {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let at = output(&compiler, &["--print", "target-libdir", "--target", TARGET])?;
    Ok(Path::new(&at).is_dir())
}
