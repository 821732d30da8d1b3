//! From a topology to the planner's fabric and from its forests to a plan.

use num_traits::ToPrimitive;
use serde_json::{Value, json};
use sluice_plan::forestcoll::{self, Fabric, Options, Run};
use sluice_plan::plan::{Collective, Content, Direction, Edge, Forest, Hop, Names, Nullable, Plan, Tree, Trees};
use sluice_plan::quantity::Rational;
use sluice_plan::topology::Topology;
use sluice_plan::topology::r#gen::complete;

fn ratio(value: &Rational) -> forestcoll::Rational {
    let part = |part: num_bigint::BigInt| part.to_i128().expect("small");
    forestcoll::Rational::new(part(value.numerator()), part(value.denominator()))
}

/// The fabric, and for each of its nodes the index in the topology.
fn fabric(topology: &Topology) -> (Fabric, Vec<usize>) {
    let nodes = topology.nodes();
    let mut order = topology.compute();
    order.extend((0..nodes.len()).filter(|node| !nodes[*node].is_compute()));
    let place = |node: usize| order.iter().position(|other| *other == node).expect("there") as u32;
    let links = topology.links().iter().map(|link| {
        let capacity = topology.unit().express(link.capacity.finite().expect("finite"));
        (place(link.from), place(link.to), ratio(&capacity))
    });
    let fabric = Fabric {
        names: order.iter().map(|node| nodes[*node].id.to_string()).collect(),
        compute: topology.compute().len(),
        weights: topology.compute().iter().map(|node| nodes[*node].weight).collect(),
        multicast: order.iter().map(|node| !nodes[*node].is_compute() && nodes[*node].can.copy).collect(),
        aggregate: order.iter().map(|node| !nodes[*node].is_compute() && nodes[*node].can.reduce).collect(),
        links: links.collect(),
        boxes: Vec::new(),
    };
    (fabric, order)
}

/// A plan by ForestColl; rooted collectives have the second participant for root.
pub fn planned(topology: &Topology, collective: Collective, fixed_k: Option<i64>) -> Plan {
    let (fabric, order) = fabric(topology);
    let of = match collective {
        Collective::AllGather => forestcoll::Collective::AllGather,
        Collective::ReduceScatter => forestcoll::Collective::ReduceScatter,
        Collective::AllReduce => forestcoll::Collective::AllReduce,
        Collective::Broadcast => forestcoll::Collective::Broadcast { root: 1 },
        Collective::Reduce => forestcoll::Collective::Reduce { root: 1 },
        other => panic!("{}", other.word()),
    };
    let options = Options { fixed_k, ..Options::default() };
    let made = forestcoll::plan(&fabric, of, &options, &Run::quiet(1)).expect("a plan");
    from_forests(topology, collective, &order, made.forests)
}

/// The best all-reduce, whose trees differ on the way in and on the way out.
pub fn best_all_reduce(topology: &Topology) -> Plan {
    let (fabric, order) = fabric(topology);
    let made = forestcoll::all_reduce(&fabric, false, &Run::quiet(1)).expect("a plan");
    from_forests(topology, Collective::AllReduce, &order, made.forests)
}

fn from_forests(
    topology: &Topology,
    collective: Collective,
    order: &[usize],
    forests: Vec<forestcoll::Forest>,
) -> Plan {
    let mut names = Names::default();
    let ids: Vec<_> = order.iter().map(|node| names.intern(&topology.nodes()[*node].id)).collect();
    let id = |node: u32| ids[node as usize];
    let forests = forests.into_iter().map(|forest| Forest {
        u: None,
        direction: match forest.direction {
            forestcoll::Direction::Out => Direction::Out,
            forestcoll::Direction::In => Direction::In,
        },
        fixed_k: forest.fixed_k.then_some(true),
        k: Nullable(forest.k),
        trees: forest
            .trees
            .into_iter()
            .map(|tree| Tree {
                edges: tree
                    .edges
                    .iter()
                    .map(|edge| {
                        let via = edge.path[1..edge.path.len() - 1].iter().map(|node| id(*node)).collect();
                        Edge { src: id(edge.src), dst: id(edge.dst), via }
                    })
                    .collect(),
                hops: tree.hops.map(|hops| hops.into_iter().map(|(from, to)| Hop(id(from), id(to))).collect()),
                root: id(tree.root),
                weight: Rational::from(tree.weight),
            })
            .collect(),
    });
    let trees = Trees { forests: forests.collect() };
    let participants = ids[..topology.compute().len()].to_vec();
    let root = collective.is_rooted().then(|| participants[1]);
    let mut plan = Plan::new(topology, collective, names, Content::Trees(trees));
    (plan.body.participants, plan.body.root) = (Some(participants), root);
    plan
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
