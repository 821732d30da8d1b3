//! How the library is linked: never unmapped, and named as NCCL looks for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // NCCL closes the library with its last communicator, while other threads may still be inside it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnccl-profiler-sluice.so");
}
