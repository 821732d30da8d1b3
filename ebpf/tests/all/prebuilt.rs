//! The checked-in objects are what the sources give: compared byte by byte, where clang is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use aya_obj::Object;
use sluice_skip::skip;

/// The instructions of every function, as the kernel will see them before relocation.
fn programs(bytes: &[u8]) -> BTreeMap<String, Vec<[u8; 8]>> {
    let object = Object::parse(bytes).expect("a BPF object");
    let raw = |f: &aya_obj::Function| {
        f.instructions
            .iter()
            .map(|i| {
                let mut bytes = [0; 8];
                bytes[0] = i.code;
                bytes[1] = i.src_reg() << 4 | i.dst_reg();
                bytes[2..4].copy_from_slice(&i.off.to_ne_bytes());
                bytes[4..].copy_from_slice(&i.imm.to_ne_bytes());
                bytes
            })
            .collect()
    };
    object.functions.values().map(|f| (f.name.clone(), raw(f))).collect()
}

#[test]
fn the_checked_in_objects_are_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let Ok(version) = Command::new(&clang).arg("--version").output() else {
        return skip!(Thing, "no {clang}");
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let made_with = std::fs::read_to_string(root.join("prebuilt/clang-version")).expect("checked in");
    if !version.contains(&format!("version {}.", made_with.trim())) {
        let here = version.lines().next().unwrap_or("");
        return skip!(Thing, "made with clang {}, here is {here}", made_with.trim());
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (tests, testbed) = (root.join("../testbed/impairment"), root.join("../testbed/bpf"));
    let switch = root.join("../switch-emulator/data-plane/bpf");
    // As the build scripts make them.
    for (name, processor, source, ready) in [
        ("sluice_cc", "v3", root.join("bpf"), root.join("prebuilt")),
        ("sluice_attach", "v3", root.join("bpf"), root.join("prebuilt")),
        ("sluice_drop", "generic", tests.clone(), tests),
        ("sluice_mltcp", "v3", testbed.clone(), testbed),
        ("sluice_forward", "v3", switch.clone(), switch),
    ] {
        let made = dir.path().join(format!("{name}.o"));
        let done = Command::new(&clang)
            .args(["-O2", "-g", "-target", "bpf", "-c"])
            .arg(format!("-mcpu={processor}"))
            .arg(format!("-fdebug-prefix-map={}=.", root.display()))
            .current_dir(root)
            // Only the one that lies elsewhere needs to be told where the headers are.
            .args(if source == root.join("bpf") { &[][..] } else { &["-I", "bpf"] })
            .arg(source.strip_prefix(root).unwrap_or(&source).join(format!("{name}.bpf.c")))
            .arg("-o")
            .arg(&made)
            .status()
            .expect("clang runs");
        assert!(done.success());
        let strip = std::env::var("LLVM_STRIP").unwrap_or_else(|_| "llvm-strip".into());
        let stripped = Command::new(strip).arg("-g").arg(&made).status().is_ok_and(|done| done.success());
        let ready = std::fs::read(ready.join(format!("{name}.bpf.o"))).expect("checked in");
        let fresh = std::fs::read(&made).expect("just made");
        // Relocations, maps and type information count too; where stripping is not possible the instructions are compared.
        let same_bytes = !stripped || ready == fresh;
        let (ready, fresh) = (programs(&ready), programs(&fresh));
        assert_eq!(ready.keys().collect::<Vec<_>>(), fresh.keys().collect::<Vec<_>>(), "{name}");
        for (function, instructions) in &fresh {
            assert_eq!(
                ready.get(function),
                Some(instructions),
                "{name}: {function} differs; copy the object that clang makes over it"
            );
        }
        assert!(
            same_bytes,
            "{name}: the instructions are the same, the rest is not; copy the object that clang makes over it"
        );
    }
}
