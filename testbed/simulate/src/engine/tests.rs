//! The engine under two tiny schedulers, against what can be worked out by hand and against the public vectors.

mod properties;
mod vectors;
mod ways;

use std::path::Path;

use sluice_scenario::{Notation, Scenario};

use super::run_with;
use crate::{Change, FlowIx, JobIx, Needs, Order, Orders, Outcome, Scheduler, SimError, Watch, World};

pub(super) struct Equal;

impl Scheduler for Equal {
    fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
    fn needs(&self) -> Needs {
        Needs::CHANGES
    }
}

/// Strict priority by a list of job ids; those not named last.
pub(super) struct Strict(pub(super) Vec<String>);

impl Scheduler for Strict {
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for change in changes {
            let Change::JobStarted(JobIx(job)) = *change else { continue };
            let id = world.scenario.jobs.get(job).map(|j| &j.id);
            let place = self.0.iter().position(|n| Some(n) == id).unwrap_or(self.0.len());
            for (flow, _) in world.flows_of(JobIx(job)) {
                orders.set(flow, Order { class: place as u32 + 1, ..Order::default() });
            }
        }
    }
    fn needs(&self) -> Needs {
        Needs::PROGRESS
    }
}

struct Never;

impl Scheduler for Never {
    fn decide(&mut self, world: &World<'_>, _: &[Change], orders: &mut Orders) {
        for i in 0..world.flows.len() {
            orders.set(FlowIx(i), Order { cap: 0.0, ..Order::default() });
        }
    }
}

pub(super) fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, Notation::Toml, "t.toml", Path::new(".")).unwrap_or_else(|e| panic!("{e}"))
}

pub(super) fn fair(scenario: &Scenario) -> Outcome {
    go(scenario, &mut Equal).unwrap_or_else(|e| panic!("{e}"))
}

pub(super) fn go(scenario: &Scenario, scheduler: &mut dyn Scheduler) -> Result<Outcome, SimError> {
    run_with(scenario, scheduler, &Watch::default(), false)
}

/// Seconds from arrival to end of each job.
pub(super) fn jct(outcome: &Outcome) -> Vec<f64> {
    outcome.jobs.iter().map(|j| j.ended.map_or(f64::NAN, |e| e.minus(j.arrival).as_secs_f64())).collect()
}

const TWO_RINGS: &str = "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n[placement]\npolicy = \"spread\"\n";

fn ring(id: &str, gb: u64, compute: &str, iterations: u32) -> String {
    format!(
        "[[jobs]]\nid = \"{id}\"\nbytes = {gb}000000000\ncompute_s = \"{compute}\"\narch = \"ring\"\nworkers = 2\niterations = {iterations}\n"
    )
}

#[test]
fn a_scheduler_that_gives_nothing_is_a_stall() {
    let s = scenario(&format!("{TWO_RINGS}{}", ring("a", 1, "1", 1)));
    let e = go(&s, &mut Never).expect_err("nothing moves");
    assert_eq!(e.exit_status(), 3);
    assert!(e.to_string().contains("E_STALL") && e.to_string().contains("jobs a"), "{e}");
}

#[test]
fn limits_ends_and_cancelling() {
    let all = fair(&scenario(&format!("{TWO_RINGS}{}", ring("a", 1, "1", 9)))).events;
    let at_most = |n: u64| scenario(&format!("{TWO_RINGS}{}[time]\nmax_events = {n}\n", ring("a", 1, "1", 9)));
    assert_eq!(fair(&at_most(all)).events, all, "so many may be handled");
    for n in [1, 10, all - 3] {
        let e = go(&at_most(n), &mut Equal).expect_err("more than that");
        // What belongs to one instant is handled together: here the end of compute and two flows at most.
        assert!(matches!(e, SimError::Events { events, .. } if events > n && events <= n + 3), "{n}: {e}");
        assert!(e.to_string().contains("E_LIMIT") && e.to_string().contains("time.max_events"), "{e}");
        assert_eq!(e.exit_status(), 2);
    }
    let s = scenario(&format!("{TWO_RINGS}{}[time]\nend_s = 2.25\n", ring("a", 1, "1", 9)));
    let o = fair(&s);
    assert_eq!((o.jobs[0].ended, o.jobs[0].rounds.len(), o.end.0), (None, 1, 2_250_000_000));
    assert_eq!(o.links[0].bytes, 1e9, "a second round has only begun to compute");
    let watch = Watch::default();
    watch.cancel();
    let s = scenario(&format!("{TWO_RINGS}{}", ring("a", 1, "1", 9)));
    assert!(matches!(run_with(&s, &mut Equal, &watch, false), Err(SimError::Cancelled { .. })));
}

/// `fixed-mix` of the specification: mean job completion time, exact to the digits it gives.
#[test]
fn the_fixed_mix_is_exact() {
    let mix = |gbps: u32, scale: &str, dependency: &str| {
        let job = |id: &str, arch: &str, bytes: u64, iterations: u32, compute: &str, placement: &str| {
            format!(
                "[[jobs]]\nid = \"{id}\"\narch = \"{arch}\"\nbytes = {bytes}000000\ncompute_s = {compute}\niterations = {iterations}\nplacement = {{{placement}}}\n"
            )
        };
        let jobs = [
            job("vgg19", "ring", 576, 8, "0.6", "workers = [\"h0\", \"h1\", \"h2\"]"),
            job("vgg16", "ps", 552, 8, "0.52", "workers = [\"h3\", \"h4\"], servers = [\"h0\", \"h5\"]"),
            job("resnet50", "ps", 102, 16, "0.3", "workers = [\"h1\", \"h2\"], servers = [\"h3\", \"h5\"]"),
            job("gpt2", "ring", 1200, 4, "1.6", "workers = [\"h0\", \"h4\", \"h5\"]"),
        ];
        scenario(&format!(
            "version = 1\nname = \"m\"\n[network]\nkind = \"star\"\nhosts = 6\ngpus = 8\ngbps = {gbps}\n[defaults]\ncompute_scale = {scale}\ndependency = \"{dependency}\"\n{}",
            jobs.concat()
        ))
    };
    let mean = |o: &Outcome| jct(o).iter().sum::<f64>() / 4.0;
    let near = |got: f64, want: f64| assert!((got - want).abs() < 0.0006, "{got} for {want}");
    for (gbps, scale, equal, after, order) in [
        (10, "0.25", 9.897, 12.441, 8.685),
        (10, "1", 12.291, 14.163, 11.571),
        (25, "0.25", 4.339, 5.229, 4.061),
        (25, "1", 7.264, 8.080, 7.142),
    ] {
        let s = mix(gbps, scale, "pipelined");
        let all = fair(&s);
        near(mean(&all), equal);
        near(mean(&fair(&mix(gbps, scale, "start-after"))), after);
        let best = ["resnet50", "vgg16", "vgg19", "gpt2"].map(str::to_owned).to_vec();
        near(mean(&go(&s, &mut Strict(best)).unwrap_or_else(|e| panic!("{e}"))), order);
        if (gbps, scale) == (10, "0.25") {
            for (job, (together, alone)) in
                all.jobs.iter().zip([(13.338, 6.115), (8.049, 4.573), (4.196, 2.506), (14.003, 6.720)])
            {
                near(job.ended.unwrap_or_default().as_secs_f64(), together);
                near(job.isolated_run.as_secs_f64(), alone);
            }
        }
    }
}
