//! Plans of kind `steps` that are right, with the figures of the textbook, and what each rule of the checker refuses.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, hypercube, ring};
use sluice_plan::check::{Code, check};
use sluice_plan::plan::{Certificate, CertificateKind, Collective, Plan};

use crate::scene::{edited, fabrics, fraction};
use crate::step_plans::{ALL, claimed, fits, link, of_steps, read};

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
