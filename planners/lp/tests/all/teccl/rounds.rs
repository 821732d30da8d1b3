//! A* rounds: near the optimum on a DGX1, right on switches, and what they refuse.

use super::*;
use sluice_planners_lp::teccl::rounds::Rounds;

fn rounds(topology: &Topology, options: &Options, epochs: Option<u64>) -> Result<Made, Problems> {
    let instance = Instance::new(topology, &Request::of_all(Collective::AllGather), options, "t")?;
    make(&instance, Some(&Rounds { seed: 0, epochs }), &Run::quiet(1))
}

#[test]
fn an_all_gather_on_a_dgx1_ends_within_a_third_of_the_optimum() {
    let late = fabric("DGX1", false);
    let at_once = at_once(&late);
    for (topology, minima) in [(&late, [4, 5, 6]), (&at_once, [2, 3, 4])] {
        for (chunks, minimum) in (1..).zip(minima) {
            let made = rounds(topology, &options(chunks, EpochLength::Slow), None).expect("a plan");
            let epochs = made.figures.epochs;
            assert!(epochs >= minimum && 10 * epochs <= 13 * minimum, "{chunks} chunks: {epochs} instead of {minimum}");
        }
    }
}

#[test]
fn chunks_under_way_and_filled_links_are_carried_from_round_to_round() {
    // Links that take four epochs for a chunk, and switches of both kinds with and without a free second hop.
    let slow = serde_json::json!([{"GBps": 50, "alpha_us": 0, "both_ways": true, "pairs": [[0, 1]]},
        {"GBps": 12.5, "alpha_us": 0.6, "both_ways": true, "pairs": [[1, 2]]}]);
    let made = rounds(&small(3, 0, &slow, false), &options(2, EpochLength::Fast), None).expect("a plan");
    assert!(made.figures.epochs >= 18, "{}", made.figures.epochs);
    let star =
        serde_json::json!([{"GBps": 25, "alpha_us": 0, "both_ways": true, "pairs": [[0, 4], [1, 4], [2, 4], [3, 4]]}]);
    for copying in [false, true] {
        for free_second_hop in [false, true] {
            let options = Options { free_second_hop, ..options(2, EpochLength::Slow) };
            // The plan passed the checker, or there would be none.
            rounds(&small(5, 1, &star, copying), &options, None).expect("a plan");
        }
    }
}

#[test]
fn what_rounds_refuse() {
    let code = |topology: &Topology, epochs: Option<u64>| {
        let error = rounds(topology, &options(1, EpochLength::Slow), epochs).expect_err("refused");
        error.code()
    };
    let dgx1 = fabric("DGX1", false);
    assert_eq!(code(&dgx1, Some(1)), "RoundTooShort");
    // For longer than two rounds nothing can begin.
    let closed = edited(&unit(2, &[(0, 1), (1, 0)]), |file| {
        let capacities: Vec<&str> = (0..12).map(|epoch| if epoch < 9 { "0GB/s" } else { "25GB/s" }).collect();
        for link in file["links"].as_array_mut().expect("links") {
            link["capacity_per_epoch"] = capacities.clone().into();
        }
    });
    assert_eq!(code(&closed, None), "NoProgress");
    assert!(rounds(&closed, &options(1, EpochLength::Slow), Some(10)).is_ok(), "longer rounds get there");
    let limited = edited(&dgx1, |file| file["nodes"][0]["buffer"] = "25kB".into());
    assert_eq!(code(&limited, None), "Solver");
}
