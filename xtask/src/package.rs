//! `cargo xtask package`: the Debian packages, and what is checked of them by hand.
//!
//! Here: which there are, the release build, and cargo-deb. What they hold beside programs is put together in `stage`; `check` and
//! `boot` try them in fresh roots, and `tarball` makes of them what other distributions take.

mod boot;
mod check;
mod man;
mod stage;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Early, Step, have, output, root};
use crate::{setup, ship};

pub(crate) const HELP: &str = "\
cargo xtask package [check [PART…] | boot | tarball] [--out DIR]

Builds the Debian packages sluice, sluice-switch, sluice-plugins and sluice-testbed with cargo-deb, which it installs if it is
missing, from a release build in target/package, and puts them into target/package/debs.

  check   tries them; takes a while, needs root, mmdebstrap and lintian, and is not part of `ci`. Parts, all if none is named:
          files         what each of them holds, against deploy/packages/files.txt
          lint          lintian, without a complaint
          reproducible  built a second time elsewhere, to the same bytes
          roots         installed, used, upgraded under traffic, and purged, each in a fresh root
  boot    boots a fresh Debian with systemd in QEMU, installs the packages there, and schedules two jobs
  tarball the files of sluice and sluice-switch for other distributions, with programs that load no library; without the solver
  --out DIR   put the packages there

Example: cargo xtask package check files lint
";

/// What a package is called, and which variant of deploy/units/Cargo.toml it is.
pub(super) const PACKAGES: [(&str, Option<&str>); 4] = [
    ("sluice", None),
    ("sluice-switch", Some("sluice-switch")),
    ("sluice-plugins", Some("sluice-plugins")),
    ("sluice-testbed", Some("sluice-testbed")),
];

/// The version that an upgrade goes to in the checks: nothing is changed but its number.
pub(super) const NEXT: &str = "0.1.1~check-1";

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    if args.iter().any(|a| a == "--help" || a == "-h") {
        print!("{HELP}");
        return Err(Early::Helped);
    }
    let usage = |why: String| Early::Usage(format!("{why}\n\n{HELP}"));
    let (mut out, mut words, mut rest) = (None, Vec::new(), args.iter());
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--out" => out = Some(rest.next().ok_or_else(|| usage("--out needs a folder".into()))?.clone()),
            option if option.starts_with('-') => return Err(usage(format!("no option {option:?}"))),
            word => words.push(word.to_owned()),
        }
    }
    let debs = out.map_or_else(|| place().join("debs"), |out| root().join(out));
    match words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        None => Ok(all(&debs, None)?),
        Some(("check", parts)) => {
            let parts = check::parts(parts).map_err(usage)?;
            Ok(check::run(&debs, &parts)?)
        }
        Some(("boot", [])) => {
            all(&debs, None)?;
            Ok(boot::run(&debs)?)
        }
        Some(("tarball", [])) => Ok(tarball::run(&debs)?),
        Some((other, _)) => Err(usage(format!("no command {other:?}"))),
    }
}

/// Where everything of this lies.
pub(super) fn place() -> PathBuf {
    root().join("target/package")
}

/// Builds every package into `debs`; with another version than the workspace's if there is one.
pub(super) fn all(debs: &Path, version: Option<&str>) -> Result<(), String> {
    tools()?;
    let build = place().join("build");
    programs(&build)?;
    stage::all(&build)?;
    debs_of(&build, debs, version)
}

/// cargo-deb, and what it and the checks need of Debian.
pub(crate) fn tools() -> Result<(), String> {
    setup::ensure_packages()?;
    if !have("cargo-deb") && !Step::cargo(&["deb", "--version"]).quiet() {
        Step::cargo(&["install", "cargo-deb", "--locked"]).run()?;
    }
    Ok(())
}

