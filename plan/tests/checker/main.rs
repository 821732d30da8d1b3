//! The checker on plans that are right, with the figures of the textbook, and on hundreds that are not.

mod certificates;
mod changes;
mod codes;
mod cost;
mod cuts;
mod damaged;
mod damaged_steps;
mod demands;
mod dual;
mod epochs;
mod features;
mod flows;
mod gateway;
mod greedy_sends;
mod guide;
mod hops;
mod naive;
mod plain;
mod programs;
mod scene;
mod sends;
mod step_plans;
mod steps;
mod sums;

use proptest::prelude::*;
use scene::{OF_TREES, edited, fabrics, forests, fraction, on};
use serde_json::{Value, json};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{Wiring, complete, dgx_a100, ring, star};
use sluice_plan::check::{Code, check};
use sluice_plan::plan::{Certificate, CertificateKind, Collective, Nullable, PerByte, Plan};

#[test]
fn textbook_figures() {
    // One tree per root straight to everybody: each link of K_n carries one of n shards.
    let time = |topology: &Topology, collective| {
        naive::trees(topology, collective).body.claim.time_per_byte.expect("claimed").value
    };
    let mesh = complete(5, "4").expect("valid");
    assert_eq!(time(&mesh, Collective::AllGather), fraction(1, 20));
    assert_eq!(time(&mesh, Collective::ReduceScatter), fraction(1, 20));
    assert_eq!(time(&mesh, Collective::AllReduce), fraction(1, 10));
    assert_eq!(time(&mesh, Collective::Broadcast), fraction(1, 4));
    // Each of n nodes takes in n − 1 of n shards from the switch: (n − 1) / (n · b).
    let middle = star(&["3"; 8]).expect("valid");
    assert_eq!(time(&middle, Collective::AllGather), fraction(7, 24));
    assert_eq!(time(&middle, Collective::Broadcast), fraction(7, 3), "the root sends everything seven times");
    // A ring one way: every link carries all shards but the one that ends there.
    let round = ring(5, "2", false).expect("valid");
    assert_eq!(time(&round, Collective::AllGather), fraction(4, 10));
    assert_eq!(time(&round, Collective::Reduce), fraction(1, 2));
    // With units: 4 GB/s, and M/T in GB/s.
    let plan = naive::trees(&complete(5, "4GB/s").expect("valid"), Collective::AllGather);
    assert_eq!(plan.body.claim.time_per_byte.expect("claimed").value, fraction(1, 20_000_000_000));
    assert_eq!(plan.body.claim.algorithm_bandwidth.expect("claimed").0, Rational::from(20));
    // All-to-all on K_n: each link carries what one node has for one other, 1/n.
    let plan = naive::paths(&mesh, Collective::AllToAll);
    assert_eq!(plan.body.claim.time_per_byte.expect("claimed").value, fraction(1, 20));
}

#[test]
fn right_plans_pass_also_after_writing_and_reading() {
    for topology in fabrics() {
        for collective in OF_TREES {
            let plan = naive::trees(&topology, collective);
            let again = Plan::read(plan.to_text().as_bytes(), "p").expect("what is written is valid");
            for report in [check(&again, None), check(&again, Some(&topology))] {
                assert_eq!(report.violation, None, "{} on {}", collective.word(), topology.name());
                assert!(report.proved.len() >= 4);
            }
        }
    }
}

