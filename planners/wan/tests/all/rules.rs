//! The rate rules against slow ones that follow the page word by word, and hostile input to all methods.

use super::common;
use super::common::{between, near, permutation};
use proptest::prelude::*;
use sluice_planners::Run;
use sluice_planners_wan::baseline::{self, Barriers};
use sluice_planners_wan::method::{self, Options};
use sluice_planners_wan::plan::{Execution, Plan};
use sluice_planners_wan::random::Random;
use sluice_planners_wan::rules::{Priority, priority};
use sluice_planners_wan::schedule::Schedule;
use sluice_planners_wan::simulate::{Moment, RateRule, simulate};
use sluice_planners_wan::{Flow, Instance, Link, weights};

/// A rule that is a function of the moment.
struct Slow<F>(F);

impl<F: FnMut(&Moment<'_>, &mut [f64])> RateRule for Slow<F> {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        (self.0)(moment, rates);
    }
}

/// Raises all flows together until a link is full, by one link at a time.
fn fill(instance: &Instance, ready: &[usize], weight: &[f64], rates: &mut [f64]) {
    let mut free = vec![true; ready.len()];
    while free.contains(&true) {
        let (mut rise, mut full) = (f64::INFINITY, usize::MAX);
        for (index, link) in instance.links().iter().enumerate() {
            let over = |place: usize| instance.flows()[ready[place]].path.contains(&index);
            let load: f64 = (0..ready.len()).filter(|&place| over(place)).map(|place| rates[place]).sum();
            let sum: f64 = (0..ready.len()).filter(|&p| over(p) && free[p]).map(|p| weight[ready[p]]).sum();
            let room = (link.capacity - load).max(0.0) / sum;
            if sum > 0.0 && room < rise {
                (rise, full) = (room, index);
            }
        }
        for place in 0..ready.len() {
            if free[place] {
                rates[place] += rise * weight[ready[place]];
            }
        }
        for place in 0..ready.len() {
            free[place] &= !instance.flows()[ready[place]].path.contains(&full);
        }
    }
}

