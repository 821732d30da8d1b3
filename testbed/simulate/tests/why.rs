//! `sluice why` over injected causes in virtual time: at least 95 % right. The whole experiment is `examples/why.rs`.

use sluice_simulate::why::{Case, Kind, judge, record};

/// Cases of each kind.
const CASES: usize = 7;

#[test]
fn nineteen_of_twenty_injected_causes_are_named() {
    let (mut right, mut cases, mut wrong) = (0, 0, Vec::new());
    for kind in Kind::ALL {
        let mut seed = 1000;
        let mut found = 0;
        while found < CASES {
            assert!(seed < 1100, "{}: hardly a case makes a difference", kind.as_str());
            let case = Case::draw(seed, kind).unwrap_or_else(|error| panic!("{error}"));
            seed += 1;
            let ran = |disturbed| {
                record(&case, disturbed).unwrap_or_else(|error| panic!("{} {}: {error}", kind.as_str(), case.seed))
            };
            let Some(verdict) = judge(&case, &ran(false), &ran(true)) else { continue };
            found += 1;
            right += usize::from(verdict.right);
            if !verdict.right {
                wrong.push(format!("{} {} {}: {:?}", kind.as_str(), case.seed, case.policy, verdict.more.first()));
            }
        }
        cases += found;
    }
    assert!(right * 20 >= cases * 19, "{right} of {cases} are right: {wrong:#?}");
}

#[test]
fn a_case_is_the_same_whenever_it_is_drawn() {
    let records = || {
        let case = Case::draw(7, Kind::Job).unwrap_or_else(|error| panic!("{error}"));
        let hosts = record(&case, true).unwrap_or_else(|error| panic!("{error}"));
        judge(&case, &record(&case, false).unwrap_or_else(|error| panic!("{error}")), &hosts)
    };
    assert_eq!(records(), records());
}
