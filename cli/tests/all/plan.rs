//! `sluice plan` as scripts use it: files in, files out, one JSON document, exit statuses.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::desk::{Desk, piped, stderr, stdout};
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../../../formats/tests/vectors/forestcoll.json");

/// A fraction of the vectors or of a result.
pub fn fraction(value: &Value) -> f64 {
    let text = value.as_str().expect("a fraction as text");
    let (p, q) = text.split_once('/').unwrap_or((text, "1"));
    p.parse::<f64>().expect("a number") / q.parse::<f64>().expect("a number")
}

fn vectors() -> Vec<Value> {
    let all: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    all["vectors"].as_array().expect("a list").clone()
}

fn vector(desk: &Desk, id: &str) -> Value {
    let vector = vectors().into_iter().find(|vector| vector["id"] == id).unwrap_or_else(|| panic!("{id}"));
    desk.write("f.json", &vector["topology"].to_string());
    vector["expected"].clone()
}

#[test]
fn conformance_vectors_through_the_command_line() {
    let desk = Desk::new();
    let (mut good, mut bad) = (0, 0);
    for vector in vectors() {
        let (id, expected) = (&vector["id"], &vector["expected"]);
        desk.write("f.json", &vector["topology"].to_string());
        let line = "plan forestcoll --topology f.json --form forestcoll --collective allgather --out p.json";
        if let Some(code) = expected["error"].as_str() {
            drop(std::fs::remove_file(desk.path("p.json")));
            assert_eq!(desk.refused(line).0, code, "{id}");
            bad += 1;
            continue;
        }
        let result = desk.json(line);
        assert_eq!(result["inverse_x"], expected["inv_x_star"], "{id}");
        assert_eq!((&result["U"], &result["k"]), (&expected["U"], &expected["k"]), "{id}");
        assert_eq!(result["claim"]["algorithm_bandwidth"], expected["algbw"], "{id}");
        assert_eq!(result["claim"]["optimal"], true, "{id}");
        assert_eq!((&result["schema"], &result["planner"]), (&json!(1), &json!("forestcoll")), "{id}");
        let checked = desk.json("plan check p.json");
        assert_eq!((&checked["ok"], &checked["violation"]), (&json!(true), &Value::Null), "{id}");
        good += 1;
    }
    assert!(good >= 30 && bad == 7, "{good} plans and {bad} refusals");
}

