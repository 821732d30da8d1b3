//! What packages hold beside programs and files of the repository: completions, manual pages, a changelog, rules and dashboards,
//! the bill of materials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{epoch, man, place};
use crate::shell::{output, root};

/// Completions of `sluice`, by the shell that it makes them for and the file's name.
pub(super) const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "completions/sluice.bash"), ("zsh", "completions/_sluice"), ("fish", "completions/sluice.fish")];
/// Manual pages that `sluice man` makes, by how their names begin and end, and the folder that a package takes them from. The
/// first that fits counts.
pub(super) const PAGES: [(&str, &str, &str); 5] = [
    ("sluice-switch", ".8", "man/sluice-switch"),
    ("sluiced", ".8", "man/sluiced"),
    ("sluice-switch", ".5", "man/sluice-switch-files"),
    ("sluice", ".5", "man/sluice-files"),
    ("sluice", ".1", "man/sluice"),
];
/// Programs of the testbed: their pages are what they say of themselves.
const TESTBED: [&str; 2] = ["sluice-job", "sluice-experiment"];
/// Folders and files of deploy/monitoring that operators load.
const MONITORING: [&str; 3] = ["dashboards", "sluice.rules.yml", "prometheus.example.yml"];

/// Puts all of it into target/package/stage, anew.
pub(super) fn all(build: &Path) -> Result<(), String> {
    let stage = place().join("stage");
    let release = build.join("release");
    for part in ["completions", "man", "monitoring"] {
        match fs::remove_dir_all(stage.join(part)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(format!("{part}: {e}")),
            _ => {}
        }
    }
    for (shell, file) in COMPLETIONS {
        write(&stage.join(file), &said(&release.join("sluice"), &["completions", shell])?)?;
    }
    let made = stage.join("man/made");
    said(&release.join("sluice"), &["man", &made.display().to_string()])?;
    for entry in fs::read_dir(&made).map_err(|e| format!("reading {}: {e}", made.display()))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let fits = PAGES.iter().find(|(begin, end, _)| name.starts_with(begin) && name.ends_with(end));
        let (_, _, folder) = fits.ok_or_else(|| format!("{name}: no package takes this page"))?;
        let text = fs::read_to_string(entry.path()).map_err(|e| format!("reading {name}: {e}"))?;
        write(&stage.join(folder).join(&name), &text)?;
    }
    let date = output("date", &["-u", "-d", &format!("@{}", epoch()?), "+%Y-%m-%d"])?;
    for program in TESTBED {
        let help = said(&release.join(program), &["--help"])?;
        let page = man::page(program, 1, &help, env!("CARGO_PKG_VERSION"), &date);
        let page = page.ok_or_else(|| format!("{program} --help says nothing"))?;
        write(&stage.join(format!("man/sluice-testbed/{program}.1")), &page)?;
    }
    monitoring(&stage.join("monitoring"))?;
    crate::sbom::write(&stage.join("sluice.cdx.json"))?;
    write(&stage.join("copyright"), &(read("deploy/packages/copyright")? + "\n" + &read("LICENSE-MIT")?))?;
    let when = output("date", &["-u", "-R", "-d", &format!("@{}", epoch()?)])?;
    write(
        &stage.join("changelog"),
        &format!(
            "sluice ({}-1) unstable; urgency=medium\n\n  * Built from the sources; what changed for users is in their \
             CHANGELOG.md.\n\n -- The Sluice authors <sluice@localhost.localdomain>  {when}\n",
            env!("CARGO_PKG_VERSION")
        ),
    )
}

/// Rules and dashboards, with the hierarchy that they have.
fn monitoring(to: &Path) -> Result<(), String> {
    let from = root().join("deploy/monitoring");
    let mut files = Vec::new();
    for name in MONITORING {
        collect(&from.join(name), &mut files)?;
    }
    if files.is_empty() {
        return Err(format!("{} holds no rules and no dashboards", from.display()));
    }
    for file in files {
        let inside = file.strip_prefix(&from).map_err(|e| e.to_string())?;
        let text = fs::read_to_string(&file).map_err(|e| format!("reading {}: {e}", file.display()))?;
        write(&to.join(inside), &text)?;
    }
    Ok(())
}

fn collect(at: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if at.is_dir() {
        let entries = fs::read_dir(at).map_err(|e| format!("reading {}: {e}", at.display()))?;
        for entry in entries.flatten() {
            collect(&entry.path(), files)?;
        }
    } else if at.exists() {
        files.push(at.to_owned());
    }
    Ok(())
}

fn read(name: &str) -> Result<String, String> {
    fs::read_to_string(root().join(name)).map_err(|e| format!("reading {name}: {e}"))
}

fn write(to: &Path, text: &str) -> Result<(), String> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(to, text));
    made.map_err(|e| format!("writing {}: {e}", to.display()))
}

/// What a program says, in as many columns as a page has.
fn said(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let shown = format!("{} {}", program.display(), arguments.join(" "));
    let done = Command::new(program).args(arguments).env("COLUMNS", "100").env("NO_COLOR", "1").output();
    let done = done.map_err(|e| format!("{shown}: {e}"))?;
    if !done.status.success() {
        return Err(format!("{shown}: {}", String::from_utf8_lossy(&done.stderr).trim()));
    }
    String::from_utf8(done.stdout).map_err(|e| format!("{shown}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_is_what_packages_take() {
        let manifest = read("deploy/units/Cargo.toml").expect("it is there");
        let staged = COMPLETIONS.iter().map(|(_, file)| (*file).to_owned());
        let staged = staged.chain(PAGES.iter().map(|(_, _, folder)| format!("{folder}/*")));
        let more =
            ["man/sluice-testbed/*", "changelog", "copyright", "monitoring/**/*", "libraries/*.so", "sluice.cdx.json"]
                .map(str::to_owned);
        let mut staged: Vec<String> = staged.chain(more).collect();
        staged.sort();
        staged.dedup();
        let named = manifest.split("target/package/stage/").skip(1).filter_map(|rest| rest.split('"').next());
        let mut named: Vec<&str> = named.collect();
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, staged);
    }
}
