//! Expanded schedules do their collective at the cost that the formulas say.

use proptest::prelude::*;

use super::*;
use crate::direct::bfb::{fewest_steps, least_bandwidth};
use crate::direct::family::Family;
use crate::direct::replay::replay;
use crate::direct::testing::{diameter, slow_gather};
use crate::direct::{Cost, Edge, Expr};
use sluice_formats::quantity::Rational;

fn graph(text: &str) -> Graph {
    Expr::parse(text).expect(text).graph().expect(text)
}

fn figures(cost: &Cost) -> cost::StepsAndTime {
    (cost.t_l(), cost.t_b.clone().expect("a regular graph"))
}

/// Bases with parallel links, self-loops, one way and both ways.
const BASES: [&str; 9] =
    ["K(3)", "K(2,2)", "UniRing(1,3)", "UniRing(2,3)", "BiRing(2,4)", "Pi(2,5)", "DBJ(2,2)", "DC(5,{1,2})", "Q(2)"];

#[test]
fn line_expansions_cost_at_most_what_the_formula_says() {
    for text in BASES {
        for units in [1, 2] {
            let base = graph(text);
            let schedule = slow_gather(&base, units);
            let before = figures(&replay(&base, &schedule).expect(text));
            if base.degree() == Ok(1) {
                assert_eq!(line(&base), Err(Refusal::DegreeTooSmall { degree: 1 }), "{text}");
                continue;
            }
            let (grown, longer) = (line(&base).expect(text), line_schedule(&base, &schedule).expect(text));
            assert_eq!(grown.degree(), base.degree(), "{text}");
            assert_eq!(grown.n() as usize, base.edges().len(), "{text}");
            let after = figures(&replay(&grown, &longer).unwrap_or_else(|wrong| panic!("{text}: {wrong}")));
            let said = cost::line(&before, base.n());
            assert_eq!(after.0, said.0, "{text}");
            assert!(after.1 <= said.1, "{text}: {} over {}", after.1, said.1);
        }
    }
}

#[test]
fn degree_expansions_cost_exactly_what_the_formula_says() {
    for text in BASES {
        for copies in [1, 2, 3] {
            let base = graph(text);
            let schedule = slow_gather(&base, 2);
            if let Some(vertex) = base.self_loop() {
                assert_eq!(degree(&base, copies), Err(Refusal::SelfLoop { vertex }), "{text}");
                continue;
            }
            let before = figures(&replay(&base, &schedule).expect(text));
            let grown = degree(&base, copies).expect(text);
            let longer = degree_schedule(&base, &schedule, copies).expect(text);
            assert_eq!(grown.degree().ok(), base.degree().ok().map(|d| d * copies), "{text}");
            let cost = replay(&grown, &longer).unwrap_or_else(|wrong| panic!("{text}*{copies}: {wrong}"));
            if copies > 1 {
                assert_eq!(figures(&cost), cost::degree(&before, base.n(), copies), "{text}*{copies}");
            } else {
                assert_eq!(cost.t_b, Some(before.1), "{text}");
            }
        }
    }
}

#[test]
fn powers_cost_exactly_what_the_formula_says() {
    for (text, exponent) in [("K(3)", 2), ("UniRing(2,3)", 3), ("Pi(2,5)", 2), ("DBJ(2,2)", 2), ("K(2)", 4)] {
        let base = graph(text);
        let schedule = slow_gather(&base, 1);
        let before = figures(&replay(&base, &schedule).expect(text));
        let (grown, longer) =
            (power(&base, exponent).expect(text), power_schedule(&base, &schedule, exponent).expect(text));
        let after = figures(&replay(&grown, &longer).unwrap_or_else(|wrong| panic!("{text}^{exponent}: {wrong}")));
        assert_eq!(after, cost::power(&before, base.n(), exponent), "{text}^{exponent}");
    }
}

#[test]
fn both_ways_cost_what_one_way_costs() {
    for text in ["UniRing(1,5)", "UniRing(2,3)", "DC(8,{1,3})", "DBJ(2,3)", "Kautz(2,1)", "K(3)"] {
        let expr = Expr::parse(text).expect(text);
        let base = graph(text);
        let schedule = slow_gather(&base, 2);
        let mirror = expr.mirror().expect(text);
        let both = bidirectional(&base).expect(text);
        let halves = bidirectional_schedule(&base, &schedule, &mirror).expect(text);
        assert!(both.is_bidirectional(), "{text}");
        let cost = replay(&both, &halves).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        assert_eq!(figures(&cost), figures(&replay(&base, &schedule).expect(text)), "{text}");
    }
    let base = graph("DC(8,{1,3})");
    let schedule = slow_gather(&base, 1);
    let same: Vec<u32> = (0..8).collect();
    for wrong in [&same[..], &[0; 8], &[9; 8], &[0]] {
        assert_eq!(bidirectional_schedule(&base, &schedule, wrong), Err(Refusal::NotReverseSymmetric));
    }
}

