//! Where our own programs are.

use std::path::PathBuf;

use super::RunError;

/// Paths of the programs that a run starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// `sluice-job`, one process of which is one member of a job.
    pub job: PathBuf,
    dirs: Vec<PathBuf>,
}

impl Binaries {
    /// Looks in `SLUICE_BIN_DIR`, beside this executable, one directory up (tests and examples run from
    /// `target/*/deps`), and in cargo's target directory.
    ///
    /// # Errors
    /// When `sluice-job` is nowhere. The daemons are looked for when they are wanted.
    pub fn find() -> Result<Binaries, RunError> {
        let mut dirs: Vec<PathBuf> = std::env::var_os("SLUICE_BIN_DIR").map(PathBuf::from).into_iter().collect();
        if let Ok(own) = std::env::current_exe() {
            dirs.extend(own.ancestors().skip(1).take(2).map(PathBuf::from));
        }
        if let Some(target) = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from) {
            dirs.extend([target.join("release"), target.join("debug")]);
        }
        let mut found = Binaries { job: PathBuf::new(), dirs };
        found.job = found.named("sluice-job", "sluice-testbed")?;
        Ok(found)
    }

    /// The programs of one directory and nowhere else: those of another build. Jobs are those of this one.
    ///
    /// # Errors
    /// There is no daemon or no switch in it.
    pub fn in_dir(&self, dir: PathBuf) -> Result<Binaries, RunError> {
        let other = Binaries { job: self.job.clone(), dirs: vec![dir] };
        other.daemon().and(other.switch())?;
        Ok(other)
    }

    /// The load generator for switches, an example of the package `sluice-switch`.
    ///
    /// # Errors
    /// When it is nowhere.
    pub fn load(&self) -> Result<PathBuf, RunError> {
        self.named("examples/load", "sluice-switch --example load")
    }

    /// The daemon, `sluiced`.
    ///
    /// # Errors
    /// When it is nowhere.
    pub fn daemon(&self) -> Result<PathBuf, RunError> {
        self.named("sluiced", "sluiced")
    }

    /// The switch, `sluice-switch`.
    ///
    /// # Errors
    /// When it is nowhere.
    pub fn switch(&self) -> Result<PathBuf, RunError> {
        self.named("sluice-switch", "sluice-switch")
    }

    /// The command line, `sluice`, which plans what needs a solver.
    ///
    /// # Errors
    /// When it is nowhere.
    pub fn sluice(&self) -> Result<PathBuf, RunError> {
        self.named("sluice", "sluice")
    }

    /// PS-Lite's preload library, `libsluice_pslite.so`.
    ///
    /// # Errors
    /// When it is nowhere.
    pub fn pslite(&self) -> Result<PathBuf, RunError> {
        self.named("libsluice_pslite.so", "sluice-pslite")
    }

    fn named(&self, name: &'static str, package: &'static str) -> Result<PathBuf, RunError> {
        let found = self.dirs.iter().map(|d| d.join(name)).find(|p| p.is_file());
        found.ok_or_else(|| {
            let looked: Vec<String> = self.dirs.iter().map(|d| d.display().to_string()).collect();
            RunError::Program { name, package, looked: looked.join(", ") }
        })
    }
}
