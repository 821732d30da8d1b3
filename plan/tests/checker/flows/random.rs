//! Random flows on random networks, replayed by the checker and plainly.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::check::{Code, check};
use sluice_plan::plan::Plan;

use super::{naive, plan};

/// What each kind of plan can be carried out as.
pub const EXECUTIONS: [(&str, &str); 8] = [
    ("rates", "static"),
    ("rates", "work_conserving"),
    ("weights", "static"),
    ("weights", "work_conserving"),
    ("weights", "max_min"),
    ("order", "priority"),
    ("order", "priority_recomputed"),
    ("order", "order_preserving"),
];

/// SplitMix64.
pub struct Draw(pub u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    /// From 0 to below 1.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
    /// A number of fifteen digits, or of one where ties are wanted.
    fn amount(&mut self, ties: bool) -> f64 {
        if ties { (1 + self.below(3)) as f64 } else { 0.5 + 30.0 * self.part() }
    }
}

/// A network with a way from everywhere to everywhere.
fn network(draw: &mut Draw, ties: bool) -> (Topology, Vec<(usize, usize)>) {
    let n = 3 + draw.below(4);
    let mut ends: Vec<(usize, usize)> = (0..n).flat_map(|i| [(i, (i + 1) % n), ((i + 1) % n, i)]).collect();
    for _ in 0..draw.below(5) {
        let (from, by) = (draw.below(n), 1 + draw.below(n - 1));
        ends.push((from, (from + by) % n));
    }
    let nodes: Vec<Value> = (0..n).map(|i| json!({"id": format!("n{i}"), "kind": "site"})).collect();
    let mut links = Vec::new();
    for (from, to) in &ends {
        let capacity = if draw.once_in(12) { "unlimited".into() } else { format!("{}MB/s", draw.amount(ties)) };
        links.push(json!({"from": format!("n{from}"), "to": format!("n{to}"), "capacity": capacity}));
    }
    let file = json!({"sluice_topology": 1, "nodes": nodes, "links": links});
    (Topology::read(file.to_string().as_bytes(), "t").expect("valid"), ends)
}

/// A way that comes nowhere twice.
fn route(draw: &mut Draw, ends: &[(usize, usize)]) -> Vec<usize> {
    let first = draw.below(ends.len());
    let (mut path, mut seen) = (vec![first], vec![ends[first].0, ends[first].1]);
    for _ in 0..draw.below(3) {
        let here = ends[path[path.len() - 1]].1;
        let on: Vec<usize> =
            (0..ends.len()).filter(|link| ends[*link].0 == here && !seen.contains(&ends[*link].1)).collect();
        if on.is_empty() {
            break;
        }
        let next = on[draw.below(on.len())];
        seen.push(ends[next].1);
        path.push(next);
    }
    path
}

/// Flows in chains, some of which wait for others and for their release.
fn flows(draw: &mut Draw, ends: &[(usize, usize)], ties: bool) -> Vec<Value> {
    let mut flows: Vec<Value> = Vec::new();
    for collective in 0..1 + draw.below(4) {
        for group in 0..1 + draw.below(3) {
            for order in 0..1 + draw.below(4) {
                let path = route(draw, ends);
                let (src, dst) = (ends[path[0]].0, ends[path[path.len() - 1]].1);
                let size = draw.amount(ties);
                // Numbers that are not in the order of the file.
                let id = (flows.len() * 37 + 11) % 1009;
                flows.push(json!({"id": id, "collective": 3 * collective + 1, "group": group, "order": order,
                    "src": format!("n{src}"), "dst": format!("n{dst}"), "size": format!("{size}MB"), "path": path}));
            }
        }
    }
    for i in 0..flows.len() {
        if draw.once_in(4) {
            flows[i]["release_s"] = json!(if ties { draw.below(3) as f64 } else { 3.0 * draw.part() });
        }
        let other = draw.below(flows.len());
        // Who waits is further in its chain, so nobody waits in a circle.
        if draw.once_in(5) && flows[other]["order"].as_u64() < flows[i]["order"].as_u64() {
            flows[i]["pred"] = json!([flows[other]["id"]]);
        }
    }
    flows
}

fn group(flow: &Value) -> (u64, u64) {
    (flow["collective"].as_u64().expect("a number"), flow["group"].as_u64().expect("a number"))
}
fn path(flow: &Value) -> Vec<usize> {
    flow["path"].as_array().expect("a path").iter().map(|link| link.as_u64().expect("a link") as usize).collect()
}

/// Rates that fit: a part of the fair share of each group on every link; more than enough where nothing limits it.
fn rates(draw: &mut Draw, topology: &Topology, flows: &mut [Value]) {
    let users = |link: usize, flows: &[Value]| {
        let groups: BTreeSet<_> = flows.iter().filter(|flow| path(flow).contains(&link)).map(group).collect();
        groups.len() as f64
    };
    for i in 0..flows.len() {
        let fair = path(&flows[i])
            .into_iter()
            .filter_map(|link| Some(topology.links()[link].capacity.finite()?.to_f64() / users(link, flows)));
        let fair = fair.fold(40e6, f64::min);
        flows[i]["rate"] = json!(format!("{}B/s", (fair * (0.2 + 0.8 * draw.part())).floor()));
    }
}

