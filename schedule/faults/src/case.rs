//! Options and the list of what goes wrong, as one file that can be run again for ever.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sluice_schedule::units::Nanos;

use crate::options::Options;
use crate::plan::Faults;
use crate::valid::{self, Wrong};
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
    /// A number of it may not be what it is.
    #[error("{}: {field}: {seen}; allowed: {allowed}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Names and places on the way to it.
        field: String,
        /// What it is.
        seen: String,
        /// What it may be.
        allowed: String,
    },
}

impl Case {
    /// These options, and nothing that goes wrong.
    pub fn of(options: Options) -> Case {
        Case { options, faults: Faults::default(), broke: None }
    }

    /// Reads a case.
    ///
    /// # Errors
    /// The file cannot be read, or says something else, or a number in it may not be what it is.
    pub fn read(path: &Path) -> Result<Case, BadCase> {
        let text = std::fs::read_to_string(path).map_err(|why| BadCase::File { path: path.to_owned(), why })?;
        Case::parse(path, &text)
    }

    /// Reads a case from the text of this file.
    ///
    /// # Errors
    /// It says something else, or a number in it may not be what it is.
    pub fn parse(path: &Path, text: &str) -> Result<Case, BadCase> {
        let case: Case = serde_json::from_str(text).map_err(|why| BadCase::Text { path: path.to_owned(), why })?;
        match valid::check(&case.options, &case.faults) {
            Ok(()) => Ok(case),
            Err(Wrong { field, seen, allowed }) => Err(BadCase::Value { path: path.to_owned(), field, seen, allowed }),
        }
    }

    /// Writes it, for people to read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), BadCase> {
        let text = self.text().map_err(|why| BadCase::Text { path: path.to_owned(), why })?;
        std::fs::write(path, text).map_err(|why| BadCase::File { path: path.to_owned(), why })
    }

    /// What its file says.
    ///
    /// # Errors
    /// None that is known: it has nothing that JSON has no word for.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Runs it.
    pub fn run(&self, mutant: Option<Mutant>) -> Outcome {
        World::new(self.options.clone(), Some(self.faults.clone()), mutant).run()
    }

    /// Runs its first slots only: whatever becomes of it, it can be run.
    pub fn begin(&self, slots: u64) -> Outcome {
        let mut world = World::new(self.options.clone(), Some(self.faults.clone()), None);
        world.last = Nanos::from_millis(self.options.slot_ms).times(slots);
        world.run()
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
