//! Every code of a violation: its smallest wrong plan is here, or a test beside this one asks for it by name.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, star};
use sluice_plan::check::{Code, check};
use sluice_plan::plan::{Collective, Plan};

use crate::scene::{edited, on};
use crate::{flows, hops, naive, sends, step_plans};

/// The other tests, which assert codes where they belong.
const OTHERS: [&str; 7] = [
    include_str!("main.rs"),
    include_str!("cost.rs"),
    include_str!("demands.rs"),
    include_str!("hops.rs"),
    include_str!("steps.rs"),
    include_str!("sends.rs"),
    include_str!("flows.rs"),
];

fn value(plan: &Plan) -> Value {
    serde_json::from_str(&plan.to_text()).expect("JSON")
}

fn of_star() -> Topology {
    star(&["1", "2", "3", "1", "2"]).expect("valid")
}

/// The smallest changes that lead to a code.
fn cases() -> Vec<(Code, Value)> {
    let trees = value(&naive::trees(&of_star(), Collective::AllGather));
    let straight = naive::trees(&complete(5, "1").expect("valid"), Collective::Broadcast);
    let paths = value(&naive::paths(&of_star(), Collective::AllToAll));
    let stepped = step_plans::of_steps(&of_star(), Collective::AllGather);
    let hopping = value(&hops::through_the_switch(Collective::Broadcast).1);
    let (row, rates, order) = (sends::row(), flows::rates(), flows::order());
    let mut cases = Vec::new();
    let mut case = |code: Code, good: &Value, edit: &dyn Fn(&mut Value)| {
        let mut bad = good.clone();
        edit(&mut bad);
        cases.push((code, bad));
    };
    let list = |value: &mut Value| std::mem::take(value.as_array_mut().expect("a list"));
    case(Code::TopologyMissing, &trees, &|p| drop(p["topology"].as_object_mut().expect("one").remove("inline")));
    case(Code::TopologyInvalid, &trees, &|p| p["topology"]["inline"]["links"][0]["to"] = json!("nobody"));
    case(Code::DigestMismatch, &trees, &|p| p["topology"]["sha256"] = json!("00"));
    case(Code::UnsupportedCollective, &trees, &|p| p["collective"] = json!("alltoall"));
    case(Code::UnknownNode, &trees, &|p| p["participants"][0] = json!("nobody"));
    case(Code::BadParticipants, &trees, &|p| p["participants"][0] = p["participants"][1].clone());
    case(Code::BadRoot, &trees, &|p| p["root"] = json!("n0"));
    case(Code::WrongForests, &trees, &|p| p["content"]["forests"][0]["direction"] = json!("in"));
    let tree = |p: &mut Value, edit: &dyn Fn(&mut Value)| edit(&mut p["content"]["forests"][0]["trees"][0]);
    case(Code::RootNotParticipant, &trees, &|p| tree(p, &|tree| tree["root"] = json!("sw")));
    case(Code::BadWeight, &trees, &|p| tree(p, &|tree| tree["weight"] = json!(0)));
    case(Code::WrongShare, &trees, &|p| tree(p, &|tree| tree["weight"] = json!(7)));
    let edge = |src: &str, dst: &str| json!({"src": src, "dst": dst, "path": [src, "sw", dst]});
    case(Code::EdgeAtRoot, &trees, &|p| tree(p, &|tree| tree["edges"][0] = edge("n1", "n0")));
    case(Code::TwoParents, &trees, &|p| tree(p, &|tree| tree["edges"][0] = edge("n3", "n2")));
    case(Code::NoLink, &trees, &|p| tree(p, &|tree| tree["edges"][0]["path"] = json!(["n0", "n1"])));
    case(Code::Cycle, &trees, &|p| {
        tree(p, &|tree| {
            let ends = [("n2", "n1"), ("n1", "n2"), ("n0", "n3"), ("n0", "n4")];
            tree["edges"] = ends.iter().map(|(src, dst)| edge(src, dst)).collect();
        });
    });
    let sums = naive::trees(&complete(5, "1").expect("valid"), Collective::Reduce);
    let unable = edited(&complete(5, "1").expect("valid"), |file| file["nodes"][1]["can"] = json!({"reduce": false}));
    case(Code::CannotReduce, &value(&on(&sums, &unable)), &|_| {});
    case(Code::HopMissesNode, &hopping, &|p| tree(p, &|tree| drop(tree["hops"].as_array_mut().expect("hops").pop())));
    case(Code::HopTwice, &hopping, &|p| {
        tree(p, &|tree| {
            let mut hops = list(&mut tree["hops"]);
            hops.push(hops[hops.len() - 1].clone());
            tree["hops"] = json!(hops);
        });
    });
    case(Code::WrongBandwidth, &value(&straight), &|p| p["claim"]["algorithm_bandwidth"] = json!("17"));
    case(Code::UnprovedOptimal, &trees, &|p| p["claim"]["optimal"] = json!(true));
    case(Code::ForeignClaim, &trees, &|p| p["claim"]["loads"] = json!([]));
    case(Code::BrokenPath, &paths, &|p| {
        drop(p["content"]["pairs"][0]["path"].as_array_mut().expect("a path").pop());
    });
    case(Code::InvalidChunking, &stepped, &|p| p["content"]["P"] = json!(0));
    case(Code::WrongSteps, &stepped, &|p| p["content"]["steps"][0]["op"] = json!("reduce"));
    case(Code::WrongShard, &stepped, &|p| p["content"]["steps"][0]["sends"][0][0] = json!(5));
    case(Code::NotParticipant, &stepped, &|p| {
        drop(p["content"].as_object_mut().expect("one").remove("step_length"));
    });
    case(Code::BadModel, &row, &|p| p["content"]["model"]["tau"] = json!("0s"));
    case(Code::DuplicateSend, &row, &|p| p["content"]["sends"][1] = p["content"]["sends"][0].clone());
    case(Code::WrongFinish, &row, &|p| p["claim"]["finish_epochs"] = json!(3));
    case(Code::BadFlow, &rates, &|p| p["content"]["flows"][0]["size"] = json!("0B"));
    case(Code::BadRoute, &rates, &|p| p["content"]["flows"][0]["path"] = json!([]));
    case(Code::NotAChain, &rates, &|p| p["content"]["flows"][0]["order"] = json!(9));
    case(Code::NotARing, &rates, &|p| {
        p["collective"] = json!("allreduce");
        drop(p["content"]["flows"].as_array_mut().expect("flows").pop());
    });
    case(Code::BadRate, &rates, &|p| p["content"]["flows"][0]["rate"] = json!("unlimited"));
    case(Code::BadExecution, &rates, &|p| p["content"]["execution"] = json!("priority"));
    case(Code::BadOrder, &order, &|p| p["content"]["flows"][0]["pred"] = json!([12_345]));
    cases
}

#[test]
fn every_code_has_a_case() {
    let cases = cases();
    for (code, bad) in &cases {
        let plan = Plan::read(bad.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{code:?}: {errors}"));
        let violation = check(&plan, None).violation;
        assert_eq!(violation.as_ref().map(|violation| violation.code), Some(*code), "{violation:?}");
    }
    let named = |code: &Code| OTHERS.iter().any(|text| text.contains(&format!("Code::{code:?}")));
    let missing: Vec<&Code> =
        Code::ALL.iter().filter(|code| !cases.iter().any(|(known, _)| known == *code) && !named(code)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}
