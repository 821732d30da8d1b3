//! Each form read right, its mistakes named, and any bytes refused rather than believed.

use proptest::prelude::*;

use super::super::{Kind, Topology};
use super::*;
use crate::quantity::{CapacityUnit, Rational};

fn vectors() -> serde_json::Value {
    serde_json::from_str(include_str!("../../../tests/vectors/forestcoll.json")).expect("JSON")
}

#[test]
fn forestcoll_vectors_are_read_or_refused_as_their_error_says() {
    let vectors = vectors();
    let mut refused = Vec::new();
    for vector in vectors["vectors"].as_array().expect("a list") {
        let id = vector["id"].as_str().expect("an id");
        match forestcoll(vector["topology"].to_string().as_bytes(), id, None) {
            Ok(topology) => {
                let compute = vector["topology"]["compute"].as_array().map_or(0, Vec::len);
                assert_eq!(topology.compute().len(), compute, "{id}");
                assert_eq!(topology.links().len(), vector["topology"]["edges"].as_array().map_or(0, Vec::len), "{id}");
            }
            Err(errors) => refused.push((id.to_owned(), errors.code())),
        }
    }
    let refused: Vec<(&str, &str)> = refused.iter().map(|(id, code)| (id.as_str(), *code)).collect();
    let expected = [
        ("bad-zero", "NON_POSITIVE_BANDWIDTH"),
        ("bad-selfloop", "SELF_LOOP"),
        ("bad-unknown", "UNKNOWN_NODE"),
        ("bad-dup", "DUPLICATE_NODE"),
    ];
    assert_eq!(refused, expected);
}

#[test]
fn forestcoll_numbers_weights_and_switches() {
    let text = r#"{"compute":["a","b"],"switches":["s"],"weights":{"a":3},"multicast":["s"],
        "edges":[["a","s",0.1],["s","b","7/2"],["b","a",2.5e1]]}"#;
    let topology = forestcoll(text.as_bytes(), "t", CapacityUnit::parse("GB/s")).expect("valid");
    let capacity = |i: usize| topology.unit().write(&topology.links()[i].capacity);
    assert_eq!([capacity(0), capacity(1), capacity(2)], ["1/10GB/s", "7/2GB/s", "25GB/s"]);
    assert_eq!([topology.nodes()[0].weight, topology.nodes()[1].weight], [3, 0]);
    assert!(topology.nodes()[2].can.copy && !topology.nodes()[2].can.reduce);
    let refused = |from: &str, to: &str| {
        let errors = forestcoll(text.replacen(from, to, 1).as_bytes(), "t", None).expect_err(to);
        (errors.code(), errors.all()[0].key.clone())
    };
    assert_eq!(refused("0.1", "-0.1"), ("NON_POSITIVE_BANDWIDTH", "/edges/0/2".into()));
    assert_eq!(refused("\"7/2\"", "\"NaN\""), ("NON_POSITIVE_BANDWIDTH", "/edges/1/2".into()));
    assert_eq!(refused("{\"a\":3}", "{\"a\":-3}"), ("BAD_WEIGHTS", "/nodes/0/weight".into()));
    assert_eq!(refused("{\"a\":3}", "{\"c\":3}"), ("UNKNOWN_NODE", "/weights/c".into()));
    assert_eq!(refused("[\"s\"],\n", "[\"a\"],\n"), ("UNKNOWN_NODE", "/multicast/0".into()));
    assert_eq!(refused("[\"b\",\"a\",2.5e1]", "[\"b\",\"a\"]"), ("E_PARSE", "/edges/2".into()));
}

#[test]
fn edge_lines() {
    let text = "# a remark\na sw 25GB/s 0.7us\n\nsw b 25GB/s  # behind\r\nb a 1Gbit/s\n";
    let topology = edges(text.as_bytes(), "t", &Edges { switches: &["sw"], ..Edges::default() }).expect("valid");
    let ids: Vec<&str> = topology.nodes().iter().map(|node| &*node.id).collect();
    assert_eq!(ids, ["a", "sw", "b"]);
    assert_eq!(topology.compute(), [0, 2]);
    assert_eq!(topology.links()[0].latency, Rational::new(7, 10_000_000).unwrap());
    let errors = edges(b"a b 1\na b\n", "t", &Edges::default()).expect_err("two words");
    assert_eq!((errors.code(), errors.all()[0].key.as_str()), ("E_PARSE", "line 2"));
}

