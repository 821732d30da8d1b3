//! An input that the deciding loop dies of, for the test of what becomes of a daemon that crashes again and again. Builds without
//! debug assertions have none.

use std::path::Path;

/// The file's name, in the run directory.
#[cfg(debug_assertions)]
const FILE: &str = "poison";

/// Panics if the file is there, and takes it away first: each one kills once.
#[cfg(debug_assertions)]
#[allow(clippy::panic, reason = "this is the panic that is to be survived")]
pub fn swallow(run_dir: &Path) {
    if std::fs::remove_file(run_dir.join(FILE)).is_ok() {
        panic!("the file {FILE:?} in the run directory, which is there to be died of");
    }
}

/// Does nothing.
#[cfg(not(debug_assertions))]
pub fn swallow(_run_dir: &Path) {}
