//! How the library is linked: never unmapped, named as it is installed, and loadable by an old glibc.

#[path = "../progress/link/link.rs"]
mod link;

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    link::link("libsluice-pslite.so", "../progress/link");
}
