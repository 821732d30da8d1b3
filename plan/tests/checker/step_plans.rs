//! Right plans of kind `steps` for any topology, with all that the checker computes counted again in the plainest way.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::check::check;
use sluice_plan::plan::{Collective, Content, Direction, Plan};

use crate::naive;

pub const ALL: [Collective; 8] = [
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Scatter,
    Collective::Gather,
];

/// A hop of a shard: step, link, shard.
type Hop = (usize, usize, Value);

/// Units of a shard in these plans.
pub const P: u64 = 2;

pub fn link(topology: &Topology, from: usize, to: usize) -> usize {
    topology.links().iter().position(|link| (link.from, link.to) == (from, to)).expect("a link")
}

/// The nodes of every edge of every tree of a plan, in flow direction, and the rank of its root.
fn tree_edges(topology: &Topology, plan: &Plan, direction: Direction) -> Vec<(usize, Vec<Vec<usize>>)> {
    let Content::Trees(trees) = &plan.body.content else { panic!("trees") };
    let node = |id| topology.node(plan.id(id)).expect("known");
    let compute = topology.compute();
    let forest = trees.forests.iter().find(|forest| forest.direction == direction).expect("there");
    let of = |tree: &sluice_plan::plan::Tree| {
        let rank = compute.iter().position(|other| *other == node(tree.root)).expect("a rank");
        (rank, tree.edges.iter().map(|edge| edge.path().map(node).collect()).collect())
    };
    forest.trees.iter().map(of).collect()
}

/// Every tree edge as soon as its data is there, hop by hop.
fn outwards(topology: &Topology, plan: &Plan) -> Vec<Hop> {
    let mut hops = Vec::new();
    for (rank, mut edges) in tree_edges(topology, plan, Direction::Out) {
        let mut arrived = BTreeMap::from([(topology.compute()[rank], 0)]);
        while !edges.is_empty() {
            let next = edges.iter().position(|path| arrived.contains_key(&path[0])).expect("a tree");
            let path = edges.remove(next);
            let begin = arrived[&path[0]];
            for (i, hop) in path.windows(2).enumerate() {
                hops.push((begin + i, link(topology, hop[0], hop[1]), json!(rank)));
            }
            arrived.insert(path[path.len() - 1], begin + path.len() - 1);
        }
    }
    hops
}

/// Every tree edge as late as it may: the way out on the reversed tree, backwards in time.
fn inwards(topology: &Topology, plan: &Plan) -> Vec<Hop> {
    let mut hops = Vec::new();
    for (rank, mut edges) in tree_edges(topology, plan, Direction::In) {
        let mut leaves = BTreeMap::from([(topology.compute()[rank], 0)]);
        while !edges.is_empty() {
            let next = edges.iter().position(|path| leaves.contains_key(&path[path.len() - 1])).expect("a tree");
            let path = edges.remove(next);
            let begin = leaves[&path[path.len() - 1]];
            for (i, hop) in path.windows(2).rev().enumerate() {
                hops.push((begin + i, link(topology, hop[0], hop[1]), json!(rank)));
            }
            leaves.insert(path[0], begin + path.len() - 1);
        }
    }
    let last = hops.iter().map(|hop| hop.0).max().expect("some");
    hops.into_iter().map(|(step, link, shard)| (last - step, link, shard)).collect()
}

/// Everything over shortest paths, each hop in its own step.
fn pairs(topology: &Topology, collective: Collective) -> Vec<Hop> {
    let plan = naive::paths(topology, collective);
    let Content::Paths(paths) = &plan.body.content else { panic!("paths") };
    let compute = topology.compute();
    let rank = |id| {
        let node = topology.node(plan.id(id)).expect("known");
        compute.iter().position(|other| *other == node).expect("a rank")
    };
    let mut hops = Vec::new();
    // Both halves of a pair take the same path; one of them is enough here.
    for pair in paths.pairs.iter().step_by(2) {
        let shard = match collective {
            Collective::AllToAll => json!([rank(pair.src), rank(pair.dst)]),
            Collective::Scatter => json!(rank(pair.dst)),
            _ => json!(rank(pair.src)),
        };
        for (step, hop) in pair.path.windows(2).enumerate() {
            let node = |id| topology.node(plan.id(id)).expect("known");
            hops.push((step, link(topology, node(hop[0]), node(hop[1])), shard.clone()));
        }
    }
    hops
}

fn steps(op: &str, hops: &[Hop]) -> Vec<Value> {
    let count = hops.iter().map(|hop| hop.0 + 1).max().unwrap_or(0);
    let of = |step: usize| {
        // Each half of a shard on its own.
        let sends = hops.iter().filter(|hop| hop.0 == step);
        let sends = sends.flat_map(|(_, link, shard)| [json!([shard, 0, 1, link]), json!([shard, 1, 2, link])]);
        json!({"op": op, "sends": sends.collect::<Vec<_>>()})
    };
    (0..count).map(of).collect()
}

