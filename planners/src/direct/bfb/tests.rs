//! Vectors, the reference, and the properties of the cost.

use proptest::prelude::*;

use super::samples::*;
use super::*;

fn exact(text: &str) -> Rational {
    Rational::parse(text).unwrap()
}

/// Loads as written in the tables: fractions, comma, blank.
fn check(name: &str, graph: &Graph, loads: &str, t_b: Option<&str>) {
    let cost = cost(graph, &Run::quiet(2)).unwrap();
    let wanted: Vec<Rational> = loads.split(", ").map(exact).collect();
    assert_eq!(cost.loads, wanted, "{name}");
    assert_eq!(cost.t_b, t_b.map(exact), "{name}");
}

#[test]
fn the_vectors_of_simple_graphs() {
    let complete = |n: u32| directed(n, &(1..n).collect::<Vec<_>>());
    let bitwise = |n, edges: &[(u32, u32)]| graph(n, edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]));
    let twisted =
        bitwise(8, &[(0, 5), (1, 4), (2, 3), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (0, 4), (1, 5), (2, 6), (3, 7)]);
    let half_doubled = directed(6, &[1, 5, 3, 3]);
    let bruijn = regular(8, 2, &|v, place| (2 * v + place) % 8);
    let uni = |n| directed(n, &[1]);
    check("K5", &complete(5), "1", Some("4/5"));
    check("K3*2", &copies(&complete(3), 2), "1, 1/4", Some("5/6"));
    check("C(7,{2,3})", &circulant(7, &[2, 3]), "1, 1/2", Some("6/7"));
    check("K4,4", &bipartite(4), "1, 3/4", Some("7/8"));
    check("H(2,3)", &product(&complete(3), &complete(3)), "1, 1", Some("8/9"));
    check("BiRing(2,5)*2", &copies(&circulant(5, &[1]), 2), "1, 5/4", Some("9/10"));
    check("C(11,{2,3})", &circulant(11, &[2, 3]), "1, 3/2", Some("10/11"));
    check("C(12,{2,3})", &circulant(12, &[2, 3]), "1, 7/4", Some("11/12"));
    check("K2,2", &bipartite(2), "1, 1/2", Some("3/4"));
    check("L(K2,2)", &line(&bipartite(2)), "1, 2, 1", Some("1"));
    check("L(K4,4)", &line(&bipartite(4)), "1, 4, 3", Some("1"));
    check("L^2(K4,4)", &line(&line(&bipartite(4))), "1, 4, 16, 12", Some("33/32"));
    check("Pi(4,64)", &kautz(4, 64), "1, 4, 16", Some("21/16"));
    check("Pi(2,9)", &kautz(2, 9), "1, 2, 4", Some("14/9"));
    check("Q3", &hypercube(3), "1, 1, 1/3", Some("7/8"));
    check("TQ3", &twisted, "1, 4/3", Some("7/8"));
    check("Torus 3x3x2", &torus(&[3, 3, 2]), "1, 8/5, 4/5", Some("17/18"));
    check("Torus 3x3x3x2", &torus(&[3, 3, 3, 2]), "1, 18/7, 20/7, 8/7", Some("53/54"));
    check("Torus 4x6", &torus(&[4, 6]), "1, 7/4, 7/4, 1, 1/4", Some("23/24"));
    check("DC(6)", &directed(6, &[1, 2, 3, 4]), "1, 1/4", Some("5/6"));
    check("DBJ(2,3)", &bruijn, "1, 2, 4", Some("7/4"));
    check("C(15,{1,4,5})", &circulant(15, &[1, 4, 5]), "1, 3/2", Some("1"));
    check("C(18,{1,5,6})", &circulant(18, &[1, 5, 6]), "1, 3/2, 3/4", Some("13/12"));
    check("C(6,{1,3}) doubled", &half_doubled, "1, 1/2", Some("1"));
    check("L(UniRing(1,4)*2)", &line(&copies(&uni(4), 2)), "1, 2, 2, 3/2, 1", Some("15/16"));
    check("Pi(2,6)*2", &copies(&kautz(2, 6), 2), "1, 2", Some("1"));
    check("UniRing(2,4)xUniRing(1,3)", &product(&directed(4, &[1, 1]), &uni(3)), "1, 1, 1, 2/3, 1/3", Some("1"));
    check("DC(8,{1,3})", &directed(8, &[1, 3]), "1, 3/2, 1", Some("7/8"));
    check("DC(32,{1,4,9,15})", &directed(32, &[1, 4, 9, 15]), "1, 5/2, 7/2, 3/4", Some("31/32"));
    check("DC(64,…)", &directed(64, &[1, 29, 49, 60]), "1, 5/2, 19/4, 21/4, 9/4", Some("63/64"));
    check("UniRing(1,3)*3", &copies(&uni(3), 3), "1, 1, 2/3", Some("8/9"));
    check("Star5", &bitwise(5, &[(0, 1), (0, 2), (0, 3), (0, 4)]), "1, 3", None);
    check("Path4", &bitwise(4, &[(0, 1), (1, 2), (2, 3)]), "1, 1, 1", None);
}

