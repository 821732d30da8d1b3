//! Reduce-scatter, reduce and all-reduce: all-gather and broadcast with time turned round.

use super::*;
use sluice_plan::plan::{Content, Op, Status};

#[test]
fn a_sum_takes_as_long_as_a_copy_the_other_way() {
    let dgx1 = at_once(&fabric("DGX1", false));
    let star = fabric("DGX2-1", false);
    for (topology, chunks) in [(&dgx1, 1), (&dgx1, 2), (&dgx1, 3), (&star, 1)] {
        let of = |collective| planned(topology, collective, &options(chunks, EpochLength::Slow)).figures;
        let (gather, scatter) = (of(Collective::AllGather), of(Collective::ReduceScatter));
        // These fabrics are the same both ways.
        assert_eq!((scatter.epochs, scatter.status), (gather.epochs, gather.status), "{chunks} chunks");
        assert_eq!(of(Collective::Reduce).epochs, of(Collective::Broadcast).epochs);
        let both = of(Collective::AllReduce);
        assert_eq!(both.epochs, gather.epochs + scatter.epochs);
        // Everybody takes in something of each of the chunks, which a link brings one by one.
        assert!(both.lower_bound <= both.epochs && both.lower_bound >= 2, "{both:?}");
    }
}

#[test]
fn sums_are_marked_and_come_before_copies() {
    let made = planned(&fabric("NDv2-2", false), Collective::AllReduce, &options(1, EpochLength::Slow));
    let Content::Sends(sends) = &made.plan.body.content else { panic!("sends") };
    let (sums, copies): (Vec<_>, Vec<_>) = sends.sends.iter().partition(|send| send.entry.op == Some(Op::Reduce));
    assert_eq!((sums.len(), copies.len()), (16 * 15, 16 * 15));
    assert!(
        sums.iter().map(|send| send.entry.epoch).max()
            < copies.iter().map(|send| send.entry.epoch).min().map(|n| n + 2)
    );
}

#[test]
fn free_second_hops_one_way_streets_and_switches_that_add_up() {
    // A ring one way: the reduce-scatter goes round it too.
    let ring = unit(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
    let scatter = planned(&ring, Collective::ReduceScatter, &options(1, EpochLength::Slow)).figures;
    assert_eq!((scatter.epochs, scatter.status), (3, Status::Optimal));
    let star =
        serde_json::json!([{"GBps": 25, "alpha_us": 0, "both_ways": true, "pairs": [[0, 4], [1, 4], [2, 4], [3, 4]]}]);
    for reduces in [false, true] {
        let star = edited(&small(5, 1, &star, false), |file| {
            file["nodes"][4]["can"] = serde_json::json!({"store": false, "copy": false, "reduce": reduces});
        });
        for free_second_hop in [false, true] {
            let options = Options { free_second_hop, ..options(1, EpochLength::Slow) };
            let figures = planned(&star, Collective::ReduceScatter, &options).figures;
            assert_eq!((figures.epochs, figures.status), (if free_second_hop { 3 } else { 4 }, Status::Optimal));
        }
    }
}

#[test]
fn what_sums_are_not_planned_with() {
    let dgx1 = fabric("DGX1", false);
    let code = |topology: &Topology, options: &Options| {
        tried(topology, Collective::ReduceScatter, options).expect_err("refused").code()
    };
    let plain = options(1, EpochLength::Slow);
    assert_eq!(code(&dgx1, &Options { hyper_edges: true, ..plain.clone() }), "E_RANGE");
    assert_eq!(code(&dgx1, &Options { divisible: true, ..plain.clone() }), "CopyNeeded");
    let limited = edited(&dgx1, |file| file["nodes"][0]["buffer"] = "25kB".into());
    assert_eq!(code(&limited, &plain), "UNSUPPORTED_FIELD");
    let varying = edited(&dgx1, |file| file["links"][0]["capacity_per_epoch"] = vec!["25GB/s"].into());
    assert_eq!(code(&varying, &plain), "UNSUPPORTED_FIELD");
}
