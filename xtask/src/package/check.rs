//! `cargo xtask package check`: what the packages hold, lintian, the same bytes twice, and their life in fresh roots.

use std::fs;
use std::path::Path;

use super::{NEXT, PACKAGES, all, deb, debs_of, place, programs, stage};
use crate::shell::{Step, is_root, output, root, target_dir};

/// What there is to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Files,
    Lint,
    Reproducible,
    Roots,
}

const PARTS: [(&str, Part); 4] =
    [("files", Part::Files), ("lint", Part::Lint), ("reproducible", Part::Reproducible), ("roots", Part::Roots)];
/// Debian release of the roots: the one that the packages are built on.
const RELEASE: &str = "bookworm";
/// What a small host has, and what the packages and the checks of them need.
const INSTALLED: &str = "systemd,iproute2,procps,libstdc++6";

/// The parts that are named, all if none is.
pub(super) fn parts(words: &[String]) -> Result<Vec<Part>, String> {
    let named = |word: &String| {
        let part = PARTS.iter().find(|(name, _)| name == word).map(|(_, part)| *part);
        part.ok_or_else(|| format!("no part {word:?}; there are {}", PARTS.map(|(name, _)| name).join(", ")))
    };
    if words.is_empty() { Ok(PARTS.map(|(_, part)| part).to_vec()) } else { words.iter().map(named).collect() }
}

pub(super) fn run(debs: &Path, parts: &[Part]) -> Result<(), String> {
    if parts.contains(&Part::Roots) && !is_root() {
        return Err("roots need root".into());
    }
    all(debs, None)?;
    for part in parts {
        match part {
            Part::Files => files(debs)?,
            Part::Lint => lint(debs)?,
            Part::Reproducible => reproducible(debs)?,
            Part::Roots => roots(debs)?,
        }
    }
    println!("\npackages: nothing to complain of");
    Ok(())
}

/// What each package holds: mode, owner and path, a line each.
fn files(debs: &Path) -> Result<(), String> {
    let mut text = String::new();
    for (name, _) in PACKAGES {
        let listing = output("dpkg-deb", &["-c", &deb(debs, name, None)?.display().to_string()])?;
        text.push_str(&format!("{name}\n"));
        for line in listing.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Mode, owner, size, date, time, path; sizes and times change with every build.
            if let [mode, owner, _, _, _, path, ..] = words[..]
                && !path.ends_with('/')
            {
                text.push_str(&format!("  {mode} {owner} {path}\n"));
            }
        }
    }
    let golden = root().join("deploy/packages/files.txt");
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let seen = place().join("files.txt");
    fs::write(&seen, &text).map_err(|e| format!("writing {}: {e}", seen.display()))?;
    let only = |of: &str, not: &str| {
        let missing = of.lines().filter(|line| !not.lines().any(|other| other == *line));
        missing.map(|line| format!("\n  {}", line.trim())).collect::<String>()
    };
    // cargo-deb's order says nothing; that it is the same one each time, `reproducible` shows.
    let (more, less) = (only(&text, &expected), only(&expected, &text));
    if more.is_empty() && less.is_empty() {
        println!("files: as in deploy/packages/files.txt");
        return Ok(());
    }
    Err(format!(
        "the packages hold something else than deploy/packages/files.txt says; more:{more}\nless:{less}\nIf it is meant: cp {} {}",
        seen.display(),
        golden.display()
    ))
}

fn lint(debs: &Path) -> Result<(), String> {
    let mut step = Step::new("lintian", &["--fail-on", "error,warning", "--tag-display-limit", "0"]);
    for (name, _) in PACKAGES {
        step = step.arg(&deb(debs, name, None)?.display().to_string());
    }
    step.run()
}

/// Builds everything a second time, in another folder.
fn reproducible(debs: &Path) -> Result<(), String> {
    let (build, again) = (place().join("again"), place().join("debs-again"));
    programs(&build)?;
    stage::all(&build)?;
    debs_of(&build, &again, None)?;
    for (name, _) in PACKAGES {
        let (first, second) = (deb(debs, name, None)?, deb(&again, name, None)?);
        let read = |path: &Path| fs::read(path).map_err(|e| format!("reading {}: {e}", path.display()));
        if read(&first)? != read(&second)? {
            return Err(format!("{} and {} differ: diffoscope says where", first.display(), second.display()));
        }
        println!("{name}: the same bytes twice");
    }
    Ok(())
}

/// A small Debian, as an archive that is made once.
fn fresh() -> Result<String, String> {
    let archive = place().join("root.tar");
    let at = archive.display().to_string();
    if !archive.exists() {
        let part = format!("{at}.part");
        let include = format!("--include={INSTALLED}");
        Step::new("mmdebstrap", &["--variant=minbase", "--mode=root", "--format=tar", &include, RELEASE, &part])
            .run()?;
        fs::rename(&part, &archive).map_err(|e| format!("{part}: {e}"))?;
    }
    Ok(at)
}

/// The packages' life: `deploy/units/examples/roots.rs` does it.
fn roots(debs: &Path) -> Result<(), String> {
    let next = place().join("debs-next");
    debs_of(&place().join("build"), &next, Some(NEXT))?;
    let archive = fresh()?;
    Step::cargo(&["build", "--locked", "-p", "sluice-units", "--bins", "--example", "roots"]).run()?;
    Step::cargo(&["build", "--locked", "-p", "sluice-testbed", "--bin", "sluice-job"]).run()?;
    let program = target_dir().join("debug/examples/roots").display().to_string();
    let step = Step::new(&program, &["--root", &archive, "--work"]).arg(&place().join("roots").display().to_string());
    let step = step.arg("--old").arg(&deb(debs, "sluice", None)?.display().to_string());
    let step = step.arg("--new").arg(&deb(&next, "sluice", Some(NEXT))?.display().to_string());
    let step = step.arg("--switch").arg(&deb(debs, "sluice-switch", None)?.display().to_string());
    step.arg("--sluice").arg(&place().join("build/release/sluice").display().to_string()).run()
}
