//! Limited buffers, bandwidth by epoch, stragglers, and time that runs out.

use super::*;
use sluice_plan::plan::Status;
use sluice_planners::teccl::Mode;
use sluice_planners::teccl::lane::{Place, Straggler};
use std::time::{Duration, Instant};

fn epochs(topology: &Topology, collective: Collective, options: &Options) -> u64 {
    let figures = planned(topology, collective, options).figures;
    assert_eq!(figures.status, Status::Optimal);
    figures.epochs
}

/// An all-gather has no data for others where all take part; an all-to-all through one node has.
#[test]
fn a_buffer_costs_time_where_chunks_must_wait() {
    // Three nodes send through d to e, whose link takes one chunk in an epoch.
    let fan = |buffer: Option<&str>| {
        let topology = unit(5, &[(0, 3), (1, 3), (2, 3), (3, 4), (4, 3), (3, 0), (3, 1), (3, 2)]);
        edited(&topology, |file| file["nodes"][3]["buffer"] = buffer.map_or(serde_json::Value::Null, Into::into))
    };
    for divisible in [false, true] {
        let gather = |buffer| {
            let options = Options { divisible, ..options(1, EpochLength::Slow) };
            let request = Request { root: Some("4"), ..Request::of_all(Collective::Gather) };
            let topology = fan(buffer);
            let instance = Instance::new(&topology, &request, &options, "t").expect("valid");
            let made = match divisible {
                true => pieces::make(&instance, &Flow::default(), &Run::quiet(1)),
                false => make(&instance, Some(&Milp::default()), &Run::quiet(1)),
            };
            made.unwrap_or_else(|problems| panic!("{buffer:?}, cut: {divisible}: {problems}")).figures.epochs
        };
        // Sources hold their own chunks back, so that even no buffer at all is enough.
        assert_eq!((gather(None), gather(Some("25kB")), gather(Some("0B"))), (4, 4, 4), "cut: {divisible}");
    }
    // What comes in by a fast link and leaves by a slow one waits: 50 GB/s in, 25 GB/s out.
    let line = |buffer: &str| {
        let links = serde_json::json!([{"GBps": 50, "alpha_us": 0, "both_ways": true, "pairs": [[0, 1]]},
            {"GBps": 25, "alpha_us": 0, "both_ways": true, "pairs": [[1, 2]]}]);
        edited(&small(3, 0, &links, false), |file| file["nodes"][1]["buffer"] = buffer.into())
    };
    let triples = serde_json::json!([["0", 0, "2"], ["0", 1, "2"], ["0", 2, "1"], ["0", 3, "1"], ["0", 4, "1"]]);
    let file = serde_json::json!({"sluice_demands": 1, "tenants": [{"name": "all", "triples": triples}]});
    let wanted = wanted(&file).expect("valid");
    let fastest = |buffer: &str| {
        let options = Options { wanted: Some(wanted.clone()), ..options(1, EpochLength::Fast) };
        epochs(&line(buffer), Collective::Custom, &options)
    };
    assert_eq!((fastest("1MB"), fastest("0B")), (5, 5));
}

#[test]
fn links_that_are_closed_for_a_while_are_waited_for() {
    let with = |capacities: &[&str]| {
        edited(&unit(2, &[(0, 1), (1, 0)]), |file| file["links"][0]["capacity_per_epoch"] = capacities.into())
    };
    for divisible in [false, true] {
        let of = |capacities: &[&str], chunks: u64| {
            let options = Options { divisible, ..options(chunks, EpochLength::Slow) };
            epochs(&with(capacities), Collective::AllToAll, &options)
        };
        assert_eq!(of(&["25GB/s"], 2), 2);
        assert_eq!(of(&["0GB/s", "25GB/s"], 2), 3);
        assert_eq!(of(&["25GB/s", "0GB/s", "0GB/s", "25GB/s"], 2), 4);
        assert_eq!(of(&["75GB/s", "0GB/s", "0GB/s", "25GB/s"], 3), 3, "the other way needs three");
    }
    let refused = tried(&with(&["0GB/s", "12.5GB/s"]), Collective::AllToAll, &options(1, EpochLength::Slow));
    // Half a chunk in an epoch: whole ones never fit.
    assert!(refused.is_err());
    let halves = Options { divisible: true, ..options(1, EpochLength::Slow) };
    assert_eq!(epochs(&with(&["0GB/s", "12.5GB/s"]), Collective::AllToAll, &halves), 3);
    let short = EpochLength::Fixed(sluice_formats::quantity::latency("0.5us").expect("a time").0);
    let error =
        tried(&with(&["25GB/s"]), Collective::AllToAll, &options(1, short)).expect_err("two epochs for a chunk");
    assert_eq!(error.code(), "VaryingNeedsUnitKappa");
}

