//! TE-CCL with the solver: the vectors of its specification, small graphs tried whole, rounds, and what is refused.

mod divided;
mod everything;
mod limits;
mod rounds;
mod sums;
mod tenants;
mod vectors;

use sluice_formats::problem::Problems;
use sluice_formats::quantity::{Rational, size};
use sluice_formats::topology::{Topology, import};
use sluice_plan::plan::{Collective, Demands};
use sluice_planners::teccl::demand::Wanted;
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{Instance, Made, Options, Volume, divided as pieces, make};
use sluice_planners::{Request, Run};
use sluice_planners_lp::teccl::{flow::Flow, milp::Milp};

/// A fabric of the paper, by name.
fn fabric(name: &str, copying: bool) -> Topology {
    let all = include_str!("../../../tests/teccl/fabrics.jsonl");
    let start = format!("{{\"name\":\"{name}\"");
    let line = all.lines().find(|line| line.starts_with(&start)).expect("there");
    import::teccl(line.as_bytes(), name, copying).expect("valid")
}

/// A fabric in the form `teccl`: nodes, of which the last are switches, and groups of links.
fn small(nodes: usize, switches: usize, links: &serde_json::Value, copying: bool) -> Topology {
    let gpus = nodes - switches;
    let of: Vec<usize> = (gpus..nodes).collect();
    let file = serde_json::json!({"name": "t", "nodes": nodes, "gpus": gpus, "switches": of, "links": links});
    import::teccl(file.to_string().as_bytes(), "t", copying).expect("valid")
}

/// Links of 25 GB/s without latency, one way.
fn unit(nodes: usize, links: &[(usize, usize)]) -> Topology {
    let pairs: Vec<[usize; 2]> = links.iter().map(|(from, to)| [*from, *to]).collect();
    small(nodes, 0, &serde_json::json!([{"GBps": 25, "alpha_us": 0, "both_ways": false, "pairs": pairs}]), false)
}

/// The same fabric with keys changed.
fn edited(topology: &Topology, edit: impl Fn(&mut serde_json::Value)) -> Topology {
    let mut file: serde_json::Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    edit(&mut file);
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}

/// The same without latency.
fn at_once(topology: &Topology) -> Topology {
    edited(topology, |file| {
        for link in file["links"].as_array_mut().expect("links") {
            link.as_object_mut().expect("a link").remove("latency");
        }
    })
}

/// Chunks of 25 kB.
fn options(chunks: u64, epoch: EpochLength) -> Options {
    let volume = Volume::Chunk(size("25kB").expect("a size"));
    Options { chunks, epoch, theta: Rational::ZERO, ..Options::of(volume) }
}

/// Demands of a file.
fn wanted(file: &serde_json::Value) -> Result<Wanted, Problems> {
    let (demands, names) = Demands::read(file.to_string().as_bytes(), "demands.json")?;
    Ok(Wanted { demands, names, file: "demands.json".into() })
}

fn tried(topology: &Topology, collective: Collective, options: &Options) -> Result<Made, Problems> {
    let root = collective.is_rooted().then(|| topology.nodes()[0].id.to_string());
    let request = Request { root: root.as_deref(), ..Request::of_all(collective) };
    let instance = Instance::new(topology, &request, options, "topology.json")?;
    if options.divisible {
        return pieces::make(&instance, &Flow::default(), &Run::quiet(1));
    }
    make(&instance, Some(&Milp::default()), &Run::quiet(1))
}

fn planned(topology: &Topology, collective: Collective, options: &Options) -> Made {
    tried(topology, collective, options).unwrap_or_else(|problems| panic!("{problems}"))
}
