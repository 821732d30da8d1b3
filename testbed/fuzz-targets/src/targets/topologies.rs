//! F6, F8 and F34: topologies, as we write them and as others do.

use sluice_formats::problem::Problems;
use sluice_formats::quantity::CapacityUnit;
use sluice_formats::topology::r#gen::{Wiring, complete, dgx_a100, ring, star};
use sluice_formats::topology::import::{Edges, Speeds, edges, fluid, forestcoll, graphml, nvidia_smi, teccl};
use sluice_formats::topology::{Kind, Topology};

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A topology.json.
pub static TOPOLOGY: Target = Target {
    name: "F06-topology",
    parser: "topology.json, for planners and for daemons",
    property: "what is accepted is written to the same bytes again, with the same digest; a refusal has a code and says what is wrong",
    shape: Shape::Text(&[
        "sluice_topology",
        "nodes",
        "links",
        "groups",
        "routes",
        "id",
        "kind",
        "gpu",
        "host",
        "site",
        "switch",
        "memory",
        "from",
        "to",
        "capacity",
        "latency",
        "duplex",
        "25Gbit/s",
        "3GB/s",
        "inf",
        "weight",
        "networks",
        "10.0.0.0/8",
        "exchange",
        "port_addresses",
        "true",
        "false",
        "null",
    ]),
    run: topology,
    seeds: topology_seeds,
};

/// A GraphML of the Topology Zoo's form.
pub static GRAPHML: Target = Target {
    name: "F08-graphml",
    parser: "GraphML, as public collections of networks have it",
    property: "no document type and no entity but the five; what is accepted is a topology that is written to the same bytes again",
    shape: Shape::Text(&[
        "<graphml>",
        "<graph edgedefault=\"undirected\">",
        "<node id=\"0\"/>",
        "<edge source=\"0\" target=\"1\"/>",
        "<key id=\"d0\">",
        "<data key=\"d0\">",
        "</graph>",
        "</graphml>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]>",
        "<![CDATA[",
        "<?xml version=\"1.0\"?>",
        "&lt;",
        "&#x41;",
        "&a;",
    ]),
    run: xml,
    seeds: graphml_seeds,
};

/// A byte that chooses the form, then a file of it.
pub static IMPORTS: Target = Target {
    name: "F34-imports",
    parser: "other programs' topologies: edge lists, fluid instances, ForestColl, nvidia-smi, TE-CCL",
    property: "what is accepted is a topology that is written to the same bytes again; a refusal has a code and says what is wrong",
    shape: Shape::ChosenText(&[
        "vertices",
        "edges",
        "compute",
        "switches",
        "weights",
        "multicast",
        "GPU0",
        "NIC0",
        "NV4",
        "PIX",
        "PXB",
        "PHB",
        "NODE",
        "SYS",
        "X",
        "origins",
        "destinations",
        "groups",
        "bw",
        "cost",
        "GBps",
        "alpha_us",
        "both_ways",
        "pairs",
        "2.5e1",
        "7/2",
    ]),
    run: imports,
    seeds: imports_seeds,
};

fn judged(read: Result<Topology, Problems>) {
    match read {
        Ok(read) => {
            let text = read.to_text();
            let again = Topology::read(text.as_bytes(), "again.json").expect("what is written is a topology");
            assert_eq!(again.to_text(), text);
            assert_eq!(again.digest(), read.digest());
            assert_eq!((again.nodes().len(), again.links().len()), (read.nodes().len(), read.links().len()));
            assert!(read.links().iter().all(|link| link.from < read.nodes().len() && link.to < read.nodes().len()));
        }
        Err(problems) => refused(&problems),
    }
}

/// A refusal says what is wrong, under a code, in which file.
pub(crate) fn refused(problems: &Problems) {
    assert!(!problems.all().is_empty());
    for problem in problems.all() {
        assert!(!problem.code.is_empty() && !problem.message.is_empty(), "{problem:?}");
    }
    let text = problems.to_string();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    serde_json::from_str::<serde_json::Value>(&problems.to_json()).expect("a refusal is JSON too");
}

fn topology(bytes: &[u8]) {
    let read = Topology::read(bytes, "t.json");
    if let Ok(read) = &read
        && read.with_rates("t.json").is_ok()
    {
        let hosts = sluiced::topology::Topology::new(read.clone());
        assert_eq!(hosts.links.len(), read.links().len());
        for link in 0..hosts.links.len().min(64) {
            if let Some(id) = hosts.link_id(link) {
                assert!(hosts.find(id).is_some(), "a link that has an id is found by it");
            }
        }
    }
    judged(read);
}

fn xml(bytes: &[u8]) {
    let read = graphml(bytes, "g.graphml", "10Gbit/s");
    if read.is_ok() {
        let text = elements_of(std::str::from_utf8(bytes).expect("what is accepted is text"));
        assert!(!text.contains("<!DOCTYPE") && !text.contains("<!ENTITY"), "document types are refused");
    }
    judged(read);
}

