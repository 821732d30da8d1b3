//! Step schedules from topology to plan, through the checker, and on as programs that the interpreter runs.

mod plans;
mod programs;
mod refusals;

use crate::common::edited;
use serde_json::json;
use sluice_formats::problem::Problems;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{complete, hypercube, ring, torus};
use sluice_plan::plan::Collective;
use sluice_planners::direct::{Instance, Made, Options, figures, make};
use sluice_planners::{Request, Run};

/// The collectives that steps serve.
const OF_STEPS: [Collective; 3] = [Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce];

fn exact(text: &str) -> Rational {
    Rational::parse(text).expect(text)
}

/// A topology of these one-way links, all alike.
fn links(name: &str, n: u32, pairs: impl IntoIterator<Item = (u32, u32)>) -> Topology {
    let node = |vertex: u32| json!({"id": format!("h{vertex}"), "kind": "host"});
    let link = |(from, to): (u32, u32)| json!({"from": format!("h{from}"), "to": format!("h{to}"), "capacity": "10Gbit/s", "latency": "2us"});
    let file = json!({
        "sluice_topology": 1, "name": name,
        "nodes": (0..n).map(node).collect::<Vec<_>>(), "links": pairs.into_iter().map(link).collect::<Vec<_>>()
    });
    Topology::read(file.to_string().as_bytes(), name).expect("valid")
}

/// The generalized Kautz graph Π(d, n), with its self-loops.
fn kautz(d: i64, n: i64) -> Topology {
    let heads = |x: i64| (1..=d).map(move |a| (x as u32, (-d * x - a).rem_euclid(n) as u32));
    links(&format!("Pi({d},{n})"), n as u32, (0..n).flat_map(heads))
}

/// Of every sort: one way and both ways, parallel links, self-loops, not regular, unequal.
fn graphs() -> Vec<Topology> {
    let made =
        [ring(5, "1", false), ring(6, "5Gbit/s", true), torus(&[3, 4], "1"), hypercube(3, "2"), complete(5, "4GB/s")];
    let mut all: Vec<Topology> = made.into_iter().map(|made| made.expect("valid")).collect();
    all.push(kautz(2, 7));
    all.push(kautz(4, 11));
    all.push(edited(&all[1], |file| file["links"][2]["count"] = json!(3)));
    all.push(edited(&all[2], |file| file["links"][0]["capacity"] = json!("1/2")));
    all.push(links("star", 5, (1..5).flat_map(|leaf| [(0, leaf), (leaf, 0)])));
    all
}

fn instance<'a>(topology: &'a Topology, collective: Collective, units: Option<u32>) -> Result<Instance<'a>, Problems> {
    Instance::new(topology, &Request::of_all(collective), &Options { units, ..Options::default() }, "t.json")
}

fn planned(topology: &Topology, collective: Collective, units: Option<u32>) -> Made {
    let refused = |errors: Problems| -> Made { panic!("{}: {errors}", topology.name()) };
    let instance = instance(topology, collective, units).expect("read");
    let made = make(&instance, &Run::quiet(2)).unwrap_or_else(refused);
    let alone = figures(&instance, &Run::quiet(1)).expect("figures");
    assert_eq!(alone, made.figures, "{}: the figures are those of the plan", topology.name());
    made
}
