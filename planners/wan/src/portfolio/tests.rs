//! What the portfolio promises: never worse than what it was given, the same every time, and stoppable.

use sluice_planners::Run;

use super::*;
use crate::generate::Workload;
use crate::graph::Graph;
use crate::instance::{Flow, Link};
use crate::method::{self, Best, Options};
use crate::plan::Execution;

fn portfolio(instance: &Instance) -> Best {
    method::best(instance, &Options::default(), None, &Run::quiet(1)).expect("a plan")
}

fn instance(strict_steps: bool) -> Instance {
    let graph = Graph::ring(5).expect("a ring");
    let workload = Workload { participants: 3, strict_steps, ..Workload::new(&graph, 3, 3) };
    workload.generate().expect("generated")
}

#[test]
fn it_is_the_best_of_its_table_and_the_same_every_time() {
    let instance = instance(false);
    let choice = portfolio(&instance);
    for judged in &choice.table {
        let mean = judged.mean.as_ref().expect("every method has a plan for chains");
        assert!(choice.outcome.mean <= *mean, "{}", judged.name);
    }
    assert_eq!(choice.plan.execute(&instance).expect("played"), choice.outcome);
    assert_eq!(choice, portfolio(&instance));
    let names: Vec<&str> = choice.table.iter().map(|judged| &*judged.name).collect();
    for name in ["equal_alloc_wc", "weight_sca_wc", "barrier_step", "perm", "chain_order"] {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn methods_for_chains_say_why_they_have_nothing_and_the_others_go_on() {
    let choice = portfolio(&instance(true));
    let mean = |name: &str| choice.table.iter().find(|judged| judged.name == name).map(|judged| &judged.mean);
    for name in ["equal_alloc", "data_aware", "weight_sca", "barrier_aware", "chain_order"] {
        let refused = mean(name).and_then(|mean| mean.as_ref().err()).expect("refused");
        assert_eq!(refused.code(), "NotAChain", "{name}");
    }
    for name in ["out_of_order", "multiring_ldv", "nonconcurrent_spt", "equal_wc", "prio", "perm"] {
        assert!(mean(name).is_some_and(Result::is_ok), "{name}");
    }
}

/// The instance on which strict priority loses: 0→1 at 10 and 1→2 at 1 MB/s, 5 MB over both and 20 MB over the first.
#[test]
fn the_first_of_equal_ones_wins() {
    let links = vec![Link { from: 0, to: 1, capacity: 10.0 }, Link { from: 1, to: 2, capacity: 1.0 }];
    let flow =
        |collective, to, size, path| Flow { collective, group: 0, order: 0, from: 0, to, size, path, release: 0.0 };
    let flows = vec![flow(0, 2, 5.0, vec![0, 1]), flow(1, 1, 20.0, vec![0])];
    let instance = Instance::new("thin-fat", 3, links, flows, None).expect("legal");
    let plan = Plan::Rates { rates: vec![1.0, 9.0], execution: Execution::Static };
    let candidates = [
        Candidate::new("rate_alloc", Ok(plan.clone())),
        Candidate::new("weight_gp", Err(Refusal::Solver { status: "none".into(), iterations: 0, gap: 0.0 })),
        Candidate::new("prio", Ok(Plan::PriorityRecomputed)),
        Candidate::new("again", Ok(plan.clone())),
    ];
    let choice = best(&instance, candidates, &mut || false).expect("a plan");
    assert_eq!((&*choice.name, &choice.plan), ("rate_alloc", &plan), "of equal ones the first");
    assert!((choice.outcome.mean - 65.0 / 18.0).abs() < 1e-12);
    assert_eq!(
        choice.table.iter().map(|judged| &*judged.name).take(3).collect::<Vec<_>>(),
        ["rate_alloc", "rate_wc", "weight_gp"]
    );
}

#[test]
fn a_plan_that_cannot_be_played_does_no_harm() {
    let instance = instance(false);
    let rates = vec![1e9; instance.flows().len()];
    let bad = Candidate::new("greedy", Ok(Plan::Rates { rates, execution: Execution::Static }));
    assert_eq!(best(&instance, [bad.clone()], &mut || false).expect_err("nothing else").code(), "Capacity");
    let good = Candidate::new("fair", Ok(Plan::Fair));
    assert_eq!(best(&instance, [bad, good], &mut || false).expect("a plan").name, "fair");
    assert_eq!(best(&instance, [], &mut || false).expect_err("nothing").code(), "Empty");
}

#[test]
fn it_stops_with_the_best_so_far() {
    let instance = instance(false);
    let candidates = || vec![Candidate::new("equal_wc", Ok(Plan::Fair)); 20];
    assert_eq!(best(&instance, candidates(), &mut || true).expect_err("nothing yet"), Refusal::Stopped);
    let mut asked = 0;
    let choice = best(&instance, candidates(), &mut || {
        asked += 1;
        asked > 10
    });
    assert!(choice.expect("what was played until then").table.len() < 15);
}
