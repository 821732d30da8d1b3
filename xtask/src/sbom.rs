//! `cargo xtask sbom`: what the programs are made of, as a CycloneDX document that packages ship.
//!
//! One for all programs and libraries: packages of `Cargo.lock` that they link or are built with, with licence and checksum.
//! No time and no random number is in it: from one lock file comes one document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::json::quoted;
use crate::shell::{Early, root};
use crate::supply::{Id, Locked, licences, lock};

pub(crate) const HELP: &str = "\
cargo xtask sbom [--out FILE]

Writes a bill of materials in CycloneDX 1.5: every package that the shipped programs and libraries link or are built with, with
its version, licence, checksum and what it needs itself. It is made from Cargo.lock without network, and is in every package's
folder of documents.

  --out FILE   default target/sluice.cdx.json
";

/// What is shipped.
const SHIPPED: [&str; 7] =
    ["sluice", "sluiced", "sluice-switch", "sluice-testbed", "sluice-nccl", "sluice-pslite", "sluice-progress"];

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    let out = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => "target/sluice.cdx.json".to_owned(),
        ["--out", file] => (*file).to_owned(),
        [.., "--help" | "-h"] => {
            print!("{HELP}");
            return Err(Early::Helped);
        }
        other => return Err(Early::Usage(format!("no options {}\n\n{HELP}", other.join(" ")))),
    };
    Ok(write(&root().join(out))?)
}

/// Writes the document there.
pub(crate) fn write(to: &Path) -> Result<(), String> {
    let text = document()?;
    let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(to, text));
    made.map_err(|e| format!("writing {}: {e}", to.display()))
}

/// The document for what is shipped.
fn document() -> Result<String, String> {
    let mut options = vec!["--edges", "normal,build"];
    options.extend(SHIPPED.iter().flat_map(|package| ["--package", *package]));
    Ok(text(&licences(&options)?, &lock()?, env!("CARGO_PKG_VERSION")))
}

fn text(licences: &BTreeMap<Id, String>, locked: &BTreeMap<Id, Locked>, version: &str) -> String {
    let name = |id: &Id| format!("pkg:cargo/{}@{}", id.name, id.version);
    let mut components = Vec::new();
    let mut graph = Vec::new();
    for (id, licence) in licences {
        let Some(entry) = locked.get(id) else { continue };
        let mut one = format!(
            "    {{\"type\": \"library\", \"bom-ref\": {0}, \"name\": {1}, \"version\": {2}, \"purl\": {0}",
            quoted(&name(id)),
            quoted(&id.name),
            quoted(&id.version)
        );
        if let Some(sum) = &entry.checksum {
            // Writing into a string cannot fail.
            let _ = write!(one, ", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": {}}}]", quoted(sum));
        }
        if !licence.is_empty() {
            let licence = licence.replace(" / ", " OR ").replace('/', " OR ");
            let _ = write!(one, ", \"licenses\": [{{\"expression\": {}}}]", quoted(&licence));
        }
        components.push(one + "}");
        let needs: BTreeSet<String> =
            entry.needs.iter().filter_map(|need| found(need, licences)).map(|id| quoted(&name(id))).collect();
        let needs = needs.into_iter().collect::<Vec<_>>().join(", ");
        graph.push(format!("    {{\"ref\": {}, \"dependsOn\": [{needs}]}}", quoted(&name(id))));
    }
    format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {{\"component\": \
         {{\"type\": \"application\", \"bom-ref\": \"sluice\", \"name\": \"sluice\", \"version\": {}, \"licenses\": \
         [{{\"expression\": \"MIT OR Apache-2.0\"}}]}}}},\n  \"components\": [\n{}\n  ],\n  \"dependencies\": [\n{}\n  ]\n}}\n",
        quoted(version),
        components.join(",\n"),
        graph.join(",\n")
    )
}

/// The package that an entry of `Cargo.lock` needs, if it is among these.
fn found<'a>(need: &str, among: &'a BTreeMap<Id, String>) -> Option<&'a Id> {
    let mut words = need.split(' ');
    let (name, version) = (words.next()?, words.next());
    among.keys().find(|id| id.name == name && version.is_none_or(|version| id.version == version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_in_it_once_with_checksum_licence_and_what_it_needs() {
        let id = |name: &str, version: &str| Id { name: name.into(), version: version.into() };
        let licences = BTreeMap::from([
            (id("a", "1.0.0"), "MIT/Apache-2.0".to_owned()),
            (id("b", "1.0.0"), "MIT".to_owned()),
            (id("b", "2.0.0"), String::new()),
        ]);
        let entry = |needs: &[&str]| Locked {
            source: Some("registry".into()),
            checksum: Some("00ff".into()),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        };
        let locked = BTreeMap::from([
            (id("a", "1.0.0"), entry(&["b 2.0.0", "only-for-tests"])),
            (id("b", "1.0.0"), entry(&[])),
            (id("b", "2.0.0"), entry(&[])),
        ]);
        let made = text(&licences, &locked, "0.1.0");
        assert_eq!(made.matches("\"purl\"").count(), 3);
        assert!(made.contains(r#""expression": "MIT OR Apache-2.0"}"#), "{made}");
        assert!(made.contains(r#"{"ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@2.0.0"]}"#), "{made}");
        assert!(made.contains(r#"[{"alg": "SHA-256", "content": "00ff"}]"#), "{made}");
        assert_eq!(made, text(&licences, &locked, "0.1.0"));
    }

    #[test]
    fn what_is_shipped_is_made_of_what_is_locked() {
        let made = document().expect("a document");
        // The solver is in `sluice`, what only tests use is in nothing.
        assert!(made.contains("\"highs-sys\"") && !made.contains("\"proptest\""), "{}", made.len());
        assert_eq!(made.matches("\"purl\"").count(), made.matches("\"SHA-256\"").count());
    }
}
