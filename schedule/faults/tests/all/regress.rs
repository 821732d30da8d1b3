//! Cases in which an invariant broke once: cut down, kept, and run for ever.

use std::path::{Path, PathBuf};

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
