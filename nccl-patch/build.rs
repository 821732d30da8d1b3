//! How the library is linked: never unmapped, named as NCCL looks for it, and loadable by an old glibc.

#[path = "../progress/link/link.rs"]
mod link;

fn main() {
    // NCCL closes the library with its last communicator, while other threads may still be inside it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    link::link("libnccl-profiler-sluice.so", "../progress/link");
}
