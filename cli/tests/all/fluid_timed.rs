//! `sluice plan fluid-lp --model …`: figures of steps, plans of whole pieces, and what is refused.

use crate::desk::{Desk, stderr, stdout};
use serde_json::json;

/// Four GPUs at a switch, 10 each way, without a unit.
fn star(desk: &Desk) {
    let node = |number: usize| json!({"id": format!("g{number}"), "kind": "gpu"});
    let link = |number: usize| json!({"from": format!("g{number}"), "to": "s", "capacity": "10", "duplex": true});
    let mut nodes: Vec<_> = (0..4).map(node).collect();
    nodes.push(json!({"id": "s", "kind": "switch"}));
    let links: Vec<_> = (0..4).map(link).collect();
    let file = json!({"sluice_topology": 1, "name": "star", "nodes": nodes, "links": links});
    desk.write("star.json", &file.to_string());
}

const PLAN: &str = "plan fluid-lp --topology star.json --collective allgather";

#[test]
fn figures_of_every_model_under_their_names() {
    let desk = Desk::new();
    star(&desk);
    let table = [
        (
            "qt --horizon 2",
            json!({"R_exact": "3/10", "steps": 2, "step_length": null, "latency": null, "strength": "RELAX"}),
        ),
        ("cm3 --horizon 2", json!({"R_exact": "3/5", "steps": 2, "step_length_exact": "3/10", "latency": 0.6})),
        ("cm3 --horizon 5 --strength dup", json!({"R_exact": "3/8", "step_length_exact": "3/40", "strength": "DUP"})),
        ("cm3 --step-length 3/20", json!({"steps": 3, "step_length": 0.15})),
        ("cm1 --horizon 2", json!({"R_exact": "3/5", "chunks": 1, "strength": null, "sends": 24, "cost_exact": "24"})),
        ("cm1", json!({"R_exact": "2/5", "R_lower_bound": 0.4, "steps": 4, "step_length_exact": "1/10"})),
        ("cm2 --chunks 2 --step-length 1/10 --horizon 5", json!({"R_exact": "1/2", "chunks": 2, "sends": 48})),
    ];
    for (flags, wanted) in table {
        let shown = desk.json(&format!("{PLAN} --model {flags}"));
        for (key, value) in wanted.as_object().expect("keys") {
            assert_eq!(&shown[key], value, "{flags}: {key} of {shown}");
        }
        assert_eq!(shown["model"], flags.split(' ').next().expect("a model"));
    }
    let text = stdout(&desk.run(&format!("{PLAN} --model cm1")));
    for said in ["4 of 1/10 (0.1)", "2/5 (0.4)", "CM1, data whole", "sends, and none takes less than 0.75 of that"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let text = stdout(&desk.run(&format!("{PLAN} --model qt --horizon 3")));
    assert!(text.contains("3/10 (0.3), over at most 3 links") && text.contains("QT, RELAX"), "{text}");
}

#[test]
fn whole_pieces_have_plans_that_check_and_say_how_they_were_made() {
    let desk = Desk::new();
    star(&desk);
    for collective in
        ["allgather", "reduce-scatter", "alltoall", "broadcast --root g0", "reduce --root g3", "gather --root g1"]
    {
        let line = format!("plan fluid-lp --topology star.json --collective {collective} --model cm1 --horizon 3");
        let shown = desk.json(&format!("{line} --out p.json"));
        let checked = desk.json("plan check p.json");
        assert_eq!(checked["ok"], true, "{collective}");
        let again = stdout(&desk.run(&format!("{line} --out -")));
        assert_eq!(again, desk.read("p.json"), "{collective}: the same bytes");
        let plan: serde_json::Value = serde_json::from_str(&again).expect("JSON");
        assert_eq!(plan["content"]["kind"], "steps");
        assert_eq!(plan["content"]["steps"].as_array().map(Vec::len), Some(3));
        let command = plan["made_by"]["command"].as_str().expect("a command");
        assert!(
            command.ends_with(" --model cm1 --horizon 3") || command.contains(" --model cm1 --horizon 3 --root "),
            "{command}"
        );
        assert!(shown["latency"].as_f64().is_some_and(|latency| latency > 0.0));
    }
    // A fluid has none, and says so.
    for flags in ["cm3 --horizon 3", "qt --horizon 3"] {
        let output = desk.run(&format!("{PLAN} --model {flags} --out none.json"));
        assert_eq!(output.status.code(), Some(0));
        assert!(stderr(&output).contains("warning: a fluid in steps has no plan") && !desk.path("none.json").exists());
    }
}

#[test]
fn capacities_with_units_have_times_with_units() {
    let desk = Desk::new();
    assert!(desk.run("topology gen ring 4 --link 5GB/s --out t.json").status.success());
    let line = "plan fluid-lp --topology t.json --collective allgather --model cm1 --out p.json";
    let shown = desk.json(&format!("{line} --horizon 3"));
    assert_eq!(shown["step_length_exact"], "1/5", "a GB at 5 GB/s in s: {shown}");
    let shown = desk.json(&format!("{line} --step-length 400ms"));
    assert_eq!((&shown["steps"], &shown["R_exact"]), (&json!(2), &json!("4/5")));
    assert_eq!(desk.json("plan check p.json")["ok"], true);
    for bad in ["0.2", "fast", "1GB"] {
        assert_eq!(desk.refused(&format!("{line} --step-length {bad}")), ("E_RANGE".into(), "--step-length".into()));
    }
}

#[test]
fn refusals_name_the_flag_and_write_nothing() {
    let desk = Desk::new();
    star(&desk);
    let cases = [
        ("--horizon 3", "E_RANGE", "--horizon"),
        ("--step-length 1", "E_RANGE", "--step-length"),
        ("--chunks 2", "E_RANGE", "--chunks"),
        ("--model cm1 --chunks 2", "E_RANGE", "--chunks"),
        ("--model cm2", "E_MISSING", "--chunks"),
        ("--model cm2 --chunks 0", "BadParameter", "--chunks"),
        ("--model cm3", "BadParameter", "--horizon"),
        ("--model qt", "BadParameter", "--horizon"),
        ("--model qt --horizon 3 --step-length 1", "BadParameter", "--step-length"),
        ("--model cm3 --horizon 3 --step-length 0", "BadParameter", "--step-length"),
        ("--model cm3 --horizon 3 --strength tree", "BadParameter", "--strength"),
        ("--model cm1 --strength dup", "BadParameter", "--strength"),
        ("--model cm1 --method dw", "E_RANGE", "--method"),
        ("--model cm1 --steps 3", "E_RANGE", "--steps"),
        ("--model cm3 --horizon 4 --picture p.svg", "E_RANGE", "--picture"),
        ("--model cm3 --horizon 3 --step-length 5ms", "E_RANGE", "--step-length"),
        ("--model cm3 --horizon 1000000000", "TooLarge", ""),
    ];
    for (flags, code, key) in cases {
        assert_eq!(desk.refused(&format!("{PLAN} {flags} --out p.json")), (code.into(), key.into()), "{flags}");
    }
    let line = "plan fluid-lp --topology star.json --collective allreduce --model cm1 --out p.json";
    assert_eq!(desk.refused(line), ("BadParameter".into(), "--collective".into()));
    // Too few steps, and too short ones, are answers.
    for (flags, code, key) in [
        ("--horizon 1", "HorizonTooShort", "--horizon"),
        ("--horizon 2 --step-length 0.29", "Infeasible", "--step-length"),
    ] {
        for model in ["cm1", "cm3"] {
            let output = desk.run(&format!("{PLAN} --model {model} {flags} --out p.json --json"));
            assert_eq!(output.status.code(), Some(3), "{flags}");
            let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!((&shown["errors"][0]["code"], &shown["errors"][0]["key"]), (&json!(code), &json!(key)));
            assert!(!desk.path("p.json").exists());
        }
    }
}
