//! `sluice plan wan` and `sluice sim wan`: every method on a small instance, forms, sweeps, pictures, and what is refused.

use serde_json::{Value, json};

use crate::desk::{Desk, stderr, stdout};

/// A ring of three sites, one chain of four flows round it, one of two: every flow 9 MB, every link 9 MB/s.
fn fig2() -> Value {
    let links = [(0, 1), (1, 2), (2, 0)];
    let link = |(id, (src, dst)): (usize, &(u64, u64))| json!({"id": id, "src": src, "dst": dst, "cap": 9.0});
    let flows = [(0, 0, 0), (0, 1, 1), (0, 2, 2), (0, 3, 0), (1, 0, 2), (1, 1, 0)];
    let flow = |(id, (collective, order, link)): (usize, &(u64, u64, usize))| {
        let (src, dst) = links[*link];
        json!({"id": id, "collective": collective, "group": 0, "order": order, "src": src, "dst": dst, "size": 9.0, "path": [link]})
    };
    json!({
        "name": "fig2",
        "nodes": 3,
        "links": links.iter().enumerate().map(link).collect::<Vec<_>>(),
        "flows": flows.iter().enumerate().map(flow).collect::<Vec<_>>(),
    })
}

/// Two hosts behind a switch, and a chain of two flows between them.
fn network() -> (Value, Value) {
    let topology = json!({
        "sluice_topology": 1, "name": "pair",
        "nodes": [{"id": "a", "kind": "site"}, {"id": "s", "kind": "switch"}, {"id": "b", "kind": "site"}],
        "links": [
            {"from": "a", "to": "s", "capacity": "10MB/s", "duplex": true},
            {"from": "s", "to": "b", "capacity": "5MB/s", "duplex": true},
        ],
    });
    let flow = |id: u64, src: &str, dst: &str, path: [u64; 2]| json!({"id": id, "collective": 0, "group": 0, "order": id, "src": src, "dst": dst, "size": "5MB", "path": path});
    let flows = json!({"sluice_flows": 1, "flows": [flow(0, "a", "b", [0, 2]), flow(1, "b", "a", [3, 1])]});
    (topology, flows)
}

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("fig2.json", &fig2().to_string());
    let (topology, flows) = network();
    desk.write("pair.json", &topology.to_string());
    desk.write("flows.json", &flows.to_string());
    desk
}

const FIG2: &str = "plan wan --topology fig2.json --form wan";
const PAIR: &str = "plan wan --topology pair.json --flows flows.json";

/// Every method with its mean time on `fig2`, and whether it is proved that none of its plans is better.
const METHODS: [(&str, f64, bool); 22] = [
    ("out_of_order", 7.0, false),
    ("equal_alloc", 5.5, false),
    ("data_aware", 5.75, false),
    ("barrier_aware", 9.0, false),
    ("barrier_stage", 6.0, false),
    ("barrier_step", 6.0, false),
    ("rate_alloc", 5.414_213_562, true),
    ("weight_sca", 5.5, false),
    ("weight_gp", 5.449_489_743, true),
    ("multiring_spt", 5.828_427_125, false),
    ("multiring_ldv", 5.828_427_125, false),
    ("multiring_milp", 5.828_427_125, true),
    ("nonconcurrent_spt", 3.0, true),
    ("nonconcurrent_ldv", 3.0, true),
    ("nonconcurrent_milp", 3.0, true),
    ("equal_wc", 3.0, true),
    ("rate_wc", 3.0, true),
    ("weight_wc", 3.0, true),
    ("prio", 3.0, true),
    ("perm", 3.0, true),
    ("chain_order", 3.0, true),
    ("portfolio", 3.0, true),
];

#[track_caller]
fn near(found: &Value, expected: f64, what: &str) {
    let found = found.as_f64().expect("a number");
    assert!((found - expected).abs() <= 1e-5 * expected, "{what}: {found}, expected {expected}");
}