/// The programs and libraries in release, without this machine's paths in them.
pub(super) fn programs(build: &Path) -> Result<(), String> {
    let step = release(build, "")?;
    step.args(["sluiced", "sluice-switch", "sluice", "sluice-testbed"].iter().flat_map(|package| ["-p", *package]))
        .run()?;
    let (rust, c) = remapped(build)?;
    let step = Step::cargo(&["build", "--release", "--locked"]).with("CARGO_TARGET_DIR", &build.display().to_string());
    let step = step.with("RUSTFLAGS", &rust).with("CFLAGS", &c).with("SOURCE_DATE_EPOCH", &epoch()?);
    step.args(ship::packages()).run()?;
    ship::check(&build.join("release"), &place().join("stage/libraries"))
}

/// Builds programs, which are still to be named, as they are shipped; with these flags for Rust besides.
fn release(build: &Path, flags: &str) -> Result<Step, String> {
    let (rust, c) = remapped(build)?;
    let rust = format!("{rust} {flags}");
    // The kernel programs that were tested, whatever compiler is here.
    let step = Step::cargo(&["build", "--release", "--locked", "--bins"]).with("SLUICE_BPF", "prebuilt");
    let step = step.with("CARGO_TARGET_DIR", &build.display().to_string()).with("RUSTFLAGS", rust.trim_end());
    let step = step.with("CFLAGS", &c).with("CXXFLAGS", &c).with("SOURCE_DATE_EPOCH", &epoch()?);
    // What `/api/v1/status` and `sluice_build_info` call the revision.
    Ok(step.with("SLUICE_REVISION", &revision()?))
}

/// Flags for Rust and for C that keep this machine's paths out of what is built.
fn remapped(build: &Path) -> Result<(String, String), String> {
    let at = build.display().to_string();
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.map_err(|_| "neither CARGO_HOME nor HOME is set".to_owned())?;
    let here = root().display().to_string();
    // The longer one last: the last one that fits counts.
    let remap = [(here.as_str(), "sluice"), (&home, "cargo"), (&at, "build")];
    let rust = remap.map(|(from, to)| format!("--remap-path-prefix={from}=/{to}")).join(" ");
    let c = remap.map(|(from, to)| format!("-ffile-prefix-map={from}=/{to}")).join(" ");
    Ok((rust, c))
}

/// cargo-deb, for each package.
pub(super) fn debs_of(build: &Path, debs: &Path, version: Option<&str>) -> Result<(), String> {
    fs::create_dir_all(debs).map_err(|e| format!("creating {}: {e}", debs.display()))?;
    for (name, variant) in PACKAGES {
        let arguments = ["deb", "--no-build", "--no-strip", "--manifest-path", "deploy/units/Cargo.toml", "--output"];
        let mut step = Step::cargo(&arguments).arg(&debs.display().to_string());
        step = step.with("CARGO_TARGET_DIR", &build.display().to_string()).with("SOURCE_DATE_EPOCH", &epoch()?);
        if let Some(variant) = variant {
            step = step.args(["--variant", variant]);
        }
        if let Some(version) = version {
            step = step.args(["--deb-version", version]);
        }
        step.run().map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// A package's file; of several versions the one that sorts last, or the one that is named.
pub(super) fn deb(debs: &Path, name: &str, version: Option<&str>) -> Result<PathBuf, String> {
    let entries = fs::read_dir(debs).map_err(|e| format!("reading {}: {e}", debs.display()))?.flatten();
    let fits = |path: &PathBuf| {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
        rest.is_some_and(|rest| version.map_or(!rest.contains("check"), |version| rest.starts_with(version)))
    };
    let found = entries.map(|entry| entry.path()).filter(fits).max();
    found.ok_or_else(|| format!("{}: no package {name}", debs.display()))
}

/// The time that files of a package bear: that of the last commit, or what the environment says.
pub(super) fn epoch() -> Result<String, String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(given) => Ok(given),
        Err(_) => output("git", &["log", "-1", "--format=%ct"]),
    }
}

/// The commit that programs say they are of, or what the environment says.
fn revision() -> Result<String, String> {
    std::env::var("SLUICE_REVISION").or_else(|_| output("git", &["rev-parse", "--short=12", "HEAD"]))
}
