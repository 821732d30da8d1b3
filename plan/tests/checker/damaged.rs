//! Plans with one thing wrong, in all the ways there are: every one is refused, by the reader or the checker.

use serde_json::{Value, json};
use sluice_plan::plan::{Collective, Plan};

use crate::naive;
use crate::scene::{OF_TREES, fabrics, refused};

/// Changes a plan's JSON in all the ways that make it wrong, one at a time.
fn damage_trees(plan: &Plan) -> Vec<(String, Value)> {
    let good: Value = serde_json::from_str(&plan.to_text()).expect("JSON");
    let mut damaged = Vec::new();
    let mut add = |what: String, edit: &dyn Fn(&mut Value)| {
        let mut bad = good.clone();
        edit(&mut bad);
        assert_ne!(bad, good, "{what}");
        damaged.push((what, bad));
    };
    let someone_else = |id: &Value| {
        let list = good["participants"].as_array().expect("participants");
        list.iter().find(|other| *other != id).expect("two").clone()
    };
    let forests = good["content"]["forests"].as_array().expect("forests").len();
    for f in 0..forests {
        let forest = &good["content"]["forests"][f];
        add(format!("forest {f} twice"), &|bad| {
            let list = bad["content"]["forests"].as_array_mut().expect("a list");
            list.insert(f, list[f].clone());
        });
        add(format!("forest {f} gone"), &|bad| {
            bad["content"]["forests"].as_array_mut().expect("a list").remove(f);
        });
        add(format!("forest {f} the other way"), &|bad| {
            let direction = &mut bad["content"]["forests"][f]["direction"];
            *direction = if direction == "in" { json!("out") } else { json!("in") };
        });
        for k in [json!(0), json!(2), json!(1_000_000)] {
            add(format!("forest {f} with k {k}"), &|bad| bad["content"]["forests"][f]["k"] = k.clone());
        }
        add(format!("forest {f} with a U"), &|bad| bad["content"]["forests"][f]["U"] = json!("1/1000000000000"));
        let count = forest["trees"].as_array().expect("trees").len();
        // Trees are alike; the first, the second and the last are enough.
        for t in (0..count).filter(|t| *t < 2 || *t + 1 == count) {
            let tree = &forest["trees"][t];
            let name = format!("forest {f} tree {t}");
            add(format!("{name} gone"), &|bad| {
                bad["content"]["forests"][f]["trees"].as_array_mut().expect("a list").remove(t);
            });
            add(format!("{name} twice"), &|bad| {
                let list = bad["content"]["forests"][f]["trees"].as_array_mut().expect("a list");
                list.push(list[t].clone());
            });
            for weight in [json!(0), json!(7), json!("-1"), json!("1000001/1000000")] {
                add(format!("{name} weighs {weight}"), &|bad| {
                    bad["content"]["forests"][f]["trees"][t]["weight"] = weight.clone();
                });
            }
            let other = someone_else(&tree["root"]);
            add(format!("{name} has root {other}"), &|bad| {
                bad["content"]["forests"][f]["trees"][t]["root"] = other.clone();
            });
            add(format!("{name} has hops"), &|bad| bad["content"]["forests"][f]["trees"][t]["hops"] = json!([]));
            for e in 0..tree["edges"].as_array().expect("edges").len() {
                let name = format!("{name} edge {e}");
                add(format!("{name} gone"), &|bad| {
                    bad["content"]["forests"][f]["trees"][t]["edges"].as_array_mut().expect("a list").remove(e);
                });
                add(format!("{name} twice"), &|bad| {
                    let list = bad["content"]["forests"][f]["trees"][t]["edges"].as_array_mut().expect("a list");
                    list.push(list[e].clone());
                });
                add(format!("{name} backwards"), &|bad| {
                    let edge = &mut bad["content"]["forests"][f]["trees"][t]["edges"][e];
                    let (src, dst) = (edge["src"].clone(), edge["dst"].clone());
                    (edge["src"], edge["dst"]) = (dst, src);
                    edge["path"].as_array_mut().expect("a path").reverse();
                });
                add(format!("{name} jumps"), &|bad| {
                    let edge = &mut bad["content"]["forests"][f]["trees"][t]["edges"][e];
                    let path = edge["path"].as_array_mut().expect("a path");
                    let first = path[0].clone();
                    path.insert(0, first);
                });
                add(format!("{name} to nobody"), &|bad| {
                    let edge = &mut bad["content"]["forests"][f]["trees"][t]["edges"][e];
                    edge["dst"] = json!("nobody");
                    let path = edge["path"].as_array_mut().expect("a path");
                    *path.last_mut().expect("an end") = json!("nobody");
                });
                add(format!("{name} by another's door"), &|bad| {
                    let edge = &mut bad["content"]["forests"][f]["trees"][t]["edges"][e];
                    edge["path"].as_array_mut().expect("a path").pop();
                });
            }
        }
    }
    for (key, value) in [
        ("collective", json!("alltoall")),
        ("participants", json!([])),
        ("participants", json!(["nobody", "else"])),
        ("sluice_plan", json!(2)),
    ] {
        add(format!("{key} is {value}"), &|bad| bad[key] = value.clone());
    }
    for collective in OF_TREES.iter().filter(|other| good["collective"] != other.word()) {
        add(format!("a {}", collective.word()), &|bad| bad["collective"] = json!(collective.word()));
    }
    add("a participant twice".into(), &|bad| {
        let list = bad["participants"].as_array_mut().expect("a list");
        list.push(list[0].clone());
    });
    add("a root or none".into(), &|bad| match bad.get("root").is_some() {
        true => drop(bad.as_object_mut().expect("an object").remove("root")),
        false => bad["root"] = bad["participants"][0].clone(),
    });
    for (key, value) in [
        ("time_per_byte", json!("1/123456789")),
        ("time_per_byte", json!("1/123456789 s/B")),
        ("algorithm_bandwidth", json!("123456789")),
        ("lower_bound", json!("1/3")),
        ("optimal", json!(true)),
        ("status", json!("optimal")),
        ("loads", json!([])),
        ("T_mean_s", json!(1)),
        ("certificate", json!({"kind": "cut", "nodes": []})),
        ("certificate", json!({"kind": "cut", "nodes": ["nobody"]})),
        ("certificate", json!({"kind": "cut"})),
        ("certificate", json!({"kind": "gateway"})),
        ("certificate", json!({"kind": "bandwidth", "nodes": []})),
    ] {
        add(format!("claims {key} {value}"), &|bad| bad["claim"][key] = value.clone());
    }
    add("another digest".into(), &|bad| bad["topology"]["sha256"] = json!("00"));
    add("another topology".into(), &|bad| bad["topology"]["inline"]["name"] = json!("another"));
    add("no topology".into(), &|bad| drop(bad["topology"].as_object_mut().expect("an object").remove("inline")));
    damaged
}

