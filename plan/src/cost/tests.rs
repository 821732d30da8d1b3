//! Times by hand for every kind, and what holds for all of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::steps::{Line, Step};
use super::*;

fn number(text: &str) -> Rational {
    Rational::parse(text).expect("a number")
}

/// Links in seconds and bytes per second: `from to capacity latency`.
fn topology(nodes: &str, switches: &str, links: &[&str]) -> Topology {
    let node = |kind: &'static str| move |id: &str| json!({"id": id, "kind": kind});
    let mut all: Vec<Value> = nodes.split_whitespace().map(node("gpu")).collect();
    all.extend(switches.split_whitespace().map(node("switch")));
    let links: Vec<Value> = links
        .iter()
        .map(|link| {
            let parts: Vec<&str> = link.split_whitespace().collect();
            json!({"from": parts[0], "to": parts[1], "capacity": parts[2], "latency": parts[3]})
        })
        .collect();
    let file = json!({"sluice_topology": 1, "nodes": all, "links": links});
    Topology::read(file.to_string().as_bytes(), "t").expect("a topology")
}

fn cost(topology: &Topology, collective: &str, root: Option<&str>, content: Value) -> Result<Cost, Problems> {
    let mut plan = json!({"sluice_plan": 1, "collective": collective, "claim": {},
        "topology": {"sha256": topology.digest()}, "content": content});
    if let Some(root) = root {
        plan["root"] = json!(root);
    }
    let plan = Plan::read(plan.to_string().as_bytes(), "p").expect("a plan");
    Cost::new(&plan, topology)
}

/// Latency, time per byte, and the time for 1 MB.
fn terms(cost: Result<Cost, Problems>) -> (Rational, Rational, Rational) {
    let cost = cost.unwrap_or_else(|errors| panic!("{errors}"));
    (cost.latency(), cost.per_byte(), cost.time(&number("1000000")))
}

fn expected(latency: &str, per_byte: &str, megabyte: &str) -> (Rational, Rational, Rational) {
    (number(latency), number(per_byte), number(megabyte))
}

/// Three in a row, the second link slower in both ways.
fn line() -> Topology {
    topology("a b c", "", &["a b 10MB/s 1ms", "b a 10MB/s 1ms", "b c 5MB/s 2ms", "c b 5MB/s 2ms"])
}

#[test]
fn trees_are_pipelines() {
    let edge = |src: &str, dst: &str| json!({"src": src, "dst": dst, "path": [src, dst]});
    let out = json!({"direction": "out", "k": 1, "trees": [
        {"root": "a", "weight": 1, "edges": [edge("b", "c"), edge("a", "b")]},
        {"root": "b", "weight": 1, "edges": [edge("b", "a"), edge("b", "c")]},
        {"root": "c", "weight": 1, "edges": [edge("c", "b"), edge("b", "a")]}]});
    // Two thirds of all over b → c at 5 MB/s; the deepest tree has both links.
    let gather = cost(&line(), "allgather", None, json!({"kind": "trees", "forests": [out.clone()]}));
    assert_eq!(terms(gather), expected("3/1000", "2/15000000", "409/3000"));
    let turned = json!({"direction": "in", "k": 1, "trees": [
        {"root": "a", "weight": 1, "edges": [edge("c", "b"), edge("b", "a")]},
        {"root": "b", "weight": 1, "edges": [edge("a", "b"), edge("c", "b")]},
        {"root": "c", "weight": 1, "edges": [edge("a", "b"), edge("b", "c")]}]});
    // In and out over the same root: 3 ms and 3 ms, and c's own third comes and the others' thirds go.
    let reduce = cost(&line(), "allreduce", None, json!({"kind": "trees", "forests": [turned, out]}));
    assert_eq!(terms(reduce), expected("6/1000", "3/15000000", "206/1000"));
}

