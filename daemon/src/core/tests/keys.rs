//! Keys that only say a number to somebody else: each reaches the one whom it is for, as that number, and nobody else. What he makes of
//! it is shown by the tests of the brain, of the kernel side and of the search for jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use super::*;
use crate::config::{judge, read::Reader, reference::reference};

/// Whose field, and how it is printed.
type Told = (&'static str, &'static str);

/// A key, a value that is not its default, and what is told then.
const REACH: &[(&str, &str, &[Told])] = &[
    ("slot.length_ms", "50", &[("brain.slot", "Nanos(50000000)")]),
    ("slot.horizon", "12", &[("brain.horizon", "12")]),
    ("slot.spread", "0.0", &[("brain.phase", "Nanos(0)")]),
    ("switch.stale_slots", "7", &[("brain.stale_slots", "7")]),
    ("capture.threshold_bytes", "77", &[("search.threshold", "Bytes(77)")]),
    ("capture.environ", "false", &[("search.environ", "false")]),
    ("capture.ports", "[\"7-8\"]", &[("search.ports", "[7..=8]")]),
    ("capture.cgroups", "[\"/jobs\"]", &[("search.cgroups", "[\"/jobs\"]")]),
    ("node.instance", "\"b\"", &[("kernel.instance", "\"b\"")]),
    ("enforce.backend", "\"setsockopt\"", &[("kernel.tiers", "[SetSockOpt, None]")]),
    ("enforce.max_flows", "64", &[("kernel.max_flows", "64"), ("kernel.floor", "Rate(747192)")]),
    ("enforce.floor_mbps", "20.0", &[("brain.floor", "Rate(20000000)")]),
    ("enforce.floor_ratio", "0.07", &[("brain.floor_ratio", "0.07")]),
    ("enforce.deadline_slots", "5", &[("brain.deadline_slots", "5")]),
    ("enforce.max_step_up", "4.5", &[("brain.max_step_up", "4.5")]),
    ("enforce.coast_ms", "5000", &[("kernel.longest_order", "Nanos(10000000000)")]),
    ("enforce.loss_guard_ratio", "0.15", &[("kernel.loss_guard", "0.15")]),
    ("enforce.release_to", "\"reno\"", &[("kernel.release_to", "Some(\"reno\")")]),
    ("enforce.benefit_margin", "0.3", &[("benefit.margin", "300")]),
    ("enforce.benefit_slots", "16", &[("benefit.windows", "Windows {slot: Nanos(60000000), slots: 16, part: 128}")]),
    ("enforce.benefit_part", "8", &[("benefit.windows", "Windows {slot: Nanos(60000000), slots: 128, part: 8}")]),
    ("schedule.policy", "\"primal-dual\"", &[("brain.policy", "PrimalDual")]),
    ("schedule.promote_kappa", "8.5", &[("brain.promote_kappa", "8.5")]),
    ("schedule.fair_floor", "0.25", &[("brain.fair_floor", "0.25")]),
    ("schedule.fair_floor_alone", "0.25", &[("brain.fair_floor_alone", "0.25")]),
    ("schedule.fair_floor_brief", "0.25", &[("brain.fair_floor_brief", "0.25")]),
    ("schedule.newcomer_share", "0.25", &[("brain.newcomer_share", "0.25")]),
    ("schedule.surplus", "\"greedy\"", &[("brain.surplus", "Greedy")]),
    ("schedule.delay_weight", "2.5", &[("brain.delay_weight", "2.5")]),
    ("schedule.price_mu", "50.5", &[("brain.price_mu", "50.5")]),
    ("schedule.probe_gain", "1.5", &[("brain.probe_gain", "1.5")]),
    ("schedule.history_slots", "9", &[("brain.history_slots", "9")]),
    ("schedule.events", "false", &[("brain.events", "false")]),
    ("schedule.work_conserving", "false", &[("brain.work_conserving", "false")]),
    ("schedule.chunk_lead", "true", &[("brain.chunk_lead", "true")]),
    ("schedule.max_wait_ms", "777", &[("brain.max_wait", "Nanos(777000000)")]),
];
/// Lengths in slots are longer where a slot is, and so is the part of a slot in which a host speaks.
const BY_SLOTS: [&str; 3] = ["brain.max_wait", "brain.phase", "benefit.windows"];
/// Keys of the same tables that the loop itself acts on.
const ELSEWHERE: [&str; 4] = ["enforce.require", "enforce.benefit", "enforce.sysctls", "schedule.realtime"];

