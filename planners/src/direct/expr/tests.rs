//! Expressions are read as they are written, sizes are those of the graphs, mirrors mirror, and nothing panics.

use proptest::prelude::*;

use super::*;
use crate::direct::Symmetry;
use crate::direct::family::{Half, Metacyclic};
use crate::direct::testing::is_vertex_transitive;

fn read(text: &str) -> Expr {
    Expr::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

#[test]
fn the_examples_of_the_format_are_read_and_printed_alike() {
    for text in [
        "K(5)",
        "K(4,4)",
        "L^2(K(4,4))",
        "K(3)*2",
        "BiRing(2,5)*2",
        "(UniRing(1,4) x UniRing(1,8))^2",
        "BiRing(2,8) x UniRing(1,4)^2",
        "L(UniRing(1,4)^3 x UniRing(1,2))",
        "L^3(C(16,{3,4}))",
        "(K(2) x K(3)) x K(4)",
        "K(2) x (K(3) x K(4))",
        "Bi(DC(8,{1,3}))",
        "T(Pi(2,9))",
        "Diamond^2",
        "C(6,{1,3},double) x Torus(3,3,2)",
        "L(MC(16,4,13,0;(13,1),(5,0),(11,2),(14,3)))",
        "K(3)*2^2*3",
    ] {
        assert_eq!(read(text).to_string(), text);
    }
    assert_eq!(read(" ( UniRing( 1 , 4 )xUniRing(1,8))^2 "), read("(UniRing(1,4) x UniRing(1,8))^2"));
    assert_eq!(read("MC(8,2,3,4; (5,0), (0,1))"), read("MC(8,2,3,4;(5,0),(0,1))"));
    assert_eq!(read("L(L(K(3)))").size(), read("L^2(K(3))").size());
    assert_eq!(read("K(3)*2^2").size(), Ok((36, 8)));
}

#[test]
fn mistakes_are_shown_in_their_place() {
    for (text, at, allowed) in [
        ("", 1, "a graph"),
        ("  ", 3, "a graph"),
        ("K", 2, "`(`"),
        ("K(", 3, "a whole number"),
        ("K(5", 4, "`)`"),
        ("K(5))", 5, "the end"),
        ("K(5) y K(3)", 6, "`x`"),
        ("K(5,4)", 1, "equal sides"),
        ("K(5) x Torsu(3,3)", 8, "did you mean `Torus`?"),
        ("L^0(K(3))", 3, "1 to 20"),
        ("L^99(K(3))", 3, "1 to 20"),
        ("K(3)*1", 6, "2 or more"),
        ("K(3)^", 6, "a whole number"),
        ("K(4294967296)", 3, "below 2^32"),
        ("C(7,2,3)", 1, "C(n,{a,b,…})"),
        ("C(7,{2,3},triple)", 1, "single"),
        ("DC(7,{2,3)", 10, "`}`"),
        ("MC(8,2,3,4)", 1, "generators"),
        ("DistReg(3,10)", 1, "DistReg(4,n)"),
        ("(K(3) x K(4)", 13, "`)`"),
    ] {
        let wrong = Expr::parse(text).expect_err(text);
        assert_eq!(wrong.at, at, "{text}: {wrong}");
        assert!(wrong.allowed.contains(allowed), "{text}: {wrong}");
    }
    let deep = format!("{}K(2){}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Expr::parse(&deep).is_err());
    let deep = format!("{}K(2){}", "L(".repeat(MAX_DEPTH as usize), ")".repeat(MAX_DEPTH as usize));
    assert_eq!(Expr::parse(&deep).expect_err("too deep").at, 2 * MAX_DEPTH as usize + 1);
    assert!(Expr::parse(&format!("K(2){}", "^2".repeat(50))).is_err());
    assert!(Expr::parse(&format!("K(2){}", " x K(2)".repeat(50))).is_err());
}

#[test]
fn sizes_are_known_before_anything_is_built() {
    for (text, size) in [
        ("L^3(C(16,{3,4}))", (1024, 4)),
        ("(UniRing(1,4) x UniRing(1,8))^2", (1024, 4)),
        ("Bi(DC(8,{1,3}))", (8, 4)),
        ("T(Pi(2,9))", (9, 2)),
        ("BiRing(2,5)*2", (10, 4)),
    ] {
        let expr = read(text);
        assert_eq!(expr.size(), Ok(size), "{text}");
        let graph = expr.graph().expect(text);
        assert_eq!((graph.n(), graph.degree()), (size.0, Ok(size.1)), "{text}");
    }
    for text in ["K(1000)^9", "L^20(K(9))", "K(2)*4294967295*4294967295", "UniRing(1,2)^2^2^2^2^2^2", "Bi(K(4097))"] {
        assert_eq!(read(text).graph().expect_err(text).code(), "TopologyTooLarge", "{text}");
    }
    assert_eq!(read("L(UniRing(1,4))").graph(), Err(Refusal::DegreeTooSmall { degree: 1 }));
    assert_eq!(read("DBJ(2,2)*2").graph(), Err(Refusal::SelfLoop { vertex: 0 }));
    assert!(!read("L^2(Diamond^2)").is_constructible() && read("L^2(Diamond^2)").graph().is_err());
}

#[test]
fn mirrors_map_onto_the_transpose() {
    for text in [
        "K(4)",
        "UniRing(2,5)",
        "DC(8,{1,3})",
        "DBJ(2,3)",
        "DBJ(3,2)",
        "Kautz(2,2)",
        "L^2(K(2,2))",
        "L(DC(8,{1,3}))",
        "UniRing(1,4)*2",
        "(UniRing(1,3) x K(2,2))^2",
        "T(DC(8,{1,3}))",
        "Bi(Pi(2,9))",
        "MC(8,2,3,4;(5,0),(0,1))",
    ] {
        let expr = read(text);
        let map = expr.mirror().unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        let graph = expr.graph().expect(text);
        let mut image: Vec<(u32, u32)> =
            graph.edges().iter().map(|edge| (map[edge.head as usize], map[edge.tail as usize])).collect();
        let mut edges: Vec<(u32, u32)> = graph.edges().iter().map(|edge| (edge.tail, edge.head)).collect();
        image.sort_unstable();
        edges.sort_unstable();
        assert_eq!(image, edges, "{text}");
    }
    for text in ["Pi(2,9)", "MC(16,4,13,0;(13,1),(5,0),(11,2),(14,3))"] {
        assert_eq!(read(text).mirror(), Err(Refusal::NotReverseSymmetric), "{text}");
    }
}

#[test]
fn expansions_keep_the_symmetry_they_claim() {
    let claimed = |text: &str| read(text).graph().expect(text).symmetry() == Symmetry::VertexTransitive;
    for text in
        ["K(3)*2", "UniRing(1,4) x K(3)", "DC(5,{1,2})^2", "Bi(DC(8,{1,3}))", "T(DC(8,{1,3}))", "Bi(UniRing(1,3)*2)"]
    {
        assert!(claimed(text), "{text}");
        assert!(is_vertex_transitive(&read(text).graph().expect(text)), "{text}");
    }
    for text in ["L(K(3))", "Pi(2,5) x K(2)", "Pi(2,9)", "DBJ(2,3)", "Kautz(2,1)", "L(Torus(3,3))"] {
        assert!(!claimed(text), "{text}");
    }
}

fn families() -> impl Strategy<Value = Family> {
    let small = 0..7_u32;
    let offsets = || proptest::collection::vec(0..9_u32, 1..4);
    let half = prop_oneof![Just(Half::Refused), Just(Half::Single), Just(Half::Double)];
    prop_oneof![
        (0..9_u32).prop_map(|m| Family::Complete { m }),
        small.clone().prop_map(|d| Family::Bipartite { d }),
        (small.clone(), small.clone()).prop_map(|(k, q)| Family::Hamming { k, q }),
        (small.clone(), small.clone()).prop_map(|(d, m)| Family::UniRing { d, m }),
        (small.clone(), small.clone()).prop_map(|(d, m)| Family::BiRing { d, m }),
        proptest::collection::vec(0..5_u32, 1..4).prop_map(|sizes| Family::Torus { sizes }),
        (small.clone(), small.clone(), small.clone()).prop_map(|(a, b, s)| Family::TwistedTorus { a, b, s }),
        (0..20_u32, offsets(), half).prop_map(|(n, offsets, half)| Family::Circulant { n, offsets, half }),
        (0..20_u32, offsets()).prop_map(|(n, offsets)| Family::DirectedCirculant { n, offsets }),
        (small.clone(), 0..30_u32).prop_map(|(d, m)| Family::GeneralizedKautz { d, m }),
        (0..4_u32, 0..4_u32).prop_map(|(d, k)| Family::Kautz { d, k }),
        (small.clone(), 0..30_u32).prop_map(|(d, m)| Family::GeneralizedDeBruijn { d, m }),
        (0..9_u32, 0..4_u32, 0..9_u32, 0..9_u32, proptest::collection::vec((0..9_u32, 0..4_u32), 1..4))
            .prop_map(|(a, b, r, c, generators)| Family::Metacyclic(Metacyclic { a, b, r, c, generators })),
        (0..90_u32).prop_map(|n| Family::DistanceRegular { n }),
        Just(Family::TwistedCube),
        Just(Family::Diamond),
    ]
}

fn expressions() -> impl Strategy<Value = Expr> {
    families().prop_map(Expr::Family).prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            (1..3_u32, inner.clone()).prop_map(|(times, base)| Expr::Line(times, Box::new(base))),
            (inner.clone(), 2..4_u32).prop_map(|(base, copies)| Expr::Degree(Box::new(base), copies)),
            (inner.clone(), 2..4_u32).prop_map(|(base, exponent)| Expr::Power(Box::new(base), exponent)),
            proptest::collection::vec(inner.clone(), 2..4).prop_map(Expr::Product),
            inner.clone().prop_map(|base| Expr::Bidirectional(Box::new(base))),
            inner.prop_map(|base| Expr::Transposed(Box::new(base))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again(expr in expressions()) {
        prop_assert_eq!(Expr::parse(&expr.to_string()), Ok(expr));
    }

    #[test]
    fn a_graph_has_the_size_that_was_said_or_is_refused(expr in expressions()) {
        if let Ok((n, d)) = expr.size() && n <= 2000 && n * d <= 20_000 {
            match expr.graph() {
                Ok(graph) => prop_assert_eq!((graph.n(), graph.degree()), (n, Ok(d))),
                Err(refusal) => {
                    let known = matches!(refusal, Refusal::SelfLoop { .. }) || !expr.is_constructible();
                    prop_assert!(known, "{}: {}", expr, refusal);
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused_in_its_place(text in "[KLCxTQ(){},;*^0-9 ]{0,40}|(K|L|DC|MC|Bi|T|Pi|x|[(){},;*^]|[0-9]{1,11}| ){0,20}|.{0,30}") {
        match Expr::parse(&text) {
            Ok(expr) => {
                let _ = expr.size();
                prop_assert_eq!(Expr::parse(&expr.to_string()), Ok(expr));
            }
            Err(wrong) => prop_assert!((1..=text.chars().count() + 1).contains(&wrong.at)),
        }
    }
}