#[test]
fn switches_that_copy_shorten_ways() {
    let mut file: Value = serde_json::from_str(
        &topology("a b c", "s", &["a s 10MB/s 1ms", "s b 10MB/s 1ms", "s c 10MB/s 5ms"]).to_compact(),
    )
    .expect("JSON");
    file["nodes"][3]["can"] = json!({"multicast": true});
    let topology = Topology::read(file.to_string().as_bytes(), "t").expect("a topology");
    let edges =
        json!([{"src": "a", "dst": "b", "path": ["a", "s", "b"]}, {"src": "a", "dst": "c", "path": ["a", "s", "c"]}]);
    let tree = json!({"root": "a", "weight": 1, "edges": edges, "hops": [["a", "s"], ["s", "b"], ["s", "c"]]});
    let content = json!({"kind": "trees", "forests": [{"direction": "out", "k": 1, "trees": [tree]}]});
    assert_eq!(terms(cost(&topology, "broadcast", Some("a"), content)), expected("6/1000", "1/10000000", "106/1000"));
}

#[test]
fn paths_are_pipelines() {
    let path = |src: &str, dst: &str, path: &[&str]| json!({"src": src, "dst": dst, "path": path, "amount": "1"});
    let pairs = json!([path("a", "b", &["a", "b"]), path("a", "c", &["a", "b", "c"])]);
    let content = json!({"kind": "paths", "pairs": pairs});
    assert_eq!(terms(cost(&line(), "scatter", Some("a"), content)), expected("3/1000", "1/15000000", "209/3000"));
}

#[test]
fn steps_wait_for_the_slowest_link() {
    // a's shard to b while c's goes there, then each on; b's to both in the first step.
    let steps = json!([{"op": "copy", "sends": [[0, 0, 1, 0], [2, 0, 1, 3], [1, 0, 1, 1], [1, 0, 1, 2]]},
        {"op": "copy", "sends": [[0, 0, 1, 2], [2, 0, 1, 1]]}]);
    let content = json!({"kind": "steps", "P": 1, "steps": steps});
    // Twice 2 ms and a third of the data over 5 MB/s.
    assert_eq!(terms(cost(&line(), "allgather", None, content)), expected("4/1000", "2/15000000", "412/3000"));
}

#[test]
fn which_link_is_slowest_depends_on_the_size() {
    let links = [
        "a b 10MB/s 1ms",
        "b a 10MB/s 1ms",
        "a c 100MB/s 50ms",
        "b c 100MB/s 50ms",
        "c a 100MB/s 1ms",
        "c b 100MB/s 1ms",
    ];
    let topology = topology("a b c", "", &links);
    let sends = json!([[0, 0, 1, 0], [0, 0, 1, 2], [1, 0, 1, 1], [1, 0, 1, 3], [2, 0, 1, 4], [2, 0, 1, 5]]);
    let content = json!({"kind": "steps", "P": 1, "steps": [{"op": "copy", "sends": sends}]});
    let cost = cost(&topology, "allgather", None, content).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(cost.latency(), number("50/1000"));
    assert_eq!(cost.per_byte(), number("1/30000000"));
    // 50 ms and a third of 0.3 MB at 100 MB/s against 1 ms and the same at 10 MB/s; then ten times the size.
    assert_eq!(cost.time(&number("300000")), number("51/1000"));
    assert_eq!(cost.time(&number("3000000")), number("101/1000"));
}

fn sends(model: Value, list: &[(&str, u64, &str, &str, u64)]) -> Value {
    let send = |(src, chunk, from, to, epoch): &(&str, u64, &str, &str, u64)| json!({"src": src, "chunk": chunk, "from": from, "to": to, "epoch": epoch});
    json!({"kind": "sends", "model": model, "sends": list.iter().map(send).collect::<Vec<_>>()})
}

#[test]
fn sends_are_replayed_in_their_order() {
    // Two chunks of half the data each, a → b at 10 MB/s, on to c at 5 MB/s: an epoch is 0.1 s for 1 MB in all.
    let model = json!({"chunk": "500kB", "chunks": 2, "tau": "100ms"});
    let list = [("a", 0, "a", "b", 0), ("a", 1, "a", "b", 1), ("a", 0, "b", "c", 2), ("a", 1, "b", "c", 3)];
    let plan = cost(&line(), "broadcast", Some("a"), sends(model, &list));
    // The second half waits for the first on b → c: 1 ms, 50 ms, 2 · 100 ms, 2 ms.
    assert_eq!(terms(plan), expected("3/1000", "5/20000000", "253/1000"));
}