#[test]
fn certificates_are_recomputed() {
    // One node outside: n − 1 of n shards over its own link.
    let topology = star(&["3"; 8]).expect("valid");
    let mut plan = naive::trees(&topology, Collective::AllGather);
    let cut: Vec<_> =
        (0..7).map(|i| format!("n{i}")).chain(["sw".to_owned()]).map(|id| plan.names.intern(&id)).collect();
    let claim = &mut plan.body.claim;
    claim.certificate = Some(Certificate { nodes: Some(cut), ..Certificate::new(CertificateKind::Cut) });
    claim.lower_bound = Some(PerByte { value: fraction(7, 24), seconds: false });
    claim.optimal = Some(true);
    let report = check(&plan, None);
    assert_eq!(report.violation, None);
    assert!(report.proved.iter().any(|proved| proved == "the plan is optimal"));
    assert_eq!(report.figures.expect("computed").lower_bound, Some(fraction(7, 24)));

    let code = |edit: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        edit(&mut plan);
        check(&plan, None).violation.map(|violation| violation.code)
    };
    let nodes = |plan: &mut Plan, edit: &dyn Fn(&mut Vec<_>)| {
        edit(plan.body.claim.certificate.as_mut().expect("one").nodes.as_mut().expect("a cut"));
    };
    assert_eq!(code(&|plan| nodes(plan, &|list| list.truncate(7))), Some(Code::WrongBound), "7 of 8 over 7 links");
    assert_eq!(code(&|plan| nodes(plan, &|list| list.truncate(0))), Some(Code::BadCertificate));
    assert_eq!(code(&|plan| nodes(plan, &|list| list.push(list[0]))), Some(Code::BadCertificate));
    let bound = |value| Some(PerByte { value, seconds: false });
    assert_eq!(code(&|plan| plan.body.claim.lower_bound = bound(fraction(1, 3))), Some(Code::WrongBound));
    assert_eq!(code(&|plan| plan.body.claim.certificate = None), Some(Code::WrongBound));
    let solver = Certificate::new(CertificateKind::Solver);
    let by_solver = |plan: &mut Plan, value| {
        plan.body.claim.certificate = Some(solver.clone());
        plan.body.claim.lower_bound = bound(value);
    };
    assert_eq!(code(&|plan| by_solver(plan, fraction(7, 24))), None, "taken on trust, and said so");
    assert_eq!(code(&|plan| by_solver(plan, fraction(1, 3))), Some(Code::BoundAboveTime));
    assert_eq!(code(&|plan| by_solver(plan, fraction(1, 4))), Some(Code::NotOptimal));
    let bandwidth = Certificate::new(CertificateKind::Bandwidth);
    assert_eq!(code(&|plan| plan.body.claim.certificate = Some(bandwidth.clone())), None);
    // An all-reduce over one switch cannot beat 2(n − 1)/n, unless the switch helps.
    let mut plan = naive::trees(&topology, Collective::AllReduce);
    plan.body.claim.certificate = Some(bandwidth);
    plan.body.claim.optimal = Some(true);
    assert_eq!(check(&plan, None).violation, None);
    let helping = edited(&topology, |file| file["nodes"][8]["can"] = json!({"aggregate": true}));
    assert_eq!(check(&on(&plan, &helping), None).violation.map(|v| v.code), Some(Code::BadCertificate));
}

#[test]
fn u_is_what_the_loads_say() {
    let topology = star(&["3GB/s"; 8]).expect("valid");
    let mut plan = naive::trees(&topology, Collective::AllGather);
    let code = |plan: &Plan| check(plan, None).violation.map(|violation| violation.code);
    let set = |plan: &mut Plan, u, fixed| {
        let forest = &mut forests(plan).forests[0];
        (forest.u, forest.fixed_k) = (Some(Nullable(Some(u))), fixed);
    };
    set(&mut plan, fraction(7, 3), None);
    assert_eq!(code(&plan), None, "seven trees over 3 GB/s");
    set(&mut plan, fraction(8, 3), None);
    assert_eq!(code(&plan), Some(Code::WrongU));
    set(&mut plan, fraction(8, 3), Some(true));
    assert_eq!(code(&plan), None, "a fixed k may leave links partly idle");
    set(&mut plan, fraction(6, 3), Some(true));
    assert_eq!(code(&plan), Some(Code::WrongU));
}

