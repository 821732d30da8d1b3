//! The all-to-all throughput of a topology without switches, as a figure of `sluice topology show`.

use serde::Serialize;
use sluice_formats::problem::{E_RANGE, Problem};
use sluice_formats::topology::Topology;
use sluice_planners::Run;

use crate::failure::Failure;

/// What every node can send to every other at once.
#[derive(Debug, Serialize)]
pub struct AllToAll {
    /// Some routing gives every pair this part of a link's capacity.
    pub rate: f64,
    /// No routing gives every pair more; "p/q".
    pub bound: String,
    /// Distance of the two, as a share of the bound.
    pub gap: f64,
    /// `one-source`, `program` or `descent`.
    pub method: &'static str,
    pub seconds: f64,
}

impl AllToAll {
    pub fn text(&self) -> String {
        let (rate, gap, method) = (self.rate, 100.0 * self.gap, self.method);
        format!("all-to-all: {rate:.6e} of a link for every pair, at most {gap:.4} % below the best ({method})\n")
    }
}

#[cfg(feature = "lp")]
pub fn of(topology: &Topology, file: &str, run: &Run) -> Result<AllToAll, Failure> {
    use sluice_formats::problem::Problems;
    use sluice_planners::direct::{Edge, Graph};
    use sluice_planners_lp::alltoall::{Method, Options, throughput};

    let refuse = |key: &str, message: &str, allowed: &str| {
        let error = Problem::new(E_RANGE, key, message).allowed(allowed);
        Failure::from(Problems::from(Problem { file: file.into(), ..error }))
    };
    if let Some(place) = topology.nodes().iter().position(|node| !node.is_compute()) {
        let message = "an all-to-all rate is of topologies without switches";
        return Err(refuse(&format!("/nodes/{place}"), message, "nodes that take part: gpu, host, site"));
    }
    let capacity = topology.links().first().map(|link| &link.capacity);
    if let Some(link) = topology.links().iter().find(|link| Some(&link.capacity) != capacity) {
        let message = "links have different capacities";
        return Err(refuse(&format!("/links/{}", link.entry), message, "one capacity for all links"));
    }
    let edges = topology.links().iter().map(|link| Edge { tail: link.from as u32, head: link.to as u32 });
    let began = std::time::Instant::now();
    let found = Graph::new(topology.nodes().len() as u32, edges.collect())
        .map_err(sluice_planners_lp::alltoall::Refusal::from)
        .and_then(|graph| throughput(&graph, None, &Options::default(), run))
        .map_err(|refusal| {
            let error = Problem::new(refusal.code(), "", refusal.to_string());
            Problems::from(Problem { file: file.into(), ..error })
        })?;
    Ok(AllToAll {
        rate: found.rate,
        bound: found.bound.to_string(),
        gap: found.gap(),
        method: match found.method {
            Method::OneSource => "one-source",
            Method::Program => "program",
            Method::Descent => "descent",
        },
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Says that this program cannot.
#[cfg(not(feature = "lp"))]
pub fn of(_: &Topology, _: &str, _: &Run) -> Result<AllToAll, Failure> {
    let error = Problem::new(E_RANGE, "--all-to-all", "this sluice was built without the solver");
    Err(error.allowed("a build with the feature `lp`, as `cargo build -p sluice` makes").into())
}
