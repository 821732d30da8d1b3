//! Runs test programs in three lanes side by side: those that measure rates and silences, one after the other, which mostly wait;
//! those that use the kernel, networks or time and can wait for a processor, which the first go before; and those that only
//! compute, in the kernel's idle class, after whatever else has to be computed. A test of the first two that failed beside others
//! has one more try with nothing beside it, which is told.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::count::Counts;
use crate::shell::{Step, root, target_dir};

/// Packages whose tests measure what the kernel and networks do, by their folders.
const MEASURE: [&str; 3] = ["ebpf", "realtime", "testbed"];

/// Packages whose tests only compute: neither what the kernel does nor how late they are matters to them.
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

/// Whoever has another class than what these words start runs first, at once.
const IDLE: [&str; 3] = ["chrt", "--idle", "0"];

/// Where more tests of a program failed than this, the machine's other work was not why.
const MAX_AGAIN: usize = 3;

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
    /// Programs of which something failed, and chores that did.
    pub(crate) failed: Vec<String>,
    /// Tests that passed at their second try only, each after its program.
    pub(crate) again: Vec<String>,
}

/// What a program had said when it had failed.
struct Failed<'a> {
    program: &'a Program,
    /// Its tests that failed; none: it did not come to its end.
    tests: Vec<String>,
}

/// What is to be done beside the tests and only computes.
#[derive(Debug)]
pub(crate) struct Chore {
    /// As its line and its file in `target/tests` name it.
    pub(crate) name: &'static str,
    pub(crate) step: Step,
}

/// Which of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Measure,
    Wait,
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
        let is_of = |dirs: &[&str]| dirs.iter().any(|dir| self.package() == Path::new(dir));
        if is_of(&COMPUTE) {
            Lane::Compute
        } else if is_of(&MEASURE) {
            Lane::Measure
        } else {
            Lane::Wait
        }
    }

    /// Where what it writes goes.
    fn log(&self, logs: &Path, end: &str) -> PathBuf {
        logs.join(format!("{}{end}.txt", self.shown().replace(['/', ' '], "-")))
    }

    /// Runs these of its tests, or all if none is named, to their end; what it writes goes to this file.
    fn run(&self, tests: &[String], log: &Path, vars: &[(&str, String)]) -> Result<ExitStatus, String> {
        let why = |e: std::io::Error| format!("{}: {e}", log.display());
        let out = File::create(log).map_err(why)?;
        let err = out.try_clone().map_err(why)?;
        let mut command = match self.lane() {
            Lane::Compute => {
                let mut command = Command::new(IDLE[0]);
                command.args(&IDLE[1..]).arg(&self.file);
                command
            }
            Lane::Wait => {
                let mut command = Command::new("nice");
                command.args(["-n", "10"]).arg(&self.file);
                command
            }
            Lane::Measure => Command::new(&self.file),
        };
        if !tests.is_empty() {
            command.arg("--exact").args(tests);
        }
        command.current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        command.envs(vars.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        command.status().map_err(|e| format!("{} cannot be started: {e}", self.file.display()))
    }
}

impl Chore {
    /// Does it to its end. Shows a line if that is well, and all that it said if not.
    fn run(&self, logs: &Path) -> bool {
        let (log, begin) = (logs.join(format!("{}.txt", self.name)), Instant::now());
        let ended = File::create(&log).map_err(|e| e.to_string()).and_then(|out| self.step.write_to(&IDLE, out));
        let seconds = begin.elapsed().as_secs_f64();
        match ended {
            Ok(status) if status.success() => println!("{}: done ({seconds:.1} s)", self.name),
            ended => {
                let said = fs::read(&log).unwrap_or_default();
                let how = ended.map_or_else(|why| why, |status| status.to_string());
                println!("\n{}\n{}: {how} ({seconds:.1} s)\n", String::from_utf8_lossy(&said), self.name);
                return false;
            }
        }
        true
    }
}

