//! Plans of kind `steps` with anything changed: hundreds that are damaged, and any change judged as plain sets judge it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, hypercube, ring};
use sluice_plan::check::check;
use sluice_plan::plan::Collective;

use crate::scene::{fabrics, refused};
use crate::step_plans::{ALL, P, claimed, fits, of_steps, read};

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
