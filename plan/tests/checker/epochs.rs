//! What the tests of plans of sends share: GPUs and switches, schedules as JSON, and what the checker says of them.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_plan::check::{Code, check};
use sluice_plan::plan::Plan;

use crate::plain;
use crate::scene::edited;

/// GPUs `n0` to `n{count − 1}` with links of 25 GB/s and 0.7 µs, both ways, as these pairs say.
pub fn gpus(count: usize, links: &[(usize, usize)]) -> Topology {
    let nodes: Vec<Value> = (0..count).map(|i| json!({"id": format!("n{i}"), "kind": "gpu"})).collect();
    let links: Vec<Value> = links
        .iter()
        .map(|(a, b)| {
            json!({"from": format!("n{a}"), "to": format!("n{b}"), "capacity": "25GB/s", "latency": "0.7us", "duplex": true})
        })
        .collect();
    let file = json!({"sluice_topology": 1, "nodes": nodes, "links": links});
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

/// GPUs around one switch.
pub fn star(count: usize) -> Topology {
    let links: Vec<(usize, usize)> = (0..count).map(|i| (i, count)).collect();
    edited(&gpus(count + 1, &links), |file| {
        file["nodes"][count] = json!({"id": format!("n{count}"), "kind": "switch"});
        for link in file["links"].as_array_mut().expect("links") {
            link["latency"] = json!("0us");
        }
    })
}

/// A send of chunk `chunk` of `src`.
pub fn send(src: usize, chunk: u64, from: usize, to: usize, epoch: u64) -> Value {
    json!({"src": format!("n{src}"), "chunk": chunk, "from": format!("n{from}"), "to": format!("n{to}"), "epoch": epoch})
}

/// A plan of 25 kB chunks and epochs of 1 µs.
pub fn plan(topology: &Topology, collective: &str, sends: Vec<Value>) -> Value {
    let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    let mut plan = json!({"sluice_plan": 1, "collective": collective, "claim": {},
        "topology": {"sha256": topology.digest(), "inline": file},
        "content": {"kind": "sends", "sends": sends, "model": {"chunk": "25000B", "chunks": 1, "tau": "1us"}}});
    if ["broadcast", "scatter", "gather", "reduce"].contains(&collective) {
        plan["root"] = json!("n0");
    }
    plan
}

/// The plan on another topology.
pub fn on(plan: &Value, topology: &Topology) -> Value {
    let mut plan = plan.clone();
    plan["topology"] = json!({"sha256": topology.digest(),
        "inline": serde_json::from_str::<Value>(&topology.to_compact()).expect("JSON")});
    plan
}

/// The plan with another value of a key in one of its sends.
pub fn edited_send(plan: &Value, place: usize, key: &str, value: Value) -> Value {
    let mut plan = plan.clone();
    plan["content"]["sends"][place][key] = value;
    plan
}

/// What the checker says is wrong.
pub fn code(plan: &Value) -> Option<Code> {
    let plan = Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"));
    check(&plan, None).violation.map(|violation| violation.code)
}

/// The epochs that the checker says it takes; `None` for a wrong plan.
pub fn finish_of(plan: &Value) -> Option<u64> {
    let plan = Plan::read(plan.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"));
    let report = check(&plan, None);
    let said = report.proved.iter().find_map(|proved| proved.rsplit_once(", in ")?.1.strip_suffix(" epochs"));
    said?.parse().ok()
}

/// The same of a plan that must be right so far.
pub fn finish(plan: &Value) -> u64 {
    finish_of(plan).unwrap_or_else(|| panic!("{:?}", code(plan)))
}

/// What this certificate proves of a plan, in epochs, 0 where it cannot be rechecked; an error where it makes no sense.
pub fn proved(plan: &Value, certificate: &Value) -> Result<u64, Code> {
    let mut plan = plan.clone();
    plan["claim"] = json!({"certificate": certificate});
    let report = check(&Plan::read(plan.to_string().as_bytes(), "p").expect("readable"), None);
    if let Some(violation) = report.violation {
        return Err(violation.code);
    }
    let said = report.proved.iter().find_map(|proved| proved.strip_prefix("no plan is faster than "));
    Ok(said.map_or(0, |said| said.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")))
}

/// A schedule that copies, read backwards: every send goes the other way round, ends when it began, and adds up. Where
/// `collective` is an all-reduce, the schedule itself follows.
pub fn turned(forwards: &Value, collective: &str) -> Value {
    let read = Plan::read(forwards.to_string().as_bytes(), "p").unwrap_or_else(|errors| panic!("{errors}"));
    let (epochs, after) = (finish(forwards), plain::usable_after(&read).expect("right"));
    let list = forwards["content"]["sends"].as_array().expect("sends");
    let mut sends = Vec::new();
    for (send, after) in list.iter().zip(after) {
        let mut back = send.clone();
        (back["from"], back["to"]) = (send["to"].clone(), send["from"].clone());
        back["epoch"] = json!(epochs - send["epoch"].as_u64().expect("an epoch") - after);
        back["op"] = json!("reduce");
        sends.push(back);
    }
    if collective == "allreduce" {
        sends.extend(list.iter().map(|send| {
            let mut later = send.clone();
            later["epoch"] = json!(epochs + send["epoch"].as_u64().expect("an epoch"));
            later
        }));
    }
    let mut turned = forwards.clone();
    turned["collective"] = json!(collective);
    turned["content"]["sends"] = json!(sends);
    turned
}
