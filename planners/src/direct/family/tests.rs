//! Every family against what is known of it: degree, distances, symmetry, and what is refused.

use super::*;
use crate::direct::testing::{diameter, distances, is_vertex_transitive};
use crate::direct::{Expr, Symmetry};

fn family(text: &str) -> Family {
    match Expr::parse(text).expect(text) {
        Expr::Family(family) => family,
        other => panic!("{other} is no family"),
    }
}

/// Written form, vertices, degree, diameter.
const KNOWN: [(&str, u32, u32, u32); 42] = [
    ("K(1)", 1, 0, 0),
    ("K(5)", 5, 4, 1),
    ("K(4,4)", 8, 4, 2),
    ("H(2,3)", 9, 4, 2),
    ("H(3,2)", 8, 3, 3),
    ("Q(4)", 16, 4, 4),
    ("TQ(3)", 8, 3, 2),
    ("UniRing(1,4)", 4, 1, 3),
    ("UniRing(3,5)", 5, 3, 4),
    ("BiRing(2,8)", 8, 2, 4),
    ("BiRing(4,5)", 5, 4, 2),
    ("Torus(3,3,2)", 18, 5, 3),
    ("Torus(4,1,6)", 24, 4, 5),
    ("Torus(2,2)", 4, 2, 2),
    ("TwistedTorus(3,3,0)", 9, 4, 2),
    ("TwistedTorus(4,5,2)", 20, 4, 3),
    ("C(12,{2,3})", 12, 4, 2),
    ("C(16,{3,4})", 16, 4, 3),
    ("C(6,{1,3},single)", 6, 3, 2),
    ("C(6,{1,3},double)", 6, 4, 2),
    ("DC(6,{1,2,3,4})", 6, 4, 2),
    ("DC(8,{1,3})", 8, 2, 3),
    ("DC(32,{1,4,9,15})", 32, 4, 4),
    ("Pi(2,9)", 9, 2, 3),
    ("Pi(4,64)", 64, 4, 3),
    ("Kautz(2,0)", 3, 2, 1),
    ("Kautz(2,2)", 12, 2, 3),
    ("DBJ(2,3)", 8, 2, 3),
    ("GDBJ(2,11)", 11, 2, 4),
    ("MC(8,2,3,4;(5,0),(0,1))", 16, 2, 4),
    ("MC(8,2,7,0;(6,0),(1,0),(7,1),(2,1))", 16, 4, 2),
    ("MC(16,4,13,0;(13,1),(5,0),(11,2),(14,3))", 64, 4, 4),
    ("DistReg(4,6)", 6, 4, 2),
    ("DistReg(4,9)", 9, 4, 2),
    ("DistReg(4,10)", 10, 4, 3),
    ("DistReg(4,14)", 14, 4, 3),
    ("DistReg(4,15)", 15, 4, 3),
    ("DistReg(4,16)", 16, 4, 4),
    ("DistReg(4,21)", 21, 4, 3),
    ("DistReg(4,26)", 26, 4, 3),
    ("DistReg(4,32)", 32, 4, 4),
    ("DistReg(4,35)", 35, 4, 3),
];

#[test]
fn sizes_degrees_diameters_and_symmetry_hold() {
    for (text, n, d, far) in KNOWN {
        let family = family(text);
        assert_eq!(family.to_string(), text);
        assert_eq!(family.size(), Ok((n, d)), "{text}");
        let graph = family.graph().expect(text);
        assert_eq!((graph.n(), graph.degree(), diameter(&graph)), (n, Ok(d), far), "{text}");
        assert!(graph.edges().is_sorted_by_key(|edge| edge.tail) || text.starts_with("Kautz"), "{text}");
        if graph.symmetry() == Symmetry::VertexTransitive {
            assert!(is_vertex_transitive(&graph), "{text}");
        }
    }
}

#[test]
fn the_numbering_is_that_of_the_vectors() {
    let heads = |text: &str, v: u32| -> Vec<u32> {
        let graph = family(text).graph().expect(text);
        graph.edges().iter().filter(|edge| edge.tail == v).map(|edge| edge.head).collect()
    };
    assert_eq!(heads("Pi(2,9)", 1), [6, 5]);
    assert_eq!(heads("DBJ(2,3)", 5), [2, 3]);
    assert_eq!(heads("K(3,3)", 4), [0, 1, 2]);
    assert_eq!(heads("TQ(3)", 0), [5, 2, 4]);
    assert_eq!(heads("TQ(3)", 4), [1, 6, 0]);
    assert_eq!(heads("TQ(3)", 2), [3, 0, 6]);
    assert_eq!(heads("Torus(3,2)", 0), [2, 4, 1]);
    assert_eq!(heads("TwistedTorus(4,3,1)", 2), [5, 11, 3, 1]);
    assert_eq!(heads("C(7,{2,3})", 0), [2, 5, 3, 4]);
    assert_eq!(heads("MC(8,2,3,4;(5,0),(0,1))", 3), [1, 10]);
    assert_eq!(heads("H(2,3)", 4), [1, 7, 3, 5]);
}