#[test]
fn every_method_makes_a_plan_that_the_checker_accepts() {
    let desk = desk();
    for (method, mean, proved) in METHODS {
        let line = format!("{FIG2} --method {method} --out p.json");
        let found = desk.json(&line);
        near(&found["T_mean_s"], mean, method);
        near(&found["lower_bound"], 3.0, method);
        assert_eq!((&found["method"], &found["planner"]), (&json!(method), &json!("wan")), "{found}");
        assert_eq!(found["proved_optimal"], json!(proved), "{method}: {found}");
        let times = found["T"].as_array().expect("times");
        let sum: f64 = times.iter().filter_map(Value::as_f64).sum();
        near(&found["T_mean_s"], sum / 2.0, method);
        assert!(times.len() == 2 && found["seconds"].is_f64() && found["objective"].is_f64(), "{method}: {found}");
        assert_eq!(found["claim"]["certificate"]["kind"], "completion", "{method}: {found}");
        assert_eq!(found["claim"]["optimal"], json!(mean == 3.0), "{method}: {found}");
        let checked = desk.run("plan check p.json");
        assert_eq!(checked.status.code(), Some(0), "{method}: {}{}", stdout(&checked), stderr(&checked));
        // The command in the plan makes the same plan.
        let plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
        let command = plan["made_by"]["command"].as_str().expect("a command");
        let again = command.strip_prefix("sluice ").expect("ours");
        assert_eq!(desk.run(&format!("{again} --out q.json")).status.code(), Some(0), "{again}");
        assert_eq!(desk.read("p.json"), desk.read("q.json"), "{method}");
    }
}

#[test]
fn plans_are_of_the_kind_that_their_method_is() {
    let desk = desk();
    let rows = [
        ("rate_alloc", "rates", "static"),
        ("rate_alloc --execution work_conserving", "rates", "work_conserving"),
        ("rate_wc", "rates", "work_conserving"),
        ("barrier_aware", "rates", "static"),
        ("barrier_stage", "order", "order_preserving"),
        ("weight_gp", "weights", "static"),
        ("weight_sca --sca simplex", "weights", "static"),
        ("weight_wc", "weights", "work_conserving"),
        ("equal_wc", "weights", "max_min"),
        ("nonconcurrent_ldv", "order", "order_preserving"),
        ("multiring_ldv --per-link-budget", "order", "order_preserving"),
        ("perm", "order", "priority"),
        ("chain_order", "order", "priority"),
        ("prio", "order", "priority_recomputed"),
    ];
    for (method, kind, execution) in rows {
        desk.json(&format!("{FIG2} --method {method} --out p.json"));
        let plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
        let content = &plan["content"];
        assert_eq!((&content["kind"], &content["execution"]), (&json!(kind), &json!(execution)), "{method}");
        assert_eq!(desk.run("plan check p.json").status.code(), Some(0), "{method}");
    }
    let filled = desk.json(&format!("{FIG2} --method rate_alloc --execution work_conserving"));
    let named = desk.json(&format!("{FIG2} --method rate_wc"));
    assert_eq!(filled["T"], named["T"]);
}

#[test]
fn an_instance_and_what_it_is_imported_as_make_the_same_plan() {
    let desk = desk();
    let imported = desk.run("topology import wan fig2.json --out net.json --flows-out net-flows.json");
    assert_eq!(imported.status.code(), Some(0), "{}", stderr(&imported));
    assert_eq!(stdout(&imported), "wrote net.json: 3 nodes, 3 directed links\n");
    let whole = desk.json(&format!("{FIG2} --method rate_alloc --out p.json"));
    let parts = desk.json("plan wan --topology net.json --flows net-flows.json --method rate_alloc --out q.json");
    assert_eq!(whole["T"], parts["T"]);
    let content = |name: &str| serde_json::from_str::<Value>(&desk.read(name)).expect("JSON")["content"].clone();
    assert_eq!(content("p.json"), content("q.json"));
    // Without a place for the flows they are left out, and that is said.
    let alone = desk.run("topology import wan fig2.json --out net.json");
    assert!(stderr(&alone).contains("--flows-out"), "{}", stderr(&alone));
    let refused = desk.refused("topology import edges fig2.json --flows-out f.json");
    assert_eq!(refused, ("E_KEY".into(), "--flows-out".into()));
    assert_eq!(desk.run("topology show fig2.json --form wan").status.code(), Some(0));
}

#[test]
fn numbers_of_an_instance_stay_as_they_were_written() {
    let desk = desk();
    let text = fig2().to_string().replacen("\"size\":9.0", "\"size\":2.66732153496085461234567890123", 1);
    desk.write("long.json", &text);
    desk.run("topology import wan long.json --out net.json --flows-out f.json");
    assert!(desk.read("f.json").contains("\"2.66732153496085461234567890123MB\""), "{}", desk.read("f.json"));
}