const ZOO: &str = r#"<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" for="node" id="d33" />
  <graph edgedefault="undirected"> <!-- > --> <data key="d0">1 &amp; 2</data>
    <node id="10"><data key="d33">New &lt;York&gt;</data></node><node id="2"/><node id='1'/>
    <edge source="10" target="2"/><edge source="2" target="10" id="e1"/><edge source="2" target="1"/><edge source="1" target="1"/>
  </graph></graphml>"#;

#[test]
fn graphml_of_the_zoo() {
    let topology = graphml(ZOO.as_bytes(), "t", "1").expect("valid");
    let ids: Vec<&str> = topology.nodes().iter().map(|node| &*node.id).collect();
    assert_eq!(ids, ["1", "2", "10"], "in numerical order");
    let ends: Vec<(usize, usize)> = topology.links().iter().map(|link| (link.from, link.to)).collect();
    assert_eq!(ends, [(0, 1), (1, 0), (1, 2), (2, 1)], "parallel edges are one, self-loops go");
    assert_eq!(
        graphml(ZOO.as_bytes(), "t", "10Gbit/s").expect("valid").links()[0].capacity.finite(),
        Some(&Rational::from(1_250_000_000))
    );
}

#[test]
fn graphml_that_is_none() {
    let cases = [
        ("<graph edge", "<!DOCTYPE a [<!ENTITY b \"c\">]><graph edge", "E_PARSE"),
        ("target=\"2\"", "target=\"3\"", "UNKNOWN_NODE"),
        ("id=\"2\"", "id=\"10\"", "DUPLICATE_NODE"),
        ("id=\"2\"", "di=\"2\"", "E_MISSING"),
        ("id=\"2\"", "id=\"&b;\"", "E_PARSE"),
        ("</graph>", "", "E_PARSE"),
        ("</graphml>", "", "E_PARSE"),
        ("</graphml>", "</graphml><graphml/>", "E_PARSE"),
        ("<graphml xml", "<html xml", "E_PARSE"),
        ("<node id=\"2\"/>", "<node id=\"2\"><graph/></node>", "E_PARSE"),
    ];
    for (from, to, code) in cases {
        assert!(ZOO.contains(from), "{from}");
        assert_eq!(graphml(ZOO.replacen(from, to, 1).as_bytes(), "t", "1").expect_err(to).code(), code, "{to}");
    }
    let deep = format!("<graphml>{}", "<a>".repeat(1000));
    assert_eq!(graphml(deep.as_bytes(), "t", "1").expect_err("deep").code(), "E_LIMIT");
    assert_eq!(graphml(ZOO.as_bytes(), "t", "0").expect_err("nothing").all()[0].key, "capacity");
}

const MATRIX: &str = "\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\u{1b}[0m
GPU0\t X \tNV4\tSYS\tSYS\tPIX\tSYS\t0-23\t0
GPU1\tNV4\t X \tSYS\tSYS\tPXB\tSYS\t0-23\t0
GPU2\tSYS\tSYS\t X \tNV4\tSYS\tNODE\t24-47\t1
GPU3\tSYS\tSYS\tNV4\t X \tSYS\tNODE\t24-47\t1
NIC0\tPIX\tPXB\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tNODE\tNODE\tSYS\t X

Legend:

  X    = Self
NIC Legend:
  NIC0: mlx5_0
";

const TECCL: &str = r#"{"name":"t","nodes":4,"gpus":3,"switches":[3],"links":[{"GBps":25.0,"alpha_us":0.7,"both_ways":true,
    "pairs":[[0,1],[1,3]]},{"GBps":12.5,"alpha_us":0,"both_ways":false,"pairs":[[3,2]]}],"directed_links":5,"total_GBps":112.5}"#;

