//! What of ours the kernel holds now: for whoever looks for what was left. It changes nothing, and tells programs by their
//! names, which all begin alike, in every version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aya::programs::{loaded_links, loaded_programs};

use crate::abi::ABI;
use crate::options::Error;
use crate::pins;

/// How names of our programs, maps and congestion controls begin.
pub const PREFIX: &str = "sluice";

/// A program of ours in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The kernel's number for it.
    pub id: u32,
    /// Its name, cut by the kernel to 15 bytes.
    pub name: String,
    /// By how many links it is attached.
    pub links: usize,
}

/// Our programs that are loaded, whoever holds them.
///
/// # Errors
/// The kernel's refusal, as to users without CAP_SYS_ADMIN or CAP_BPF.
pub fn programs() -> Result<Vec<Program>, Error> {
    let mut found = Vec::new();
    for info in loaded_programs() {
        match info {
            Ok(info) => {
                let name = String::from_utf8_lossy(info.name()).into_owned();
                if name.starts_with(PREFIX) {
                    found.push(Program { id: info.id(), name, links: 0 });
                }
            }
            // One that went away while it was looked at is no refusal; one for want of permission is.
            Err(error) => {
                let error = Error::bpf("list loaded programs", &error);
                if error.denied() {
                    return Err(error);
                }
            }
        }
    }
    for link in loaded_links().flatten() {
        if let Some(program) = found.iter_mut().find(|program| program.id == link.program_id()) {
            program.links += 1;
        }
    }
    Ok(found)
}

/// The pins of one instance and version of the kernel interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Their directory.
    pub dir: PathBuf,
    /// The instance, empty for the usual one.
    pub instance: String,
    /// The version of the kernel interface; `None`: not one that this program understands the name of.
    pub abi: Option<u32>,
    /// Names of the pins, sorted.
    pub names: Vec<String>,
}

impl Pinned {
    /// Are they of another version than this program's?
    pub fn is_foreign(&self) -> bool {
        !self.is_folder() && self.abi != Some(ABI)
    }

    /// Is it only the folder in which pins will be, as tmpfiles.d makes it at boot and a cleanup leaves it?
    pub fn is_folder(&self) -> bool {
        self.abi.is_none() && self.names.is_empty()
    }
}

/// All pins of ours below `root`, the mount point of bpffs, of every instance and version.
pub fn pinned(root: &Path) -> Vec<Pinned> {
    let mut found = Vec::new();
    for name in pins::names(root).into_iter().filter(|name| name.starts_with(PREFIX)) {
        let instance = name.strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let versions = pins::names(&root.join(&name));
        if versions.is_empty() {
            let dir = root.join(&name);
            found.push(Pinned { dir, instance: instance.clone(), abi: None, names: Vec::new() });
        }
        for version in versions {
            let abi = version.strip_prefix("abi").and_then(|number| number.parse().ok());
            let dir = root.join(&name).join(version);
            let names = pins::names(&dir);
            found.push(Pinned { dir, instance: instance.clone(), abi, names });
        }
    }
    found
}

/// Cgroups (by inode) whose sockets more than one of these paces: two daemons, or two versions, that each think they are alone.
pub fn doubled(pinned: &[Pinned]) -> BTreeMap<u64, Vec<PathBuf>> {
    let mut of_cgroup: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    for place in pinned {
        for name in &place.names {
            if let Some(inode) = name.strip_prefix("cg-").and_then(|inode| inode.parse().ok()) {
                of_cgroup.entry(inode).or_default().push(place.dir.clone());
            }
        }
    }
    of_cgroup.retain(|_, places| places.len() > 1);
    of_cgroup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_of_every_instance_and_version_are_found_and_a_cgroup_paced_twice_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        let own = format!("abi{ABI}");
        for (place, pins) in [
            (format!("sluice/{own}"), vec!["sluice_ctl", "cg-7", "cc-sluice"]),
            ("sluice/abi1".into(), vec!["sluice_ctl"]),
            (format!("sluiceb/{own}"), vec!["cg-7", "cg-8"]),
            ("other/abi1".into(), vec!["cg-7"]),
        ] {
            std::fs::create_dir_all(root.join(&place)).expect("made");
            for pin in pins {
                std::fs::write(root.join(&place).join(pin), "").expect("written");
            }
        }
        std::fs::create_dir(root.join("sluicec")).expect("made");
        let found = pinned(root);
        let told: Vec<(&str, Option<u32>, usize)> =
            found.iter().map(|one| (one.instance.as_str(), one.abi, one.names.len())).collect();
        assert_eq!(told, [("", Some(1), 1), ("", Some(ABI), 3), ("b", Some(ABI), 2), ("c", None, 0)]);
        assert_eq!(found.iter().filter(|one| one.is_foreign()).count(), 1);
        let doubled = doubled(&found);
        let places = vec![root.join("sluice").join(&own), root.join("sluiceb").join(&own)];
        assert_eq!(doubled, BTreeMap::from([(7, places)]));
        assert!(pinned(&root.join("none")).is_empty());
    }
}
