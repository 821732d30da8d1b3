//! Plans of kind `rates`, `weights` and `order`: rings over a wide area with times counted by hand, and hundreds that are
//! damaged.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::check::{Code, check};
use sluice_plan::plan::Plan;

use crate::scene::{edited, refused};

/// Three sites in a ring both ways, 100 MB/s; links 2i forward and 2i + 1 backward.
fn sites() -> Topology {
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"site"},{"id":"b","kind":"site"},{"id":"c","kind":"site"}],
        "links":[{"from":"a","to":"b","capacity":"100MB/s","duplex":true},{"from":"b","to":"c","capacity":"100MB/s","duplex":true},
        {"from":"c","to":"a","capacity":"100MB/s","duplex":true}]}"#;
    Topology::read(text.as_bytes(), "t").expect("valid")
}

/// A ring all-reduce of collective `k`: three chains of four hops of 100 MB each round the ring.
fn ring(collective: u64) -> Vec<Value> {
    let mut flows = Vec::new();
    for group in 0..3_u64 {
        for order in 0..4_u64 {
            let at = ((group + order) % 3) as usize;
            let (src, dst) = (["a", "b", "c"][at], ["b", "c", "a"][at]);
            flows.push(json!({"id": collective * 100 + group * 10 + order, "collective": collective, "group": group,
                "order": order, "src": src, "dst": dst, "size": "100MB", "path": [2 * at]}));
        }
    }
    flows
}

fn plan(topology: &Topology, content: Value, claim: Value) -> Value {
    let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    json!({"sluice_plan": 1, "collective": "custom", "claim": claim,
        "topology": {"sha256": topology.digest(), "inline": file}, "content": content})
}

fn code(plan: &Value) -> Option<Code> {
    let plan = Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"));
    check(&plan, None).violation.map(|violation| violation.code)
}

/// Two rings at rates that leave nothing: 3 groups of each share every link, 20 MB/s and 40/3 MB/s each.
pub fn rates() -> Value {
    let mut flows = ring(0);
    flows.extend(ring(1));
    for flow in &mut flows {
        flow["rate"] = json!(if flow["collective"] == 0 { "20MB/s" } else { "40/3 MB/s" });
    }
    // Four hops of 5 s and of 7.5 s.
    let claim = json!({"T": [20, 30.0], "T_mean_s": 25});
    plan(&sites(), json!({"kind": "rates", "execution": "static", "flows": flows}), claim)
}

fn weights() -> Value {
    let mut flows = ring(0);
    flows.extend(ring(1));
    let group = |collective: u64, group: u64| json!({"collective": collective, "group": group, "weight": if collective == 0 { "0.2" } else { "2/15" }});
    let groups: Vec<Value> = (0..2).flat_map(|k| (0..3).map(move |g| group(k, g))).collect();
    let claim = json!({"T": [20, 30.0], "T_mean_s": 25});
    plan(&sites(), json!({"kind": "weights", "execution": "static", "flows": flows, "groups": groups}), claim)
}

/// Two rings one after the other, each alone: hops of a second, three chains on different links at any time.
pub fn order() -> Value {
    let mut flows = ring(0);
    flows.extend(ring(1));
    for flow in &mut flows {
        let (k, order) = (flow["collective"].as_u64().expect("k"), flow["order"].as_u64().expect("order"));
        flow["start_s"] = json!(4 * k + order);
        if k == 1 && order == 0 {
            // The last flow of the first ring on the same link.
            let group = flow["group"].as_u64().expect("group");
            flow["pred"] = json!([group * 10 + 3]);
        }
    }
    let claim = json!({"T": [4, 8], "T_mean_s": 6});
    plan(&sites(), json!({"kind": "order", "execution": "order_preserving", "flows": flows}), claim)
}

fn priority() -> Value {
    let mut plan = order();
    plan["content"]["execution"] = json!("priority");
    for flow in plan["content"]["flows"].as_array_mut().expect("flows") {
        flow["rank"] = flow["id"].clone();
        flow.as_object_mut().expect("a flow").remove("start_s");
    }
    plan
}

