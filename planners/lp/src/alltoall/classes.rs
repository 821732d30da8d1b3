//! Classes of edges that translations carry onto one another, and the proof that they do.

use super::Refusal;
use sluice_planners::direct::{Edge, Graph};
use std::collections::HashMap;

/// A class for every edge of a graph: those of one generator of a Cayley graph (an offset of a circulant, a direction of
/// a dimension of a torus). Made by [`Classes::new`] only, so they are always right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    class: Vec<u32>,
    count: u32,
}

impl Classes {
    /// Checks that the graph looks the same from every vertex, with the classes of its edges.
    ///
    /// Every vertex must have one edge of each class out and one in, and for each class there must be an automorphism
    /// that keeps classes and takes vertex 0 along its edge of that class. These automorphisms then reach every vertex:
    /// they commute with following edges by class.
    ///
    /// # Errors
    /// `E_RANGE` that says which vertex or edge does not fit.
    pub fn new(graph: &Graph, class: Vec<u32>) -> Result<Classes, Refusal> {
        let (n, edges) = (graph.n() as usize, graph.edges());
        let refuse = |reason: String| Err(Refusal::Classes { reason });
        if class.len() != edges.len() {
            return refuse(format!("{} classes for {} edges; every edge needs one", class.len(), edges.len()));
        }
        let count = class.iter().max().map_or(0, |&most| most as usize + 1);
        if n == 0 || count * n != edges.len() {
            return refuse(format!("{} edges; {count} classes of one edge per vertex are {}", edges.len(), count * n));
        }
        let mut next = vec![u32::MAX; count * n];
        let mut taken = vec![false; count * n];
        for (edge, &class) in edges.iter().zip(&class) {
            let (out, into) = (class as usize * n + edge.tail as usize, class as usize * n + edge.head as usize);
            if next[out] != u32::MAX || taken[into] {
                return refuse(format!("two edges of class {class} at {} → {}", edge.tail, edge.head));
            }
            (next[out], taken[into]) = (edge.head, true);
        }
        for image in (0..count).map(|class| next[class * n]) {
            if let Some((v, class)) = unlike(&next, n, count, image) {
                let text =
                    format!("seen from vertex {image}, the edge of class {class} at {v} leads elsewhere than from 0");
                return refuse(text);
            }
        }
        Ok(Classes { class, count: count as u32 })
    }
    /// Classes of a graph that looks the same from every vertex, if they are where generators put them: by the place of
    /// an edge among those of its tail, by how far the numbers of head and tail are apart (circulants), or by the bits
    /// in which they differ (hypercubes). What is found is proved as in [`Classes::new`]; that a generator marks its
    /// graph is not needed, so files made from such graphs are recognised, too.
    pub fn found(graph: &Graph) -> Option<Classes> {
        let n = u64::from(graph.n());
        let keys: [fn(&Edge, u64) -> u64; 3] = [
            |_, _| 0,
            |edge, n| (u64::from(edge.head) + n - u64::from(edge.tail)) % n,
            |edge, _| u64::from(edge.head ^ edge.tail),
        ];
        keys.into_iter().find_map(|key| Classes::new(graph, numbered(graph, |edge| key(edge, n))).ok())
    }
    /// The class of every edge.
    pub fn of_edges(&self) -> &[u32] {
        &self.class
    }
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// A class for every edge by its key, and by its place among the edges of its tail with that key.
fn numbered(graph: &Graph, key: impl Fn(&Edge) -> u64) -> Vec<u32> {
    let (mut seen, mut classes) = (HashMap::new(), HashMap::new());
    let class = |edge: &Edge| {
        let key = key(edge);
        let place = seen.entry((edge.tail, key)).or_insert(0_u32);
        *place += 1;
        let next = classes.len() as u32;
        *classes.entry((key, *place)).or_insert(next)
    };
    graph.edges().iter().map(class).collect()
}

/// Where the map that takes 0 to `image` and keeps classes is no map: a vertex and a class; `None` where it is one.
fn unlike(next: &[u32], n: usize, count: usize, image: u32) -> Option<(u32, usize)> {
    let (mut map, mut used, mut queue) = (vec![u32::MAX; n], vec![false; n], vec![0u32]);
    (map[0], used[image as usize]) = (image, true);
    let mut seen = 0;
    while let Some(&v) = queue.get(seen) {
        seen += 1;
        for class in 0..count {
            let (there, should) = (next[class * n + v as usize], next[class * n + map[v as usize] as usize]);
            if map[there as usize] == u32::MAX {
                if used[should as usize] {
                    return Some((v, class));
                }
                (map[there as usize], used[should as usize]) = (should, true);
                queue.push(there);
            } else if map[there as usize] != should {
                return Some((v, class));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_planners::direct::Expr;

    fn ring(n: u32) -> Graph {
        let arcs = |by: u32| (0..n).map(move |v| Edge { tail: v, head: (v + by) % n });
        Graph::new(n, arcs(1).chain(arcs(n - 1)).collect()).unwrap()
    }

    #[test]
    fn both_directions_of_a_ring_are_classes() {
        let classes = (0..10).map(|edge| u32::from(edge >= 5)).collect();
        assert_eq!(Classes::new(&ring(5), classes).unwrap().count(), 2);
    }

    #[test]
    fn what_no_translation_keeps_is_refused() {
        let refused = |class: Vec<u32>| Classes::new(&ring(5), class).unwrap_err();
        assert!(refused(vec![0; 9]).to_string().contains("9 classes for 10 edges"));
        assert!(refused(vec![0; 10]).to_string().contains("1 classes of one edge per vertex"));
        // Classes that swap the two directions at one vertex.
        let mut swapped: Vec<u32> = (0..10).map(|edge| u32::from(edge >= 5)).collect();
        swapped.swap(0, 5);
        assert!(refused(swapped).to_string().contains("two edges of class"));
    }

    #[test]
    fn one_edge_in_and_out_of_each_class_is_not_enough() {
        // K₄ by the table of the cyclic group.
        let factors = [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]];
        let graph = |factors: [[u32; 4]; 3]| {
            let arcs = factors.iter().flat_map(|f| f.iter().zip(0..).map(|(&head, tail)| Edge { tail, head }));
            Graph::new(4, arcs.collect()).unwrap()
        };
        let classes: Vec<u32> = (0..12).map(|edge| edge / 4).collect();
        assert!(Classes::new(&graph(factors), classes.clone()).is_ok());
        // A Latin square of order 5 that is no group's.
        let square = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]];
        let arcs = (1..5).flat_map(|f: usize| (0..5u32).map(move |tail| Edge { tail, head: square[tail as usize][f] }));
        let graph = Graph::new(5, arcs.collect()).unwrap();
        let refused = Classes::new(&graph, (0..20).map(|edge| edge / 5).collect()).unwrap_err();
        assert!(refused.to_string().contains("leads elsewhere"), "{refused}");
    }

    #[test]
    fn graphs_that_their_generator_marks_have_classes() {
        for text in [
            "DC(12,{1,5})",
            "C(10,{1,3})",
            "UniRing(2,5)",
            "BiRing(4,6)",
            "Torus(3,4)",
            "TwistedTorus(4,3,1)",
            "MC(8,2,3,4;(0,1),(5,0))",
            "K(7)",
            "DC(5,{1}) x DC(4,{1})",
            "C(5,{1})^2",
        ] {
            let graph = Expr::parse(text).expect(text).graph().expect(text);
            assert!(Classes::found(&graph).is_some(), "{text}");
        }
        for text in ["Pi(2,9)", "L(K(4,4))"] {
            let graph = Expr::parse(text).expect(text).graph().expect(text);
            assert!(Classes::found(&graph).is_none(), "{text}");
        }
        // As a file of duplex links has them: both directions one after the other.
        let both = (0..6_u32).flat_map(|v| [(v, (v + 1) % 6), ((v + 1) % 6, v)]);
        let ring = Graph::new(6, both.map(|(tail, head)| Edge { tail, head }).collect()).expect("a graph");
        assert_eq!(Classes::found(&ring).map(|classes| classes.count()), Some(2));
    }
}