#[test]
fn fractions_of_trees_and_all_reduce_without_k() {
    let topology = complete(4, "1").expect("valid");
    let mut plan = naive::trees(&topology, Collective::AllReduce);
    // Root everything in n0: allowed as long as both forests agree.
    let agree = |plan: &mut Plan, share: [Rational; 2]| {
        for (forest, share) in forests(plan).forests.iter_mut().zip(share) {
            forest.k = Nullable(None);
            forest.trees.truncate(2);
            (forest.trees[0].weight, forest.trees[1].weight) = (share.clone(), &Rational::ONE - &share);
        }
        plan.body.claim = Default::default();
    };
    agree(&mut plan, [fraction(2, 3), fraction(2, 3)]);
    let report = check(&plan, None);
    assert_eq!(report.violation, None);
    assert_eq!(report.figures.expect("computed").time_per_byte, fraction(1, 1), "n0 → n1 carries 1/3 in and 2/3 out");
    agree(&mut plan, [fraction(2, 3), fraction(3, 5)]);
    assert_eq!(check(&plan, None).violation.map(|violation| violation.code), Some(Code::UnequalForests));
    // Claims of fractional plans are compared within 10⁻⁷.
    agree(&mut plan, [fraction(2, 3), fraction(2, 3)]);
    let off = |by: i64| Some(PerByte { value: fraction(by + 1, by), seconds: false });
    plan.body.claim.time_per_byte = off(100_000_000);
    assert_eq!(check(&plan, None).violation, None);
    plan.body.claim.time_per_byte = off(1_000_000);
    assert_eq!(check(&plan, None).violation.map(|violation| violation.code), Some(Code::WrongTime));
}

#[test]
fn groups_and_parallel_links_count() {
    let topology = complete(4, "1").expect("valid");
    let plan = naive::trees(&topology, Collective::AllGather);
    let grouped = edited(&topology, |file| {
        file["links"][0]["count"] = json!(2);
        let all = json!([["n0", "n1"], ["n0", "n2"], ["n0", "n3"]]);
        file["groups"] = json!([{"capacity": "1/2", "links": all}, {"capacity": "1/16", "links": [["n0", "n1", 1]]}]);
    });
    let mut plan = on(&plan, &grouped);
    plan.body.claim = Default::default();
    let time = |plan: &Plan| check(plan, None).figures.expect("computed").time_per_byte;
    // Half of the quarter on n0 → n1 lies on its second link: 1/8 over 1/16; all three quarters over 1/2.
    assert_eq!(time(&plan), fraction(2, 1));
    plan.body.ignored = Some(vec!["groups".into()]);
    assert_eq!(time(&plan), fraction(1, 4));
    assert!(!check(&plan, None).not_rechecked.is_empty());
}

#[test]
fn weights_have_a_common_denominator() {
    let topology = complete(2, "1").expect("valid");
    let mut plan = naive::trees(&topology, Collective::AllGather);
    let trees = &mut forests(&mut plan).forests[0].trees;
    let more = (2..10_000).map(|q| sluice_plan::plan::Tree { weight: fraction(1, q), ..trees[0].clone() });
    *trees = more.collect();
    assert_eq!(check(&plan, None).violation.map(|violation| violation.code), Some(Code::TooFine));
}

