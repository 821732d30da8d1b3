//! For tests: distances, automorphisms by trying, and a slow all-gather.

use super::{Graph, Schedule, Send, Shape};

/// Hops from every vertex (row) to every other; `u32::MAX` where there is no way.
pub fn distances(graph: &Graph) -> Vec<Vec<u32>> {
    let n = graph.n() as usize;
    let mut out = vec![Vec::new(); n];
    graph.edges().iter().for_each(|edge| out[edge.tail as usize].push(edge.head as usize));
    let from = |start: usize| {
        let mut far = vec![u32::MAX; n];
        far[start] = 0;
        let mut queue = vec![start];
        let mut next = 0;
        while let Some(&v) = queue.get(next) {
            next += 1;
            for &w in &out[v] {
                if far[w] == u32::MAX {
                    far[w] = far[v] + 1;
                    queue.push(w);
                }
            }
        }
        far
    };
    (0..n).map(from).collect()
}

pub fn diameter(graph: &Graph) -> u32 {
    distances(graph).into_iter().flatten().max().unwrap_or(0)
}

/// Does some automorphism take vertex 0 to every other? By backtracking; for graphs with few dead ends.
pub fn is_vertex_transitive(graph: &Graph) -> bool {
    let n = graph.n() as usize;
    let mut links = vec![vec![0_u32; n]; n];
    graph.edges().iter().for_each(|edge| links[edge.tail as usize][edge.head as usize] += 1);
    let far = distances(graph);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|v| far[0][*v]);
    let alike = |a: usize, b: usize, c: usize, d: usize| {
        links[a][b] == links[c][d] && links[b][a] == links[d][c] && far[a][b] == far[c][d] && far[b][a] == far[d][c]
    };
    (0..n).all(|target| {
        let mut map = vec![target];
        let mut used = vec![false; n];
        used[target] = true;
        extend(&order, &mut map, &mut used, &alike)
    })
}

fn extend(
    order: &[usize],
    map: &mut Vec<usize>,
    used: &mut [bool],
    alike: &impl Fn(usize, usize, usize, usize) -> bool,
) -> bool {
    let Some(&v) = order.get(map.len()) else { return true };
    for image in 0..order.len() {
        let fits = !used[image]
            && alike(v, v, image, image)
            && map.iter().zip(order).all(|(onto, before)| alike(v, *before, image, *onto));
        if fits {
            used[image] = true;
            map.push(image);
            if extend(order, map, used, alike) {
                return true;
            }
            map.pop();
            used[image] = false;
        }
    }
    false
}

/// An all-gather that takes every unit over some shortest way: a valid base, not a good one.
pub fn slow_gather(graph: &Graph, units: u32) -> Schedule {
    let far = distances(graph);
    let mut sends = Vec::new();
    for u in 0..graph.n() {
        for v in (0..graph.n()).filter(|v| *v != u) {
            let step = far[v as usize][u as usize];
            let comes = |edge: &super::Edge| edge.head == u && far[v as usize][edge.tail as usize] + 1 == step;
            let over: Vec<u32> = (0..).zip(graph.edges()).filter(|(_, edge)| comes(edge)).map(|(id, _)| id).collect();
            for lo in 0..units {
                let edge = over[(lo + u + v) as usize % over.len()];
                sends.push(Send { step, edge, shard: v, lo, hi: lo + 1 });
            }
        }
    }
    sends.sort_unstable();
    let steps = sends.iter().map(|send| send.step).max().unwrap_or(0);
    Schedule { shape: Shape::AllGather, units, steps, sends }
}