#[test]
fn flows_through_a_switch_and_what_is_ignored() {
    let desk = desk();
    let found = desk.json(&format!("{PAIR} --method equal_alloc"));
    assert_eq!((&found["T"], &found["collective"]), (&json!([2.0]), &json!("custom")));
    let (mut topology, _) = network();
    topology["groups"] = json!([{"name": "g", "links": [["a", "s"]], "capacity": "1MB/s"}]);
    topology["nodes"][0]["buffer"] = json!("1MB");
    desk.write("pair.json", &topology.to_string());
    assert_eq!(desk.refused(PAIR), ("UNSUPPORTED_FIELD".into(), "/nodes/0/buffer".into()));
    let found = desk.json(&format!("{PAIR} --ignore groups,buffer --out p.json"));
    assert_eq!(found["T"], json!([2.0]));
    let plan: Value = serde_json::from_str(&desk.read("p.json")).expect("JSON");
    assert_eq!(plan["ignored"], json!(["buffer", "groups"]));
    assert_eq!(desk.run("plan check p.json").status.code(), Some(0));
}

#[test]
fn a_ring_is_an_all_reduce_and_dependencies_beyond_chains_are_kept() {
    let desk = desk();
    let hop = |id: u64, group: u64, order: u64| {
        let (src, dst, path) = if (group + order).is_multiple_of(2) { ("a", "b", [0, 2]) } else { ("b", "a", [3, 1]) };
        json!({"id": id, "collective": 0, "group": group, "order": order, "src": src, "dst": dst, "size": "5MB", "path": path})
    };
    let ring = json!([hop(0, 0, 0), hop(1, 0, 1), hop(2, 1, 0), hop(3, 1, 1)]);
    desk.write("flows.json", &json!({"sluice_flows": 1, "flows": ring}).to_string());
    assert_eq!(desk.json(PAIR)["collective"], "allreduce");
    let deps = json!([[0, 1], [2, 3], [2, 1], [0, 3]]);
    desk.write("flows.json", &json!({"sluice_flows": 1, "flows": ring, "deps": deps}).to_string());
    for method in ["prio", "equal_wc", "nonconcurrent_spt", "out_of_order", "portfolio"] {
        desk.json(&format!("{PAIR} --method {method} --out p.json"));
        assert_eq!(desk.run("plan check p.json").status.code(), Some(0), "{method}");
        assert!(desk.read("p.json").contains("\"pred\""), "{method}");
    }
    assert_eq!(desk.refused(&format!("{PAIR} --method equal_alloc")), ("NotAChain".into(), "/flows".into()));
}

#[test]
fn people_read_what_every_method_came_to() {
    let desk = desk();
    let text = stdout(&desk.run(&format!("{FIG2} --out p.json")));
    for line in [
        "custom on fig2: 6 flows in 2 chains of 2 collectives",
        "  mean time    3.000 s, the least there can be",
        "  times        4.000 s, 2.000 s",
        "  wrote        p.json",
        "METHOD                  MEAN TIME  AGAINST THE BEST",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("taken").count(), 1, "{text}");
    let text = stdout(&desk.run(&format!("{FIG2} --method rate_alloc")));
    let line = "  mean time    5.414 s, the least of this method; no plan is below 3.000 s";
    assert!(text.lines().any(|found| found == line), "{text}");
}

/// Applies a change to the topology or to the flows, and gives code and key of what is refused then.
fn refused(change: impl Fn(&mut Value, &mut Value)) -> (String, String) {
    let desk = Desk::new();
    let (mut topology, mut flows) = network();
    change(&mut topology, &mut flows);
    desk.write("pair.json", &topology.to_string());
    desk.write("flows.json", &flows.to_string());
    desk.refused(&format!("{PAIR} --method equal_alloc"))
}

