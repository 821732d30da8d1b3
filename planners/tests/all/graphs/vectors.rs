//! Loads of every step and τ of the best breadth-first all-gather, for the graphs of the published tables (L. Zhao,
//! dissertation, tables 3.4, 3.5, A.1, A.2, A.3 and figures) and for graphs that were recomputed independently.

use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::direct::bfb::{self, fewest_steps, least_bandwidth};
use sluice_planners::direct::{Expr, Graph};

/// Expression, loads in shards, τ.
const VECTORS: [(&str, &str, &str); 58] = [
    ("K(5)", "1", "4/5"),
    ("K(3)*2", "1, 1/4", "5/6"),
    ("C(7,{2,3})", "1, 1/2", "6/7"),
    ("K(4,4)", "1, 3/4", "7/8"),
    ("H(2,3)", "1, 1", "8/9"),
    ("BiRing(2,5)*2", "1, 5/4", "9/10"),
    ("C(11,{2,3})", "1, 3/2", "10/11"),
    ("C(12,{2,3})", "1, 7/4", "11/12"),
    ("K(2,2)", "1, 1/2", "3/4"),
    ("L(K(2,2))", "1, 2, 1", "1"),
    ("L(K(4,4))", "1, 4, 3", "1"),
    ("L^2(K(4,4))", "1, 4, 16, 12", "33/32"),
    ("L^3(K(4,4))", "1, 4, 16, 64, 48", "133/128"),
    ("Pi(4,64)", "1, 4, 16", "21/16"),
    ("Pi(4,1024)", "1, 4, 16, 64, 256", "341/256"),
    ("DBJ(4,4)", "1, 4, 16, 64", "85/64"),
    ("L^3(C(16,{3,4}))", "1, 4, 16, 64, 112, 64", "261/256"),
    (
        "(UniRing(1,4) x UniRing(1,8))^2",
        "1, 5/2, 5, 33/4, 12, 16, 20, 47/2, 26, 27, 26, 47/2, 20, 16, 12, 33/4, 5, 5/2, 1, 1/4",
        "1023/1024",
    ),
    ("BiRing(2,8) x UniRing(1,4)^2", "1, 9/4, 4, 11/2, 6, 11/2, 4, 9/4, 1, 1/4", "127/128"),
    ("UniRing(1,4)^3 x UniRing(1,8)", "1, 5/2, 5, 8, 11, 27/2, 15, 31/2, 15, 27/2, 11, 8, 5, 5/2, 1, 1/4", "511/512"),
    ("L(UniRing(1,4)^3 x UniRing(1,2))", "1, 4, 9, 16, 22, 24, 22, 16, 9, 4, 1", "1"),
    ("DistReg(4,6)", "1, 1/4", "5/6"),
    ("DistReg(4,9)", "1, 1", "8/9"),
    ("DistReg(4,10)", "1, 1, 1/4", "9/10"),
    ("DistReg(4,14)", "1, 3/2, 3/4", "13/14"),
    ("DistReg(4,15)", "1, 2, 1/2", "14/15"),
    ("DistReg(4,16)", "1, 3/2, 1, 1/4", "15/16"),
    ("DistReg(4,21)", "1, 2, 2", "20/21"),
    ("DistReg(4,26)", "1, 3, 9/4", "25/26"),
    ("DistReg(4,32)", "1, 3, 3, 3/4", "31/32"),
    ("DistReg(4,35)", "1, 3, 9/2", "34/35"),
    ("DistReg(4,45)", "1, 2, 4, 4", "44/45"),
    ("DistReg(4,70)", "1, 3, 9/2, 9/2, 3, 1, 1/4", "69/70"),
    ("DistReg(4,80)", "1, 3, 9, 27/4", "79/80"),
    ("DistReg(4,189)", "1, 2, 4, 8, 16, 16", "188/189"),
    ("DistReg(4,728)", "1, 3, 9, 27, 81, 243/4", "727/728"),
    ("Q(3)", "1, 1, 1/3", "7/8"),
    ("TQ(3)", "1, 4/3", "7/8"),
    ("Torus(3,3,2)", "1, 8/5, 4/5", "17/18"),
    ("Torus(3,3,3,2)", "1, 18/7, 20/7, 8/7", "53/54"),
    ("Torus(4,6)", "1, 7/4, 7/4, 1, 1/4", "23/24"),
    ("DC(6,{1,2,3,4})", "1, 1/4", "5/6"),
    ("DBJ(2,3)", "1, 2, 4", "7/4"),
    ("Pi(2,9)", "1, 2, 4", "14/9"),
    ("C(15,{1,4,5})", "1, 3/2", "1"),
    ("C(18,{1,5,6})", "1, 3/2, 3/4", "13/12"),
    ("C(6,{1,3},double)", "1, 1/2", "1"),
    ("L(UniRing(1,4)*2)", "1, 2, 2, 3/2, 1", "15/16"),
    ("Pi(2,6)*2", "1, 2", "1"),
    ("UniRing(2,4) x UniRing(1,3)", "1, 1, 1, 2/3, 1/3", "1"),
    ("DC(8,{1,3})", "1, 3/2, 1", "7/8"),
    ("DC(32,{1,4,9,15})", "1, 5/2, 7/2, 3/4", "31/32"),
    ("MC(16,4,13,0;(13,1),(5,0),(11,2),(14,3))", "1, 4, 8, 11/4", "63/64"),
    ("MC(8,2,7,0;(6,0),(1,0),(7,1),(2,1))", "1, 3", "1"),
    ("MC(8,2,3,4;(5,0),(0,1))", "1, 2, 3, 3/2", "15/16"),
    ("DC(64,{1,29,49,60})", "1, 5/2, 19/4, 21/4, 9/4", "63/64"),
    ("DC(128,{1,57,111,118})", "1, 5/2, 5, 31/4, 17/2, 23/4, 5/4", "127/128"),
    ("UniRing(1,3)*3", "1, 1, 2/3", "8/9"),
];

