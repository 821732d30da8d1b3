//! Every example of `docs/planning.md`, in its order, in one directory, with its output.
//!
//! `SLUICE_UPDATE_EXPECTED=1 cargo test -p sluice planning_guide` writes the outputs anew; read the difference
//! before committing it.

use std::path::Path;

#[test]
fn every_example_does_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/planning.md");
    let dir = tempfile::tempdir().expect("a temporary directory");
    crate::guide::every_example_does_what_it_says(&path, dir.path(), 24);
}
