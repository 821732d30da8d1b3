//! The public conformance vectors: optimum, U, k, bottleneck, fixed k, refusals, and a forest for each.

use crate::forestcoll::allreduce::check_both;
use crate::forestcoll::checker::{algbw, big, check, check_optimal, cut_ratio};
use num_rational::BigRational;
use serde_json::Value;
use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::forestcoll::{Collective, Fabric, Options, all_reduce, optimum, plan};
use std::collections::HashMap;

fn vectors() -> Vec<Value> {
    let text = include_str!("../../../../formats/tests/vectors/forestcoll.json");
    let all: Value = serde_json::from_str(text).expect("the vectors are JSON");
    all["vectors"].as_array().expect("a list").clone()
}

fn rational(value: &Value) -> Rational {
    match value {
        Value::String(text) => text.parse().expect("a fraction"),
        _ => Rational::new(value.as_i64().expect("a whole number"), 1).expect("not over zero"),
    }
}

fn exact(value: &Value) -> BigRational {
    value.as_str().expect("a fraction as text").parse().expect("a fraction")
}

/// A topology of the vectors by index; a name that is not declared becomes an index that does not exist.
fn fabric(topology: &Value) -> Fabric {
    let list = |key: &str| -> Vec<String> {
        topology[key].as_array().expect("nodes").iter().map(|name| name.as_str().expect("text").into()).collect()
    };
    let mut names = list("compute");
    let compute = names.len();
    names.extend(list("switches"));
    let index: HashMap<String, u32> = names.iter().cloned().zip(0..).collect();
    let node = |value: &Value| index.get(value.as_str().expect("a name")).copied().unwrap_or(u32::MAX);
    let edges = topology["edges"].as_array().expect("edges").iter();
    let links = edges.map(|edge| (node(&edge[0]), node(&edge[1]), rational(&edge[2]))).collect();
    let weights = match topology["weights"].as_object() {
        Some(weights) => {
            names[..compute].iter().map(|name| weights.get(name).map_or(0, |w| w.as_u64().expect("a share"))).collect()
        }
        None => Vec::new(),
    };
    Fabric { names, compute, weights, links, ..Fabric::default() }
}

#[test]
fn optima_and_forests() {
    let mut seen = 0;
    for vector in vectors().iter().filter(|vector| vector["expected"].get("error").is_none()) {
        let (id, expected) = (&vector["id"], &vector["expected"]);
        let fabric = fabric(&vector["topology"]);
        let options = Options { symmetry: seen % 2 == 0, ..Options::default() };
        let planned = plan(&fabric, Collective::AllGather, &options, &Run::quiet(2)).expect("a plan");
        let optimum = &planned.optimum;
        assert_eq!(optimum.inverse_x, rational(&expected["inv_x_star"]), "{id}");
        assert_eq!(optimum.u, rational(&expected["U"]), "{id}");
        assert_eq!(optimum.k, expected["k"].as_u64().expect("k"), "{id}");
        assert_eq!(algbw(&fabric, &optimum.inverse_x), exact(&expected["algbw"]), "{id}");
        let named = expected["bottleneck_cut"].as_array().expect("a cut");
        let cut: Vec<u32> = named
            .iter()
            .map(|name| fabric.names.iter().position(|other| other == name).expect("a node") as u32)
            .collect();
        assert_eq!(cut_ratio(&fabric, &cut), big(&optimum.inverse_x), "{id}: the cut of the vectors");
        check_optimal(&fabric, optimum, &planned.forests[0]).unwrap_or_else(|why| panic!("{id}: {why}"));
        seen += 1;
    }
    assert!(seen >= 30, "{seen} vectors");
}

#[test]
fn fixed_k() {
    let mut seen = 0;
    for vector in vectors().iter().filter(|vector| vector["expected"].get("fixed_k").is_some()) {
        let fabric = fabric(&vector["topology"]);
        for (k, expected) in vector["expected"]["fixed_k"].as_object().expect("by k") {
            let options = Options { fixed_k: Some(k.parse().expect("k")), ..Options::default() };
            let planned = plan(&fabric, Collective::AllGather, &options, &Run::quiet(1)).expect("a plan");
            let forest = &planned.forests[0];
            assert_eq!(forest.u, rational(&expected["U"]), "{} k = {k}", vector["id"]);
            let trees = Rational::from(forest.k.expect("k"));
            assert_eq!(algbw(&fabric, &(&forest.u / &trees)), exact(&expected["algbw"]), "{} k = {k}", vector["id"]);
            check(&fabric, forest).unwrap_or_else(|why| panic!("{} k = {k}: {why}", vector["id"]));
            seen += 1;
        }
    }
    assert!(seen >= 25, "{seen} forests");
}

#[test]
fn refusals() {
    let mut seen = 0;
    for vector in vectors().iter().filter(|vector| vector["expected"].get("error").is_some()) {
        let refusal = optimum(&fabric(&vector["topology"]), false, &Run::quiet(1)).expect_err("a refusal");
        assert_eq!(refusal.code(), vector["expected"]["error"], "{}: {refusal}", vector["id"]);
        seen += 1;
    }
    assert_eq!(seen, 7);
}

#[test]
fn all_reduce_programs() {
    let mut seen = 0;
    for vector in vectors().iter().filter(|vector| vector["expected"].get("allreduce_sum_x").is_some()) {
        let fabric = fabric(&vector["topology"]);
        let start = std::time::Instant::now();
        let planned = all_reduce(&fabric, false, &Run::quiet(2)).expect("a plan");
        println!("{}: {:.2?}, {} trees", vector["id"], start.elapsed(), planned.forests[0].trees());
        let expected = &vector["expected"]["allreduce_sum_x"];
        assert_eq!(big(&planned.sum_x), exact(&expected["value"]), "{}", vector["id"]);
        check_both(&fabric, &planned).unwrap_or_else(|why| panic!("{}: {why}", vector["id"]));
        let best = optimum(&fabric, false, &Run::quiet(1)).expect("an optimum");
        let phases = &Rational::new(fabric.compute as i128, 2).expect("not over zero") / &best.inverse_x;
        assert_eq!(big(&phases), exact(&expected["rs_ag"]), "{}", vector["id"]);
        seen += 1;
    }
    assert_eq!(seen, 9);
}
