//! `cargo xtask setup --workloads`: PyTorch with Gloo and Open MPI, as Debian packages them, unpacked below the target
//! directory ([`crate::debs`]), and MXNet beside them ([`crate::mxnet`]).

use std::path::PathBuf;

use crate::debs::{self, With};
use crate::shell::target_dir;

/// What the testbed's real workloads need; everything they depend on and this machine lacks comes with them.
const PACKAGES: [&str; 2] = ["python3-torch", "openmpi-bin"];

/// Where real workloads are unpacked.
fn dir() -> PathBuf {
    target_dir().join("workloads")
}

/// Fetches and unpacks what is missing; says what it did.
///
/// # Errors
/// A sentence with what to do.
pub(crate) fn run() -> Result<(), String> {
    debs::unpack("workloads", &dir(), &PACKAGES, With::Dependencies)?;
    crate::mxnet::install(&dir())
}
