//! `cargo xtask package tarball`: for distributions that take no Debian packages, what those of a host and of switches hold, with
//! programs that load no library. Linked with the C library that everything is tried with, but into the programs.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use super::{all, deb, epoch, place, release};
use crate::shell::{Step, output, root};

/// Packages whose files it has, and their programs. Those of jobs and of the testbed are for where they are built.
const PACKAGES: [(&str, &[&str]); 2] = [("sluice", &["sluiced", "sluice"]), ("sluice-switch", &["sluice-switch"])];
/// How it is installed and removed, at its head.
const INSTALL: &str = "deploy/packages/INSTALL";
/// In it: what a removal takes away.
const LIST: &str = "usr/share/doc/sluice/FILES";

pub(super) fn run(debs: &Path) -> Result<(), String> {
    all(debs, None)?;
    let (build, target) = (place().join("static"), format!("{ARCH}-unknown-linux-gnu"));
    // Without the solver, which is C++ and of no use on a host. With a target of its own, so that only programs are linked so.
    let step = release(&build, "-Ctarget-feature=+crt-static")?;
    let step = step.args(["--no-default-features", "--target", &target]);
    let programs = PACKAGES.iter().flat_map(|(_, programs)| *programs);
    step.args(programs.flat_map(|program| ["-p", *program])).run()?;
    let name = format!("sluice-{}", env!("CARGO_PKG_VERSION"));
    let stage = place().join("tarball");
    let inside = stage.join(&name);
    laid_out(debs, &build.join(target).join("release"), &inside)?;
    let file = debs.join(format!("{name}-linux-{ARCH}.tar.gz"));
    let shown = file.display().to_string();
    let step = Step::new("tar", &["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    let step = step.args([format!("--mtime=@{}", epoch()?).as_str(), "--use-compress-program=gzip -n"]);
    step.args(["-C", &stage.display().to_string(), "-cf", &shown, &name]).run()?;
    println!("{shown}");
    Ok(())
}

/// The packages' files with these programs, where any distribution has them.
fn laid_out(debs: &Path, programs: &Path, inside: &Path) -> Result<(), String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    let stage = inside.parent().unwrap_or(inside);
    if stage.exists() {
        fs::remove_dir_all(stage).map_err(failed(stage))?;
    }
    fs::create_dir_all(inside).map_err(failed(inside))?;
    for (package, names) in PACKAGES {
        let package = deb(debs, package, None)?;
        Step::new("dpkg-deb", &["--extract"]).args([&*package.to_string_lossy(), &*inside.to_string_lossy()]).run()?;
        for name in names {
            let from = programs.join(name);
            if let Some(library) = loads(&output("readelf", &["--dynamic", "--wide", &from.to_string_lossy()])?) {
                return Err(format!("{} loads {library}", from.display()));
            }
            // It has to start, too.
            output(&from.to_string_lossy(), &["--version"])?;
            fs::copy(&from, inside.join("usr/bin").join(name)).map_err(failed(&from))?;
        }
    }
    // Elsewhere /lib may be a link to /usr/lib, and only Debian asks lintian.
    let (units, merged) = (inside.join("lib/systemd"), inside.join("usr/lib/systemd"));
    fs::rename(&units, &merged).map_err(failed(&units))?;
    for gone in ["lib", "usr/share/lintian"].map(|gone| inside.join(gone)) {
        fs::remove_dir_all(&gone).map_err(failed(&gone))?;
    }
    let how = root().join(INSTALL);
    fs::copy(&how, inside.join("INSTALL")).map_err(failed(&how))?;
    let mut files = vec![format!("/{LIST}")];
    listed(&inside.join("usr"), inside, &mut files)?;
    files.sort_unstable();
    let list = inside.join(LIST);
    fs::write(&list, files.join("\n") + "\n").map_err(failed(&list))
}

/// The first library that a program loads, from what readelf says of it.
fn loads(dynamic: &str) -> Option<&str> {
    let needed = dynamic.lines().find(|line| line.contains("(NEEDED)"))?;
    Some(needed.split(['[', ']']).nth(1).unwrap_or(needed))
}

/// Every file below a folder, as it is called once it is installed.
fn listed(dir: &Path, inside: &Path, files: &mut Vec<String>) -> Result<(), String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    for path in paths {
        if path.is_dir() {
            listed(&path, inside, files)?;
        } else {
            let name = path.strip_prefix(inside).map_err(|error| error.to_string())?;
            files.push(format!("/{}", name.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_loaded_is_named() {
        let dynamic = " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n 0x000c (INIT) 0x9\n";
        assert_eq!(loads(dynamic), Some("libc.so.6"));
        assert_eq!(loads("Dynamic section at offset 0x1 contains 2 entries:\n 0x000c (INIT) 0x9\n"), None);
    }

    #[test]
    fn what_the_instructions_name_is_in_the_packages() {
        let text = fs::read_to_string(root().join(INSTALL)).expect("the instructions");
        let list = fs::read_to_string(root().join("deploy/packages/files.txt")).expect("the list");
        for name in ["sluiced.service", "run-sluice-progress.mount", "sysusers.d/sluice.conf", "tmpfiles.d/sluice.conf"]
        {
            let bare = name.trim_end_matches(".service");
            assert!(text.contains(bare) && list.contains(name), "{name}");
        }
        assert!(text.contains(&format!("/{LIST}")), "{text}");
    }

    #[test]
    fn files_are_listed_by_their_place() {
        let dir = std::env::temp_dir().join(format!("sluice-tarball-{}", std::process::id()));
        fs::create_dir_all(dir.join("usr/bin")).expect("made");
        for name in ["usr/bin/b", "usr/a"] {
            fs::write(dir.join(name), "").expect("written");
        }
        let mut files = Vec::new();
        let done = listed(&dir.join("usr"), &dir, &mut files);
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!((done, files), (Ok(()), vec!["/usr/a".to_owned(), "/usr/bin/b".to_owned()]));
    }
}