#[test]
fn nodes_between_must_only_forward() {
    // s is a host that takes no part: as an end of edges it may copy, on a path it may not be passed.
    let text = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"gpu"},{"id":"b","kind":"gpu"},{"id":"s","kind":"host"}],
        "links":[{"from":"a","to":"s","capacity":"1","duplex":true},{"from":"s","to":"b","capacity":"1","duplex":true}]}"#;
    let topology = Topology::read(text.as_bytes(), "t").expect("valid");
    let plan = |edges: &str| {
        let text = format!(
            r#"{{"sluice_plan":1,"collective":"broadcast","root":"a","participants":["a","b"],"claim":{{}},
            "topology":{{"sha256":"{}"}},"content":{{"kind":"trees","forests":[{{"direction":"out","k":1,
            "trees":[{{"root":"a","weight":1,"edges":[{edges}]}}]}}]}}}}"#,
            topology.digest()
        );
        Plan::read(text.as_bytes(), "p").expect("readable")
    };
    let code = |plan: &Plan, topology: &Topology| check(plan, Some(topology)).violation.map(|violation| violation.code);
    let passed = plan(r#"{"src":"a","dst":"b","path":["a","s","b"]}"#);
    let ended = plan(r#"{"src":"a","dst":"s","path":["a","s"]},{"src":"s","dst":"b","path":["s","b"]}"#);
    let leaf = plan(r#"{"src":"a","dst":"s","path":["a","s"]}"#);
    assert_eq!(code(&passed, &topology), Some(Code::PathThroughCompute));
    assert_eq!(code(&ended, &topology), None);
    assert_eq!(code(&leaf, &topology), Some(Code::NotSpanning));
    let idle = plan(r#"{"src":"a","dst":"s","path":["a","s"]},{"src":"a","dst":"b","path":["a","s","b"]}"#);
    let unable = edited(&topology, |file| file["nodes"][2]["can"] = json!({"copy": false, "reduce": false}));
    assert_eq!(code(&on(&passed, &unable), &unable), None, "it can nothing but forward");
    assert_eq!(code(&on(&ended, &unable), &unable), Some(Code::CannotCopy));
    assert_eq!(code(&on(&idle, &unable), &unable), Some(Code::IdleLeaf));
}

/// Does every node get the data, by letting it spread over the edges until nothing changes; and nobody twice?
fn spreads(n: usize, root: usize, edges: &[(usize, usize)]) -> bool {
    let mut has = vec![false; n];
    has[root] = true;
    for _ in 0..n {
        for (from, to) in edges {
            if has[*from] {
                has[*to] = true;
            }
        }
    }
    edges.len() == n - 1 && has.iter().all(|has| *has)
}

proptest! {
    /// Any set of edges on a complete graph: the checker and plain spreading agree whether it is a tree.
    #[test]
    fn it_agrees_with_spreading(root in 0_usize..5, edges in proptest::collection::vec((0_usize..5, 0_usize..5), 0..6), inward: bool) {
        let topology = complete(5, "1").expect("valid");
        let (collective, direction) =
            if inward { (Collective::Reduce, "in") } else { (Collective::Broadcast, "out") };
        let written: Vec<Value> = edges.iter().map(|(parent, child)| {
            let (src, dst) = if inward { (child, parent) } else { (parent, child) };
            json!({"src": format!("n{src}"), "dst": format!("n{dst}"), "path": [format!("n{src}"), format!("n{dst}")]})
        }).collect();
        let plan = json!({"sluice_plan": 1, "collective": collective.word(), "root": format!("n{root}"), "claim": {},
            "topology": {"sha256": topology.digest()}, "content": {"kind": "trees", "forests": [
            {"direction": direction, "k": 1, "trees": [{"root": format!("n{root}"), "weight": 1, "edges": written}]}]}});
        let plan = Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
        let loops = edges.iter().any(|(a, b)| a == b);
        prop_assert_eq!(check(&plan, Some(&topology)).ok(), !loops && spreads(5, root, &edges));
    }
}

proptest! {
    /// Damaged bytes: whatever can still be read is checked without a panic.
    #[test]
    fn damaged_bytes_never_panic(which in 0_usize..5, at: usize, byte in prop_oneof![any::<u8>(), 48_u8..58], drop in 0_usize..6) {
        let topology = star(&["1", "2", "3"]).expect("valid");
        let text = match which {
            4 => naive::paths(&topology, Collective::AllToAll).to_text(),
            _ => naive::trees(&topology, OF_TREES[which]).to_text(),
        };
        let mut bytes = text.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.drain(at..(at + drop).min(bytes.len()));
        if let Ok(plan) = Plan::read(&bytes, "p") {
            let _ = check(&plan, None);
            let _ = check(&plan, Some(&topology));
        }
    }
}

/// `cargo test -p sluice-plan --release --test checker -- --ignored --nocapture million`
#[test]
#[ignore = "a measurement"]
fn a_million_tree_edges() {
    use std::time::Instant;
    let topology = dgx_a100(128, Wiring::Plain).expect("valid");
    let begin = Instant::now();
    let plan = naive::trees(&topology, Collective::AllGather);
    let built = begin.elapsed();
    let text = plan.to_text();
    let begin = Instant::now();
    let plan = Plan::read(text.as_bytes(), "p").expect("valid");
    let read = begin.elapsed();
    let begin = Instant::now();
    let report = check(&plan, None);
    let checked = begin.elapsed();
    assert_eq!(report.violation, None);
    println!(
        "1024 GPUs, 1047552 edges, {} MB: built {built:?}, read {read:?}, checked {checked:?}",
        text.len() / 1_000_000
    );
}
