//! Graphs of the published tables, built from their definitions alone.

use sluice_planners::direct::{Edge, Graph};

fn graph(n: u32, arcs: impl IntoIterator<Item = (u32, u32)>) -> Graph {
    Graph::new(n, arcs.into_iter().map(|(tail, head)| Edge { tail, head }).collect()).unwrap()
}

/// x → −d·x−a modulo m, a = 1..d.
pub fn kautz(d: u32, m: u32) -> Graph {
    let head = |x: u32, a: u32| (-i64::from(d) * i64::from(x) - i64::from(a)).rem_euclid(i64::from(m)) as u32;
    graph(m, (0..m).flat_map(|x| (1..=d).map(move |a| (x, head(x, a)))))
}

/// x → d·x+a modulo m, a = 0..d−1.
pub fn de_bruijn(d: u32, m: u32) -> Graph {
    graph(m, (0..m).flat_map(|x| (0..d).map(move |a| (x, (d * x + a) % m))))
}

/// Two sides of d vertices.
pub fn complete_bipartite(d: u32) -> Graph {
    graph(2 * d, (0..d).flat_map(|i| (0..d).flat_map(move |j| [(i, d + j), (d + j, i)])))
}

/// Vertices are edges; (e, f) is an arc where f begins at e's end.
pub fn line(of: &Graph) -> Graph {
    let edges = of.edges();
    let arcs = edges.iter().enumerate().flat_map(|(e, first)| {
        let next = edges.iter().enumerate().filter(move |(_, second)| second.tail == first.head);
        next.map(move |(f, _)| (e as u32, f as u32))
    });
    graph(edges.len() as u32, arcs)
}

/// Points and lines of the affine plane of order 4 without one class of parallels: lines y = m·x+b.
pub fn minus_a_parallel_class() -> Graph {
    // GF(4) with the elements 0, 1, w, w+1 as 0 to 3: addition is exclusive or.
    let times = |x: u32, y: u32| if x == 0 || y == 0 { 0 } else { (x - 1 + y - 1) % 3 + 1 };
    let on =
        (0..4).flat_map(move |m| (0..4).flat_map(move |b| (0..4).map(move |x| (4 * m + b, 4 * x + (times(m, x) ^ b)))));
    graph(32, on.flat_map(|(line, point)| [(16 + line, point), (point, 16 + line)]))
}

/// A Cayley graph of a product of cyclic groups.
pub struct Abelian {
    pub moduli: Vec<u32>,
    pub generators: Vec<Vec<u32>>,
}

impl Abelian {
    /// One-way rings of these lengths times two-way rings of those.
    pub fn rings(one_way: &[u32], two_way: &[u32]) -> Abelian {
        let moduli = [one_way, two_way].concat();
        let step =
            |place: usize, by: u32| (0..moduli.len()).map(|i| if i == place { by } else { 0 }).collect::<Vec<_>>();
        let there = (0..moduli.len()).map(|place| step(place, 1));
        let back = (one_way.len()..moduli.len()).map(|place| step(place, moduli[place] - 1));
        Abelian { generators: there.chain(back).collect(), moduli }
    }
    /// i ↔ i + offset.
    pub fn circulant(n: u32, offsets: &[u32]) -> Abelian {
        Abelian { moduli: vec![n], generators: offsets.iter().flat_map(|&o| [vec![o], vec![n - o]]).collect() }
    }
    /// The graph and the generator of every edge.
    pub fn graph(&self) -> (Graph, Vec<u32>) {
        let n: u32 = self.moduli.iter().product();
        let add = |mut x: u32, generator: &[u32]| {
            let (mut sum, mut weight) = (0, 1);
            for (&modulus, &by) in self.moduli.iter().zip(generator) {
                sum += (x % modulus + by) % modulus * weight;
                weight *= modulus;
                x /= modulus;
            }
            sum
        };
        let arcs = (0..n).flat_map(|x| self.generators.iter().map(move |generator| (x, add(x, generator))));
        let count = self.generators.len() as u32;
        (graph(n, arcs), (0..n * count).map(|edge| edge % count).collect())
    }
}

/// The Cayley graph of (i,j)(k,l) = (i + r^j·k + c·[j+l ≥ b], j+l), and the generator of every edge.
pub fn metacyclic(a: u32, b: u32, r: u32, c: u32, generators: &[(u32, u32)]) -> (Graph, Vec<u32>) {
    let product = |(i, j): (u32, u32), (k, l): (u32, u32)| {
        let power = (0..j).fold(1, |power, _| power * r % a);
        ((i + power * k + if j + l >= b { c } else { 0 }) % a, (j + l) % b)
    };
    let all = (0..a).flat_map(|i| (0..b).map(move |j| (i, j)));
    let arcs = all.flat_map(|x| {
        generators.iter().map(move |&s| {
            let (i, j) = product(x, s);
            (x.0 * b + x.1, i * b + j)
        })
    });
    let count = generators.len() as u32;
    (graph(a * b, arcs), (0..a * b * count).map(|edge| edge % count).collect())
}

/// A ring and d−1 random edges from every vertex; self-loops and parallel edges as they come.
pub fn random(n: u32, d: u32, seed: u64) -> Graph {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(n)) as u32
    };
    let mut arcs: Vec<(u32, u32)> = (0..n).map(|v| (v, (v + 1) % n)).collect();
    (0..n).for_each(|v| (1..d).for_each(|_| arcs.push((v, next()))));
    graph(n, arcs)
}
