//! `sluice plan export`: every format, and what is refused.

use serde_json::{Value, json};

use crate::desk::{Desk, stderr, stdout};

#[test]
fn exports_in_every_format() {
    let desk = Desk::new();
    assert!(desk.run("topology gen mi250 --boxes 2 --gpus 8 --out t.json").status.success());
    let line = "plan forestcoll --topology t.json --fixed-k 1 --collective";
    for collective in ["all-gather", "all-reduce", "reduce-scatter"] {
        assert!(desk.run(&format!("{line} {collective} --out {collective}.json")).status.success());
        let shown = desk.json(&format!("plan export {collective}.json --format msccl-xml --verify --out p.xml"));
        assert_eq!((&shown["format"], &shown["warnings"]), (&json!("msccl-xml"), &json!([])));
        assert_eq!((&shown["verified"]["fault"], &shown["verified"]["ranks"]), (&json!(null), &json!(16)));
        assert_eq!(shown["files"][0]["bytes"], json!(desk.read("p.xml").len()));
        // The same bytes on stdout, and again from the topology beside the plan.
        let line = format!("plan export {collective}.json --format msccl-xml");
        assert_eq!(stdout(&desk.run(&line)), desk.read("p.xml"));
        assert_eq!(stdout(&desk.run(&format!("{line} --topology t.json"))), desk.read("p.xml"));
    }
    let xml = stdout(&desk.run("plan export reduce-scatter.json --format msccl-xml --dialect rccl --proto LL128"));
    assert!(xml.contains("coll=\"reducescatter\"") && xml.contains("proto=\"LL128\""), "{xml}");
    for (format, begins) in [("tree-xml", "<"), ("dot", "digraph"), ("svg", "<svg"), ("forest-json", "{")] {
        let text = stdout(&desk.run(&format!("plan export all-gather.json --format {format}")));
        assert!(text.starts_with(begins), "{format}: {text}");
        assert!(desk.run(&format!("plan export all-gather.json --format {format} --out x.{format}")).status.success());
        assert_eq!(desk.read(&format!("x.{format}")), text);
    }
    let tree = stdout(&desk.run("plan export all-gather.json --format svg --tree 3 --colour tree"));
    assert!(tree.len() < desk.read("x.svg").len() && tree.contains("tree 3"));
    // Both halves of an all-reduce, each on its own.
    let shown = desk.run("plan export all-reduce.json --format forest-json --out f.json");
    assert!(shown.status.success(), "{}", stderr(&shown));
    let half = |name: &str| serde_json::from_str::<Value>(&desk.read(name)).expect("JSON")["collective"].clone();
    assert_eq!((half("f.in.json"), half("f.out.json")), (json!("reduce_scatter"), json!("allgather")));
}

#[test]
fn exports_that_are_refused_write_nothing() {
    let desk = Desk::new();
    assert!(desk.run("topology gen dgx-a100 --boxes 2 --out t.json").status.success());
    assert!(desk.run("plan forestcoll --topology t.json --collective all-gather --out p.json").status.success());
    let line = "plan export p.json --out out --format";
    // Thirty-two times 13 trees per root are too many for the runtime, and the message says of what and how many.
    assert_eq!(desk.refused(&format!("{line} msccl-xml --instances 32")).0, "XML_LIMIT_EXCEEDED");
    let value: Value = serde_json::from_slice(&desk.run(&format!("{line} msccl-xml --instances 32 --json")).stdout)
        .expect("one JSON document");
    let details: Vec<(&str, bool)> = value["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|error| {
            (
                error["details"]["what"].as_str().expect("what"),
                error["details"]["count"].as_u64() > error["details"]["limit"].as_u64(),
            )
        })
        .collect();
    assert!(details.contains(&("channels", true)) && details.iter().all(|(_, over)| *over), "{details:?}");
    assert!(desk.run(&format!("{line} msccl-xml --no-limits --verify")).status.success());
    std::fs::remove_file(desk.path("out")).expect("written");
    assert_eq!(desk.refused(&format!("{line} msccl-xml --instances 0")), ("E_RANGE".into(), "--instances".into()));
    assert_eq!(desk.refused(&format!("{line} svg --tree 99")), ("E_RANGE".into(), "--tree".into()));
    assert_eq!(desk.refused(&format!("{line} svg --verify")), ("E_KEY".into(), "--verify".into()));
    assert_eq!(desk.refused(&format!("{line} msccl-xml --tree 1")), ("E_KEY".into(), "--tree".into()));
    assert_eq!(desk.refused("plan export t.json --format svg --out out").0, "E_KEY");
    assert_eq!(desk.refused("plan export none.json --format svg --out out").0, "E_PARSE");
    // A plan that is wrong: no program (3, the answer is no), but a picture of it.
    desk.write("bad.json", &desk.read("p.json").replacen("\"weight\": 11", "\"weight\": 12", 1));
    let output = desk.run("plan export bad.json --format msccl-xml --no-limits --out out");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("error[PLAN_REFUSED]") && stderr(&output).contains("WRONG_SHARE"));
    assert!(!desk.path("out").exists());
    assert!(desk.run("plan export bad.json --format svg").status.success());
    // Another topology than the plan's.
    assert!(desk.run("topology gen dgx-h100 --boxes 2 --out h.json").status.success());
    let output = desk.run("plan export p.json --topology h.json --format tree-xml --out out");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    // A kind that is never exported, and two files on one stdout.
    let mut plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
    plan["content"] = json!({"kind": "paths", "pairs": []});
    desk.write("paths.json", &plan.to_string());
    for format in ["msccl-xml", "oneccl-xml", "forest-json", "tree-xml", "dot", "svg"] {
        let refused = desk.refused(&format!("plan export paths.json --format {format} --out out"));
        assert_eq!(refused, ("UNSUPPORTED_FIELD".into(), "/content/kind".into()));
    }
    assert!(
        desk.run("plan forestcoll --topology t.json --collective all-reduce --fixed-k 1 --out r.json").status.success()
    );
    assert_eq!(desk.refused("plan export r.json --format forest-json"), ("E_MISSING".into(), "--out".into()));
    let output = desk.run("plan export p.json --format svg --out nowhere/p.svg");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}
