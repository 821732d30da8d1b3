//! The files of inputs: a folder for each target, in it `made-NAME` (by our own encoders; written anew with
//! `cargo xtask fuzz --corpus`) and `found-HASH` (by a fuzzer: new ground, or what once was a defect).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Seed, Target};

/// Bytes of all inputs together at most.
pub const MAX_TOTAL: u64 = 2 << 20;
/// How names of files begin that our encoders made.
pub const MADE: &str = "made-";
/// How names of files begin that a fuzzer found.
pub const FOUND: &str = "found-";

/// Where all corpora are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The folder of a target.
pub fn folder(target: &Target) -> PathBuf {
    root().join(target.name)
}

/// Every input of a target, by name.
///
/// # Errors
/// The folder or a file of it cannot be read.
pub fn load(target: &Target) -> io::Result<Vec<Seed>> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder(target))? {
        let entry = entry?;
        inputs.push(Seed::new(entry.file_name().to_string_lossy(), fs::read(entry.path())?));
    }
    inputs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(inputs)
}

/// Writes the inputs that our encoders make, and takes away those that they make no more.
///
/// # Errors
/// The folder cannot be written.
pub fn write_made(target: &Target) -> io::Result<()> {
    let folder = folder(target);
    fs::create_dir_all(&folder)?;
    for old in load(target)?.iter().filter(|old| old.name.starts_with(MADE)) {
        fs::remove_file(folder.join(&old.name))?;
    }
    for seed in (target.seeds)() {
        fs::write(folder.join(format!("{MADE}{}", seed.name)), &seed.bytes)?;
    }
    Ok(())
}

/// The name under which an input is kept that was found.
pub fn found_name(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{FOUND}{hex}")
}
