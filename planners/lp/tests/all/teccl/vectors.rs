//! Section 14 of the specification: the fewest epochs, proven, and what the paper's objective comes to.

use super::*;
use sluice_plan::plan::Status;
use sluice_planners::teccl::{Mode, Objective};

/// A row of the table: the fewest epochs of an instance, and the harmonic objective within so many.
struct Row {
    name: &'static str,
    topology: Topology,
    collective: Collective,
    options: Options,
    epochs: u64,
    worth: Option<(u64, f64)>,
}

fn check(row: &Row) {
    let Row { name, topology, collective, options, epochs, worth } = row;
    let figures = planned(topology, *collective, options).figures;
    assert_eq!((figures.epochs, figures.status), (*epochs, Status::Optimal), "{name}");
    if let Some((within, value)) = worth {
        let mode = Mode::Objective { objective: Objective::Harmonic, epochs: Some(*within) };
        let figures = planned(topology, *collective, &Options { mode, ..options.clone() }).figures;
        let found = figures.worth.expect("a worth");
        assert!((found.value - value).abs() < 1e-5, "{name}: {} instead of {value}", found.value);
        assert!(found.gap() < 1e-6, "{name}: {found:?}");
        assert_eq!(figures.status, Status::Optimal, "{name}");
        assert!(figures.epochs <= *within && figures.epochs >= *epochs, "{name}");
    }
}

fn row(
    name: &'static str,
    topology: &Topology,
    (collective, options): (Collective, Options),
    epochs: u64,
    worth: Option<(u64, f64)>,
) -> Row {
    Row { name, topology: topology.clone(), collective, options, epochs, worth }
}

fn all_gather(chunks: u64) -> (Collective, Options) {
    (Collective::AllGather, options(chunks, EpochLength::Slow))
}

fn all_to_all(chunks: u64) -> (Collective, Options) {
    (Collective::AllToAll, Options { divisible: true, ..options(chunks, EpochLength::Slow) })
}

fn time(text: &str) -> EpochLength {
    EpochLength::Fixed(sluice_formats::quantity::latency(text).expect("a time").0)
}

#[test]
fn all_gather_on_a_dgx1() {
    let late = fabric("DGX1", false);
    let at_once = at_once(&late);
    let fast = (Collective::AllGather, options(1, EpochLength::Fast));
    let rows = [
        row("ag1 0.7 slow", &late, all_gather(1), 4, Some((6, 61.2))),
        row("ag2 0.7 slow", &late, all_gather(2), 5, Some((7, 128.4))),
        row("ag3 0.7 slow", &late, all_gather(3), 6, None),
        row("ag1 0.7 fast", &late, fast, 7, Some((9, 47.622_222))),
        row("ag1", &at_once, all_gather(1), 2, Some((4, 92.666_667))),
        row("ag2", &at_once, all_gather(2), 3, Some((5, 183.733_333))),
        row("ag3", &at_once, all_gather(3), 4, None),
        row("ag4", &at_once, all_gather(4), 5, None),
        row("ag5", &at_once, all_gather(5), 6, None),
        row("ag6", &at_once, all_gather(6), 7, None),
    ];
    rows.iter().for_each(check);
}

#[test]
fn all_to_all_in_pieces() {
    let late = fabric("DGX1", false);
    let at_once = at_once(&late);
    let line = serde_json::json!([{"GBps": 25, "alpha_us": 0, "both_ways": true, "pairs": [[0, 1], [1, 2], [2, 3]]}]);
    let rows = [
        row("a2a1 0.7 slow", &late, all_to_all(1), 4, Some((6, 58.2))),
        row("a2a1", &at_once, all_to_all(1), 3, Some((5, 97.866_667))),
        row("a2a3", &at_once, all_to_all(3), 8, Some((10, 280.819_048))),
        row("a2a8", &at_once, all_to_all(8), 22, None),
        row("line4-a2a1", &small(4, 0, &line, false), all_to_all(1), 4, Some((6, 19.233_333))),
    ];
    rows.iter().for_each(check);
}

