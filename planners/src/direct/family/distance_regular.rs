//! The distance-regular graphs of degree 4 (Brouwer and Koolen's list), each built from what defines it.

use super::geometry::{self, Incidence};
use super::{Family, by_tail};
use crate::direct::{Graph, Refusal, Symmetry};

/// Vertices and what the graph is; diameters are 2, 2, 3, 3, 3, 4, 3, 3, 4, 3, 4, 7, 4, 6, 6.
pub const CATALOGUE: [(u32, &str); 15] = [
    (6, "octahedron"),
    (9, "Paley graph, H(2,3)"),
    (10, "K(5,5) minus a perfect matching"),
    (14, "distance-3 graph of the Heawood graph"),
    (15, "line graph of the Petersen graph"),
    (16, "Q(4)"),
    (21, "line graph of the Heawood graph"),
    (26, "incidence graph of PG(2,3)"),
    (32, "incidence graph of AG(2,4) minus a parallel class"),
    (35, "odd graph O(4)"),
    (45, "line graph of Tutte's 8-cage"),
    (70, "doubled odd graph D(O(4))"),
    (80, "incidence graph of GQ(3,3)"),
    (189, "line graph of Tutte's 12-cage"),
    (728, "incidence graph of GH(3,3)"),
];

pub fn size(n: u32) -> Result<(u64, u64), Refusal> {
    if CATALOGUE.iter().any(|(size, _)| *size == n) {
        return Ok((n.into(), 4));
    }
    let sizes: Vec<String> = CATALOGUE.iter().map(|(size, _)| size.to_string()).collect();
    Err(Family::DistanceRegular { n }.refuse(format!("the catalogue has {} vertices", sizes.join(", "))))
}

/// The graph with so many vertices; neighbours ascending.
pub fn graph(n: u32) -> Result<Graph, Refusal> {
    let adjacent: Vec<Vec<u32>> = match n {
        6 => pairs(6, |u, v| u ^ 1 != v),
        9 => return Family::Hamming { k: 2, q: 3 }.graph(),
        10 => pairs(10, |u, v| (u < 5) != (v < 5) && u % 5 != v % 5),
        14 => {
            let plane = geometry::cyclic_plane(7, &[0, 1, 3]);
            pairs(14, |u, v| u < 7 && v >= 7 && !plane.lines[v as usize - 7].contains(&u))
        }
        15 => line(&pairs(10, |u, v| subsets(5, 2)[u as usize] & subsets(5, 2)[v as usize] == 0)),
        16 => return Family::Hypercube { k: 4 }.graph(),
        21 => line(&bipartite(&geometry::cyclic_plane(7, &[0, 1, 3]))),
        26 => bipartite(&geometry::cyclic_plane(13, &[0, 1, 3, 9])),
        32 => bipartite(&geometry::affine_four()),
        35 => pairs(35, |u, v| subsets(7, 3)[u as usize] & subsets(7, 3)[v as usize] == 0),
        45 => line(&bipartite(&geometry::symplectic(2))),
        70 => {
            let (three, four) = (subsets(7, 3), subsets(7, 4));
            pairs(70, |u, v| u < 35 && v >= 35 && three[u as usize] & !four[v as usize - 35] == 0)
        }
        80 => bipartite(&geometry::symplectic(3)),
        189 => line(&bipartite(&geometry::hexagon(2))),
        _ => bipartite(&geometry::hexagon(3)),
    };
    let graph = by_tail(n, 4, |v, heads| heads.extend_from_slice(&adjacent[v as usize]))?;
    // GQ(3,3) is not self-dual: its points and its lines are different. Of GH(3,3) nothing is claimed.
    Ok(if n == 80 || n == 728 { graph } else { graph.with_symmetry(Symmetry::VertexTransitive) })
}

/// Neighbours of every vertex, ascending, where `related` holds one way or the other.
fn pairs(n: u32, related: impl Fn(u32, u32) -> bool) -> Vec<Vec<u32>> {
    (0..n).map(|u| (0..n).filter(|&v| u != v && (related(u, v) || related(v, u))).collect()).collect()
}

/// Points first, then lines; a point and a line are neighbours if it is on it.
fn bipartite(incidence: &Incidence) -> Vec<Vec<u32>> {
    let points = incidence.points;
    let mut adjacent = vec![Vec::new(); points as usize + incidence.lines.len()];
    for (line, on) in incidence.lines.iter().enumerate() {
        for &point in on {
            adjacent[point as usize].push(points + line as u32);
        }
        adjacent[points as usize + line].extend_from_slice(on);
    }
    adjacent
}

/// The edges of an undirected graph in lexicographic order, neighbours if they share an end.
fn line(adjacent: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let of = |u: usize| adjacent[u].iter().filter(move |v| (u as u32) < **v).map(move |v| (u as u32, *v));
    let edges: Vec<(u32, u32)> = (0..adjacent.len()).flat_map(of).collect();
    pairs(edges.len() as u32, |e, f| {
        let ((a, b), (c, d)) = (edges[e as usize], edges[f as usize]);
        a == c || a == d || b == c || b == d
    })
}

/// The `k`-subsets of `0..n` as bits, ascending.
fn subsets(n: u32, k: u32) -> Vec<u32> {
    (0..1_u32 << n).filter(|set| set.count_ones() == k).collect()
}
