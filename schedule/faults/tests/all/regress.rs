//! Cases in which an invariant broke once: cut down, kept, and run for ever.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluice_faults::{Case, Mode, Mutant, Options, run, shrink};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/regress")
}

#[test]
fn what_broke_once_does_not_break_again() {
    let entries = std::fs::read_dir(folder()).expect("schedule/tests/regress");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    assert!(!files.is_empty(), "{} has no case", folder().display());
    for path in files {
        let case = Case::read(&path).unwrap_or_else(|why| panic!("{why}"));
        if let Some(wrong) = case.run(None).violation {
            panic!("{}: {wrong}\n{:#?}", path.display(), case.options());
        }
    }
}

/// Seeds in which an invariant broke once, with all that goes wrong in them; what was needed for it is kept as cases.
#[test]
fn seeds_that_broke_once_hold() {
    let safety = [
        126, 140, 397, 606, 714, 873, 1018, 1113, 1264, 1313, 1422, 1461, 1773, 1963, 1994, 2209, 2397, 2861, 3533,
        4313, 4341, 4621, 4822, 4941,
    ];
    let liveness = [126, 140, 293, 539, 883, 954, 1471, 2014, 2154, 2205, 2451];
    let all = safety.map(|seed| (Mode::Safety, seed)).into_iter().chain(liveness.map(|seed| (Mode::Liveness, seed)));
    for (mode, seed) in all {
        let outcome = run(&Options::from_seed(seed, mode, 1), None);
        assert!(outcome.violation.is_none(), "{mode:?}, seed {seed}: {:?}", outcome.violation);
    }
}

