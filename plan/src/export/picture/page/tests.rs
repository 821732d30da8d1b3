//! The page is well-formed, loads nothing, escapes what it is told, has every send in it, and stays small.

use serde_json::{Value, json};

use super::*;

/// GPUs around a switch; `first` is the id of the first, which is untrusted text.
fn star(count: usize, first: &str) -> (Topology, Vec<String>) {
    let ids: Vec<String> = (0..count).map(|i| if i == 0 { first.to_owned() } else { format!("g{i}") }).collect();
    let mut nodes: Vec<Value> = ids.iter().map(|id| json!({"id": id, "kind": "gpu"})).collect();
    nodes.push(json!({"id": "s", "kind": "switch"}));
    let link = |id: &String| json!({"from": id, "to": "s", "capacity": "1GB/s", "latency": "1us", "duplex": true});
    let links: Vec<Value> = ids.iter().map(link).collect();
    let file = json!({"sluice_topology": 1, "name": "<b>&\"", "nodes": nodes, "links": links});
    (Topology::read(file.to_string().as_bytes(), "t").expect("a topology"), ids)
}

/// An all-gather through the switch, one chunk after the other, in so many chunks of each.
fn gather(topology: &Topology, ids: &[String], chunks: u64) -> Plan {
    let (mut sends, mut epoch) = (Vec::new(), 0);
    let send = |src: &String, chunk: u64, from: &str, to: &str, epoch: u64| json!({"src": src, "chunk": chunk, "from": from, "to": to, "epoch": epoch});
    for chunk in 0..chunks {
        for src in ids {
            for to in ids.iter().filter(|to| *to != src) {
                sends.push(send(src, chunk, src, "s", epoch));
                sends.push(send(src, chunk, "s", to, epoch + 1));
                epoch += 1;
            }
        }
    }
    let content = json!({"kind": "sends", "sends": sends, "model": {"chunk": "1MB", "chunks": chunks, "tau": "1ms", "theta": "1/10"}});
    let plan = json!({"sluice_plan": 1, "collective": "allgather", "claim": {}, "content": content,
        "topology": {"sha256": topology.digest()}});
    Plan::read(plan.to_string().as_bytes(), "p").expect("readable")
}

fn page(plan: &Plan, topology: &Topology) -> String {
    assert_eq!(crate::check::check(plan, Some(topology)).violation, None);
    let crate::plan::Content::Sends(sends) = &plan.body.content else { panic!("sends") };
    html(plan, topology, sends).unwrap_or_else(|errors| panic!("{errors}"))
}

/// What the script of the page reads.
fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("the data");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

