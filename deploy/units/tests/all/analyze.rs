//! What systemd itself says of the shipped files, without running.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use sluice_skip::skip;
use sluice_units::unit::Unit;

use crate::{UNITS, shipped};

/// Exposure in tenths at most; CHANGELOG.md and docs/operating.md name them.
const EXPOSURES: [(&str, &str); 2] = [("sluiced.service", "35"), ("sluice-switch.service", "15")];

fn analyze(arguments: &[&str]) -> Option<Output> {
    Command::new("systemd-analyze").args(arguments).args(["--no-pager"]).env("SYSTEMD_COLORS", "0").output().ok()
}

#[test]
fn every_line_of_every_unit_and_drop_in_is_understood() {
    for (unit, drop_ins) in UNITS {
        let drop_ins: Vec<_> = drop_ins.iter().map(|name| shipped("systemd").join(name)).collect();
        for chosen in [&[][..], &drop_ins[..]] {
            let read = Unit::read(&shipped("systemd").join(unit), chosen).unwrap_or_else(|e| panic!("{e}"));
            assert!(read.directives().count() > 5, "{unit}");
        }
    }
    let known: Vec<&str> =
        UNITS.iter().flat_map(|(unit, drop_ins)| std::iter::once(*unit).chain(drop_ins.iter().copied())).collect();
    for entry in std::fs::read_dir(shipped("systemd")).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("text");
        let other = ["sluice.sysusers.conf", "sluice.tmpfiles.conf"].contains(&name.as_str());
        assert!(other || known.contains(&name.as_str()), "{name} is in no test");
    }
}

#[test]
fn systemd_finds_nothing_to_say() {
    // A root with the programs and systemd's own units, so that what is named is found.
    let root = tempfile::tempdir().expect("a directory");
    let system = root.path().join("usr/lib/systemd/system");
    std::fs::create_dir_all(root.path().join("usr/bin")).expect("made");
    std::fs::create_dir_all(&system).expect("made");
    for name in ["bin", "lib", "sbin"] {
        symlink(format!("usr/{name}"), root.path().join(name)).expect("linked");
    }
    for program in ["sluiced", "sluice-switch", "kill"] {
        std::fs::copy("/bin/true", root.path().join("usr/bin").join(program)).expect("copied");
    }
    let copied = Command::new("cp").args(["-rT", "/usr/lib/systemd/system"]).arg(&system).status();
    if !copied.is_ok_and(|status| status.success()) {
        return skip!(Thing, "no systemd");
    }
    for (unit, drop_ins) in UNITS {
        std::fs::copy(shipped("systemd").join(unit), system.join(unit)).expect("copied");
        for (at, drop_in) in drop_ins.iter().enumerate() {
            let dir = system.join(format!("{unit}.d"));
            std::fs::create_dir_all(&dir).expect("made");
            std::fs::copy(shipped("systemd").join(drop_in), dir.join(format!("{at}.conf"))).expect("copied");
        }
    }
    let at = root.path().display().to_string();
    let verify = |also: &[&str]| {
        let units = UNITS.map(|(unit, _)| unit);
        let arguments: Vec<&str> =
            ["verify", "--man=no", "--root", &at].into_iter().chain(units).chain(also.iter().copied()).collect();
        analyze(&arguments)
    };
    let Some(said) = verify(&[]) else { return skip!(Thing, "no systemd") };
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && !text.contains("sluice"), "{text}");
    // The same with something to say: the test would see it.
    std::fs::write(system.join("sluiced.service.d/9.conf"), "[Service]\nProtectNothing=yes\n").expect("written");
    let text = String::from_utf8_lossy(&verify(&[]).expect("runs").stderr).into_owned();
    assert!(text.contains("ProtectNothing"), "{text}");
}

#[test]
fn the_exposure_of_the_services_stays_below_its_bar() {
    for (unit, tenths) in EXPOSURES {
        let path = shipped("systemd").join(unit).display().to_string();
        let security = ["security", "--offline=true", "--threshold", tenths, &path];
        let Some(said) = analyze(&security) else { return skip!(Thing, "no systemd") };
        let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && text.contains("Overall exposure level"), "{text}");
        // A bar of nothing is not kept: the status means something.
        let none = analyze(&["security", "--offline=true", "--threshold", "1", &path]).expect("runs");
        assert!(!none.status.success());
    }
}

#[test]
fn users_and_directories_are_made_as_they_are_meant() {
    let root = tempfile::tempdir().expect("a directory");
    let run = |program: &str, file: &str| {
        let root = format!("--root={}", root.path().display());
        Command::new(program).arg(root).arg(shipped("systemd").join(file)).output()
    };
    std::fs::create_dir_all(root.path().join("etc")).expect("made");
    let Ok(users) = run("systemd-sysusers", "sluice.sysusers.conf") else { return skip!(Thing, "no systemd") };
    assert!(users.status.success(), "{users:?}");
    let passwd = std::fs::read_to_string(root.path().join("etc/passwd")).expect("made");
    let line = passwd.lines().find(|line| line.starts_with("sluice:")).expect("a user");
    assert!(line.ends_with("/nologin"), "{line}");
    if !nix::unistd::geteuid().is_root() {
        return skip!(Privilege, "not root: owners cannot be given");
    }
    let mut tmpfiles = Command::new("systemd-tmpfiles");
    tmpfiles.arg("--create").arg(format!("--root={}", root.path().display()));
    tmpfiles.arg(shipped("systemd/sluice.tmpfiles.conf"));
    let made = tmpfiles.output().expect("systemd has both");
    assert!(made.status.success(), "{made:?}");
    let mode = |path: &str| {
        use std::os::unix::fs::MetadataExt as _;
        let meta = std::fs::metadata(root.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        (meta.mode() & 0o7777, meta.uid() != 0)
    };
    assert_eq!(mode("run/sluice"), (0o755, true));
    assert_eq!(mode("run/sluice/progress"), (0o1777, true));
    assert_eq!(mode("sys/fs/bpf/sluice"), (0o700, true));
}