pub fn of_steps(topology: &Topology, collective: Collective) -> Value {
    let list = match collective {
        Collective::AllToAll | Collective::Scatter | Collective::Gather => steps("copy", &pairs(topology, collective)),
        _ => {
            let plan = naive::trees(topology, collective);
            let mut list = Vec::new();
            if matches!(collective, Collective::ReduceScatter | Collective::Reduce | Collective::AllReduce) {
                list = steps("reduce", &inwards(topology, &plan));
            }
            if !matches!(collective, Collective::ReduceScatter | Collective::Reduce) {
                list.extend(steps("copy", &outwards(topology, &plan)));
            }
            list
        }
    };
    let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    let mut plan = json!({"sluice_plan": 1, "collective": collective.word(), "claim": {},
        "topology": {"sha256": topology.digest(), "inline": file},
        "content": {"kind": "steps", "P": P, "steps": list}});
    if collective.is_rooted() {
        plan["root"] = json!(&*topology.nodes()[topology.compute()[1]].id);
    }
    if topology.nodes().iter().any(|node| !node.is_compute()) {
        plan["content"]["step_length"] = json!(longest(topology, collective, &plan).to_string());
    }
    plan
}

/// The time of each step, counted in the plainest way.
fn times(topology: &Topology, collective: Collective, plan: &Value) -> Vec<Rational> {
    let compute = topology.compute();
    let weight = |rank: usize| topology.nodes()[compute[rank]].weight;
    let n = compute.len() as u64;
    let total: u64 = (0..compute.len()).map(weight).sum();
    let share = |shard: &Value| match collective {
        Collective::AllToAll | Collective::Scatter | Collective::Gather => Rational::new(1, n),
        Collective::Broadcast | Collective::Reduce => Some(Rational::ONE),
        _ => Rational::new(weight(shard.as_u64().expect("a rank") as usize), total),
    };
    let steps = plan["content"]["steps"].as_array().expect("steps");
    let time = |step: &Value| {
        let mut loads = vec![Rational::ZERO; topology.links().len()];
        for send in step["sends"].as_array().expect("sends") {
            let part = Rational::new(send[2].as_u64().expect("hi") - send[1].as_u64().expect("lo"), P).expect("a part");
            loads[send[3].as_u64().expect("a link") as usize] += &(&part * &share(&send[0]).expect("a share"));
        }
        let of = |(load, link): (&Rational, &sluice_formats::topology::Link)| {
            load.checked_div(link.capacity.finite().expect("finite")).expect("not over zero")
        };
        loads.iter().zip(topology.links()).map(of).max().expect("links")
    };
    steps.iter().map(time).collect()
}

fn longest(topology: &Topology, collective: Collective, plan: &Value) -> Rational {
    times(topology, collective, plan).into_iter().max().expect("steps")
}

pub fn fits(topology: &Topology, collective: Collective) -> bool {
    // Weights mean nothing where every pair exchanges the same.
    collective != Collective::AllToAll && !matches!(collective, Collective::Scatter | Collective::Gather)
        || topology.nodes().iter().all(|node| node.weight == 1)
}

pub fn read(plan: &Value) -> Plan {
    Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"))
}

/// With everything claimed that the checker computes.
pub fn claimed(topology: &Topology, collective: Collective) -> Value {
    let mut plan = of_steps(topology, collective);
    let report = check(&read(&plan), None);
    assert_eq!(report.violation, None, "{} on {}", collective.word(), topology.name());
    let figures = report.figures.expect("computed");
    let times = times(topology, collective, &plan);
    let expected = match plan["content"].get("step_length") {
        Some(_) => &longest(topology, collective, &plan) * &Rational::from(times.len() as u64),
        None => times.iter().sum(),
    };
    assert_eq!(figures.time_per_byte, expected, "{} on {}", collective.word(), topology.name());
    let unit = if topology.unit() == sluice_formats::quantity::Unit::Abstract { "" } else { " s/B" };
    let loads = plan["content"]["steps"].as_array().expect("steps").iter().map(|step| {
        let mut loads: BTreeMap<u64, u64> = BTreeMap::new();
        for send in step["sends"].as_array().expect("sends") {
            *loads.entry(send[3].as_u64().expect("a link")).or_default() += 1;
        }
        Rational::new(loads.values().copied().max().expect("sends"), P).expect("a load")
    });
    let loads: Vec<Rational> = loads.collect();
    let sum: Rational = loads.iter().sum();
    plan["claim"] = json!({
        "time_per_byte": format!("{}{unit}", figures.time_per_byte),
        "algorithm_bandwidth": figures.algorithm_bandwidth.expect("limited").to_string(),
        "T_L": loads.len(), "load_sum": sum.to_string(),
        "loads": loads.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    plan
}
