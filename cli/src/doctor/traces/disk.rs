//! Traces on disks: packages, units, files, mounts, the user and the group, and what a daemon noted that it changed.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::{Found, Kind, Trace};

const PURGE: &str = "apt purge the packages, or remove what was put there by hand";
/// Directories that are ours as a whole.
const OURS: [&str; 9] = [
    "etc/sluice",
    "run/sluice",
    "run/sluice-testbed",
    "var/lib/sluice",
    "var/log/sluice",
    "var/cache/sluice",
    "usr/lib/sluice",
    "usr/share/sluice",
    "usr/libexec/sluice",
];
/// Directories in which files of ours have names that say so.
const PLACES: [&str; 32] = [
    "usr/bin",
    "usr/sbin",
    "usr/local/bin",
    "usr/local/sbin",
    "usr/lib",
    "usr/local/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/python3/dist-packages",
    "usr/lib/sysusers.d",
    "usr/lib/tmpfiles.d",
    "usr/lib/sysctl.d",
    "etc/sysusers.d",
    "etc/tmpfiles.d",
    "etc/sysctl.d",
    "etc/default",
    "etc/logrotate.d",
    "etc/bash_completion.d",
    "etc/ld.so.conf.d",
    "usr/share/bash-completion/completions",
    "usr/share/zsh/vendor-completions",
    "usr/share/zsh/site-functions",
    "usr/share/fish/vendor_completions.d",
    "usr/share/man/man1",
    "usr/share/man/man5",
    "usr/share/man/man8",
    "usr/share/doc",
    "usr/share/lintian/overrides",
    "run/lock",
    "var/tmp",
    "var/lib/systemd/deb-systemd-helper-enabled",
    "run/systemd/propagate",
];
/// Where units stand, each with the directories of drop-ins and wants below it.
const UNITS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/lib/systemd/system",
    "usr/local/lib/systemd/system",
    "lib/systemd/system",
];
/// Entries of one directory that are looked at; a journal's bytes.
const MAX_ENTRIES: usize = 100_000;
const MAX_JOURNAL: u64 = 64 << 10;

#[derive(Deserialize)]
struct Journal {
    #[serde(default)]
    sysctls: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    key: String,
    old: String,
    new: String,
}

/// Looks below `root`.
pub fn look(root: &Path, found: &mut Found) {
    for name in OURS {
        let path = root.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            let many = fs::read_dir(&path).map_or(0, |entries| entries.take(MAX_ENTRIES).count());
            let undo = match name {
                "run/sluice" => "sluiced cleanup",
                "run/sluice-testbed" => "sluice testbed down",
                _ => PURGE,
            };
            found.traces.push(Trace::new(Kind::File, format!("{} ({many} entries)", path.display()), undo));
        }
    }
    for name in PLACES {
        named(&root.join(name), Kind::File, PURGE, found);
    }
    for name in UNITS {
        // On merged systems /lib is /usr/lib: told once.
        if name.starts_with("lib/") && fs::symlink_metadata(root.join("lib")).is_ok_and(|meta| meta.is_symlink()) {
            continue;
        }
        let dir = root.join(name);
        named(&dir, Kind::Unit, "systemctl disable --now it, then apt purge", found);
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten().take(MAX_ENTRIES) {
            let below = entry.file_name().to_string_lossy().into_owned();
            if (below.ends_with(".wants") || below.ends_with(".requires")) && entry.path().is_dir() {
                named(&entry.path(), Kind::Unit, "systemctl disable --now it, then apt purge", found);
            }
        }
    }
    packages(root, found);
    mounts(root, found);
    accounts(root, found);
    changes(root, found);
}

/// Is this a name of ours? A library's begins with lib.
fn is_ours(name: &str) -> bool {
    let bare = name.strip_prefix("lib").unwrap_or(name);
    bare.starts_with("sluice") || name.starts_with("libnccl-profiler-sluice") || name.starts_with("_sluice")
}

fn named(dir: &Path, kind: Kind, undo: &str, found: &mut Found) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten().take(MAX_ENTRIES) {
        if is_ours(&entry.file_name().to_string_lossy()) {
            found.traces.push(Trace::new(kind, entry.path().display().to_string(), undo));
        }
    }
}

/// Packages that dpkg knows, also those that are removed and left their configuration.
fn packages(root: &Path, found: &mut Found) {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap_or_default();
    let (mut name, mut state) = (None, "");
    for line in status.lines().chain([""]) {
        if let Some(rest) = line.strip_prefix("Package: ") {
            name = Some(rest.trim()).filter(|name| is_ours(name));
        } else if let Some(rest) = line.strip_prefix("Status: ") {
            state = rest.trim();
        } else if line.is_empty() {
            if let Some(name) = name.take() {
                let undo = format!("apt purge {name}");
                found.traces.push(Trace::new(Kind::Package, format!("{name} ({state})"), undo));
            }
            state = "";
        }
    }
}

