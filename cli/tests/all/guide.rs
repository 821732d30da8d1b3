//! Runs every example of a guide, in its order, in one directory, and compares its output with what the guide says.

use std::path::Path;
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_sluice");

/// What the shell says about a command line: stdout, stderr, and the exit status if it is not 0.
fn said(dir: &Path, line: &str) -> String {
    let bin = Path::new(BIN).parent().expect("a directory").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {line}\n}} 2>&1")]).current_dir(dir).env("PATH", path).env("NO_COLOR", "1");
    let output = shell.output().expect("a shell");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Times differ from run to run.
    text = text
        .lines()
        .map(|line| if line.starts_with("  took ") { "  took         …" } else { line }.to_owned() + "\n")
        .collect();
    if let Some(code) = output.status.code().filter(|code| *code != 0) {
        text += &format!("[exit status {code}]\n");
    }
    text
}

/// The guide at `path` has at least so many examples, and each does what it says there. With `SLUICE_UPDATE_EXPECTED` set
/// the outputs are written anew.
pub fn every_example_does_what_it_says(path: &Path, dir: &Path, least: usize) {
    let guide = std::fs::read_to_string(path).expect("the guide");
    let (mut made, mut examples, mut in_example) = (String::new(), 0, false);
    let mut lines = guide.lines().peekable();
    while let Some(line) = lines.next() {
        made += &format!("{line}\n");
        match line {
            "```console" => in_example = true,
            "```" => in_example = false,
            _ => {}
        }
        let Some(command) = line.strip_prefix("$ ").filter(|_| in_example) else { continue };
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            let more = lines.next().expect("the rest of a command");
            made += &format!("{more}\n");
            command = format!("{command}\n{more}");
        }
        // The output written in the guide makes way for the real one.
        while lines.peek().is_some_and(|next| !next.starts_with("$ ") && *next != "```") {
            lines.next();
        }
        made += &said(dir, &command);
        examples += 1;
    }
    assert!(examples >= least, "{examples} examples");
    if std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some() {
        std::fs::write(path, &made).expect("write");
    }
    let differs = made.lines().zip(guide.lines()).find(|(made, guide)| made != guide);
    assert!(made == guide || std::env::var_os("SLUICE_UPDATE_EXPECTED").is_some(), "made, written: {differs:?}");
}
