//! A fabric as a relaxed program sees it: as it is, or with every node that cannot copy taken apart by where its data
//! goes next.
//!
//! A node that cannot copy may not send one arrival on twice. With a copy of the node for each node that can copy and that it
//! leads to, data for two of them arrives twice, and every node of the new fabric may copy: nothing more has to be said.

use super::network::{Edge, Group, Network};
use std::collections::HashMap;

/// A fabric whose links are images of the links of another.
#[derive(Clone, Debug)]
pub struct View {
    /// Nodes, links and limits as they are seen; every limit has the images of its links.
    pub network: Network,
    /// By link which one it is an image of.
    pub original: Vec<u32>,
    /// By node which one it is an image of, and where its data goes next.
    nodes: Vec<(u32, Option<u32>)>,
    places: HashMap<(u32, Option<u32>), u32>,
    links: HashMap<(u32, u32, u32), u32>,
}

impl View {
    /// The fabric as it is.
    pub fn plain(network: &Network) -> View {
        let nodes = (0..network.nodes() as u32).map(|node| (node, None)).collect();
        let links = network.edges.iter().zip(0..).map(|(edge, index)| (edge.from, edge.to, index));
        View::new(network, nodes, links.collect(), network.can.clone())
    }

    /// Nodes that cannot copy taken apart. Nodes that can keep their indices; the others keep theirs without any link.
    pub fn apart(network: &Network) -> View {
        let n = network.nodes();
        let mut nodes: Vec<(u32, Option<u32>)> = (0..n as u32).map(|node| (node, None)).collect();
        let mut places = HashMap::new();
        // Who leads to whom over nodes that cannot copy.
        for exit in (0..n as u32).filter(|node| network.copies(*node)) {
            let mut stack = vec![exit];
            while let Some(node) = stack.pop() {
                for edge in network.into(node) {
                    let before = network.edges[*edge as usize].from;
                    if !network.copies(before) && !places.contains_key(&(before, exit)) {
                        places.insert((before, exit), nodes.len() as u32);
                        nodes.push((before, Some(exit)));
                        stack.push(before);
                    }
                }
            }
        }
        let mut exits: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (node, exit) in &nodes[n..] {
            exits[*node as usize].extend(exit);
        }
        let mut links = Vec::new();
        for (edge, index) in network.edges.iter().zip(0..) {
            match (network.copies(edge.from), network.copies(edge.to)) {
                (true, true) => links.push((edge.from, edge.to, index)),
                // Back to where it comes from leads nowhere.
                (true, false) => links.extend(
                    exits[edge.to as usize]
                        .iter()
                        .filter(|exit| **exit != edge.from)
                        .map(|exit| (edge.from, places[&(edge.to, *exit)], index)),
                ),
                (false, false) => links.extend(
                    exits[edge.to as usize]
                        .iter()
                        .map(|exit| (places[&(edge.from, *exit)], places[&(edge.to, *exit)], index)),
                ),
                (false, true) => links.push((places[&(edge.from, edge.to)], edge.to, index)),
            }
        }
        let mut can = network.can.clone();
        can.extend(nodes[n..].iter().map(|(node, _)| network.can[*node as usize]));
        can.iter_mut().for_each(|can| can.copy = true);
        View::new(network, nodes, links, can)
    }

    fn new(
        network: &Network,
        nodes: Vec<(u32, Option<u32>)>,
        links: Vec<(u32, u32, u32)>,
        can: Vec<sluice_formats::topology::Can>,
    ) -> View {
        let original: Vec<u32> = links.iter().map(|(.., index)| *index).collect();
        let edge = |(from, to, index): &(u32, u32, u32)| Edge {
            from: *from,
            to: *to,
            cost: network.edges[*index as usize].cost,
        };
        let mut images = vec![Vec::new(); network.edges.len()];
        original.iter().zip(0..).for_each(|(index, image): (_, u32)| images[*index as usize].push(image));
        let groups = network.groups.iter().map(|group| {
            let mut edges: Vec<u32> = group.edges.iter().flat_map(|edge| &images[*edge as usize]).copied().collect();
            edges.sort_unstable();
            Group { edges, rate: group.rate }
        });
        let mut seen = Network::new(can, links.iter().map(edge).collect(), groups.collect());
        // Rates are those of the fabric already, in its scale.
        seen.scale = network.scale;
        let places = nodes.iter().zip(0..).map(|(node, place)| (*node, place)).collect();
        let links = links.into_iter().zip(0..).collect();
        View { network: seen, original, nodes, places, links }
    }

    /// The node of the fabric that a node is an image of.
    pub fn node(&self, node: u32) -> u32 {
        self.nodes[node as usize].0
    }
    /// Where the data of a node that is one of several images of a node that cannot copy goes next.
    pub fn exit(&self, node: u32) -> Option<u32> {
        self.nodes[node as usize].1
    }

    /// What a permutation of the fabric's nodes and links does to its view: images of nodes and of links.
    pub fn induced(&self, of_nodes: &[u32], of_edges: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let image = |(node, exit): &(u32, Option<u32>)| {
            let key = (of_nodes[*node as usize], exit.map(|exit| of_nodes[exit as usize]));
            self.places.get(&key).copied().unwrap_or_default()
        };
        let nodes: Vec<u32> = self.nodes.iter().map(image).collect();
        let edge = |(edge, original): (&Edge, &u32)| {
            let key = (nodes[edge.from as usize], nodes[edge.to as usize], of_edges[*original as usize]);
            self.links.get(&key).copied().unwrap_or_default()
        };
        let edges = self.network.edges.iter().zip(&self.original).map(edge).collect();
        (nodes, edges)
    }
}