/// What is told by a file of these lines: fields as they are printed, by whose they are.
fn told(text: &str) -> BTreeMap<String, String> {
    let mut reader = Reader::default();
    reader.text(Path::new("sluiced.toml"), &format!("node.name = \"h0\"\n{text}\n"));
    let loaded = judge(reader, true).unwrap_or_else(|problems| panic!("{text}: {problems}"));
    let fabric = fabric(0, &loaded.config);
    let mut told = BTreeMap::new();
    tell(&mut told, "brain", &settings::brain(&loaded.config, &fabric, BootId(1)));
    tell(&mut told, "kernel", &crate::enforce::options(&loaded, Some(&fabric)));
    tell(&mut told, "benefit", &super::super::benefit::Helped::new(&loaded.config));
    tell(&mut told, "search", &crate::monitor::settings(&loaded.config));
    told
}

/// The fields of a struct, each on one line.
fn tell(told: &mut BTreeMap<String, String>, whose: &str, of: &dyn Debug) {
    let text = format!("{of:#?}");
    let mut field = String::new();
    for line in text.lines() {
        match line.strip_prefix("    ").filter(|rest| !rest.starts_with([' ', '}', ']', ')'])) {
            Some(begins) => {
                let (name, value) = begins.split_once(": ").unwrap_or_else(|| panic!("{whose}: {begins}"));
                field = format!("{whose}.{name}");
                told.insert(field.clone(), value.trim_end_matches(',').to_owned());
            }
            None => {
                if let Some(value) = told.get_mut(&field).filter(|_| line.starts_with("    ")) {
                    let (separates, line) = (value.ends_with(','), line.trim());
                    if separates && !line.starts_with(['}', ']', ')']) {
                        value.push(' ');
                    } else if separates {
                        value.pop();
                    }
                    value.push_str(line);
                }
            }
        }
    }
    for value in told.values_mut() {
        *value = value.trim_end_matches(',').to_owned();
    }
}

#[test]
fn each_key_reaches_the_one_whom_it_is_for_and_nobody_else() {
    let before = told("");
    for (key, value, reach) in REACH {
        let after = told(&format!("{key} = {value}"));
        let changed: BTreeSet<&str> = after
            .iter()
            .filter(|(field, told)| before.get(*field) != Some(told))
            .map(|(field, _)| field.as_str())
            .collect();
        let mut wanted: BTreeSet<&str> = reach.iter().map(|(field, _)| *field).collect();
        if *key == "slot.length_ms" {
            wanted.extend(BY_SLOTS);
        }
        assert_eq!(changed, wanted, "{key}");
        for (field, printed) in *reach {
            assert_eq!(after.get(*field).map(String::as_str), Some(*printed), "{key}: {field}");
        }
    }
}

#[test]
fn no_key_of_the_scheduler_or_of_enforcement_is_left_out() {
    let listed: BTreeSet<&str> = REACH.iter().map(|(key, ..)| *key).chain(ELSEWHERE).collect();
    let of_theirs = |key: &str| key.starts_with("schedule.") || key.starts_with("enforce.");
    let all = reference();
    let known: BTreeSet<&str> = all.iter().map(|of| of.key.as_str()).filter(|key| of_theirs(key)).collect();
    let listed: BTreeSet<&str> = listed.into_iter().filter(|key| of_theirs(key)).collect();
    assert_eq!(known, listed);
}
