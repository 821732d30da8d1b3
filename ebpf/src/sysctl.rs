//! The two sysctls of a managed network namespace, changed and given back.
//!
//! `tcp_tso_rtt_log` adds up to 64 KiB to every burst on short paths whatever the rate, which ruins slow rates;
//! `tcp_wmem` bounds how far a sender can get ahead. The caller keeps the returned changes (journal) for [`restore`].

use std::fs;
use std::path::{Path, PathBuf};

use crate::options::Error;

const DIR: &str = "/proc/sys/net/ipv4";
/// 50 ms at 10 Gbit/s.
const WMEM_MAX: u64 = 64 << 20;

/// One sysctl that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// File name under /proc/sys/net/ipv4.
    pub key: String,
    /// What the file held before, without the line end.
    pub old: String,
    /// What was written.
    pub new: String,
}

/// What became of the sysctls.
#[derive(Debug, Default)]
pub struct Applied {
    /// Those that had another value.
    pub changes: Vec<Change>,
    /// One [`Error::File`] for each that could not be changed; a kernel without it is no error.
    pub errors: Vec<Error>,
}

/// Changes what has another value, in the caller's network namespace.
pub fn apply() -> Applied {
    apply_in(Path::new(DIR))
}

/// Restores each sysctl that still has the value we gave it; returns a sentence for each that was left.
pub fn restore(changes: &[Change]) -> Vec<String> {
    restore_in(Path::new(DIR), changes)
}

fn apply_in(dir: &Path) -> Applied {
    let mut changes = Vec::new();
    let mut errors = Vec::new();
    for key in ["tcp_tso_rtt_log", "tcp_wmem"] {
        let path = dir.join(key);
        // Kernels before 5.18 have no tcp_tso_rtt_log, and nothing to switch off.
        let Ok(old) = read(&path) else { continue };
        let Some(new) = wanted(key, &old).filter(|new| *new != old) else { continue };
        match fs::write(&path, &new) {
            Ok(()) => changes.push(Change { key: key.into(), old, new }),
            Err(error) => errors.push(Error::file("write", path, error)),
        }
    }
    Applied { changes, errors }
}

fn restore_in(dir: &Path, changes: &[Change]) -> Vec<String> {
    let mut left = Vec::new();
    for change in changes {
        let path = dir.join(&change.key);
        match read(&path) {
            Ok(now) if now != change.new => left.push(format!(
                "{}: has {now:?}, not the {:?} that was set; left alone (it was {:?} before)",
                path.display(),
                change.new,
                change.old
            )),
            Ok(_) => {
                if let Err(error) = fs::write(&path, &change.old) {
                    left.push(format!("{}: {error}; it was {:?} before", path.display(), change.old));
                }
            }
            Err(error) => left.push(format!("{}: {error}", path.display())),
        }
    }
    left
}

fn wanted(key: &str, old: &str) -> Option<String> {
    if key == "tcp_tso_rtt_log" {
        return Some("0".into());
    }
    let numbers: Vec<u64> = old.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    match numbers.as_slice() {
        [min, start, max] => Some(format!("{min}\t{start}\t{}", WMEM_MAX.max(*max))),
        _ => None,
    }
}

fn read(path: &PathBuf) -> std::io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_still_ours_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tcp_tso_rtt_log"), "9\n").unwrap();
        fs::write(dir.path().join("tcp_wmem"), "4096\t16384\t4194304\n").unwrap();
        let Applied { changes, errors } = apply_in(dir.path());
        assert!(errors.is_empty());
        assert_eq!(changes.len(), 2);
        assert_eq!(changes[1].new, "4096\t16384\t67108864");
        assert!(apply_in(dir.path()).changes.is_empty());
        fs::write(dir.path().join("tcp_wmem"), "1 2 3").unwrap();
        let left = restore_in(dir.path(), &changes);
        assert_eq!(left.len(), 1);
        assert!(left[0].contains("tcp_wmem") && left[0].contains("left alone"));
        assert_eq!(fs::read_to_string(dir.path().join("tcp_tso_rtt_log")).unwrap(), "9");
    }

    #[test]
    fn a_kernel_without_them_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let Applied { changes, errors } = apply_in(dir.path());
        assert!(changes.is_empty() && errors.is_empty());
    }
}
