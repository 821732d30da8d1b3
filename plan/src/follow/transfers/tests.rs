use serde_json::{Value, json};
use sluice_formats::topology::Topology;

use super::*;
use crate::follow::{Followed, Job};
use crate::plan::Collective;

/// Three sites in a ring, 8 Mbit/s each way; a to b is half as fast.
fn fabric() -> Value {
    let link = |a: &str, b: &str, rate: &str| json!({"from": a, "to": b, "capacity": rate});
    let nodes = ["a", "b", "c"].map(|id| json!({"id": id, "kind": "site"}));
    json!({
        "sluice_topology": 1,
        "name": "three",
        "nodes": nodes,
        "links": [
            link("a", "b", "500kB/s"), link("b", "c", "1MB/s"), link("c", "a", "1MB/s"),
            link("b", "a", "1MB/s"), link("c", "b", "1MB/s"), link("a", "c", "1MB/s"),
        ],
    })
}

fn flow(id: u64, place: (u64, u64, u64), from: &str, to: &str, path: &[u32], size: &str) -> Value {
    let (collective, group, order) = place;
    json!({"id": id, "collective": collective, "group": group, "order": order, "src": from, "dst": to, "path": path, "size": size})
}

/// Collective 0: one chain once and a half around; collective 7: c to b, behind flow 1 of the other.
fn chains() -> Vec<Value> {
    let mut other = flow(9, (7, 0, 0), "c", "b", &[4], "2MB");
    other["pred"] = json!([1]);
    vec![
        flow(0, (0, 0, 0), "b", "c", &[1], "1MB"),
        flow(1, (0, 0, 1), "c", "a", &[2], "1MB"),
        flow(2, (0, 0, 2), "a", "b", &[0], "1MB"),
        flow(3, (0, 0, 3), "b", "c", &[1], "500kB"),
        flow(4, (0, 1, 0), "b", "c", &[1], "3MB"),
        other,
    ]
}

fn plan(kind: &str, execution: &str, flows: Vec<Value>, groups: Value) -> String {
    let topology = Topology::read(fabric().to_string().as_bytes(), "t").expect("a topology");
    let mut content = json!({"kind": kind, "execution": execution, "flows": flows});
    if !groups.is_null() {
        content["groups"] = groups;
    }
    let topology = json!({"sha256": topology.digest(), "inline": fabric()});
    json!({"sluice_plan": 1, "collective": "custom", "topology": topology, "content": content, "claim": {}}).to_string()
}

fn rates(execution: &str) -> String {
    let mut flows = chains();
    for (flow, rate) in flows.iter_mut().zip(["400kB/s", "1MB/s", "500kB/s", "400kB/s", "600kB/s", "1MB/s"]) {
        flow["rate"] = json!(rate);
    }
    plan("rates", execution, flows, Value::Null)
}