#[test]
fn stragglers_are_planned_around() {
    let ring = unit(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (0, 3), (3, 2), (2, 1), (1, 0)]);
    let gather = |stragglers: Vec<Straggler>| {
        let epoch = EpochLength::Fixed(sluice_formats::quantity::latency("1us").expect("a time").0);
        epochs(&ring, Collective::AllGather, &Options { stragglers, ..options(1, epoch) })
    };
    let slow = |place, us: u64, times: u64| Straggler {
        place,
        alpha_add: Rational::new(us, 1_000_000_u64).expect("a time"),
        beta_mul: Rational::from(times),
    };
    assert_eq!(gather(Vec::new()), 2);
    let one = gather(vec![slow(Place::Link(0), 0, 10)]);
    // Without that link node 1 takes in its three chunks over the other one.
    assert_eq!(one, 3);
    assert!(gather(vec![slow(Place::Node(1), 2, 1)]) > gather(vec![slow(Place::Link(0), 2, 1)]).min(3));
}

#[test]
fn when_time_runs_out_the_best_until_then_is_given() {
    let dgx2 = fabric("DGX2-2", false);
    let options = Options {
        epoch: EpochLength::Slow,
        free_second_hop: true,
        ..Options::of(Volume::Size(size("1GB").expect("a size")))
    };
    let instance = Instance::new(&dgx2, &Request::of_all(Collective::AllGather), &options, "t").expect("valid");
    let run = Run { deadline: Some(Instant::now() + Duration::from_millis(300)), ..Run::quiet(1) };
    match make(&instance, Some(&Milp::default()), &run) {
        Ok(made) => {
            assert!(made.figures.epochs == made.figures.lower_bound || made.figures.status == Status::TimeLimit)
        }
        Err(problems) => assert_eq!(problems.code(), "TimeLimit"),
    }
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let run = Run { cancel: &cancel, ..Run::quiet(1) };
    let error = make(&instance, Some(&Milp::default()), &run).expect_err("called off");
    assert_eq!(error.code(), "CANCELLED");
    let options = Options { mode: Mode::Feasible(3), ..options };
    let instance = Instance::new(&dgx2, &Request::of_all(Collective::AllGather), &options, "t").expect("valid");
    let error = make(&instance, Some(&Milp::default()), &Run::quiet(1)).expect_err("too few epochs");
    assert_eq!(error.code(), "Infeasible");
}

#[test]
fn orders_that_find_nothing_do_not_say_that_there_is_nothing() {
    // Into the middle twice as fast as out of it, and nothing may wait there: only who waits at the source gets through.
    let links = serde_json::json!([{"GBps": 50, "alpha_us": 0, "both_ways": true, "pairs": [[0, 1]]},
        {"GBps": 25, "alpha_us": 0, "both_ways": true, "pairs": [[1, 2]]}]);
    let line = edited(&small(3, 0, &links, false), |file| file["nodes"][1]["buffer"] = "0B".into());
    let triples = serde_json::json!([["0", 0, "2"], ["0", 1, "2"]]);
    let file = serde_json::json!({"sluice_demands": 1, "tenants": [{"name": "all", "triples": triples}]});
    let options = Options { wanted: Some(wanted(&file).expect("valid")), ..options(1, EpochLength::Fast) };
    let instance = Instance::new(&line, &Request::of_all(Collective::Custom), &options, "t").expect("valid");
    let error = make(&instance, None, &Run::quiet(1)).expect_err("no order leads there");
    assert_eq!(error.code(), "NoFeasibleHorizon");
    let made = make(&instance, Some(&Milp::default()), &Run::quiet(1)).expect("the program finds it");
    assert_eq!((made.figures.epochs, made.figures.status), (5, Status::Optimal));
}
