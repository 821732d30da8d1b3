//! Searching for orders: against all orders one by one, against greedy schedules, and that what is played is what is
//! said.

use super::{at_most, brute, generated, near, quiet, small};
use sluice_planners_lp::wan::{Limits, Nonconcurrent, nonconcurrent};
use sluice_planners_wan::greedy::{self, Key};
use sluice_planners_wan::plan::Plan;
use sluice_planners_wan::{Flow, Instance};
use std::time::Duration;

/// An end that is the same on every machine.
const NODES: Limits = Limits { gap: 1e-9, time: None, nodes: Some(2_000) };

fn solved(instance: &Instance, limits: Limits) -> Nonconcurrent {
    let found = nonconcurrent(instance, limits, &quiet()).expect("solved");
    let what = instance.name();
    for key in Key::ALL {
        let greedy = Plan::Schedule(greedy::nonconcurrent(instance, key)).execute(instance).expect("executed");
        at_most(found.mean, greedy.mean, 1e-9, what);
    }
    at_most(found.bound, found.mean, 0.0, what);
    let played = Plan::Schedule(found.schedule.clone()).execute(instance).expect("executed");
    near(played.mean, found.mean, 1e-9, what);
    found
}

/// P13.
#[test]
fn nothing_is_better_than_all_orders_one_by_one() {
    let mut tried = 0;
    for instance in small() {
        let pairs = brute::pairs(&instance);
        let found = solved(&instance, NODES);
        assert!(found.proved_optimal, "{}", instance.name());
        if pairs.len() <= 14 {
            near(found.mean, brute::best(&instance, &pairs), 1e-9, instance.name());
            tried += 1;
        }
    }
    assert!(tried >= 12, "{tried} instances have few pairs");
}

#[test]
fn two_rings_of_three_are_proved_within_a_few_hundred_branches() {
    for seed in 1..=10 {
        let instance = generated("Arpanet196912", 2, 3, seed);
        assert!(brute::pairs(&instance).len() >= 62);
        assert!(solved(&instance, NODES).proved_optimal, "{}", instance.name());
    }
}

#[test]
fn a_search_that_ends_early_has_a_schedule_and_a_bound() {
    let instance = generated("Abilene", 4, 4, 1);
    let found = solved(&instance, Limits { nodes: Some(500), ..NODES });
    assert!(!found.proved_optimal && found.bound > 0.5 * found.mean);
    assert_eq!(
        found,
        solved(&instance, Limits { nodes: Some(500), ..NODES }),
        "the same for the same number of branches"
    );
    let late = solved(&instance, Limits { time: Some(Duration::ZERO), ..NODES });
    assert!(!late.proved_optimal && late.nodes == 0);
}

#[test]
fn releases_are_waited_for() {
    let instance = generated("Arpanet196912", 1, 3, 1);
    let flows: Vec<Flow> = instance.flows().iter().map(|flow| Flow { release: 2.0, ..flow.clone() }).collect();
    let later = Instance::new("later", instance.nodes(), instance.links().to_vec(), flows, None).expect("an instance");
    let (now, later) = (solved(&instance, NODES), solved(&later, NODES));
    near(later.mean, now.mean + 2.0, 1e-9, "all flows two seconds later");
}

#[test]
fn dependencies_need_not_be_chains() {
    let instance = generated("Arpanet196912", 2, 2, 2);
    let count = instance.flows().len();
    let deps: Vec<(usize, usize)> = instance.dependencies().chain([(0, count - 1)]).collect();
    let named =
        Instance::new("named", instance.nodes(), instance.links().to_vec(), instance.flows().to_vec(), Some(deps));
    let named = named.expect("an instance");
    let found = solved(&named, NODES);
    let starts = &found.schedule.starts;
    assert!(starts[count - 1] >= starts[0] + named.duration(0) - 1e-12);
    let pairs: Vec<(usize, usize)> = brute::pairs(&named);
    near(found.mean, brute::best(&named, &pairs), 1e-9, "against all orders");
}