/// Starts without waiting: the flow that can begin first does so, after all that it meets on a link, or only after those of
/// its own collective, at a rate that leaves room for the other collectives.
fn starts(draw: &mut Draw, topology: &Topology, flows: &mut [Value]) {
    let capacity = |link: &usize| topology.links()[*link].capacity.finite().map_or(f64::INFINITY, |of| of.to_f64());
    let shared = draw.once_in(2);
    let collectives: BTreeSet<u64> = flows.iter().map(|flow| group(flow).0).collect();
    let bytes =
        |flow: &Value| sluice_formats::quantity::size(flow["size"].as_str().expect("a size")).expect("a size").to_f64();
    let mut ends: Vec<Option<f64>> = vec![None; flows.len()];
    for flow in flows.iter_mut().filter(|_| shared) {
        let alone = path(flow).iter().map(capacity).fold(f64::INFINITY, f64::min);
        if alone.is_finite() {
            flow["rate"] = json!(format!("{}B/s", (alone / collectives.len() as f64).floor()));
        }
    }
    for _ in 0..flows.len() {
        let start = |i: usize| {
            let of = &flows[i];
            let ids: Vec<&Value> = of["pred"].as_array().into_iter().flatten().collect();
            let mut start = of["release_s"].as_f64().unwrap_or(0.0);
            for (other, end) in flows.iter().zip(&ends) {
                let chain =
                    group(other) == group(of) && other["order"].as_u64().map(|order| order + 1) == of["order"].as_u64();
                let meets = path(other).iter().any(|link| capacity(link).is_finite() && path(of).contains(link));
                let ours = !shared || other["collective"] == of["collective"];
                match end {
                    None if chain || ids.contains(&&other["id"]) => return None,
                    Some(end) if chain || ids.contains(&&other["id"]) || meets && ours => start = start.max(*end),
                    _ => {}
                }
            }
            Some(start)
        };
        let open = (0..flows.len()).filter(|i| ends[*i].is_none()).filter_map(|i| Some((start(i)?, i)));
        let (start, next) = open.min_by(|a, b| a.partial_cmp(b).expect("numbers")).expect("no circle");
        let alone = path(&flows[next]).iter().map(capacity).fold(f64::INFINITY, f64::min);
        let rate = if shared && alone.is_finite() { (alone / collectives.len() as f64).floor() } else { alone };
        ends[next] = Some(start + bytes(&flows[next]) / rate);
        flows[next]["start_s"] = json!(start);
    }
}

/// A plan of this kind that claims nothing.
pub fn random(seed: u64, kind: &str, execution: &str) -> Value {
    let mut draw = Draw(seed);
    let ties = draw.once_in(3);
    let (topology, ends) = network(&mut draw, ties);
    let mut flows = flows(&mut draw, &ends, ties);
    let mut content = json!({"kind": kind, "execution": execution});
    match (kind, execution) {
        ("rates", _) => rates(&mut draw, &topology, &mut flows),
        ("weights", _) => {
            let groups: BTreeSet<_> = flows.iter().map(group).collect();
            let mut weighted = Vec::new();
            for (collective, group) in groups {
                let weight = format!("{}", draw.amount(ties));
                weighted.push(json!({"collective": collective, "group": group, "weight": weight}));
            }
            content["groups"] = json!(weighted);
        }
        (_, "priority") => flows.iter_mut().for_each(|flow| flow["rank"] = json!(draw.below(5))),
        (_, "order_preserving") => starts(&mut draw, &topology, &mut flows),
        _ => {}
    }
    content["flows"] = json!(flows);
    plan(&topology, content, json!({}))
}

/// The same plan with the times of a plain replay.
pub fn claiming(mut plan: Value) -> Value {
    let times = naive::times(&plan);
    plan["claim"]["T_mean_s"] = json!(times.iter().sum::<f64>() / times.len() as f64);
    plan["claim"]["T"] = json!(times);
    plan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn replays_agree_with_a_plain_one(seed: u64) {
        for (kind, execution) in EXECUTIONS {
            let plan = claiming(random(seed, kind, execution));
            let read = |plan: &Value| Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
            let report = check(&read(&plan), None);
            prop_assert_eq!(&report.violation, &None, "{} {}: {}", kind, execution, plan);
            prop_assert!(report.not_rechecked.is_empty(), "{:?}", report);
            let times = plan["claim"]["T"].as_array().expect("times").len();
            for i in 0..times {
                let mut wrong = plan.clone();
                wrong["claim"].as_object_mut().expect("a claim").remove("T_mean_s");
                let time = plan["claim"]["T"][i].as_f64().expect("a time");
                for other in [time * 1.000_01 + 1e-3, time * 0.999_98] {
                    wrong["claim"]["T"][i] = json!(other);
                    let code = check(&read(&wrong), None).violation.map(|violation| violation.code);
                    prop_assert!(code == Some(Code::WrongTime) || other == 0.0, "{} {}: {:?}", kind, execution, code);
                }
            }
        }
    }
}
