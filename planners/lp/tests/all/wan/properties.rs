//! The properties of section 15 that solvers have a part in, on the instances of the page and on random ones.

use super::{at_most, generated, instance, near, quiet, small, vectors, widened};
use sluice_planners_lp::wan::claim::{self, Claim, Priced};
use sluice_planners_lp::wan::{Limits, lower_bound, nonconcurrent, rate_alloc, weight_gp};
use sluice_planners_wan::baseline::{self, Scope};
use sluice_planners_wan::greedy::{self, Key};
use sluice_planners_wan::plan::{Execution, Plan};
use sluice_planners_wan::random::Random;
use sluice_planners_wan::sca::{self, Reading};
use sluice_planners_wan::{Instance, multiring, perm, weights};

const SLACK: f64 = 1e-6;
const LIMITS: Limits = Limits { gap: 1e-9, time: None, nodes: Some(300) };

/// The page's instances, small ones, and some of the sweep.
fn all() -> impl Iterator<Item = Instance> {
    let sweep =
        [("Abilene", 5, 4, 2), ("Abilene", 8, 4, 1), ("Napnet", 4, 4, 3), ("Cesnet1993", 3, 5, 1), ("ring8", 3, 6, 4)];
    let sweep = sweep.into_iter().map(|(topology, k, n, seed)| generated(topology, k, n, seed));
    vectors().into_iter().map(|vector| instance(&vector)).chain(small()).chain(sweep)
}

fn fixed(rates: Vec<f64>) -> Plan {
    Plan::Rates { rates, execution: Execution::Static }
}

fn played(instance: &Instance, plan: &Plan) -> f64 {
    plan.execute(instance).expect("executed").mean
}

/// P5, and that the capacities hold.
#[test]
fn what_is_played_is_what_the_solvers_say() {
    for instance in all() {
        let rates = rate_alloc(&instance, &quiet()).expect("solved");
        near(played(&instance, &fixed(rates.rates.clone())), rates.objective, SLACK, instance.name());
        near(weights::mean_time(&instance, &rates.rates), rates.objective, SLACK, instance.name());
        for (index, link) in instance.links().iter().enumerate() {
            let largest = |group: &usize| {
                let on = instance.flows_on(index).iter().filter(|flow| instance.group_of(**flow) == *group);
                on.map(|flow| rates.rates[*flow]).fold(0.0, f64::max)
            };
            let load: f64 = instance.groups_on(index).iter().map(largest).sum();
            at_most(load, link.capacity, 1e-14, instance.name());
        }
        let gp = weight_gp(&instance, &quiet()).expect("solved");
        near(played(&instance, &fixed(gp.rates)), gp.objective, 1e-5, instance.name());
    }
}

/// P6, P7 and P12.
#[test]
fn methods_stand_in_their_order() {
    for instance in all() {
        let what = instance.name();
        let rate = played(&instance, &fixed(rate_alloc(&instance, &quiet()).expect("solved").rates));
        let gp = played(&instance, &fixed(weight_gp(&instance, &quiet()).expect("solved").rates));
        let bound = lower_bound(&instance, &quiet()).expect("solved").value;
        at_most(rate, gp, SLACK, what);
        let unaware = played(&instance, &fixed(baseline::out_of_order(&instance)));
        at_most(rate, unaware, SLACK, what);
        let barrier = Plan::Barriers(baseline::barrier_aware(&instance, Scope::Collective).expect("chains"));
        at_most(rate, played(&instance, &barrier), SLACK, what);
        let mut by_weight = vec![
            played(&instance, &fixed(baseline::equal(&instance).expect("chains"))),
            played(&instance, &fixed(baseline::data_aware(&instance).expect("chains"))),
        ];
        for reading in [Reading::Capacity, Reading::Simplex] {
            let options = sca::Options { reading, ..sca::Options::default() };
            by_weight.push(sca::run(&instance, options, &mut || false).expect("solved").mean);
        }
        for value in by_weight {
            at_most(rate, value, SLACK, what);
            at_most(gp, value, SLACK, what);
        }
        let ordered = nonconcurrent(&instance, LIMITS, &quiet()).expect("solved");
        at_most(ordered.bound, ordered.mean, 0.0, what);
        let mut others = vec![rate, gp, unaware, ordered.mean, ordered.bound];
        for scope in [Scope::Collective, Scope::Stage, Scope::Step] {
            let barriers = baseline::barrier_aware(&instance, scope).expect("chains");
            others.push(played(&instance, &Plan::Barriers(barriers)));
        }
        for key in Key::ALL {
            others.push(played(&instance, &Plan::Schedule(greedy::nonconcurrent(&instance, key))));
        }
        others.push(perm::search(&instance, &mut || false).expect("found").outcome.mean);
        others.push(played(&instance, &Plan::Fair));
        others.push(played(&instance, &Plan::PriorityRecomputed));
        for per_link_budget in [false, true] {
            let options = multiring::Options { per_link_budget, ..multiring::Options::default() };
            others.push(played(
                &instance,
                &Plan::Schedule(multiring::plan(&instance, options).expect("planned").schedule),
            ));
        }
        let rates = rate_alloc(&instance, &quiet()).expect("solved").rates;
        others.push(played(&instance, &Plan::Rates { rates, execution: Execution::WorkConserving }));
        for value in others {
            at_most(bound, value, SLACK, what);
        }
    }
}

