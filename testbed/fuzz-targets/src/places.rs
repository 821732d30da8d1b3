//! Where targets put files that their parsers want: in memory where there is a place for that, named by this process, so that what
//! a killed one has left is known, and taken away by the next.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// How the names begin; the process's number follows.
const PREFIX: &str = "sluice-fuzz-";

fn root() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Takes away what processes have left that are gone.
fn sweep(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another process may be faster.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A new directory of this process, which goes with the value.
pub(crate) fn place() -> TempDir {
    let root = root();
    sweep(&root);
    let name = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&name).tempdir_in(root).expect("a directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_left_that_is_gone_is_taken_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let gone = dir.path().join(format!("{PREFIX}4294967295-x"));
        let (here, other) =
            (dir.path().join(format!("{PREFIX}{}-x", std::process::id())), dir.path().join("other-1-x"));
        [&gone, &here, &other].into_iter().for_each(|path| std::fs::create_dir(path).expect("made"));
        sweep(dir.path());
        assert!(!gone.exists() && here.exists() && other.exists());
    }
}
