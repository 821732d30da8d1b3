//! `cargo xtask dependencies`: what comes from elsewhere may be used, comes from where it should, and is what it was.
//!
//! The rules stand in `deny.toml`, for cargo-deny where it is installed. What needs no network is checked here in any case, from
//! `Cargo.lock` and what `cargo tree` says: licences, sources, checksums, packages that are refused. Versions beside each other
//! are told, not refused.

pub(crate) mod licence;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::shell::{Early, Step, have, options, output, root};
use licence::Expression;

pub(crate) const HELP: &str = "\
cargo xtask dependencies [--advisories]

Licences, sources, checksums and refused packages of everything in Cargo.lock, by the rules of deny.toml and without network;
with cargo-deny too, where it is installed (cargo install cargo-deny --locked). Ends with the packages that are there in more
than one version.

  --advisories   known weaknesses instead: cargo-deny fetches their list, which needs network
";

/// For these the packages are built.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// For `cargo tree`: all packages of the workspace, with what only tests need.
const EVERYTHING: [&str; 3] = ["--workspace", "--edges", "normal,build,dev"];
/// Where packages come from; nothing else is a source.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A name and a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// A package of `Cargo.lock`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Locked {
    /// `None`: one of this workspace.
    pub(crate) source: Option<String>,
    /// SHA-256, in hexadecimal.
    pub(crate) checksum: Option<String>,
    /// As `Cargo.lock` has them: a name, with a version where there are several.
    pub(crate) needs: Vec<String>,
}

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    let given = options(args, HELP, &["--advisories"])?;
    if given.contains(&"--advisories") {
        return Ok(advisories()?);
    }
    Ok(check()?)
}

/// Known weaknesses, by cargo-deny.
pub(crate) fn advisories() -> Result<(), String> {
    if !has_deny() {
        return Err("cargo-deny is not here: cargo install cargo-deny --locked".to_owned());
    }
    Step::cargo(&["deny", "--all-features", "check", "advisories"]).run()
}

/// Is cargo-deny here?
pub(crate) fn has_deny() -> bool {
    have("cargo-deny")
}

/// All that can be said without network; by cargo-deny too, where it is here.
pub(crate) fn check() -> Result<(), String> {
    own()?;
    if !has_deny() {
        eprintln!("xtask: cargo-deny is not here, and says nothing: cargo install cargo-deny --locked");
    } else {
        Step::cargo(&["fetch", "--locked"]).run()?;
        Step::cargo(&["deny", "--offline", "--all-features", "check", "licenses", "bans", "sources"]).run()?;
    }
    Ok(())
}

fn own() -> Result<(), String> {
    let rules = Rules::read(&text("deny.toml")?)?;
    let locked = locked(&text("Cargo.lock")?)?;
    let mut faults = rules.faults(&locked);
    let licences = licences(&[])?;
    for (id, licence) in &licences {
        if let Err(why) = rules.allows(licence) {
            faults.push(format!("{} {}: {why}", id.name, id.version));
        }
    }
    let beside = beside(&locked);
    eprintln!(
        "xtask: {} packages, {} with a licence that was read, {} names in more than one version: {}",
        locked.len(),
        licences.len(),
        beside.len(),
        beside.join(", ")
    );
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn text(name: &str) -> Result<String, String> {
    fs::read_to_string(root().join(name)).map_err(|e| format!("reading {name}: {e}"))
}

/// `Cargo.lock` as it stands.
pub(crate) fn lock() -> Result<BTreeMap<Id, Locked>, String> {
    locked(&text("Cargo.lock")?)
}

/// What `Cargo.lock` says.
fn locked(text: &str) -> Result<BTreeMap<Id, Locked>, String> {
    let mut all = BTreeMap::new();
    for part in text.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let begin = format!("{key} = \"");
            let line = part.lines().find_map(|line| line.strip_prefix(&begin));
            line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
        };
        let (Some(name), Some(version)) = (value("name"), value("version")) else {
            return Err(format!("Cargo.lock: a package without name or version: {}", part.trim()));
        };
        let needs = part.lines().filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\",")).map(str::to_owned);
        let entry = Locked { source: value("source"), checksum: value("checksum"), needs: needs.collect() };
        all.insert(Id { name, version }, entry);
    }
    if all.is_empty() { Err("Cargo.lock: no package".to_owned()) } else { Ok(all) }
}

/// The licences of all packages that are built for [`TARGETS`] and come from elsewhere; with `further` options for `cargo tree`.
pub(crate) fn licences(further: &[&str]) -> Result<BTreeMap<Id, String>, String> {
    let mut found = BTreeMap::new();
    for target in TARGETS {
        let mut args = vec!["tree", "--locked", "--target", target, "--prefix", "none", "--format", "{p}\t{l}\t"];
        args.extend(if further.is_empty() { EVERYTHING.as_slice() } else { further });
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        // What nothing here is built of yet, a package for another processor, may have to be fetched.
        let said =
            output(&cargo, &[["--offline"].as_slice(), args.as_slice()].concat()).or_else(|_| output(&cargo, &args))?;
        for line in said.lines() {
            let mut cells = line.split('\t');
            let (package, licence) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            let mut words = package.split(' ');
            let (Some(name), Some(version)) = (words.next(), words.next().and_then(|v| v.strip_prefix('v'))) else {
                continue;
            };
            // One of ours has its folder behind it.
            if words.any(|word| word.starts_with("(/")) {
                continue;
            }
            found.insert(Id { name: name.to_owned(), version: version.to_owned() }, licence.to_owned());
        }
    }
    if found.is_empty() { Err("cargo tree names no package".to_owned()) } else { Ok(found) }
}

