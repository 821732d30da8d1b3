//! Every fault is found, and what is right has none.

use super::*;
use crate::elf::tests::{compiled, directory};

/// As it should be.
fn good() -> (Library, Shipped) {
    let shipped = Shipped { package: "none", file: "none", name: "libmine.so", exports: &["first", "second"] };
    let text = |name: &str| name.to_owned();
    let library = Library {
        machine: X86_64,
        soname: text("libmine.so"),
        needed: vec![text("libc.so.6"), text("libgcc_s.so.1")],
        versions: [("GLIBC_2.2.5", "read"), ("GLIBC_2.18", "late"), ("GCC_4.2.0", "unwind")]
            .map(|(version, name)| (text(version), text(name)))
            .into(),
        exports: ["first", "second", "sluice_version"].map(text).into(),
        stays: true,
        unstripped: false,
    };
    (library, shipped)
}

#[test]
fn every_fault_is_found() {
    let (library, shipped) = good();
    assert_eq!(faults(&library, &shipped), Vec::<String>::new());
    assert_eq!(newest(&library), "glibc 2.18 or later");
    let needs = |version: &str| {
        let mut library = library.clone();
        library.versions.insert((version.to_owned(), String::new()));
        library
    };
    let mut lacking = library.clone();
    lacking.exports.remove("second");
    let wrong = [
        ("GLIBC_2.34", needs("GLIBC_2.34")),
        ("GLIBC_2.19", needs("GLIBC_2.19")),
        ("GLIBC_ABI_DT_RELR", needs("GLIBC_ABI_DT_RELR")),
        ("libstdc++", Library { needed: vec!["libstdc++.so.6".into()], ..library.clone() }),
        ("debugger", Library { unstripped: true, ..library.clone() }),
        ("calls itself", Library { soname: String::new(), ..library.clone() }),
        ("unmapped", Library { stays: false, ..library.clone() }),
        ("lacks second", lacking),
    ];
    for (what, library) in wrong {
        let faults = faults(&library, &shipped);
        assert!(faults.len() == 1 && faults[0].contains(what), "{what}: {faults:?}");
    }
    let mut more = library;
    more.exports.insert("malloc".into());
    assert!(faults(&more, &shipped)[0].contains("malloc"));
}

#[test]
fn a_library_that_calls_what_is_new_is_not_to_be_shipped() {
    // `dlsym` has a version of 2.34 where this glibc is not older; then a plain library has nothing to find.
    let dir = directory("ship");
    let source = "#include <dlfcn.h>\nvoid *first(const char *name) { return dlsym(0, name); }\nint second;";
    let path = compiled(&dir, source, &["-s", "-Wl,-soname,libmine.so", "-Wl,-z,nodelete"]);
    let library = elf::read(&fs::read(path).expect("readable")).expect("a library");
    let (_, shipped) = good();
    let faults = faults(&library, &shipped);
    let new = library.versions.iter().any(|(version, _)| version == "GLIBC_2.34");
    assert_eq!(faults.len(), usize::from(new && library.machine == X86_64), "{faults:?}");
    fs::remove_dir_all(dir).expect("removed");
}
