//! The kernels that the distribution's archive offers, and one of them unpacked.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::debs::{self, With};
use crate::shell::target_dir;

const PACKAGE: &str = "linux-image-";
const MACHINE: &str = "-amd64";

/// A kernel of the archive: the newest of its series and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Series and kind, as `6.12-cloud`.
    pub(super) label: String,
    pub(super) package: String,
    /// As the kernel calls itself.
    pub(super) release: String,
    /// Of the package.
    pub(super) bytes: u64,
    /// Every number of its version.
    age: Vec<u32>,
}

/// One that is here.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) dir: PathBuf,
    pub(super) kernel: PathBuf,
    pub(super) modules: PathBuf,
}

impl Offer {
    /// `None`: a package of another kind, or one that only names the newest of a series.
    pub(super) fn of(package: &str, bytes: u64) -> Option<Offer> {
        let release = package.strip_prefix(PACKAGE)?;
        let version = release.strip_suffix(MACHINE)?;
        let (version, kind) = ["-cloud", "-rt"]
            .into_iter()
            .find_map(|kind| Some((version.strip_suffix(kind)?, kind)))
            .unwrap_or((version, ""));
        let numbers = version.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        let age: Vec<u32> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        let [major, minor, _, ..] = age.as_slice() else { return None };
        let label = format!("{major}.{minor}{kind}");
        let (package, release) = (package.to_owned(), release.to_owned());
        Some(Offer { label, package, release, bytes, age })
    }

    /// Fetches and unpacks it where it is not here.
    pub(super) fn unpack(&self) -> Result<Unpacked, String> {
        let dir = target_dir().join("kernels").join(&self.release);
        debs::unpack(&format!("kernel {}", self.label), &dir, &[&self.package], With::Nothing)?;
        let root = dir.join("root");
        let kernel = root.join("boot").join(format!("vmlinuz-{}", self.release));
        let places = ["lib/modules", "usr/lib/modules"].map(|place| root.join(place).join(&self.release));
        let modules = places.into_iter().find(|place| place.is_dir());
        let modules = modules.ok_or_else(|| format!("{} has no modules", root.display()))?;
        if !kernel.is_file() {
            return Err(format!("{} is not in {}", kernel.display(), self.package));
        }
        Ok(Unpacked { dir, kernel, modules })
    }
}

/// Of every series and kind the newest, by what apt knows already.
pub(super) fn offers() -> Result<Vec<Offer>, String> {
    let ask = |args: &[&str]| {
        let output = Command::new("apt-cache").args(args).stdin(Stdio::null()).output();
        let output =
            output.map_err(|e| format!("apt-cache cannot be started: {e}: kernels come from a Debian archive"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let found = ask(&["search", "--names-only", "^linux-image-[0-9].*-amd64$"])?;
    let names = found.lines().filter_map(|line| line.split_whitespace().next());
    let mut offers = newest(names.filter_map(|name| Offer::of(name, 0)));
    for offer in &mut offers {
        let told = ask(&["show", "--no-all-versions", &offer.package])?;
        let size = told.lines().find_map(|line| line.strip_prefix("Size: "));
        offer.bytes = size.and_then(|size| size.trim().parse().ok()).unwrap_or_default();
    }
    if offers.is_empty() {
        return Err("apt knows no kernels: `apt-get update`, on a Debian machine".into());
    }
    Ok(offers)
}

fn newest(offers: impl Iterator<Item = Offer>) -> Vec<Offer> {
    let mut all: Vec<Offer> = offers.collect();
    all.sort_by(|a, b| b.age.cmp(&a.age));
    let mut kept: Vec<Offer> = Vec::new();
    for offer in all {
        if !kept.iter().any(|other| other.label == offer.label) {
            kept.push(offer);
        }
    }
    kept.sort_by(|a, b| a.age.cmp(&b.age).then_with(|| a.label.cmp(&b.label)));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_series_and_kind_is_offered() {
        let names = [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.12.9+deb12-rt-amd64",
            "linux-image-6.12.117+deb12-rt-amd64",
            // These only name another one.
            "linux-image-6.12-amd64",
            "linux-image-amd64",
            "linux-headers-6.1.0-56-amd64",
            "linux-image-6.1.0-56-amd64-dbg",
        ];
        let offers = newest(names.into_iter().filter_map(|name| Offer::of(name, 0)));
        let told: Vec<(&str, &str)> = offers.iter().map(|o| (o.label.as_str(), o.release.as_str())).collect();
        let is =
            [("6.1", "6.1.0-56-amd64"), ("6.1-cloud", "6.1.0-56-cloud-amd64"), ("6.12-rt", "6.12.117+deb12-rt-amd64")];
        assert_eq!(told, is);
    }
}