/// A document without what says nothing to its reader, whatever stands in it: comments, quoted text, processing instructions.
fn elements_of(text: &str) -> String {
    const SILENT: [(&str, &str); 3] = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    let (mut rest, mut out) = (text, String::new());
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let silent = SILENT.iter().find(|(begin, _)| from.starts_with(begin));
        // "<?>" only begins one.
        let ends = |(begin, end): &(&str, &str)| {
            let inside = from.get(begin.len()..)?;
            Some(begin.len() + inside.find(end)? + end.len())
        };
        let end = silent.and_then(ends).unwrap_or(1);
        if silent.is_none() {
            out.push('<');
        }
        rest = from.get(end..).unwrap_or_default();
    }
    out + rest
}

fn imports(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 6 {
        0 => judged(edges(rest, "e.txt", &Edges { kind: Kind::Gpu, switches: &["s"] })),
        1 => judged(fluid(rest, "f.json", CapacityUnit::parse("GB/s")).map(|(topology, _)| topology)),
        2 => judged(forestcoll(rest, "c.json", None)),
        3 => judged(nvidia_smi(rest, "n.txt", &Speeds::default())),
        other => judged(teccl(rest, "t.json", other == 4)),
    }
}

/// Small fabrics of every sort.
pub(crate) fn fabrics() -> Vec<(&'static str, Topology)> {
    let made = [
        ("star", star(&["1", "2", "3"])),
        ("complete", complete(4, "4GB/s")),
        ("ring", ring(4, "5Gbit/s", true)),
        ("one-way", ring(3, "7/2", false)),
        ("box", dgx_a100(1, Wiring::Plain)),
    ];
    made.map(|(name, made)| (name, made.expect("a fabric of ours"))).into()
}

fn topology_seeds() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = fabrics().into_iter().map(|(name, fabric)| Seed::new(name, fabric.to_text())).collect();
    let hosts = r#"{"sluice_topology":1,"name":"hosts","nodes":[
{"id":"h0","kind":"host","networks":["10.0.0.1"]},{"id":"h1","kind":"host","networks":["10.0.0.2","fd00::2"]},
{"id":"s0","kind":"switch","exchange":"10.0.9.1:9604","port_addresses":["10.0.9.1"]}],
"links":[{"from":"h0","to":"s0","capacity":"25Gbit/s","duplex":true},{"from":"s0","to":"h1","capacity":"10Gbit/s","latency":"1us"},
{"from":"h1","to":"s0","capacity":"10Gbit/s"}]}"#;
    seeds.push(Seed::new("hosts", hosts));
    seeds
}

fn graphml_seeds() -> Vec<Seed> {
    let text = r#"<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key attr.name="label" attr.type="string" for="node" id="d0" />
<!-- three places -->
<graph edgedefault="undirected"><data key="d0">a &amp; b</data>
<node id="0"><data key="d0">Here</data></node><node id="1"/><node id="2"><data key="d0"><![CDATA[There]]></data></node>
<edge source="0" target="1"/><edge source="1" target="2"><data key="d0">10 Gbit/s</data></edge>
</graph></graphml>
"#;
    let typed = "<!DOCTYPE graphml [<!ENTITY a \"b\">]><graphml><graph><node id=\"&a;\"/></graph></graphml>";
    vec![Seed::new("three", text), Seed::new("typed", typed)]
}

fn imports_seeds() -> Vec<Seed> {
    let edges = "# from to capacity\na s 10Gbit/s\ns b 25Gbit/s duplex\nb a 3GB/s\n";
    let fluid = r#"{"vertices":[{"id":"a","kind":"GPU","copy":true,"reduce":true,"store":true},
{"id":"b","kind":"gpu","copy":true,"reduce":false,"store":true},{"id":"e","kind":"switch","copy":true,"reduce":true,"store":false}],
"edges":[["a","e"],["e","b"],["b","a"]],"cost":[1,0.5,"7/3"],"groups":[{"edges":[1,0,2],"bw":2.5e1},{"edges":[0],"bw":"17/2"}],
"origins":["a"],"destinations":["a","b"]}"#;
    let forest = r#"{"compute":["a","b"],"switches":["s"],"weights":{"a":3},"multicast":["s"],"edges":[["a","s",0.1],["s","b","7/2"],["b","a",2.5e1]]}"#;
    let matrix = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV4\tPIX\t0-15\nGPU1\tNV4\t X \tSYS\t0-15\nNIC0\tPIX\tSYS\t X \t\n";
    let teccl = r#"{"name":"t","nodes":4,"gpus":3,"switches":[3],"links":[{"GBps":25.0,"alpha_us":0.7,"both_ways":true,
"pairs":[[0,1],[1,3]]},{"GBps":12.5,"alpha_us":0,"both_ways":false,"pairs":[[3,2]]}],"directed_links":5,"total_GBps":112.5}"#;
    vec![
        Seed::of(0, "edges", edges),
        Seed::of(1, "fluid", fluid),
        Seed::of(2, "forestcoll", forest),
        Seed::of(3, "nvidia-smi", matrix),
        Seed::of(4, "te-ccl", teccl),
    ]
}
