//! Plans of kind `rates`, `weights` and `order`: rings over a wide area with times counted by hand. Beside it random ones, damaged
//! ones, and certificates.

mod completion;
mod damaged;
mod naive;
mod random;
mod textbook;

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::check::{Code, Report, check};
use sluice_plan::plan::Plan;

use crate::scene::edited;

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

fn report(plan: &Value) -> Report {
    let plan = Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"));
    check(&plan, None)
}
fn code(plan: &Value) -> Option<Code> {
    report(plan).violation.map(|violation| violation.code)
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

/// The same by rank, and by what is left to do: both rings need 4 s alone, and the first goes first.
fn priority() -> Value {
    let mut plan = recomputed();
    plan["content"]["execution"] = json!("priority");
    for flow in plan["content"]["flows"].as_array_mut().expect("flows") {
        flow["rank"] = flow["id"].clone();
    }
    plan
}
fn recomputed() -> Value {
    let mut plan = order();
    plan["content"]["execution"] = json!("priority_recomputed");
    for flow in plan["content"]["flows"].as_array_mut().expect("flows") {
        flow.as_object_mut().expect("a flow").remove("start_s");
    }
    plan
}

#[test]
fn times_are_those_of_the_rates() {
    for plan in [rates(), weights(), order(), priority(), recomputed()] {
        let report = report(&plan);
        assert_eq!((&report.violation, &report.not_rechecked), (&None, &Vec::new()), "{}", plan["content"]["kind"]);
        let read = Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
        let again = Plan::read(read.to_text().as_bytes(), "p").expect("what is written is valid");
        assert!(check(&again, None).ok());
    }
    // A millionth is rounding, a thousandth is not.
    let mut plan = rates();
    plan["claim"]["T"] = json!([20.000_01, 30]);
    assert_eq!(code(&plan), None);
    plan["claim"]["T"] = json!([20.02, 30]);
    assert_eq!(code(&plan), Some(Code::WrongTime));
}

#[test]
fn what_is_left_is_used() {
    // On every link one flow of each ring, at 60 and 40 MB/s by their rates; the second ring has 400/3 MB to go when the first
    // has ended, alone.
    let first = 20.0 / 3.0;
    let claim = json!({"T": [first, 8], "T_mean_s": (first + 8.0) / 2.0});
    for (plan, execution) in [(rates(), "work_conserving"), (weights(), "work_conserving"), (weights(), "max_min")] {
        let mut plan = plan;
        plan["content"]["execution"] = json!(execution);
        assert_eq!(code(&plan), Some(Code::WrongTime), "{execution}: the times of rates that stay");
        plan["claim"] = claim.clone();
        assert_eq!(code(&plan), None, "{execution}");
    }
    let mut plan = rates();
    plan["content"]["execution"] = json!("max_min");
    assert_eq!(code(&plan), Some(Code::BadExecution), "rates are not weights");
}

#[test]
fn releases_and_those_that_go_first_count_in_every_execution() {
    for (kind, execution) in random::EXECUTIONS {
        let good = match (kind, execution) {
            ("rates", _) => rates(),
            ("weights", _) => weights(),
            (_, "priority") => priority(),
            (_, "priority_recomputed") => recomputed(),
            _ => order(),
        };
        let with = |key: &str, value: Value| {
            let mut plan = good.clone();
            plan["content"]["execution"] = json!(execution);
            plan["claim"] = json!({});
            plan["content"]["flows"][0][key] = value;
            plan
        };
        let late = with("release_s", json!(2));
        if execution == "order_preserving" {
            assert_eq!(code(&late), Some(Code::BadOrder), "it would begin at 0");
        } else {
            assert_eq!(code(&random::claiming(late)), None, "{kind} {execution}");
        }
        // The first flow of the first ring after the last of another of its chains.
        let last = with("pred", json!([13]));
        if execution == "order_preserving" {
            assert_eq!(code(&last), Some(Code::BadOrder));
        } else {
            assert_eq!(code(&random::claiming(last)), None, "{kind} {execution}");
        }
        assert_eq!(code(&with("pred", json!([1]))), Some(Code::BadOrder), "{kind} {execution}: a circle");
        assert_eq!(code(&with("pred", json!([12_345]))), Some(Code::BadOrder), "{kind} {execution}: nobody");
    }
}

#[test]
fn what_nobody_would_heed_is_refused() {
    let with = |mut plan: Value, key: &str, value: Value| {
        plan["content"]["flows"][0][key] = value;
        code(&plan)
    };
    for plan in [rates(), weights(), order(), recomputed()] {
        assert_eq!(with(plan, "rank", json!(1)), Some(Code::BadOrder));
    }
    for plan in [rates(), weights(), priority(), recomputed()] {
        assert_eq!(with(plan, "start_s", json!(0)), Some(Code::BadOrder));
    }
    for plan in [weights(), priority(), recomputed()] {
        assert_eq!(with(plan, "rate", json!("1MB/s")), Some(Code::BadRate));
    }
    // Of an order no rate is the same as none.
    for plan in [order(), priority(), recomputed()] {
        assert_eq!(with(plan.clone(), "rate", json!("0MB/s")), None);
        assert_eq!(with(plan, "rate", json!("-1MB/s")), Some(Code::BadRate));
    }
}

#[test]
fn an_order_is_not_later_than_it_has_to_be() {
    // The last flow of the second ring half a second later ends later than in the order that all starts give.
    let mut late = order();
    late["claim"] = json!({});
    let last = late["content"]["flows"].as_array().expect("flows").len() - 1;
    late["content"]["flows"][last]["start_s"] = json!(7.5);
    let violation = report(&late).violation.expect("refused");
    assert_eq!((violation.code, &*violation.at), (Code::BadOrder, &*format!("/content/flows/{last}/start_s")));
    // Two flows at half of a link each run together; the third was to begin after both.
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"site"},{"id":"b","kind":"site"}],
        "links":[{"from":"a","to":"b","capacity":"2MB/s"}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let flow = |k: u64, size: &str, start: u64| {
        json!({"id": k, "collective": k, "group": 0, "order": 0, "src": "a", "dst": "b", "size": size, "path": [0],
            "rate": "1MB/s", "start_s": start})
    };
    let flows = [flow(0, "1MB", 0), flow(1, "2MB", 0), flow(2, "1MB", 1)];
    let content = |flows: &[Value]| json!({"kind": "order", "execution": "order_preserving", "flows": flows});
    let good = plan(&topology, content(&flows), json!({"T": [1, 2, 2]}));
    assert_eq!(code(&good), None);
    let mut crowded = good.clone();
    crowded["content"]["flows"][2]["start_s"] = json!(0.5);
    assert_eq!(code(&crowded), Some(Code::Overload));
}

