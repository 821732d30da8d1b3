//! The shipped units and packages: what they say is whole, and the real programs work under it.

mod analyze;
mod assets;
mod restarts;
mod start;

use std::path::{Path, PathBuf};

/// A file of `deploy/`.
fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder").join(name)
}

/// The units, each with its drop-ins.
const UNITS: [(&str, &[&str]); 3] = [
    ("sluiced.service", &["sluiced-containers.conf", "sluiced-probes.conf"]),
    (
        "sluice-switch.service",
        &["sluice-switch-routes.conf", "sluice-switch-data-plane.conf", "sluice-switch-tls.conf"],
    ),
    ("run-sluice-progress.mount", &[]),
];
