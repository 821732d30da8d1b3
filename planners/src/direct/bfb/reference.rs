//! The definition of BFB, word by word: all distances, all sets of links. For small graphs in tests.

use crate::direct::Graph;
use sluice_formats::quantity::Rational;

/// Distances from every vertex to every vertex by Floyd and Warshall; `None` where there is no way.
pub fn distances(graph: &Graph) -> Vec<Vec<Option<u32>>> {
    let n = graph.n() as usize;
    let mut table = vec![vec![None; n]; n];
    for (vertex, row) in table.iter_mut().enumerate() {
        row[vertex] = Some(0);
    }
    for edge in graph.edges().iter().filter(|edge| edge.tail != edge.head) {
        table[edge.tail as usize][edge.head as usize] = Some(1);
    }
    for middle in 0..n {
        for from in 0..n {
            for to in 0..n {
                let through = table[from][middle].zip(table[middle][to]).map(|(a, b)| a + b);
                table[from][to] = [table[from][to], through].into_iter().flatten().min();
            }
        }
    }
    table
}

/// The links (edge ids) into `receiver`, and for each shard that arrives in `step` which of them it may use.
pub fn jobs(graph: &Graph, far: &[Vec<Option<u32>>], receiver: u32, step: u32) -> (Vec<u32>, Vec<Vec<u32>>) {
    let into = |id: &u32| {
        let edge = graph.edges()[*id as usize];
        edge.head == receiver && edge.tail != receiver
    };
    let links: Vec<u32> = (0..graph.edges().len() as u32).filter(into).collect();
    let usable = |source: u32| {
        let nearer = |id: &&u32| far[source as usize][graph.edges()[**id as usize].tail as usize] == Some(step - 1);
        links.iter().filter(nearer).copied().collect()
    };
    let arrives = |source: &u32| far[*source as usize][receiver as usize] == Some(step);
    let jobs = (0..graph.n()).filter(arrives).map(usable).collect();
    (links, jobs)
}

/// λ of every step: for every receiver, the most jobs confined to a set of links, per link, over all sets of links.
pub fn loads(graph: &Graph) -> Vec<Rational> {
    let far = distances(graph);
    let steps = far.iter().flatten().flatten().max().copied().unwrap_or(0);
    let load = |step: u32| {
        let of_receiver = |receiver: u32| {
            let (links, jobs) = jobs(graph, &far, receiver, step);
            assert!(links.len() <= 12, "too many sets");
            let of_set = |set: u32| {
                let inside =
                    |id: &u32| links.iter().position(|link| link == id).is_some_and(|place| set >> place & 1 == 1);
                let confined = jobs.iter().filter(|job| job.iter().all(inside)).count();
                Rational::new(confined as i128, i128::from(set.count_ones())).unwrap()
            };
            (1..1_u32 << links.len()).map(of_set).max().unwrap_or(Rational::ZERO)
        };
        (0..graph.n()).map(of_receiver).max().unwrap()
    };
    (1..=steps).map(load).collect()
}