#[test]
fn fixed_numbers_of_trees_of_the_vectors() {
    let desk = Desk::new();
    let mut seen = 0;
    for id in ["fig4.5-b1", "mi250-2box-16+16", "mi250-2box-8+8", "a100-2box", "dgx1-v100"] {
        let expected = vector(&desk, id);
        for (k, expected) in expected["fixed_k"].as_object().expect("by k") {
            let result = desk.json(&format!(
                "plan forestcoll --topology f.json --form forestcoll --collective allgather --fixed-k {k} --out p.json"
            ));
            assert_eq!((&result["U"], result["k"].to_string()), (&expected["U"], k.clone()), "{id} {k}");
            // What is claimed is what the loads say, which rounding may leave better than the theory's figure.
            let (claimed, least) = (fraction(&result["claim"]["algorithm_bandwidth"]), fraction(&expected["algbw"]));
            assert!(claimed >= least * (1.0 - 1e-12), "{id} {k}: {claimed} {least}");
            assert_eq!(desk.json("plan check p.json")["ok"], true, "{id} {k}");
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen} plans");
}

#[test]
fn all_reduce_of_the_vectors() {
    let desk = Desk::new();
    let line = "plan forestcoll --topology f.json --form forestcoll --collective all-reduce --out p.json";
    for id in ["star5-uneven", "line4", "uneven-boxes-2-4", "ring8-bidir", "mesh6", "hypercube3"] {
        let expected = vector(&desk, id)["allreduce_sum_x"].clone();
        // The best there is, whichever way; and by phases at least what both phases give one after the other.
        let auto = desk.json(line);
        assert_eq!(auto["claim"]["algorithm_bandwidth"], expected["value"], "{id}");
        assert_eq!(auto["claim"]["optimal"], true, "{id}");
        assert_eq!(desk.json("plan check p.json")["ok"], true, "{id}");
        let phases = desk.json(&format!("{line} --all-reduce phases"));
        assert!(fraction(&phases["claim"]["algorithm_bandwidth"]) >= fraction(&expected["rs_ag"]), "{id}");
        assert!(phases.get("sum_x").is_none());
        let program = desk.json(&format!("{line} --all-reduce program"));
        assert_eq!(program["sum_x"], expected["value"], "{id}");
        assert_eq!(desk.json("plan check p.json")["ok"], true, "{id}");
    }
}

#[test]
fn broadcast_from_one_gpu() {
    let desk = Desk::new();
    let expected = vector(&desk, "mi250-8+8-broadcast");
    let mut plain = vectors().into_iter().find(|vector| vector["id"] == "mi250-8+8-broadcast").expect("there");
    plain["topology"].as_object_mut().expect("object").remove("weights");
    desk.write("f.json", &plain["topology"].to_string());
    let line = "plan forestcoll --topology f.json --form forestcoll --collective";
    let result = desk.json(&format!("{line} broadcast --root b0g0 --size 1GB --unit GB/s"));
    assert_eq!((&result["inverse_x"], &result["k"]), (&expected["inv_x_star"], &expected["k"]));
    assert_eq!((&result["size"], &result["time_s"]), (&json!("1000000000"), &json!(1.0 / 128.0)));
    assert_eq!(desk.json(&format!("{line} reduce --root b0g0"))["inverse_x"], expected["inv_x_star"]);
    assert_eq!(desk.refused(&format!("{line} broadcast")), ("E_MISSING".into(), "--root".into()));
    assert_eq!(desk.refused(&format!("{line} broadcast --root b0g99")), ("UNKNOWN_NODE".into(), "--root".into()));
    assert_eq!(desk.refused(&format!("{line} allgather --root b0g0")), ("E_KEY".into(), "--root".into()));
}

#[test]
fn refusals_name_the_place() {
    let desk = Desk::new();
    let base = json!({
        "sluice_topology": 1,
        "nodes": [{"id": "a", "kind": "gpu"}, {"id": "b", "kind": "gpu"}, {"id": "s", "kind": "switch"}],
        "links": [
            {"from": "a", "to": "s", "capacity": "2GB/s", "duplex": true},
            {"from": "b", "to": "s", "capacity": "2GB/s", "duplex": true}
        ]
    });
    let line = "plan forestcoll --topology t.json --collective allgather --out p.json";
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut file = base.clone();
        edit(&mut file);
        desk.write("t.json", &file.to_string());
    };
    let case = |edit: &dyn Fn(&mut Value), code: &str, key: &str| {
        with(edit);
        assert_eq!(desk.refused(line), (code.into(), key.into()));
    };
    case(&|t| t["links"][1]["capacity"] = json!("25Gbps"), "E_RANGE", "/links/1/capacity");
    case(&|t| t["links"][1]["to"] = json!("z"), "UNKNOWN_NODE", "/links/1/to");
    case(&|t| t["nodes"][1]["id"] = json!("a"), "DUPLICATE_NODE", "/nodes/1/id");
    case(&|t| t["nodes"][1]["colour"] = json!("red"), "E_KEY", "/nodes/1/colour");
    case(&|t| t["links"][0]["capacity"] = json!("0GB/s"), "NON_POSITIVE_BANDWIDTH", "/links/0/capacity");
    case(&|t| t["links"][0]["capacity"] = json!("unlimited"), "NON_POSITIVE_BANDWIDTH", "/links/0/capacity");
    case(&|t| t["links"][0]["duplex"] = json!(false), "NOT_EULERIAN", "/nodes/0");
    case(&|t| drop(t["links"].as_array_mut().expect("links").pop()), "NOT_CONNECTED", "/nodes/0");
    case(&|t| t["nodes"][1]["kind"] = json!("switch"), "TOO_FEW_COMPUTE", "/nodes");
    case(&|t| t["nodes"][1]["buffer"] = json!("1MiB"), "UNSUPPORTED_FIELD", "/nodes/1/buffer");
    let groups = |t: &mut Value| t["groups"] = json!([{"capacity": "1GB/s", "links": [["a", "s"]]}]);
    case(&groups, "UNSUPPORTED_FIELD", "/groups");
    with(&groups);
    assert_eq!(desk.run(&format!("{line} --ignore groups")).status.code(), Some(0));
    let plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
    assert_eq!(plan["ignored"], json!(["groups"]));
    let checked = desk.run("plan check p.json");
    assert!(stdout(&checked).contains("not rechecked  checked without `groups`"), "{}", stdout(&checked));
    with(&|_| {});
    assert_eq!(desk.refused(&format!("{line} --fixed-k 0")), ("BAD_K".into(), "--fixed-k".into()));
    assert_eq!(desk.refused(&format!("{line} --participants a,c")), ("UNKNOWN_NODE".into(), "--participants".into()));
    assert_eq!(desk.refused(&format!("{line} --size 1KB")), ("E_RANGE".into(), "--size".into()));
    assert_eq!(desk.refused(&format!("{line} --unit GB/s")), ("E_KEY".into(), "--unit".into()));
    assert_eq!(desk.refused("plan forestcoll --topology none.json --collective allgather").0, "E_PARSE");
    let words = desk.run("plan forestcoll --topology t.json --collective scatter --root a");
    assert_eq!(words.status.code(), Some(2));
    let output = desk.run("plan forestcoll --topology t.json --collective allgahter");
    assert!(output.status.code() == Some(2) && stderr(&output).contains("did you mean `allgather`"));
    assert!(desk.run("topology gen dgx-a100 --boxes 2 --out big.json").status.success());
    let few = "plan forestcoll --topology big.json --collective allgather --most-k 12";
    assert_eq!(desk.refused(few), ("K_TOO_LARGE".into(), "--most-k".into()));
}