fn mounts(root: &Path, found: &mut Found) {
    let mounts = fs::read_to_string(root.join("proc/self/mounts")).unwrap_or_default();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (device, place) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let ours = device.starts_with("sluice") || place.split('/').any(is_ours);
        // A pin is told as a pin, and a checkout of the sources is no trace.
        if ours && ["/run/", "/var/lib/", "/etc/", "/opt/"].iter().any(|begin| place.starts_with(begin)) {
            found.traces.push(Trace::new(Kind::Mount, format!("{place} ({device})"), format!("umount {place}")));
        }
    }
}

fn accounts(root: &Path, found: &mut Found) {
    for (file, kind, undo) in
        [("etc/passwd", Kind::User, "deluser sluice"), ("etc/group", Kind::Group, "delgroup sluice")]
    {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        if text.lines().any(|line| line.split(':').next() == Some("sluice")) {
            found.traces.push(Trace::new(kind, "sluice", undo));
        }
    }
}

/// What a daemon changed and noted, and did not give back yet.
fn changes(root: &Path, found: &mut Found) {
    let path = root.join("run/sluice/changes.json");
    if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_JOURNAL)
        && let Ok(text) = fs::read_to_string(&path)
        && let Ok(journal) = serde_json::from_str::<Journal>(&text)
    {
        for Change { key, old, new } in journal.sysctls.into_iter().take(64) {
            let clean = |text: &str| sluice_formats::problem::printable(text, 80);
            let what = format!("net.ipv4.{} = {} (it was {})", clean(&key), clean(&new), clean(&old));
            found.traces.push(Trace::new(Kind::Sysctl, what, "sluiced cleanup"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn all(root: &Path) -> Vec<String> {
        let mut found = Found::default();
        look(root, &mut found);
        let prefix = format!("{}/", root.display());
        found.traces.iter().map(|trace| format!("{:?} {}", trace.kind, trace.what.replace(&prefix, "/"))).collect()
    }

    #[test]
    fn a_clean_root_has_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path(), "usr/bin/bash", "");
        write(dir.path(), "etc/passwd", "root:x:0:0::/root:/bin/sh\nsluiceway:x:1:1::/:/bin/sh\n");
        write(dir.path(), "var/lib/dpkg/status", "Package: bash\nStatus: install ok installed\n");
        write(dir.path(), "proc/self/mounts", "tmpfs /run tmpfs rw 0 0\n/dev/sda /home/me/sluice ext4 rw 0 0\n");
        assert_eq!(all(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn everything_that_an_installation_leaves_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        for name in [
            "etc/sluice/sluiced.toml",
            "usr/bin/sluiced",
            "usr/lib/x86_64-linux-gnu/libnccl-profiler-sluice.so",
            "usr/lib/x86_64-linux-gnu/libsluice-pslite.so",
            "usr/lib/tmpfiles.d/sluice.conf",
            "usr/share/man/man1/sluice-top.1.gz",
            "usr/share/zsh/vendor-completions/_sluice",
            "usr/lib/systemd/system/sluiced.service",
            "etc/systemd/system/multi-user.target.wants/sluiced.service",
            "etc/systemd/system/sluiced.service.d/override.conf",
        ] {
            write(root, name, "");
        }
        write(root, "etc/passwd", "sluice:x:998:998::/:/usr/sbin/nologin\n");
        write(root, "etc/group", "sluice:x:998:\n");
        let status = "Package: sluice\nStatus: deinstall ok config-files\nVersion: 0.1\n\nPackage: bash\nStatus: install ok installed\n";
        write(root, "var/lib/dpkg/status", status);
        write(root, "proc/self/mounts", "sluice-pages /run/sluice/progress tmpfs rw 0 0\n");
        let journal = r#"{"schema":1,"sysctls":[{"key":"tcp_wmem","old":"1 2 3","new":"1 2 4"}]}"#;
        write(root, "run/sluice/changes.json", journal);
        let found = all(root);
        for wanted in [
            "File /etc/sluice (1 entries)",
            "File /run/sluice (1 entries)",
            "File /usr/bin/sluiced",
            "File /usr/lib/x86_64-linux-gnu/libnccl-profiler-sluice.so",
            "File /usr/lib/x86_64-linux-gnu/libsluice-pslite.so",
            "File /usr/lib/tmpfiles.d/sluice.conf",
            "File /usr/share/man/man1/sluice-top.1.gz",
            "File /usr/share/zsh/vendor-completions/_sluice",
            "Unit /usr/lib/systemd/system/sluiced.service",
            "Unit /etc/systemd/system/multi-user.target.wants/sluiced.service",
            "Unit /etc/systemd/system/sluiced.service.d",
            "User sluice",
            "Group sluice",
            "Package sluice (deinstall ok config-files)",
            "Mount /run/sluice/progress (sluice-pages)",
            "Sysctl net.ipv4.tcp_wmem = 1 2 4 (it was 1 2 3)",
        ] {
            assert!(found.iter().any(|one| one == wanted), "{wanted} in {found:#?}");
        }
        assert_eq!(found.len(), 16, "{found:#?}");
    }
}
