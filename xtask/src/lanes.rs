//! Runs test programs in two lanes side by side: those that use the kernel, networks or time, one after the other, which mostly
//! wait; and those that only compute, in the kernel's idle class, which get what the others leave of the processors.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::count::Counts;
use crate::shell::{root, target_dir};

/// Packages whose tests only compute, by their folders: neither what the kernel does nor how late they are matters to them.
const COMPUTE: [&str; 19] = [
    "attribution",
    "fleet",
    "formats",
    "identity",
    "plan",
    "planners",
    "planners/lp",
    "planners/solver",
    "planners/wan",
    "schedule",
    "schedule/faults",
    "share",
    "switch-emulator/pipeline",
    "testbed/fuzz-targets",
    "testbed/impairment",
    "testbed/report",
    "testbed/scenario",
    "testbed/simulate",
    "xtask",
];

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    file: PathBuf,
    /// Its package's folder, in which it runs.
    dir: PathBuf,
    /// Its target's name.
    name: String,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) counts: Counts,
    /// Programs of which something failed.
    pub(crate) failed: Vec<String>,
}

/// Which of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Kernel,
    Compute,
}

impl Program {
    /// What a line of cargo's messages says is built; `None`: no test program.
    pub(crate) fn built(line: &str) -> Option<Program> {
        let text = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
            rest.split_once('"').map(|(text, _)| text)
        };
        let is_test = line.split_once("\"profile\":{").is_some_and(|(_, rest)| {
            rest.split_once('}').is_some_and(|(profile, _)| profile.contains("\"test\":true"))
        });
        let dir = Path::new(text("manifest_path")?).parent()?.to_owned();
        let (_, target) = line.split_once("\"target\":{")?;
        let (_, name) = target.split_once("\"name\":\"")?;
        let name = name.split_once('"')?.0.to_owned();
        Some(Program { file: PathBuf::from(text("executable")?), dir, name }).filter(|_| is_test)
    }

    /// The package's folder from the workspace's on.
    fn package(&self) -> &Path {
        self.dir.strip_prefix(root()).unwrap_or(&self.dir)
    }

    /// As people know it.
    fn shown(&self) -> String {
        format!("{} {}", self.package().display(), self.name)
    }

    fn lane(&self) -> Lane {
        let computes = COMPUTE.iter().any(|dir| self.package() == Path::new(dir));
        if computes { Lane::Compute } else { Lane::Kernel }
    }

    /// Runs it to its end; what it writes goes to this file.
    fn run(&self, log: &Path, vars: &[(&str, String)]) -> Result<ExitStatus, String> {
        let why = |e: std::io::Error| format!("{}: {e}", log.display());
        let out = File::create(log).map_err(why)?;
        let err = out.try_clone().map_err(why)?;
        let mut command = match self.lane() {
            Lane::Compute => {
                // Whoever has another class runs first, at once.
                let mut command = Command::new("chrt");
                command.args(["--idle", "0"]).arg(&self.file);
                command
            }
            Lane::Kernel => Command::new(&self.file),
        };
        command.current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        command.envs(vars.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        command.status().map_err(|e| format!("{} cannot be started: {e}", self.file.display()))
    }
}

/// Runs them all and adds up what they say. Shows a line for each that passes, and all that one says that does not; what each
/// said stays in `target/tests`.
///
/// # Errors
/// That folder cannot be made.
pub(crate) fn run(programs: &[Program], vars: &[(&str, String)]) -> Result<Ran, String> {
    let logs = target_dir().join("tests");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).map_err(|e| format!("creating {}: {e}", logs.display()))?;
    let all = Mutex::new(Ran::default());
    std::thread::scope(|threads| {
        for lane in [Lane::Kernel, Lane::Compute] {
            let (all, logs) = (&all, &logs);
            let mut queue: VecDeque<&Program> = programs.iter().filter(|program| program.lane() == lane).collect();
            threads.spawn(move || {
                while let Some(program) = queue.pop_front() {
                    let log = logs.join(format!("{}.txt", program.shown().replace(['/', ' '], "-")));
                    let begin = Instant::now();
                    let ended = program.run(&log, vars);
                    let said = fs::read(&log).unwrap_or_default();
                    let said = String::from_utf8_lossy(&said);
                    let mut counts = Counts::default();
                    said.lines().for_each(|line| counts.line(line));
                    let (passed, seconds) = (matches!(&ended, Ok(status) if status.success()), begin.elapsed());
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    if passed {
                        println!("{}: {} ({:.1} s)", program.shown(), counts.ran(), seconds.as_secs_f64());
                    } else {
                        let how = ended.map_or_else(|why| why, |status| status.to_string());
                        println!("\n{said}\n{}: {how} ({:.1} s)\n", program.shown(), seconds.as_secs_f64());
                        all.failed.push(program.shown());
                    }
                    all.counts.add(&counts);
                }
            });
        }
    });
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(manifest: &str, name: &str, is_test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w#p@0.1.0","manifest_path":"{manifest}","target":{{"kind":["test"],"crate_types":["bin"],"name":"{name}","src_path":"/w/tests/all/main.rs","edition":"2024","doc":false,"doctest":false,"test":true}},"profile":{{"opt_level":"0","debuginfo":0,"debug_assertions":true,"overflow_checks":true,"test":{is_test}}},"features":[],"filenames":["/t/all-1"],"executable":{executable},"fresh":true}}"#
        )
    }

    #[test]
    fn test_programs_are_told_from_others_and_from_libraries() {
        let program = Program { file: "/t/all-1".into(), dir: "/w/p".into(), name: "all".into() };
        assert_eq!(Program::built(&line("/w/p/Cargo.toml", "all", true, r#""/t/all-1""#)), Some(program));
        assert_eq!(Program::built(&line("/w/p/Cargo.toml", "all", false, r#""/t/all-1""#)), None);
        assert_eq!(Program::built(&line("/w/p/Cargo.toml", "all", true, "null")), None);
        assert_eq!(Program::built(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn each_program_has_its_lane_and_every_name_of_a_lane_is_a_package() {
        let lane =
            |dir: &str, name: &str| Program { file: PathBuf::new(), dir: root().join(dir), name: name.into() }.lane();
        assert_eq!(lane("testbed", "all"), Lane::Kernel);
        assert_eq!(lane("ebpf", "all"), Lane::Kernel);
        assert_eq!(lane("planners/lp", "all"), Lane::Compute);
        for dir in COMPUTE {
            assert!(root().join(dir).join("Cargo.toml").exists(), "{dir} is no package");
        }
    }
}