fn graph(text: &str) -> Graph {
    let expr = Expr::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
    assert_eq!(expr.to_string(), text);
    expr.graph().unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

#[test]
fn loads_and_times_are_those_of_the_tables() {
    for (text, loads, time) in VECTORS {
        let graph = graph(text);
        let cost = bfb::cost(&graph, &Run::quiet(2)).expect(text);
        let written: Vec<String> = cost.loads.iter().map(Rational::to_string).collect();
        assert_eq!(
            (written.join(", ").as_str(), cost.t_b.as_ref().map(Rational::to_string).as_deref()),
            (loads, Some(time)),
            "{text}"
        );
    }
}

#[test]
fn what_holds_for_one_receiver_holds_for_all() {
    for (text, _, _) in VECTORS {
        let graph = graph(text);
        if graph.n() <= 256 {
            let unmarked = Graph::new(graph.n(), graph.edges().to_vec()).expect(text);
            assert_eq!(bfb::cost(&unmarked, &Run::quiet(2)), bfb::cost(&graph, &Run::quiet(2)), "{text}");
        }
    }
}

/// Reduce-scatters run as the all-gathers of the transposed graph, and are not always as fast.
#[test]
fn transposed_graphs_have_times_of_their_own() {
    for (text, time) in [("T(Pi(2,9))", "10/9"), ("T(Pi(4,64))", "21/16")] {
        assert_eq!(bfb::cost(&graph(text), &Run::quiet(2)).expect(text).t_b, Rational::parse(time).ok(), "{text}");
    }
}

#[test]
fn generalized_kautz_graphs_stay_within_twice_the_least_time() {
    for (d, m, steps, time) in [(2, 50, 6, "49/25"), (4, 500, 5, "33/25"), (8, 1000, 4, "999/875")] {
        let cost = bfb::cost(&graph(&format!("Pi({d},{m})")), &Run::quiet(2)).expect("a cost");
        assert_eq!((cost.t_l(), cost.t_b), (steps, Rational::parse(time).ok()), "Pi({d},{m})");
    }
    for (d, sizes) in [(2, 3..80), (4, 5..120), (8, 9..60)] {
        for m in sizes {
            let cost = bfb::cost(&graph(&format!("Pi({d},{m})")), &Run::quiet(1)).expect("a cost");
            assert!(cost.t_b.expect("regular") <= &Rational::from(2) * &least_bandwidth(m), "Pi({d},{m})");
            assert!(cost.loads.len() as u32 <= fewest_steps(m, d).expect("a degree") + 1, "Pi({d},{m})");
        }
    }
}

#[test]
fn tori_rings_and_two_offsets_take_the_least_time() {
    let twisted =
        (3..=5).flat_map(|a| (3..=5).flat_map(move |b| (0..a).map(move |s| format!("TwistedTorus({a},{b},{s})"))));
    let tori = (2..=5).flat_map(|a| (1..=5).map(move |b| format!("Torus({a},{b},3)")));
    let circulants = (7..=24).flat_map(|n: u32| {
        let pairs = (1..n.div_ceil(2)).flat_map(move |a| (a + 1..n.div_ceil(2)).map(move |b| (a, b)));
        let joined = pairs.filter(move |(a, b)| {
            (1..=n).filter(|k| n.is_multiple_of(*k) && a.is_multiple_of(*k) && b.is_multiple_of(*k)).count() == 1
        });
        joined.map(move |(a, b)| format!("C({n},{{{a},{b}}})"))
    });
    for text in twisted.chain(tori).chain(circulants) {
        let graph = graph(&text);
        let cost = bfb::cost(&graph, &Run::quiet(1)).expect("a cost");
        assert_eq!(cost.t_b, Some(least_bandwidth(graph.n())), "{text}");
    }
}