/// Every element that begins ends, in order; scripts and styles hold text.
fn assert_well_formed(page: &str) {
    let (mut open, mut rest): (Vec<&str>, &str) = (Vec::new(), page.strip_prefix("<!DOCTYPE html>\n").expect("a page"));
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').expect("an end of the tag");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        let name = tag.split_whitespace().next().expect("a name");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        if !["meta", "input"].contains(&name) {
            open.push(name);
        }
        if ["script", "style"].contains(&name) {
            rest = &rest[rest.find(&format!("</{name}>")).expect("its end")..];
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_send_is_in_a_page_that_loads_nothing() {
    let evil = "</script><script src=//x>&\"'<!--";
    let (topology, ids) = star(3, evil);
    let plan = gather(&topology, &ids, 2);
    let page = page(&plan, &topology);
    assert_well_formed(&page);
    assert!(!page.contains(evil) && !page.contains("<b>") && page.contains("allgather on &lt;b&gt;&amp;&quot;"));
    // What stands in the data is only read as JSON.
    let (before, rest) = page.split_once("id=\"data\">").expect("the data");
    let around = before.to_owned() + rest.split_once("</script>").expect("its end").1;
    for outside in [" src=", " href=", "url(", "@import", "fetch(", "XMLHttpRequest", "https:"] {
        assert!(!around.contains(outside), "{outside}");
    }
    assert_eq!(around.matches("http:").count(), 1, "the name of SVG alone");
    assert!(page.contains("default-src 'none'") && !SCRIPT.contains("innerHTML") && !SCRIPT.contains("</"));
    let data = data_of(&page);
    assert_eq!(data["nodes"][0][0], evil);
    let number = |value: &Value| value.as_i64().expect("a number");
    let index = |value: &Value| number(value) as usize;
    let id = |node: &Value| data["nodes"][index(node)][0].as_str().expect("an id").to_owned();
    let (mut epoch, mut shown) = (0, Vec::new());
    for send in data["sends"].as_array().expect("a list").chunks(3) {
        epoch += number(&send[0]);
        let (link, chunk) = (&data["links"][index(&send[1])], &data["chunks"][index(&send[2])]);
        shown.push((epoch, id(&chunk[0]), number(&chunk[1]), id(&link[0]), id(&link[1])));
        assert_eq!((number(&link[3]), number(&link[4])), (1, 1));
    }
    let crate::plan::Content::Sends(sends) = &plan.body.content else { panic!("sends") };
    let mut written: Vec<_> = sends
        .sends
        .iter()
        .map(|send| {
            let entry = &*send.entry;
            let id = |node| plan.id(node).to_owned();
            (entry.epoch as i64, id(entry.src), entry.chunk as i64, id(entry.from), id(entry.to))
        })
        .collect();
    written.sort();
    shown.sort();
    assert_eq!(shown, written);
    assert_eq!(data["epochs"], 13);
    assert_eq!(data["members"], json!([0, 1, 2]));
}

#[test]
fn a_page_of_many_epochs_stays_small() {
    let (topology, ids) = star(32, "g0");
    let plan = gather(&topology, &ids, 2);
    let page = page(&plan, &topology);
    let sends = 2 * 2 * 32 * 31;
    assert_eq!(data_of(&page)["epochs"], 2 * 32 * 31 + 1);
    let around = STYLE.len() + SCRIPT.len() + BODY.len() + 1_000;
    assert!(page.len() < around + 10_000 + 10 * sends, "{} bytes for {sends} sends", page.len());
}

#[test]
fn sums_pieces_and_switches_of_hyper_edges_are_told_apart() {
    let link = |from: &str, to: &str| json!({"from": from, "to": to, "capacity": "1GB/s", "duplex": true});
    let file = json!({"sluice_topology": 1, "links": [link("a", "s"), link("b", "s")],
        "nodes": [{"id": "a", "kind": "gpu"}, {"id": "b", "kind": "gpu"}, {"id": "s", "kind": "switch"}]});
    let topology = Topology::read(file.to_string().as_bytes(), "t").expect("a topology");
    let read = |collective: &str, model: Value, sends: Value| {
        let plan = json!({"sluice_plan": 1, "collective": collective, "root": "a", "claim": {},
            "content": {"kind": "sends", "model": model, "sends": sends}, "topology": {"sha256": topology.digest()}});
        data_of(&page(&Plan::read(plan.to_string().as_bytes(), "p").expect("readable"), &topology))
    };
    let model = json!({"chunk": "1MB", "chunks": 1, "tau": "1ms", "hyper_edges": true});
    let sum = json!([{"src": "a", "chunk": 0, "from": "b", "to": "a", "epoch": 0, "via": "s", "op": "reduce"}]);
    let data = read("reduce", model, sum);
    assert_eq!((&data["sends"], &data["links"]), (&json!([0, -1, 0]), &json!([[1, 0, 2, 1, 1]])));
    let model = json!({"chunk": "1MB", "chunks": 1, "tau": "500us", "divisible": true});
    let piece = |from: &str, to: &str, offset: u64, epoch: u64| json!({"src": "a", "chunk": 1, "from": from, "to": to, "epoch": epoch, "offset": offset, "bytes": 500_000});
    let sends =
        json!([piece("a", "s", 0, 0), piece("a", "s", 500_000, 1), piece("s", "b", 0, 1), piece("s", "b", 500_000, 2)]);
    let data = read("scatter", model, sends);
    assert_eq!(data["pieces"], json!([0, 500_000, 500_000, 500_000, 0, 500_000, 500_000, 500_000]));
    assert_eq!(data["units"], 1e6);
}
