//! Options and the list of what goes wrong, as one file that can be run again for ever.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sluice_schedule::units::Nanos;

use crate::options::Options;
use crate::plan::Faults;
use crate::world::World;
use crate::{Mutant, Outcome};

/// A run that can be run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    /// The number of the invariant that it broke when it was written.
    pub(crate) broke: Option<u8>,
}

/// A file that is no case.
#[derive(Debug, thiserror::Error)]
pub enum BadCase {
    /// It cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// It says something else.
    #[error("{}: no case of the fault simulator: {why}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Where, and what is allowed there.
        why: serde_json::Error,
    },
    /// It names something that its options do not have.
    #[error("{}: faults.timed and options.jobs name hosts 0 to {most}, {seen} is none of them", path.display())]
    Host {
        /// The file.
        path: PathBuf,
        /// The last host.
        most: usize,
        /// The one that is named.
        seen: usize,
    },
}

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// The file cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Case, BadCase> {
        let file = |why| BadCase::File { path: path.to_owned(), why };
        let text = std::fs::read_to_string(path).map_err(file)?;
        let case: Case = serde_json::from_str(&text).map_err(|why| BadCase::Text { path: path.to_owned(), why })?;
        let named = case.options.jobs.iter().flat_map(|job| job.members.iter().copied());
        let named = named.chain(case.faults.timed.iter().filter_map(|fault| fault.what.host()));
        match named.into_iter().find(|host| *host >= case.options.hosts) {
            Some(seen) => {
                Err(BadCase::Host { path: path.to_owned(), most: case.options.hosts.saturating_sub(1), seen })
            }
            None => Ok(case),
        }
    }

    /// Writes it, for people to read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), BadCase> {
        let text = serde_json::to_string_pretty(self).map_err(|why| BadCase::Text { path: path.to_owned(), why })?;
        std::fs::write(path, text + "\n").map_err(|why| BadCase::File { path: path.to_owned(), why })
    }

    /// Runs it.
    pub fn run(&self, mutant: Option<Mutant>) -> Outcome {
        World::new(self.options.clone(), Some(self.faults.clone()), mutant).run()
    }

    /// Runs it, but no longer than until `end`; `None`: no invariant broke by then.
    pub(crate) fn breaks_until(&self, mutant: Option<Mutant>, end: Nanos) -> Option<u8> {
        let mut world = World::new(self.options.clone(), Some(self.faults.clone()), mutant);
        world.last = end;
        world.run().violation.filter(|violation| violation.at < end).map(|violation| violation.invariant)
    }

    /// What its seed decided.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How many jobs, timed faults and fates of messages it has.
    pub fn size(&self) -> [usize; 3] {
        [self.options.jobs.len(), self.faults.timed.len(), self.faults.messages.len()]
    }
}
