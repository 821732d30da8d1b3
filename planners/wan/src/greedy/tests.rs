//! The list scheduler against one that sorts everything anew at each completion.

use proptest::prelude::*;

use super::*;
use crate::generate::{Sizes, Workload};
use crate::graph::Graph;
use crate::plan::Plan;

/// As the method's page says it.
fn by_sorting(instance: &Instance, rates: &[f64], key: Key) -> Vec<f64> {
    let keys = keys(instance, rates, key);
    let count = instance.flows().len();
    let (mut starts, mut ends) = (vec![f64::NAN; count], vec![f64::INFINITY; count]);
    let mut t = 0.0;
    loop {
        let done = |flow: usize| ends[flow] <= t;
        let mut ready: Vec<usize> = (0..count)
            .filter(|&flow| starts[flow].is_nan() && instance.flows()[flow].release <= t)
            .filter(|&flow| instance.predecessors(flow).iter().all(|&before| done(before)))
            .collect();
        ready.sort_by(|&a, &b| keys[a].order(&keys[b]));
        for flow in ready {
            let runs = |other: usize| !starts[other].is_nan() && ends[other] > t;
            let meets = |other: usize| {
                instance.flows()[other].path.iter().any(|link| instance.flows()[flow].path.contains(link))
            };
            if !(0..count).any(|other| runs(other) && meets(other)) {
                starts[flow] = t;
                ends[flow] = t + instance.flows()[flow].size / rates[flow];
            }
        }
        let releases = instance.flows().iter().map(|flow| flow.release).filter(|&release| release > t);
        let next = ends.iter().copied().filter(|&end| end > t && end < f64::INFINITY);
        let Some(next) = next.chain(releases).min_by(f64::total_cmp) else { return starts };
        t = next;
        for end in &mut ends {
            if *end > t && *end <= t + TOGETHER * t.max(1.0) {
                *end = t;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_does_what_sorting_does(seed: u64, nodes in 3_usize..7, collectives in 1_usize..5, mode in 0_usize..6) {
        let graph = Graph::ring(nodes).expect("a ring");
        let sizes = [Sizes::IidFlow, Sizes::PerGroup, Sizes::PerCollective][mode % 3];
        let workload = Workload { participants: 3, sizes, strict_steps: mode > 2, ..Workload::new(&graph, collectives, seed) };
        let drawn = workload.generate().expect("generated");
        let mut flows = drawn.flows().to_vec();
        flows.iter_mut().for_each(|flow| flow.release = if flow.group == 1 { flow.size } else { 0.0 });
        let deps = drawn.dependencies().collect();
        let late = Instance::new("late", nodes, drawn.links().to_vec(), flows, Some(deps)).expect("legal");
        for instance in [drawn, late] {
            let rates: Vec<f64> = (0..instance.flows().len()).map(|flow| instance.alone(flow)).collect();
            for key in Key::ALL {
                let schedule = nonconcurrent(&instance, key);
                prop_assert_eq!(&schedule.starts, &by_sorting(&instance, &rates, key), "{}", key.word());
                // Executed by order alone the flows start when planned.
                let outcome = Plan::Schedule(schedule.clone()).execute(&instance).expect("played");
                for (flow, end) in outcome.ends.iter().enumerate() {
                    let planned = schedule.starts[flow] + instance.duration(flow);
                    prop_assert!((end - planned).abs() <= 1e-9 * planned);
                }
            }
        }
    }
}

#[test]
fn some_flows_are_scheduled_as_if_the_others_were_not_there() {
    let graph = Graph::ring(4).expect("a ring");
    let instance = Workload { participants: 3, ..Workload::new(&graph, 3, 5) }.generate().expect("generated");
    let rates: Vec<f64> = (0..instance.flows().len()).map(|flow| instance.alone(flow)).collect();
    let ours: Vec<usize> = (0..instance.flows().len()).filter(|&flow| instance.flows()[flow].collective == 1).collect();
    let starts = list(&instance, &ours, &rates, Key::Shortest).expect("scheduled");
    let mut flows: Vec<_> = ours.iter().map(|&flow| instance.flows()[flow].clone()).collect();
    flows.iter_mut().for_each(|flow| flow.collective = 0);
    let alone = Instance::new("alone", 4, instance.links().to_vec(), flows, None).expect("legal");
    let expected = nonconcurrent(&alone, Key::Shortest).starts;
    assert_eq!(ours.iter().map(|&flow| starts[flow]).collect::<Vec<_>>(), expected);
    // A flow named twice is one flow.
    let twice = [&ours[..], &ours].concat();
    assert_eq!(list(&instance, &twice, &rates, Key::Shortest).expect("scheduled"), starts);
}

#[test]
fn what_cannot_be_scheduled_is_refused() {
    let graph = Graph::ring(3).expect("a ring");
    let instance = Workload { participants: 2, ..Workload::new(&graph, 1, 5) }.generate().expect("generated");
    let tried =
        |flows: &[usize], rates: &[f64]| list(&instance, flows, rates, Key::Shortest).expect_err("refused").code();
    assert_eq!(tried(&[0], &[1.0]), "BadWeight");
    assert_eq!(tried(&[4], &[1.0; 4]), "GapInIds");
    assert_eq!(tried(&[0], &[0.0; 4]), "Capacity");
    assert_eq!(tried(&[0], &[f64::NAN; 4]), "Capacity");
}