#[test]
fn small_instances() {
    let star =
        serde_json::json!([{"GBps": 25, "alpha_us": 0, "both_ways": true, "pairs": [[0, 4], [1, 4], [2, 4], [3, 4]]}]);
    let (copying, plain) = (small(5, 1, &star, true), small(5, 1, &star, false));
    let free = (Collective::AllGather, Options { free_second_hop: true, ..all_gather(1).1 });
    let line = small(
        3,
        0,
        &serde_json::json!([{"GBps": 50, "alpha_us": 0, "both_ways": true, "pairs": [[0, 1]]},
            {"GBps": 12.5, "alpha_us": 0.6, "both_ways": true, "pairs": [[1, 2]]}]),
        false,
    );
    let kappa = (Collective::AllGather, Options { epoch: time("0.5us"), ..all_gather(2).1 });
    let theta = Rational::new(3, 10).expect("a share");
    let theta = (Collective::AllGather, Options { epoch: time("2us"), theta, ..all_gather(2).1 });
    let rows = [
        row("star4-ag-copy", &copying, all_gather(1), 4, Some((6, 12.066_667))),
        row("star4-ag-nocopy", &plain, all_gather(1), 4, Some((6, 12.066_667))),
        row("star4-ag-copy-free2", &copying, free, 3, Some((5, 17.4))),
        row("kappa-line3-ag2", &line, kappa, 18, Some((20, 18.949_618))),
        row("theta-line3-ag2", &line, theta, 4, Some((6, 21.566_667))),
    ];
    rows.iter().for_each(check);
}

#[test]
fn the_objective_is_not_the_end() {
    let line = unit(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let triples = [["0", "4"], ["0", "1"], ["0", "1"], ["0", "1"]];
    let triples: Vec<serde_json::Value> =
        triples.iter().enumerate().map(|(chunk, [from, to])| serde_json::json!([from, chunk, to])).collect();
    let file = serde_json::json!({"sluice_demands": 1, "tenants": [{"name": "all", "triples": triples}]});
    let options = Options { wanted: Some(wanted(&file).expect("valid")), ..options(1, EpochLength::Slow) };
    let row = row("objective-vs-makespan", &line, (Collective::Custom, options), 4, Some((10, 6.765_873)));
    check(&row);
    let mode = Mode::Objective { objective: Objective::Harmonic, epochs: Some(10) };
    let made = planned(&line, Collective::Custom, &Options { mode, ..row.options.clone() });
    assert_eq!(made.figures.epochs, 7, "the most is gained by letting the far one wait");
    let sum = Mode::Objective { objective: Objective::SumCompletion, epochs: None };
    let made = planned(&line, Collective::Custom, &Options { mode: sum, ..row.options.clone() });
    // Within 4 epochs the far one goes first; the near ones are there after 2, 3 and 4.
    assert_eq!((made.figures.epochs, made.figures.worth.expect("a worth").value), (4, 1.0 + 3.0 + 2.0 + 1.0));
}

#[test]
fn dgx1_all_gather_with_as_many_epochs_as_chunks_is_infeasible() {
    let dgx1 = at_once(&fabric("DGX1", false));
    for chunks in 1..=6 {
        let mode = Mode::Feasible(chunks);
        let error =
            tried(&dgx1, Collective::AllGather, &Options { mode, ..all_gather(chunks).1 }).expect_err("too few");
        assert_eq!(error.code(), "Infeasible", "{chunks} chunks");
    }
}

#[test]
fn dgx2_with_a_free_second_hop() {
    for (bytes, free, minimum) in [("1GB", true, 4), ("1MB", true, 9), ("1GB", false, 5)] {
        let volume = Volume::Size(size(bytes).expect("a size"));
        let options = Options { epoch: EpochLength::Slow, free_second_hop: free, ..Options::of(volume) };
        let figures = planned(&fabric("DGX2-2", true), Collective::AllGather, &options).figures;
        assert_eq!((figures.epochs, figures.status), (minimum, Status::Optimal), "{bytes}, free: {free}");
    }
}
