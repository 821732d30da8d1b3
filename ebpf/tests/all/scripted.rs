//! The congestion control against a far end that does what a script says: loss, marks, reordering, silence, a closed
//! window, small segments. What is expected of window, pacing and hand-over stands in each script.

mod packet;
mod peer;
mod script;
mod scripts;
mod stage;

use crate::common;
use scripts::{ALWAYS, FURTHER, Script};
use sluice_ebpf::Options;
use sluice_schedule::Rate;

/// A machine that was busy elsewhere makes acknowledgements late, which the guards rightly answer: another try.
const TRIES: usize = 3;

fn play(scripts: &[Script]) {
    let Some(net) = common::net_alone() else { return };
    let Some(options) = common::options() else { return };
    let Some(mut kernel) = common::open(&net, Options { floor: Rate::mbps(1), ..options }) else { return };
    let mut failed = Vec::new();
    for Script { name, run } in scripts {
        let mut said = Vec::new();
        while said.len() < TRIES {
            match run(&net, &mut kernel) {
                Ok(()) => break,
                Err(why) => said.push(why),
            }
            eprintln!("{name}: try {}: {}", said.len(), said.last().map_or("", String::as_str));
        }
        if said.len() == TRIES {
            failed.push(format!("{name}: {}", said.join(" | ")));
        }
    }
    assert!(failed.is_empty(), "{} of {} scripts failed:\n{}", failed.len(), scripts.len(), failed.join("\n"));
}

#[test]
fn the_usual_faults_of_a_path_change_what_they_should() {
    play(ALWAYS);
}

#[test]
fn rarer_habits_and_faults_change_what_they_should() {
    play(FURTHER);
}