/// What is changed, and code and key of the refusal.
type Row = (&'static str, fn(&mut Value, &mut Value), &'static str, &'static str);

#[test]
fn bad_input_is_refused_by_name_and_place() {
    let rows: [Row; 20] = [
        ("no flows", |_, flows| flows["flows"] = json!([]), "Empty", "/flows"),
        ("a collective without flows", |_, flows| flows["flows"][1]["collective"] = json!(2), "Empty", "/flows"),
        ("no bytes", |_, flows| flows["flows"][1]["size"] = json!("0MB"), "BadSize", "/flows/1/size"),
        ("early", |_, flows| flows["flows"][1]["release_s"] = json!(-1), "BadSize", "/flows/1/release_s"),
        ("no limit", |net, _| net["links"][1]["capacity"] = json!("unlimited"), "BadCapacity", "/links/1/capacity"),
        ("no such node", |_, flows| flows["flows"][1]["src"] = json!("c"), "BadRoute", "/flows/1/src"),
        ("no such link", |_, flows| flows["flows"][1]["path"] = json!([9]), "BadRoute", "/flows/1/path"),
        ("no links", |_, flows| flows["flows"][1]["path"] = json!([]), "BadRoute", "/flows/1/path"),
        ("elsewhere", |_, flows| flows["flows"][1]["path"] = json!([0, 2]), "BadRoute", "/flows/1/path"),
        ("to itself", |_, flows| flows["flows"][1]["src"] = json!("a"), "SelfFlow", "/flows/1"),
        ("an id twice", |_, flows| flows["flows"][1]["id"] = json!(0), "DuplicateId", "/flows/1/id"),
        ("a gap in ids", |_, flows| flows["flows"][1]["id"] = json!(7), "GapInIds", "/flows/1/id"),
        ("a gap in groups", |_, flows| flows["flows"][1]["group"] = json!(7), "GapInIds", "/flows"),
        ("a gap in orders", |_, flows| flows["flows"][1]["order"] = json!(2), "NotAChain", "/flows"),
        ("no such dependency", |_, flows| flows["deps"] = json!([[0, 9]]), "GapInIds", "/deps"),
        ("a circle", |_, flows| flows["deps"] = json!([[0, 1], [1, 0]]), "Cycle", "/flows/0"),
        ("far apart", |_, flows| flows["flows"][1]["size"] = json!("6000TB"), "Range", "/flows"),
        (
            "no units",
            |net, _| (0..2).for_each(|i| net["links"][i]["capacity"] = json!("1")),
            "UNSUPPORTED_FIELD",
            "/links",
        ),
        ("a weight", |net, _| net["nodes"][0]["weight"] = json!(2), "UNSUPPORTED_FIELD", "/nodes/0/weight"),
        ("to a switch", |_, flows| flows["flows"][0]["dst"] = json!("s"), "UNSUPPORTED_FIELD", "/flows/0/dst"),
    ];
    for (what, change, code, key) in rows {
        assert_eq!(refused(change), (code.into(), key.into()), "{what}");
    }
    let looped = |net: &mut Value, _: &mut Value| {
        let links = net["links"].as_array_mut().expect("a list");
        links.push(json!({"from": "a", "to": "a", "capacity": "1MB/s"}));
    };
    assert_eq!(refused(looped), ("UNSUPPORTED_FIELD".into(), "/links/2".into()));
    let decided = |_: &mut Value, flows: &mut Value| flows["flows"][0]["rate"] = json!("1MB/s");
    assert_eq!(refused(decided), ("E_KEY".into(), "/flows/0/rate".into()));
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let desk = desk();
    let rows = [
        ("plan wan --flows flows.json", "E_MISSING", "--topology"),
        ("plan wan --topology pair.json", "E_MISSING", "--flows"),
        (&format!("{FIG2} --flows flows.json"), "E_KEY", "--flows"),
        (&format!("{FIG2} --method prio --execution static"), "E_KEY", "--execution"),
        (&format!("{FIG2} --method prio --sca simplex"), "E_KEY", "--sca"),
        (&format!("{FIG2} --method prio --per-link-budget"), "E_KEY", "--per-link-budget"),
        ("plan wan --sweep K=1 --participants 1", "BadParticipants", "--participants"),
        ("plan wan --sweep K=1 --participants 11", "BadParticipants", "--participants"),
        ("plan wan --sweep K=100000", "TooLarge", "--sweep"),
        ("plan wan --sweep K=1 --topology ring1", "E_RANGE", "--topology"),
        ("sim wan --topology fig2.json --form wan --timeline x.png", "E_RANGE", "--timeline"),
        ("sim wan --topology pair.json", "E_MISSING", "--flows"),
    ];
    for (line, code, key) in rows {
        assert_eq!(desk.refused(line), (code.into(), key.into()), "{line}");
    }
    desk.write("big.json", &" ".repeat(64_000_001));
    assert_eq!(desk.refused("plan wan --topology big.json --form wan"), ("TooLarge".into(), String::new()));
    desk.write("bad.graphml", "<graphml><graph></graph></graphml>");
    assert_eq!(desk.refused("plan wan --sweep K=1 --topology bad.graphml --form graphml").0, "BadTopology");
    for line in ["--sweep 3", "--sweep K=8..2", "--sweep K=2 --method prio", "--seeds 1..3", "--sweep K=2 --scale 0"] {
        assert_eq!(desk.run(&format!("plan wan {line}")).status.code(), Some(2), "{line}");
    }
}

#[test]
fn time_that_runs_out_leaves_the_best_plan_until_then() {
    let desk = Desk::new();
    desk.json("plan wan --sweep K=5 --seeds 1 --topology ring8 --methods prio --instances .");
    let line = "plan wan --topology ring8-K5-n4-s1.json --form wan";
    for rest in ["--method nonconcurrent_milp --time-limit 100ms", "--time-limit 1ms"] {
        let limited = desk.run(&format!("{line} {rest} --out p.json --json"));
        assert_eq!(limited.status.code(), Some(5), "{rest}: {}{}", stdout(&limited), stderr(&limited));
        let found: Value = serde_json::from_slice(&limited.stdout).expect("one JSON document");
        assert_eq!((&found["status"], &found["proved_optimal"]), (&json!("time_limit"), &json!(false)), "{rest}");
        assert_eq!(desk.run("plan check p.json").status.code(), Some(0), "{rest}");
    }
}

#[test]
fn sweeps_are_tables_documents_and_pages() {
    let desk = desk();
    let line = "plan wan --sweep K=1..2 --seeds 1..3 --participants 3 --methods equal_alloc,rate_alloc,prio";
    let found = desk.json(&format!("{line} --report s.html --instances made"));
    let means = found["means"].as_array().expect("a list");
    assert_eq!(means.len(), 2 * 4, "{found}");
    let mean = |count: u64, method: &str| {
        let row = means.iter().find(|row| row["K"] == count && row["method"] == method).expect("a row");
        row["mean_s"].as_f64().expect("a number")
    };
    for count in [1, 2] {
        let order = ["lower_bound", "prio", "rate_alloc", "equal_alloc"].map(|method| mean(count, method));
        assert!(order.is_sorted(), "{order:?}");
    }
    assert_eq!(found["instances"].as_array().map(Vec::len), Some(6));
    let page = desk.read("s.html");
    for part in ["<svg", "prefers-color-scheme:dark", "rate_alloc", "lower bound", "± ", "id=\"data\""] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=") && !page.contains("href="), "it loads nothing");
    // An instance of the sweep, planned by itself, comes to the same.
    let one = desk.json("plan wan --topology made/ring10-K2-n3-s1.json --form wan --method prio");
    let same = found["instances"].as_array().expect("a list").iter().find(|cell| cell["K"] == 2 && cell["seed"] == 1);
    assert_eq!(one["T_mean_s"], same.expect("there")["T_mean_s"]["prio"]);
    let threads = desk.json(&format!("{line} --threads 1"));
    assert_eq!(threads["instances"], found["instances"]);
    let text = stdout(&desk.run(line));
    assert!(text.starts_with("K ring all-reduces of 3 participants on ring10, seeds 1 to 3"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("MEAN TIME IN S") && line.contains("K = 2")), "{text}");
    assert!(desk.files().contains(&"made".into()));
}

#[test]
fn the_simulator_plays_the_same_instances_and_draws_them() {
    let desk = desk();
    let found = desk.json("sim wan --topology fig2.json --form wan");
    let rows = found["methods"].as_array().expect("a list");
    for row in rows {
        let (_, mean, _) = METHODS.iter().find(|(method, ..)| row["method"] == *method).expect("a method");
        near(&row["T_mean_s"], *mean, &row.to_string());
        assert!(row["events"].as_u64() > Some(0) && row["events_per_s"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(rows.len(), 19, "all but the portfolio and the programs");
    for (file, begin) in [("t.svg", "<svg"), ("t.html", "<!doctype html>")] {
        let drawn = desk.run(&format!("sim wan --topology fig2.json --form wan --methods equal_wc --timeline {file}"));
        assert_eq!(drawn.status.code(), Some(0), "{}", stderr(&drawn));
        let picture = desk.read(file);
        assert!(picture.starts_with(begin) && picture.matches("<rect class=").count() > 6, "{picture}");
        assert!(picture.contains("flow 0, 0 → 1: "), "{picture}");
    }
    let text = stdout(&desk.run("sim wan --topology fig2.json --form wan --methods prio"));
    assert!(text.contains("fig2, 6 flows, in virtual time") && text.contains("EVENTS/S"), "{text}");
}