#[test]
fn numbered_nodes_and_links_in_groups() {
    let topology = teccl(TECCL.as_bytes(), "t", false).expect("valid");
    assert_eq!((topology.nodes().len(), topology.links().len(), topology.compute()), (4, 5, vec![0, 1, 2]));
    assert_eq!(topology.links()[0].latency.to_string(), "7/10000000");
    assert_eq!(topology.links()[4].capacity.finite().map(ToString::to_string).as_deref(), Some("12500000000"));
    assert!(!topology.nodes()[3].can.copy);
    assert!(teccl(TECCL.as_bytes(), "t", true).expect("valid").nodes()[3].can.copy);
    let refused = |from: &str, to: &str| teccl(TECCL.replace(from, to).as_bytes(), "t", false).expect_err("refused");
    for (from, to, code, key) in [
        ("[3],", "[4],", "BadNode", "/switches/0"),
        ("\"gpus\":3", "\"gpus\":4", "BadNode", "/gpus"),
        ("[0,1]", "[0,9]", "BadLink", "/links/0/pairs/0"),
        ("[1,3]", "[1,1]", "BadLink", "/links/0/pairs/1"),
        ("12.5,", "0,", "BadLink", "/links/1"),
        ("\"directed_links\":5", "\"directed_links\":6", "BadLink", "/directed_links"),
        ("112.5", "112", "BadLink", "/total_GBps"),
        ("\"nodes\":4", "\"nodes\":9000000", "E_LIMIT", "/nodes"),
    ] {
        let problems = refused(from, to);
        let first = problems.all().iter().find(|problem| problem.key == key);
        assert_eq!(first.map(|problem| problem.code), Some(code), "{to}: {problems}");
    }
}

const FLUID: &str = r#"{"vertices":[
    {"id":"a","kind":"GPU","copy":true,"reduce":true,"store":true},
    {"id":"b","kind":"gpu","copy":true,"reduce":false,"store":true},
    {"id":"c","kind":"cpu","copy":true,"reduce":true,"store":false},
    {"id":"d","kind":"dram","copy":true,"reduce":false,"store":true},
    {"id":"e","kind":"switch","copy":true,"reduce":true,"store":true}],
    "edges":[["a","c"],["c","b"],["c","b"],["b","d"],["d","e"],["e","a"]],"cost":[1,0.5,"7/3",0,0,1],
    "groups":[{"edges":[1,0,2],"bw":2.5e1},{"edges":[0],"bw":10},{"edges":[0],"bw":"17/2"},{"edges":[1],"bw":0.1}],
    "origins":["e","a"],"destinations":["a","b"]}"#;

#[test]
fn vertices_edges_and_limits_become_a_topology_with_ends() {
    let (topology, ends) = fluid(FLUID.as_bytes(), "t", CapacityUnit::parse("GB/s")).expect("valid");
    let kinds: Vec<&str> = topology.nodes().iter().map(|node| node.kind.word()).collect();
    assert_eq!(kinds, ["gpu", "gpu", "switch", "memory", "gpu"], "a label counts where it says who takes part");
    let can: Vec<[bool; 3]> =
        topology.nodes().iter().map(|node| [node.can.copy, node.can.reduce, node.can.store]).collect();
    let all = [true; 3];
    assert_eq!(can, [all, [true, false, true], [true, true, false], [true, false, true], all]);
    assert!(topology.file().nodes.iter().all(|node| node.can.is_some()));
    assert_eq!(ends, Ends { origins: Some(vec![4, 0]), destinations: Some(vec![0, 1]) });
    assert_eq!(topology.compute(), [0, 1, 4]);
    assert!(!ends.are_all_of(&topology));
    let capacities: Vec<String> = topology.links().iter().map(|link| topology.unit().write(&link.capacity)).collect();
    assert_eq!(capacities, ["17/2GB/s", "1/10GB/s", "unlimited", "unlimited", "unlimited", "unlimited"]);
    let costs: Vec<String> = topology.links().iter().map(|link| link.cost.to_string()).collect();
    assert_eq!(costs, ["1", "1/2", "7/3", "0", "0", "1"]);
    let [group] = topology.groups() else { panic!("{:?}", topology.groups()) };
    assert_eq!((&*group.name, &group.links[..]), ("group 0", &[0, 1, 2][..]));
    assert_eq!(topology.unit().write(&group.capacity), "25GB/s");
    let members = &topology.file().groups.as_ref().expect("one")[0].links;
    assert_eq!(members.iter().map(|member| member.index).collect::<Vec<_>>(), [Some(0), None, Some(1)]);
    let (abstract_graph, _) = fluid(FLUID.as_bytes(), "t", None).expect("valid");
    assert_eq!(&*abstract_graph.file().links[0].capacity, "17/2");
}

