//! The file of statements that a data plane's tables are: read again when it changed, and taken over as a whole or not at
//! all.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sluice_pipeline::Switch;
use sluice_pipeline::control::{NoStatement, Statement, statements};
use sluice_schedule::units::mixed;
use sluice_wire::udp::MARK;

/// Bytes of a file at most.
const MAX_BYTES: u64 = 4 << 20;

/// Why a file is not taken over.
#[derive(Debug)]
pub enum Unreadable {
    /// It cannot be read, or is larger than 4 MiB.
    File(std::io::Error),
    /// A line is no statement.
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong there.
        fault: NoStatement,
    },
    /// A line says what is not the file's to say.
    NotHere {
        /// Which, from 1.
        line: usize,
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::File(error) => write!(f, "{error}"),
            Unreadable::Line { line, fault } => write!(f, "line {line}: {fault}"),
            Unreadable::NotHere { line } => {
                write!(
                    f,
                    "line {line}: the guard follows the clock and nothing restarts here; allowed are route, member, edge, link"
                )
            }
        }
    }
}

pub struct Tables {
    path: PathBuf,
    boot: u64,
    /// Of the last file that was looked at, good or not, so that a bad one is told of once.
    seen: Option<(SystemTime, u64)>,
}

impl Tables {
    pub fn new(path: &Path, boot: u64) -> Tables {
        Tables { path: path.to_owned(), boot, seen: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the file over if it changed. False: it did not.
    ///
    /// # Errors
    /// [`Unreadable`]; then everything is as it was.
    pub fn read_changed(&mut self, switch: &mut Switch) -> Result<bool, Unreadable> {
        let version = std::fs::metadata(&self.path).and_then(|meta| Ok((meta.modified()?, meta.len())));
        let version = version.map_err(Unreadable::File);
        match &version {
            Ok(version) if self.seen == Some(*version) => return Ok(false),
            // It was there and is gone: say so once, not in each slot.
            Err(_) if self.seen == Some((SystemTime::UNIX_EPOCH, 0)) => return Ok(false),
            _ => {}
        }
        self.seen = Some(*version.as_ref().unwrap_or(&(SystemTime::UNIX_EPOCH, 0)));
        version?;
        let mut text = String::new();
        let file = std::fs::File::open(&self.path).map_err(Unreadable::File)?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(Unreadable::File)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(Unreadable::File(std::io::Error::other("more than 4 MiB")));
        }
        let mut read = Vec::new();
        for (line, statement) in statements(&text) {
            match statement.map_err(|fault| Unreadable::Line { line, fault })? {
                Statement::Guard(_) | Statement::Restart => return Err(Unreadable::NotHere { line }),
                Statement::Link(port, mut link) => {
                    link.signature ^= mixed(self.boot ^ u64::from(port) << 48) as u32 & !MARK;
                    read.push(Statement::Link(port, link));
                }
                other => read.push(other),
            }
        }
        switch.clear_tables();
        read.into_iter().for_each(|statement| statement.apply(switch));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_over_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s0.tables");
        let mut switch = Switch::new(9604);
        let mut tables = Tables::new(&path, 5);
        assert!(matches!(tables.read_changed(&mut switch), Err(Unreadable::File(_))));
        assert!(matches!(tables.read_changed(&mut switch), Ok(false)), "told once");
        std::fs::write(&path, "route 10.0.0.0/8 via 1 02:00:00:00:00:01 02:00:00:00:00:02 # up\n\n").unwrap();
        assert!(matches!(tables.read_changed(&mut switch), Ok(true)));
        assert!(matches!(tables.read_changed(&mut switch), Ok(false)));
        std::fs::write(&path, "edge 0 10.0.0.0/8\nguard 7\n").unwrap();
        let error = tables.read_changed(&mut switch).unwrap_err().to_string();
        assert!(error.starts_with("line 2: the guard follows the clock"), "{error}");
        std::fs::write(&path, "edge 0 10.0.0.0/8\n\nlink 9\n").unwrap();
        let error = tables.read_changed(&mut switch).unwrap_err().to_string();
        assert_eq!(error, "line 3: the next word is ``; allowed is capacity");
    }
}
