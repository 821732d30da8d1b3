//! Dantzig and Wolfe's method on the small fabrics.

use crate::fluid::fabric;
use sluice_plan::plan::Collective;
use sluice_planners::Run;
use sluice_planners::fluid::demand::Demand;
use sluice_planners::fluid::folding::Folding;
use sluice_planners::fluid::network::Network;
use sluice_planners::fluid::symmetry::automorphism::Automorphism;
use sluice_planners_lp::fluid::master::Master;
use sluice_planners_lp::fluid::pricing::{Pricing, Sides};

/// Time and cost, without symmetry.
fn solved(name: &str, collective: Collective, root: Option<usize>) -> (f64, f64) {
    let topology = fabric(name);
    let sides = Sides::of(Network::of(&topology));
    let demand = Demand::of(&sides.out, collective, &topology.compute(), root).expect("a demand");
    let folding = Folding::of(&sides.out, &demand, vec![Automorphism::identity(&sides.out)]).expect("the identity");
    let mut master = Master::new(&sides, &folding, Pricing::Routes, 1e-9);
    let time = master.least_time(&Run::quiet(1)).expect("a time");
    let cost = master.least_cost(time.upper, &Run::quiet(1)).expect("a cost");
    assert!(time.closed && cost.closed, "{name}, {collective:?}: {time:?} {cost:?}");
    for pair in master.iterations.windows(2).filter(|pair| pair[0].of_cost == pair[1].of_cost) {
        assert!(pair[1].upper <= pair[0].upper * (1.0 + 1e-9) && pair[1].lower >= pair[0].lower);
    }
    (time.upper / sides.out.scale, cost.upper)
}

fn close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-7 * expected.abs(), "{what}: {found} for {expected}");
}

#[test]
fn trees_of_the_page() {
    let table = [
        ("star-switch-4", 0.3, 24.0),
        ("star-memory-4", 0.3, 16.0),
        ("star-memory-4-bw24", 2.0 / 3.0, 16.0),
        ("ring-bidir-4", 0.3, 12.0),
        ("ring-unidir-5", 0.8, 20.0),
        ("line-4", 1.5, 12.0),
        ("two-box", 1.0, 24.0),
        ("phantom", 2.0 / 3.0, 31.0 / 3.0),
    ];
    for (name, latency, cost) in table {
        let found = solved(name, Collective::AllGather, None);
        close(found.0, latency, name);
        close(found.1, cost, name);
    }
    let found = solved("butterfly", Collective::Broadcast, Some(0));
    close(found.0, 2.0 / 3.0, "butterfly");
    close(found.1, 10.0 / 3.0, "butterfly");
}

#[test]
fn paths_of_the_page() {
    let table = [
        ("star-switch-4", 0.3, 24.0),
        ("star-memory-4-bw24", 1.0, 24.0),
        ("ring-bidir-4", 0.4, 16.0),
        ("ring-unidir-5", 2.0, 50.0),
        ("line-4", 2.0, 20.0),
        ("two-box", 2.0, 24.0),
        ("phantom", 2.0 / 3.0, 12.0),
    ];
    for (name, latency, cost) in table {
        let found = solved(name, Collective::AllToAll, None);
        close(found.0, latency, name);
        close(found.1, cost, name);
    }
}

#[test]
fn sums_of_the_page() {
    let table = [
        ("star-switch-4", 3.0 / 20.0),
        ("star-memory-4", 3.0 / 20.0),
        ("star-memory-4-bw24", 5.0 / 12.0),
        ("ring-bidir-4", 3.0 / 20.0),
        ("ring-unidir-5", 8.0 / 25.0),
        ("line-4", 0.5),
        ("two-box", 0.5),
        ("phantom", 0.4),
    ];
    for (name, latency) in table {
        close(solved(name, Collective::AllReduce, None).0, latency, name);
    }
}