#[test]
fn products_add_degrees_and_distances() {
    let (one, other, third) = (graph("UniRing(1,4)"), graph("K(3)"), graph("Pi(2,5)"));
    let product = product(&[&one, &other, &third]).unwrap();
    assert_eq!((product.n(), product.degree()), (60, Ok(5)));
    assert_eq!(diameter(&product), 3 + 1 + diameter(&third));
    // Vertex (1,2,0) is 1·15+2·5+0 = 25; along the first coordinate it leads to (2,2,0) = 40.
    assert!(product.edges()[..60].contains(&Edge { tail: 25, head: 40 }));
    assert_eq!(graph("(UniRing(1,4) x K(3)) x Pi(2,5)"), product);
}

#[test]
fn what_cannot_be_expanded_is_refused_before_it_is_made() {
    let ring = graph("UniRing(1,4)");
    let schedule = slow_gather(&ring, 1);
    assert!(matches!(degree(&ring, 1 << 19), Err(Refusal::TopologyTooLarge { .. })));
    assert!(matches!(degree(&ring, u32::MAX), Err(Refusal::TopologyTooLarge { .. })));
    assert!(matches!(power(&ring, u32::MAX), Err(Refusal::TopologyTooLarge { .. })));
    assert_eq!(degree(&ring, 0), Err(Refusal::EmptyTopology));
    assert_eq!(power(&ring, 0), Err(Refusal::EmptyTopology));
    assert_eq!(power(&Family::Complete { m: 1 }.graph().unwrap(), u32::MAX).map(|graph| graph.n()), Ok(1));
    assert!(matches!(power_schedule(&ring, &schedule, 9), Err(Refusal::InvalidChunking { .. })));
    assert!(matches!(power_schedule(&ring, &schedule, u32::MAX), Err(Refusal::InvalidChunking { .. })));
    assert!(matches!(degree_schedule(&ring, &schedule, 1 << 16), Err(Refusal::InvalidChunking { .. })));
    let mut turned = schedule.transposed();
    assert_eq!(line_schedule(&graph("UniRing(2,4)"), &turned).unwrap_err().code(), "INTERNAL_INVARIANT");
    turned.shape = Shape::AllGather;
    turned.sends[0].edge = 99;
    assert_eq!(power_schedule(&ring, &turned, 2).unwrap_err().code(), "INTERNAL_INVARIANT");
}

proptest! {
    /// Random circulants, twice expanded: every expansion takes the result of another.
    #[test]
    fn expansions_of_expansions_are_valid(n in 2..5_u32, offset in 1..4_u32, units in 1..3_u32) {
        let offsets = vec![1, 1 + offset % (n - 1)];
        let base = Family::DirectedCirculant { n, offsets }.graph().unwrap();
        let schedule = slow_gather(&base, units);
        let (wide, wide_schedule) = (degree(&base, 2).unwrap(), degree_schedule(&base, &schedule, 2).unwrap());
        let one = replay(&wide, &wide_schedule);
        prop_assert!(one.is_ok(), "{one:?}");
        let (long, long_schedule) = (line(&base).unwrap(), line_schedule(&base, &schedule).unwrap());
        let grown = power_schedule(&base, &schedule, 2).unwrap();
        prop_assert!(replay(&power(&base, 2).unwrap(), &grown).is_ok());
        let twice = line_schedule(&long, &long_schedule).unwrap();
        let two = replay(&line(&long).unwrap(), &twice);
        prop_assert!(two.is_ok(), "{two:?}");
    }

    /// A line graph has the fewest steps if and only if its base has: both bounds grow by one.
    #[test]
    fn line_graphs_keep_the_fewest_steps(n in 2..5000_u32, d in 2..9_u32) {
        prop_assert_eq!(fewest_steps(n * d, d), fewest_steps(n, d).map(|steps| steps + 1));
    }

    /// However often a base of the least time is expanded, it takes at most 1 + 1/((d−1)N) of the least time.
    #[test]
    fn line_graphs_stay_near_the_least_time(n in 2..200_u32, d in 2..6_u32, times in 1..5_u32) {
        let mut cost = (1, least_bandwidth(n));
        let mut size = n;
        for _ in 0..times {
            cost = cost::line(&cost, size);
            size *= d;
        }
        let most = &Rational::ONE + &cost::fraction(1, u64::from((d - 1) * n));
        prop_assert!(cost.1 <= &most * &least_bandwidth(size));
    }
}