#[test]
fn times_are_those_of_the_rates() {
    for plan in [rates(), weights(), order(), priority()] {
        assert_eq!(code(&plan), None, "{}", plan["content"]["kind"]);
        let read = Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
        let report = check(&read, None);
        assert_eq!(report.not_rechecked.is_empty(), plan["content"]["execution"] != "priority", "{report:?}");
        let again = Plan::read(read.to_text().as_bytes(), "p").expect("what is written is valid");
        assert!(check(&again, None).ok());
    }
    // A millionth is rounding, a thousandth is not.
    let mut plan = rates();
    plan["claim"]["T"] = json!([20.000_01, 30]);
    assert_eq!(code(&plan), None);
    plan["claim"]["T"] = json!([20.02, 30]);
    assert_eq!(code(&plan), Some(Code::WrongTime));
    // Where others use what is left, nothing ends later, and nothing sooner than alone on its way.
    let mut plan = rates();
    plan["content"]["execution"] = json!("work_conserving");
    plan["claim"] = json!({"T": [15, 20], "T_mean_s": 17.5});
    assert_eq!(code(&plan), None);
    plan["claim"] = json!({"T": [15, 31]});
    assert_eq!(code(&plan), Some(Code::WrongTime));
    plan["claim"] = json!({"T": [3, 20]});
    assert_eq!(code(&plan), Some(Code::WrongTime));
    // Nobody begins before its release.
    let mut plan = rates();
    plan["content"]["flows"][0]["release_s"] = json!(10);
    plan["claim"] = json!({"T": [30, 30], "T_mean_s": 30});
    assert_eq!(code(&plan), None);
}

#[test]
fn claims_of_bounds() {
    let mut plan = rates();
    plan["claim"]["lower_bound"] = json!("25");
    plan["claim"]["certificate"] = json!({"kind": "solver"});
    plan["claim"]["optimal"] = json!(true);
    assert_eq!(code(&plan), None, "taken on trust, and said so");
    plan["claim"]["lower_bound"] = json!("24");
    assert_eq!(code(&plan), Some(Code::NotOptimal));
    plan["claim"]["lower_bound"] = json!("26");
    assert_eq!(code(&plan), Some(Code::BoundAboveTime));
    plan["claim"]["certificate"] = json!({"kind": "bandwidth"});
    assert_eq!(code(&plan), Some(Code::BadCertificate));
}

#[test]
fn reserves_cover_their_flows_and_fit_their_links() {
    let with = |own: &str| {
        let mut plan = rates();
        let group = |k: u64, group: u64| {
            let rate = if k == 0 { own } else { "40/3 MB/s" };
            json!({"collective": k, "group": group, "reserve": [[0, rate], [2, rate], [4, rate]]})
        };
        plan["content"]["groups"] = (0..2).flat_map(|k| (0..3).map(move |g| group(k, g))).collect();
        plan
    };
    assert_eq!(code(&with("20MB/s")), None);
    assert_eq!(code(&with("19MB/s")), Some(Code::BadGroup));
    assert_eq!(code(&with("21MB/s")), Some(Code::Overload));
    let mut plan = with("20MB/s");
    plan["content"]["groups"].as_array_mut().expect("groups").pop();
    assert_eq!(code(&plan), Some(Code::BadGroup));
}

#[test]
fn chains_are_what_topologies_with_shared_limits_cannot_have() {
    let grouped = edited(&sites(), |file| {
        file["groups"] = json!([{"capacity": "1MB/s", "links": [["a", "b"]]}]);
    });
    let mut plan = rates();
    plan["topology"] = json!({"sha256": grouped.digest(),
        "inline": serde_json::from_str::<Value>(&grouped.to_compact()).expect("JSON")});
    assert_eq!(code(&plan), Some(Code::UnsupportedField));
    plan["ignored"] = json!(["groups"]);
    assert_eq!(code(&plan), None);
}

