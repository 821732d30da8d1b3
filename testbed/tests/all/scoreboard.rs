//! The scoreboard with real runs: what is there is not run again, what is missing or half there is. Needs root.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sluice_report::scoreboard::Load;
use sluice_testbed::experiment::Bench;
use sluice_testbed::experiment::scoreboard::{Outcome, ScoreboardError, Settings, scoreboard};

use crate::common::{NEVER, ONE_AT_A_TIME, daemons, dir, privileged};

/// Two rings on one pair of hosts at 100 Mbit/s, with so many iterations of about 0.15 s.
pub fn tiny(iterations: usize) -> String {
    let job = |id: &str| {
        format!(
            "[[jobs]]\nid = \"{id}\"\narch = \"ring\"\nbytes = 30000000\ncompute_s = 0.05\nworkers = 2\niterations = {iterations}\n"
        )
    };
    let network = "[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 10\n[placement]\npolicy = \"spread\"\n";
    let head = "version = 1\nname = \"tiny\"\nseed = 4\n";
    format!("{head}{network}[testbed]\nscale = 100\nwarmup_iterations = 0\n{}{}", job("a"), job("b"))
}

fn settings(file: &Path, out: &Path) -> Settings {
    Settings {
        cases: vec![file.display().to_string()],
        policies: ["fair:cubic", "sluice"].map(|policy| policy.parse().expect("a policy")).into(),
        pairs: 1,
        load: vec![Load::Busy],
        out: out.to_owned(),
        scenarios: PathBuf::from("."),
        tables: false,
        list: false,
    }
}

#[test]
fn a_second_call_does_only_what_is_missing() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let (file, out) = (dir.join("tiny.toml"), dir.join("out"));
    std::fs::write(&file, tiny(4)).expect("written");
    let bench = Bench { binaries: &programs, dir: dir.join("files"), stop: &NEVER };
    let settings = settings(&file, &out);
    let call = |settings: &Settings| scoreboard(&bench, settings);
    let counts = |outcome: &Outcome| (outcome.made, outcome.there, outcome.files.len());
    assert_eq!(counts(&call(&settings).expect("two runs")), (2, 0, 3));
    assert_eq!(counts(&call(&settings).expect("nothing to do")), (0, 2, 3));
    let [plain, managed] = ["fair-cubic", "sluice"].map(|policy| out.join(format!("tiny.busy.{policy}.1.json")));
    let kept = std::fs::read(&managed).expect("a run");
    let text = std::fs::read(&plain).expect("a run");
    std::fs::write(&plain, &text[..text.len() - 9]).expect("written");
    assert_eq!(counts(&call(&settings).expect("one run")), (1, 1, 3));
    assert_eq!(std::fs::read(&managed).expect("a run"), kept, "a run that is there stays as it is");
    // Only a second turn is missing; without runs only the tables are written.
    let tables = Settings { tables: true, pairs: 2, ..settings.clone() };
    assert_eq!(counts(&call(&tables).expect("tables")), (0, 0, 3));
    let markdown = std::fs::read_to_string(out.join("scoreboard.md")).expect("a table");
    assert!(markdown.contains("tiny, busy: ") && markdown.contains("fair:cubic"), "{markdown}");
    // No unmanaged traffic: there is an order to compare with, of two jobs the best of all.
    let order = std::fs::read_to_string(out.join("tiny.order.json")).expect("an order");
    assert!(order.contains("the best static order of all"), "{order}");
    let picture = std::fs::read_to_string(out.join("scoreboard.svg")).expect("a picture");
    assert_eq!(picture.matches("<circle ").count(), 2 + 2, "a dot per run, one per policy in the legend");
    // Another scenario under the same name is not taken for this one, nor mixed with it.
    std::fs::write(&file, tiny(5)).expect("written");
    let refused = call(&settings);
    assert!(matches!(&refused, Err(ScoreboardError::Other { path, .. }) if path == &plain), "{refused:?}");
}

#[test]
fn a_run_that_fails_is_told_and_leaves_no_file() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged() {
        return;
    }
    let programs = daemons();
    let (_keep, dir) = dir();
    let (file, out) = (dir.join("tiny.toml"), dir.join("out"));
    // A job that cannot end in the time that it is given.
    let text = tiny(500).replace("version = 1\n", "version = 1\ntime = { end_s = 1 }\n");
    std::fs::write(&file, text).expect("written");
    let bench = Bench { binaries: &programs, dir: dir.join("files"), stop: &NEVER };
    let settings = Settings { policies: vec!["fair:reno".parse().expect("a policy")], ..settings(&file, &out) };
    let failed = scoreboard(&bench, &settings);
    assert!(matches!(&failed, Err(ScoreboardError::Failed { what }) if what.len() == 1), "{failed:?}");
    assert!(!out.join("tiny.busy.fair-reno.1.json").exists());
    assert!(out.join("scoreboard.md").exists());
    // Who was asked to stop has not failed, whatever it meets on its way: here, that it may not go on.
    let asked = AtomicBool::new(true);
    let bench = Bench { binaries: &programs, dir: dir.join("files"), stop: &asked };
    let stopped = scoreboard(&bench, &settings);
    assert!(matches!(stopped, Err(ScoreboardError::Interrupted { left: 1 })), "{stopped:?}");
}
