//! Plans of kind `steps`: right ones with the figures of the textbook, any change judged as plain sets judge it, and
//! hundreds that are damaged.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, hypercube, ring};
use sluice_plan::check::{Code, check};
use sluice_plan::plan::{Certificate, CertificateKind, Collective, Content, Direction, Plan};

use crate::naive;
use crate::scene::{edited, fabrics, fraction, refused};

const ALL: [Collective; 8] = [
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
const P: u64 = 2;

fn link(topology: &Topology, from: usize, to: usize) -> usize {
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

fn fits(topology: &Topology, collective: Collective) -> bool {
    // Weights mean nothing where every pair exchanges the same.
    collective != Collective::AllToAll && !matches!(collective, Collective::Scatter | Collective::Gather)
        || topology.nodes().iter().all(|node| node.weight == 1)
}

fn read(plan: &Value) -> Plan {
    Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"))
}

/// With everything claimed that the checker computes.
fn claimed(topology: &Topology, collective: Collective) -> Value {
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

#[test]
fn right_plans_pass_with_all_their_figures() {
    let mut count = 0;
    for topology in fabrics() {
        for collective in ALL.into_iter().filter(|collective| fits(&topology, *collective)) {
            let plan = read(&claimed(&topology, collective));
            let again = Plan::read(plan.to_text().as_bytes(), "p").expect("what is written is valid");
            let report = check(&again, Some(&topology));
            assert_eq!(report.violation, None, "{} on {}", collective.word(), topology.name());
            assert!(report.proved.len() >= 7, "{:?}", report.proved);
            count += 1;
        }
    }
    assert!(count >= 55, "{count}");
}

#[test]
fn textbook_bandwidth_terms() {
    // Round a ring one way, and straight to everybody: (N − 1)/N, the best there is.
    for topology in [ring(5, "7/2", false).expect("valid"), complete(5, "4GB/s").expect("valid")] {
        let mut plan = claimed(&topology, Collective::AllGather);
        plan["claim"]["T_B"] = json!("4/5");
        plan["claim"]["certificate"] = json!({"kind": "bandwidth"});
        plan["claim"]["optimal"] = json!(true);
        let report = check(&read(&plan), None);
        assert_eq!(report.violation, None);
        assert!(report.proved.iter().any(|proved| proved == "the plan is optimal"), "{:?}", report.proved);
        plan["claim"]["T_B"] = json!("3/5");
        assert_eq!(check(&read(&plan), None).violation.map(|violation| violation.code), Some(Code::WrongLoads));
        plan["claim"]["T_B"] = json!(null);
        assert_eq!(check(&read(&plan), None).violation.map(|violation| violation.code), Some(Code::WrongLoads));
    }
    // Nodes of different bandwidth have no such term.
    let mut plan = claimed(&fabrics()[0], Collective::AllGather);
    plan["claim"]["T_B"] = json!(null);
    assert_eq!(check(&read(&plan), None).violation, None);
}

#[test]
fn a_diameter_bounds_steps_and_not_bytes() {
    let topology = hypercube(3, "2").expect("valid");
    let mut plan = of_steps(&topology, Collective::AllGather);
    plan["claim"] = json!({"T_L": 3, "certificate": {"kind": "diameter"}, "lower_bound": "3", "optimal": true});
    let report = check(&read(&plan), None);
    assert_eq!(report.violation, None);
    assert!(report.proved.iter().any(|proved| proved == "no plan is faster than 3 steps (`diameter`)"));
    let code = |edit: &dyn Fn(&mut Value)| {
        let mut plan = plan.clone();
        edit(&mut plan["claim"]);
        check(&read(&plan), None).violation.map(|violation| violation.code)
    };
    assert_eq!(code(&|claim| claim["lower_bound"] = json!("2")), Some(Code::WrongBound));
    assert_eq!(code(&|claim| claim["T_L"] = json!(4)), Some(Code::WrongLoads));
    assert_eq!(code(&|claim| claim["time_per_byte"] = json!("1")), Some(Code::BadCertificate));
    // An empty step makes it later, but not longer in steps that send.
    plan["content"]["steps"].as_array_mut().expect("steps").insert(1, json!({"op": "copy", "sends": []}));
    assert_eq!(check(&read(&plan), None).violation.map(|violation| violation.code), Some(Code::WrongLoads));
}

#[test]
fn switches_forward_at_once_and_copy_only_if_they_can() {
    // a, b, c around s; a's data to b and c.
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"gpu"},{"id":"b","kind":"gpu"},{"id":"c","kind":"gpu"},
        {"id":"s","kind":"switch"}],"links":[{"from":"a","to":"s","capacity":"1","duplex":true},
        {"from":"b","to":"s","capacity":"1","duplex":true},{"from":"c","to":"s","capacity":"1","duplex":true}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let code = |topology: &Topology, steps: Value, length: &str| {
        let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
        let plan = json!({"sluice_plan": 1, "collective": "broadcast", "root": "a", "claim": {},
            "topology": {"sha256": topology.digest(), "inline": file},
            "content": {"kind": "steps", "P": 1, "steps": steps, "step_length": length}});
        check(&read(&plan), None).violation.map(|violation| violation.code)
    };
    let step = |sends: &[u64]| json!({"op": "copy", "sends": sends.iter().map(|link| json!([0, 0, 1, link])).collect::<Vec<_>>()});
    let twice = json!([step(&[0, 0]), step(&[3, 5])]);
    assert_eq!(code(&topology, twice.clone(), "2"), None);
    assert_eq!(code(&topology, twice, "1"), Some(Code::Overload));
    let once = json!([step(&[0]), step(&[3, 5])]);
    assert_eq!(code(&topology, once.clone(), "2"), Some(Code::HopWithoutData), "a switch that cannot copy");
    let late = json!([step(&[0, 0]), step(&[3]), step(&[5])]);
    assert_eq!(code(&topology, late.clone(), "2"), Some(Code::HopUnbalanced), "a switch that cannot store");
    let dropped = json!([step(&[0, 0, 0]), step(&[3, 5])]);
    assert_eq!(code(&topology, dropped, "3"), Some(Code::HopUnbalanced), "one of three goes nowhere");
    let last = json!([step(&[0, 0]), step(&[3, 5, 0]), step(&[0])]);
    assert_eq!(code(&topology, last, "2"), Some(Code::HopUnbalanced), "what comes to it last goes nowhere");
    let copying = edited(&topology, |file| file["nodes"][3]["can"] = json!({"copy": true}));
    assert_eq!(code(&copying, once, "1"), None);
    let storing = edited(&topology, |file| file["nodes"][3]["can"] = json!({"store": true}));
    assert_eq!(code(&storing, late, "2"), None);
    // And the way back: what two send must leave in two, unless the switch adds up.
    let reduce = |topology: &Topology, last: &[u64]| {
        let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
        let sends = |links: &[u64]| links.iter().map(|link| json!([0, 0, 1, link])).collect::<Vec<_>>();
        let plan = json!({"sluice_plan": 1, "collective": "reduce", "root": "a", "claim": {},
            "topology": {"sha256": topology.digest(), "inline": file},
            "content": {"kind": "steps", "P": 1, "step_length": "2",
                "steps": [{"op": "reduce", "sends": sends(&[2, 4])}, {"op": "reduce", "sends": sends(last)}]}});
        check(&read(&plan), None).violation.map(|violation| violation.code)
    };
    assert_eq!(reduce(&topology, &[1, 1]), None);
    assert_eq!(reduce(&topology, &[1]), Some(Code::HopUnbalanced), "one input stays in the switch");
    let adding = edited(&topology, |file| file["nodes"][3]["can"] = json!({"reduce": true}));
    assert_eq!(reduce(&adding, &[1]), None);
    assert_eq!(reduce(&adding, &[1, 1]), Some(Code::HopWithoutData), "the sum is there once");
}

/// Every plan with one thing wrong.
fn damage(plan: &Value, collective: Collective) -> Vec<(String, Value)> {
    let mut damaged = Vec::new();
    let mut add = |what: String, edit: &dyn Fn(&mut Value)| {
        let mut bad = plan.clone();
        edit(&mut bad);
        assert_ne!(&bad, plan, "{what}");
        damaged.push((what, bad));
    };
    let list = plan["content"]["steps"].as_array().expect("steps");
    for (i, step) in list.iter().enumerate() {
        let sends = step["sends"].as_array().expect("sends");
        add(format!("step {i} of the other sort"), &|bad| {
            let op = &mut bad["content"]["steps"][i]["op"];
            *op = if op == "copy" { json!("reduce") } else { json!("copy") };
        });
        for (j, send) in sends.iter().enumerate().filter(|(j, _)| *j < 6 || j + 1 == sends.len()) {
            let name = format!("step {i} send {j}");
            add(format!("{name} gone"), &|bad| {
                bad["content"]["steps"][i]["sends"].as_array_mut().expect("sends").remove(j);
            });
            for (part, value) in [(1, send[2].clone()), (2, json!(P + 1)), (3, json!(1_000_000)), (0, json!(1_000_000))]
            {
                add(format!("{name} part {part} is {value}"), &|bad| {
                    bad["content"]["steps"][i]["sends"][j][part] = value.clone();
                });
            }
            let back = send[3].as_u64().expect("a link") ^ 1;
            if back < plan["topology"]["inline"]["links"].as_array().expect("links").len() as u64 {
                // Nobody needs it there, and it is missing here.
                add(format!("{name} over link {back}"), &|bad| {
                    bad["content"]["steps"][i]["sends"][j][3] = json!(back);
                });
            }
            if step["op"] == "copy" && i > 0 && list[i - 1]["op"] == "copy" {
                add(format!("{name} a step earlier"), &|bad| {
                    let sends = bad["content"]["steps"][i]["sends"].as_array_mut().expect("sends");
                    let send = sends.remove(j);
                    bad["content"]["steps"][i - 1]["sends"].as_array_mut().expect("sends").push(send);
                });
            }
            if step["op"] == "reduce" {
                add(format!("{name} twice"), &|bad| {
                    let sends = bad["content"]["steps"][i]["sends"].as_array_mut().expect("sends");
                    sends.push(sends[j].clone());
                });
            }
        }
    }
    for (key, value) in [
        ("time_per_byte", json!("1/123456789")),
        ("algorithm_bandwidth", json!("123456789")),
        ("T_L", json!(1_000)),
        ("T_B", json!("1/123456789")),
        ("load_sum", json!("1/123456789")),
        ("loads", json!([])),
        ("lower_bound", json!("1/3")),
        ("optimal", json!(true)),
        ("finish_epochs", json!(1)),
        ("T", json!([1])),
        ("sum_x", json!("1")),
        ("certificate", json!({"kind": "diameter"})),
        ("certificate", json!({"kind": "port"})),
        ("certificate", json!({"kind": "cut", "nodes": []})),
    ] {
        add(format!("claims {key} {value}"), &|bad| bad["claim"][key] = value.clone());
    }
    for value in [0_u64, 1, 3, 1 << 40] {
        add(format!("P is {value}"), &|bad| bad["content"]["P"] = json!(value));
    }
    for other in ALL.into_iter().filter(|other| *other != collective) {
        add(format!("a {}", other.word()), &|bad| bad["collective"] = json!(other.word()));
    }
    add("steps of no length".into(), &|bad| bad["content"]["step_length"] = json!("0"));
    add("steps too short".into(), &|bad| bad["content"]["step_length"] = json!("1/1000000000000000"));
    add("no steps".into(), &|bad| bad["content"]["steps"] = json!([]));
    add("another digest".into(), &|bad| bad["topology"]["sha256"] = json!("00"));
    damaged
}

#[test]
fn every_damaged_plan_of_steps_is_refused() {
    let mut count = 0;
    for topology in fabrics() {
        for collective in ALL.into_iter().filter(|collective| fits(&topology, *collective)) {
            for (what, damaged) in damage(&claimed(&topology, collective), collective) {
                // Between two nodes a gather looks like a broadcast; between five it does not.
                assert!(refused(&damaged.to_string()), "{} on {}: {what}", collective.word(), topology.name());
                count += 1;
            }
        }
    }
    println!("steps: {count} damaged plans refused");
    assert!(count >= 300, "{count}");
}

/// Does a plan of an all-gather or a reduce-scatter among participants alone do it, by plain sets?
fn by_sets(topology: &Topology, plan: &Value, reduces: bool) -> bool {
    let n = topology.nodes().len();
    // By node, shard and unit: whose contributions are there.
    let mut held = vec![vec![[BTreeSet::new(), BTreeSet::new()]; n]; n];
    for (node, held) in held.iter_mut().enumerate() {
        for (shard, units) in held.iter_mut().enumerate() {
            let has = reduces || node == shard;
            units.iter_mut().for_each(|unit| unit.extend(has.then_some(node)));
        }
    }
    for step in plan["content"]["steps"].as_array().expect("steps") {
        let before = held.clone();
        let mut gone = BTreeSet::new();
        let mut arrivals = Vec::new();
        for send in step["sends"].as_array().expect("sends") {
            let number = |part: usize| send[part].as_u64().expect("a number") as usize;
            let (shard, lo, hi) = (number(0), number(1), number(2));
            let Some(link) = topology.links().get(number(3)) else { return false };
            if lo >= hi || hi > 2 || shard >= n {
                return false;
            }
            for (unit, what) in before[link.from][shard].iter().enumerate().take(hi).skip(lo) {
                let what = what.clone();
                if what.is_empty() || reduces && !gone.insert((link.from, shard, unit)) {
                    return false;
                }
                arrivals.push((link.to, shard, unit, what));
            }
        }
        for (node, shard, unit) in gone {
            held[node][shard][unit].clear();
        }
        for (node, shard, unit, what) in arrivals {
            let there = &mut held[node][shard][unit];
            if reduces && there.intersection(&what).next().is_some() {
                return false;
            }
            there.extend(what);
        }
    }
    (0..n).all(|node| {
        (0..n).all(|shard| {
            let wanted: BTreeSet<usize> = match (reduces, node == shard) {
                (true, true) => (0..n).collect(),
                (true, false) => BTreeSet::new(),
                (false, _) => BTreeSet::from([shard]),
            };
            held[node][shard].iter().all(|unit| *unit == wanted)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Any few changes to a right plan: the checker and plain sets agree.
    #[test]
    fn it_agrees_with_plain_sets(
        which in 0_usize..3,
        reduces: bool,
        changes in proptest::collection::vec((0_u8..6, any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_u64..8), 0..4),
    ) {
        let topology = match which {
            0 => complete(4, "1"),
            1 => ring(4, "1", true),
            _ => hypercube(2, "1"),
        }.expect("valid");
        let collective = if reduces { Collective::ReduceScatter } else { Collective::AllGather };
        let mut plan = of_steps(&topology, collective);
        let count = plan["content"]["steps"].as_array().expect("steps").len();
        for (what, step, send, value) in changes {
            let (step, to) = (step.index(count), value as usize % count);
            let sends = plan["content"]["steps"][step]["sends"].as_array_mut().expect("sends");
            if sends.is_empty() {
                continue;
            }
            let at = send.index(sends.len());
            match what {
                0 => sends.truncate(sends.len() - 1),
                1 => sends[at][3] = json!(value),
                2 => sends[at][0] = json!(value % 4),
                3 => sends[at][1] = json!(value % 2),
                4 => sends.push(sends[at].clone()),
                _ => {
                    let moved = sends.remove(at);
                    plan["content"]["steps"][to]["sends"].as_array_mut().expect("sends").push(moved);
                }
            }
        }
        prop_assert_eq!(check(&read(&plan), None).ok(), by_sets(&topology, &plan, reduces), "{}", plan["content"]);
    }
}

#[test]
fn weights_and_units_count() {
    // Shares of 3, 1, 0, 1, 1 of six: the node that holds three sixths sends them to four others.
    let topology = &fabrics()[7];
    let plan = claimed(topology, Collective::AllGather);
    assert_eq!(plan["claim"]["time_per_byte"], format!("{} s/B", fraction(3, 24_000_000_000)));
}

/// Two GPUs around a memory, which is no rank, or a store that cannot copy; a limit that both ways out of it share.
fn around(can: Value) -> Topology {
    let file = json!({"sluice_topology": 1, "nodes": [{"id": "a", "kind": "gpu"}, {"id": "b", "kind": "gpu"},
        {"id": "c", "kind": "gpu"}, {"id": "m", "kind": "memory", "can": can}],
        "links": [{"from": "a", "to": "m", "capacity": "1", "duplex": true}, {"from": "b", "to": "m", "capacity": "1", "duplex": true},
        {"from": "c", "to": "m", "capacity": "1", "duplex": true}],
        "groups": [{"name": "out", "capacity": "4/3", "links": [["m", "b"], ["m", "c"]]}]});
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

#[test]
fn steps_of_a_length_go_by_way_of_memories_and_count_exactly() {
    let code = |topology: &Topology, steps: Value, length: &str| {
        let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
        let plan = json!({"sluice_plan": 1, "collective": "broadcast", "root": "a", "claim": {},
            "topology": {"sha256": topology.digest(), "inline": file},
            "content": {"kind": "steps", "P": 3, "steps": steps, "step_length": length}});
        let report = check(&read(&plan), None);
        (report.violation.map(|violation| violation.code), report.figures.map(|figures| figures.time_per_byte))
    };
    let step = |sends: &[(u64, u64, u64)]| json!({"op": "copy", "sends": sends.iter().map(|(lo, hi, link)| json!([0, lo, hi, link])).collect::<Vec<_>>()});
    // Into the memory in two parts, out to each when it likes: a waits in it for b and c.
    let memory = around(json!({"store": true, "copy": true}));
    let steps =
        json!([step(&[(0, 2, 0)]), step(&[(2, 3, 0), (0, 2, 3)]), step(&[(0, 2, 5)]), step(&[(2, 3, 3), (2, 3, 5)])]);
    assert_eq!(code(&memory, steps.clone(), "2/3"), (None, Some(fraction(8, 3))), "four steps of 2/3");
    assert_eq!(code(&memory, steps.clone(), "666666666/1000000000").0, Some(Code::Overload), "too short by a hair");
    let eager = json!([step(&[(0, 2, 0)]), step(&[(0, 3, 3)])]);
    assert_eq!(code(&memory, eager, "1").0, Some(Code::HopWithoutData), "the third part is not there yet");
    // Both at once: 4/3 of M over a limit of 4/3.
    let both = json!([step(&[(0, 2, 0)]), step(&[(0, 2, 3), (0, 2, 5), (2, 3, 0)]), step(&[(2, 3, 3), (2, 3, 5)])]);
    assert_eq!(code(&memory, both.clone(), "1"), (None, Some(fraction(3, 1))));
    let narrow = edited(&memory, |file| file["groups"][0]["capacity"] = json!("1"));
    assert_eq!(code(&narrow, both, "1").0, Some(Code::Overload), "the group's limit");
    // Who only stores passes each copy on once, whenever it likes.
    let store = around(json!({"store": true, "copy": false}));
    assert_eq!(code(&store, steps, "2/3").0, Some(Code::HopWithoutData), "b and c from one copy");
    let twice = json!([step(&[(0, 3, 0), (0, 3, 0)]), step(&[(0, 3, 3)]), step(&[(0, 3, 5)])]);
    assert_eq!(code(&store, twice, "2"), (None, Some(fraction(6, 1))));
    let thrice = json!([step(&[(0, 3, 0), (0, 3, 0), (1, 2, 0)]), step(&[(0, 3, 3)]), step(&[(0, 3, 5)])]);
    assert_eq!(code(&store, thrice, "3").0, Some(Code::HopUnbalanced), "a part of a third copy stays");
}

#[test]
fn sums_are_copied_beside_sums_once_nothing_is_added_to_them_any_more() {
    let topology = complete(2, "1").expect("valid");
    let (out, back) = (link(&topology, 0, 1), link(&topology, 1, 0));
    let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    // All of the sum is made at the first of the two, one half after the other.
    let plan = json!({"sluice_plan": 1, "collective": "allreduce", "claim": {"time_per_byte": "3/2"},
        "topology": {"sha256": topology.digest(), "inline": file},
        "content": {"kind": "steps", "P": 2, "shares": [3, 0], "step_length": "1/2", "steps": [
            {"op": "reduce", "sends": [[0, 0, 1, back]]},
            {"op": "reduce", "sends": [[0, 1, 2, back]], "copies": [[0, 0, 1, out]]},
            {"op": "copy", "sends": [[0, 1, 2, out]]}]}});
    let found = |edit: &dyn Fn(&mut Value)| {
        let mut plan = plan.clone();
        edit(&mut plan["content"]);
        check(&read(&plan), None).violation.map(|violation| (violation.code, violation.at))
    };
    assert_eq!(found(&|_| ()), None);
    let at = |code, at: &str| Some((code, at.to_owned()));
    let early = |content: &mut Value| {
        content["steps"][1]["copies"] = json!([[0, 0, 2, out]]);
        content["step_length"] = json!("1");
    };
    assert_eq!(found(&early), at(Code::HopWithoutData, "/content/steps/1"));
    let foreign = |content: &mut Value| content["steps"][1]["copies"] = json!([[0, 0, 1, back]]);
    assert_eq!(found(&foreign), at(Code::HopWithoutData, "/content/steps/1/copies/0"));
    let missing = |content: &mut Value| drop(content["steps"][1].as_object_mut().expect("a step").remove("copies"));
    assert_eq!(found(&missing), at(Code::MissingData, "/content/steps"));
    let beside = |content: &mut Value| content["steps"][2]["copies"] = json!([[0, 0, 1, out]]);
    assert_eq!(found(&beside), at(Code::WrongSteps, "/content/steps/2/copies"));
    let heavy = |content: &mut Value| content["steps"][1]["copies"] = json!([[0, 0, 1, out], [0, 0, 1, out]]);
    assert_eq!(found(&heavy), at(Code::Overload, "/content/steps/1"));
    let short = |content: &mut Value| content["shares"] = json!([3]);
    assert_eq!(found(&short), at(Code::WrongShard, "/content/shares"));
    let nothing = |content: &mut Value| content["shares"] = json!([0, 0]);
    assert_eq!(found(&nothing), at(Code::WrongShard, "/content/shares"));
    let even = |content: &mut Value| content["shares"] = json!([1, 1]);
    assert_eq!(found(&even), at(Code::MissingData, "/content/steps"));
    let timeless = |content: &mut Value| drop(content.as_object_mut().expect("content").remove("step_length"));
    assert_eq!(found(&timeless), at(Code::UnsupportedField, "/content/shares"));
    let both = |content: &mut Value| {
        timeless(content);
        drop(content.as_object_mut().expect("content").remove("shares"));
    };
    assert_eq!(found(&both), at(Code::WrongSteps, "/content/steps/1/copies"));
    let mut gather = plan.clone();
    gather["collective"] = json!("allgather");
    let violation = check(&read(&gather), None).violation.expect("refused");
    assert_eq!((violation.code, &*violation.at), (Code::UnsupportedField, "/content/shares"));
}

#[test]
fn where_nothing_has_a_limit_no_time_will_do() {
    let free = edited(&complete(3, "1").expect("valid"), |file| {
        file["links"].as_array_mut().expect("links").iter_mut().for_each(|link| link["capacity"] = json!("unlimited"));
    });
    let mut plan = of_steps(&free, Collective::AllGather);
    plan["claim"] = json!({"time_per_byte": "0", "lower_bound": "0", "optimal": true});
    for length in [json!(null), json!("0")] {
        if !length.is_null() {
            plan["content"]["step_length"] = length.clone();
        }
        let report = check(&read(&plan), None);
        assert_eq!(report.violation, None, "{length}");
        assert!(report.proved.contains(&"the plan is optimal".into()));
    }
    let code = |edit: &dyn Fn(&mut Value)| {
        let mut plan = plan.clone();
        edit(&mut plan);
        check(&read(&plan), None).violation.map(|violation| violation.code)
    };
    assert_eq!(code(&|plan| plan["content"]["step_length"] = json!("-1")), Some(Code::Overload));
    assert_eq!(code(&|plan| plan["content"]["step_length"] = json!("1")), Some(Code::WrongTime));
    assert_eq!(code(&|plan| plan["claim"]["algorithm_bandwidth"] = json!("1")), Some(Code::WrongBandwidth));
    // Trees and paths as well; with a certificate of kind `none`, and with a limit somewhere else.
    let somewhere =
        edited(&free, |file| file["nodes"].as_array_mut().expect("nodes").push(json!({"id": "s", "kind": "switch"})));
    let somewhere = edited(&somewhere, |file| {
        file["links"]
            .as_array_mut()
            .expect("links")
            .push(json!({"from": "n0", "to": "s", "capacity": "1", "duplex": true}));
    });
    for topology in [&free, &somewhere] {
        for collective in [Collective::AllGather, Collective::AllReduce, Collective::AllToAll] {
            let mut plan = crate::dual::plan_of(topology, collective);
            plan.body.claim.optimal = Some(true);
            assert_eq!(plan.body.claim.algorithm_bandwidth, None);
            assert_eq!(crate::dual::code(&plan), None);
            plan.body.claim.certificate = Some(Certificate::new(CertificateKind::None));
            assert_eq!(crate::dual::code(&plan), None);
        }
    }
    let mut limited = crate::dual::plan_of(&complete(3, "1").expect("valid"), Collective::AllGather);
    limited.body.claim.optimal = Some(true);
    assert_eq!(crate::dual::code(&limited), Some(Code::UnprovedOptimal));
}