#[test]
fn a_free_second_hop_cuts_through() {
    let topology = topology("a b c", "s", &["a s 10MB/s 1ms", "s b 10MB/s 1ms", "s c 20MB/s 1ms"]);
    let list = [
        ("a", 0, "a", "s", 0),
        ("a", 1, "a", "s", 1),
        ("a", 0, "s", "b", 1),
        ("a", 1, "s", "b", 2),
        ("a", 0, "a", "s", 2),
        ("a", 1, "a", "s", 3),
        ("a", 0, "s", "c", 3),
        ("a", 1, "s", "c", 4),
    ];
    let time = |free: bool| {
        let model = json!({"chunk": "500kB", "chunks": 2, "tau": "50ms", "free_second_hop": free, "theta": "1/10"});
        terms(cost(&topology, "broadcast", Some("a"), sends(model, &list)))
    };
    // Four chunks of 50 ms one after the other into the switch, then 25 ms more to c, or nothing.
    assert_eq!(time(false), expected("2/1000", "225/1000000000", "227/1000"));
    assert_eq!(time(true), expected("2/1000", "200/1000000000", "202/1000"));
}

#[test]
fn hyper_edges_take_both_links() {
    let topology = topology("a b c", "s", &["a s 10MB/s 1ms", "s b 5MB/s 2ms", "s c 10MB/s 1ms"]);
    let model = json!({"chunk": "1MB", "chunks": 1, "tau": "100ms", "hyper_edges": true});
    let mut content = sends(model, &[("a", 0, "a", "b", 0), ("a", 0, "a", "c", 2)]);
    content["sends"][0]["via"] = json!("s");
    content["sends"][1]["via"] = json!("s");
    let plan = cost(&topology, "broadcast", Some("a"), content);
    assert_eq!(terms(plan), expected("3/1000", "3/10000000", "302/1000"));
}

#[test]
fn sums_wait_for_all_their_parts() {
    let model = json!({"chunk": "1MB", "chunks": 1, "tau": "200ms", "theta": "1/10"});
    let mut content = sends(model, &[("a", 0, "c", "b", 0), ("a", 0, "b", "a", 1)]);
    content["sends"][0]["op"] = json!("reduce");
    content["sends"][1]["op"] = json!("reduce");
    let plan = cost(&line(), "reduce", Some("a"), content);
    assert_eq!(terms(plan), expected("3/1000", "3/10000000", "303/1000"));
    // Halves are added up crosswise, then their sums are exchanged.
    let pair = topology("a b", "", &["a b 10MB/s 1ms", "b a 10MB/s 1ms"]);
    let model = json!({"chunk": "500kB", "chunks": 1, "tau": "50ms", "theta": "1/10"});
    let list = [("a", 0, "b", "a", 0), ("b", 0, "a", "b", 0), ("a", 0, "a", "b", 1), ("b", 0, "b", "a", 1)];
    let mut content = sends(model, &list);
    content["sends"][0]["op"] = json!("reduce");
    content["sends"][1]["op"] = json!("reduce");
    assert_eq!(terms(cost(&pair, "allreduce", None, content)), expected("2/1000", "1/10000000", "102/1000"));
}

