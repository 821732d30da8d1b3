//! What breaks never stops a job: lost messages, deaths, restarts, partitions, wrong clocks.

use sluice_scenario::{NodeIx, Scenario};
use sluice_schedule::Nanos;

use super::mini::Mini;
use super::{SluiceScheduler, counter, fixed_mix, mean, policy, run, two_rings};
use crate::scheduler::{Change, Orders, Scheduler};
use crate::world::World;

fn with_fault(kind: &str, target: &str, more: &str, tables: &str) -> Scenario {
    let fault = format!("faults = [{{ at_s = 2.01, kind = \"{kind}\", target = \"{target}\" {more} }}]");
    fixed_mix(10, "0.25", &fault, &format!("reserve = 0.0\ntables = \"{tables}\""))
}

#[test]
fn no_fault_stops_a_job_or_slows_it_much() {
    let calm = mean(&run(&fixed_mix(10, "0.25", "", "reserve = 0.0"), "sluice").0);
    for (kind, target, more) in [
        ("host-death", "h0", ", for_s = 2"),
        ("daemon-kill", "h0", ", for_s = 2"),
        ("daemon-kill", "h4", ""),
        ("daemon-stop", "h0", ", for_s = 0.1, every_s = 1, times = 20"),
        ("daemon-stop", "h0", ", for_s = 1.5"),
        ("switch-restart", "s0", ""),
        ("switch-restart", "s0", ", for_s = 3"),
        ("partition", "h1", ", for_s = 3"),
        ("partition", "s0", ", for_s = 1"),
        ("clock-skew", "h3", ", for_s = 2, slots = 3.5"),
        ("clock-skew", "s0", ", for_s = 2, slots = 0.4"),
    ] {
        for tables in ["switch", "nic"] {
            let (jct, _) = run(&with_fault(kind, target, more, tables), "sluice");
            let mean = mean(&jct);
            assert!(mean < 1.25 * calm, "{kind} of {target}{more}, {tables}: {jct:?} against {calm}");
        }
    }
}

#[test]
fn lost_and_late_messages_stop_nothing() {
    let calm = mean(&run(&fixed_mix(10, "0.25", "", "reserve = 0.0"), "sluice").0);
    for control in ["loss = 0.3", "jitter_us = 5000", "delay_us = 20000", "loss = 1.0"] {
        let text = format!("[control]\n{control}");
        let (jct, scheduler) = run(&fixed_mix(10, "0.25", &text, "reserve = 0.0"), "sluice");
        assert!(mean(&jct) < 1.3 * calm, "{control}: {jct:?} against {calm}");
        assert_eq!(counter(&scheduler, "control_lost") > 0.0, control.starts_with("loss"), "{control}");
    }
}

/// Looks at the orders of h0's flows while its daemon is dead.
struct Watch {
    inner: SluiceScheduler,
    capped: Vec<(f64, bool)>,
}

impl Scheduler for Watch {
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        self.inner.decide(world, changes, orders);
        let own = world.running.iter().flat_map(|job| world.flows_of(*job)).filter(|(_, flow)| flow.src == NodeIx(0));
        let capped = own.into_iter().any(|(ix, _)| orders.get(ix).cap.is_finite());
        self.capped.push((world.now.as_secs_f64(), capped));
    }
    fn wake(&self) -> Option<Nanos> {
        self.inner.wake()
    }
}

#[test]
fn the_flows_of_a_dead_daemon_coast_and_are_then_free() {
    let fault = "faults = [{ at_s = 1.03, kind = \"daemon-kill\", target = \"h0\", for_s = 1 }]";
    let scenario = two_rings(20, fault);
    let inner = SluiceScheduler::new(&scenario, &policy("sluice"));
    let mut watch = Watch { inner, capped: Vec::new() };
    let jct = Mini::new(&scenario).run(&mut watch, Nanos::from_millis(60_000));
    assert!(jct.iter().all(|jct| jct.is_finite()), "{jct:?}");
    let during = |from: f64, to: f64| watch.capped.iter().filter(move |(at, _)| (from..to).contains(at));
    assert!(during(0.5, 1.15).all(|(_, capped)| *capped), "orders live three slots");
    assert!(during(1.22, 2.0).all(|(_, capped)| !capped), "then nobody holds the flows");
    assert!(during(2.04, 3.0).all(|(_, capped)| *capped), "until the daemon is back");
    assert!(counter(&watch.inner, "orders_expired") > 0.0);
}

#[test]
fn a_restarted_switch_is_told_everything_again() {
    let (_, scheduler) = run(&with_fault("switch-restart", "s0", ", for_s = 0.5", "switch"), "sluice");
    assert_eq!(counter(&scheduler, "connections_lost"), 6.0);
    assert!(counter(&scheduler, "control_messages") > 0.0);
}