/// P11 for the best orders: no earlier than the longest chain and the fullest link, no later than one flow after the
/// other.
#[test]
fn collectives_keep_to_their_budgets() {
    for instance in all() {
        let options = sluice_planners_lp::wan::multiring::Options { limits: LIMITS, ..Default::default() };
        let found = sluice_planners_lp::wan::multiring(&instance, options, &quiet()).expect("planned");
        for collective in 0..instance.collectives() {
            let t = found.plan.t[collective];
            at_most(found.plan.bounds[collective], t, 1e-9, instance.name());
            at_most(found.plan.bounds[collective], found.bounds[collective], 1e-9, instance.name());
            at_most(t, instance.volume_of(collective) / found.plan.budgets[collective], 1e-9, instance.name());
        }
        let greedy = multiring::plan(&instance, multiring::Options::default()).expect("planned");
        let greedy = greedy.t.iter().sum::<f64>() / greedy.t.len() as f64;
        at_most(found.mean, greedy, 1e-9, instance.name());
    }
}

/// P15.
#[test]
fn more_capacity_is_never_worse() {
    for (index, vector) in vectors().iter().enumerate() {
        let instance = instance(vector);
        let every = if instance.flows().len() > 50 { 9 } else { 1 };
        raised(&instance, (index..instance.links().len()).step_by(every));
    }
    small().step_by(5).for_each(|instance| raised(&instance, 0..instance.links().len()));
}

fn raised(instance: &Instance, links: impl Iterator<Item = usize>) {
    let rate = |instance: &Instance| rate_alloc(instance, &quiet()).expect("solved").objective;
    let gp = |instance: &Instance| weight_gp(instance, &quiet()).expect("solved").mean;
    let order = |instance: &Instance| nonconcurrent(instance, LIMITS, &quiet()).expect("solved");
    let (by_rate, by_gp, by_order) = (rate(instance), gp(instance), order(instance));
    for link in links {
        for factor in [1.1, 3.0] {
            let wider = widened(instance, link, factor);
            let what = format!("{}, link {link} times {factor}", instance.name());
            at_most(rate(&wider), by_rate, SLACK, &what);
            at_most(gp(&wider), by_gp, SLACK, &what);
            let found = order(&wider);
            if found.proved_optimal && by_order.proved_optimal {
                at_most(found.mean, by_order.mean, 3e-9, &what);
            }
            at_most(found.bound, by_order.mean, 3e-9, &what);
        }
    }
}

/// Every subset of every link's collectives is satisfied, and the prices alone prove the value.
#[test]
fn bounds_are_those_of_all_subsets_and_prove_themselves() {
    for instance in all().filter(|instance| instance.collectives() <= 8) {
        let found = lower_bound(&instance, &quiet()).expect("solved");
        let mean = found.times.iter().sum::<f64>() / found.times.len() as f64;
        near(found.value, mean, 1e-8, instance.name());
        near(claim::proved(&instance, &found.prices).expect("a proof"), found.value, 1e-12, instance.name());
        for link in 0..instance.links().len() {
            for subset in 1_u32..1 << instance.collectives() {
                let collectives = (0..instance.collectives()).filter(|k| subset >> k & 1 == 1).collect();
                if let Some(row) = (Claim::Link { link, collectives }).row(&instance) {
                    let sum: f64 = row.terms.iter().map(|term| term.factor * found.times[term.collective]).sum();
                    at_most(row.least, sum, 1e-7, instance.name());
                }
            }
        }
    }
}

