//! One process of libFuzzer: its options, its progress as it goes, and what it leaves.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::seen::Seen;
use super::{LONGEST, MEMORY_MIB, SLOW, corpora};
use crate::shell::{Step, root};

/// Between two words on how far a process is.
const PULSE: Duration = Duration::from_secs(30);
/// A process may end this long after it was told to.
const GRACE: Duration = Duration::from_secs(60);
/// Less processor time is not worth another process.
const LEAST: Duration = Duration::from_secs(2);

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

/// When a target has had enough: after the first of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Processor time of one process of it.
    pub(super) processor: Duration,
    /// Inputs of one process of it.
    pub(super) inputs: Option<u64>,
}

impl Bound {
    /// What is left of it; `None`: nothing.
    fn after(&self, seen: &Seen) -> Option<Bound> {
        let processor = self.processor.saturating_sub(Duration::from_secs(seen.seconds));
        let inputs = self.inputs.map(|inputs| inputs.saturating_sub(seen.executions));
        (processor >= LEAST && inputs != Some(0)).then_some(Bound { processor, inputs })
    }
}

/// Runs a target until it has had enough; says now and then how far it is. `copy`: which of several processes of this target.
///
/// libFuzzer ends at the first input that takes too long by the clock on the wall. One that did so because somebody else had
/// the processor is none, and the target goes on.
pub(super) fn one(program: &Path, runs: &Path, target: &str, copy: usize, bound: Bound) -> Seen {
    let mut seen = Seen { target: target.to_owned(), ..Seen::default() };
    let folder = runs.join(target);
    let broke = folder.join(format!("broke-{copy}"));
    let _ = fs::remove_dir_all(&broke); // Absent is as good.
    while let Some(rest) = bound.after(&seen) {
        let log = folder.join(format!("log-{copy}"));
        let status = match process(program, target, &folder, &broke, &log, rest, &mut seen) {
            Ok(status) => status,
            Err(why) => return seen.failed(why),
        };
        let mut late = false;
        for path in artifacts(&broke) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // What was slow once may have waited for the processor; what is slow alone is slow.
            if !["slow-unit", "timeout"].iter().any(|kind| name.starts_with(kind)) || is_slow(program, target, &path) {
                seen.broke.push(path);
            } else {
                late = true;
                let _ = fs::remove_file(&path); // It would be looked at again.
            }
        }
        if !seen.broke.is_empty() {
            break;
        }
        match status {
            Err(how) if !late => {
                return seen.failed(format!("it ended with {how} and left no input; {}", log.display()));
            }
            _ if seen.executions == 0 => {
                return seen.failed(format!("it fed nothing, or did not say how much; {}", log.display()));
            }
            Ok(()) => break,
            Err(_) => {}
        }
    }
    seen
}

/// One process to its end, and what it has seen; how it ended where that was bad.
fn process(
    program: &Path,
    target: &str,
    folder: &Path,
    broke: &Path,
    log: &Path,
    bound: Bound,
    seen: &mut Seen,
) -> Result<Result<(), ExitStatus>, String> {
    let inputs = folder.join("inputs");
    let output = fs::create_dir_all(&inputs).and_then(|()| fs::create_dir_all(broke)).and_then(|()| File::create(log));
    let output = output.map_err(|error| format!("{}: {error}", folder.display()))?;
    let errors = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    let driver = command(program, target);
    let Driver(mut command) = match bound.inputs {
        Some(inputs) => driver.arg(format!("-runs={inputs}")),
        None => driver,
    }
    .arg(format!("-timeout={}", LONGEST.as_secs()))
    .arg(format!("-report_slow_units={}", SLOW.as_secs()))
    .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
    .arg(format!("-artifact_prefix={}/", broke.display()))
    .args(["-max_len=65536", "-print_final_stats=1", "-reload=1"])
    .arg(&inputs)
    .arg(corpora().join(target));
    let child = command.stdout(output).stderr(errors).spawn();
    let mut child = child.map_err(|error| format!("{}: {error}", program.display()))?;
    let (mut told, mut had, mut asked) = (Instant::now(), Duration::ZERO, None::<Instant>);
    let status = loop {
        // Of a process that has ended, the last that was seen of it.
        had = processor(child.id()).unwrap_or(had).max(had);
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(format!("waiting for it: {error}")),
        }
        if asked.is_none() && had >= bound.processor {
            // It ends after the input at hand, and says what it has seen.
            asked = Some(Instant::now());
            Step::new("kill", &["-USR1", &child.id().to_string()]).quiet();
        }
        if asked.is_some_and(|asked| asked.elapsed() > GRACE) {
            drop(child.kill());
            drop(child.wait());
            return Err(format!("it did not end when it was told to; {}", log.display()));
        }
        if told.elapsed() > PULSE {
            told = Instant::now();
            let text = fs::read_to_string(log).unwrap_or_default();
            let last = text.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or("").trim();
            println!("{target}: {} of {} s  {last}", had.as_secs(), bound.processor.as_secs());
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    seen.seconds += had.as_secs();
    seen.read(&fs::read_to_string(log).unwrap_or_default());
    Ok(if status.success() { Ok(()) } else { Err(status) })
}

/// Processor time that a process has had.
fn processor(pid: u32) -> Option<Duration> {
    used(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The same from its line of /proc: the 14th and 15th field, in hundredths of a second. Its name may hold anything.
fn used(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_millis(10 * (user + system)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_whatever_a_program_is_called() {
        let stat = "7 (a) b (c)) R 1 7 7 0 -1 4194304 90 0 0 0 250 150 9 9 39 19 2 0 5 6 7";
        assert_eq!(used(stat), Some(Duration::from_secs(4)));
        assert_eq!(used("7 (a) R 1"), None);
        assert!(processor(std::process::id()).is_some() && processor(u32::MAX).is_none());
    }

    #[test]
    fn a_target_has_had_enough_after_its_time_or_its_inputs() {
        let bound = Bound { processor: Duration::from_secs(600), inputs: Some(1000) };
        let seen = |seconds, executions| Seen { seconds, executions, ..Seen::default() };
        let rest = bound.after(&seen(100, 400)).expect("some is left");
        assert_eq!((rest.processor.as_secs(), rest.inputs), (500, Some(600)));
        assert!(bound.after(&seen(100, 1000)).is_none() && bound.after(&seen(599, 400)).is_none());
        assert!(Bound { inputs: None, ..bound }.after(&seen(1, 5000)).is_some());
    }
}
