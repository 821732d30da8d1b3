//! Every example of `docs/simulating.md`, in its order, in one directory, with its output.
//!
//! `SLUICE_UPDATE_EXPECTED=1 cargo test -p sluice simulating_guide` writes the outputs anew; read the difference
//! before committing it.

use std::path::Path;

#[test]
fn every_example_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["fixed-mix-25g.toml", "two-rings.toml"] {
        std::fs::copy(root.join("testbed/scenarios").join(name), dir.path().join(name)).expect("a scenario");
    }
    crate::guide::every_example_does_what_it_says(&root.join("docs/simulating.md"), dir.path(), 8);
}