/// The tests that a program of libtest names at its end as failed.
fn failures(said: &str) -> Vec<String> {
    let Some((_, list)) = said.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("    ")).map(|name| name.trim().to_owned()).collect()
}

/// Runs them all, does the chores, and adds up what the programs say. Shows a line for each that passes, and all that one says
/// that does not; what each said stays in `target/tests`.
///
/// # Errors
/// That folder cannot be made.
pub(crate) fn run(programs: &[Program], chores: &[Chore], vars: &[(&str, String)]) -> Result<Ran, String> {
    let logs = target_dir().join("tests");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).map_err(|e| format!("creating {}: {e}", logs.display()))?;
    let (all, failed) = (Mutex::new(Ran::default()), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for lane in [Lane::Measure, Lane::Wait, Lane::Compute] {
            let (all, failed, logs) = (&all, &failed, &logs);
            let mut queue: VecDeque<&Program> = programs.iter().filter(|program| program.lane() == lane).collect();
            threads.spawn(move || {
                for chore in chores.iter().filter(|_| lane == Lane::Compute) {
                    if !chore.run(logs) {
                        all.lock().unwrap_or_else(PoisonError::into_inner).failed.push(chore.name.to_owned());
                    }
                }
                while let Some(program) = queue.pop_front() {
                    let log = program.log(logs, "");
                    let begin = Instant::now();
                    let ended = program.run(&[], &log, vars);
                    let said = fs::read(&log).unwrap_or_default();
                    let said = String::from_utf8_lossy(&said);
                    let mut counts = Counts::default();
                    said.lines().for_each(|line| counts.line(line));
                    let (passed, seconds) = (matches!(&ended, Ok(status) if status.success()), begin.elapsed());
                    if passed {
                        println!("{}: {} ({:.1} s)", program.shown(), counts.ran(), seconds.as_secs_f64());
                    } else {
                        let how = ended.map_or_else(|why| why, |status| status.to_string());
                        println!("\n{said}\n{}: {how} ({:.1} s)\n", program.shown(), seconds.as_secs_f64());
                        let tests = failures(&said);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(Failed { program, tests });
                    }
                    all.lock().unwrap_or_else(PoisonError::into_inner).counts.add(&counts);
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    for failed in failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        failed.again(&logs, vars, &mut all);
    }
    Ok(all)
}

impl Failed<'_> {
    /// Tries once more what failed, where time and neighbours matter to it and it is not more than a few tests: what fails
    /// without anything beside it has failed.
    fn again(&self, logs: &Path, vars: &[(&str, String)], all: &mut Ran) {
        let (program, tests) = (self.program, &self.tests);
        let shown = program.shown();
        if program.lane() == Lane::Compute || tests.is_empty() || tests.len() > MAX_AGAIN {
            return all.failed.push(shown);
        }
        let log = program.log(logs, "-again");
        let ended = program.run(tests, &log, vars);
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        // A name that the program does not know is no test that passed.
        let passed = said.lines().any(|line| line.starts_with(&format!("test result: ok. {} passed;", tests.len())));
        if passed && matches!(&ended, Ok(status) if status.success()) {
            println!("{shown}: passed at the second try: {}", tests.join(", "));
            all.counts.mend(tests.len());
            all.again.extend(tests.iter().map(|test| format!("{shown} {test}")));
        } else {
            println!("\n{said}\n{shown}: failed at the second try too: {}\n", tests.join(", "));
            all.failed.push(shown);
        }
    }
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
    fn the_failures_are_those_of_the_list_at_the_end() {
        let said = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\n\nfailures:\n    x::y\n\n---- b::c stdout ----\nno\n\n\
                    failures:\n    a\n    b::c\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 filtered out\n";
        assert_eq!(failures(said), ["a", "b::c"]);
        assert!(failures("test a ... ok\n\ntest result: ok. 1 passed\n").is_empty());
        assert!(failures("running 9 tests\nsignal: 11\n").is_empty());
    }

    /// A folder of its own, gone with this.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).expect("a folder");
            Folder(dir)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A program of libtest for a test: it fails at its first try, and at its second unless it is to pass then.
    fn flaky(dir: &Path, passes: bool) -> Program {
        use std::os::unix::fs::PermissionsExt;
        let result = |ok: bool, filtered: u32| match ok {
            true => format!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; {filtered} filtered out"),
            false => format!(
                "\nfailures:\n    a::b\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; {filtered} filtered out"
            ),
        };
        let (first, then) = (result(false, 0), result(passes, 9));
        let file = dir.join("program");
        let code = u8::from(!passes);
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n'') echo '{first}'; exit 1;;\n'--exact a::b') echo '{then}'; exit {code};;\nesac\nexit 2\n"
        );
        fs::write(&file, script).expect("it is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is made a program");
        Program { file, dir: dir.to_owned(), name: "all".into() }
    }

    #[test]
    fn what_fails_beside_others_only_is_told_and_what_fails_alone_too_has_failed() {
        for passes in [true, false] {
            let dir = Folder::new("flaky");
            let (program, mut all) = (flaky(&dir.0, passes), Ran::default());
            all.counts.line("test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
            let failed = Failed { program: &program, tests: vec!["a::b".into()] };
            failed.again(&dir.0, &[], &mut all);
            let counts = format!("{} passed, {} failed", usize::from(passes), usize::from(!passes));
            assert_eq!(all.counts.ran(), counts);
            assert_eq!((all.failed.len(), all.again.len()), (usize::from(!passes), usize::from(passes)));
        }
    }

    #[test]
    fn a_chore_that_fails_is_told_with_all_that_it_said_and_fails_the_run() {
        let dir = Folder::new("chore");
        let chore = |name, script: &str| Chore { name, step: Step::new("sh", &["-c", script]) };
        assert!(chore("good", "chrt -p $$; echo oh >&2").run(&dir.0));
        let said = fs::read_to_string(dir.0.join("good.txt")).expect("what it said");
        assert!(said.contains("SCHED_IDLE") && said.contains("oh"), "{said}");
        assert!(!chore("bad", "exit 3").run(&dir.0));
        assert!(!Chore { name: "absent", step: Step::new("no-such-program-as-this", &[]) }.run(&dir.0));
    }

    #[test]
    fn what_only_computes_or_fails_as_a_whole_has_no_second_try() {
        let dir = Folder::new("no-second-try");
        let mut program = flaky(&dir.0, true);
        for tests in [0, MAX_AGAIN + 1] {
            let mut all = Ran::default();
            Failed { program: &program, tests: vec!["a::b".into(); tests] }.again(&dir.0, &[], &mut all);
            assert_eq!((all.failed.len(), all.again.len()), (1, 0));
        }
        let mut all = Ran::default();
        program.dir = root().join("planners");
        Failed { program: &program, tests: vec!["a::b".into()] }.again(&dir.0, &[], &mut all);
        assert_eq!((all.failed.len(), all.again.len()), (1, 0));
    }

    #[test]
    fn each_program_has_its_lane_and_every_name_of_a_lane_is_a_package() {
        let lane =
            |dir: &str, name: &str| Program { file: PathBuf::new(), dir: root().join(dir), name: name.into() }.lane();
        assert_eq!(lane("testbed", "all"), Lane::Measure);
        assert_eq!(lane("ebpf", "all"), Lane::Measure);
        assert_eq!(lane("daemon", "around"), Lane::Wait);
        assert_eq!(lane("planners/lp", "all"), Lane::Compute);
        for dir in MEASURE.into_iter().chain(COMPUTE) {
            assert!(root().join(dir).join("Cargo.toml").exists(), "{dir} is no package");
        }
    }
}
