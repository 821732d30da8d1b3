//! F38: cases of the fault simulator, which people write and cut down by hand.

use std::path::Path;

use sluice_faults::{Case, Mode, Options};

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A case as JSON.
pub static CASES: Target = Target {
    name: "F38-fault-cases",
    parser: "cases of the fault simulator",
    property: "a refusal names the file; a case that is accepted is written so that it is read the same, and its run begins",
    shape: Shape::Text(&[
        "\"options\"",
        "\"faults\"",
        "\"jobs\"",
        "\"members\"",
        "\"core\"",
        "\"lasting\"",
        "\"timed\"",
        "\"messages\"",
        "\"Crash\"",
        "\"Stop\"",
        "\"Pause\"",
        "\"StepHost\"",
        "\"HolderCrash\"",
        "\"Redraw\"",
        "\"Reconnect\"",
        "\"Twice\"",
        "18446744073709551615",
        "-9223372036854775808",
        "null",
    ]),
    run: cases,
    seeds,
};

fn cases(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("case.json");
    match Case::parse(path, text) {
        Ok(case) => {
            let written = case.text().expect("a case is JSON");
            let again = Case::parse(path, &written).unwrap_or_else(|why| panic!("what was written is refused: {why}"));
            assert_eq!(again, case);
            // Others are as right, and take longer.
            let Options { hosts, jobs, .. } = case.options();
            let members: usize = jobs.iter().map(|job| job.members.len()).sum();
            let [_, timed, _] = case.size();
            if *hosts <= 8 && members <= 24 && timed <= 64 {
                case.begin(2);
            }
        }
        Err(why) => assert!(why.to_string().starts_with("case.json: "), "{why}"),
    }
}

fn seeds() -> Vec<Seed> {
    let quiet = |seed, mode| Case::of(Options::from_seed(seed, mode, 1)).text().expect("a case is JSON");
    vec![
        Seed::new("safety", quiet(1, Mode::Safety)),
        Seed::new("liveness", quiet(1, Mode::Liveness)),
        Seed::new("faults", include_str!("../../../../schedule/tests/regress/order-of-nothing.json")),
    ]
}
