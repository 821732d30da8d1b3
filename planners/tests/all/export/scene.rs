//! What the tests share: fabrics, collectives, plans of every kind of tree, and an export that must succeed.

pub use crate::common::{OF_TREES, edited, fabrics};

use serde_json::{Value, json};
use sluice_formats::topology::Topology;
use sluice_formats::topology::r#gen::complete;
use sluice_plan::export::{Export, Format, Options, export};
use sluice_plan::plan::{Claim, Collective, Content, Plan};
use sluice_planners::forestcoll::{self, Instance, Way, make};
use sluice_planners::{Request, Run};

/// A plan by ForestColl; rooted collectives have the second participant for root.
pub fn planned(topology: &Topology, collective: Collective, fixed_k: Option<i64>) -> Plan {
    made(topology, collective, forestcoll::Options { fixed_k, ..forestcoll::Options::default() }, Way::Phases)
}

/// The best all-reduce, whose trees may differ on the way in and on the way out.
pub fn best_all_reduce(topology: &Topology) -> Plan {
    let options = forestcoll::Options { in_network: false, ..forestcoll::Options::default() };
    made(topology, Collective::AllReduce, options, Way::Program)
}

fn made(topology: &Topology, collective: Collective, options: forestcoll::Options, way: Way) -> Plan {
    let second = topology.compute()[1];
    let root = collective.is_rooted().then(|| &*topology.nodes()[second].id);
    let request = Request { collective, participants: None, root, ignore: &[] };
    let instance = Instance::new(topology, &request, "t").expect("a problem");
    let mut plan = make(&instance, &options, way, &Run::quiet(1)).unwrap_or_else(|errors| panic!("{errors}")).plan;
    // It claims nothing, so that a test may change it.
    plan.body.claim = Claim::default();
    if let Content::Trees(trees) = &mut plan.body.content {
        trees.forests.iter_mut().for_each(|forest| forest.u = None);
    }
    plan
}

/// No limits: the interpreter has none.
pub fn unlimited(instances: u32) -> Options {
    Options { instances, limits: false, ..Options::default() }
}

/// What plans of kind `trees` are exported as.
pub fn formats_of_trees() -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|format| !matches!(format, Format::OnecclXml | Format::TecclJson | Format::Html))
}

/// An export that must succeed.
pub fn exported(plan: &Plan, format: Format, options: &Options) -> Export {
    export(plan, None, format, options).unwrap_or_else(|errors| panic!("{}: {errors}", format.word()))
}

/// The text of an export of one file.
pub fn text(plan: &Plan, format: Format, options: &Options) -> String {
    let mut files = exported(plan, format, options).files;
    assert_eq!(files.len(), 1);
    files.remove(0).text
}

/// An all-reduce of three, by hand: half of each sum comes in straight and half through the other rank, and all of it
/// goes out straight.
pub fn two_ways() -> Plan {
    let topology = complete(3, "1").expect("valid");
    let id = |node: usize| format!("n{}", node % 3);
    let edge = |from: usize, to: usize| json!({"src": id(from), "dst": id(to), "path": [id(from), id(to)]});
    let tree =
        |root: usize, weight: u32, edges: [Value; 2]| json!({"root": id(root), "weight": weight, "edges": edges});
    let inward = (0..3).flat_map(|root| {
        let (next, last) = (root + 1, root + 2);
        let through = [edge(next, root), edge(last, next)];
        [tree(root, 1, [edge(next, root), edge(last, root)]), tree(root, 1, through)]
    });
    let outward = (0..3).map(|root| tree(root, 2, [edge(root, root + 1), edge(root, root + 2)]));
    let forests = json!([{"direction": "in", "k": 2, "trees": inward.collect::<Vec<_>>()},
        {"direction": "out", "k": 2, "trees": outward.collect::<Vec<_>>()}]);
    let file: Value = serde_json::from_str(&topology.to_compact()).expect("JSON");
    let plan = json!({"sluice_plan": 1, "collective": "allreduce", "claim": {},
        "topology": {"sha256": topology.digest(), "inline": file}, "content": {"kind": "trees", "forests": forests}});
    Plan::read(plan.to_string().as_bytes(), "p").expect("readable")
}
