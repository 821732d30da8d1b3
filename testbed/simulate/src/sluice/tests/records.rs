//! The same inputs give the same decisions: in a second run, and from a record.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use sluice_scenario::NodeIx;
use sluice_schedule::Nanos;
use sluice_wire::record::replay;

use super::mini::Mini;
use super::{SluiceScheduler, fixed_mix, policy, run};
use crate::scheduler::Scheduler;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const ROUGH: &str = "faults = [{ at_s = 1.5, kind = \"daemon-kill\", target = \"h0\", for_s = 1 }]\n\
                     [control]\njitter_us = 2000\nloss = 0.05\n";

#[test]
fn one_seed_one_result() {
    let scenario = fixed_mix(10, "0.25", ROUGH, "reserve = 0.0");
    let (first, second) = (run(&scenario, "sluice"), run(&scenario, "sluice"));
    assert_eq!(first.0, second.0);
    assert_eq!(first.1.counters(), second.1.counters());
    let other = sluice_scenario::Scenario { seed: 2, ..scenario };
    assert_ne!(run(&other, "sluice").1.counters(), first.1.counters());
}

#[test]
fn a_recorded_host_decides_the_same_again() {
    for (rule, tables) in [("sluice", "switch"), ("sluice", "nic"), ("sluice:primal-dual", "switch")] {
        let scenario = fixed_mix(10, "0.25", ROUGH, &format!("reserve = 0.0\ntables = \"{tables}\""));
        let record = Shared::default();
        let mut scheduler = SluiceScheduler::new(&scenario, &policy(rule));
        scheduler.record(NodeIx(0), Box::new(record.clone()));
        Mini::new(&scenario).run(&mut scheduler, Nanos::from_millis(3_000));
        drop(scheduler);
        let bytes = record.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let replayed = match replay(bytes.as_slice()) {
            Ok(replayed) => replayed,
            Err(error) => panic!("{rule} {tables}: {error}"),
        };
        assert_eq!(replayed.brains, 2, "the daemon was restarted");
        assert!(replayed.decisions > 100 && replayed.actions > replayed.decisions, "{replayed:?}");
    }
}
