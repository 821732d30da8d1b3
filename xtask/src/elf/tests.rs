//! Libraries that a C compiler makes are read as binutils read them, and no file makes the reader fail loudly.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// A shared library of this source.
pub(crate) fn compiled(dir: &Path, source: &str, options: &[&str]) -> PathBuf {
    let (text, library) = (dir.join("library.c"), dir.join("library.so"));
    std::fs::write(&text, source).expect("written");
    let output = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&text).args(options).output();
    let output = output.expect("cc, which links this test too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// An empty directory of this test's own.
pub(crate) fn directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("created");
    dir
}

const SOURCE: &str = r#"
#include <stdio.h>
#include <string.h>
__attribute__((visibility("hidden"))) int inside(void) { return 1; }
int outside(const char *a, char *b, unsigned n) { memmove(b, a, n); printf("%s", b); return inside(); }
"#;

#[test]
fn a_library_is_read_as_binutils_read_it() {
    let dir = directory("elf");
    for (strip, nodelete) in [(false, true), (true, false)] {
        let mut options = vec!["-Wl,-soname,libmine.so"];
        options.extend(strip.then_some("-s"));
        options.extend(nodelete.then_some("-Wl,-z,nodelete"));
        let path = compiled(&dir, SOURCE, &options);
        let library = read(&std::fs::read(&path).expect("readable")).expect("a library");
        assert_eq!((library.soname.as_str(), library.stays, library.unstripped), ("libmine.so", nodelete, !strip));
        assert_eq!(library.exports.iter().map(String::as_str).collect::<Vec<_>>(), ["outside"]);
        assert!(library.needed.contains(&"libc.so.6".to_owned()), "{library:?}");
        // `nm` writes an undefined symbol as its name, `@` and the version.
        let output = Command::new("nm").args(["-D", "--undefined-only", "--with-symbol-versions"]).arg(&path).output();
        let output = String::from_utf8(output.expect("nm, which comes with the linker").stdout).expect("text");
        let words = output.lines().filter_map(|line| line.split_whitespace().next_back()?.split_once('@'));
        let expected: BTreeSet<_> = words.map(|(name, version)| (version.to_owned(), name.to_owned())).collect();
        assert!(expected.iter().any(|(_, name)| name == "memmove"), "{output}");
        assert_eq!(library.versions, expected);
    }
    std::fs::remove_dir_all(dir).expect("removed");
}

#[test]
fn no_bytes_make_it_fail_loudly() {
    let dir = directory("mutated");
    let good = std::fs::read(compiled(&dir, SOURCE, &[])).expect("readable");
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as usize
    };
    let table = number::<8>(&good, 0x28).expect("a header") as usize;
    let mut refused = 0;
    for round in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..1 + next() % 8 {
            // Mostly where it counts: the header and the sections' headers.
            let at = match next() % 3 {
                0 => next() % 64,
                1 => table + next() % (bytes.len() - table),
                _ => next() % bytes.len(),
            };
            bytes[at] = next() as u8;
        }
        if round % 5 == 0 {
            bytes.truncate(next() % bytes.len());
        }
        refused += usize::from(read(&bytes).is_err());
    }
    assert!(refused > 200, "{refused}");
    assert!(read(b"").is_err() && read(b"\x7fELF\x01\x01").is_err() && read(b"\x7fELF\x02\x01").is_err());
    std::fs::remove_dir_all(dir).expect("removed");
}
