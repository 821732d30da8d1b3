//! How the library is linked: never unmapped, named as it is installed, and loadable by an old glibc.

include!("../progress/link/link.rs");

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    link("libsluice-pslite.so", "../progress/link");
}
