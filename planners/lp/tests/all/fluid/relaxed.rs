//! The program by links on the small fabrics: where nodes that cannot copy are balanced, and where they are taken apart.

use crate::fluid::fabric;
use sluice_plan::plan::Collective;
use sluice_planners::Run;
use sluice_planners::fluid::demand::Demand;
use sluice_planners::fluid::merging::{Merging, Views};
use sluice_planners::fluid::network::Network;
use sluice_planners::fluid::view::View;
use sluice_planners_lp::fluid::relaxed::{self, Relaxed};

/// How nodes that cannot copy are dealt with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Strength {
    Balanced,
    Apart,
}

fn solved(name: &str, collective: Collective, root: Option<usize>, strength: Strength) -> Relaxed {
    let topology = fabric(name);
    let network = Network::of(&topology);
    let demand = Demand::of(&network, collective, &topology.compute(), root).expect("a demand");
    let view = |network: &Network| match strength {
        Strength::Balanced => View::plain(network),
        Strength::Apart => View::apart(network),
    };
    let views = Views { out: view(&network), inward: view(&network.reversed()) };
    let merging = Merging::nothing(&views, &demand);
    let mut solved =
        relaxed::solve(&views, &merging, strength == Strength::Balanced, true, &Run::quiet(1)).expect("solved");
    solved.latency /= network.scale;
    solved
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-7 * expected.abs()
}

#[test]
fn all_gathers_of_the_page() {
    let table = [
        ("star-switch-4", 0.3, 24.0, 24.0),
        ("star-memory-4", 0.3, 16.0, 16.0),
        ("star-memory-4-bw24", 2.0 / 3.0, 16.0, 16.0),
        ("ring-bidir-4", 0.3, 12.0, 12.0),
        ("ring-unidir-5", 0.8, 20.0, 20.0),
        ("line-4", 1.5, 12.0, 12.0),
        ("two-box", 1.0, 24.0, 24.0),
        ("phantom", 2.0 / 3.0, 9.0, 31.0 / 3.0),
    ];
    for (name, latency, balanced, apart) in table {
        for (strength, cost) in [(Strength::Balanced, balanced), (Strength::Apart, apart)] {
            let found = solved(name, Collective::AllGather, None, strength);
            let (time, price) = (found.latency, found.cost.expect("a cost"));
            assert!(close(time, latency), "{name}, {strength:?}: {time} for {latency}");
            assert!((price - cost).abs() <= 1e-6 * cost, "{name}, {strength:?}: {price} for {cost}");
        }
    }
    for strength in [Strength::Balanced, Strength::Apart] {
        let found = solved("butterfly", Collective::Broadcast, Some(0), strength);
        assert!(close(found.latency, 0.5) && (found.cost.expect("a cost") - 3.0).abs() < 1e-6, "{found:?}");
    }
}

#[test]
fn all_to_alls_of_the_page() {
    let table = [
        ("star-switch-4", 0.3, 24.0),
        ("star-memory-4", 0.3, 24.0),
        ("star-memory-4-bw24", 1.0, 24.0),
        ("ring-bidir-4", 0.4, 16.0),
        ("ring-unidir-5", 2.0, 50.0),
        ("line-4", 2.0, 20.0),
        ("two-box", 2.0, 24.0),
        ("phantom", 2.0 / 3.0, 12.0),
    ];
    for (name, latency, cost) in table {
        let found = solved(name, Collective::AllToAll, None, Strength::Balanced);
        let (time, price) = (found.latency, found.cost.expect("a cost"));
        assert!(close(time, latency), "{name}: {time} for {latency}");
        assert!((price - cost).abs() <= 1e-6 * cost, "{name}: {price} for {cost}");
    }
}

#[test]
fn all_reduces_of_the_page() {
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
        for strength in [Strength::Balanced, Strength::Apart] {
            let time = solved(name, Collective::AllReduce, None, strength).latency;
            assert!(close(time, latency), "{name}, {strength:?}: {time} for {latency}");
        }
    }
}
