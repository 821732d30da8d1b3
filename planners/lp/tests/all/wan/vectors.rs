//! The values of the method's page.

use super::{at_most, instance, near, quiet, vectors};
use serde_json::Value;
use sluice_planners_lp::wan::multiring::Options;
use sluice_planners_lp::wan::{Limits, lower_bound, nonconcurrent, rate_alloc, weight_gp};
use sluice_planners_wan::plan::Plan;
use sluice_planners_wan::{Instance, multiring, weights};

/// Solver objectives, values of geometric programs, schedules: relative.
const SOLVED: f64 = 1e-6;
const ITERATED: f64 = 1e-5;
const EXACT: f64 = 1e-9;

/// Runs `check` on every vector that has a value of a method.
fn all(method: &str, count: usize, check: impl Fn(&Instance, &Value, &str)) {
    let mut tried = 0;
    for vector in vectors() {
        let expected = &vector["expected"][method];
        if !expected.is_null() {
            let instance = instance(&vector);
            check(&instance, expected, &format!("{method} on {}", instance.name()));
            tried += 1;
        }
    }
    assert_eq!(tried, count, "{method}");
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn rates() {
    all("rate_alloc", 11, |instance, expected, what| {
        let found = rate_alloc(instance, &quiet()).expect("solved");
        near(found.objective, number(&expected["objective"]), SOLVED, what);
        near(weights::mean_time(instance, &found.rates), number(&expected["Tbar"]), SOLVED, what);
    });
}

#[test]
fn weights_of_groups() {
    all("weight_gp", 11, |instance, expected, what| {
        let found = weight_gp(instance, &quiet()).expect("solved");
        near(found.objective, number(&expected["objective"]), ITERATED, what);
        near(found.mean, number(&expected["Tbar"]), ITERATED, what);
        near(found.weights.iter().sum(), 1.0, EXACT, what);
    });
}

#[test]
fn orders_of_all_flows() {
    all("nonconcurrent_milp", 7, |instance, expected, what| {
        let found = nonconcurrent(instance, Limits::default(), &quiet()).expect("solved");
        near(found.mean, number(&expected["Tbar"]), EXACT, what);
        near(found.bound, number(&expected["bound"]), SOLVED, what);
        assert!(found.proved_optimal, "{what}");
        let played = Plan::Schedule(found.schedule).execute(instance).expect("executed");
        near(played.mean, found.mean, EXACT, what);
    });
}

#[test]
fn budgets_of_collectives() {
    all("multiring_inter", 11, |instance, expected, what| {
        let found = multiring::budgets(instance).expect("solved");
        near(found.objective, number(&expected["objective"]), SOLVED, what);
    });
}

#[test]
fn orders_within_budgets() {
    all("multiring_milp", 11, |instance, expected, what| {
        let found = sluice_planners_lp::wan::multiring(instance, Options::default(), &quiet()).expect("solved");
        let value = number(&expected["Tbar"]);
        if expected["proved_optimal"] == Value::Bool(true) {
            near(found.mean, value, SOLVED, what);
        } else {
            at_most(found.mean, value, SOLVED, what);
        }
        at_most(number(&expected["bound"]), found.mean, SOLVED, what);
        at_most(found.bound(), found.mean, EXACT, what);
        let played = Plan::Schedule(found.plan.schedule).execute(instance).expect("executed");
        near(played.mean, found.mean, EXACT, what);
    });
}

#[test]
fn bounds() {
    all("lower_bound", 11, |instance, expected, what| {
        let found = lower_bound(instance, &quiet()).expect("solved");
        near(found.value, number(&expected["value"]), EXACT, what);
    });
}