#[test]
fn hundreds_of_long_rates_are_no_trouble() {
    // Numbers as wide-area planners write them: fifteen digits each, no two alike.
    let mut draw = random::Draw(7);
    let links: Vec<Value> = (0..60)
        .map(|_| json!({"from": "a", "to": "b", "capacity": format!("{}MB/s", 20.0 + 5.0 * draw.part())}))
        .collect();
    let file = json!({"sluice_topology": 1, "nodes": [{"id": "a", "kind": "site"}, {"id": "b", "kind": "site"}], "links": links});
    let topology = Topology::read(file.to_string().as_bytes(), "t").expect("valid");
    let mut flows = Vec::new();
    for id in 0..120 {
        flows.push(json!({"id": id, "collective": id % 4, "group": id / 4, "order": 0, "src": "a", "dst": "b",
            "size": format!("{}MB", 2.0 + 5.0 * draw.part()), "path": [draw.below(60)]}));
    }
    for kind in ["rates", "order"] {
        let mut flows = flows.clone();
        let execution = if kind == "rates" { "work_conserving" } else { "priority_recomputed" };
        if kind == "rates" {
            flows.iter_mut().for_each(|flow| flow["rate"] = json!(format!("{}MB/s", 0.1 + draw.part())));
        }
        let plan = plan(&topology, json!({"kind": kind, "execution": execution, "flows": flows}), json!({}));
        let report = report(&random::claiming(plan));
        assert_eq!((report.violation, report.not_rechecked), (None, Vec::new()), "{kind}");
    }
}

