//! F9 and F10: plans, demands and flows as files, and programs for GPUs.

use sluice_formats::problem::Problems;
use sluice_plan::check::check;
use sluice_plan::export::{Format, Options, export};
use sluice_plan::interpret;
use sluice_plan::plan::{Collective, Demands, Flows, Plan};
use sluice_planners::front::Request;
use sluice_planners::ring;

use super::topologies::{fabrics, refused};
use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses plan, demands or flows, then the file.
pub static PLANS: Target = Target {
    name: "F09-plans",
    parser: "plan.json with its checker, demands and flows",
    property: "a plan that is read is written so that it is read the same; the checker comes to an end, says what it proved or what is wrong, and says it again",
    shape: Shape::ChosenText(&[
        "sluice_plan",
        "sluice_demands",
        "sluice_flows",
        "claim",
        "content",
        "kind",
        "trees",
        "paths",
        "steps",
        "sends",
        "rates",
        "weights",
        "order",
        "collective",
        "allgather",
        "alltoall",
        "custom",
        "forests",
        "edges",
        "path",
        "weight",
        "root",
        "U",
        "k",
        "inline",
        "topology",
        "sha256",
        "participants",
        "tenants",
        "triples",
        "flows",
        "deps",
        "release_s",
        "size",
        "\"1/3\"",
        "\"100MB\"",
        "null",
        "{",
        "}",
        "[",
        "]",
    ]),
    run: plans,
    seeds: plans_seeds,
};

/// A program in XML.
pub static PROGRAMS: Target = Target {
    name: "F10-programs",
    parser: "MSCCL's and oneCCL's XML, read and executed",
    property: "no document type; counts and depth have bounds; a program that does its collective does so each time, and one that waits for ever is told",
    shape: Shape::Text(&[
        "<algo ",
        "<gpu ",
        "<tb ",
        "<step ",
        "</algo>",
        "</gpu>",
        "</tb>",
        "/>",
        "id=\"0\"",
        "send=\"1\"",
        "recv=\"1\"",
        "chan=\"0\"",
        "s=\"0\"",
        "type=\"s\"",
        "type=\"r\"",
        "type=\"cpy\"",
        "type=\"rrc\"",
        "type=\"re\"",
        "type=\"nop\"",
        "srcbuf=\"i\"",
        "dstbuf=\"o\"",
        "cnt=\"1\"",
        "depid=\"-1\"",
        "deps=\"-1\"",
        "hasdep=\"1\"",
        "nranks=\"2\"",
        "coll=\"allgather\"",
        "coll=\"allreduce\"",
        "<!DOCTYPE a>",
        "<!--",
        "-->",
    ]),
    run: programs,
    seeds: programs_seeds,
};

fn plans(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 3 {
        0 => plan(rest),
        1 => told(Demands::read(rest, "d.json").map(drop)),
        _ => told(Flows::read(rest, "f.json").map(drop)),
    }
}

fn told(read: Result<(), Problems>) {
    if let Err(problems) = read {
        refused(&problems);
    }
}

fn plan(bytes: &[u8]) {
    let plan = match Plan::read(bytes, "p.json") {
        Ok(plan) => plan,
        Err(problems) => return refused(&problems),
    };
    let text = plan.to_text();
    let again = Plan::read(text.as_bytes(), "p.json").expect("what is written is a plan");
    assert!(again == plan, "what is written is the plan");
    assert_eq!(again.to_text(), text);
    let report = check(&plan, None);
    assert_eq!(report.ok(), report.violation.is_none());
    assert_eq!(check(&again, None).to_json(), report.to_json(), "the same plan is judged the same");
}

fn programs(bytes: &[u8]) {
    let read = interpret::interpret(bytes, "p.xml");
    match &read {
        Ok(report) => {
            let text = std::str::from_utf8(bytes).expect("what is accepted is text");
            assert!(!text.contains("<!DOCTYPE") && !text.contains("<!ENTITY"), "document types are refused");
            assert_eq!(report.ok(), report.fault.is_none());
            assert!(report.steps <= bytes.len() && report.ranks <= bytes.len(), "as many as stand in the file");
            assert_eq!(interpret::interpret(bytes, "p.xml").as_ref().ok(), Some(report), "the same each time");
        }
        Err(problems) => refused(problems),
    }
}

/// Rings over small fabrics, as the planner makes them.
fn rings() -> Vec<(String, Plan)> {
    let collectives = [Collective::AllGather, Collective::AllReduce, Collective::Broadcast, Collective::AllToAll];
    let mut plans = Vec::new();
    for (name, fabric) in fabrics().iter().take(3) {
        for collective in collectives {
            if let Ok(plan) = ring::make(fabric, &Request::of_all(collective), "t.json") {
                plans.push((format!("{name}-{}", collective.word()), plan));
            }
        }
    }
    plans
}

fn plans_seeds() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = rings().into_iter().map(|(name, plan)| Seed::of(0, name, plan.to_text())).collect();
    // One of every kind, as the tests of their reader have them.
    let kinds = include_str!("../../../../plan/src/plan/samples.jsonl");
    seeds.extend(kinds.lines().enumerate().map(|(number, line)| Seed::of(0, format!("kind-{number}"), line)));
    let demands = r#"{"sluice_demands":1,"tenants":[{"name":"a","triples":[["n0",0,"n1"],["n1",1,"n0"]],"weight":2},
{"name":"b","collective":"reduce","root":"n0","participants":["n0","n1"]}]}"#;
    let flows = r#"{"deps":[[0,1]],"flows":[{"collective":0,"dst":"b","group":0,"id":0,"order":0,"path":[0,3],"release_s":0,"size":"100MB","src":"a"},
{"collective":0,"dst":"c","group":0,"id":1,"order":1,"path":[1],"size":"1GiB","src":"b"}],"sluice_flows":1}"#;
    seeds.extend([Seed::of(1, "demands", demands), Seed::of(2, "flows", flows)]);
    seeds
}

fn programs_seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (name, plan) in rings() {
        for (dialect, format) in [("msccl", Format::MscclXml), ("oneccl", Format::OnecclXml)] {
            if let Ok(exported) = export(&plan, None, format, &Options::default()) {
                let files = exported.files.iter().enumerate();
                seeds.extend(files.map(|(at, file)| Seed::new(format!("{name}-{dialect}-{at}"), file.text.as_str())));
            }
        }
    }
    // A rank waits for a message that nobody sends.
    let waits = r#"<algo name="t" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0" outofplace="1"
minBytes="0" maxBytes="0" redop="nop"><gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0"><tb id="0" send="-1" recv="1" chan="0">
<step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu>
<gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0"><tb id="0" send="-1" recv="0" chan="0">
<step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu></algo>"#;
    seeds.push(Seed::new("waits", waits));
    seeds.retain(|seed| seed.bytes.len() <= 16 << 10);
    seeds
}