#[test]
fn a_case_is_cut_down_to_what_is_needed_and_still_breaks() {
    let mutant = Some(Mutant::GenerationNotChecked);
    let found = (0..200).find_map(|seed| {
        let options = Options::from_seed(seed, Mode::Safety, 1);
        let outcome = run(&options, mutant);
        outcome.violation.as_ref()?;
        Some(outcome.case(options))
    });
    let case = found.expect("a seed that notices it");
    let shrunk = shrink(&case, mutant, 200);
    let [jobs, timed, messages] = shrunk.case.size();
    println!("{:?} became {:?} in {} runs", case.size(), shrunk.case.size(), shrunk.runs);
    assert!(jobs <= 2 && timed <= 3 && messages <= 3, "{:?}", shrunk.case);
    let folder = std::env::temp_dir().join(format!("sluice-faults-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("case.json");
    shrunk.case.write(&path).expect("written");
    let read = Case::read(&path).expect("read");
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(read, shrunk.case);
    assert!(read.run(mutant).violation.is_some() && read.run(None).violation.is_none());
}

#[test]
fn a_file_that_is_no_case_is_refused_with_a_reason() {
    let folder = std::env::temp_dir().join(format!("sluice-faults-bad-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("bad.json");
    std::fs::write(&path, "{\"options\": 7}").expect("written");
    let text = Case::read(&path).expect_err("refused").to_string();
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(text.contains("bad.json") && text.contains("line 1"), "{text}");
}

/// A case of four hosts and two switches in which nothing goes wrong, as JSON.
fn quiet(mode: Mode) -> Value {
    let mut options = (0..1000).map(|seed| Options::from_seed(seed, mode, 1));
    let options = options.find(|options| options.hosts == 4 && options.leaves == 2).expect("a seed");
    let text = Case::of(options).text().expect("a text");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_number_that_may_not_be_is_told_with_its_field_and_what_is_allowed() {
    let timed = |what: Value| json!([{"at": 0, "what": what}]);
    let lost = json!({"host": 0, "holder": 5, "back": true, "nth": 1, "fate": "Lost"});
    let (safety, liveness) = (Mode::Safety, Mode::Liveness);
    let set_back = json!({"StepHolder": {"holder": 1, "by": i64::MIN}});
    let edits = [
        (safety, "/options/hosts", json!(0), "options.hosts: 0; allowed: 2 to 64"),
        (safety, "/options/slot_ms", json!(0), "options.slot_ms: 0; allowed: 5 to 200"),
        (safety, "/options/planes", json!(3), "options.planes: 3; allowed: 1 to 2"),
        (safety, "/options/first_slot", json!(u64::MAX), "options.first_slot: 18446744073709551615; allowed: "),
        (safety, "/options/jobs", json!([]), "options.jobs, how many: 0; allowed: 1 to 64"),
        (safety, "/options/jobs/0/members", json!([0, 4]), "options.jobs[0].members[1]: 4; allowed: 0 to 3"),
        (safety, "/options/jobs/0/members", json!([2, 1, 2]), "options.jobs[0].members[2]: 2; allowed: each once"),
        (safety, "/options/jobs/0/members", json!([]), "options.jobs[0].members, how many: 0; allowed: 2 to 4"),
        (
            safety,
            "/options/lasting",
            json!({"host": 9, "ways": [true, true]}),
            "options.lasting.host: 9; allowed: 0 to 3",
        ),
        (liveness, "/options/core", Value::Null, "options.core: null; allowed: a core, in mode liveness"),
        (liveness, "/options/core/hosts", json!([0, 7]), "options.core.hosts[1]: 7; allowed: 0 to 3"),
        (
            safety,
            "/faults/timed",
            timed(json!({"Hang": {"host": 4, "time": 1}})),
            "faults.timed[0].what.Hang.host: 4; allowed: 0 to 3",
        ),
        (
            safety,
            "/faults/timed",
            timed(json!({"HolderCrash": {"holder": 2, "down": 1}})),
            "faults.timed[0].what.HolderCrash.holder: 2; allowed: 0 to 1",
        ),
        (
            safety,
            "/faults/timed",
            timed(json!({"Redraw": {"flow": 9999}})),
            "faults.timed[0].what.Redraw.flow: 9999; allowed: 0 to ",
        ),
        (
            safety,
            "/faults/timed",
            timed(set_back),
            "faults.timed[0].what.StepHolder.by: -9223372036854775808; allowed: -",
        ),
        (safety, "/faults/messages", json!([lost]), "faults.messages[0].holder: 5; allowed: 0 to 1"),
    ];
    let path = Path::new("by-hand.json");
    for (mode, field, value, expected) in edits {
        let mut case = quiet(mode);
        *case.pointer_mut(field).expect(field) = value;
        let why = Case::parse(path, &case.to_string()).expect_err(expected).to_string();
        assert!(why.starts_with(&format!("by-hand.json: {expected}")), "{why}; expected {expected}");
    }
    for mode in [safety, liveness] {
        let mut case = quiet(mode);
        Case::parse(path, &case.to_string()).unwrap_or_else(|why| panic!("{why}")).begin(3);
        case["options"]["hots"] = json!(3);
        let why = Case::parse(path, &case.to_string()).expect_err("unknown").to_string();
        assert!(why.contains("unknown field `hots`"), "{why}");
    }
}

#[test]
fn what_a_seed_decides_may_stand_in_a_file() {
    for seed in 0..300 {
        for (mode, stretch) in [(Mode::Safety, 1), (Mode::Liveness, 1), (Mode::Safety, 20)] {
            let options = Options::from_seed(seed, mode, stretch);
            let case = Case::of(options);
            let text = case.text().expect("a text");
            let read = Case::parse(Path::new("seed.json"), &text).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert_eq!(read, case, "seed {seed}");
        }
    }
    // And what came of it.
    for seed in 0..10 {
        let mode = if seed % 2 == 0 { Mode::Safety } else { Mode::Liveness };
        let options = Options::from_seed(seed, mode, 1);
        let case = run(&options, None).case(options);
        let text = case.text().expect("a text");
        assert_eq!(Case::parse(Path::new("run.json"), &text).expect("a case"), case, "seed {seed}");
    }
}