#[test]
fn numbers_too_far_apart_are_refused() {
    let with = |mut plan: Value, key: &str, value: &str| {
        plan["content"]["flows"][0][key] = json!(value);
        plan["claim"] = json!({});
        code(&plan)
    };
    assert_eq!(with(rates(), "size", "1B"), None);
    assert_eq!(with(rates(), "size", "1/100B"), Some(Code::TooFine));
    assert_eq!(with(priority(), "size", "1000000000000TB"), Some(Code::TooFine));
    assert_eq!(with(rates(), "rate", "1/1000B/s"), Some(Code::TooFine));
}

#[test]
fn rings_are_recognised() {
    let mut plan = rates();
    plan["collective"] = json!("allreduce");
    let proved = |plan: &Value| {
        report(plan).proved.into_iter().filter(|text| text.contains("ring all-reduce")).collect::<Vec<_>>()
    };
    let ring = |k: u64| format!("collective {k} is a ring all-reduce of 3 participants");
    assert_eq!(code(&plan), None);
    assert_eq!(proved(&plan), [ring(0), ring(1)]);
    // Groups in another order, and chunks of different sizes, are a ring as well.
    let flows = plan["content"]["flows"].as_array_mut().expect("flows");
    for flow in flows.iter_mut().filter(|flow| flow["collective"] == 0) {
        flow["group"] = json!((flow["group"].as_u64().expect("a group") + 1) % 3);
        flow["size"] = json!(format!("{}MB", 100 + flow["group"].as_u64().expect("a group")));
    }
    plan["claim"] = json!({});
    assert_eq!(proved(&plan), [ring(0), ring(1)]);
    // Sizes that change on the way are said.
    plan["content"]["flows"][13]["size"] = json!("1MB");
    assert_eq!(proved(&plan), [ring(0), ring(1) + ", but for chunks that change their size on the way"]);
    // A hop too few, a hop the other way round, two chunks that begin at one place.
    let not = |edit: &dyn Fn(&mut Vec<Value>)| {
        let mut plan = plan.clone();
        edit(plan["content"]["flows"].as_array_mut().expect("flows"));
        assert_eq!(code(&plan), Some(Code::NotARing));
        plan["collective"] = json!("custom");
        assert_eq!(proved(&plan).len(), 1, "the other one still is");
    };
    not(&|flows| drop(flows.pop()));
    not(&|flows| {
        flows[0] = {
            let mut flow = flows[0].clone();
            (flow["src"], flow["dst"], flow["path"]) = (json!("b"), json!("a"), json!([1]));
            flow
        }
    });
    not(&|flows| {
        for place in 0..4 {
            for key in ["src", "dst", "path"] {
                flows[4 + place][key] = flows[place][key].clone();
            }
        }
    });
    // Other collectives cannot be seen from flows.
    plan["collective"] = json!("allgather");
    assert_eq!(code(&plan), Some(Code::UnsupportedCollective));
}

#[test]
fn many_rings_are_counted() {
    let mut flows: Vec<Value> = (0..20).flat_map(ring).collect();
    flows.retain(|flow| flow["id"] != 1923);
    for flow in &mut flows {
        flow["rank"] = json!(0);
    }
    let plan = plan(&sites(), json!({"kind": "order", "execution": "priority", "flows": flows}), json!({}));
    let report = report(&random::claiming(plan));
    assert_eq!(report.violation, None);
    assert!(report.proved.contains(&"19 of 20 collectives are ring all-reduces".to_owned()), "{report:?}");
}

#[test]
fn a_replay_that_takes_too_long_is_said() {
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"site"},{"id":"b","kind":"site"}],
        "links":[{"from":"a","to":"b","capacity":"1MB/s"}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let flow = |id: u64| json!({"id": id, "collective": 0, "group": id, "order": 0, "src": "a", "dst": "b", "size": format!("{}B", id + 1), "path": [0]});
    let flows: Vec<Value> = (0..9_000).map(flow).collect();
    let groups: Vec<Value> = (0..9_000).map(|group| json!({"collective": 0, "group": group, "weight": 1})).collect();
    let content = json!({"kind": "weights", "execution": "max_min", "flows": flows, "groups": groups});
    let report = report(&plan(&topology, content, json!({"T": [40.5045]})));
    assert_eq!(report.violation, None);
    assert_eq!(report.not_rechecked, ["the exact times: a replay takes more than 100000000 visits of links"]);
    assert!(report.proved.contains(&"the mean time is at least 0.009000 s".to_owned()), "{report:?}");
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
