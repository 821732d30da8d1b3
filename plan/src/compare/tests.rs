//! Who may be compared with whom, who is best, and the picture.

use serde_json::{Value, json};

use super::*;

/// Three hosts in a ring; `name` is untrusted text.
fn topology(name: &str) -> Topology {
    let node = |id: &str| json!({"id": id, "kind": "host"});
    let link = |from: &str, to: &str| json!({"from": from, "to": to, "capacity": "100MB/s", "latency": "10us", "duplex": true});
    let file = json!({"sluice_topology": 1, "name": name, "nodes": [node("a"), node("b"), node("c")],
        "links": [link("a", "b"), link("b", "c"), link("c", "a")]});
    Topology::read(file.to_string().as_bytes(), "t").expect("a topology")
}

/// Straight to both in one step: one latency, a third of the data on each link.
fn steps(topology: &Topology) -> Value {
    let sends = json!([[0, 0, 1, 0], [0, 0, 1, 5], [1, 0, 1, 1], [1, 0, 1, 2], [2, 0, 1, 3], [2, 0, 1, 4]]);
    json!({"sluice_plan": 1, "collective": "allgather", "topology": {"sha256": topology.digest()},
        "made_by": {"command": "sluice plan bfb --topology t.json", "seconds": 0.25},
        "claim": {"time_per_byte": "1/300000000 s/B", "lower_bound": "1/300000000", "optimal": true, "certificate": {"kind": "bandwidth"}},
        "content": {"kind": "steps", "P": 1, "steps": [{"op": "copy", "sends": sends}]}})
}

/// Round the ring in chunks of a sixth: two latencies, and as long as any for much data.
fn round(topology: &Topology) -> Value {
    let ids = ["a", "b", "c"];
    let edge = |from: usize| {
        let (src, dst) = (ids[from % 3], ids[(from + 1) % 3]);
        json!({"src": src, "dst": dst, "path": [src, dst]})
    };
    let tree = |root: usize| json!({"root": ids[root], "weight": 1, "edges": [edge(root), edge(root + 1)]});
    json!({"sluice_plan": 1, "collective": "allgather", "topology": {"sha256": topology.digest()}, "claim": {},
        "content": {"kind": "trees", "forests": [{"direction": "out", "k": 1, "trees": [tree(0), tree(1), tree(2)]}]}})
}

fn plan(value: &Value) -> Plan {
    Plan::read(value.to_string().as_bytes(), "p").expect("readable")
}

fn sizes(list: &[u64]) -> Vec<Rational> {
    list.iter().map(|size| Rational::from(*size)).collect()
}

#[test]
fn rows_say_what_plans_cost_and_prove() {
    let topology = topology("three");
    let mut both = Comparison::new(&topology, sizes(&[0, 300, 300_000_000])).expect("sizes");
    both.add("steps.json", &plan(&steps(&topology))).expect("good");
    both.add("round.json", &plan(&round(&topology))).expect("good");
    assert_eq!((both.collective(), both.participants(), both.has_units()), (Some(Collective::AllGather), 3, true));
    let exact = |text: &str| Rational::parse(text).expect("a number");
    let [first, second] = &both.rows[..] else { panic!("two rows") };
    assert_eq!((&first.planner.as_deref(), &second.planner), (&Some("bfb"), &None));
    assert_eq!((&first.seconds, &second.seconds), (&Some(exact("1/4")), &None));
    assert_eq!((&first.latency, &first.per_byte), (&exact("1/100000"), &exact("1/300000000")));
    assert_eq!((&second.latency, &second.per_byte), (&exact("2/100000"), &exact("2/300000000")));
    assert_eq!(first.times, ["1/100000", "11/1000000", "100001/100000"].map(exact));
    let proof = first.proof.as_ref().expect("a certificate");
    assert!(proof.rechecked && proof.optimal && proof.bound.as_ref() == Some(&proof.value));
    assert!(second.proof.is_none());
    assert!((0..3).all(|place| both.is_best(first, place) && !both.is_best(second, place)));
    assert!(!both.is_best(first, 3));
}