#[test]
fn graphs_of_the_catalogue_are_distance_regular() {
    let diameters = [2, 2, 3, 3, 3, 4, 3, 3, 4, 3, 4, 7, 4, 6, 6];
    for ((n, name), far) in CATALOGUE.into_iter().zip(diameters) {
        let graph = Family::DistanceRegular { n }.graph().expect(name);
        assert!(graph.is_simple() && graph.is_bidirectional(), "{name}");
        let all = distances(&graph);
        let mut adjacent = vec![Vec::new(); n as usize];
        graph.edges().iter().for_each(|edge| adjacent[edge.tail as usize].push(edge.head as usize));
        // By distance: neighbours one step nearer, and one step further.
        let mut numbers = vec![None; far as usize + 1];
        for (from, row) in all.iter().enumerate() {
            for (v, distance) in row.iter().enumerate() {
                assert!(*distance <= far, "{name}: {from} to {v}");
                let nearer = adjacent[v].iter().filter(|w| row[**w] + 1 == *distance).count();
                let further = adjacent[v].iter().filter(|w| row[**w] == distance + 1).count();
                let known = numbers[*distance as usize].get_or_insert((nearer, further));
                assert_eq!(*known, (nearer, further), "{name}: {from} to {v}");
            }
        }
        assert!(numbers.iter().all(Option::is_some), "{name} has diameter {far}");
        if n <= 100 && graph.symmetry() == Symmetry::VertexTransitive {
            assert!(is_vertex_transitive(&graph), "{name}");
        }
    }
}

#[test]
fn kautz_graphs_are_generalized_kautz_graphs() {
    for (d, k, m) in [(2, 1, 6), (2, 2, 12), (3, 1, 12)] {
        let (one, other) =
            (Family::Kautz { d, k }.graph().unwrap(), Family::GeneralizedKautz { d, m }.graph().unwrap());
        let profile = |graph: &Graph| {
            let mut rows = distances(graph);
            rows.iter_mut().for_each(|row| row.sort_unstable());
            rows.sort();
            rows
        };
        assert_eq!(profile(&one), profile(&other));
        assert!(other.is_simple(), "no self-loops at multiples of d+1");
    }
    assert!(Family::GeneralizedKautz { d: 2, m: 10 }.graph().unwrap().self_loop().is_some());
}

#[test]
fn two_offsets_reach_the_least_diameter() {
    for n in 7..=300_u32 {
        let m = (1..).find(|m| (2 * m + 1_u32).pow(2) >= 2 * n - 1).expect("some");
        if 2 * m + 2 == n {
            continue;
        }
        let graph = Family::Circulant { n, offsets: vec![m, m + 1], half: Half::Refused }.graph().expect("a graph");
        let far = distances(&graph)[0].iter().copied().max();
        assert_eq!(far, Some(m), "C({n},{{{m},{}}})", m + 1);
    }
}

#[test]
fn what_is_no_graph_of_a_family_is_refused() {
    let refused = |text: &str| {
        let family = family(text);
        let size = family.size().expect_err(text);
        assert_eq!(family.graph().expect_err(text), size, "{text}");
        size
    };
    for text in [
        "K(0)",
        "K(0,0)",
        "H(0,3)",
        "H(2,1)",
        "Q(0)",
        "Q(21)",
        "UniRing(2,1)",
        "UniRing(0,3)",
        "BiRing(3,5)",
        "BiRing(2,2)",
        "BiRing(0,5)",
        "Torus(3,0)",
        "TwistedTorus(2,3,0)",
        "TwistedTorus(3,3,3)",
        "C(1,{1})",
        "Pi(4,4)",
        "Pi(1,5)",
        "Kautz(1,3)",
        "DBJ(1,3)",
        "DBJ(2,0)",
        "GDBJ(2,1)",
        "MC(8,2,2,0;(1,0),(0,1))",
        "MC(8,2,3,1;(1,0),(0,1))",
        "MC(8,2,3,0;(0,0))",
        "MC(8,2,3,0;(8,0))",
        "MC(0,2,3,0;(1,0))",
        "DistReg(4,33)",
        "DBJMod(2,5)",
    ] {
        assert!(matches!(refused(text), Refusal::InvalidFamily { .. }), "{text}: {}", refused(text));
    }
    for text in ["C(6,{6,1})", "C(6,{1,3})", "DC(6,{1,12})"] {
        assert_eq!(refused(text).code(), "InvalidOffset", "{text}");
    }
    for text in ["C(6,{2,4})", "DC(9,{3,6})", "MC(8,2,7,0;(2,0),(0,1))"] {
        assert_eq!(refused(text).code(), "NotStronglyConnected", "{text}");
    }
    for text in [
        "K(4294967295)",
        "H(4000000000,4000000000)",
        "Torus(65536,65536,65536,65536,3)",
        "UniRing(4294967295,4294967295)",
        "DBJ(4294967295,9)",
        "Kautz(2,60)",
        "MC(4294967295,4294967295,1,0;(1,0),(0,1))",
    ] {
        assert_eq!(refused(text).code(), "TopologyTooLarge", "{text}");
    }
    for text in ["Diamond", "DBJMod(2,4)"] {
        assert!(family(text).size().is_ok() && family(text).graph().is_err(), "{text}");
    }
}
