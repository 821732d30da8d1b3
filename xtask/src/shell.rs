//! Runs programs: prints the command, runs it in the workspace's root, turns a bad end into a message.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// Why a command did not do all of its work.
#[derive(Debug)]
pub(crate) enum Early {
    /// It was asked for its help, which is printed.
    Helped,
    /// Its options are not those it has: for people.
    Usage(String),
    /// A step failed: for people.
    Failed(String),
}

impl From<String> for Early {
    fn from(why: String) -> Early {
        Early::Failed(why)
    }
}

/// The folder of the workspace's `Cargo.toml`, in which every step runs.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command in the workspace's root.
#[derive(Debug)]
pub(crate) struct Step {
    words: Vec<String>,
    vars: Vec<(&'static str, String)>,
}

impl Step {
    /// A program and its arguments.
    pub(crate) fn new(program: &str, args: &[&str]) -> Step {
        let words = std::iter::once(program).chain(args.iter().copied()).map(str::to_owned).collect();
        Step { words, vars: Vec::new() }
    }

    /// The cargo that runs this.
    pub(crate) fn cargo(args: &[&str]) -> Step {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        Step::new(&cargo, args)
    }

    /// As root: through sudo where this is not root.
    pub(crate) fn with_root(self) -> Step {
        if is_root() {
            return self;
        }
        // sudo drops the environment, so the variables travel as arguments.
        let vars = self.vars.iter().map(|(k, v)| format!("{k}={v}"));
        let words = std::iter::once("sudo".to_owned()).chain(vars).chain(self.words).collect();
        Step { words, vars: Vec::new() }
    }

    /// With an environment variable.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Step {
        self.vars.push((name, value.to_owned()));
        self
    }

    /// With one more argument.
    pub(crate) fn arg(self, arg: &str) -> Step {
        self.args([arg])
    }

    /// With these arguments after the others.
    pub(crate) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Step {
        self.words.extend(args.into_iter().map(str::to_owned));
        self
    }

    /// As a shell would take it.
    pub(crate) fn shown(&self) -> String {
        let name =
            |w: &String| Path::new(w).file_name().map_or_else(|| w.clone(), |n| n.to_string_lossy().into_owned());
        let vars = self.vars.iter().map(|(k, v)| format!("{k}={v}"));
        let program = self.words.first().map(name);
        vars.chain(program).chain(self.words.iter().skip(1).cloned()).collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Option<Command> {
        let mut command = Command::new(self.words.first()?);
        command.args(self.words.iter().skip(1)).current_dir(root());
        // What cargo told this program of its own package: build scripts that look at it would run anew, and with them
        // a third of all crates be compiled again, whenever somebody calls cargo without this.
        let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
            command.env_remove(name);
        }
        command.envs(self.vars.iter().map(|(k, v)| (*k, v.as_str())));
        Some(command)
    }

    /// Prints and runs it.
    pub(crate) fn run(&self) -> Result<(), String> {
        self.through(Stream::None, |_| {})
    }

    /// Prints it and becomes it: whoever ends this process ends the step. Returns only where that fails.
    pub(crate) fn become_it(&self) -> String {
        eprintln!("\n$ {}", self.shown());
        let Some(mut command) = self.command() else { return "an empty command".to_owned() };
        format!("`{}` cannot be started: {}", self.shown(), command.exec())
    }

    /// As [`Step::run`]; `heard` is called with each line of one stream, which is passed on but for [`Stream::Messages`].
    pub(crate) fn through(&self, stream: Stream, mut heard: impl FnMut(&str)) -> Result<(), String> {
        eprintln!("\n$ {}", self.shown());
        let begin = Instant::now();
        let mut command = self.command().ok_or("an empty command")?;
        match stream {
            Stream::None => {}
            Stream::Out | Stream::Messages => drop(command.stdout(Stdio::piped())),
            Stream::Err => drop(command.stderr(Stdio::piped())),
        }
        let mut child = command.spawn().map_err(|e| format!("`{}` cannot be started: {e}", self.shown()))?;
        if let Some(out) = child.stdout.take() {
            match stream {
                Stream::Messages => pass_on(out, std::io::sink(), &mut heard),
                Stream::None | Stream::Out | Stream::Err => pass_on(out, std::io::stdout(), &mut heard),
            }
        }
        if let Some(err) = child.stderr.take() {
            pass_on(err, std::io::stderr(), &mut heard);
        }
        let status = child.wait().map_err(|e| format!("waiting for `{}`: {e}", self.shown()))?;
        eprintln!("  ({:.1} s)", begin.elapsed().as_secs_f64());
        if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", self.shown())) }
    }

    /// Runs it like `run`, and gives back what it wrote to its standard output, which is shown as it comes.
    pub(crate) fn read(&self) -> Result<String, String> {
        let mut said = String::new();
        self.through(Stream::Out, |line| said = std::mem::take(&mut said) + line + "\n")?;
        Ok(said)
    }

    /// Runs it behind these words, such as `nice`; all that it says goes to a file.
    pub(crate) fn write_to(&self, behind: &[&'static str], out: File) -> Result<ExitStatus, String> {
        let words = behind.iter().map(|word| (*word).to_owned()).chain(self.words.iter().cloned()).collect();
        let step = Step { words, vars: self.vars.clone() };
        let mut command = step.command().ok_or("an empty command")?;
        let err = out.try_clone().map_err(|e| e.to_string())?;
        let run = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
        run.map_err(|e| format!("`{}` cannot be started: {e}", step.shown()))
    }

    /// Runs it without output; true when it ended well.
    pub(crate) fn quiet(&self) -> bool {
        let Some(mut command) = self.command() else { return false };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    }
}

/// What a program says in one line, or why it cannot.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let done = Command::new(program).args(args).current_dir(root()).stdin(Stdio::null()).output();
    let done = done.map_err(|e| format!("{program} cannot be started: {e}"))?;
    if !done.status.success() {
        return Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Which stream of a step is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    None,
    Out,
    Err,
    /// Standard output, which is for programs and not passed on.
    Messages,
}

/// Copies lines until the end; what cannot be written is still heard.
fn pass_on(from: impl Read, mut to: impl Write, heard: &mut impl FnMut(&str)) {
    let (mut from, mut line) = (BufReader::new(from), Vec::new());
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let _ = to.write_all(&line);
        heard(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}

/// True when this process is root.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("Uid:")).unwrap_or_default();
    line.split_whitespace().nth(2) == Some("0")
}

/// True when a program is on the path.
pub(crate) fn have(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(sbin).any(|dir| dir.join(program).is_file())
}

/// The options that were given, all of them in `known`; prints the help where it is asked for.
pub(crate) fn options<'a>(args: &'a [String], help: &str, known: &[&str]) -> Result<Vec<&'a str>, Early> {
    if args.iter().any(|a| a == "--help" || a == "-h") {
        print!("{help}");
        return Err(Early::Helped);
    }
    match args.iter().find(|a| !known.contains(&a.as_str())) {
        Some(unknown) => Err(Early::Usage(format!("no option {unknown:?}\n\n{help}"))),
        None => Ok(args.iter().map(String::as_str).collect()),
    }
}
