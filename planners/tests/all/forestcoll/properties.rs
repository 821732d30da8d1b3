//! What holds for every fabric: against brute force, under scaling, renaming and more bandwidth, for every collective.

use crate::forestcoll::checker::{big, brute_force, check, check_optimal, loads};
use crate::forestcoll::fabrics::{Dice, a100, h100, heterogeneous, mi250, tangled};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::forestcoll::{Collective, Direction, Fabric, Options, Planned, optimum, plan};

fn gather(fabric: &Fabric, options: &Options) -> Planned {
    plan(fabric, Collective::AllGather, options, &Run::quiet(2)).expect("a plan")
}

fn best(fabric: &Fabric) -> (Rational, u64) {
    let best = optimum(fabric, false, &Run::quiet(1)).expect("an optimum");
    (best.inverse_x, best.k)
}

/// Small fabrics, one-way rings or boxes, with and without shares.
fn small() -> impl Strategy<Value = Fabric> {
    (2_usize..9, 0_usize..4, any::<u64>(), any::<bool>(), any::<bool>()).prop_map(
        |(compute, switches, seed, rings, shares)| {
            let mut fabric =
                if rings { tangled(compute, switches, 12, seed) } else { heterogeneous(compute.min(5), seed) };
            if shares {
                let mut dice = Dice::new(seed ^ 1);
                fabric.weights = (0..fabric.compute).map(|_| dice.pick(0, 3) as u64).collect();
                fabric.weights[0] = 2;
            }
            fabric
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn optimum_is_that_of_all_cuts_and_a_forest_reaches_it(fabric in small()) {
        let planned = gather(&fabric, &Options::default());
        if fabric.names.len() <= 12 {
            prop_assert_eq!(big(&planned.optimum.inverse_x), brute_force(&fabric));
        }
        check_optimal(&fabric, &planned.optimum, &planned.forests[0]).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn fewer_trees_per_root_do_not_reach_it(fabric in small()) {
        let (inverse_x, k) = best(&fabric);
        for fewer in 1..k.min(200) {
            let whole = |(_, _, rate): &(u32, u32, Rational)| (&(rate * &inverse_x) * &Rational::from(fewer)).is_integer();
            prop_assert!(!fabric.links.iter().all(whole), "{fewer} trees would do instead of {k}");
        }
    }

    #[test]
    fn scaling_bandwidth_scales_the_rate(fabric in small(), over in 1_i128..50, under in 1_i128..50) {
        let factor = Rational::new(over, under).expect("not over zero");
        let mut scaled = fabric.clone();
        scaled.links.iter_mut().for_each(|link| link.2 = &link.2 * &factor);
        let (before, after) = (best(&fabric), best(&scaled));
        prop_assert_eq!(before, (&after.0 * &factor, after.1));
    }

    #[test]
    fn names_and_numbers_do_not_matter(fabric in small(), seed in any::<u64>()) {
        let (mut dice, nodes) = (Dice::new(seed), fabric.names.len() as u32);
        let mut order: Vec<u32> = (0..nodes).collect();
        for range in [0..fabric.compute, fabric.compute..fabric.names.len()] {
            for at in range.clone().skip(1) {
                order.swap(at, dice.pick(range.start, at));
            }
        }
        let mut other = fabric.clone();
        other.weights = vec![0; fabric.compute];
        for (node, &place) in order[..fabric.compute].iter().enumerate() {
            other.weights[place as usize] = fabric.weight(node);
        }
        other.links.iter_mut().for_each(|link| (link.0, link.1) = (order[link.0 as usize], order[link.1 as usize]));
        prop_assert_eq!(best(&fabric), best(&other));
    }

    #[test]
    fn more_bandwidth_never_slows_down(fabric in small(), a in any::<u32>(), b in any::<u32>(), rate in 1_u64..20) {
        let nodes = fabric.names.len() as u32;
        let (a, b) = (a % nodes, b % nodes);
        prop_assume!(a != b);
        let mut more = fabric.clone();
        more.links.extend([(a, b, Rational::from(rate)), (b, a, Rational::from(rate))]);
        prop_assert!(best(&more).0 <= best(&fabric).0);
    }

    #[test]
    fn a_switch_between_two_nodes_is_a_link(fabric in small(), rate in 1_u64..20) {
        let (mut direct, mut through) = (fabric.clone(), fabric.clone());
        let switch = fabric.names.len() as u32;
        through.names.push("between".into());
        for (a, b) in [(0, 1), (1, 0)] {
            direct.links.push((a, b, Rational::from(rate)));
            through.links.extend([(a, switch, Rational::from(rate)), (switch, b, Rational::from(rate))]);
        }
        prop_assert_eq!(best(&direct).0, best(&through).0);
    }

    #[test]
    fn threads_do_not_matter(fabric in small()) {
        let one = plan(&fabric, Collective::AllReduce, &Options::default(), &Run::quiet(1));
        let four = plan(&fabric, Collective::AllReduce, &Options::default(), &Run::quiet(4));
        prop_assert_eq!(one, four);
    }

    #[test]
    fn the_other_collectives(fabric in small(), root in 0_usize..2) {
        let run = Run::quiet(1);
        let scatter = plan(&fabric, Collective::ReduceScatter, &Options::default(), &run).expect("a plan");
        prop_assert_eq!(scatter.forests[0].direction, Direction::In);
        check(&fabric, &scatter.forests[0]).map_err(TestCaseError::fail)?;
        prop_assert_eq!(scatter.optimum.inverse_x, best(&fabric).0);
        // Turned round it is an all-gather of the transposed fabric.
        check(&fabric.transposed(), &scatter.forests[0].clone().reversed()).map_err(TestCaseError::fail)?;

        let broadcast = plan(&fabric, Collective::Broadcast { root }, &Options::default(), &run).expect("a plan");
        check_optimal(&fabric.rooted(root), &broadcast.optimum, &broadcast.forests[0]).map_err(TestCaseError::fail)?;
        let reduce = plan(&fabric, Collective::Reduce { root }, &Options::default(), &run).expect("a plan");
        check(&fabric.rooted(root), &reduce.forests[0]).map_err(TestCaseError::fail)?;

        let both = plan(&fabric, Collective::AllReduce, &Options::default(), &run).expect("a plan");
        prop_assert_eq!(both.forests.iter().map(|forest| forest.direction).collect::<Vec<_>>(), [Direction::In, Direction::Out]);
        both.forests.iter().try_for_each(|forest| check(&fabric, forest)).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn switches_that_copy_or_add_lower_loads(fabric in small(), which in any::<u16>()) {
        let mut able = fabric.clone();
        able.multicast = (0..fabric.names.len()).map(|node| node >= fabric.compute && which >> (node % 16) & 1 == 1).collect();
        able.aggregate = able.multicast.iter().map(|multicast| *multicast && which & 1 == 1).collect();
        for collective in [Collective::AllGather, Collective::ReduceScatter] {
            let plain = plan(&able, collective, &Options { in_network: false, ..Options::default() }, &Run::quiet(1)).expect("a plan");
            let pruned = plan(&able, collective, &Options::default(), &Run::quiet(1)).expect("a plan");
            check(&able, &pruned.forests[0]).map_err(TestCaseError::fail)?;
            prop_assert_eq!(plain.optimum, pruned.optimum);
            let before = loads(&plain.forests[0]);
            for (hop, load) in loads(&pruned.forests[0]) {
                prop_assert!(load <= before[&hop]);
            }
        }
    }

    #[test]
    fn fixed_k_is_near_the_optimum(seed in any::<u64>(), compute in 2_usize..10) {
        let fabric = heterogeneous(compute, seed);
        let mut fabric = fabric;
        // Equal rates both ways, so that rounding keeps nodes balanced.
        fabric.links.retain(|(u, v, rate)| u < v && rate.is_integer());
        let back: Vec<_> = fabric.links.iter().map(|(u, v, rate)| (*v, *u, rate.clone())).collect();
        fabric.links.extend(back);
        let least = crate::forestcoll::checker::bandwidths(&fabric).into_values().min().expect("links");
        let (inverse_x, best_k) = best(&fabric);
        for k in (1..6).chain([best_k.min(40)]) {
            let planned = gather(&fabric, &Options { fixed_k: Some(k as i64), ..Options::default() });
            let forest = &planned.forests[0];
            check(&fabric, forest).map_err(TestCaseError::fail)?;
            let per_tree = big(&forest.u) / BigRational::from(BigInt::from(k));
            prop_assert!(per_tree >= big(&inverse_x));
            prop_assert!(per_tree <= big(&inverse_x) + (BigRational::from(BigInt::from(k)) * &least).recip());
            prop_assert!(k % best_k > 0 || per_tree == big(&inverse_x));
        }
    }
}

#[test]
fn equal_shares_are_no_shares() {
    for fabric in [a100(3), mi250(2)] {
        let shared = Fabric { weights: vec![1; fabric.compute], ..fabric.clone() };
        assert_eq!(gather(&fabric, &Options::default()), gather(&shared, &Options::default()));
    }
}

#[test]
fn large_numbers_need_no_more_trees_of_different_shape() {
    let mut fabric = mi250(2);
    fabric.links.iter_mut().for_each(|link| link.2 = &link.2 * &Rational::from(1_000_003));
    // A pair of links one faster: the bandwidths have no common divisor any more.
    for at in [0, 1] {
        fabric.links[at].2 += &Rational::ONE;
    }
    let planned = gather(&fabric, &Options::default());
    assert!(planned.optimum.k > 1_000_000, "k = {}", planned.optimum.k);
    check_optimal(&fabric, &planned.optimum, &planned.forests[0]).expect("the checker agrees");
    assert!(planned.forests[0].batches() < 2_000, "{} batches", planned.forests[0].batches());
}

#[test]
fn closed_forms_of_large_fabrics() {
    for boxes in [3_usize, 4, 9] {
        let (n, best) = (boxes as i128, best(&a100(boxes)).0);
        assert_eq!(Some(best), Rational::new(8 * (n - 1), 200));
    }
    for boxes in [5_usize, 8] {
        let (n, best) = (boxes as i128, best(&h100(boxes)).0);
        assert_eq!(Some(best), Rational::new(8 * (n - 1), 400));
    }
    for boxes in [4_usize, 6] {
        let (n, best) = (boxes as i128, best(&mi250(boxes)).0);
        assert_eq!(Some(best), Rational::new(16 * (n - 1), 256));
    }
}

#[test]
fn symmetry_gives_the_same_rate_in_fewer_batches() {
    for fabric in [a100(4), a100(6), h100(8), mi250(4)] {
        let quick = gather(&fabric, &Options::default());
        let general = gather(&fabric, &Options { symmetry: false, ..Options::default() });
        assert_eq!(quick.optimum, general.optimum);
        for planned in [&quick, &general] {
            check_optimal(&fabric, &planned.optimum, &planned.forests[0]).expect("the checker agrees");
        }
        // The same trees in every box: only the construction from symmetry does that.
        assert_eq!(
            quick.forests[0].batches() % fabric.boxes.iter().flatten().max().map_or(1, |last| *last as usize + 1),
            0
        );
        assert!(quick.forests[0].batches() <= 2 * fabric.compute, "{} batches", quick.forests[0].batches());
        // Without the hint the boxes are found all the same.
        assert_eq!(gather(&Fabric { boxes: Vec::new(), ..fabric.clone() }, &Options::default()), quick);
    }
}

#[test]
fn multicast_in_box_switches_relieves_the_gpus() {
    let mut fabric = a100(4);
    fabric.multicast = fabric.names.iter().map(|name| name.starts_with("nv")).collect();
    let planned = gather(&fabric, &Options::default());
    let forest = &planned.forests[0];
    check(&fabric, forest).expect("the checker agrees");
    let plain = gather(&fabric, &Options { in_network: false, ..Options::default() });
    let uplinks = |planned: &Planned| -> u64 {
        let loads = loads(&planned.forests[0]);
        loads
            .iter()
            .filter(|((from, to), _)| (*from as usize) < 32 && fabric.multicast[*to as usize])
            .map(|(_, load)| load)
            .sum()
    };
    // Each of 32 trees enters the switch of each of 4 boxes once.
    assert_eq!(uplinks(&planned), 32 * 4);
    assert!(uplinks(&plain) > 32 * 4);
}
