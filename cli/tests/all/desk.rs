//! What the tests of files and commands share: the real program in a directory of its own.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A directory to run the program in.
pub struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    pub fn new() -> Desk {
        Desk { dir: tempfile::tempdir().expect("a temporary directory") }
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("write");
    }
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("read")
    }
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).expect("list").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
    /// Runs in the directory; arguments are separated by blanks.
    pub fn run(&self, line: &str) -> Output {
        self.command(line).stdin(Stdio::null()).output().expect("the program runs")
    }
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args(line.split_whitespace()).current_dir(self.dir.path()).env("NO_COLOR", "1");
        command
    }
    /// The JSON document of a command that must succeed.
    pub fn json(&self, line: &str) -> Value {
        let output = self.run(&format!("{line} --json"));
        assert_eq!(output.status.code(), Some(0), "{line}: {}{}", stdout(&output), stderr(&output));
        assert!(output.stderr.is_empty(), "{line}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("one JSON document")
    }
    /// Code and key of the first error of a command that must be refused, in both forms.
    pub fn refused(&self, line: &str) -> (String, String) {
        let before = self.files();
        let text = self.run(line);
        assert_eq!(text.status.code(), Some(2), "{line}: {}{}", stdout(&text), stderr(&text));
        assert!(text.stdout.is_empty(), "{line}: {}", stdout(&text));
        let output = self.run(&format!("{line} --json"));
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stdout(&output));
        let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        let error = &value["errors"][0];
        let word = |key: &str| error[key].as_str().expect("text").to_owned();
        assert!(stderr(&text).contains(&format!("error[{}]", word("code"))), "{line}: {}", stderr(&text));
        assert!(stderr(&text).contains(&word("key")), "{line}: {}", stderr(&text));
        assert_eq!(self.files(), before, "{line}: nothing is written");
        (word("code"), word("key"))
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn piped(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
