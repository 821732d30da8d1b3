//! `sluice topology` as scripts use it: made, imported, shown, drawn, and planned from either form.

use std::io::Write;
use std::process::Stdio;

use crate::desk::{Desk, piped, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn every_family_is_made_shown_and_drawn() {
    let desk = Desk::new();
    let families = [
        ("dgx-a100 --boxes 2 --wiring two-rails", 36),
        ("dgx-a100-rail --nodes 2 --variant pcie", 40),
        ("dgx-h100 --boxes 2", 19),
        ("mi250 --boxes 2 --gpus 8", 17),
        ("leaf-spine --leaves 2 --spines 2 --hosts 4 --oversubscription 3/2", 12),
        ("fat-tree 4", 36),
        ("rail-optimised --boxes 2 --gpus 4 --spines 1", 15),
        ("ring 5 --one-way", 5),
        ("torus 2x3x4 --link 50GB/s", 24),
        ("hypercube 3", 8),
        ("complete 4 --link 7/2", 4),
        ("star 1,2,3/2", 4),
    ];
    for (family, nodes) in families {
        let made = desk.json(&format!("topology gen {family} --out t.json"));
        assert_eq!(made["nodes"], nodes, "{family}");
        assert_eq!(stdout(&desk.run(&format!("topology gen {family}"))), desk.read("t.json"), "{family}");
        let shown = desk.json("topology show t.json --svg t.svg");
        assert_eq!((&shown["sha256"], &shown["links"]), (&made["sha256"], &made["links"]), "{family}");
        assert_eq!(shown["balanced"], true, "{family}");
        let counted: u64 = shown["node_classes"]
            .as_array()
            .expect("classes")
            .iter()
            .map(|c| c["count"].as_u64().expect("count"))
            .sum();
        assert_eq!(counted, nodes as u64, "{family}");
        assert!(desk.read("t.svg").starts_with("<svg"), "{family}");
        let table = stdout(&desk.run("topology show t.json"));
        assert!(table.contains("NODES") && table.contains("LINKS"), "{table}");
        assert!(table.lines().all(|line| line == line.trim_end()));
    }
    for (line, key) in [
        ("topology gen ring 1", "n"),
        ("topology gen mi250 --gpus 7", "gpus"),
        ("topology gen torus 4xx4", "SIZES"),
        ("topology gen fat-tree 3", "k"),
        ("topology gen star 1,2,x", ""),
        ("topology gen leaf-spine --leaves 2 --spines 1 --hosts 2 --oversubscription zero", "--oversubscription"),
    ] {
        let (code, found) = desk.refused(line);
        assert!(code.starts_with("E_") && found.contains(key), "{line}: {code} {found}");
    }
}

#[test]
fn costs_and_joint_limits_are_shown_where_there_are_any() {
    let desk = Desk::new();
    desk.json("topology gen dgx-a100-rail --nodes 2 --variant pcie --out t.json");
    let table = stdout(&desk.run("topology show t.json"));
    let free = table.lines().find(|line| line.contains("n0.p0 → n0.c0")).expect("a class of links");
    assert!(table.contains("COST") && free.contains("32GB/s     0"), "{table}");
    assert!(!table.contains("GROUPS"), "{table}");
    let link = |from: &str, to: &str| json!({"from": from, "to": to, "capacity": "5"});
    let mut file = json!({"sluice_topology": 1, "nodes": [{"id": "a", "kind": "gpu"}, {"id": "b", "kind": "gpu"}],
        "links": [link("a", "b"), link("b", "a")],
        "groups": [{"name": "bus", "links": [["a", "b"], ["b", "a"]], "capacity": "6"}]});
    desk.write("g.json", &file.to_string());
    let table = stdout(&desk.run("topology show g.json"));
    assert!(table.contains("1 group;") && table.contains("2 links") && table.contains("bus"), "{table}");
    assert!(!table.contains("COST"), "{table}");
    let shown = desk.json("topology show g.json");
    assert_eq!(shown["group_classes"], json!([{"capacity": "6", "links": 2, "count": 1, "first": "bus"}]));
    assert_eq!(shown["link_classes"][0]["cost"], "1");
    file["links"][0]["cost"] = json!("1/2");
    desk.write("g.json", &file.to_string());
    assert_eq!(desk.json("topology show g.json")["link_classes"][0]["cost"], "1/2");
}

#[cfg(feature = "lp")]
#[test]
fn a_ring_and_a_cube_have_their_all_to_all_rates() {
    let desk = Desk::new();
    // A ring of 5 both ways: every node's sum of distances is 6, and it has 2 links.
    for (family, rate) in [("ring 5", 1.0 / 3.0), ("hypercube 3", 0.25)] {
        desk.json(&format!("topology gen {family} --out t.json"));
        let found = &desk.json("topology show t.json --all-to-all")["all_to_all"];
        assert!((found["rate"].as_f64().expect("a number") / rate - 1.0).abs() < 1e-5, "{found}");
        assert!(found["gap"].as_f64().expect("a number") < 1e-5, "{found}");
        assert_eq!(found["method"], "one-source", "it looks alike from every node");
        let text = stdout(&desk.run("topology show t.json --all-to-all"));
        assert!(text.contains("all-to-all: "), "{text}");
    }
    assert!(desk.json("topology show t.json").get("all_to_all").is_none());
    // The published rate of a circulant, whose program of all sources would have 2 million columns; and a graph without
    // translations.
    for (expr, rate, method) in
        [("DC(1024,{1,1023,45,979})", None, "one-source"), ("Pi(2,9)", Some(1.0 / 11.0), "program")]
    {
        desk.json(&format!("topology gen --expr {expr} --out g.json"));
        let found = &desk.json("topology show g.json --all-to-all")["all_to_all"];
        assert_eq!(found["method"], method, "{expr}: {found}");
        let (got, gap) = (found["rate"].as_f64().expect("a number"), found["gap"].as_f64().expect("a number"));
        assert!(gap < 1e-4 && rate.is_none_or(|rate| (got / rate - 1.0).abs() < 1e-5), "{expr}: {found}");
    }
    desk.json("topology gen dgx-a100 --boxes 1 --out t.json");
    let (code, key) = desk.refused("topology show t.json --all-to-all");
    assert_eq!((code.as_str(), key.as_str()), ("E_RANGE", "/nodes/8"));
}

#[test]
fn expressions_become_graphs() {
    let desk = Desk::new();
    let made = desk.json("topology gen --expr L(K(2,2)) --link 25Gbit/s --kind host --out t.json");
    assert_eq!((&made["name"], &made["nodes"], &made["links"]), (&json!("L(K(2,2))"), &json!(8), &json!(16)));
    let file: Value = serde_json::from_str(&desk.read("t.json")).expect("JSON");
    assert_eq!(file["nodes"][7], json!({"id": "n7", "kind": "host"}));
    assert_eq!(file["links"][0], json!({"from": "n0", "to": "n4", "capacity": "25Gbit/s"}));
    assert_eq!(desk.json("topology show t.json")["balanced"], true);
    let ring = desk.json("topology gen --expr BiRing(2,6) --out ring.json");
    assert_eq!((&ring["nodes"], &ring["links"]), (&json!(6), &json!(12)));
    for (line, code) in [
        ("topology gen --expr K(5,4)", "E_PARSE"),
        ("topology gen --expr C(6,{2,4})", "NotStronglyConnected"),
        ("topology gen --expr Diamond", "E_RANGE"),
        ("topology gen --expr DBJ(2,3)*2", "SelfLoop"),
        ("topology gen --expr K(5)^20", "TopologyTooLarge"),
        ("topology gen --expr K(1024)", "TopologyTooLarge"),
        ("topology gen --expr K(3) complete 4", "E_KEY"),
    ] {
        assert_eq!(desk.refused(line).0, code, "{line}");
    }
    let near = stderr(&desk.run("topology gen --expr K(3)xTorsu(3,3)"));
    assert!(near.contains("character 6") && near.contains("did you mean `Torus`?"), "{near}");
    assert_eq!(desk.run("topology gen").status.code(), Some(2));
}

#[test]
fn forms_are_imported_and_planned_alike() {
    let desk = Desk::new();
    desk.write("net.txt", "# a triangle behind a switch\na s 10GB/s\ns a 10GB/s 1us\nb s 10GB/s\ns b 10GB/s\n");
    let line = "topology import edges net.txt --switches s";
    assert!(desk.run(&format!("{line} --out t.json")).status.success());
    assert_eq!(stdout(&desk.run(line)), desk.read("t.json"));
    let one = desk.json("plan forestcoll --topology t.json --collective allgather --out a.json");
    let two =
        desk.json("plan forestcoll --topology net.txt --form edges --switches s --collective allgather --out b.json");
    assert_eq!((&one["claim"], &one["algbw"]), (&two["claim"], &json!(20.0)));
    assert_eq!(desk.json("plan check a.json --topology net.txt --form edges --switches s")["ok"], true);
    let command = serde_json::from_str::<Value>(&desk.read("b.json")).expect("JSON")["made_by"]["command"].clone();
    assert_eq!(command, "sluice plan forestcoll --topology net.txt --form edges --switches s --collective allgather");
    desk.write("bad.txt", "a b 10GB/s\na b\n");
    assert_eq!(desk.refused("topology import edges bad.txt --out t2.json"), ("E_PARSE".into(), "line 2".into()));

    desk.write("zoo.graphml", "<graphml><graph edgedefault=\"undirected\"><node id=\"0\"/><node id=\"1\"/><edge source=\"0\" target=\"1\"/></graph></graphml>");
    let zoo = "topology import graphml zoo.graphml --capacity 10Gbit/s";
    assert!(stdout(&desk.run(zoo)).contains("10Gbit/s"));
    let matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n";
    let mut command = piped(desk.command("topology import nvidia-smi - --speed nvlink=50GB/s --out box.json"));
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(matrix.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    let result = desk.json("plan forestcoll --topology box.json --collective allgather");
    assert_eq!(result["algbw"], 400.0, "four links of 50 GB/s each way between two GPUs");
    desk.write("m.txt", matrix);
    assert_eq!(
        desk.refused("topology import nvidia-smi m.txt --speed nvlnk=1GB/s"),
        ("E_PARSE".into(), "--speed".into())
    );
}

#[test]
fn fluid_forms_are_imported_and_planned_where_all_have_data_and_end_with_it() {
    let desk = Desk::new();
    let gpus: Vec<String> = (0..3).map(|g| format!("g{g}")).collect();
    let mut vertices: Vec<Value> =
        gpus.iter().map(|id| json!({"id": id, "kind": "gpu", "copy": true, "reduce": true, "store": true})).collect();
    vertices.push(json!({"id": "hub", "kind": "switch", "copy": false, "reduce": false, "store": false}));
    let edges: Vec<Value> = gpus.iter().flat_map(|id| [json!([id, "hub"]), json!(["hub", id])]).collect();
    let limits: Vec<Value> = (0..edges.len()).map(|edge| json!({"edges": [edge], "bw": 10})).collect();
    let form = |destinations: &[String]| {
        let form = json!({"vertices": vertices, "edges": edges, "cost": vec![1; edges.len()], "groups": limits,
            "origins": gpus, "destinations": destinations});
        form.to_string()
    };
    desk.write("star.json", &form(&gpus));
    desk.json("topology import fluid star.json --unit GB/s --out t.json");
    assert!(desk.read("t.json").contains("\"10GB/s\""));
    let made =
        desk.json("plan forestcoll --topology star.json --form fluid --unit GB/s --collective allgather --out p.json");
    assert_eq!(made["algbw"], 15.0, "each takes in two thirds of the data at 10 GB/s");
    assert_eq!(desk.json("plan check p.json --topology t.json")["ok"], true);
    let refusal = desk.refused("topology import edges star.json --unit GB/s");
    assert_eq!(refusal, ("E_KEY".into(), "--unit".into()));

    desk.write("one.json", &form(&gpus[1..]));
    let planner = "plan forestcoll --topology one.json --form fluid --collective allgather";
    assert_eq!(desk.refused(planner), ("UNSUPPORTED_FIELD".into(), "/destinations".into()));
    assert_eq!(desk.json("topology import fluid one.json --out o.json")["nodes"], 4);
    desk.write("bad.json", &form(&["g4".to_owned()]));
    let refusal = desk.refused("topology import fluid bad.json --out b.json");
    assert_eq!(refusal, ("UnknownVertex".into(), "/destinations/0".into()));
}
