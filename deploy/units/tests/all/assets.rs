//! What the packages are made of is there: programs of this workspace, files, and what `cargo xtask package` puts together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::shipped;

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn table(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The base and the variants: name, description.
fn packages() -> Vec<(String, Table)> {
    let manifest = table(&own().join("Cargo.toml"));
    let mut deb = manifest["package"]["metadata"]["deb"].as_table().expect("a table").clone();
    let Some(Value::Table(variants)) = deb.remove("variants") else { panic!("no variants") };
    let base = deb.clone();
    let whole = variants.into_iter().map(|(name, variant)| {
        let mut whole = base.clone();
        whole.extend(variant.as_table().expect("a table").clone());
        (name, whole)
    });
    std::iter::once(("sluice".to_owned(), deb)).chain(whole).collect()
}

fn assets(package: &Table) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let assets = package["assets"].as_array().expect("a list").iter();
    assets
        .map(|asset| asset.as_array().expect("three").iter().map(text).collect::<Vec<_>>().try_into().expect("three"))
        .collect()
}

/// Programs of the workspace's members.
fn programs() -> BTreeSet<String> {
    let workspace = own().join("../..");
    let members = table(&workspace.join("Cargo.toml"));
    let members = members["workspace"]["members"].as_array().expect("a list").clone();
    let mut programs = BTreeSet::new();
    for member in members {
        let manifest = table(&workspace.join(member.as_str().expect("text")).join("Cargo.toml"));
        let bins = manifest.get("bin").and_then(Value::as_array).cloned().unwrap_or_default();
        programs.extend(bins.iter().map(|bin| bin["name"].as_str().expect("text").to_owned()));
    }
    programs
}

#[test]
fn every_source_of_every_package_is_there() {
    let programs = programs();
    let packages = packages();
    assert_eq!(packages.len(), 4);
    for (name, package) in packages {
        assert_eq!(package["name"].as_str(), Some(name.as_str()));
        for [source, to, mode] in assets(&package) {
            assert!(!to.starts_with('/') && ["644", "755"].contains(&mode.as_str()), "{name}: {source} {to} {mode}");
            if let Some(program) = source.strip_prefix("target/release/") {
                assert!(programs.contains(program), "{name}: no program {program}");
                assert_eq!(mode, "755");
            } else if source.contains("target/package/stage/") {
                // xtask's own test holds these against what it puts together.
            } else {
                let at = own().join(&source);
                let (dir, file) = (at.parent().expect("a folder"), at.file_name().expect("a name").to_string_lossy());
                let ending = file.strip_prefix('*');
                let there = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{name}: {}: {e}", dir.display()));
                let fits = |found: &str| ending.map_or(found == file, |ending| found.ends_with(ending));
                let found = there.flatten().filter(|entry| fits(&entry.file_name().to_string_lossy())).count();
                assert!(found > 0, "{name}: {source} is not there");
            }
        }
        for file in package["conf-files"].as_array().expect("a list") {
            let path = file.as_str().expect("text").trim_start_matches('/');
            let (dir, name) = path.rsplit_once('/').expect("a path");
            let packed = assets(&package)
                .iter()
                .any(|[source, to, _]| to.trim_end_matches('/') == dir && source.rsplit('/').next() == Some(name));
            assert!(packed, "{path} is no file of the package");
        }
    }
}

#[test]
fn every_unit_and_drop_in_is_in_a_package() {
    let packed: Vec<String> =
        packages().iter().flat_map(|(_, package)| assets(package)).map(|[source, ..]| source).collect();
    for entry in std::fs::read_dir(shipped("systemd")).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("text");
        assert!(packed.contains(&format!("../systemd/{name}")), "{name} is in no package");
    }
    for file in ["sluiced.toml", "sluice-switch.toml"] {
        assert!(packed.contains(&format!("../{file}")), "{file} is in no package");
    }
}

#[test]
fn every_example_is_in_the_package_and_none_is_a_program_there() {
    let (name, package) = packages().swap_remove(0);
    assert_eq!(name, "sluice");
    let packed = assets(&package);
    for folder in ["kubernetes", "slurm", "node-exporter", "examples"] {
        for entry in std::fs::read_dir(shipped(folder)).expect("a folder").flatten() {
            let file = entry.file_name().into_string().expect("text");
            let fits = |source: &str| match source.strip_prefix(&format!("../{folder}/")) {
                Some(name) => name.strip_prefix('*').map_or(name == file, |ending| file.ends_with(ending)),
                None => false,
            };
            let found = packed.iter().find(|[source, ..]| fits(source));
            let [_, to, mode] = found.unwrap_or_else(|| panic!("{folder}/{file} is in no package"));
            assert!(to.starts_with("usr/share/doc/sluice/examples/"), "{folder}/{file}: {to}");
            assert_eq!(mode, "644", "{folder}/{file}");
        }
    }
}

#[test]
fn maintainer_scripts_are_shell_and_stop_at_the_first_error() {
    let mut count = 0;
    for dir in ["sluice", "sluice-switch"] {
        for entry in std::fs::read_dir(shipped("packages").join(dir)).expect("a folder").flatten() {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            assert!(text.starts_with("#!/bin/sh\n") && text.contains("\nset -e\n"), "{}", entry.path().display());
            let checked = std::process::Command::new("sh").arg("-n").arg(entry.path()).output().expect("a shell");
            assert!(checked.status.success(), "{}: {checked:?}", entry.path().display());
            count += 1;
        }
    }
    assert_eq!(count, 6);
}
