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
    let here = version.lines().next().unwrap_or("");
    if !version.split_whitespace().any(|word| word == made_with.trim()) {
        return skip!(Thing, "made with clang {}, here is {here}", made_with.trim());
    }
    let strip = std::env::var("LLVM_STRIP").unwrap_or_else(|_| "llvm-strip".into());
    if Command::new(&strip).arg("--version").output().is_err() {
        return skip!(Thing, "no {strip}, without which only instructions could be compared");
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
        assert!(Command::new(&strip).arg("-g").arg(&made).status().expect("it runs").success());
        let ready = std::fs::read(ready.join(format!("{name}.bpf.o"))).expect("checked in");
        let fresh = std::fs::read(&made).expect("just made");
        // Relocations, maps and type information count too; instructions are only to say where they differ.
        let same_bytes = ready == fresh;
        let (ready, fresh) = (programs(&ready), programs(&fresh));
        assert_eq!(ready.keys().collect::<Vec<_>>(), fresh.keys().collect::<Vec<_>>(), "{name}");
        for (function, instructions) in &fresh {
            assert_eq!(
                ready.get(function),
                Some(instructions),
                "{name}: {function} differs from what {here} makes; copy that object over it"
            );
        }
        assert!(
            same_bytes,
            "{name}: the instructions are those that {here} makes, relocations, maps or types are not; copy that object over it"
        );
    }
}

/// What the README says of the guards, and where the sources say it.
#[test]
fn the_readme_has_the_figures_of_the_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |name: &str| {
        let text = std::fs::read_to_string(root.join(name)).expect("checked in");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let readme = text("README.md");
    for (said, file, source) in [
        (
            "A delivery window (a round trip and 8 ms at least)",
            "bpf/sluice_guards.h",
            "elapsed < 8000 || elapsed < tp->srtt_us >> 3",
        ),
        (
            "twice the least one, and 4 ms above it at least",
            "bpf/sluice_guards.h",
            "(__u64)least + (least > 4000 ? least : 4000)",
        ),
        (
            "less than 5/8 of what the window before sent arrived",
            "bpf/sluice_guards.h",
            "delivered * 8 >= (__u64)flow->sent_before * enough",
        ),
        ("to half of what is in flight", "bpf/sluice_guards.h", "flow->frozen / 2 > smallest"),
        ("If two or three cuts empty the queue", "bpf/sluice_guards.h", "if (flow->cuts >= 2 &&"),
        ("none brought 5/8 of the rate", "bpf/sluice_guards.h", "flow->mark_us * 1024 * 8 < pacing * enough"),
        ("7/8 count in place of 5/8", "bpf/sluice_guards.h", "enough = flow->cap ? 7 : 5,"),
        ("the cap falls by three eighths at most", "bpf/sluice_guards.h", "kept = flow->cap ? pacing / 8 * 5"),
        ("a quarter lower at most", "bpf/sluice_guards.h", "flow->cap ? pacing / 8 * 5 : pacing / 4 * 3"),
        ("A queue that three cuts do not empty", "bpf/sluice_guards.h", "if (flow->cuts >= 3) {"),
        ("left alone for a second", "bpf/sluice_guards.h", "flow->mark_us = us + 1000000;"),
        ("above `loss_guard` (5 %)", "src/options.rs", "loss_guard: 0.05,"),
        ("a round trip and 40 ms at least", "bpf/sluice_guards.h", "cfg->loss_window / 2)"),
        ("a round trip and 40 ms at least", "src/fallback.rs", "LOSS_WINDOW: Nanos = Nanos::from_millis(80);"),
        ("32 segments of which 4 were lost", "bpf/sluice_guards.h", "lost + delivered < 32"),
        ("32 segments of which 4 were lost", "bpf/sluice_guards.h", "if (lost < 4 ||"),
        ("A second trip within 10 s", "src/fallback.rs", "LOSS_RETRIP: Nanos = Nanos::from_millis(10_000);"),
        ("less than four fifths of the order arrive", "bpf/sluice_guards.h", "kept * 5 < order * 4"),
        ("back for 5 s,", "src/fallback.rs", "LOSS_BAN: Nanos = Nanos::from_millis(5_000);"),
        ("40 s at most", "bpf/sluice_guards.h", "MAX_BAN_DOUBLINGS 3"),
        ("two segments in a round trip", "bpf/sluice_guards.h", "2000000ULL * tp->mss_cache"),
        (
            "The second retransmission time-out within a second",
            "bpf/sluice_cc.bpf.c",
            "now - flow->cap_ns > 1000 * MILLISECOND",
        ),
        ("Every round trip, 2 ms at least", "bpf/sluice_surplus.h", "SURPLUS_PERIOD 2000000ULL"),
        ("by an eighth of the rate", "bpf/sluice_surplus.h", "quick = rate / 8"),
        ("half a link below", "bpf/sluice_surplus.h", "near = link / 2"),
        ("the order is 15/16 of the link", "bpf/sluice_surplus.h", "order < link - link / 16"),
        ("grows by an eighth of the link", "bpf/sluice_surplus.h", "seen->yields ? link / 8"),
        ("halved by one of 1 ms as well", "bpf/sluice_surplus.h", "SURPLUS_QUEUE 1000000ULL"),
        ("more than an eighth of the order", "bpf/sluice_cc.bpf.c", "guarded = extra <= rate / 8;"),
        ("bursts under 10 ms of the rate", "bpf/sluice_guards.h", "rate / 100 / (mss ? mss : 536)"),
    ] {
        assert!(readme.contains(said), "README.md says no more: {said}");
        assert!(text(file).contains(source), "{file} has no more {source:?}, of which README.md says: {said}");
    }
}
