//! The file system that a machine begins with: our own programs, `ip`, the libraries that they load, and the few modules of the
//! kernel that networks of namespaces take; as the archive that kernels unpack (cpio, "newc").

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Programs;
use crate::image::loaded;
use crate::shell::output;

/// Modules by name: those of networks of namespaces, and what tells the daemon of sockets, which kernels fetch by themselves where
/// there is a program that does it. One that a kernel has built in is in no file.
const MODULES: [&str; 2] = ["veth", "tcp_diag"];
const DIRECTORIES: [&str; 8] = ["bin", "dev", "modules", "proc", "run", "sys", "tmp", "var"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    File(Vec<u8>),
    Link(&'static str),
}

/// Writes the archive to `to`. The first process is the matrix itself.
pub(super) fn write(programs: &Programs, modules: &Path, to: &Path) -> Result<(), String> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    entries.extend(DIRECTORIES.map(|name| (name.to_owned(), Entry::Directory)));
    entries.insert("var/run".into(), Entry::Link("/run"));
    let mut libraries = BTreeSet::new();
    let ip = PathBuf::from(output("sh", &["-c", "command -v ip"])?);
    let wanted =
        [("init", &programs.matrix), ("bin/sluiced", &programs.daemon), ("bin/sluice", &programs.cli), ("bin/ip", &ip)];
    for (name, from) in wanted {
        entries.insert(name.into(), Entry::File(read(from)?));
        libraries.extend(loaded(&output("ldd", &[&from.display().to_string()])?));
    }
    for library in libraries {
        // Links are followed: the name is what the loader looks for.
        let bytes = read(Path::new(&library))?;
        put(&mut entries, library.trim_start_matches('/'), bytes);
    }
    let mut order = String::new();
    for (name, bytes) in with_dependencies(&MODULES, |name| module(modules, name))? {
        put(&mut entries, &format!("modules/{name}.ko"), bytes);
        order += &format!("/modules/{name}.ko\n");
    }
    put(&mut entries, "modules/order", order.into_bytes());
    let archive = archive(&entries);
    fs::write(to, archive).map_err(|e| format!("writing {}: {e}", to.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("reading {}: {e}", path.display()))
}

/// A file, and the directories that it lies in.
fn put(entries: &mut BTreeMap<String, Entry>, name: &str, bytes: Vec<u8>) {
    let parents = name.match_indices('/').filter_map(|(at, _)| name.get(..at));
    for parent in parents.collect::<Vec<_>>() {
        entries.entry(parent.to_owned()).or_insert(Entry::Directory);
    }
    entries.insert(name.to_owned(), Entry::File(bytes));
}

/// These modules and all that they name, in the order in which they have to be loaded.
fn with_dependencies(
    names: &[&str],
    find: impl Fn(&str) -> Result<Option<Vec<u8>>, String>,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut order: Vec<(String, Vec<u8>)> = Vec::new();
    // What is first taken from the stack has all it needs before it the second time.
    let mut stack: Vec<(String, bool)> = names.iter().rev().map(|name| ((*name).to_owned(), false)).collect();
    let mut begun = BTreeSet::new();
    let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    while let Some((name, needs_nothing)) = stack.pop() {
        if needs_nothing {
            if let Some(bytes) = found.remove(&name) {
                order.push((name, bytes));
            }
            continue;
        }
        if !begun.insert(name.clone()) {
            continue;
        }
        // Built in.
        let Some(bytes) = find(&name)? else { continue };
        let needs = depends(&bytes);
        found.insert(name.clone(), bytes);
        stack.push((name, true));
        stack.extend(needs.into_iter().map(|name| (name, false)));
    }
    Ok(order)
}

/// What a module says that it needs.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let at = module.windows(KEY.len()).position(|window| window == KEY);
    let rest = at.and_then(|at| module.get(at + KEY.len()..)).unwrap_or_default();
    let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// A module's file without its compression; `None`: there is none.
fn module(dir: &Path, name: &str) -> Result<Option<Vec<u8>>, String> {
    let mut dirs = vec![dir.join("kernel")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let file = entry.file_name().to_string_lossy().replace('-', "_");
            let Some(ending) = file.strip_prefix(&name.replace('-', "_")) else { continue };
            let program = match ending {
                ".ko" => return read(&path).map(Some),
                ".ko.xz" => "xz",
                ".ko.zst" => "zstd",
                _ => continue,
            };
            let output = Command::new(program).arg("-dc").arg(&path).stdin(Stdio::null()).output();
            let output = output.map_err(|e| format!("{program}, for {}: {e}", path.display()))?;
            if !output.status.success() {
                return Err(format!("{program} -dc {}: {}", path.display(), output.status));
            }
            return Ok(Some(output.stdout));
        }
    }
    Ok(None)
}