fn followed(text: &str, collective: u64, ranks: Option<&[String]>) -> Followed {
    let job = Job { ranks, collective: Some(collective) };
    Followed::by(text.as_bytes(), "p.json", job, None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// From, to, and of every flow: end, rate, place, what it waits for.
type Told = (u32, u32, Vec<(u64, Option<u64>, Option<u64>, Vec<(usize, u64)>)>);

fn told(transfers: &Transfers) -> Vec<Told> {
    let after = |flow: &Transfer| flow.after.iter().map(|of| (of.lane, of.bytes)).collect();
    let flow = |flow: &Transfer| (flow.end, flow.bits_per_second, flow.place, after(flow));
    transfers.lanes.iter().map(|lane| (lane.from, lane.to, lane.flows.iter().map(flow).collect())).collect()
}

#[test]
fn rates_become_lanes_that_wait_for_each_other() {
    let of = followed(&rates("static"), 0, None);
    assert_eq!((of.participants.join(" "), of.collective), ("b c a".to_owned(), Collective::Custom));
    assert!(!of.transfers.fills && of.trees.is_empty() && of.sha256.len() == 64);
    let lanes: Vec<Told> = vec![
        (
            0,
            1,
            vec![(1_000_000, Some(3_200_000), None, vec![]), (1_500_000, Some(3_200_000), None, vec![(3, 1_000_000)])],
        ),
        (0, 1, vec![(3_000_000, Some(4_800_000), None, vec![])]),
        (1, 2, vec![(1_000_000, Some(8_000_000), None, vec![(0, 1_000_000)])]),
        (2, 0, vec![(1_000_000, Some(4_000_000), None, vec![(2, 1_000_000)])]),
    ];
    assert_eq!(told(&of.transfers), lanes);
    assert_eq!(of.transfers.lanes[0].bytes(), 1_500_000);
    // What another collective's flow waits for is another job's.
    let other = followed(&rates("work_conserving"), 7, None);
    assert!(other.transfers.fills);
    assert_eq!(told(&other.transfers), [(0, 1, vec![(2_000_000, Some(8_000_000), None, vec![])])]);
}

#[test]
fn ranks_may_be_others() {
    let ranks = ["a", "b", "c"].map(str::to_owned);
    let of = followed(&rates("static"), 0, Some(&ranks));
    let ends: Vec<_> = of.transfers.lanes.iter().map(|lane| (lane.from, lane.to)).collect();
    assert_eq!(ends, [(0, 1), (1, 2), (1, 2), (2, 0)]);
}

#[test]
fn weights_are_parts_of_every_link() {
    let group =
        |collective: u64, group: u64, weight: &str| json!({"collective": collective, "group": group, "weight": weight});
    let groups = json!([group(0, 0, "1"), group(0, 1, "3"), group(7, 0, "2")]);
    let of = followed(&plan("weights", "work_conserving", chains(), groups), 0, None);
    assert!(of.transfers.fills);
    let rates: Vec<Vec<Option<u64>>> =
        of.transfers.lanes.iter().map(|lane| lane.flows.iter().map(|flow| flow.bits_per_second).collect()).collect();
    // b to c is shared 1 to 3; c to a and a to b belong to the first group alone.
    assert_eq!(
        rates,
        [vec![Some(2_000_000), Some(2_000_000)], vec![Some(6_000_000)], vec![Some(8_000_000)], vec![Some(4_000_000)]]
    );
}

#[test]
fn orders_become_places_among_all_flows() {
    let mut flows = chains();
    for (flow, rank) in flows.iter_mut().zip([5, 4, 3, 2, 9, 0]) {
        flow["rank"] = json!(rank);
    }
    let of = followed(&plan("order", "priority", flows, Value::Null), 0, None);
    let places: Vec<Vec<_>> =
        of.transfers.lanes.iter().map(|lane| lane.flows.iter().map(|flow| flow.place).collect()).collect();
    assert_eq!(places, [vec![Some(4), Some(1)], vec![Some(5)], vec![Some(3)], vec![Some(2)]]);
    assert!(of.transfers.fills && of.transfers.lanes.iter().all(|lane| lane.flows[0].bits_per_second.is_none()));
    let of = followed(&plan("order", "priority_recomputed", chains(), Value::Null), 0, None);
    assert!(of.transfers.by_round);
    let places: Vec<_> = of.transfers.lanes.iter().map(|lane| lane.flows[0].place).collect();
    assert_eq!(places, [Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn a_collective_must_be_one_of_the_plans() {
    let read = |collective| {
        let job = Job { ranks: None, collective };
        let problems = Followed::by(rates("static").as_bytes(), "p.json", job, None).expect_err("refused");
        let first = &problems.all()[0];
        (first.code, first.key.clone(), first.allowed.clone())
    };
    assert_eq!(read(None), (E_RANGE, "collective".into(), "0, 7".into()));
    assert_eq!(read(Some(3)), (E_RANGE, "collective".into(), "0, 7".into()));
}

#[test]
fn any_byte_of_it_may_be_damaged() {
    let text = rates("static");
    for at in (0..text.len()).step_by(5) {
        for bit in [0, 3, 6] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            let job = Job { ranks: None, collective: Some(0) };
            if let Ok(followed) = Followed::by(&bytes, "p.json", job, None) {
                let lanes = &followed.transfers.lanes;
                let known = |flow: &Transfer| flow.after.iter().all(|of| of.bytes <= lanes[of.lane].bytes());
                assert!(lanes.iter().all(|lane| lane.flows.iter().all(known)));
            }
        }
    }
}
