//! The finder against exact values by other means, against the published frontier, and against itself.

use std::cell::Cell as Counter;

use super::*;
use crate::direct::bfb::{self, fewest_steps, least_bandwidth};
use crate::direct::{Cost, Graph};
use std::sync::atomic::AtomicBool;

fn exact_cost(graph: &Graph) -> Result<Cost, Refusal> {
    bfb::cost(graph, &Run::quiet(1))
}

fn small() -> Options {
    Options { search_work: 200_000, exact_limit: 40, ..Options::default() }
}

fn frontier(n: u32, d: u32, options: &Options) -> Vec<Candidate> {
    let mut values = Values::new(&exact_cost);
    Finder::new(options, &mut values, &Run::quiet(1)).frontier(n, d).expect("a frontier")
}

fn ratio(p: i64, q: i64) -> Rational {
    Rational::new(p, q).expect("a fraction")
}

#[test]
fn every_point_keeps_its_word_and_none_beats_another() {
    for (n, d) in [
        (2, 1),
        (2, 3),
        (5, 1),
        (6, 2),
        (8, 2),
        (8, 3),
        (9, 4),
        (10, 4),
        (12, 4),
        (12, 5),
        (16, 2),
        (16, 4),
        (24, 4),
        (27, 6),
        (32, 4),
    ] {
        for bidirectional in [false, true] {
            let points = frontier(n, d, &Options { bidirectional, ..small() });
            assert!(!points.is_empty() || (bidirectional && d % 2 == 1), "{n} {d}");
            for point in &points {
                let text = point.expr.to_string();
                assert_eq!((point.n, point.d), (n, d), "{text}");
                let graph = point.expr.graph().expect(&text);
                assert_eq!((graph.n(), graph.degree()), (n, Ok(d)), "{text}");
                assert_eq!(Expr::parse(&text).as_ref(), Ok(&point.expr));
                assert!(point.t_l >= fewest_steps(n, d).expect("some") && point.t_b >= least_bandwidth(n), "{text}");
                let flags = point.flags;
                assert!(!flags.simple || graph.is_simple(), "{text}");
                assert_eq!(flags.loop_free, graph.self_loop().is_none(), "{text}");
                assert!(!(flags.bidirectional || bidirectional) || graph.is_bidirectional(), "{text}");
                assert!(!flags.mirrored || point.expr.mirror().is_ok(), "{text}");
                if point.recipe == Recipe::Bfb {
                    let cost = exact_cost(&graph).expect(&text);
                    let time = cost.t_b.clone().expect("regular");
                    assert!(cost.t_l() <= point.t_l && time <= point.t_b, "{text}");
                    assert!(!flags.exact || (cost.t_l(), time) == (point.t_l, point.t_b.clone()), "{text}");
                }
            }
            for (a, b) in points.iter().zip(points.iter().skip(1)) {
                assert!(a.t_l < b.t_l && a.t_b > b.t_b, "{n} {d}: {} and {}", a.expr, b.expr);
            }
        }
    }
}

#[test]
fn the_rows_for_32_vertices_are_matched() {
    let points = frontier(32, 4, &small());
    for (t_l, t_b) in [(3, ratio(1, 1)), (4, ratio(31, 32))] {
        assert!(points.iter().any(|point| point.t_l <= t_l && point.t_b <= t_b), "{t_l} {t_b}: {points:?}");
    }
}

#[test]
fn small_complete_cases_of_degree_four_take_the_least_time_in_two_steps() {
    for (n, steps) in [(5, 1), (6, 2), (7, 2), (8, 2), (9, 2), (10, 2), (11, 2), (12, 2)] {
        let points = frontier(n, 4, &small());
        let best = points.last().expect("some");
        assert_eq!((best.t_l, &best.t_b), (steps, &least_bandwidth(n)), "{n}: {}", best.expr);
    }
}

#[test]
fn what_is_asked_is_kept_to() {
    let only = |allow: &[&str], deny: &[&str]| Options {
        allow: allow.iter().map(|word| word.to_string()).collect(),
        deny: deny.iter().map(|word| word.to_string()).collect(),
        ..small()
    };
    let rings = frontier(12, 2, &only(&["UniRing", "BiRing"], &[]));
    assert!(rings.iter().all(|point| point.expr.to_string().contains("Ring")), "{rings:?}");
    let others = frontier(12, 4, &only(&[], &["C", "DC", "MC"]));
    assert!(others.iter().all(|point| !point.expr.to_string().contains("C(")), "{others:?}");
    let pictures = Options { constructible: false, ..only(&["Diamond", "DBJMod"], &[]) };
    assert_eq!(frontier(64, 4, &pictures)[0].expr.to_string(), "L(DBJMod(4,2))");
    assert!(frontier(64, 4, &Options { constructible: true, ..pictures }).is_empty());
    let extra = Options { extra: vec![Expr::parse("Torus(3,5)").expect("a torus")], ..only(&["Torus"], &[]) };
    assert_eq!(frontier(15, 4, &extra)[0].expr, extra.extra[0]);
}

