//! Files in and out: bounded when read, whole or not at all when written.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sluice_formats::problem::{E_LIMIT, E_PARSE, Problem, Problems};

use crate::failure::Failure;

/// Is it stdin or stdout?
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What a file is called in messages.
pub fn name(path: &Path) -> String {
    if is_standard(path) { "stdin".into() } else { path.display().to_string() }
}

/// A file of at most so many bytes; `-` is stdin.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Problems> {
    let mut bytes = Vec::new();
    let read = if is_standard(path) {
        io::stdin().lock().take(most + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
    };
    let refuse = |error: Problem| Err(Problems::from(error).in_file(&name(path)));
    match read {
        Err(error) => refuse(Problem::new(E_PARSE, "", format!("cannot be read: {error}"))),
        Ok(length) if length as u64 > most => {
            refuse(Problem::new(E_LIMIT, "", "the file is too large").allowed(format!("at most {most} bytes")))
        }
        Ok(_) => Ok(bytes),
    }
}

/// Writes a file by renaming: whoever reads it meets the old file or the whole new one, and a failure leaves no part of
/// it. What is no regular file (a pipe, a device) is written to as it is.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_all(&[(path, text)])
}

/// Writes several files as [`write()`] does: none gets its name before all are on the disk.
pub fn write_all(all: &[(&Path, &str)]) -> Result<(), Failure> {
    let mut parts = Vec::new();
    for (path, text) in all {
        match Part::write(path, text)? {
            Some(part) => parts.push(part),
            None => fs::write(path, text).map_err(|error| unwritable(path, &error))?,
        }
    }
    parts.into_iter().try_for_each(Part::name)
}

/// A file whose text is on the disk and which has not got its name yet; dropped without, it is removed.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    target: PathBuf,
    named: bool,
}

impl Part {
    /// Writes the text beside the file. `None`: the file is there and no regular one, and is to be written to as it is.
    pub fn write(path: &Path, text: &str) -> Result<Option<Part>, Failure> {
        let target = match fs::canonicalize(path) {
            Ok(there) if !there.is_file() => return Ok(None),
            Ok(there) => there,
            Err(_) => path.to_path_buf(),
        };
        let failed = |error: io::Error| unwritable(path, &error);
        let beside = beside(&target);
        let mut file = File::create_new(&beside).map_err(failed)?;
        let part = Part { path: beside, target, named: false };
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(Some(part))
    }
    /// Gives it its name.
    pub fn name(mut self) -> Result<(), Failure> {
        fs::rename(&self.path, &self.target).map_err(|error| unwritable(&self.target, &error))?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.named {
            // Nothing can be done about a part that cannot be removed either.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}

/// A name in the same directory that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_whole_and_leave_no_parts() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a.json");
        write(&path, "one").expect("written");
        write(&path, "two").expect("written");
        assert_eq!(read(&path, 3).expect("read"), b"two");
        assert_eq!(read(&path, 2).expect_err("too large").code(), E_LIMIT);
        assert_eq!(read(&dir.path().join("none"), 9).expect_err("absent").code(), E_PARSE);
        assert!(write(&dir.path().join("none/a.json"), "x").is_err());
        let link = dir.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        write(&link, "three").expect("written");
        assert!(link.is_symlink() && fs::read(&path).expect("read") == b"three");
        write(Path::new("/dev/null"), "x").expect("a device is written to");
        let both: [(&Path, &str); 2] = [(&path, "four"), (&dir.path().join("none/b.json"), "x")];
        assert!(write_all(&both).is_err());
        assert_eq!(fs::read(&path).expect("read"), b"three", "neither of two files is written where one cannot be");
        let names: Vec<_> = fs::read_dir(dir.path()).expect("list").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
}
