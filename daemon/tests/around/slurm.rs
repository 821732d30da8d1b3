//! deploy/slurm/task-prolog.sh: whatever it finds it ends with 0, and writes nothing but whole lines for Slurm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::root;

const SCRIPT: &str = "deploy/slurm/task-prolog.sh";

/// A machine with the library and a directory of pages.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let site = Site { dir: tempfile::tempdir().expect("a directory") };
        fs::write(site.library(), "").expect("written");
        fs::create_dir(site.pages()).expect("made");
        site
    }
    fn library(&self) -> PathBuf {
        self.dir.path().join("libnccl-profiler-sluice.so")
    }
    fn pages(&self) -> PathBuf {
        self.dir.path().join("progress")
    }
    /// What it says to a task with this environment and nothing else. It ends well and is quiet on stderr, always.
    fn run(&self, environment: &[(&str, &str)]) -> String {
        let mut command = script();
        command.env("SLUICE_NCCL_PLUGIN", self.library()).env("SLUICE_SHM_DIR", self.pages());
        command.envs(environment.iter().copied());
        said(command.output().expect("it runs"))
    }
}

fn script() -> Command {
    let mut command = Command::new(root(SCRIPT));
    command.env_clear();
    command
}

fn said(output: Output) -> String {
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{text}");
    for line in text.lines() {
        assert!(line.starts_with("export ") && line.contains('='), "{line}");
    }
    assert!(text.is_empty() || text.ends_with('\n'));
    text
}

#[test]
fn a_task_gets_the_library_and_whoever_was_there_comes_behind_it() {
    let site = Site::new();
    let ours = format!("export NCCL_PROFILER_PLUGIN={}\n", site.library().display());
    assert_eq!(site.run(&[]), ours);
    let plugin = |name: &str| site.run(&[("NCCL_PROFILER_PLUGIN", name)]);
    assert_eq!(plugin(""), ours);
    assert_eq!(plugin("sluice"), ours);
    assert_eq!(plugin(&site.library().display().to_string()), ours);
    assert_eq!(plugin("/opt/inspector.so"), format!("export SLUICE_NCCL_NEXT=/opt/inspector.so\n{ours}"));
    assert_eq!(plugin("inspector"), format!("export SLUICE_NCCL_NEXT=libnccl-profiler-inspector.so\n{ours}"));
    assert_eq!(plugin("inspector.so"), format!("export SLUICE_NCCL_NEXT=inspector.so\n{ours}"));
}

#[test]
fn what_the_job_wants_otherwise_and_what_cannot_be_a_line_stay_as_they_are() {
    let site = Site::new();
    for environment in [
        &[("SLUICE_DISABLE", "1")][..],
        &[("NCCL_PROFILER_PLUGIN", "none")],
        &[("NCCL_PROFILER_PLUGIN", "/a.so"), ("SLUICE_NCCL_NEXT", "/b.so")],
        &[("NCCL_PROFILER_PLUGIN", "a,b")],
        &[("NCCL_PROFILER_PLUGIN", "/a\nexport LD_PRELOAD=/evil.so")],
        &[("NCCL_PROFILER_PLUGIN", "a b")],
        &[("NCCL_PROFILER_PLUGIN", "$(touch /tmp/x)`id`/\u{1b}[31m")],
    ] {
        assert_eq!(site.run(environment), "", "{environment:?}");
    }
}

#[test]
fn without_the_library_or_the_daemon_it_says_nothing_and_ends_well() {
    let site = Site::new();
    fs::remove_dir(site.pages()).expect("removed");
    assert_eq!(site.run(&[]), "", "no daemon was ever here");
    let site = Site::new();
    fs::remove_file(site.library()).expect("removed");
    assert_eq!(site.run(&[]), "", "no library");
    // Where it is installed, in an empty environment, without a PATH, and with a stdout that takes nothing.
    said(script().output().expect("it runs"));
    let full = fs::File::options().write(true).open("/dev/full").expect("a device");
    let status = script().env("SLUICE_NCCL_PLUGIN", site.pages()).stdout(full).status().expect("it runs");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_run_directory_that_is_read_only_changes_nothing() {
    if !nix::unistd::geteuid().is_root() {
        sluice_skip::skip!(Privilege, "mounting needs root");
        return;
    }
    let site = Site::new();
    let mount = "mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/sluice/progress && mount -o remount,ro /run && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mount, "sh", "/usr/bin/env", "-i"]);
    command.arg(format!("SLUICE_NCCL_PLUGIN={}", site.library().display())).arg(root(SCRIPT));
    let expected = format!("export NCCL_PROFILER_PLUGIN={}\n", site.library().display());
    assert_eq!(said(command.output().expect("it runs")), expected);
}

#[test]
fn a_checker_of_shell_scripts_has_nothing_to_say() {
    if !Path::new("/usr/bin/shellcheck").exists() {
        sluice_skip::skip!(Thing, "no shellcheck here");
        return;
    }
    let output =
        Command::new("/usr/bin/shellcheck").args(["--severity=style", "--shell=sh"]).arg(root(SCRIPT)).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
