use super::*;
use crate::generate::Workload;
use crate::graph::Graph;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

fn instance() -> Instance {
    let ring = Graph::ring(6).expect("a ring");
    Workload { participants: 3, ..Workload::new(&ring, 3, 1) }.generate().expect("an instance")
}

#[test]
fn words_and_methods_go_both_ways() {
    assert_eq!(Method::ALL.len(), 22);
    for method in Method::ALL {
        assert_eq!(Method::parse(method.word()), Some(*method));
    }
}

#[test]
fn what_needs_a_solver_says_so_without_one() {
    let (instance, run) = (instance(), Run::quiet(1));
    for method in Method::ALL {
        let found = propose(*method, &instance, &Options::default(), None, &run);
        match method.needs_solver() {
            true => assert_eq!(found.expect_err("no solver").code(), "Solver", "{}", method.word()),
            false => {
                let outcome = found.expect("a plan").plan.execute(&instance).expect("played");
                assert!(outcome.mean > 0.0, "{}", method.word());
            }
        }
    }
}

#[test]
fn the_portfolio_is_no_worse_than_any_of_its_methods() {
    let (instance, options, run) = (instance(), Options::default(), Run::quiet(1));
    let best = best(&instance, &options, None, &run).expect("a plan");
    assert!(!best.is_late && best.table.iter().any(|judged| judged.name == best.name), "{:?}", best.table);
    for method in Method::ALL.iter().filter(|method| !method.needs_solver()) {
        let plan = propose(*method, &instance, &options, None, &run).expect("a plan").plan;
        let mean = plan.execute(&instance).expect("played").mean;
        assert!(best.outcome.mean <= mean * (1.0 + 1e-9), "{}: {mean}, {}", method.word(), best.outcome.mean);
    }
    let names: Vec<&str> = best.table.iter().map(|judged| judged.name.as_str()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len(), "{names:?}");
}

#[test]
fn late_is_the_best_until_then_and_called_off_is_an_end() {
    let (instance, options) = (instance(), Options::default());
    let late = Run { deadline: Some(Instant::now()), ..Run::quiet(1) };
    let found = best(&instance, &options, None, &late).expect("the first");
    assert!(found.is_late && found.table.len() <= 2, "{:?}", found.table);
    let cancel = AtomicBool::new(true);
    let off = Run { cancel: &cancel, ..Run::quiet(1) };
    assert_eq!(best(&instance, &options, None, &off), Err(Refusal::Stopped));
}

#[test]
fn executions_are_of_rates_and_weights_alone() {
    let (instance, run) = (instance(), Run::quiet(1));
    let options = Options { execution: Some(Execution::WorkConserving), ..Options::default() };
    for method in Method::ALL.iter().filter(|method| !method.needs_solver() && **method != Method::Portfolio) {
        let plan = propose(*method, &instance, &options, None, &run).expect("a plan").plan;
        let filled = matches!(plan, Plan::Rates { execution, .. } | Plan::Weights { execution, .. } if execution == Execution::WorkConserving);
        assert_eq!(filled, method.has_execution(), "{}", method.word());
    }
}
