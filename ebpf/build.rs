//! Compiles the BPF programs with clang; without clang the checked-in objects of `prebuilt/` are used.
//!
//! `CLANG` and `LLVM_STRIP` name other binaries. The objects are CO-RE: one serves every kernel. With `SLUICE_BPF=prebuilt`
//! the checked-in ones are used whatever is there, as for packages: those are the ones that were tested, byte for byte.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const OBJECTS: [&str; 2] = ["sluice_cc", "sluice_attach"];
/// The first clang whose BPF back end emits the field relocations used here.
const MIN_CLANG: u32 = 11;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=prebuilt");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=LLVM_STRIP");
    println!("cargo:rerun-if-env-changed=SLUICE_BPF");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let checked_in = env::var("SLUICE_BPF").is_ok_and(|which| which == "prebuilt");
    let usable = match version(&clang) {
        _ if checked_in => false,
        Some(found) if found >= MIN_CLANG => true,
        Some(found) => {
            println!(
                "cargo:warning={clang} is version {found}, {MIN_CLANG} or newer is needed: using the prebuilt BPF \
                 objects. Install it with `apt-get install clang llvm` or name one in CLANG."
            );
            false
        }
        None => {
            println!(
                "cargo:warning={clang} was not found: using the prebuilt BPF objects. To build them from source, \
                 `apt-get install clang llvm` or name one in CLANG."
            );
            false
        }
    };
    for object in OBJECTS {
        let target = out.join(format!("{object}.bpf.o"));
        if usable {
            compile(&clang, &root, object, &target);
        } else {
            let ready = root.join("prebuilt").join(format!("{object}.bpf.o"));
            if let Err(error) = fs::copy(&ready, &target) {
                panic!(
                    "{}: {error}. Without it clang {MIN_CLANG} is needed: apt-get install clang llvm",
                    ready.display()
                );
            }
        }
    }
}

fn version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split("version ").nth(1)?.split('.').next()?.trim().parse().ok()
}

fn compile(clang: &str, root: &Path, object: &str, target: &Path) {
    let source = Path::new("bpf").join(format!("{object}.bpf.c"));
    let status = Command::new(clang)
        .current_dir(root)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"])
        // The same bytes wherever the sources lie.
        .arg(format!("-fdebug-prefix-map={}=.", root.display()))
        .arg(&source)
        .arg("-o")
        .arg(target)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {} ({status})", source.display()),
        Err(error) => panic!("{clang} could not be started: {error}"),
    }
    // Only the BTF is needed; the debug information is ten times its size.
    let strip = env::var("LLVM_STRIP").unwrap_or_else(|_| "llvm-strip".into());
    if !Command::new(&strip).arg("-g").arg(target).status().is_ok_and(|s| s.success()) {
        println!(
            "cargo:warning={strip} is missing: the BPF objects keep their debug information (apt-get install llvm)"
        );
    }
}