#[test]
fn the_vectors_of_generalized_kautz_graphs_and_their_transposes() {
    let t_b = |graph: &Graph| cost(graph, &Run::quiet(2)).unwrap().t_b.unwrap();
    assert_eq!(t_b(&kautz(2, 50)), exact("49/25"));
    assert_eq!(t_b(&kautz(4, 500)), exact("33/25"));
    assert_eq!(t_b(&kautz(2, 9).transposed()), exact("10/9"));
    assert_eq!(t_b(&kautz(4, 64).transposed()), exact("21/16"));
}

#[test]
fn large_symmetric_graphs_reach_the_bound() {
    for (graph, steps) in [(hypercube(10), 10), (torus(&[50, 50]), 50)] {
        let cost = cost(&graph, &Run::quiet(2)).unwrap();
        assert_eq!(cost.t_l(), steps);
        assert_eq!(cost.t_b, Some(least_bandwidth(graph.n())));
    }
}

#[test]
fn one_receiver_stands_for_all_where_the_generator_says_so() {
    for symmetric in [hypercube(6), torus(&[5, 4]), directed(64, &[1, 29, 49, 60]), circulant(18, &[1, 5, 6])] {
        let plain = symmetric.clone().with_symmetry(Symmetry::None);
        assert_eq!(cost(&symmetric, &Run::quiet(1)), cost(&plain, &Run::quiet(2)));
    }
}

#[test]
fn the_trivial_graph_costs_nothing() {
    for pairs in [vec![], vec![(0, 0)]] {
        let cost = cost(&graph(1, pairs), &Run::quiet(2)).unwrap();
        assert_eq!((cost.t_l(), cost.load_sum), (0, Rational::ZERO));
        assert_eq!(cost.t_b, Some(Rational::ZERO));
    }
}

#[test]
fn a_vertex_that_nobody_reaches_is_named() {
    let refused = |n, pairs: &[(u32, u32)]| cost(&graph(n, pairs.iter().copied()), &Run::quiet(1)).unwrap_err();
    assert_eq!(refused(3, &[(0, 1), (1, 0), (2, 0)]), Refusal::NotStronglyConnected { from: 0, to: 2 });
    assert_eq!(refused(3, &[(0, 1), (1, 0), (0, 2)]), Refusal::NotStronglyConnected { from: 2, to: 0 });
    assert_eq!(refused(2, &[(0, 0), (1, 1)]), Refusal::NotStronglyConnected { from: 1, to: 0 });
}

