//! Fluid programs: the figures of the method's page, properties, and what is refused.

mod crosses;
mod labels;
mod large;
mod master;
mod properties;
mod relaxed;
mod samples;
mod solve;
mod steps;
mod timed;

use sluice_formats::topology::Topology;
use sluice_plan::plan::Collective;
use sluice_planners::fluid::instance::Instance;
use sluice_planners::{Request, Run};
use sluice_planners_lp::fluid::solve::{Method, Options, Solved, Strength, solve};

/// A small fabric of the method's page.
fn fabric(name: &str) -> Topology {
    let path = format!("{}/tests/fluid/fabrics/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Topology::load(std::path::Path::new(&path)).expect("a fabric")
}

/// What everybody's collective comes to, without a plan; the first node is the root where one is needed.
fn of_all(topology: &Topology, collective: Collective, strength: Strength, method: Method) -> Solved {
    let root = topology.nodes()[0].id.to_string();
    let request = Request { root: collective.is_rooted().then_some(&*root), ..Request::of_all(collective) };
    let instance = Instance::new(topology, &request, None, "t").expect("can be served");
    let options = Options { strength: Some(strength), method, routes: false, ..Options::default() };
    solve(&instance, &options, &Run::quiet(1)).expect("solved")
}

/// R and the cost.
fn figures(topology: &Topology, collective: Collective, strength: Strength, method: Method) -> (f64, f64) {
    let solved = of_all(topology, collective, strength, method);
    (solved.latency.value, solved.cost.expect("a cost").value)
}
