//! What a caller's environment can do to a program with more rights than its caller, into which a library of ours was loaded.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_progress::{Publisher, default_dirs, guest};

use crate::attacker::{ATTACKER, allow, dir, ident, turn};

/// The program with more rights: it publishes as every library of ours does.
#[test]
#[ignore = "run by the other test, as another user"]
fn program() {
    let publisher = Publisher::new(default_dirs(), ident("privileged"));
    println!("privileged {} published {}", guest::privileged(), publisher.writer().is_some());
}

/// A file system on which programs may have more rights than their callers, whatever the temporary directory's may.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path) -> Mounted {
        std::fs::create_dir(path).expect("made");
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", "suid,exec,mode=755", "sluice-suid"]).arg(path).status();
        assert!(status.is_ok_and(|status| status.success()), "a small file system can be mounted");
        Mounted(path.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// `SLUICE_SHM_DIR` of the caller, in a program that runs as root for everybody.
#[test]
fn in_a_program_with_more_rights_the_callers_environment_decides_nothing() {
    let Some(_turn) = turn() else { return };
    let home = dir();
    let mounted = Mounted::at(&home.path().join("bin"));
    let program = mounted.0.join("program");
    std::fs::copy(std::env::current_exe().expect("this program"), &program).expect("copied");
    let bait = home.path().join("bait");
    std::fs::create_dir(&bait).expect("made");
    chown(&bait, Some(ATTACKER), Some(ATTACKER)).expect("root gives it away");
    let run = |mode: u32| {
        allow(&program, mode);
        let mut command = Command::new(&program);
        command.args(["--exact", "libraries::program", "--ignored", "--nocapture"]);
        command.env("SLUICE_SHM_DIR", &bait).env("SLUICE_JOB_ID", "stolen").uid(ATTACKER).gid(ATTACKER);
        let output = command.output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ordinary = run(0o755);
    assert!(ordinary.contains("privileged false published true"), "{ordinary}");
    let privileged = run(0o4755);
    assert!(privileged.contains("privileged true published false"), "{privileged}");
    assert_eq!(std::fs::read_dir(&bait).expect("readable").count(), 0, "something was written for the attacker");
}
