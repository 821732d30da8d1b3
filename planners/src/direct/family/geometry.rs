//! Finite geometries: points and the lines through them.

use std::collections::BTreeSet;

/// Points `0..points` and lines, each the ascending list of its points.
pub struct Incidence {
    pub points: u32,
    pub lines: Vec<Vec<u32>>,
}

/// A projective plane from a perfect difference set modulo `n`: line `i` is the set moved by `i`.
pub fn cyclic_plane(n: u32, differences: &[u32]) -> Incidence {
    let line = |i: u32| sorted(differences.iter().map(|difference| (difference + i) % n).collect());
    Incidence { points: n, lines: (0..n).map(line).collect() }
}

/// AG(2,4) without its vertical lines: point `(x,y)` is `4x+y`, line `(m,b)` is `y = m·x+b` over the field of four.
pub fn affine_four() -> Incidence {
    // 0, 1, w, w+1 as bits, with w² = w+1; addition is exclusive or.
    const TIMES: [[u32; 4]; 4] = [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]];
    let line = |i: usize| (0..4).map(|x| 4 * x as u32 + (TIMES[i / 4][x] ^ (i % 4) as u32)).collect();
    Incidence { points: 16, lines: (0..16).map(line).collect() }
}

/// The generalized quadrangle W(p): points of PG(3,p) and the lines on which a₁b₂−a₂b₁+a₃b₄−a₄b₃ vanishes, `p` prime.
pub fn symplectic(p: u32) -> Incidence {
    let points = projective(4, p);
    let form = |a: &[u32], b: &[u32]| a[0] * b[1] + (p - a[1]) * b[0] + a[2] * b[3] + (p - a[3]) * b[2];
    spanned(&points, p, |a, b| form(a, b).is_multiple_of(p))
}

/// The split Cayley hexagon H(p), `p` prime: points of the quadric x₀x₄+x₁x₅+x₂x₆ = x₃², and its lines whose Grassmann
/// coordinates satisfy p₁₂=p₃₄, p₅₄=p₃₂, p₂₀=p₃₅, p₆₅=p₃₀, p₀₁=p₃₆, p₄₆=p₃₁ (Tits; van Maldeghem, Generalized Polygons).
pub fn hexagon(p: u32) -> Incidence {
    let mut points = projective(7, p);
    points.retain(|x| (x[0] * x[4] + x[1] * x[5] + x[2] * x[6]) % p == x[3] * x[3] % p);
    spanned(&points, p, |x, y| {
        let polar = x[0] * y[4] + x[4] * y[0] + x[1] * y[5] + x[5] * y[1] + x[2] * y[6] + x[6] * y[2];
        let coordinate = |i: usize, j: usize| (x[i] * y[j] + (p - x[j]) * y[i]) % p;
        let equations = [(1, 2, 3, 4), (5, 4, 3, 2), (2, 0, 3, 5), (6, 5, 3, 0), (0, 1, 3, 6), (4, 6, 3, 1)];
        polar % p == 2 * x[3] * y[3] % p && equations.iter().all(|&(i, j, k, l)| coordinate(i, j) == coordinate(k, l))
    })
}

/// The points of a projective space: vectors whose first entry that is not 0 is 1, in lexicographic order.
fn projective(length: u32, p: u32) -> Vec<Vec<u32>> {
    let vector = |mut code: u32| {
        let mut entries: Vec<u32> = (0..length)
            .map(|_| {
                let entry = code % p;
                code /= p;
                entry
            })
            .collect();
        entries.reverse();
        entries
    };
    let mut all: Vec<Vec<u32>> = (0..p.pow(length)).map(vector).collect();
    all.retain(|entries| entries.iter().find(|entry| **entry != 0) == Some(&1));
    all
}

/// The lines through any two points that `joined` accepts; all their points must be among `points`.
fn spanned(points: &[Vec<u32>], p: u32, joined: impl Fn(&[u32], &[u32]) -> bool) -> Incidence {
    let id = |entries: &[u32]| {
        // Scaled so that the first entry that is not 0 is 1: by its inverse, which is found by trying.
        let lead = entries.iter().copied().find(|entry| *entry != 0).unwrap_or(1);
        let inverse = (1..p).find(|inverse| lead * inverse % p == 1).unwrap_or(1);
        let scaled: Vec<u32> = entries.iter().map(|entry| entry * inverse % p).collect();
        points.binary_search(&scaled).ok().map(|id| id as u32)
    };
    let mut lines = BTreeSet::new();
    for (i, a) in points.iter().enumerate() {
        for b in points.iter().skip(i + 1).filter(|b| joined(a, b)) {
            let sum = |k: u32| a.iter().zip(b).map(|(a, b)| (a + k * b) % p).collect::<Vec<u32>>();
            let on: Vec<u32> = (0..p).filter_map(|k| id(&sum(k))).chain(id(b)).collect();
            lines.insert(sorted(on));
        }
    }
    Incidence { points: points.len() as u32, lines: lines.into_iter().collect() }
}

fn sorted(mut list: Vec<u32>) -> Vec<u32> {
    list.sort_unstable();
    list
}