#[test]
fn prices_that_prove_nothing_are_told() {
    let instance = generated("Arpanet196912", 2, 2, 2);
    let found = lower_bound(&instance, &quiet()).expect("solved");
    let claim = found.prices[0].claim.clone();
    let of = |price: f64| claim::proved(&instance, &[Priced { claim: claim.clone(), price }]);
    assert_eq!(of(-1.0), None);
    assert_eq!(of(f64::NAN), None);
    // Too high a price proves no more than the highest that is allowed.
    near(of(1e6).expect("lowered"), of(1e3).expect("lowered"), 1e-12, "lowered");
    let no_chain = Claim::Chain { flows: vec![0, 0] };
    assert_eq!(claim::proved(&instance, &[Priced { claim: no_chain, price: 1.0 }]), None);
    let no_link = Claim::Link { link: 99, collectives: vec![0] };
    assert_eq!(claim::proved(&instance, &[Priced { claim: no_link, price: 1.0 }]), None);
}

/// P14 for the solvers.
#[test]
fn sizes_and_capacities_scale_times() {
    for instance in vectors().iter().map(instance).filter(|instance| instance.flows().len() <= 48) {
        for factor in [1e-3, 1e6] {
            let mut flows = instance.flows().to_vec();
            flows.iter_mut().for_each(|flow| flow.size *= factor);
            let scaled = Instance::new("scaled", instance.nodes(), instance.links().to_vec(), flows, None);
            let scaled = scaled.expect("an instance");
            let rate = |instance: &Instance| rate_alloc(instance, &quiet()).expect("solved").objective;
            near(rate(&scaled), factor * rate(&instance), SLACK, instance.name());
            let gp = |instance: &Instance| weight_gp(instance, &quiet()).expect("solved").mean;
            near(gp(&scaled), factor * gp(&instance), 1e-5, instance.name());
            let bound = |instance: &Instance| lower_bound(instance, &quiet()).expect("solved").value;
            near(bound(&scaled), factor * bound(&instance), 1e-8, instance.name());
            let order = |instance: &Instance| nonconcurrent(instance, LIMITS, &quiet()).expect("solved").mean;
            near(order(&scaled), factor * order(&instance), 1e-8, instance.name());
        }
    }
}

/// Eight orders of magnitude between sizes, and between capacities: within what is not refused as `Range`.
#[test]
fn sizes_and_capacities_may_be_far_apart() {
    for orders in [2.0, 5.0, 8.0] {
        let mut random = Random::new(5);
        for seed in 0..40 {
            let name = format!("ring{}", 3 + seed % 6);
            let instance = generated(&name, 1 + seed % 4, 2 + seed % 2, seed as u64);
            let (mut links, mut flows) = (instance.links().to_vec(), instance.flows().to_vec());
            let mut drawn = || 10_f64.powf((random.unit() - 0.5) * orders);
            links.iter_mut().for_each(|link| link.capacity = drawn());
            flows.iter_mut().for_each(|flow| flow.size = drawn());
            let instance = Instance::new(name, instance.nodes(), links, flows, None).expect("an instance");
            let what = format!("{} of seed {seed}, {orders} orders", instance.name());
            let rate = rate_alloc(&instance, &quiet()).expect(&what);
            near(played(&instance, &fixed(rate.rates)), rate.objective, SLACK, &what);
            let gp = weight_gp(&instance, &quiet()).expect(&what);
            near(gp.mean, gp.objective, 1e-5, &what);
            at_most(rate.mean, gp.mean, SLACK, &what);
            let data = baseline::data_aware(&instance).expect("chains");
            at_most(gp.mean, played(&instance, &fixed(data)), SLACK, &what);
            let bound = lower_bound(&instance, &quiet()).expect(&what).value;
            at_most(bound, rate.mean, SLACK, &what);
            let order = nonconcurrent(&instance, LIMITS, &quiet()).expect(&what);
            at_most(bound, order.mean, SLACK, &what);
        }
    }
}