#[test]
fn nothing_is_written_where_it_cannot_be_written_whole() {
    let desk = Desk::new();
    assert!(desk.run("topology gen ring 4 --out t.json").status.success());
    let line = "plan forestcoll --topology t.json --collective allgather --out";
    let output = desk.run(&format!("{line} nowhere/p.json"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("nowhere/p.json cannot be written") && output.stdout.is_empty());
    desk.write("old.json", "precious");
    assert_eq!(
        desk.refused("plan forestcoll --topology t.json --collective allgather --fixed-k 0 --out old.json").0,
        "BAD_K"
    );
    assert_eq!(desk.read("old.json"), "precious");
    assert!(desk.run(&format!("{line} old.json")).status.success());
    assert!(desk.read("old.json").contains("sluice_plan"));
    assert_eq!(desk.files(), ["old.json", "t.json"]);
}

/// Interrupts a command that takes long while it works; what it gave until its end.
pub fn interrupted(desk: &Desk, line: &str) -> std::process::Output {
    let mut child = piped(desk.command(line)).spawn().expect("the program runs");
    let pid = child.id().to_string();
    // A machine under load may take its time to begin: bit 1 of the caught signals is SIGINT.
    let catches = || -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
    };
    let started = Instant::now();
    while !catches() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("a child").is_none(), "it ended before it could be interrupted");
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let asked = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    output
}

