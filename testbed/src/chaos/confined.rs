//! A limit on the memory or the tasks of a daemon, by the controller of cgroup v2 or, where that is with version 1, by that.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fabric::cgroup::{self, V1_ROOT};

/// What may be limited, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of memory.
    Memory(u64),
    /// Processes and threads.
    Tasks(u64),
}

impl Limit {
    fn controller(self) -> &'static str {
        match self {
            Limit::Memory(_) => "memory",
            Limit::Tasks(_) => "pids",
        }
    }

    fn value(self) -> String {
        match self {
            Limit::Memory(value) | Limit::Tasks(value) => value.to_string(),
        }
    }
}

/// A limit that holds; one of version 1 goes when this is dropped, which must be after whatever is in it.
#[derive(Debug)]
pub struct Confined {
    /// The cgroup of version 1 that was made for it.
    own: Option<PathBuf>,
}

impl Confined {
    /// Limits whatever is in this cgroup of version 2; `None`: nobody here has that controller.
    pub fn new(cgroup: &Path, limit: Limit) -> Option<Confined> {
        let controller = limit.controller();
        if let Some(tree) = cgroup.parent() {
            // A controller that the machine keeps to itself is refused; then the file is missing.
            let _ = fs::write(tree.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        if fs::write(cgroup.join(format!("{controller}.max")), limit.value()).is_ok() {
            return Some(Confined { own: None });
        }
        let own = version_1(controller);
        fs::create_dir(&own).ok()?;
        let confined = Confined { own: Some(own.clone()) };
        let file = match limit {
            Limit::Memory(_) => "memory.limit_in_bytes",
            Limit::Tasks(_) => "pids.max",
        };
        fs::write(own.join(file), limit.value()).ok()?;
        // What these have already is counted where they were; what they take from now on counts here.
        let pids = fs::read_to_string(cgroup.join("cgroup.procs")).ok()?;
        for pid in pids.split_whitespace() {
            fs::write(own.join("cgroup.procs"), pid).ok()?;
        }
        Some(confined)
    }

    /// The line of a shell that puts it under the limit, before it becomes the daemon; empty where its cgroup does that.
    pub fn entry(&self) -> String {
        self.own
            .as_ref()
            .map_or_else(String::new, |own| format!("echo $$ > {} || exit 1", own.join("cgroup.procs").display()))
    }
}

/// The cgroup that this process makes for a controller which is with version 1.
fn version_1(controller: &str) -> PathBuf {
    Path::new(V1_ROOT).join(controller).join(format!("{}{}-{controller}", cgroup::PREFIX, std::process::id()))
}

impl Drop for Confined {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            cgroup::remove(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Child, Command, ExitStatus, Stdio};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    use sluice_skip::skip;

    use super::*;
    use crate::fabric::cgroup::{Cgroup, CgroupTree};

    /// Longer than anything here takes.
    const PATIENCE: Duration = Duration::from_secs(30);
    /// Four times what it may have.
    const TAKE_64_MIB: &str = "exec dd if=/dev/zero of=/dev/null bs=64M count=1";

    /// A process has one cgroup of version 1 for each controller.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn turn() -> MutexGuard<'static, ()> {
        ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn, and cgroups of a run; `None`: this process may not make any.
    fn ground() -> Option<(MutexGuard<'static, ()>, CgroupTree)> {
        let turn = turn();
        match CgroupTree::create(&["h0".to_owned()]) {
            Ok(tree) => Some((turn, tree)),
            Err(why) => {
                skip!(Privilege, "{why}");
                None
            }
        }
    }

    /// A process; ended and waited for when it is dropped.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A shell that enters the cgroup, and the limit if there is one, as the wrapper of a daemon does, and goes on with this line.
    fn shell(cgroup: &Cgroup, confined: Option<&Confined>, line: &str) -> Running {
        let procs = cgroup.path().join("cgroup.procs");
        let entry = confined.map(Confined::entry).unwrap_or_default();
        let script = format!("echo $$ > {} || exit 1\n{entry}\n{line}", procs.display());
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().expect("a shell"))
    }

    impl Running {
        fn is_in(&self, cgroup: &Path) -> bool {
            let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
            pids.split_whitespace().any(|pid| pid == self.0.id().to_string())
        }

        fn enters(&self, cgroup: &Path) {
            let began = Instant::now();
            while !self.is_in(cgroup) {
                assert!(began.elapsed() < PATIENCE, "it is not in {}", cgroup.display());
                std::thread::sleep(Duration::from_millis(5));
            }
        }

        /// How it ended, and what it said.
        fn end(mut self) -> (ExitStatus, String) {
            let began = Instant::now();
            let status = loop {
                if let Some(status) = self.0.try_wait().expect("waited for") {
                    break status;
                }
                assert!(began.elapsed() < PATIENCE, "it does not end");
                std::thread::sleep(Duration::from_millis(5));
            };
            let mut said = String::new();
            self.0.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
            self.0.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
            (status, said)
        }
    }

    /// Where the limit of what is in this cgroup stands, and in which file.
    fn limit(cgroup: &Cgroup, confined: &Confined, files: [&str; 2]) -> (PathBuf, String) {
        let (there, file) = match &confined.own {
            Some(own) => (own.as_path(), files[0]),
            None => (cgroup.path(), files[1]),
        };
        (there.to_owned(), fs::read_to_string(there.join(file)).expect("a limit").trim().to_owned())
    }

    #[test]
    fn where_the_cgroup_has_the_controller_the_limit_stands_in_its_file_and_no_shell_has_to_enter() {
        let dir = tempfile::tempdir().expect("a directory");
        let daemon = dir.path().join("h0.daemon");
        fs::create_dir(&daemon).expect("made");
        let limits = [(Limit::Memory(48 << 20), "memory", "50331648"), (Limit::Tasks(16), "pids", "16")];
        for (limit, controller, value) in limits {
            let confined = Confined::new(&daemon, limit).expect("its file can be written");
            assert_eq!((confined.own.as_ref(), confined.entry()), (None, String::new()));
            let written = |path: PathBuf| fs::read_to_string(path).expect("written");
            assert_eq!(written(daemon.join(format!("{controller}.max"))), value);
            assert_eq!(written(dir.path().join("cgroup.subtree_control")), format!("+{controller}"));
        }
    }

    #[test]
    fn what_cannot_be_confined_leaves_nothing_behind() {
        let _turn = turn();
        for limit in [Limit::Memory(48 << 20), Limit::Tasks(16)] {
            assert!(Confined::new(Path::new("/nonexistent/h0.daemon"), limit).is_none());
            let own = version_1(limit.controller());
            assert!(!own.exists(), "{} is left", own.display());
        }
    }

    #[test]
    #[ignore = "run by the next test, under a limit"]
    fn threads() {
        let another = || std::thread::Builder::new().spawn(|| std::thread::park_timeout(PATIENCE));
        let made = (0..64).take_while(|_| another().is_ok()).count();
        let tasks = fs::read_dir("/proc/self/task").expect("its own").count();
        println!("made {made} tasks {tasks} .");
    }

    #[test]
    fn tasks_beyond_the_limit_cannot_be_made_and_those_before_it_count() {
        let Some((_turn, tree)) = ground() else { return };
        let cgroup = tree.daemon(0);
        // Goes after what is in it.
        let confined;
        let before = shell(&cgroup, None, "exec sleep 60");
        before.enters(cgroup.path());
        confined = match Confined::new(cgroup.path(), Limit::Tasks(8)) {
            Some(confined) => confined,
            None => return skip!(Thing, "no such controller of cgroups"),
        };
        let (there, value) = limit(&cgroup, &confined, ["pids.max", "pids.max"]);
        assert_eq!(value, "8");
        assert!(before.is_in(&there), "what ran before is under the limit too");
        let after = shell(&cgroup, Some(&confined), "exec sleep 60");
        after.enters(&there);
        let program = std::env::current_exe().expect("this program");
        let test = "chaos::confined::tests::threads --ignored --nocapture --test-threads=1";
        let line = format!("exec {program:?} --exact {test}");
        let number = |said: &str, word: &str| -> usize {
            let mut words = said.split_whitespace().skip_while(|other| *other != word);
            words.nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {word:?}: {said}"))
        };
        let (status, said) = shell(&cgroup, Some(&confined), &line).end();
        assert!(status.success(), "{said}");
        assert_eq!(number(&said, "tasks") + 2, 8, "two others run there: {said}");
        drop((before, after));
        let own = confined.own.clone();
        drop(confined);
        assert!(own.is_none_or(|own| !own.exists()), "its cgroup goes with it");
        // The same without the limit, outside of that cgroup.
        let (status, said) = shell(&tree.switches(), None, &line).end();
        assert!(status.success() && number(&said, "made") == 64, "{said}");
    }

    #[test]
    fn memory_beyond_the_limit_cannot_be_had() {
        let Some((_turn, tree)) = ground() else { return };
        let cgroup = tree.daemon(0);
        let (status, said) = shell(&cgroup, None, TAKE_64_MIB).end();
        assert!(status.success(), "without a limit it can: {said}");
        let Some(confined) = Confined::new(cgroup.path(), Limit::Memory(16 << 20)) else {
            return skip!(Thing, "no such controller of cgroups");
        };
        let (_, value) = limit(&cgroup, &confined, ["memory.limit_in_bytes", "memory.max"]);
        assert_eq!(value, "16777216");
        let (status, said) = shell(&cgroup, Some(&confined), TAKE_64_MIB).end();
        // Where there is swap, what is beyond goes there.
        let swaps = fs::read_to_string("/proc/swaps").map_or(0, |text| text.lines().skip(1).count());
        assert!(!status.success() || swaps > 0, "{said}");
    }
}
