//! The properties of the method's page that need no solver, P1 to P5, P8 to P11, P14, P16 to P18, each under its number.

use super::common;
use super::common::{between, near, permutation};
use proptest::prelude::*;
use sluice_planners_wan::baseline::{self, Scope};
use sluice_planners_wan::greedy::{self, Key};
use sluice_planners_wan::multiring::{self, Intra};
use sluice_planners_wan::plan::{Execution, Plan};
use sluice_planners_wan::random::Random;
use sluice_planners_wan::rules::{Static, fixed::Ordered};
use sluice_planners_wan::sca::{self, Reading};
use sluice_planners_wan::simulate::{Moment, RateRule, simulate};
use sluice_planners_wan::{Flow, Instance, Link, reserve, ring, routes, weights};

fn fixed(rates: Vec<f64>) -> Plan {
    Plan::Rates { rates, execution: Execution::Static }
}

fn filled(rates: Vec<f64>) -> Plan {
    Plan::Rates { rates, execution: Execution::WorkConserving }
}

/// Gives each flow a part of its rate, and writes down what is given.
struct Slowed<'a> {
    rule: &'a mut dyn RateRule,
    part: Vec<f64>,
    given: Vec<(f64, Vec<(usize, f64)>)>,
}

impl RateRule for Slowed<'_> {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        self.rule.rates(moment, rates);
        rates.iter_mut().zip(moment.ready).for_each(|(rate, &flow)| *rate *= self.part[flow]);
        self.given.push((moment.t, moment.ready.iter().copied().zip(rates.iter().copied()).collect()));
    }
    fn ended(&mut self, flow: usize) {
        self.rule.ended(flow);
    }
}

/// An instance with other flows, or links.
fn changed(instance: &Instance, change: impl Fn(&mut Vec<Link>, &mut Vec<Flow>)) -> Instance {
    let (mut links, mut flows) = (instance.links().to_vec(), instance.flows().to_vec());
    change(&mut links, &mut flows);
    Instance::new("changed", instance.nodes(), links, flows, None).expect("a legal instance")
}

