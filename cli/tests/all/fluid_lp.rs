//! `sluice plan fluid-lp`: plans in steps, their figures in both forms, what can be made of them, and what is refused.

use serde_json::{Value, json};

use crate::desk::{Desk, stdout};

/// Four GPUs around a switch that only forwards.
fn star() -> Value {
    let gpus = (0..4).map(|i| json!({"id": format!("g{i}"), "kind": "gpu"}));
    let links = (0..4).map(|i| json!({"from": format!("g{i}"), "to": "s", "capacity": "10", "duplex": true}));
    let nodes: Vec<Value> = gpus.chain([json!({"id": "s", "kind": "switch"})]).collect();
    json!({"sluice_topology": 1, "nodes": nodes, "links": links.collect::<Vec<_>>()})
}

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("star.json", &star().to_string());
    let mut memory = star();
    memory["nodes"][4]["kind"] = json!("memory");
    desk.write("memory.json", &memory.to_string());
    let triples = json!([{"name": "t", "triples": [["g0", 0, "g1"]]}]);
    desk.write("demands.json", &json!({"sluice_demands": 1, "tenants": triples}).to_string());
    desk
}

const PLAN: &str = "plan fluid-lp --topology star.json";
const COLLECTIVES: [&str; 8] = [
    "allgather",
    "reduce_scatter",
    "allreduce",
    "alltoall",
    "broadcast --root g1",
    "reduce --root g1",
    "scatter --root g1",
    "gather --root g1",
];

#[test]
fn every_collective_goes_in_steps() {
    let desk = desk();
    for fabric in ["star.json", "memory.json"] {
        for collective in COLLECTIVES {
            let line = format!("plan fluid-lp --topology {fabric} --collective {collective} --steps 5 --out p.json");
            let found = desk.json(&line);
            let (latency, steps) = (found["R"].as_f64().expect("a number"), &found["steps"]);
            let number = |key: &str| steps[key].as_f64().expect("a number");
            assert_eq!(number("steps"), number("depth") + 4.0, "{line}: {found}");
            let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-9 * expected;
            assert!(near(number("step_length"), latency / 5.0), "{line}: {found}");
            assert!(near(number("latency"), latency * number("steps") / 5.0), "{line}: {found}");
            assert!(number("busy") <= number("latency") * (1.0 + 1e-9), "{line}: {found}");
            assert_eq!((&steps["chunks"], &steps["rounded"]), (&json!(5), &json!(false)));
            assert_eq!(desk.run("plan check p.json").status.code(), Some(0), "{line}");
            // The command in the plan makes the same plan.
            let plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
            assert_eq!(plan["content"]["kind"], "steps");
            let command = plan["made_by"]["command"].as_str().expect("a command");
            let again = command.strip_prefix("sluice ").expect("ours");
            assert_eq!(desk.run(&format!("{again} --out q.json")).status.code(), Some(0), "{again}");
            assert_eq!(desk.read("p.json"), desk.read("q.json"), "{line}");
        }
    }
}

#[test]
fn people_read_how_many_steps_there_are_and_what_they_take() {
    let desk = desk();
    let text = stdout(&desk.run(&format!("{PLAN} --collective allgather --steps 10")));
    for line in [
        "  R            3/10 (0.3)",
        "  steps        11 of 3/100 (0.03): every part in 10 chunks, under way for 2 steps at most",
        "  latency      33/100 (0.33)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains(" in steps, and none takes less than 0.90909 of that"), "{text}");
    assert_eq!(desk.json(&format!("{PLAN} --collective allgather"))["steps"], Value::Null);
}

#[test]
fn what_can_be_made_of_steps_through_switches() {
    let desk = desk();
    for collective in ["allgather", "allreduce", "alltoall"] {
        let made = desk.run(&format!("{PLAN} --collective {collective} --steps 3 --out p.json"));
        assert_eq!(made.status.code(), Some(0), "{collective}");
        for format in ["svg", "dot"] {
            let picture = desk.run(&format!("plan export p.json --format {format}"));
            assert_eq!(picture.status.code(), Some(0), "{collective} as {format}");
            let last = if collective == "allreduce" { "step 6:" } else { "step 4:" };
            assert!(stdout(&picture).contains(last), "{collective} as {format}: {}", stdout(&picture));
        }
        let compared = desk.json("plan compare p.json --sizes 1");
        assert_eq!(compared["plans"][0]["kind"], "steps", "{compared}");
    }
    for format in ["html", "teccl-json", "forest-json", "tree-xml"] {
        let found = desk.refused(&format!("plan export p.json --format {format}"));
        assert_eq!(found, ("UNSUPPORTED_FIELD".into(), "/content/kind".into()), "{format}");
    }
}

#[test]
fn programs_do_what_steps_through_switches_do() {
    let desk = desk();
    for collective in COLLECTIVES {
        let made = desk.run(&format!("{PLAN} --collective {collective} --steps 3 --out p.json"));
        assert_eq!(made.status.code(), Some(0), "{collective}");
        for format in ["msccl-xml --no-limits", "oneccl-xml"] {
            let line = format!("plan export p.json --format {format} --verify --out p.xml");
            if collective.starts_with("scatter") || collective.starts_with("gather") {
                assert_eq!(desk.refused(&line), ("UNSUPPORTED_FIELD".into(), "/collective".into()), "{collective}");
                continue;
            }
            // The interpreter executes it.
            let found = desk.json(&line);
            assert_eq!(
                (&found["warnings"], found["verified"].is_object()),
                (&json!([]), true),
                "{collective}: {found}"
            );
        }
    }
    // Nobody could do it in a memory's stead at the same times.
    desk.run("plan fluid-lp --topology memory.json --collective allgather --steps 3 --out p.json");
    let found = desk.refused("plan export p.json --format msccl-xml");
    assert_eq!(found, ("UNSUPPORTED_FIELD".into(), "/topology/inline/nodes/4/can".into()));
}

#[test]
fn steps_that_cannot_be_are_refused() {
    let desk = desk();
    let rows = [
        ("--collective allgather --steps 5 --strength relax", "E_RANGE"),
        ("--collective allgather --steps 100000000", "TooLarge"),
    ];
    for (row, code) in rows {
        let found = desk.refused(&format!("{PLAN} {row}"));
        assert_eq!(found, (code.into(), "--steps".into()), "{row}");
    }
    for row in
        ["--collective allgather --steps 0", "--demands demands.json --steps 2", "--collective allgather --steps x"]
    {
        assert_eq!(desk.run(&format!("{PLAN} {row}")).status.code(), Some(2), "{row}");
    }
}