#[test]
fn every_damaged_plan_of_trees_is_refused() {
    for collective in OF_TREES {
        let mut count = 0;
        for topology in fabrics() {
            for (what, damaged) in damage_trees(&naive::trees(&topology, collective)) {
                assert!(refused(&damaged.to_string()), "{} on {}: {what}", collective.word(), topology.name());
                count += 1;
            }
        }
        println!("{}: {count} damaged plans refused", collective.word());
        assert!(count >= 300, "{}: {count}", collective.word());
    }
}

#[test]
fn every_damaged_plan_of_paths_is_refused() {
    let mut count = 0;
    for collective in [Collective::AllToAll, Collective::Scatter, Collective::Gather] {
        for topology in fabrics() {
            if topology.nodes().iter().any(|node| node.weight != 1) {
                continue;
            }
            let plan = naive::paths(&topology, collective);
            let good: Value = serde_json::from_str(&plan.to_text()).expect("JSON");
            assert!(!refused(&good.to_string()));
            for i in 0..good["content"]["pairs"].as_array().expect("pairs").len() {
                let mut bad = vec![good.clone(); 6];
                bad[0]["content"]["pairs"].as_array_mut().expect("a list").remove(i);
                bad[1]["content"]["pairs"][i]["amount"] = json!("1/3");
                bad[2]["content"]["pairs"][i]["amount"] = json!("-1/2");
                bad[3]["content"]["pairs"][i]["path"].as_array_mut().expect("a path").pop();
                bad[4]["content"]["pairs"][i]["dst"] = bad[4]["content"]["pairs"][i]["src"].clone();
                let path = bad[5]["content"]["pairs"][i]["path"].as_array_mut().expect("a path");
                path.insert(1, path[0].clone());
                for (what, bad) in bad.into_iter().enumerate() {
                    assert!(refused(&bad.to_string()), "{} on {}: {i} {what}", collective.word(), topology.name());
                    count += 1;
                }
            }
        }
    }
    println!("paths: {count} damaged plans refused");
    assert!(count >= 300);
}
