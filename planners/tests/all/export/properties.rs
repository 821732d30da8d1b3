//! Random fabrics: whatever ForestColl plans can be exported, and every program does its collective.

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::export::{Format, Options, UNSUPPORTED_FIELD, XML_LIMIT_EXCEEDED, export};
use sluice_plan::interpret::{Op, interpret, read};

use crate::export::scene::{OF_TREES, best_all_reduce, exported, formats_of_trees, planned, text, unlimited};

/// Participants and switches on random duplex links, with shares, switches that copy or add up, and rings one way.
fn fabric() -> impl Strategy<Value = Topology> {
    let link = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_u32..5);
    let node = (prop_oneof![4 => Just(1_u64), 1 => 0_u64..4], any::<bool>(), any::<bool>());
    (proptest::collection::vec(node, 2..8), 0_usize..3, proptest::collection::vec(link, 0..10), 0_u32..3).prop_map(
        |(nodes, switches, links, ring)| {
            let compute = nodes.len();
            let all = compute + switches;
            let mut list: Vec<Value> = Vec::new();
            for i in 0..all {
                let (weight, copy, reduce) = nodes[i % compute];
                list.push(if i < compute {
                    json!({"id": format!("g{i}"), "kind": "gpu", "weight": if i == 0 { weight.max(1) } else { weight }})
                } else {
                    json!({"id": format!("s{i}"), "kind": "switch", "can": {"copy": copy, "reduce": reduce}})
                });
            }
            let id = |node: usize| list[node]["id"].clone();
            // Every node hangs on one before it, so that all are connected.
            let near = |i: usize| links.get(i).map_or(0, |(a, _, _)| a.index(i));
            let rate = |i: usize| links.get(i).map_or(1, |(_, _, rate)| *rate).to_string();
            let mut made: Vec<Value> = (1..all)
                .map(|i| json!({"from": id(i), "to": id(near(i)), "capacity": rate(i), "duplex": true}))
                .collect();
            for (a, b, rate) in &links {
                let (a, b) = (a.index(all), b.index(all));
                if a != b {
                    made.push(json!({"from": id(a), "to": id(b), "capacity": rate.to_string(), "duplex": true}));
                }
            }
            if ring > 0 {
                for i in 0..compute {
                    made.push(json!({"from": id(i), "to": id((i + 1) % compute), "capacity": ring.to_string()}));
                }
            }
            let file = json!({"sluice_topology": 1, "nodes": list, "links": made});
            Topology::read(file.to_string().as_bytes(), "t").expect("valid")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_program_does_its_collective(topology in fabric(), which in 0_usize..5, instances in 1_u32..4, fixed in 0_i64..3) {
        // With links one way, a given number of trees may not divide them evenly.
        let even = topology.file().links.iter().all(|link| link.duplex == Some(true));
        let plan = planned(&topology, OF_TREES[which], (fixed > 0 && even).then_some(fixed));
        let xml = text(&plan, Format::MscclXml, &unlimited(instances));
        let report = interpret(xml.as_bytes(), "p").map_err(|errors| TestCaseError::fail(errors.to_string()))?;
        prop_assert_eq!(&report.fault, &None);
        let program = read(xml.as_bytes(), "p").expect("it was read before");
        prop_assert_eq!(program.to_xml(), xml.clone(), "read and written back");
        // With limits it is the same text, or one whose chains share blocks, or refused for good reason.
        let steps = program.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|block| block.steps.len()).max();
        let too_large = report.channels > 32 || report.blocks > 108 || steps > Some(256);
        let weights: Vec<u64> = topology.compute().iter().map(|node| topology.nodes()[*node].weight).collect();
        let uneven = which == 0 && weights.windows(2).any(|pair| pair[0] != pair[1]);
        match export(&plan, None, Format::MscclXml, &Options { instances, ..Options::default() }) {
            Ok(export) if too_large => {
                let report = interpret(export.files[0].text.as_bytes(), "p").expect("readable");
                prop_assert!(report.ok() && report.channels <= 32 && report.blocks <= 108, "{:?}", report);
            }
            Ok(export) => prop_assert_eq!(&export.files[0].text, &xml),
            Err(errors) if errors.code() == UNSUPPORTED_FIELD => prop_assert!(uneven),
            Err(errors) => {
                prop_assert_eq!(errors.code(), XML_LIMIT_EXCEEDED);
                prop_assert!(too_large);
            }
        }
        // Every chunk is sent once per tree edge: no more, no less.
        let sent: u64 = program.steps().filter(|step| step.op.sends()).map(|step| u64::from(step.count)).sum();
        let ways = if which == 2 { 2 } else { 1 };
        prop_assert_eq!(sent, u64::from(report.chunks) * (report.ranks as u64 - 1) * ways);
        // No step waits that need not: without any one of the waits the program is wrong.
        if report.steps < 200 {
            for (rank, gpu) in program.gpus.iter().enumerate() {
                for (b, block) in gpu.blocks.iter().enumerate() {
                    for s in (0..block.steps.len()).filter(|s| block.steps[*s].after.is_some()) {
                        let mut hasty = program.clone();
                        let after = hasty.gpus[rank].blocks[b].steps[s].after.take().expect("it has one");
                        let others = |step: &sluice_plan::interpret::Step| step.after == Some(after);
                        let still = hasty.gpus[rank].blocks.iter().flat_map(|block| &block.steps).any(others);
                        hasty.gpus[rank].blocks[after.block as usize].steps[after.step as usize].awaited = still;
                        let report = interpret(hasty.to_xml().as_bytes(), "p").expect("readable");
                        prop_assert!(!report.ok(), "rank {rank}, block {b}, step {s}");
                    }
                }
            }
        }
        for format in formats_of_trees() {
            prop_assert_eq!(exported(&plan, format, &unlimited(1)), exported(&plan, format, &unlimited(1)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// Trees in and out that have nothing to do with each other.
    #[test]
    fn the_best_all_reduce_too(topology in fabric()) {
        prop_assume!(topology.compute().len() <= 5 && topology.nodes().iter().all(|node| node.weight == 1));
        let plan = best_all_reduce(&topology);
        let xml = text(&plan, Format::MscclXml, &unlimited(1));
        let report = interpret(xml.as_bytes(), "p").map_err(|errors| TestCaseError::fail(errors.to_string()))?;
        prop_assert_eq!(&report.fault, &None);
        let adds = read(xml.as_bytes(), "p").expect("read before");
        prop_assert!(adds.steps().any(|step| step.op == Op::ReceiveReduceCopy || step.op == Op::ReceiveReduceCopySend));
    }
}