/// Names that are there in more than one version.
fn beside(locked: &BTreeMap<Id, Locked>) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for id in locked.keys() {
        versions.entry(&id.name).or_default().push(&id.version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, versions)| format!("{name} {}", versions.join(" "))).collect()
}

/// What `deny.toml` says, as far as it is checked here.
#[derive(Debug, Default)]
struct Rules {
    licences: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Rules {
    fn read(text: &str) -> Result<Rules, String> {
        let section = |name: &str| text.split(&format!("\n[{name}]\n")).nth(1).unwrap_or_default();
        let section = |name: &str| section(name).split("\n[").next().unwrap_or_default();
        let quoted =
            |text: &str| -> BTreeSet<String> { text.split('"').skip(1).step_by(2).map(str::to_owned).collect() };
        let list = |section: &str, key: &str| -> BTreeSet<String> {
            let list = section.split(&format!("\n{key} = [")).nth(1).unwrap_or_default();
            quoted(list.split(']').next().unwrap_or_default())
        };
        let with_begin = |name: &str| format!("\n{}", section(name));
        let rules =
            Rules { licences: list(&with_begin("licenses"), "allow"), refused: list(&with_begin("bans"), "deny") };
        if rules.licences.is_empty() { Err("deny.toml: [licenses] allow names none".to_owned()) } else { Ok(rules) }
    }

    /// What is wrong with what is locked.
    fn faults(&self, locked: &BTreeMap<Id, Locked>) -> Vec<String> {
        let mut faults = Vec::new();
        for (Id { name, version }, Locked { source, checksum, .. }) in locked {
            if self.refused.contains(name) {
                faults.push(format!("{name} {version}: deny.toml refuses it"));
            }
            match source.as_deref() {
                None => {}
                Some(REGISTRY) if checksum.as_ref().is_some_and(|sum| sum.len() == 64) => {}
                Some(REGISTRY) => faults.push(format!("{name} {version}: Cargo.lock has no checksum of it")),
                Some(other) => faults.push(format!("{name} {version}: from {other}; allowed: the registry")),
            }
        }
        faults
    }

    fn allows(&self, licence: &str) -> Result<(), String> {
        let expression = Expression::read(licence).map_err(|why| format!("its licence {licence:?}: {why}"))?;
        if expression.holds(&|name| self.licences.contains(name)) {
            return Ok(());
        }
        let allowed = self.licences.iter().cloned().collect::<Vec<_>>().join(", ");
        Err(format!("its licence is {licence:?}; deny.toml allows {allowed}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_the_lock_file_may_be_used_and_comes_from_the_registry() {
        own().expect("deny.toml is kept");
    }

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"SOURCE\"\nchecksum = \"SUM\"\ndependencies = [\n \"b 1.0.0\",\n \"c\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
    const RULES: &str = "[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\n\n[bans]\nmultiple-versions = \"allow\"\ndeny = [{ crate = \"bad\" }]\n\n[sources]\nallow = [\"GPL\"]\n";

    #[test]
    fn what_is_refused_is_named_and_the_rest_is_not() {
        let rules = Rules::read(&format!("#\n{RULES}")).expect("rules");
        assert_eq!(rules.licences, BTreeSet::from(["ISC".into(), "MIT".into()]));
        let lock =
            |source: &str, sum: &str| locked(&LOCK.replace("SOURCE", source).replace("SUM", sum)).expect("packages");
        let good = lock(REGISTRY, &"0".repeat(64));
        assert_eq!(rules.faults(&good), Vec::<String>::new());
        let a = good.iter().find(|(id, _)| id.name == "a").expect("it is there").1;
        assert_eq!(a.needs, ["b 1.0.0", "c"]);
        assert_eq!(beside(&good), ["b 1.0.0 2.0.0"]);
        for (bad, why) in
            [(lock(REGISTRY, ""), "no checksum"), (lock("git+https://h/r#1", "0"), "allowed: the registry")]
        {
            let faults = rules.faults(&bad);
            assert!(faults.len() == 1 && faults[0].contains(why), "{faults:?}");
        }
        let named = locked(&LOCK.replace("\"b\"", "\"bad\"")).expect("packages");
        assert_eq!(rules.faults(&named).iter().filter(|fault| fault.contains("refuses")).count(), 2);
        assert!(rules.allows("MIT").is_ok() && rules.allows("GPL-3.0 OR ISC").is_ok());
        for licence in ["GPL-3.0", "MIT AND GPL-3.0", "", "GPL"] {
            assert!(rules.allows(licence).is_err(), "{licence}");
        }
        assert!(locked("").is_err() && Rules::read("").is_err());
    }
}
