//! A graph as a `topology.json`: node `nV` for vertex V, a one-way link for every edge, in the order of the edges.

use super::{Graph, Refusal};
use sluice_formats::problem::{Problem, Problems};
use sluice_formats::topology::{File, Kind, LinkEntry, MAX_LINKS, NodeEntry, Text, Topology, Version};

/// What the links and machines of a graph are.
#[derive(Clone, Debug)]
pub struct Hardware<'a> {
    /// Capacity of every link, as topology files write it; `1` is an abstract graph.
    pub capacity: &'a str,
    /// Latency of every link, as topology files write it; `None`: not said.
    pub latency: Option<&'a str>,
    /// What the vertices are.
    pub kind: Kind,
}

/// The topology; link index = edge id, node index = vertex.
///
/// # Errors
/// `TopologyTooLarge` for more links than a topology may have; mistakes of capacity and latency.
pub fn topology(graph: &Graph, name: &str, hardware: &Hardware) -> Result<Topology, Problems> {
    let edges = graph.edges().len() as u64;
    if edges > MAX_LINKS {
        let refusal = Refusal::TopologyTooLarge { vertices: graph.n().into(), edges };
        let error = Problem::new(refusal.code(), "", "a topology has at most a million links");
        return Err(error.found(format!("{edges} links")).allowed(format!("at most {MAX_LINKS}")).into());
    }
    let ids: Vec<Text> = (0..graph.n()).map(|vertex| Text::from(format!("n{vertex}"))).collect();
    let node = |id: &Text| NodeEntry {
        addresses: None,
        buffer: None,
        can: None,
        id: id.clone(),
        kind: hardware.kind,
        port_addresses: None,
        weight: None,
    };
    let (capacity, latency) = (Text::from(hardware.capacity), hardware.latency.map(Text::from));
    let mut links = Vec::with_capacity(graph.edges().len());
    for edge in graph.edges() {
        links.push(LinkEntry {
            capacity: capacity.clone(),
            capacity_per_epoch: None,
            cost: None,
            count: None,
            duplex: None,
            from: ids[edge.tail as usize].clone(),
            latency: latency.clone(),
            to: ids[edge.head as usize].clone(),
        });
    }
    let nodes = ids.iter().map(node).collect();
    let file =
        File { boxes: None, groups: None, links, name: Some(name.into()), nodes, routing: None, version: Version };
    Topology::build(file, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::Expr;

    #[test]
    fn links_are_the_edges_in_their_order() {
        for text in ["DBJ(2,2)", "UniRing(2,3)", "K(2) x BiRing(2,3)", "K(1)"] {
            let graph = Expr::parse(text).expect(text).graph().expect(text);
            let hardware = Hardware { capacity: "25Gbit/s", latency: Some("10us"), kind: Kind::Host };
            let topology = topology(&graph, text, &hardware).expect(text);
            let ends: Vec<_> = topology.links().iter().map(|link| (link.from as u32, link.to as u32)).collect();
            let edges: Vec<_> = graph.edges().iter().map(|edge| (edge.tail, edge.head)).collect();
            assert_eq!(ends, edges, "{text}");
            assert_eq!((topology.nodes().len(), topology.name()), (graph.n() as usize, text));
            assert_eq!(
                Topology::read(topology.to_text().as_bytes(), "t.json").expect(text).digest(),
                topology.digest()
            );
        }
    }

    #[test]
    fn what_no_topology_may_be_is_refused() {
        let graph = |text: &str| Expr::parse(text).expect(text).graph().expect(text);
        let hardware = |capacity| Hardware { capacity, latency: None, kind: Kind::Gpu };
        let code = |text: &str, capacity: &'static str| {
            topology(&graph(text), "", &hardware(capacity)).expect_err(text).code()
        };
        assert_eq!(code("K(1024)", "1"), "TopologyTooLarge");
        assert_eq!(code("K(3)", "0GB/s"), sluice_formats::problem::NON_POSITIVE_BANDWIDTH);
        assert_eq!(code("K(3)", "fast"), sluice_formats::problem::E_RANGE);
    }
}
