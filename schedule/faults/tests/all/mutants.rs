//! Every defect that can be planted is noticed, and soon, by what it breaks.

use std::collections::BTreeSet;

use sluice_faults::{Mode, Mutant, Options, run};

/// The seeds that are always run.
const SEEDS: u64 = 200;

/// The first seed that notices a defect.
fn noticed(mutant: Mutant) {
    let seeds = (0..SEEDS).flat_map(|seed| [(seed, Mode::Safety), (seed, Mode::Liveness)]);
    let found = seeds.into_iter().find_map(|(seed, mode)| {
        let options = Options::from_seed(seed, mode, 1);
        let wrong = run(&options, Some(mutant)).violation?;
        // It is the defect that is noticed, and nothing else.
        run(&options, None).violation.is_none().then_some((seed, mode, wrong))
    });
    match found {
        Some((seed, mode, wrong)) => {
            let breaks = mutant.breaks();
            assert!(breaks.contains(&wrong.invariant), "{mutant:?} breaks {breaks:?}; {mode:?}, seed {seed}: {wrong}");
            println!("{mutant:?}: {mode:?}, seed {seed}, {wrong}");
        }
        None => panic!("{mutant:?} was not noticed in {SEEDS} seeds of each mode"),
    }
}

#[test]
fn every_invariant_is_broken_by_a_defect_that_can_be_planted() {
    let broken: BTreeSet<u8> = Mutant::ALL.iter().flat_map(|mutant| mutant.breaks()).copied().collect();
    assert_eq!(broken, (1..=18).collect());
}

#[test]
fn planted_defects_of_holders_and_hosts_are_noticed() {
    Mutant::ALL.iter().step_by(2).for_each(|mutant| noticed(*mutant));
}

#[test]
fn other_planted_defects_are_noticed() {
    Mutant::ALL.iter().skip(1).step_by(2).for_each(|mutant| noticed(*mutant));
}