/// Every method of this crate whose plan does not hang on the names of things, with the plan.
fn methods(instance: &Instance) -> Vec<(&'static str, Plan)> {
    let barrier = |scope| Plan::Barriers(baseline::barrier_aware(instance, scope).expect("chains"));
    let multi = |per_link_budget| {
        let options = multiring::Options { intra: Intra::Best, per_link_budget };
        Plan::Schedule(multiring::plan(instance, options).expect("planned").schedule)
    };
    let sca = |reading| {
        // So many rounds that the end does not hang on the unit of time.
        let options = sca::Options { reading, epsilon: 0.0, most: 5, ..sca::Options::default() };
        let weights = sca::run(instance, options, &mut || false).expect("solved").weights;
        Plan::Weights { weights, execution: Execution::Static }
    };
    let perm = sluice_planners_wan::perm::search(instance, &mut || false).expect("searched");
    vec![
        ("out_of_order", fixed(baseline::out_of_order(instance))),
        ("equal", fixed(baseline::equal(instance).expect("chains"))),
        ("equal_wc", filled(baseline::equal(instance).expect("chains"))),
        ("data", fixed(baseline::data_aware(instance).expect("chains"))),
        ("barrier", barrier(Scope::Collective)),
        ("barrier_stage", barrier(Scope::Stage)),
        ("barrier_step", barrier(Scope::Step)),
        ("multiring", multi(false)),
        ("multiring_per_link", multi(true)),
        ("sca capacity", sca(Reading::Capacity)),
        ("sca simplex", sca(Reading::Simplex)),
        ("spt", Plan::Schedule(greedy::nonconcurrent(instance, Key::Shortest))),
        ("ldv", Plan::Schedule(greedy::nonconcurrent(instance, Key::LargestBehind))),
        ("cp", Plan::Schedule(greedy::nonconcurrent(instance, Key::CriticalPath))),
        ("fair", Plan::Fair),
        ("prio", Plan::PriorityRecomputed),
        ("perm", Plan::Priority { rank: perm.rank }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn p1_the_mean_time_is_at_most_the_largest(pairs in prop::collection::vec((1e-3..1e3, 1e-3..1e3), 1..20)) {
        let (sizes, rates): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let largest = pairs.iter().map(|(size, rate)| size / rate).fold(0.0, f64::max);
        prop_assert!(sizes.iter().sum::<f64>() / rates.iter().sum::<f64>() <= largest * (1.0 + 1e-12));
    }

    #[test]
    fn p2_one_after_the_other_is_never_later_on_one_link(seed: u64, count in 1_usize..9) {
        let mut random = Random::new(seed);
        let link = Link { from: 0, to: 1, capacity: between(&mut random, 1.0, 10.0) };
        let size = |_| between(&mut random, 0.1, 10.0);
        let sizes: Vec<f64> = (0..count).map(size).collect();
        let shares: Vec<f64> = (0..count).map(|_| between(&mut random, 0.01, 1.0)).collect();
        let sum: f64 = shares.iter().sum();
        let used = between(&mut random, 0.3, 1.0);
        let rates: Vec<f64> = shares.iter().map(|share| share / sum * used * link.capacity).collect();
        let flow = |(collective, &size): (usize, &f64)| Flow {
            collective, group: 0, order: 0, from: 0, to: 1, size, path: vec![0], release: 0.0,
        };
        let flows = sizes.iter().enumerate().map(flow).collect();
        let instance = Instance::new("one link", 2, vec![link], flows, None).expect("legal");
        let concurrent = simulate(&instance, &mut Static::new(rates)).expect("fits");
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| concurrent.t[a].total_cmp(&concurrent.t[b]));
        let pairs: Vec<(usize, usize)> = order.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let mut serial = Ordered::new(&instance, vec![link.capacity; count], &pairs).expect("pairs");
        let serial = simulate(&instance, &mut serial).expect("fits");
        for (one, other) in serial.t.iter().zip(&concurrent.t) {
            prop_assert!(*one <= other * (1.0 + 1e-12));
        }
    }

    #[test]
    fn p3_reservations_hold_at_whatever_speed_groups_advance(seed: u64) {
        let instance = common::chains(seed, 4);
        let mut random = Random::new(seed ^ 1);
        let rates = weights::rates(&instance, &common::weights(&mut random, &instance)).expect("weights");
        let late = changed(&instance, |_, flows| {
            let mut random = Random::new(seed ^ 2);
            flows.iter_mut().for_each(|flow| flow.release = between(&mut random, 0.0, 5.0));
        });
        let part = instance.flows().iter().map(|_| between(&mut random, 0.1, 1.0)).collect();
        let mut rule = Slowed { rule: &mut Static::new(rates), part, given: Vec::new() };
        // The simulator refuses any event at which a link is overloaded.
        let outcome = simulate(&late, &mut rule).expect("no link is ever overloaded");
        for (flow, end) in late.flows().iter().zip(&outcome.ends) {
            prop_assert!(*end > flow.release);
        }
    }

    #[test]
    fn p4_the_middle_of_two_allocations_is_one_and_no_worse_than_their_mean(seed: u64) {
        let instance = common::chains(seed, 4);
        let mut random = Random::new(seed ^ 1);
        let mut feasible = || {
            let rates: Vec<f64> = instance.flows().iter().map(|_| between(&mut random, 0.1, 20.0)).collect();
            reserve::repaired(&instance, &rates).expect("rates")
        };
        let (one, other) = (feasible(), feasible());
        let middle: Vec<f64> = one.iter().zip(&other).map(|(a, b)| (a + b) / 2.0).collect();
        for rates in [&one, &other, &middle] {
            let reserved = reserve::reserved(&instance, rates).expect("rates");
            prop_assert!(reserved.iter().all(|part| *part <= 1.0 + 1e-12));
        }
        let time = |rates: &[f64]| weights::mean_time(&instance, rates);
        prop_assert!(time(&middle) <= (time(&one) + time(&other)) / 2.0 * (1.0 + 1e-12));
    }

    #[test]
    fn p5_what_is_simulated_is_the_closed_form(seed: u64) {
        let instance = common::chains(seed, 4);
        let mut random = Random::new(seed ^ 1);
        let rates = weights::rates(&instance, &common::weights(&mut random, &instance)).expect("weights");
        let outcome = simulate(&instance, &mut Static::new(rates.clone())).expect("fits");
        near(outcome.mean, weights::mean_time(&instance, &rates), 1e-12, "mean time");
        for (group, time) in instance.groups().iter().zip(weights::group_times(&instance, &rates)) {
            let end = group.flows.last().map_or(0.0, |&flow| outcome.ends[flow]);
            near(end, time, 1e-12, "time of a group");
        }
    }

    #[test]
    fn p8_counting_groups_is_never_worse_than_counting_flows(seed: u64) {
        let instance = common::chains(seed, 5);
        let equal = fixed(baseline::equal(&instance).expect("chains")).execute(&instance).expect("fits");
        let out_of_order = fixed(baseline::out_of_order(&instance)).execute(&instance).expect("fits");
        for (equal, other) in equal.t.iter().zip(&out_of_order.t) {
            prop_assert!(*equal <= other * (1.0 + 1e-12));
        }
    }

    #[test]
    fn p9_the_iteration_by_capacities_never_rises(seed: u64) {
        let instance = common::chains(seed, 6);
        for start in [sca::Start::InverseBottleneck, sca::Start::Equal] {
            let options = sca::Options { start, epsilon: 0.0, most: 8, ..sca::Options::default() };
            let found = sca::run(&instance, options, &mut || false).expect("solved");
            for pair in found.history.windows(2) {
                prop_assert!(pair[1] <= pair[0] * (1.0 + 1e-7));
            }
            prop_assert_eq!(found.history.iter().copied().fold(f64::INFINITY, f64::min), found.mean);
        }
    }

    #[test]
    fn p10_filling_is_never_later_than_leaving(seed: u64) {
        let instance = common::chains(seed, 5);
        let mut random = Random::new(seed ^ 1);
        let some = weights::rates(&instance, &common::weights(&mut random, &instance)).expect("weights");
        for rates in [some, baseline::out_of_order(&instance)] {
            let left = fixed(rates.clone()).execute(&instance).expect("fits");
            let full = filled(rates).execute(&instance).expect("fits");
            for (full, left) in full.t.iter().zip(&left.t) {
                prop_assert!(*full <= left * (1.0 + 1e-6));
            }
        }
    }

    #[test]
    fn p11_multiring_stays_between_its_bounds(seed: u64) {
        let instance = common::chains(seed, 6);
        let solved = multiring::budgets(&instance).expect("solved");
        prop_assert!(solved.residual <= 1e-9);
        for row in multiring::rows(&instance) {
            let used: f64 = row.takes.iter().map(|&(k, a)| a * solved.x[k]).sum();
            prop_assert!(used <= row.limit * (1.0 + 1e-12));
        }
        let by = [Key::Shortest, Key::LargestBehind, Key::CriticalPath].map(Intra::Greedy);
        for intra in by.into_iter().chain([Intra::Best]) {
            for per_link_budget in [false, true] {
                let plan = multiring::plan(&instance, multiring::Options { intra, per_link_budget }).expect("planned");
                let outcome = Plan::Schedule(plan.schedule).execute(&instance).expect("fits");
                for (k, &t) in outcome.t.iter().enumerate() {
                    prop_assert!(t >= plan.bounds[k] * (1.0 - 1e-9));
                    prop_assert!(t <= instance.volume_of(k) / plan.budgets[k] * (1.0 + 1e-9));
                    near(t, plan.t[k], 1e-9, "planned and executed");
                }
            }
        }
    }

    #[test]
    fn p14_times_scale_with_sizes_and_capacities(seed: u64, power in -3.0..6.0) {
        let alpha = 10_f64.powf(power);
        let instance = common::chains(seed, 4);
        let larger = changed(&instance, |_, flows| flows.iter_mut().for_each(|flow| flow.size *= alpha));
        let faster = changed(&instance, |links, _| links.iter_mut().for_each(|link| link.capacity *= alpha));
        for (index, (name, plan)) in methods(&instance).into_iter().enumerate() {
            let t = plan.execute(&instance).expect("fits").t;
            let larger_t = methods(&larger)[index].1.execute(&larger).expect("fits").t;
            let faster_t = methods(&faster)[index].1.execute(&faster).expect("fits").t;
            for (k, t) in t.into_iter().enumerate() {
                near(larger_t[k], t * alpha, 1e-7, &format!("{name}, larger"));
                near(faster_t[k], t / alpha, 1e-7, &format!("{name}, faster"));
            }
        }
    }

    #[test]
    fn p14_names_do_not_matter(seed: u64) {
        let instance = common::chains(seed, 4);
        let mut random = Random::new(seed ^ 1);
        let nodes = permutation(&mut random, instance.nodes());
        let links = permutation(&mut random, instance.links().len());
        let collectives = permutation(&mut random, instance.collectives());
        let of_groups = |k: usize| permutation(&mut random, instance.groups_of(k).len());
        let groups: Vec<Vec<usize>> = (0..instance.collectives()).map(of_groups).collect();
        let order = permutation(&mut random, instance.flows().len());
        let mut new_links = instance.links().to_vec();
        for (old, link) in instance.links().iter().enumerate() {
            new_links[links[old]] = Link { from: nodes[link.from], to: nodes[link.to], capacity: link.capacity };
        }
        let renamed = |&old: &usize| {
            let flow = &instance.flows()[old];
            Flow {
                collective: collectives[flow.collective],
                group: groups[flow.collective][flow.group],
                from: nodes[flow.from],
                to: nodes[flow.to],
                path: flow.path.iter().map(|&link| links[link]).collect(),
                ..flow.clone()
            }
        };
        let flows = order.iter().map(renamed).collect();
        let other = Instance::new("renamed", instance.nodes(), new_links, flows, None).expect("legal");
        for ((name, plan), (_, other_plan)) in methods(&instance).into_iter().zip(methods(&other)) {
            let (t, other_t) = (plan.execute(&instance).expect("fits").t, other_plan.execute(&other).expect("fits").t);
            for (k, t) in t.into_iter().enumerate() {
                near(other_t[collectives[k]], t, 1e-7, name);
            }
        }
    }

    #[test]
    fn p17_only_proportions_of_weights_matter(seed: u64, power in -6.0..6.0, faster in 0.1..10.0) {
        let instance = common::chains(seed, 4);
        let mut random = Random::new(seed ^ 1);
        let some = common::weights(&mut random, &instance);
        let more: Vec<f64> = some.iter().map(|weight| weight * 10_f64.powf(power)).collect();
        let time = |weights: &[f64]| {
            weights::mean_time(&instance, &weights::rates(&instance, weights).expect("weights"))
        };
        near(time(&some), time(&more), 1e-12, "weights times a constant");
        let other = changed(&instance, |links, _| links.iter_mut().for_each(|link| link.capacity *= faster));
        let options = sca::Options { epsilon: 0.0, most: 5, ..sca::Options::default() };
        let found = sca::run(&instance, options, &mut || false).expect("solved");
        let other_found = sca::run(&other, options, &mut || false).expect("solved");
        near(other_found.mean * faster, found.mean, 1e-8, "all capacities times a constant");
    }

    #[test]
    fn p18_what_is_sent_arrives_in_order(seed: u64) {
        let instance = common::any_order(seed, 4);
        let count = instance.flows().len();
        for name in ["fair", "prio", "priority", "schedule", "out_of_order"] {
            let plan = match name {
                "fair" => Plan::Fair,
                "prio" => Plan::PriorityRecomputed,
                "priority" => Plan::Priority { rank: permutation(&mut Random::new(seed), count) },
                "schedule" => Plan::Schedule(greedy::nonconcurrent(&instance, Key::LargestBehind)),
                _ => fixed(baseline::out_of_order(&instance)),
            };
            let mut inner = plan.rule(&instance).expect("a rule");
            let mut rule = Slowed { rule: &mut *inner, part: vec![1.0; count], given: Vec::new() };
            let outcome = simulate(&instance, &mut rule).expect("played");
            prop_assert!(outcome.events <= count, "{}", name);
            let last = outcome.ends.iter().copied().fold(0.0, f64::max);
            let (mut sent, mut begun) = (vec![0.0; count], vec![f64::INFINITY; count]);
            for (index, (t, rates)) in rule.given.iter().enumerate() {
                let until = rule.given.get(index + 1).map_or(last, |(next, _)| *next);
                for &(flow, rate) in rates {
                    sent[flow] += rate * (until - t);
                    if rate > 0.0 {
                        begun[flow] = begun[flow].min(*t);
                    }
                }
            }
            for (flow, known) in instance.flows().iter().enumerate() {
                near(sent[flow], known.size, 1e-9, name);
                for &before in instance.predecessors(flow) {
                    prop_assert!(outcome.ends[before] <= begun[flow], "{}", name);
                }
            }
            prop_assert_eq!(plan.execute(&instance).expect("played"), plan.execute(&instance).expect("played"));
            let again = plan.execute(&instance).expect("played");
            for (one, other) in outcome.t.iter().zip(&again.t) {
                near(*one, *other, 1e-12, name);
            }
        }
    }
}

#[test]
fn p16_a_ring_adds_up_everywhere() {
    for n in 2..=16 {
        let links: Vec<Link> = (0..n).map(|node| Link { from: node, to: (node + 1) % n, capacity: 1.0 }).collect();
        let mut router = routes::Router::new(n, &links);
        let participants: Vec<usize> = (0..n).collect();
        let flows = ring::expand(0, &participants, n, &mut router, |_, _| Ok(1.0)).expect("a ring");
        assert_eq!(flows.len(), 2 * n * (n - 1));
        let instance = Instance::new("ring", n, links, flows, None).expect("legal");
        assert_eq!(instance.groups().len(), n);
        assert!(instance.groups().iter().all(|group| group.flows.len() == 2 * (n - 1)));
        assert_eq!(instance.dependencies().count(), n * (2 * n - 3));
        assert!(instance.links().iter().enumerate().all(|(link, _)| instance.flows_on(link).len() == 2 * (n - 1)));
        for group in instance.groups() {
            let uses = |link: usize| group.flows.iter().filter(|&&flow| instance.flows()[flow].path == [link]).count();
            let counts: Vec<usize> = (0..n).map(uses).collect();
            assert_eq!(counts.iter().filter(|&&count| count == 2).count(), n - 2);
            assert_eq!(counts.iter().filter(|&&count| count == 1).count(), 2);
        }
        // Node i contributes 10 i + c to chunk c. A hop of ReduceScatter adds the receiver's part, one of AllGather copies.
        let part = |node: usize, chunk: usize| (10 * node + chunk) as u64;
        let sum = |chunk: usize| (0..n).map(|node| part(node, chunk)).sum::<u64>();
        let mut held: Vec<Vec<u64>> = (0..n).map(|node| (0..n).map(|chunk| part(node, chunk)).collect()).collect();
        let mut order: Vec<usize> = (0..instance.flows().len()).collect();
        let ends = simulate(&instance, &mut Static::new(vec![1e-3; order.len()])).expect("fits").ends;
        order.sort_by(|&a, &b| ends[a].total_cmp(&ends[b]));
        for flow in order.into_iter().map(|flow| &instance.flows()[flow]) {
            let (chunk, carried) = (flow.group, held[flow.from][flow.group]);
            held[flow.to][chunk] = if flow.order < n - 1 { held[flow.to][chunk] + carried } else { carried };
            if flow.order == n - 2 {
                assert_eq!(flow.to, (chunk + n - 1) % n, "where the sum is whole first");
                assert_eq!(held[flow.to][chunk], sum(chunk));
            }
        }
        for (node, held) in held.iter().enumerate() {
            for (chunk, &value) in held.iter().enumerate() {
                assert_eq!(value, sum(chunk), "chunk {chunk} at node {node} of {n}");
            }
        }
    }
}