#[test]
fn without_ends_the_labels_say_who_takes_part() {
    let read = |text: &str| fluid(text.as_bytes(), "t", None).expect("valid");
    let (origins, destinations) = (r#""origins":["e","a"],"#, r#""destinations":["a","b"]"#);
    let (topology, ends) = read(&FLUID.replace(origins, "").replace(&format!(",\n    {destinations}"), ""));
    assert_eq!((topology.compute(), ends.are_all_of(&topology)), (vec![0, 1], true));
    assert_eq!(ends, Ends::default());
    let (topology, ends) = read(&FLUID.replace(destinations, r#""destinations":["c"]"#).replace(origins, ""));
    assert_eq!((topology.compute(), ends.are_all_of(&topology)), (vec![0, 1, 2], false));
    let (topology, ends) = read(&FLUID.replace(destinations, r#""destinations":["a","e"]"#));
    assert_eq!((topology.compute(), ends.are_all_of(&topology)), (vec![0, 4], true));
    assert_eq!(topology.nodes()[1].kind, Kind::Memory, "labelled gpu, but takes no part, and stores");
}

#[test]
fn mistakes_of_fluid_forms_have_the_names_of_their_literature() {
    for (from, to, code, key) in [
        (r#"{"id":"b""#, r#"{"id":"a""#, "DuplicateVertex", "/vertices/1/id"),
        (r#"["b","d"]"#, r#"["b","x"]"#, "UnknownVertex", "/edges/3/1"),
        (r#"["b","d"]"#, r#"["x","d"]"#, "UnknownVertex", "/edges/3/0"),
        (r#"["b","d"]"#, r#"["b","b"]"#, "SelfLoop", "/edges/3"),
        (r#"["b","d"]"#, r#"["b"]"#, "E_PARSE", "/edges/3"),
        (r#""origins":["e""#, r#""origins":["x""#, "UnknownVertex", "/origins/0"),
        (r#""origins":["e""#, r#""origins":["a""#, "DuplicateVertex", "/origins/1"),
        (r#"["a","b"]}"#, r#"["a","x"]}"#, "UnknownVertex", "/destinations/1"),
        ("[1,0,2]", "[1,0,6]", "UnknownEdge", "/groups/0/edges/2"),
        ("[1,0,2]", "[1,0,18446744073709551615]", "UnknownEdge", "/groups/0/edges/2"),
        ("[1,0,2]", "[1,-1]", "E_RANGE", "/groups/0/edges/1"),
        ("[1,0,2]", "[1,0,1]", "RepeatedEdge", "/groups/0/edges/2"),
        ("[1,0,2]", "[]", "EmptyGroup", "/groups/0/edges"),
        ("2.5e1", "0", "BadBandwidth", "/groups/0/bw"),
        ("2.5e1", "-1", "BadBandwidth", "/groups/0/bw"),
        ("2.5e1", "1e999", "BadBandwidth", "/groups/0/bw"),
        ("2.5e1", "\"NaN\"", "BadBandwidth", "/groups/0/bw"),
        ("2.5e1", "\"inf\"", "BadBandwidth", "/groups/0/bw"),
        ("2.5e1", "NaN", "E_PARSE", "/groups/0"),
        ("2.5e1", "null", "E_PARSE", "/groups/0/bw"),
        ("[1,0.5,", "[-1,0.5,", "BadCost", "/cost/0"),
        ("[1,0.5,", "[1,\"1/0\",", "BadCost", "/cost/1"),
        ("[1,0.5,", "[1,1,0.5,", "UnknownEdge", "/cost/6"),
        ("[1,0.5,", "[0.5,", "E_MISSING", "/cost/5"),
        (r#","store":true},"#, "},", "E_MISSING", "/vertices/0/store"),
        (r#""edges":[["a""#, r#""edgse":[["a""#, "E_KEY", "/edgse"),
    ] {
        assert!(FLUID.contains(from), "{from}");
        let problems = fluid(FLUID.replacen(from, to, 1).as_bytes(), "t", None).expect_err(to);
        let first = problems.all().iter().find(|problem| problem.key == key);
        assert_eq!(first.map(|problem| problem.code), Some(code), "{to}: {problems}");
        assert!(first.is_some_and(|problem| code == "E_MISSING" || !problem.allowed.is_empty()), "{to}: {problems}");
    }
}

#[test]
fn the_matrix_becomes_nvlinks_and_a_tree() {
    let topology = nvidia_smi(MATRIX.as_bytes(), "t", &Speeds { sys: "16GB/s", ..Speeds::default() }).expect("valid");
    let mut cables: Vec<String> = topology
        .file()
        .links
        .iter()
        .map(|entry| format!("{}-{} {}x{}", entry.from, entry.to, entry.count.unwrap_or(1), entry.capacity))
        .collect();
    cables.sort();
    let expected = [
        "gpu0-gpu1 4x25GB/s",
        "gpu0-pcie0 1x32GB/s",
        "gpu1-pxb0 1x32GB/s",
        "gpu2-gpu3 4x25GB/s",
        "gpu2-numa0 1x32GB/s",
        "gpu3-numa0 1x32GB/s",
        "nic0-pcie0 1x32GB/s",
        "nic1-numa0 1x32GB/s",
        "numa0-sys0 1x16GB/s",
        "pcie0-pxb0 1x32GB/s",
        "pxb0-sys0 1x16GB/s",
    ];
    assert_eq!(cables, expected);
    assert_eq!(topology.compute().len(), 4);
}

#[test]
fn many_nvlinks_go_through_a_switch() {
    let names: Vec<String> = (0..8).map(|i| format!("GPU{i}")).collect();
    let mut text = format!("\t{}\n", names.join("\t"));
    for (i, name) in names.iter().enumerate() {
        let row: Vec<&str> = (0..8).map(|j| if i == j { " X " } else { "NV12" }).collect();
        text.push_str(&format!("{name}\t{}\n", row.join("\t")));
    }
    let topology = nvidia_smi(text.as_bytes(), "t", &Speeds::default()).expect("valid");
    assert_eq!(topology.file().links.len(), 8);
    assert!(topology.file().links.iter().all(|link| &*link.to == "nvswitch" && link.count == Some(12)));
}

#[test]
fn a_matrix_that_is_none() {
    let refused = |text: &str| nvidia_smi(text.as_bytes(), "t", &Speeds::default()).expect_err(text).code();
    assert_eq!(refused(""), "E_PARSE");
    assert_eq!(refused("NVIDIA-SMI has failed"), "E_PARSE");
    assert_eq!(refused(&MATRIX.replacen("PIX", "SYS", 1)), "E_PARSE", "not symmetric");
    assert_eq!(refused(&MATRIX.replacen("NIC1\tSYS", "NIC2\tSYS", 1)), "E_PARSE", "rows in another order");
    assert_eq!(refused(&MATRIX.replace("NODE", "FAR")), "E_PARSE", "unknown word");
    let speeds = Speeds { nvlink: "25GBps", ..Speeds::default() };
    assert_eq!(nvidia_smi(MATRIX.as_bytes(), "t", &speeds).expect_err("a speed").all()[0].key, "nvlink");
}

proptest! {
    #[test]
    fn damaged_forms_are_read_or_refused(which in 0_usize..5, at in 0_usize..2000, byte: u8, drop in 0_usize..30) {
        let text = [ZOO, MATRIX, TECCL, FLUID, "a b 1\nb c 2 3\nc a 7/2\n"][which];
        let mut bytes = text.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.drain(at..(at + drop).min(bytes.len()));
        let read = match which {
            0 => graphml(&bytes, "t", "1"),
            1 => nvidia_smi(&bytes, "t", &Speeds::default()),
            2 => teccl(&bytes, "t", false),
            3 => fluid(&bytes, "t", None).map(|(topology, _)| topology),
            _ => edges(&bytes, "t", &Edges::default()),
        };
        if let Ok(topology) = read {
            prop_assert!(Topology::read(topology.to_text().as_bytes(), "t").is_ok());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = (graphml(&bytes, "t", "1"), nvidia_smi(&bytes, "t", &Speeds::default()));
        let _ = (fluid(&bytes, "t", None), edges(&bytes, "t", &Edges::default()), forestcoll(&bytes, "t", None), teccl(&bytes, "t", true));
    }
}
