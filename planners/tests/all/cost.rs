//! What plans cost at any size, against what their planners say of them at one size, or of very much data.

use sluice_formats::quantity::Rational;
use sluice_formats::topology::{Topology, import};
use sluice_plan::cost::Cost;
use sluice_plan::plan::Collective;
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::{Request, Run, direct, forestcoll, ring, teccl};

fn of_paper(name: &str) -> Topology {
    let start = format!("{{\"name\":\"{name}\"");
    let line = include_str!("../teccl/fabrics.jsonl").lines().find(|line| line.starts_with(&start)).expect("there");
    import::teccl(line.as_bytes(), name, false).expect("valid")
}

fn bytes(number: u64) -> Rational {
    Rational::from(number)
}

fn sends(topology: &Topology, collective: Collective, size: u64, epoch: EpochLength, theta: &Rational) -> teccl::Made {
    let volume = teccl::Volume::Size(bytes(size));
    let options = teccl::Options { epoch, theta: theta.clone(), ..teccl::Options::of(volume) };
    let instance = teccl::Instance::new(topology, &Request::of_all(collective), &options, "t").expect("valid");
    teccl::make(&instance, None, &Run::quiet(1)).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_replay_is_never_later_than_its_epochs() {
    let million = bytes(1_000_000);
    for (name, collective) in [
        ("DGX1", Collective::AllGather),
        ("DGX1", Collective::AllToAll),
        ("NDv2-2", Collective::AllGather),
        ("NDv2-2", Collective::AllToAll),
        ("DGX2-2", Collective::AllGather),
        ("NDv2-4", Collective::AllGather),
    ] {
        let topology = of_paper(name);
        for (size, epoch) in
            [(1_000_000_000, EpochLength::Slow), (1_000_000, EpochLength::Fast), (64_000, EpochLength::Slow)]
        {
            let made = sends(&topology, collective, size, epoch, &Rational::ZERO);
            let cost = Cost::new(&made.plan, &topology).expect("a good plan");
            let finish = made.figures.finish_us.checked_div(&million).expect("a time");
            let time = cost.time(&bytes(size));
            assert!(time <= finish, "{name} {size}: {time} s, {finish} s by epochs");
            // Latencies and bytes are both in it, and both terms bound it from below.
            let least = (&cost.per_byte() * &bytes(size)).max(cost.latency());
            assert!(time >= least && least.is_positive(), "{name} {size}: {time} s, at least {least}");
            assert!(cost.time(&bytes(2 * size)) > time);
        }
    }
}

#[test]
fn nothing_has_more_bandwidth_than_the_best_trees() {
    for name in ["DGX1", "DGX2-1"] {
        let topology = of_paper(name);
        let request = Request::of_all(Collective::AllGather);
        let instance = forestcoll::Instance::new(&topology, &request, "t").expect("a problem");
        let options = forestcoll::Options::default();
        let trees = forestcoll::make(&instance, &options, forestcoll::Way::Phases, &Run::quiet(1)).expect("trees").plan;
        let best = Cost::new(&trees, &topology).expect("a good plan").per_byte();
        let claimed = trees.body.claim.time_per_byte.as_ref().map(|claimed| &claimed.value);
        assert_eq!(Some(&best), claimed);
        let sends = sends(&topology, Collective::AllGather, 1_000_000_000, EpochLength::Fast, &Rational::ZERO).plan;
        let ring = ring::make(&topology, &request, "t").expect("a ring");
        for plan in [sends, ring] {
            assert!(Cost::new(&plan, &topology).expect("a good plan").per_byte() >= best, "{name}");
        }
    }
}

#[test]
fn steps_cost_what_their_planner_says() {
    for (name, size) in [("DGX1", 4_000), ("DGX1", 40_000_000), ("NDv2-2", 1_000_000)] {
        let (topology, size) = (of_paper(name), bytes(size));
        for collective in [Collective::AllGather, Collective::AllReduce] {
            let request = Request::of_all(collective);
            let options = direct::Options { size: Some(&size), units: None, proof: direct::Proof::Bandwidth };
            let instance = direct::Instance::new(&topology, &request, &options, "t").expect("a graph");
            let made = direct::make(&instance, &Run::quiet(1)).unwrap_or_else(|problems| panic!("{problems}"));
            let cost = Cost::new(&made.plan, &topology).expect("a good plan");
            assert_eq!(Some(cost.time(&size)), made.figures.time, "{name}");
        }
    }
}
