//! `cargo xtask fuzz --coverage`: which lines the corpora and their edits reach, by the compiler's own counters. Files of which they
//! reach nothing are left out: parsers share crates with what is no parser, and no list says where one ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::host;
use crate::shell::{Step, Stream, output, root};

/// Lines with code, and how many of them were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: u64,
    reached: u64,
}

/// What `llvm-cov` says, line by line, of files of this repository.
#[derive(Debug, Default)]
struct Said {
    file: Option<String>,
    lines: Lines,
    files: BTreeMap<String, Lines>,
}

impl Said {
    /// A line in the form of lcov.
    fn line(&mut self, line: &str, root: &Path) {
        let number = |text: &str| text.parse().unwrap_or(0);
        if let Some(path) = line.strip_prefix("SF:") {
            self.lines = Lines::default();
            self.file = Path::new(path).strip_prefix(root).ok().map(|path| path.display().to_string());
        } else if let Some(all) = line.strip_prefix("LF:") {
            self.lines.all = number(all);
        } else if let Some(reached) = line.strip_prefix("LH:") {
            self.lines.reached = number(reached);
        } else if line == "end_of_record"
            && let Some(file) = self.file.take().filter(|_| self.lines.reached > 0)
        {
            self.files.insert(file, self.lines);
        }
    }

    /// The same by crate: the folder before `src`.
    fn crates(&self) -> BTreeMap<&str, Lines> {
        let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
        for (file, lines) in &self.files {
            let sum = crates.entry(file.split_once("/src/").map_or(file.as_str(), |(folder, _)| folder)).or_default();
            sum.all += lines.all;
            sum.reached += lines.reached;
        }
        crates
    }
}

impl Lines {
    fn percent(self) -> f64 {
        100.0 * self.reached as f64 / self.all.max(1) as f64
    }
}

/// Where the compiler's reader of its counters is.
fn tool(name: &str) -> Result<String, String> {
    let path = PathBuf::from(output("rustc", &["--print", "sysroot"])?).join("lib/rustlib").join(host()?).join("bin");
    let path = path.join(name);
    if path.is_file() {
        return Ok(path.to_string_lossy().into_owned());
    }
    Err(format!("{} is not there: rustup component add llvm-tools", path.display()))
}

/// The program that a line of cargo's messages says is built.
fn executable(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("\"executable\":\"")?;
    rest.split_once('"').map(|(path, _)| path.to_owned())
}

/// Builds and runs the replay with counters, and says what they count.
pub(super) fn report() -> Result<(), String> {
    let (merge, read) = (tool("llvm-profdata")?, tool("llvm-cov")?);
    let folder = root().join("target/coverage");
    let (raw, merged) = (folder.join("raw"), folder.join("merged").to_string_lossy().into_owned());
    let _ = fs::remove_dir_all(&raw); // Absent is as good.
    fs::create_dir_all(&raw).map_err(|error| format!("{}: {error}", raw.display()))?;
    let (place, triple) = (folder.to_string_lossy().into_owned(), host()?);
    // With a target named, build scripts and macros are built without counters.
    let test = ["test", "--locked", "-p", "sluice-fuzz-targets", "--test", "replay", "--target", triple.as_str()];
    let counters = raw.join("%p-%m.profraw").to_string_lossy().into_owned();
    let step = || {
        let step = Step::cargo(&test).args(["--target-dir", place.as_str()]);
        step.with("RUSTFLAGS", "-Cinstrument-coverage").with("LLVM_PROFILE_FILE", &counters)
    };
    let mut program = None;
    let build = step().args(["--no-run", "--message-format=json-render-diagnostics"]);
    build.through(Stream::Messages, |line| program = executable(line).or(program.take()))?;
    let program = program.ok_or("cargo names no program that it has built")?;
    if let Err(why) = step().run() {
        // With counters inputs take longer than they may.
        eprintln!("xtask: {why}; what was reached counts all the same");
    }
    let files = fs::read_dir(&raw).map_err(|error| format!("{}: {error}", raw.display()))?;
    let files: Vec<String> = files.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect();
    let step = Step::new(&merge, &["merge", "-sparse", "-o", merged.as_str()]);
    step.args(files.iter().map(String::as_str)).run()?;
    let mut said = Said::default();
    let export = Step::new(&read, &["export", "--format=lcov"]);
    let export = export.arg(&format!("--instr-profile={merged}")).arg(&program);
    export.through(Stream::Messages, |line| said.line(line, &root()))?;
    let mut table = "file\tlines\treached\n".to_owned();
    for (file, Lines { all, reached }) in &said.files {
        table += &format!("{file}\t{all}\t{reached}\n");
    }
    let kept = folder.join("fuzz.tsv");
    fs::write(&kept, table).map_err(|error| format!("{}: {error}", kept.display()))?;
    let mut whole = Lines::default();
    for (name, lines) in said.crates() {
        println!("{name:<28} {:>7} of {:>7} lines {:>6.1} %", lines.reached, lines.all, lines.percent());
        whole = Lines { all: whole.all + lines.all, reached: whole.reached + lines.reached };
    }
    if whole.all == 0 {
        return Err("no line of this repository was counted".to_owned());
    }
    println!("\nby file: {}", kept.display());
    println!("{} of {} lines ({:.1} %) of {} files", whole.reached, whole.all, whole.percent(), said.files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_repository_of_which_something_was_reached_are_summed_by_crate() {
        let mut said = Said::default();
        let records = "SF:/w/wire/src/udp.rs\nDA:1,9\nLF:100\nLH:90\nend_of_record\nSF:/w/wire/src/hello.rs\nLF:50\nLH:30\nend_of_record\n\
                       SF:/w/wire/src/push.rs\nLF:40\nLH:0\nend_of_record\nSF:/registry/serde/src/de.rs\nLF:9\nLH:9\nend_of_record\n\
                       SF:/w/ebpf/struct-ops/src/btf.rs\nLF:10\nLH:10\nend_of_record\n";
        records.lines().for_each(|line| said.line(line, Path::new("/w")));
        assert_eq!(said.files.len(), 3);
        let crates: Vec<_> = said.crates().into_iter().collect();
        let lines = |all, reached| Lines { all, reached };
        assert_eq!(crates, [("ebpf/struct-ops", lines(10, 10)), ("wire", lines(150, 120))]);
        assert!((lines(150, 120).percent() - 80.0).abs() < 1e-9);
    }

    #[test]
    fn a_program_is_read_from_the_message_that_has_one() {
        let line =
            r#"{"reason":"compiler-artifact","filenames":["/t/replay-1"],"executable":"/t/replay-1","fresh":false}"#;
        assert_eq!(executable(line).as_deref(), Some("/t/replay-1"));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null,"fresh":true}"#), None);
    }
}
