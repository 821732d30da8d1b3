//! How the libraries that run in other people's processes are linked: a module of their build scripts.

/// Named as it is installed, and loadable by an old glibc (`old_glibc.c`). `dir`: where this file is.
pub(crate) fn link(name: &str, dir: &str) {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let source = format!("{dir}/old_glibc.c");
    println!("cargo:rerun-if-changed={dir}/link.rs");
    println!("cargo:rerun-if-changed={source}");
    println!("cargo:rerun-if-env-changed=CC");
    let here = variable("HOST") == variable("TARGET");
    if !here || variable("CARGO_CFG_TARGET_ARCH") != "x86_64" || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    let object = format!("{}/old_glibc.o", variable("OUT_DIR"));
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let arguments = ["-c", "-O2", "-fPIC", "-Wall", "-o", &object, &source];
    if !std::process::Command::new(&cc).args(arguments).status().is_ok_and(|status| status.success()) {
        println!("cargo:warning={cc} cannot compile {source}: {name} will need a glibc as new as this machine's");
        return;
    }
    println!("cargo:rustc-cdylib-link-arg={object}");
    // Where the old versions are, before glibc 2.34; after it both are there, and empty.
    let needed = "-Wl,--push-state,--no-as-needed,-l:libdl.so.2,-l:libpthread.so.0,--pop-state";
    println!("cargo:rustc-cdylib-link-arg={needed}");
}
