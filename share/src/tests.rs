//! Sharing against a literal reading of the rule, and against what any max–min allocation must satisfy.

use proptest::prelude::*;

use super::Share;

#[derive(Clone, Debug)]
struct Flow {
    class: u32,
    weight: f64,
    cap: f64,
    path: Vec<usize>,
    ties: Vec<(usize, f64)>,
}

#[derive(Clone, Debug)]
struct Problem {
    links: Vec<f64>,
    flows: Vec<Flow>,
}

fn solve(p: &Problem) -> Vec<f64> {
    let mut share = Share::default();
    solve_with(&mut share, p)
}

fn solve_with(share: &mut Share, p: &Problem) -> Vec<f64> {
    share.clear();
    p.links.iter().for_each(|&c| {
        share.link(c);
    });
    for f in &p.flows {
        f.path.iter().for_each(|&l| share.hop(l as u32));
        f.ties.iter().for_each(|&(p, r)| share.tie(p as u32, r));
        share.flow(f.class, f.weight, f.cap);
    }
    share.solve().to_vec()
}

/// Effective classes: never more urgent than a predecessor's.
fn classes(p: &Problem) -> Vec<u32> {
    let mut class: Vec<u32> = p.flows.iter().map(|f| f.class).collect();
    for _ in 0..p.flows.len() {
        for (i, f) in p.flows.iter().enumerate() {
            class[i] = f.ties.iter().fold(class[i], |c, &(q, _)| c.max(class[q]));
        }
    }
    class
}

/// The specification's three steps, word by word: grow everything by the smallest step at which something happens.
fn reference(p: &Problem) -> Vec<f64> {
    let n = p.flows.len();
    let class = classes(p);
    let mut rate = vec![0.0; n];
    let mut order = class.clone();
    order.sort_unstable();
    order.dedup();
    for c in order {
        let mut frozen: Vec<bool> = class.iter().map(|&k| k != c).collect();
        loop {
            let met = |i: usize, rate: &[f64]| -> Vec<(usize, f64)> {
                let reached = |&&(q, r): &&(usize, f64)| rate[i] >= r * rate[q] - 1e-12 * (1.0 + rate[i]);
                p.flows[i].ties.iter().filter(reached).copied().collect()
            };
            let mut growth: Vec<f64> = (0..n).map(|i| if frozen[i] { 0.0 } else { p.flows[i].weight }).collect();
            for _ in 0..n {
                for i in 0..n {
                    let slow = met(i, &rate).iter().map(|&(q, r)| r * growth[q]).fold(growth[i], f64::min);
                    growth[i] = slow;
                }
            }
            if growth.iter().all(|&g| g <= 0.0) {
                break;
            }
            let load = |l: usize, of: &[f64]| -> f64 {
                p.flows.iter().zip(of).filter(|(f, _)| f.path.contains(&l)).map(|(_, r)| r).sum()
            };
            let mut step = f64::INFINITY;
            for (l, &capacity) in p.links.iter().enumerate() {
                let g = load(l, &growth);
                if g > 0.0 {
                    step = step.min((capacity - load(l, &rate)).max(0.0) / g);
                }
            }
            for i in (0..n).filter(|&i| growth[i] > 0.0) {
                step = step.min((p.flows[i].cap - rate[i]).max(0.0) / growth[i]);
                for &(q, r) in &p.flows[i].ties {
                    let closing = growth[i] - r * growth[q];
                    let gap = r * rate[q] - rate[i];
                    if closing > 1e-12 && gap > 1e-12 * (1.0 + rate[i]) {
                        step = step.min(gap / closing);
                    }
                }
            }
            for i in 0..n {
                rate[i] += growth[i] * step;
            }
            for i in 0..n {
                let full = |&l: &usize| load(l, &rate) >= p.links[l] * (1.0 - 1e-12);
                if growth[i] > 0.0 && (rate[i] >= p.flows[i].cap * (1.0 - 1e-12) || p.flows[i].path.iter().any(full)) {
                    frozen[i] = true;
                }
            }
        }
    }
    rate
}

