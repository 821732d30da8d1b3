//! Exact allocations, orders and bounds: the conformance vectors, properties on random instances, and what is refused.

mod brute;
mod ends;
mod orders;
mod program;
mod properties;
mod vectors;

use serde_json::Value;
use sluice_planners::Run;
use sluice_planners_wan::generate::Workload;
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::{Flow, Instance, Link, form};

/// The text of a file of `sluice-planners-wan`.
fn data(name: &str) -> Vec<u8> {
    let path = format!("{}/../wan/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("the file is there")
}

/// The instances of the method's page, each with what is expected of it.
fn vectors() -> Vec<Value> {
    let file: Value = serde_json::from_slice(&data("tests/data/public-vectors.json")).expect("JSON");
    file["instances"].as_array().expect("a list").clone()
}

fn instance(vector: &Value) -> Instance {
    let mut form = vector.clone();
    let object = form.as_object_mut().expect("an object");
    object.remove("expected");
    object.remove("generator");
    form::read(form.to_string().as_bytes(), "vector").expect("an instance")
}

/// A generated instance on a topology, or on a ring where the name is `ring` with the number of nodes.
fn generated(topology: &str, collectives: usize, participants: usize, seed: u64) -> Instance {
    let graph = match topology.strip_prefix("ring") {
        Some(nodes) => Graph::ring(nodes.parse().expect("a number")).expect("a ring"),
        None => Graph::graphml(&data(&format!("data/{topology}.graphml")), topology).expect("a graph"),
    };
    let mut workload = Workload::new(&graph, collectives, seed);
    workload.participants = participants;
    workload.generate().expect("an instance")
}

/// Small instances of many kinds.
fn small() -> impl Iterator<Item = Instance> {
    let kinds =
        [("Arpanet196912", 1, 3), ("Arpanet196912", 2, 2), ("Arpanet196912", 3, 2), ("ring3", 2, 2), ("Napnet", 2, 2)];
    kinds.into_iter().flat_map(|(topology, k, n)| (1..=6).map(move |seed| generated(topology, k, n, seed)))
}

/// The instance with another capacity of one link.
fn widened(instance: &Instance, link: usize, factor: f64) -> Instance {
    let mut links: Vec<Link> = instance.links().to_vec();
    links[link].capacity *= factor;
    let flows: Vec<Flow> = instance.flows().to_vec();
    Instance::new(instance.name(), instance.nodes(), links, flows, None).expect("an instance")
}

fn quiet() -> Run<'static> {
    Run::quiet(1)
}

/// At most this, but for rounding.
#[track_caller]
fn at_most(found: f64, limit: f64, slack: f64, what: &str) {
    assert!(found <= limit + slack * limit.abs(), "{what}: {found}, more than {limit}");
}

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance * expected.abs(), "{what}: {found}, expected {expected}");
}