#[test]
fn a_hub_beyond_memory_is_refused() {
    let n = 20_000;
    let star = graph(n, (1..n).flat_map(|leaf| [(0, leaf), (leaf, 0)]));
    let refusal = cost(&star, &Run::quiet(1)).unwrap_err();
    assert!(matches!(refusal, Refusal::TooManyNeighbours { vertex: 0, found: 19_999, .. }), "{refusal}");
    assert_eq!(refusal.code(), "TopologyTooLarge");
}

#[test]
fn more_than_64_neighbours_are_as_good_as_few() {
    let many = bipartite(100);
    assert_eq!(cost(&many, &Run::quiet(2)).unwrap().loads, [exact("1"), exact("99/100")]);
}

#[test]
fn the_moore_bound() {
    assert_eq!([1, 5, 6, 21, 22].map(|n| fewest_steps(n, 4)), [0, 1, 2, 2, 3].map(Some));
    assert_eq!((fewest_steps(9, 1), fewest_steps(2, 0), fewest_steps(1, 0)), (Some(8), None, Some(0)));
}

proptest! {
    /// P15: by flow as by definition, with any number of threads.
    #[test]
    fn it_agrees_with_the_definition((n, pairs) in multigraphs()) {
        let graph = graph(n, pairs);
        let found = cost(&graph, &Run::quiet(1)).unwrap();
        prop_assert_eq!(&found.loads, &reference::loads(&graph));
        prop_assert_eq!(cost(&graph, &Run::quiet(3)).unwrap(), found);
    }

    /// P2: the bounds hold.
    #[test]
    fn no_cost_is_below_the_bounds(n in 3..40_u32, d in 2..5_u32) {
        prop_assume!(n > d);
        let graph = kautz(d, n);
        let cost = cost(&graph, &Run::quiet(2)).unwrap();
        let far = reference::distances(&graph).into_iter().flatten().flatten().max();
        prop_assert_eq!(Some(cost.t_l()), far);
        prop_assert!(Some(cost.t_l()) >= fewest_steps(n, d));
        prop_assert!(cost.t_b.unwrap() >= least_bandwidth(n));
    }

    /// P3: other numbers for vertices and edges change nothing.
    #[test]
    fn names_do_not_matter((n, pairs) in multigraphs(), seed: u64) {
        let shuffle = |count: usize, salt: u64| {
            let mut order: Vec<u32> = (0..count as u32).collect();
            order.sort_by_key(|place| (u64::from(*place) + 1).wrapping_mul(seed | 1).rotate_left(17) ^ salt);
            order
        };
        let (names, order) = (shuffle(n as usize, 1), shuffle(pairs.len(), seed));
        let renamed = order.iter().map(|place| pairs[*place as usize]).map(|(a, b)| (names[a as usize], names[b as usize]));
        let renamed = graph(n, renamed.collect::<Vec<_>>());
        prop_assert_eq!(cost(&graph(n, pairs), &Run::quiet(1)).unwrap().loads, cost(&renamed, &Run::quiet(1)).unwrap().loads);
    }

    /// P8: k parallel copies of everything divide every load by k.
    #[test]
    fn parallel_copies_divide_the_loads((n, pairs) in multigraphs(), k in 2..5_usize) {
        let once = cost(&graph(n, pairs.clone()), &Run::quiet(1)).unwrap();
        let often = cost(&graph(n, pairs.repeat(k)), &Run::quiet(1)).unwrap();
        let share = Rational::new(1, k as i128).unwrap();
        prop_assert_eq!(often.loads, once.loads.iter().map(|load| load * &share).collect::<Vec<_>>());
        prop_assert_eq!(often.t_b, once.t_b);
    }

    /// P8: one more edge never makes it impossible.
    #[test]
    fn an_edge_more_breaks_nothing((n, pairs) in multigraphs(), more in (0..8_u32, 0..8_u32)) {
        let wider = graph(n, [pairs, vec![(more.0 % n, more.1 % n)]].concat());
        prop_assert_eq!(cost(&wider, &Run::quiet(1)).unwrap().loads, reference::loads(&wider));
    }
}
