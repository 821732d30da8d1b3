//! What the tests of checker and exporters share: collectives, small fabrics of every sort, and changes to them.

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::{Wiring, complete, dgx_a100, hypercube, ring, star, torus};
use sluice_plan::plan::Collective;

/// The collectives that trees serve.
pub const OF_TREES: [Collective; 5] = [
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::Broadcast,
    Collective::Reduce,
];

/// Direct links, switches, one way, unequal shares.
pub fn fabrics() -> Vec<Topology> {
    let made = [
        star(&["1", "2", "3", "1", "2"]),
        complete(5, "4GB/s"),
        ring(6, "5Gbit/s", true),
        ring(5, "7/2", false),
        torus(&[3, 3], "1"),
        hypercube(3, "2"),
        dgx_a100(1, Wiring::Plain),
    ];
    let mut fabrics: Vec<Topology> = made.into_iter().map(|made| made.expect("valid")).collect();
    fabrics.push(edited(&fabrics[1], |file| {
        file["nodes"][0]["weight"] = json!(3);
        file["nodes"][2]["weight"] = json!(0);
    }));
    fabrics
}

/// The topology with its file changed.
pub fn edited(topology: &Topology, edit: impl Fn(&mut Value)) -> Topology {
    let mut file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    edit(&mut file);
    Topology::read(file.to_string().as_bytes(), "t").expect("valid")
}
