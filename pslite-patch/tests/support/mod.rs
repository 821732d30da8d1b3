//! A double of PS-Lite on real sockets: a worker and a server, each a process of its own, speaking ZMTP as libzmq does
//! over every call of the C library that the library under test stands before.
//!
//! Nothing here uses the library under test: messages are built and read by other code than its own.
#![allow(dead_code, reason = "every program uses its own part")]

pub mod calls;
pub mod node;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sluice_progress::{PageView, Reader};

/// The library as cargo built it, beside this program.
pub fn library() -> PathBuf {
    let exe = std::env::current_exe().expect("this program");
    let deps = exe.parent().expect("its folder");
    let found = [deps, deps.parent().expect("the profile's folder")];
    let found = found.iter().map(|dir| dir.join("libsluice_pslite.so")).find(|path| path.exists());
    found.expect("cargo builds the library before its tests")
}

/// A command without any variable that decides something here, with the library before it or not.
pub fn clean(program: &Path, preload: bool) -> Command {
    let mut command = Command::new(program);
    for name in ["SLUICE_DISABLE", "SLUICE_SHM_DIR", "SLUICE_JOB_ID", "SLUICE_ITER_BYTES", "SLURM_JOB_ID"] {
        command.env_remove(name);
    }
    for name in ["TORCHELASTIC_RUN_ID", "DMLC_ROLE", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    if preload {
        command.env("LD_PRELOAD", library());
    }
    command
}

/// A node that has done its work and waits, with its page as it is now.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// What the node says it did.
    pub said: String,
    /// Nanoseconds that it took.
    pub nanos: u64,
}

impl Running {
    /// Starts a node of this program: `node::run` is called in it.
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, stdin, stdout, said: String::new(), nanos: 0 }
    }

    /// Waits until it has done its work.
    pub fn finish(&mut self) {
        for line in self.stdout.by_ref().lines().map_while(Result::ok) {
            if line == node::DONE {
                return;
            }
            if let Some(nanos) = line.strip_prefix(node::TOOK) {
                self.nanos = nanos.parse().expect("a number");
            }
            if let Some(said) = line.strip_prefix(node::SAID) {
                self.said.push_str(said);
                self.said.push('\n');
            }
        }
        let status = self.child.wait();
        let mut text = String::new();
        if let Some(mut err) = self.child.stderr.take() {
            let _ = err.read_to_string(&mut text);
        }
        panic!("a node ended too early: {status:?}\n{}{text}", self.said);
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it end; it has to end well and to have written nothing to standard error.
    pub fn end(mut self) {
        drop(self.stdin.take());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("text");
        text.clear();
        self.child.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}\n{text}");
        assert_eq!(text, "", "nothing is written to standard error");
    }

    /// A number that it said: the word after this one.
    pub fn number(&self, word: &str) -> u64 {
        let mut words = self.said.split_whitespace().skip_while(|other| *other != word);
        words.nth(1).and_then(|number| number.parse().ok()).expect("it said so")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All pages of a directory.
pub fn pages(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ext| ext == "sp1")).collect()
}

/// The page of this process; `None`: it has none.
pub fn page(dir: &Path, pid: u32) -> Option<PageView> {
    let mut views = pages(dir).into_iter().filter_map(|path| Reader::open(path).and_then(|mut page| page.read()).ok());
    views.find(|view| view.pid == pid)
}
