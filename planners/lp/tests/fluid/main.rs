//! Fluid programs: the figures of the method's page, properties, and what is refused.

mod master;
mod relaxed;
mod solve;

use sluice_formats::topology::Topology;

/// A small fabric of the method's page.
fn fabric(name: &str) -> Topology {
    let path = format!("{}/tests/fluid/fabrics/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Topology::load(std::path::Path::new(&path)).expect("a fabric")
}