#[test]
fn pieces_go_their_own_ways() {
    let topology = topology("a b c", "", &["a b 10MB/s 1ms", "a c 10MB/s 1ms", "c b 10MB/s 1ms"]);
    let piece = |chunk: u64, offset: u64, from: &str, to: &str, epoch: u64| json!({"src": "a", "chunk": chunk, "from": from, "to": to, "epoch": epoch, "offset": offset, "bytes": 500_000});
    let list = json!([
        piece(1, 0, "a", "b", 0),
        piece(1, 500_000, "a", "c", 0),
        piece(1, 500_000, "c", "b", 1),
        piece(2, 0, "a", "c", 1),
        piece(2, 500_000, "a", "c", 2)
    ]);
    let model = json!({"chunk": "1MB", "chunks": 1, "tau": "50ms", "divisible": true, "theta": "1/10"});
    let content = json!({"kind": "sends", "model": model, "sends": list});
    // Three halves of a third over a → c; the piece that goes on has two latencies and is there before the last.
    assert_eq!(terms(cost(&topology, "scatter", Some("a"), content)), expected("2/1000", "1/20000000", "51/1000"));
}

#[test]
fn stragglers_are_slow_at_every_size() {
    let model = json!({"chunk": "1MB", "chunks": 1, "tau": "200ms", "stragglers": [{"node": "b", "alpha_add": 0.01, "beta_mul": 2}]});
    let list = [("a", 0, "a", "b", 0), ("a", 0, "b", "c", 2)];
    let plan = cost(&line(), "broadcast", Some("a"), sends(model, &list));
    assert_eq!(terms(plan), expected("23/1000", "6/10000000", "623/1000"));
}

#[test]
fn what_has_no_time_by_size_is_refused() {
    let rates = json!({"kind": "rates", "execution": "static", "flows": [
        {"id": 0, "collective": 0, "group": 0, "order": 0, "src": "a", "dst": "b", "size": "1MB", "path": [0], "rate": "5MB/s"}]});
    let refused = cost(&line(), "custom", None, rates).expect_err("rates");
    assert_eq!((refused.code(), &*refused.all()[0].key), (UNSUPPORTED_FIELD, "/content/kind"));
    let mut file: Value = serde_json::from_str(&line().to_compact()).expect("JSON");
    file["links"][0]["capacity_per_epoch"] = json!(["10MB/s", "0B/s"]);
    let varying = Topology::read(file.to_string().as_bytes(), "t").expect("a topology");
    let model = json!({"chunk": "1MB", "chunks": 1, "tau": "200ms"});
    let list = [("a", 0, "a", "b", 0), ("a", 0, "b", "c", 2)];
    let refused = cost(&varying, "broadcast", Some("a"), sends(model.clone(), &list)).expect_err("it varies");
    assert_eq!(
        (refused.code(), &*refused.all()[0].key),
        (UNSUPPORTED_FIELD, "/topology/inline/links/0/capacity_per_epoch")
    );
    let mut plan = json!({"sluice_plan": 1, "collective": "custom", "claim": {}, "topology": {"sha256": line().digest()},
        "content": sends(model.clone(), &list)});
    plan["demands"] = json!({"sluice_demands": 1, "tenants": [{"name": "x", "triples": [["a", 0, "c"]]}]});
    let plan = Plan::read(plan.to_string().as_bytes(), "p").expect("a plan");
    let refused = Cost::new(&plan, &line()).expect_err("demands of its own");
    assert_eq!((refused.code(), &*refused.all()[0].key), (UNSUPPORTED_FIELD, "/collective"));
    let wrong = cost(&line(), "broadcast", Some("a"), sends(model, &list[..1])).expect_err("c gets nothing");
    assert_eq!((wrong.code(), &*wrong.all()[0].key), (crate::export::PLAN_REFUSED, "/content/sends"));
}

proptest! {
    #[test]
    fn a_step_takes_as_long_as_its_slowest_line(lines in prop::collection::vec((0_i64..50, 0_i64..50), 0..12), size in 0_i64..40) {
        let line = |(latency, per_byte): &(i64, i64)| {
            let of = |number: i64| Rational::new(number, 1).expect("a number");
            Line { latency: of(*latency), per_byte: of(*per_byte) }
        };
        let all: Vec<Line> = lines.iter().map(line).collect();
        let most = lines.iter().map(|(latency, per_byte)| latency + per_byte * size).max().unwrap_or(0);
        let step = Step::new(all);
        prop_assert_eq!(step.time(&Rational::new(size, 1).expect("a size")), Rational::new(most, 1).expect("a time"));
    }
}
