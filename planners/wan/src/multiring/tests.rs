//! Options and refusals of MultiRing; its figures and bounds stand in the conformance vectors and the properties.

use super::*;
use crate::generate::Workload;
use crate::graph::Graph;
use crate::plan::Plan;

fn instance() -> Instance {
    let graph = Graph::ring(6).expect("a ring");
    Workload::new(&graph, 4, 3).generate().expect("generated")
}

#[test]
fn the_best_order_of_each_collective_is_kept() {
    let instance = instance();
    let best = plan(&instance, Options::default()).expect("planned");
    for key in Key::ALL {
        let one = plan(&instance, Options { intra: Intra::Greedy(key), per_link_budget: false }).expect("planned");
        assert_eq!(one.budgets, best.budgets);
        assert!(one.t.iter().zip(&best.t).all(|(one, best)| best <= one));
    }
}

#[test]
fn per_link_budgets_are_never_below_the_budget() {
    let instance = instance();
    let budgets = budgets(&instance).expect("solved").x;
    let (plain, more) = (rates(&instance, &budgets, false), rates(&instance, &budgets, true));
    assert!(plain.iter().zip(&more).all(|(plain, more)| plain <= more));
    assert!(plain.iter().zip(&more).any(|(plain, more)| plain * 1.01 < *more));
    let options = Options { per_link_budget: true, ..Options::default() };
    let schedule = plan(&instance, options).expect("planned").schedule;
    Plan::Schedule(schedule).execute(&instance).expect("no link is overloaded");
}

#[test]
fn orders_may_be_brought() {
    let instance = instance();
    let found = plan(&instance, Options::default()).expect("planned");
    let starts = found.schedule.starts.clone();
    let again = with_starts(&instance, found.budgets.clone(), false, starts.clone()).expect("the same");
    assert_eq!(again, found);
    let code = |budgets, starts| with_starts(&instance, budgets, false, starts).expect_err("refused").code();
    assert_eq!(code(vec![1.0], starts.clone()), "BadWeight");
    assert_eq!(code(vec![1.0, 0.0, 1.0, 1.0], starts.clone()), "Capacity");
    assert_eq!(code(vec![1.0; 4], vec![0.0]), "BadWeight");
    assert_eq!(code(vec![1.0; 4], vec![f64::NAN; starts.len()]), "BadSize");
}

#[test]
fn budgets_of_hundreds_of_collectives_are_found_without_exact_steps() {
    let graph = Graph::ring(6).expect("a ring");
    let instance = Workload { participants: 2, ..Workload::new(&graph, 400, 3) }.generate().expect("generated");
    assert!(budgets(&instance).expect("solved").residual <= 1e-9);
}
