use super::*;
use crate::bound;
use crate::generate::{Sizes, Workload};
use crate::graph::Graph;
use crate::import;
use crate::method::{Method, Options, propose};
use sluice_planners::Run;

/// The plan of every method that needs no solver, on generated instances, passes the checker.
#[test]
fn every_light_plan_passes_the_checker() {
    let graph = Graph::ring(7).expect("a ring");
    for (sizes, collectives, participants, seed) in [
        (Sizes::IidFlow, 3, 4, 1),
        (Sizes::PerGroup, 2, 3, 2),
        (Sizes::PerCollective, 2, 5, 3),
        (Sizes::IidFlow, 2, 2, 4),
    ] {
        let workload = Workload { participants, sizes, ..Workload::new(&graph, collectives, seed) };
        let instance = workload.generate().expect("an instance");
        let text = crate::form::write(&instance);
        let (topology, wanted) = import::read(text.as_bytes(), "i.json").expect("read");
        let task = Task::new(&topology, &wanted, &[], "i.json").expect("a task");
        assert_eq!(task.instance, instance, "the form keeps every bit");
        let bound = bound::of_each(&instance);
        for method in Method::ALL.iter().filter(|method| !method.needs_solver() && **method != Method::Portfolio) {
            for execution in [None, Some(Execution::WorkConserving)] {
                let options = Options { execution, ..Options::default() };
                let plan = propose(*method, &instance, &options, None, &Run::quiet(1)).expect("a plan").plan;
                let outcome = plan.execute(&instance).expect("played");
                let made = make(&task, &plan, &outcome, &bound, false);
                let made = made.unwrap_or_else(|problems| panic!("{} with {sizes:?}: {problems}", method.word()));
                assert!(outcome.mean >= bound.value * (1.0 - 1e-9), "{}", method.word());
                assert!(made.status != Status::TimeLimit);
                // Written, read and checked again.
                let text = made.plan.to_text();
                let again = plan::Plan::read(text.as_bytes(), "p.json").expect("read");
                assert!(sluice_plan::check::check(&again, None).ok(), "{}", method.word());
            }
        }
    }
}

#[test]
fn a_plan_that_hangs_on_the_last_digit_claims_what_the_checker_finds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/Kdl.graphml");
    let graph = Graph::graphml(&std::fs::read(path).expect("the graph is there"), path).expect("a graph");
    let instance = Workload { participants: 8, ..Workload::new(&graph, 16, 1) }.generate().expect("an instance");
    let (topology, wanted) = import::read(crate::form::write(&instance).as_bytes(), "i.json").expect("read");
    let task = Task::new(&topology, &wanted, &[], "i.json").expect("a task");
    let outcome = Plan::PriorityRecomputed.execute(&instance).expect("played");
    let bound = bound::of_each(&instance);
    let made = make(&task, &Plan::PriorityRecomputed, &outcome, &bound, false).expect("a plan");
    assert!(!made.has_times && made.plan.body.claim.t.is_none(), "flows end at rates of 1e-7 of what they have alone");
    assert!((made.mean / outcome.mean - 1.0).abs() < 0.05, "{} {}", made.mean, outcome.mean);
    assert!(check::check(&made.plan, None).ok());
}

#[test]
fn floats_are_written_as_they_are() {
    for number in [0.1, 1.0 / 3.0, 6.414_213_562_373_095, 1e-7, 123_456_789.123] {
        let text = Decimal::from(&exactly(number).expect("a number"));
        assert_eq!(crate::from_topology::nearest(&text.value()), number);
        assert_eq!(rate(number).expect("a rate").text(), format!("{number}MB/s"));
    }
    assert!(exactly(f64::NAN).is_none() && rate(f64::INFINITY).is_none());
}