/// The archive of these entries, by name: a directory comes before what is in it.
fn archive(entries: &BTreeMap<String, Entry>) -> Vec<u8> {
    const DIRECTORY: u32 = 0o040_755;
    const PROGRAM: u32 = 0o100_755;
    const LINK: u32 = 0o120_777;
    let mut out = Vec::new();
    for (number, (name, entry)) in entries.iter().enumerate() {
        let (mode, bytes) = match entry {
            Entry::Directory => (DIRECTORY, &[][..]),
            Entry::File(bytes) => (PROGRAM, bytes.as_slice()),
            Entry::Link(to) => (LINK, to.as_bytes()),
        };
        append(&mut out, number + 1, name, mode, bytes);
    }
    append(&mut out, 0, "TRAILER!!!", 0, &[]);
    out
}

fn append(out: &mut Vec<u8>, number: usize, name: &str, mode: u32, bytes: &[u8]) {
    // Number, mode, owner, group, links, time, length, device and what it stands for, length of the name, no sum.
    let fields = [number, mode as usize, 0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, name.len() + 1, 0];
    out.extend(b"070701");
    fields.iter().for_each(|field| out.extend(format!("{field:08x}").bytes()));
    out.extend(name.bytes());
    out.push(0);
    pad(out);
    out.extend(bytes);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_kernels_unpack() {
        let mut entries = BTreeMap::new();
        put(&mut entries, "a/b/c", b"hello".to_vec());
        entries.insert("l".into(), Entry::Link("/a"));
        let names: Vec<&str> = entries.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "a/b", "a/b/c", "l"]);
        let archive = archive(&entries);
        // Read as the kernel does: lengths in hexadecimal, name and bytes up to multiples of four.
        let (mut at, mut seen) = (0, Vec::new());
        while at < archive.len() {
            let field = |n: usize| {
                let text = std::str::from_utf8(&archive[at + 6 + 8 * n..at + 14 + 8 * n]).expect("digits");
                usize::from_str_radix(text, 16).expect("a number")
            };
            assert_eq!(&archive[at..at + 6], b"070701");
            let (mode, length, named) = (field(1), field(6), field(11));
            let name = String::from_utf8(archive[at + 110..at + 110 + named - 1].to_vec()).expect("a name");
            let begin = (at + 110 + named).next_multiple_of(4);
            seen.push((name, mode, archive[begin..begin + length].to_vec()));
            at = (begin + length).next_multiple_of(4);
        }
        let is = |name: &str, mode, bytes: &[u8]| (name.to_owned(), mode, bytes.to_vec());
        assert_eq!(
            seen,
            [
                is("a", 0o040_755, b""),
                is("a/b", 0o040_755, b""),
                is("a/b/c", 0o100_755, b"hello"),
                is("l", 0o120_777, b"/a"),
                is("TRAILER!!!", 0, b"")
            ]
        );
    }

    #[test]
    fn what_a_module_needs_is_loaded_before_it_and_once() {
        let find = |name: &str| {
            let text: Option<&[u8]> = match name {
                "top" => Some(b"x\0depends=left,right\0y"),
                "left" | "right" => Some(b"\0depends=base\0"),
                "base" => Some(b"\0license=GPL\0depends=\0"),
                _ => None,
            };
            Ok(text.map(<[u8]>::to_vec))
        };
        let order = with_dependencies(&["top", "built_in"], find).expect("all are there");
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["base", "right", "left", "top"]);
    }
}