#[track_caller]
fn same(instance: &Instance, plan: &Plan, slow: impl FnMut(&Moment<'_>, &mut [f64])) {
    let found = plan.execute(instance).expect("played");
    let expected = simulate(instance, &mut Slow(slow)).expect("played");
    for (found, expected) in found.ends.iter().zip(&expected.ends) {
        near(*found, *expected, 1e-9, "the end of a flow");
    }
}

/// Divides the links in the order of `key` among the ready flows.
fn in_order<K>(instance: &Instance, moment: &Moment<'_>, rates: &mut [f64], key: K)
where
    K: Fn(usize) -> Vec<f64>,
{
    let mut places: Vec<usize> = (0..moment.ready.len()).collect();
    places.sort_by(|&a, &b| key(moment.ready[a]).partial_cmp(&key(moment.ready[b])).expect("numbers"));
    let mut left: Vec<f64> = instance.links().iter().map(|link| link.capacity).collect();
    for place in places {
        let flow = moment.ready[place];
        let path = &instance.flows()[flow].path;
        let rate = path.iter().map(|&link| left[link]).fold(f64::INFINITY, f64::min);
        if rate >= 1e-9 * instance.alone(flow) {
            rates[place] = rate;
            path.iter().for_each(|&link| left[link] -= rate);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn filling_is_weighted_max_min(seed: u64, any_order: bool) {
        let instance = if any_order { common::any_order(seed, 5) } else { common::chains(seed, 5) };
        same(&instance, &Plan::Fair, |moment, rates| {
            fill(&instance, moment.ready, &vec![1.0; instance.flows().len()], rates);
        });
        let mut random = Random::new(seed ^ 1);
        // Weights far apart, some of them 0, within what the links carry.
        let fair = baseline::out_of_order(&instance);
        let part = |rate: &f64| if random.unit() < 0.2 { 0.0 } else { rate * 10_f64.powf(-6.0 * random.unit()) };
        let guaranteed: Vec<f64> = fair.iter().map(part).collect();
        let plan = Plan::Rates { rates: guaranteed.clone(), execution: Execution::WorkConserving };
        let slow = |moment: &Moment<'_>, rates: &mut [f64]| {
            rates.iter_mut().zip(moment.ready).for_each(|(rate, &flow)| *rate = guaranteed[flow]);
            let weighted: Vec<usize> = (0..rates.len()).filter(|&place| rates[place] > 0.0).collect();
            let ready: Vec<usize> = weighted.iter().map(|&place| moment.ready[place]).collect();
            let mut some: Vec<f64> = ready.iter().map(|&flow| guaranteed[flow]).collect();
            fill(&instance, &ready, &guaranteed, &mut some);
            weighted.into_iter().zip(some).for_each(|(place, rate)| rates[place] = rate);
        };
        let rule = &mut *plan.rule(&instance).expect("a rule");
        let ready: Vec<usize> = (0..instance.flows().len()).filter(|&f| instance.predecessors(f).is_empty()).collect();
        let remaining: Vec<f64> = instance.flows().iter().map(|flow| flow.size).collect();
        let moment = Moment { t: 0.0, ready: &ready, remaining: &remaining };
        let (mut found, mut expected) = (vec![0.0; ready.len()], vec![0.0; ready.len()]);
        rule.rates(&moment, &mut found);
        slow(&moment, &mut expected);
        for (found, expected) in found.iter().zip(&expected) {
            near(*found, *expected, 1e-9, "a rate");
        }
    }

    #[test]
    fn priorities_are_taken_in_order(seed: u64) {
        let instance = common::chains(seed, 5);
        let left = |moment: &Moment<'_>, group: usize| -> f64 {
            let flows = &instance.groups()[group].flows;
            flows.iter().map(|&flow| moment.remaining[flow] / instance.alone(flow)).sum()
        };
        let place = permutation(&mut Random::new(seed), instance.collectives());
        let rank = priority::ranks(&instance, &place).expect("places");
        same(&instance, &Plan::Priority { rank: rank.clone() }, |moment, rates| {
            in_order(&instance, moment, rates, |flow| {
                vec![rank[flow] as f64, -left(moment, instance.group_of(flow)), flow as f64]
            });
        });
        let other = simulate(&instance, &mut Priority::of_collectives(&instance, &place).expect("places"));
        prop_assert_eq!(other, Plan::Priority { rank }.execute(&instance));
        same(&instance, &Plan::PriorityRecomputed, |moment, rates| {
            let bound = |k: usize| {
                let chain = instance.groups_of(k).map(|group| left(moment, group)).fold(0.0, f64::max);
                let load = |link: usize| -> f64 {
                    let on = instance.flows_on(link).iter().filter(|&&flow| instance.flows()[flow].collective == k);
                    on.map(|&flow| moment.remaining[flow]).sum::<f64>() / instance.links()[link].capacity
                };
                (0..instance.links().len()).map(load).fold(chain, f64::max)
            };
            in_order(&instance, moment, rates, |flow| {
                let k = instance.flows()[flow].collective;
                vec![bound(k), k as f64, -left(moment, instance.group_of(flow)), flow as f64]
            });
        });
    }

    /// Whatever the numbers, there is an instance with a plan or a refusal.
    #[test]
    fn nothing_makes_a_method_fail_to_answer(seed: u64, power in -100.0..100.0) {
        let mut random = Random::new(seed);
        let nodes = 1 + random.below(4);
        let odd = |random: &mut Random| match random.below(12) {
            0 => 0.0,
            1 => f64::NAN,
            2 => f64::INFINITY,
            3 => -1.0,
            _ => 10_f64.powf(power) * between(random, 1e-4, 1e4),
        };
        let often_good = random.unit() < 0.8;
        let size = |random: &mut Random| if often_good { between(random, 1e-3, 1e3) * 10_f64.powf(power) } else { odd(random) };
        let links: Vec<Link> = (0..1 + random.below(8))
            .map(|_| Link { from: random.below(nodes), to: random.below(nodes), capacity: size(&mut random) })
            .collect();
        let flow = |random: &mut Random| {
            let path: Vec<usize> = (0..1 + random.below(2)).map(|_| random.below(links.len())).collect();
            let ends = (links[path[0]].from, path.last().map_or(0, |&link| links[link].to));
            Flow {
                collective: random.below(2),
                group: random.below(2),
                order: random.below(2),
                from: ends.0,
                to: ends.1,
                size: size(random),
                path,
                release: if random.unit() < 0.8 { 0.0 } else { size(random) },
            }
        };
        let flows: Vec<Flow> = (0..random.below(8)).map(|_| flow(&mut random)).collect();
        let some = |random: &mut Random| (random.below(8), random.below(8));
        let deps = (random.unit() < 0.7).then(|| (0..random.below(5)).map(|_| some(&mut random)).collect());
        if let Ok(instance) = Instance::new("odd", nodes, links, flows, deps) {
            let choice = method::best(&instance, &Options::default(), None, &Run::quiet(1)).expect("some method has a plan");
            prop_assert!(choice.outcome.mean.is_finite() && choice.outcome.mean > 0.0);
        }
    }
}

#[test]
fn plans_that_do_not_go_with_the_instance_are_refused() {
    let instance = common::chains(3, 3);
    let (flows, groups) = (instance.flows().len(), instance.groups().len());
    let rates = |rates, execution| Plan::Rates { rates, execution };
    let weights_of = |weights| Plan::Weights { weights, execution: Execution::Static };
    let schedule = |rates, order| Plan::Schedule(Schedule { starts: vec![0.0; flows], rates, order });
    let barriers = |rates, set_of| Plan::Barriers(Barriers { rates, set_of, z: Vec::new() });
    let mut one_bad = vec![1.0; groups];
    one_bad[0] = 0.0;
    for (plan, code) in [
        (rates(vec![1.0], Execution::Static), "BadWeight"),
        (rates(vec![1.0], Execution::WorkConserving), "BadWeight"),
        (rates(vec![f64::NAN; flows], Execution::Static), "Capacity"),
        (rates(vec![-1.0; flows], Execution::WorkConserving), "Capacity"),
        (rates(vec![1e6; flows], Execution::WorkConserving), "Capacity"),
        (rates(vec![0.0; flows], Execution::Static), "Deadlock"),
        (rates(vec![0.0; flows], Execution::WorkConserving), "Deadlock"),
        (weights_of(vec![1.0]), "BadWeight"),
        (weights_of(one_bad), "BadWeight"),
        (weights_of(vec![f64::INFINITY; groups]), "BadWeight"),
        (schedule(vec![1.0], vec![]), "BadWeight"),
        (schedule(vec![1.0; flows], vec![(0, flows)]), "GapInIds"),
        (schedule(vec![1.0; flows], vec![(0, 0)]), "Deadlock"),
        (barriers(vec![1.0], vec![0; flows]), "BadWeight"),
        (barriers(vec![1.0; flows], vec![0]), "BadWeight"),
        (Plan::Priority { rank: vec![0] }, "BadWeight"),
    ] {
        assert_eq!(plan.execute(&instance).expect_err("refused").code(), code, "{plan:?}");
    }
    assert_eq!(priority::ranks(&instance, &[]).expect_err("no places").code(), "BadWeight");
    assert_eq!(Schedule::nonconcurrent(&instance, vec![0.0]).expect_err("one start").code(), "BadWeight");
    assert_eq!(Schedule::nonconcurrent(&instance, vec![-1.0; flows]).expect_err("before 0").code(), "BadSize");
    // Weights as large as numbers go are proportions like any others.
    let (large, one) = (vec![f64::MAX; groups], vec![1.0; groups]);
    let rates = |weights: &[f64]| weights::rates(&instance, weights).expect("weights");
    assert_eq!(rates(&large), rates(&one));
}

#[test]
fn starts_may_be_brought() {
    let instance = common::chains(3, 3);
    let greedy = sluice_planners_wan::greedy::nonconcurrent(&instance, sluice_planners_wan::greedy::Key::Shortest);
    let again = Schedule::nonconcurrent(&instance, greedy.starts.clone()).expect("starts");
    assert_eq!(again, greedy);
    let before = again.predecessors(&instance);
    let pairs: usize = before.iter().map(Vec::len).sum();
    assert_eq!(pairs, greedy.order.len());
    assert!(before.iter().all(|before| before.is_sorted()));
}
