//! What is broken under a stock job, to show that the job does not notice.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::run::RunError;
use crate::run::daemons::Daemons;
use crate::run::pages::{Full, FullDir, Pages};

/// What is broken in the middle of a run, or from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// Nothing is broken.
    #[default]
    None,
    /// All daemons are killed (SIGKILL) in the middle of the run.
    Kill,
    /// All daemons are stopped (SIGSTOP) in the middle of the run, to its end.
    Stop,
    /// There is no directory for pages.
    PageMissing,
    /// The directory for pages has no room for a file.
    PageFull,
    /// Only one rank has the library.
    OneRank,
}

impl Fault {
    /// Does this need a library that publishes pages?
    pub fn is_of_pages(self) -> bool {
        matches!(self, Fault::PageMissing | Fault::PageFull | Fault::OneRank)
    }

    /// Where pages go under it; `dir` is the run's.
    ///
    /// # Errors
    /// When no file system can be mounted.
    pub(super) fn pages(self, dir: &Path) -> Result<(Pages, Option<FullDir>), RunError> {
        Ok(match self {
            Fault::PageMissing => (Pages::In(dir.join("no-such-directory")), None),
            Fault::PageFull => {
                let full = FullDir::make(&dir.join("full"), Full::Names)?;
                (Pages::In(full.path().to_owned()), Some(full))
            }
            // Which rank has the library, its command line says.
            Fault::None | Fault::Kill | Fault::Stop | Fault::OneRank => (Pages::EveryHost, None),
        })
    }

    fn signal(self) -> Option<Signal> {
        match self {
            Fault::Kill => Some(Signal::SIGKILL),
            Fault::Stop => Some(Signal::SIGSTOP),
            _ => None,
        }
    }
}

/// Strikes the daemons once, when the first job is half through.
pub(super) struct Striker<'a> {
    signal: Option<Signal>,
    daemons: Option<&'a Daemons>,
    half: usize,
    struck: bool,
}

impl<'a> Striker<'a> {
    pub(super) fn new(fault: Fault, daemons: Option<&'a Daemons>, iterations: usize) -> Striker<'a> {
        Striker { signal: fault.signal(), daemons, half: iterations / 2, struck: false }
    }

    /// Looks whether it is time; `done`: iterations of the first job's rank that is furthest.
    pub(super) fn look(&mut self, done: Option<usize>) {
        let (Some(signal), Some(daemons)) = (self.signal, self.daemons) else { return };
        if !self.struck && done >= Some(self.half) {
            self.struck = true;
            self.signal_all(daemons, signal);
        }
    }

    /// Lets stopped daemons go on, so that they can be ended.
    pub(super) fn lift(&self) {
        if let (Some(Signal::SIGSTOP), Some(daemons), true) = (self.signal, self.daemons, self.struck) {
            self.signal_all(daemons, Signal::SIGCONT);
        }
    }

    fn signal_all(&self, daemons: &Daemons, signal: Signal) {
        for host in 0..daemons.hosts.len() {
            daemons.signal(host, signal);
        }
    }
}

/// The preload library and where each host's nodes publish, as a fault has it.
pub(super) struct Library {
    library: Option<PathBuf>,
    pages: Vec<PathBuf>,
    only_first: bool,
    /// Kept until the run is over.
    _full: Option<FullDir>,
}

/// The library that a node loads before its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Preload {
    pub(super) library: PathBuf,
    pub(super) pages: PathBuf,
}

impl Library {
    /// `library`: loaded at all? `daemons`: directories of pages; without daemons there are none.
    ///
    /// # Errors
    /// As [`Fault::pages`].
    pub(super) fn new(
        fault: Fault,
        library: Option<PathBuf>,
        daemons: Option<&Daemons>,
        hosts: usize,
        dir: &Path,
    ) -> Result<Library, RunError> {
        let (pages, _full) = fault.pages(dir)?;
        let own = daemons.map_or_else(|| vec![dir.join("no-daemon"); hosts], Daemons::progress_dirs);
        Ok(Library { library, pages: pages.dirs(own), only_first: fault == Fault::OneRank, _full })
    }

    /// For a node on this host; `first`: is it the first worker?
    pub(super) fn of(&self, host: usize, first: bool) -> Option<Preload> {
        let library = self.library.clone().filter(|_| first || !self.only_first)?;
        Some(Preload { library, pages: self.pages.get(host)?.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_pages_and_its_signal() {
        let dir = Path::new("/nowhere");
        for fault in [Fault::None, Fault::Kill, Fault::Stop, Fault::OneRank] {
            assert_eq!(
                fault.pages(dir).map(|(pages, full)| (pages, full.is_none())).ok(),
                Some((Pages::EveryHost, true))
            );
        }
        let missing = fault_dir(Fault::PageMissing.pages(dir));
        assert!(missing.is_some_and(|dir| !dir.exists()));
        let signals = [Fault::Kill, Fault::Stop, Fault::PageFull].map(Fault::signal);
        assert_eq!(signals, [Some(Signal::SIGKILL), Some(Signal::SIGSTOP), None]);
        let one = Library {
            library: Some("/lib".into()),
            pages: vec!["/a".into(), "/b".into()],
            only_first: true,
            _full: None,
        };
        assert!(one.of(1, true).is_some_and(|preload| preload.pages == Path::new("/b")));
        assert!(one.of(0, false).is_none());
    }

    fn fault_dir(pages: Result<(Pages, Option<FullDir>), RunError>) -> Option<PathBuf> {
        match pages {
            Ok((Pages::In(dir), None)) => Some(dir),
            _ => None,
        }
    }
}