#[test]
fn nothing_and_one_vertex_and_too_much() {
    assert!(frontier(5, 0, &small()).is_empty());
    let one = frontier(1, 4, &small());
    assert_eq!((one.len(), one[0].t_l, &one[0].t_b), (1, 0, &Rational::ZERO));
    let mut values = Values::new(&exact_cost);
    let options = small();
    let run = Run::quiet(1);
    let mut finder = Finder::new(&options, &mut values, &run);
    assert_eq!(finder.frontier(0, 4), Err(Refusal::EmptyTopology));
    assert_eq!(finder.frontier(u32::MAX, 4).expect_err("too large").code(), "TopologyTooLarge");
    let stop = AtomicBool::new(true);
    let mut values = Values::new(&exact_cost);
    assert_eq!(
        Finder::new(&options, &mut values, &Run { cancel: &stop, ..Run::quiet(1) }).frontier(30, 4),
        Err(Refusal::Stopped(crate::Stopped::Cancelled))
    );
}

#[test]
fn a_reduce_scatter_has_a_time_of_its_own() {
    let options = Options { allow: vec!["Pi".into()], exact_limit: 0, ..small() };
    let mut values = Values::new(&exact_cost);
    let run = Run::quiet(1);
    let mut finder = Finder::new(&options, &mut values, &run);
    let kautz = finder.frontier(9, 2).expect("some").remove(0);
    assert_eq!((kautz.expr.to_string().as_str(), &kautz.t_b), ("Pi(2,9)", &ratio(14, 9)));
    assert_eq!(finder.reduce_scatter(&kautz), Ok(Some(ratio(10, 9))));
}

#[test]
fn values_are_computed_once_and_kept_between_runs() {
    let count = Counter::new(0);
    let counting = |graph: &Graph| {
        count.set(count.get() + 1);
        exact_cost(graph)
    };
    let mut values = Values::new(&counting);
    let options = small();
    let first = Finder::new(&options, &mut values, &Run::quiet(1)).frontier(24, 4).expect("some");
    let computed = count.get();
    assert!(computed > 0 && values.computed() == computed);
    let text = values.to_text();
    let mut again = Values::new(&counting);
    assert_eq!(again.take(&text), Ok(computed as usize));
    assert_eq!(again.to_text(), text);
    assert_eq!(Finder::new(&options, &mut again, &Run::quiet(1)).frontier(24, 4), Ok(first));
    assert_eq!((count.get(), again.computed()), (computed, 0));
}

#[test]
fn a_damaged_text_of_values_is_not_read() {
    let mut values = Values::new(&exact_cost);
    values.of(&Expr::parse("K(5)").expect("a graph")).expect("a value");
    let text = values.to_text();
    assert_eq!(text.lines().nth(1), Some("K(5)\t1\t4/5"));
    let digest = |body: &str| format!("{body}sha256\t{}\n", sluice_formats::topology::sha256_hex(body.as_bytes()));
    for (wrong, line) in [
        (String::new(), 1),
        ("\n\n".into(), 1),
        (text.replace("values 1", "values 2"), 1),
        (text.replace("4/5", "9/5"), 3),
        (text.replace("sha256", "sha1"), 3),
        (text.trim_end_matches(|c| c != '\t').into(), 1),
        (digest("sluice-graph-values 1\nK(5)\t1\t3/5\n"), 2),
        (digest("sluice-graph-values 1\nK(5)\t0\t4/5\n"), 2),
        (digest("sluice-graph-values 1\nK(5)\t9\t4/5\n"), 2),
        (digest("sluice-graph-values 1\nK(5)\t1\t4/5\tx\n"), 2),
        (digest("sluice-graph-values 1\nK(5\t1\t4/5\n"), 2),
        (digest("sluice-graph-values 1\nK(5)\t1\n"), 2),
    ] {
        let mut values = Values::new(&exact_cost);
        assert_eq!(values.take(&wrong).expect_err(&wrong).line, line, "{wrong}");
        assert_eq!(values.to_text().lines().count(), 2, "nothing is taken over");
    }
}

#[test]
fn an_all_reduce_pays_for_steps_and_bytes_twice() {
    let workload =
        Workload { alpha: ratio(1, 100_000), size: ratio(1_048_576, 1), bandwidth: ratio(12_500_000_000, 1) };
    let time = workload.all_reduce(5, &ratio(341, 256), &ratio(341, 256)).expect("a bandwidth");
    assert_eq!(format!("{:.1}", time.to_f64() * 1e6), "323.5", "Table 3.4, first row");
    assert_eq!(Workload { bandwidth: Rational::ZERO, ..workload }.all_reduce(5, &Rational::ONE, &Rational::ONE), None);
}

#[test]
fn offsets_that_are_found_take_the_least_time() {
    for (n, d) in [(8, 2), (16, 2), (13, 3), (32, 4), (20, 5)] {
        let family = search::directed(n, d, 300_000).expect("one is found");
        let cost = exact_cost(&family.graph().expect("a graph")).expect("a cost");
        assert_eq!(cost.t_b, Some(least_bandwidth(n)), "{family}");
        assert_eq!(search::directed(n, d, 300_000), Some(family), "the same each time");
    }
    for (n, d) in [(20, 3), (30, 6), (16, 5)] {
        let family = search::undirected(n, d, 300_000).expect("one is found");
        let cost = exact_cost(&family.graph().expect("a graph")).expect("a cost");
        assert_eq!((family.size(), cost.t_b), (Ok((n, d)), Some(least_bandwidth(n))), "{family}");
    }
    assert_eq!(search::undirected(15, 3, 1000), None);
}