#[test]
fn only_like_is_compared_with_like() {
    let topology = topology("three");
    let first = plan(&steps(&topology));
    let refused = |edit: &dyn Fn(&mut Value)| {
        let mut comparison = Comparison::new(&topology, sizes(&[1])).expect("sizes");
        comparison.add("a.json", &first).expect("good");
        let mut other = round(&topology);
        edit(&mut other);
        let errors = comparison.add("b.json", &plan(&other)).expect_err("unlike");
        assert_eq!(comparison.rows.len(), 1);
        let error = errors.all()[0].clone();
        assert_eq!(error.file, "b.json");
        (error.code, error.key, error.message)
    };
    let unlike = |key: &str, what: &str| ("E_RANGE", key.to_owned(), format!("not the {what} of a.json"));
    assert_eq!(refused(&|plan| plan["topology"]["sha256"] = json!("00")), unlike("/topology/sha256", "topology"));
    assert_eq!(refused(&|plan| plan["collective"] = json!("alltoall")), unlike("/collective", "collective"));
    assert_eq!(refused(&|plan| plan["participants"] = json!(["a", "b"])), unlike("/participants", "participants"));
    assert_eq!(refused(&|plan| plan["root"] = json!("a")), unlike("/root", "root"));
    let wrong = refused(&|plan| plan["content"]["forests"][0]["trees"][0]["weight"] = json!(2));
    assert_eq!((wrong.0, &*wrong.1), (crate::export::PLAN_REFUSED, "/content/forests/0/trees"));
    // Ranks may differ.
    let mut comparison = Comparison::new(&topology, sizes(&[1])).expect("sizes");
    comparison.add("a.json", &first).expect("good");
    let mut other = round(&topology);
    other["participants"] = json!(["c", "a", "b"]);
    comparison.add("b.json", &plan(&other)).expect("the same collective");
}

#[test]
fn there_are_limits() {
    let topology = topology("three");
    assert_eq!(Comparison::new(&topology, Vec::new()).expect_err("none").code(), E_LIMIT);
    assert_eq!(Comparison::new(&topology, sizes(&[1; MAX_SIZES + 1])).expect_err("too many").code(), E_LIMIT);
    let mut comparison = Comparison::new(&topology, sizes(&[1])).expect("sizes");
    for _ in 0..MAX_PLANS {
        comparison.add("p", &plan(&round(&topology))).expect("room");
    }
    assert_eq!(comparison.add("p", &plan(&round(&topology))).expect_err("too many").code(), E_LIMIT);
}

#[test]
fn a_picture_has_a_line_per_plan_and_escapes_names() {
    let topology = topology("<script>&");
    let mut both = Comparison::new(&topology, sizes(&[1_000, 1_000_000, 1_000_000_000])).expect("sizes");
    both.add("steps<1>.json", &plan(&steps(&topology))).expect("good");
    both.add("ring", &plan(&round(&topology))).expect("good");
    let svg = both.picture();
    assert_eq!(svg, both.picture());
    assert!(
        !svg.contains("<script")
            && svg.contains("&lt;script&gt;&amp;")
            && svg.contains("steps&lt;1&gt;.json, bfb: steps")
    );
    assert_eq!(svg.matches("<circle").count(), 6);
    assert_eq!(svg.matches("r=\"5\"").count(), 3, "the fastest of each size");
    for label in ["1 kB", "1 GB", "10 µs", "10 s", "prefers-color-scheme: dark"] {
        assert!(svg.contains(label), "{label}: {svg}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    // One size, and one that nothing can be said of on such axes.
    for list in [&[5][..], &[0][..]] {
        let mut one = Comparison::new(&topology, sizes(list)).expect("a size");
        one.add("ring", &plan(&round(&topology))).expect("good");
        let svg = one.picture();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
