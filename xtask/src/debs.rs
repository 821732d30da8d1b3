//! Debian packages unpacked below the target directory, so that nothing is installed: fetched with `apt-get download`, which
//! checks their hashes, and unpacked with `dpkg -x`. What is there already is neither fetched nor unpacked again, so a broken run
//! goes on where it stopped.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::{Step, have};

/// Packages fetched by one call of apt-get.
const AT_ONCE: usize = 40;

/// One package that has to be unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Package {
    /// `name=version`, as apt-get takes it.
    wanted: String,
    /// The archive's name.
    file: String,
    /// Its size in bytes.
    size: u64,
}

impl Package {
    /// Of a line of `apt-get --print-uris`: `'URL' FILE SIZE HASH`.
    fn of_line(line: &str) -> Option<Package> {
        let mut words = line.strip_prefix('\'')?.split_whitespace().skip(1);
        let (file, size) = (words.next()?, words.next()?.parse().ok()?);
        let mut parts = file.strip_suffix(".deb")?.split('_');
        let (name, version) = (parts.next()?, parts.next()?.replace("%3a", ":"));
        // The name becomes a path below our own directory.
        let plain = !file.contains('/') && !file.starts_with('.');
        plain.then(|| Package { wanted: format!("{name}={version}"), file: file.to_owned(), size })
    }

    /// Has the whole archive been fetched?
    fn fetched(&self, debs: &Path) -> bool {
        fs::metadata(debs.join(&self.file)).is_ok_and(|meta| meta.len() == self.size)
    }
}

/// Which packages are unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    /// Those that are named and everything they depend on that this machine lacks.
    Dependencies,
    /// Those that are named: programs that need nothing beside the C library.
    Nothing,
}

/// Fetches and unpacks what is missing of these packages into `root` below `dir`; says what it did. `what`: for messages.
///
/// # Errors
/// A sentence with what to do.
pub(crate) fn unpack(what: &str, dir: &Path, packages: &[&str], with: With) -> Result<(), String> {
    for (program, package) in [("apt-get", "apt"), ("dpkg", "dpkg")] {
        if !have(program) {
            return Err(format!("{program} (package {package}) is not here: {what} needs a Debian machine"));
        }
    }
    let (debs, root) = (dir.join("debs"), dir.join("root"));
    let marks = root.join(".unpacked");
    for dir in [&debs, &marks] {
        fs::create_dir_all(dir).map_err(|e| format!("creating {}: {e}", dir.display()))?;
    }
    let packages = needed(packages, with)?;
    let missing: Vec<&Package> = packages.iter().filter(|p| !marks.join(&p.file).exists()).collect();
    if missing.is_empty() {
        println!("{what}: {} packages are unpacked in {}, nothing is missing", packages.len(), root.display());
        return Ok(());
    }
    let absent: Vec<&&Package> = missing.iter().filter(|p| !p.fetched(&debs)).collect();
    let bytes: u64 = absent.iter().map(|p| p.size).sum();
    println!(
        "{what}: {} packages to unpack in {}, {} to fetch first ({:.0} MB)",
        missing.len(),
        root.display(),
        absent.len(),
        bytes as f64 / 1e6
    );
    for some in absent.chunks(AT_ONCE) {
        fetch(some, &debs)?;
    }
    for package in &missing {
        if !package.fetched(&debs) {
            return Err(format!(
                "{} is not the size apt-get promised; delete {} and run this again",
                package.file,
                debs.display()
            ));
        }
        let (archive, to) = (debs.join(&package.file), root.display().to_string());
        if !Step::new("dpkg", &["-x", &archive.display().to_string(), &to]).quiet() {
            return Err(format!("`dpkg -x {} {to}` failed", archive.display()));
        }
        fs::write(marks.join(&package.file), "").map_err(|e| format!("noting {}: {e}", package.file))?;
        // Unpacked once, the archive is of no more use.
        fs::remove_file(&archive).map_err(|e| format!("removing {}: {e}", archive.display()))?;
    }
    println!("{what}: {} packages unpacked in {}", missing.len(), root.display());
    Ok(())
}

/// What apt would install or fetch.
fn needed(packages: &[&str], with: With) -> Result<Vec<Package>, String> {
    let verb: &[&str] = match with {
        With::Dependencies => &["install", "--no-install-recommends", "-y"],
        With::Nothing => &["download"],
    };
    let list = || {
        let mut command = Command::new("apt-get");
        command.args(verb).args(["--print-uris", "-qq"]).args(packages);
        let output = command.stdin(Stdio::null()).output().map_err(|e| format!("apt-get cannot be started: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: Vec<Package> = text.lines().filter_map(Package::of_line).collect();
        if output.status.success() { Ok(found) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    };
    // Package lists may never have been fetched.
    let first = list();
    if first.is_ok() {
        return first;
    }
    Step::new("apt-get", &["update", "-qq"]).with("DEBIAN_FRONTEND", "noninteractive").with_root().run()?;
    list().map_err(|why| format!("apt-get does not know {}: {}", packages.join(" "), why.trim()))
}

fn fetch(packages: &[&&Package], debs: &Path) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(["download", "-qq"]).args(packages.iter().map(|p| p.wanted.as_str()));
    // apt-get writes into the working directory; as root it complains that `_apt` may not, and goes on.
    command.current_dir(debs).stdin(Stdio::null()).stdout(Stdio::null());
    eprintln!("$ apt-get download … ({} packages)", packages.len());
    let status = command.status().map_err(|e| format!("apt-get cannot be started: {e}"))?;
    if status.success() {
        return Ok(());
    }
    Err("apt-get download failed; `apt-get update`, then run this again: it goes on where it stopped".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_apt_names_a_package_or_nothing() {
        let line = "'http://packages.example/pool/main/f/ffmpeg/x.deb' libavcodec59_7%3a5.1.9-0_amd64.deb 52 SHA256:a";
        let wanted = "libavcodec59=7:5.1.9-0".to_owned();
        let file = "libavcodec59_7%3a5.1.9-0_amd64.deb".to_owned();
        assert_eq!(Package::of_line(line), Some(Package { wanted, file, size: 52 }));
        for other in ["", "Reading package lists...", "'u' a.deb", "'u' x y", "'u' ../a_1_x.deb 5 h", "'u' a_1.rpm 5 h"]
        {
            assert_eq!(Package::of_line(other), None, "{other}");
        }
    }
}