/// Ties point to flows earlier in a random order, so they cannot run in a circle.
fn problems(classes: u32) -> impl Strategy<Value = Problem> {
    let rate = prop::sample::select(vec![1.0, 2.0, 3.0, 4.0, 7.0, 10.0]);
    let cap = prop_oneof![3 => Just(f64::INFINITY), 1 => prop::sample::select(vec![0.0, 0.5, 1.0, 2.5])];
    let weight = prop_oneof![2 => Just(1.0), 1 => prop::sample::select(vec![0.5, 2.0, 3.0])];
    let tie =
        (any::<prop::sample::Index>(), prop_oneof![2 => Just(1.0), 1 => prop::sample::select(vec![0.5, 2.0, 1.5])]);
    let flow =
        (0..classes, weight, cap, prop::collection::btree_set(0usize..6, 1..4), prop::collection::vec(tie, 0..3));
    (prop::collection::vec(rate, 6), prop::collection::vec(flow, 1..12), any::<u64>()).prop_map(|(links, raw, lot)| {
        // Names are shuffled, so that ties run to later indices too.
        let n = raw.len();
        let mut name: Vec<usize> = (0..n).collect();
        name.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(lot | 1).rotate_left(17));
        let mut flows: Vec<Option<Flow>> = vec![None; n];
        for (i, (class, weight, cap, path, ties)) in raw.into_iter().enumerate() {
            let mut preds: Vec<(usize, f64)> = Vec::new();
            for (at, ratio) in ties.into_iter().filter(|_| i > 0) {
                let q = name[at.index(i)];
                if preds.iter().all(|&(p, _)| p != q) {
                    preds.push((q, ratio));
                }
            }
            flows[name[i]] = Some(Flow { class, weight, cap, path: path.into_iter().collect(), ties: preds });
        }
        Problem { links, flows: flows.into_iter().flatten().collect() }
    })
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn equal_to_the_rule_word_by_word(p in problems(1)) {
        let (got, want) = (solve(&p), reference(&p));
        prop_assert!(got.iter().zip(&want).all(|(a, b)| near(*a, *b)), "{got:?}\n{want:?}");
    }

    #[test]
    fn equal_to_the_rule_in_classes(p in problems(3)) {
        let (got, want) = (solve(&p), reference(&p));
        prop_assert!(got.iter().zip(&want).all(|(a, b)| near(*a, *b)), "{got:?}\n{want:?}");
    }

    /// Capacity; and every flow is at its cap, rides on a predecessor, or has a full link on which nobody of its class
    /// has more per weight. The last holds where ties are not what made a flow slow when its link filled: with equal
    /// weights and ratios from 1 on. Otherwise the filling stops a flow that rode on a predecessor at a full link, and
    /// the predecessor may grow further.
    #[test]
    fn every_flow_has_a_reason(p in problems(3), even in any::<bool>()) {
        let mut p = p;
        for f in p.flows.iter_mut().filter(|_| even) {
            f.weight = 1.0;
            f.ties.iter_mut().for_each(|t| t.1 = t.1.max(1.0));
        }
        let rate = solve(&p);
        let class = classes(&p);
        let load = |l: usize| -> f64 {
            p.flows.iter().zip(&rate).filter(|(f, _)| f.path.contains(&l)).map(|(_, r)| r).sum()
        };
        for (l, &capacity) in p.links.iter().enumerate() {
            prop_assert!(load(l) <= capacity * (1.0 + 1e-9));
        }
        for (i, f) in p.flows.iter().enumerate() {
            prop_assert!(f.ties.iter().all(|&(q, r)| rate[i] <= r * rate[q] + 1e-9));
            let capped = rate[i] >= f.cap - 1e-9;
            let rides = f.ties.iter().any(|&(q, r)| near(rate[i], r * rate[q]));
            let bottleneck = f.path.iter().any(|&l| {
                let full = load(l) >= p.links[l] * (1.0 - 1e-9);
                let largest = p.flows.iter().enumerate().filter(|(j, g)| g.path.contains(&l) && class[*j] == class[i]);
                full && (!even || largest.map(|(j, g)| rate[j] / g.weight).fold(0.0, f64::max) <= rate[i] / f.weight + 1e-9)
            });
            prop_assert!(capped || rides || bottleneck, "flow {i}: {rate:?}");
        }
    }

    #[test]
    fn capacities_and_caps_times_k_are_rates_times_k(p in problems(2), k in prop::sample::select(vec![0.125, 3.0, 1e9])) {
        let mut large = p.clone();
        large.links.iter_mut().for_each(|c| *c *= k);
        large.flows.iter_mut().for_each(|f| f.cap *= k);
        let (a, b) = (solve(&p), solve(&large));
        prop_assert!(a.iter().zip(&b).all(|(a, b)| near(a * k, *b)), "{a:?}\n{b:?}");
    }

    /// One solution, whatever the order of flows and links; and memory used again changes nothing.
    #[test]
    fn order_does_not_matter(p in problems(2), q in problems(3)) {
        let n = p.flows.len();
        let mut turned = p.clone();
        turned.links.reverse();
        for f in &mut turned.flows {
            f.path.iter_mut().for_each(|l| *l = p.links.len() - 1 - *l);
            f.ties.iter_mut().for_each(|t| t.0 = n - 1 - t.0);
        }
        turned.flows.reverse();
        let (a, mut b) = (solve(&p), solve(&turned));
        b.reverse();
        prop_assert!(a.iter().zip(&b).all(|(a, b)| near(*a, *b)), "{a:?}\n{b:?}");
        let mut share = Share::default();
        solve_with(&mut share, &q);
        prop_assert_eq!(solve_with(&mut share, &p), a);
    }

    /// On one link without ties another flow raises nobody's rate.
    #[test]
    fn one_more_flow_on_one_link_raises_nobody(weights in prop::collection::vec(0.5f64..4.0, 2..10)) {
        let flow = |&weight: &f64| Flow { class: 0, weight, cap: f64::INFINITY, path: vec![0], ties: Vec::new() };
        let all = Problem { links: vec![8.0], flows: weights.iter().map(flow).collect() };
        let mut fewer = all.clone();
        fewer.flows.pop();
        prop_assert!(solve(&fewer).iter().zip(solve(&all)).all(|(a, b)| b <= a + 1e-12));
    }

    /// Two problems that share nothing, solved as one, give the very bits they give alone.
    #[test]
    fn parts_are_the_whole(p in problems(2), q in problems(2)) {
        let (links, flows) = (p.links.len(), p.flows.len());
        let mut both = p.clone();
        both.links.extend(&q.links);
        both.flows.extend(q.flows.iter().cloned().map(|mut f| {
            f.path.iter_mut().for_each(|l| *l += links);
            f.ties.iter_mut().for_each(|t| t.0 += flows);
            f
        }));
        prop_assert_eq!(solve(&both), [solve(&p), solve(&q)].concat());
    }
}

#[test]
fn a_chain_rides_on_its_slowest() {
    let flow = |path, ties| Flow { class: 0, weight: 1.0, cap: f64::INFINITY, path, ties };
    let p = Problem {
        links: vec![1.0, 0.5, 1.0],
        flows: vec![flow(vec![0, 1], vec![]), flow(vec![1], vec![(0, 2.0)]), flow(vec![2], vec![(1, 1.0)])],
    };
    assert_eq!(solve(&p), [0.25, 0.25, 0.25]);
}

#[test]
fn nobody_and_nothing() {
    assert!(solve(&Problem { links: vec![1.0], flows: Vec::new() }).is_empty());
    let zero = Flow { class: 0, weight: 1.0, cap: 0.0, path: vec![0], ties: Vec::new() };
    assert_eq!(solve(&Problem { links: vec![0.0], flows: vec![zero] }), [0.0]);
}