/// Every plan with one thing wrong.
fn damage(good: &Value) -> Vec<(String, Value)> {
    let mut damaged = Vec::new();
    let mut add = |what: String, edit: &dyn Fn(&mut Value)| {
        let mut bad = good.clone();
        edit(&mut bad);
        assert_ne!(&bad, good, "{what}");
        damaged.push((what, bad));
    };
    let kind = good["content"]["kind"].as_str().expect("a kind");
    let execution = good["content"]["execution"].as_str().expect("an execution");
    for i in 0..good["content"]["flows"].as_array().expect("flows").len() {
        let flow = &good["content"]["flows"][i];
        let set = |key: &str, value: Value| {
            let key = key.to_owned();
            (format!("flow {i} {key} {value}"), move |bad: &mut Value| bad["content"]["flows"][i][&key] = value.clone())
        };
        for (what, edit) in [
            set("src", flow["dst"].clone()),
            set("dst", flow["src"].clone()),
            set("src", json!("nobody")),
            set("path", json!([])),
            set("path", json!([99])),
            set("path", json!([flow["path"][0].as_u64().expect("a link") + 1])),
            set("path", json!([flow["path"][0], flow["path"][0]])),
            set("size", json!("0B")),
            set("size", json!("1TB")),
            set("order", json!(flow["order"].as_u64().expect("an order") + 1)),
            set("order", json!(9)),
            set("group", json!(7)),
            set("collective", json!(7)),
            set("id", good["content"]["flows"][(i + 1) % 3]["id"].clone()),
            set("release_s", json!(-1)),
            set("release_s", json!(1_000)),
        ] {
            let same = |key: &str| what == format!("flow {i} {key} {}", flow[key]);
            // Priorities say nothing of how long it takes, as long as it is possible.
            let late = execution == "priority" && (what.contains("release_s 1000") || what.contains("1TB"));
            if !same("id") && !same("order") && !late {
                add(what, &edit);
            }
        }
        if flow["order"] != 3 {
            // Without its last flow a chain is only shorter.
            add(format!("flow {i} gone"), &|bad| {
                drop(bad["content"]["flows"].as_array_mut().expect("flows").remove(i))
            });
        }
        match (kind, execution) {
            ("rates", _) => {
                for rate in ["0MB/s", "unlimited", "19MB/s", "70MB/s"] {
                    add(format!("flow {i} rate {rate}"), &|bad| bad["content"]["flows"][i]["rate"] = json!(rate));
                }
            }
            ("weights", _) => {
                add(format!("flow {i} has a rate"), &|bad| bad["content"]["flows"][i]["rate"] = json!("1MB/s"));
            }
            (_, "priority") => {
                add(format!("flow {i} without rank"), &|bad| {
                    drop(bad["content"]["flows"][i].as_object_mut().expect("a flow").remove("rank"));
                });
                for pred in [json!([12_345]), json!([flow["id"]])] {
                    add(format!("flow {i} after {pred}"), &|bad| bad["content"]["flows"][i]["pred"] = pred.clone());
                }
                if flow["order"] != 3 {
                    let next = json!([flow["id"].as_u64().expect("an id") + 1]);
                    add(format!("flow {i} in a circle"), &|bad| bad["content"]["flows"][i]["pred"] = next.clone());
                }
            }
            _ => {
                let start = flow["start_s"].as_u64().expect("a start");
                // Earlier it meets others, later its chain; the last ones only end later than claimed.
                for start in [json!(start as f64 + 0.5), json!(-1), json!(start as f64 - 0.5)] {
                    add(format!("flow {i} starts at {start}"), &|bad| {
                        bad["content"]["flows"][i]["start_s"] = start.clone();
                    });
                }
                add(format!("flow {i} too fast"), &|bad| bad["content"]["flows"][i]["rate"] = json!("200MB/s"));
                add(format!("flow {i} too slow"), &|bad| bad["content"]["flows"][i]["rate"] = json!("50MB/s"));
            }
        }
    }
    for (key, value) in [
        ("T", json!([1, 2, 3])),
        ("T", json!([0.5, 8])),
        ("T_mean_s", json!(0.5)),
        ("T_mean_s", json!(26.5)),
        ("lower_bound", json!("1")),
        ("time_per_byte", json!("1")),
        ("finish_epochs", json!(1)),
        ("optimal", json!(true)),
        ("certificate", json!({"kind": "cut", "nodes": ["a"]})),
        ("certificate", json!({"kind": "distance"})),
    ] {
        add(format!("claims {key} {value}"), &|bad| bad["claim"][key] = value.clone());
    }
    for other in ["static", "work_conserving", "order_preserving", "priority", "priority_recomputed"] {
        let like = [["static", "work_conserving"], ["priority", "priority_recomputed"]];
        if other != execution && !like.iter().any(|pair| pair.contains(&other) && pair.contains(&execution)) {
            add(format!("carried out as {other}"), &|bad| bad["content"]["execution"] = json!(other));
        }
    }
    if kind == "weights" {
        for i in 0..6 {
            for weight in [json!(0), json!(-1), json!("0.9")] {
                add(format!("group {i} weighs {weight}"), &|bad| {
                    bad["content"]["groups"][i]["weight"] = weight.clone()
                });
            }
            add(format!("group {i} gone"), &|bad| {
                drop(bad["content"]["groups"].as_array_mut().expect("groups").remove(i))
            });
            add(format!("group {i} twice"), &|bad| {
                let groups = bad["content"]["groups"].as_array_mut().expect("groups");
                groups.push(groups[i].clone());
            });
        }
    }
    add("no flows".into(), &|bad| bad["content"]["flows"] = json!([]));
    damaged
}

#[test]
fn every_damaged_plan_of_flows_is_refused() {
    for good in [rates(), weights(), order(), priority()] {
        let name = format!("{} {}", good["content"]["kind"], good["content"]["execution"]);
        assert_eq!(code(&good), None, "{name}");
        let damaged = damage(&good);
        for (what, bad) in &damaged {
            assert!(refused(&bad.to_string()), "{name}: {what}");
        }
        println!("{name}: {} damaged plans refused", damaged.len());
        assert!(damaged.len() >= 300, "{name}: {}", damaged.len());
    }
}
