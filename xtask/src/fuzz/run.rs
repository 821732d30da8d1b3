//! One process of libFuzzer: its options, its progress as it goes, and what it leaves.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::seen::Seen;
use super::{LONGEST, MEMORY_MIB, SLOW, corpora};
use crate::shell::root;

/// Between two words on how far a process is.
const PULSE: Duration = Duration::from_secs(30);
/// A process may end this long after its time.
const GRACE: Duration = Duration::from_secs(60);

/// The driver for a target.
pub(super) struct Driver(Command);

/// The driver for a target.
pub(super) fn command(program: &Path, target: &str) -> Driver {
    let mut command = Command::new(program);
    command.current_dir(root()).env("SLUICE_FUZZ_TARGET", target).stdin(Stdio::null());
    // What the libraries keep for the process's life is no leak.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    Driver(command)
}

impl Driver {
    pub(super) fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Driver {
        self.0.arg(arg);
        self
    }
    pub(super) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Driver {
        self.0.args(args);
        self
    }
    /// Runs it without a word, however it ends.
    pub(super) fn quiet_end(mut self) {
        let _ = self.0.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Runs a target for this long; says now and then how far it is. `copy`: which of several processes of this target.
pub(super) fn one(program: &Path, runs: &Path, target: &str, copy: usize, time: Duration) -> Seen {
    let folder = runs.join(target);
    let (inputs, broke, log) =
        (folder.join("inputs"), folder.join(format!("broke-{copy}")), folder.join(format!("log-{copy}")));
    let mut seen = Seen { target: target.to_owned(), ..Seen::default() };
    let _ = fs::remove_dir_all(&broke); // Absent is as good.
    let output =
        fs::create_dir_all(&inputs).and_then(|()| fs::create_dir_all(&broke)).and_then(|()| File::create(&log));
    let output = match output {
        Ok(output) => output,
        Err(error) => return seen.failed(format!("{}: {error}", folder.display())),
    };
    let Driver(mut command) = command(program, target)
        .arg(format!("-max_total_time={}", time.as_secs()))
        .arg(format!("-timeout={}", LONGEST.as_secs()))
        .arg(format!("-report_slow_units={}", SLOW.as_secs()))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-artifact_prefix={}/", broke.display()))
        .args(["-max_len=65536", "-print_final_stats=1", "-reload=1"])
        .arg(&inputs)
        .arg(corpora().join(target));
    let errors = match output.try_clone() {
        Ok(errors) => errors,
        Err(error) => return seen.failed(format!("{}: {error}", log.display())),
    };
    let begun = Instant::now();
    let mut child = match command.stdout(output).stderr(errors).spawn() {
        Ok(child) => child,
        Err(error) => return seen.failed(format!("{}: {error}", program.display())),
    };
    let mut told = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return seen.failed(format!("waiting for it: {error}")),
        }
        if begun.elapsed() > time + GRACE {
            drop(child.kill());
            drop(child.wait());
            return seen.failed(format!("it did not end by itself; {}", log.display()));
        }
        if told.elapsed() > PULSE {
            told = Instant::now();
            let text = fs::read_to_string(&log).unwrap_or_default();
            let last = text.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or("").trim();
            println!("{target}: {} of {} s  {last}", begun.elapsed().as_secs(), time.as_secs());
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    seen.seconds = begun.elapsed().as_secs();
    seen.read(&fs::read_to_string(&log).unwrap_or_default());
    for path in artifacts(&broke) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What was slow once may have waited for the processor; what is slow alone is slow.
        if !name.starts_with("slow-unit") || is_slow(program, target, &path) {
            seen.broke.push(path);
        }
    }
    if !status.success() && seen.broke.is_empty() {
        return seen.failed(format!("it ended with {status} and left no input; {}", log.display()));
    }
    if seen.executions == 0 && seen.broke.is_empty() {
        return seen.failed(format!("it fed nothing, or did not say how much; {}", log.display()));
    }
    seen
}

fn artifacts(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Does the input take longer than it may each time of three?
fn is_slow(program: &Path, target: &str, input: &Path) -> bool {
    let again = || {
        let begun = Instant::now();
        command(program, target).arg(input).quiet_end();
        begun.elapsed()
    };
    (0..3).all(|_| again() > SLOW)
}
