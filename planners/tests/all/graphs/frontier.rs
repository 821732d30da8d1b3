//! The finder's frontier against the published one, and against the graphs that later searches found.

use std::time::Instant;

use sluice_formats::quantity::Rational;
use sluice_formats::topology::Kind;
use sluice_planners::Run;
use sluice_planners::direct::bfb;
use sluice_planners::direct::finder::{Candidate, Finder, Options, Values, measured};
use sluice_planners::direct::{Cost, Graph, Hardware, Refusal, plan_of, topology};

use crate::graphs::replay::replay;

/// Steps and τ that the frontier for degree 4 must reach (table A.1; tables 3.4 and 3.5 are in it), then those of the
/// Cayley graphs and directed circulants.
const ROWS: [(u32, &[(u32, &str)]); 6] = [
    (32, &[(3, "1"), (4, "31/32")]),
    (64, &[(3, "21/16"), (4, "1"), (6, "63/64"), (3, "17/16"), (4, "63/64")]),
    (128, &[(4, "33/32"), (5, "1"), (10, "127/128"), (8, "127/128"), (7, "127/128")]),
    (256, &[(4, "85/64"), (5, "65/64"), (7, "1"), (10, "255/256"), (4, "69/64"), (5, "1"), (8, "255/256")]),
    (512, &[(5, "133/128"), (6, "129/128"), (11, "1"), (16, "511/512"), (9, "1"), (12, "511/512")]),
    (
        1024,
        &[
            (5, "341/256"),
            (6, "261/256"),
            (8, "257/256"),
            (11, "1"),
            (20, "1023/1024"),
            (5, "277/256"),
            (6, "257/256"),
            (14, "1023/1024"),
        ],
    ),
];

fn cost(graph: &Graph) -> Result<Cost, Refusal> {
    bfb::cost(graph, &Run::quiet(2))
}

fn frontier(n: u32, d: u32, options: &Options) -> Vec<Candidate> {
    let mut values = Values::new(&cost);
    Finder::new(options, &mut values, &Run::quiet(2)).frontier(n, d).expect("a frontier")
}

fn reaches(n: u32, rows: &[(u32, &str)], points: &[Candidate]) {
    for (steps, time) in rows {
        let time = Rational::parse(time).expect("a fraction");
        let found = points.iter().any(|point| point.t_l <= *steps && point.t_b <= time);
        assert!(found, "{n}: nothing as good as ({steps}, {time}) in {points:#?}");
    }
}

#[test]
fn published_rows_are_matched_or_beaten() {
    // The larger sizes stand in the sweep below; here they are found without exact values of expansions.
    for (n, rows) in ROWS.iter().take(4) {
        let options = Options { search_work: 500_000, exact_limit: 128, ..Options::default() };
        reaches(*n, rows, &frontier(*n, 4, &options));
    }
}

/// `cargo test -p sluice-planners --release --test all -- --ignored --nocapture graphs::frontier::large`
#[test]
#[ignore = "minutes; measures"]
fn large_published_rows_are_matched_or_beaten() {
    for (n, rows) in ROWS {
        let began = Instant::now();
        let points = frontier(n, 4, &Options::default());
        println!("{n}: {:.1} s", began.elapsed().as_secs_f64());
        for point in &points {
            println!("  {:>3}  {:<10} {:.5}  {}", point.t_l, point.t_b, point.t_b.to_f64(), point.expr);
        }
        reaches(n, rows, &points);
    }
}

/// `cargo test -p sluice-planners --release --test all -- --ignored --nocapture graphs::frontier::sweep`
#[test]
#[ignore = "many minutes; measures"]
fn sweep_of_all_sizes_up_to_two_thousand() {
    let options = Options::default();
    let mut values = Values::new(&cost);
    let run = Run::quiet(2);
    let mut finder = Finder::new(&options, &mut values, &run);
    let began = Instant::now();
    let mut points = 0;
    for n in 2..=2000 {
        let found = finder.frontier(n, 4).expect("a frontier");
        assert!(!found.is_empty(), "{n}");
        points += found.len();
        if n % 100 == 0 {
            println!("{n}: {points} points, {:.0} s", began.elapsed().as_secs_f64());
        }
    }
    println!("{} values computed", finder.values().computed());
}

#[test]
fn what_is_chosen_is_built_at_the_cost_that_was_said() {
    // Without exact values the formulas alone decide; what is built must then be as good as they say.
    for exact_limit in [0, 64] {
        for bidirectional in [false, true] {
            let options = Options { exact_limit, bidirectional, search_work: 100_000, ..Options::default() };
            for (n, d) in [(12, 4), (24, 2), (32, 4), (36, 4), (49, 4), (60, 6)] {
                for point in frontier(n, d, &options) {
                    let text = point.expr.to_string();
                    let (graph, gather) = point.all_gather(&Run::quiet(2)).expect(&text);
                    let cost = replay(&graph, &gather).unwrap_or_else(|fault| panic!("{text}: {fault}"));
                    let time = cost.t_b.clone().expect("regular");
                    assert!(cost.t_l() <= point.t_l && time <= point.t_b, "{text}: {} {time}", cost.t_l());
                    assert!(!point.flags.exact || (cost.t_l(), &time) == (point.t_l, &point.t_b), "{text}");
                    let (graph, scatter) = point.reduce_scatter(&Run::quiet(2)).expect(&text);
                    let back = replay(&graph, &scatter).unwrap_or_else(|fault| panic!("{text}: {fault}"));
                    assert!(!point.flags.mirrored || back.t_b.as_ref() == Some(&time), "{text}");
                }
            }
        }
    }
}

#[test]
fn plans_of_candidates_pass_the_checker() {
    let options = Options { exact_limit: 0, search_work: 100_000, ..Options::default() };
    for (n, d) in [(12, 4), (24, 2), (27, 6)] {
        for point in frontier(n, d, &options) {
            let text = point.expr.to_string();
            let (graph, schedule) = point.all_reduce(&Run::quiet(2)).expect(&text);
            let hardware = Hardware { capacity: "25Gbit/s", latency: Some("10us"), kind: Kind::Host };
            let topology = topology(&graph, &text, &hardware).expect(&text);
            let cost = measured(&graph, &schedule);
            assert_eq!(replay(&graph, &schedule).as_ref(), Ok(&cost), "{text}");
            let plan = plan_of(&topology, &schedule, &cost, Some(d)).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            assert!(plan.body.claim.t_l.is_some_and(|steps| steps <= u64::from(2 * point.t_l)), "{text}");
        }
    }
}