#[test]
fn interrupted_means_130_and_no_file() {
    let desk = Desk::new();
    assert!(desk.run("topology gen dgx-a100 --boxes 2 --out t.json").status.success());
    // The program of 16 GPUs behind switches takes minutes.
    let line = "plan forestcoll --topology t.json --collective allreduce --all-reduce program --threads 1 --out p.json";
    let output = interrupted(&desk, line);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing was written") && output.stdout.is_empty());
    assert_eq!(desk.files(), ["t.json"]);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let desk = Desk::new();
    assert!(desk.run("topology gen mi250 --boxes 2 --gpus 8 --out t.json").status.success());
    let line = "plan forestcoll --topology t.json --collective reduce-scatter";
    assert!(desk.run(&format!("{line} --threads 1 --out a.json")).status.success());
    assert!(desk.run(&format!("{line} --threads 2 --size 1MB --json --out b.json")).status.success());
    let streamed = desk.run(&format!("{line} --out -"));
    assert_eq!(desk.read("a.json"), desk.read("b.json"));
    assert_eq!(stdout(&streamed), desk.read("a.json"));
    assert!(desk.run(&format!("{line} --timing --out c.json")).status.success());
    let plan: Value = serde_json::from_str(&desk.read("c.json")).expect("JSON");
    assert!(plan["made_by"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    let command = plan["made_by"]["command"].as_str().expect("a command");
    assert_eq!(command, "sluice plan forestcoll --topology t.json --collective reduce_scatter");
    assert!(desk.json("plan check c.json")["ok"] == true);
}

#[test]
fn the_checker_refuses_damage_with_its_place_and_status_3() {
    let desk = Desk::new();
    assert!(desk.run("topology gen dgx-a100 --boxes 2 --out t.json").status.success());
    assert!(desk.run("plan forestcoll --topology t.json --collective allgather --out p.json").status.success());
    assert!(desk.run("plan check p.json --topology t.json").status.success());
    let good: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
    let damaged = |edit: &dyn Fn(&mut Value)| -> (String, String) {
        let mut plan = good.clone();
        edit(&mut plan);
        desk.write("d.json", &plan.to_string());
        let text = desk.run("plan check d.json");
        assert_eq!(text.status.code(), Some(3), "{}{}", stdout(&text), stderr(&text));
        let output = desk.run("plan check d.json --json");
        assert_eq!(output.status.code(), Some(3));
        let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert_eq!(value["ok"], false);
        let word = |key: &str| value["violation"][key].as_str().expect("text").to_owned();
        assert!(stderr(&text).contains(&word("code")) && stderr(&text).contains(&word("at")), "{}", stderr(&text));
        (word("code"), word("at"))
    };
    let tree = |plan: &Value| plan["content"]["forests"][0]["trees"][0].clone();
    let (code, at) = damaged(&|plan| plan["content"]["forests"][0]["trees"][0]["weight"] = json!(99));
    assert_eq!((code.as_str(), at.as_str()), ("WRONG_SHARE", "/content/forests/0/trees"));
    assert_eq!(
        damaged(&|plan| {
            plan["content"]["forests"][0]["trees"][0]["edges"].as_array_mut().expect("edges").pop();
        })
        .0,
        "NOT_SPANNING"
    );
    let first = damaged(&|plan| {
        let mut edge = tree(plan)["edges"][0].clone();
        edge["path"] = json!([edge["src"], edge["dst"]]);
        plan["content"]["forests"][0]["trees"][0]["edges"][0] = edge;
    });
    assert!(first.0 == "NO_LINK" && first.1.starts_with("/content/forests/0/trees/0/edges/0"), "{first:?}");
    assert_eq!(damaged(&|plan| plan["claim"]["algorithm_bandwidth"] = json!("1041/3")).0, "WRONG_BANDWIDTH");
    assert_eq!(damaged(&|plan| plan["claim"]["lower_bound"] = json!("1/1 s/B")).0, "WRONG_BOUND");
    assert_eq!(damaged(&|plan| plan["topology"]["sha256"] = json!("0".repeat(64))).0, "DIGEST_MISMATCH");
    let quiet = desk.run("plan check d.json -q");
    assert_eq!((quiet.status.code(), quiet.stdout.len(), quiet.stderr.len()), (Some(3), 0, 0));
    assert!(desk.run("topology gen ring 16 --out other.json").status.success());
    assert_eq!(desk.run("plan check p.json --topology other.json").status.code(), Some(3));
    desk.write("d.json", "{");
    assert_eq!(desk.refused("plan check d.json").0, "E_PARSE");
    desk.write("d.json", "{\"sluice_plan\": 2}");
    assert_eq!(desk.refused("plan check d.json").0, "E_VERSION");
}

#[test]
fn in_network_copying_and_a_part_of_the_gpus() {
    let desk = Desk::new();
    assert!(desk.run("topology gen dgx-a100 --boxes 2 --out t.json").status.success());
    let mut topology: Value = serde_json::from_str(&desk.read("t.json")).expect("JSON");
    for node in topology["nodes"].as_array_mut().expect("nodes") {
        if node["kind"] == "switch" {
            node["can"] = json!({"multicast": true, "aggregate": true});
        }
    }
    desk.write("t.json", &topology.to_string());
    let line = "plan forestcoll --topology t.json --out p.json --collective";
    let hops = |desk: &Desk| desk.read("p.json").contains("\"hops\"");
    let plain = desk.json(&format!("{line} allgather"));
    assert!(!hops(&desk));
    let pruned = desk.json(&format!("{line} allgather --in-network"));
    assert!(hops(&desk));
    assert_eq!(plain["inverse_x"], pruned["inverse_x"], "copying in switches does not change the best rate");
    assert_eq!(desk.json("plan check p.json")["ok"], true);
    let some = desk.json(&format!("{line} allreduce --participants b1.g0,b0.g0,b0.g1"));
    assert_eq!(desk.json("plan check p.json")["ok"], true);
    assert!(some["k"].as_u64().is_some());
    let plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
    assert_eq!(plan["participants"], json!(["b1.g0", "b0.g0", "b0.g1"]));
}

#[test]
fn every_help_has_an_example_that_parses() {
    let desk = Desk::new();
    for command in [
        "plan forestcoll",
        "plan bfb",
        "plan check",
        "topology gen",
        "topology show",
        "topology import",
        "plan",
        "topology",
    ] {
        let help = stdout(&desk.run(&format!("{command} --help")));
        assert!(help.contains(&format!("sluice {command}")), "{command}: {help}");
    }
    let families = [
        "dgx-a100",
        "dgx-h100",
        "mi250",
        "leaf-spine",
        "fat-tree",
        "rail-optimised",
        "ring",
        "torus",
        "hypercube",
        "complete",
        "star",
    ];
    for family in families {
        let help = stdout(&desk.run(&format!("topology gen {family} --help")));
        let example = help.lines().find_map(|line| line.trim().strip_prefix("Example: sluice "));
        let example = example.unwrap_or_else(|| panic!("{family}: {help}"));
        let output = desk.run(example);
        assert!(output.status.success(), "{example}: {}", stderr(&output));
    }
}

#[test]
fn the_best_of_several_numbers_of_trees() {
    let desk = Desk::new();
    desk.json("topology gen mi250 --boxes 2 --gpus 8 --out t.json");
    let line = "plan forestcoll --topology t.json --collective all-gather";
    let best = desk.json(&format!("{line} --best-k 1..4 --out best.json"));
    let of = best["best_of"].as_array().expect("a table");
    assert_eq!(of.iter().map(|of| of["k"].as_i64()).collect::<Vec<_>>(), [1, 2, 3, 4].map(Some));
    let each: Vec<f64> = of.iter().map(|of| of["algbw"].as_f64().expect("a bandwidth")).collect();
    for (of, k) in of.iter().zip(1..) {
        let alone = desk.json(&format!("{line} --fixed-k {k} --out {k}.json"));
        assert_eq!(alone["algbw"], of["algbw"], "{k}");
        assert!(alone.get("best_of").is_none());
    }
    let largest = each.iter().copied().fold(0.0, f64::max);
    let first = each.iter().position(|own| *own == largest).expect("the largest") + 1;
    assert_eq!((best["algbw"].as_f64(), best["k"].as_u64()), (Some(largest), Some(first as u64)));
    assert_eq!(desk.read("best.json"), desk.read(&format!("{first}.json")), "the plan of that number, to the byte");
    let text = stdout(&desk.run(&format!("{line} --best-k 1..2")));
    assert!(text.contains("best of k    1: ") && text.contains(", 2: "), "{text}");
    for wrong in ["0..3", "3..2", "5", "1..1001"] {
        assert_eq!(desk.run(&format!("{line} --best-k {wrong}")).status.code(), Some(2), "{wrong}");
    }
    let refused =
        desk.refused("plan forestcoll --topology t.json --collective all-reduce --all-reduce program --best-k 1..2");
    assert_eq!(refused, ("E_KEY".into(), "--best-k".into()));
    // A fabric that no number of trees serves is refused as one number is.
    desk.json("topology gen ring 4 --one-way --out r.json");
    let mut file: Value = serde_json::from_str(&desk.read("r.json")).expect("JSON");
    file["links"].as_array_mut().expect("links").pop();
    desk.write("r.json", &file.to_string());
    let refused = desk.refused("plan forestcoll --topology r.json --collective all-gather --best-k 1..3");
    assert_eq!(refused.0, "NOT_EULERIAN");
}

#[test]
fn time_that_ran_out_leaves_the_best_until_then_or_a_no() {
    let desk = Desk::new();
    desk.json("topology gen mi250 --boxes 2 --gpus 8 --out t.json");
    let line = "plan forestcoll --topology t.json --collective all-gather --time-limit 1";
    let output = desk.run(&format!("{line} --best-k 1..1000 --out p.json --json"));
    assert_eq!(output.status.code(), Some(5), "{}{}", stdout(&output), stderr(&output));
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(shown["best_of"].as_array().is_some_and(|of| (1..1000).contains(&of.len())), "{shown}");
    assert_eq!(desk.json("plan check p.json")["ok"], true);
}

#[test]
fn a_collective_that_is_none_is_answered_with_those_there_are() {
    let desk = Desk::new();
    let output = desk.run("plan forestcoll --topology t.json --collective all-gathr");
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("did you mean `allgather`?"), "{text}");
    for word in ["allgather", "allreduce", "alltoall", "broadcast", "custom", "gather", "reduce_scatter", "scatter"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
