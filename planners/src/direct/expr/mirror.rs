//! Maps of graphs onto their transposes, from the construction.

use super::Expr;
use crate::direct::family::Family;
use crate::direct::{Graph, Refusal, expand};

/// The map, proven to be one.
pub fn mirror(expr: &Expr) -> Result<Vec<u32>, Refusal> {
    let graph = expr.graph()?;
    let map = guess(expr, &graph)?.ok_or(Refusal::NotReverseSymmetric)?;
    match expand::edge_map(&graph, &graph.transposed(), &map) {
        Some(_) => Ok(map),
        None => Err(Refusal::Internal { reason: format!("the mirror of {expr} is none") }),
    }
}

/// What the construction says; `graph` is its graph.
fn guess(expr: &Expr, graph: &Graph) -> Result<Option<Vec<u32>>, Refusal> {
    if graph.is_bidirectional() {
        return Ok(Some((0..graph.n()).collect()));
    }
    let below = |base: &Expr| -> Result<Option<(Graph, Vec<u32>)>, Refusal> {
        let graph = base.build()?;
        let map = guess(base, &graph)?;
        Ok(map.map(|map| (graph, map)))
    };
    Ok(match expr {
        Expr::Family(Family::Kautz { d, k }) => {
            let line = Expr::Line(*k, Box::new(Family::Complete { m: d + 1 }.into()));
            guess(&line, graph)?
        }
        Expr::Family(family) => of_family(family, graph),
        Expr::Line(times, base) => match below(base)? {
            None => None,
            Some((mut base, mut map)) => {
                for i in 0..*times {
                    if i > 0 {
                        base = expand::line(&base)?;
                    }
                    // An edge (u,v) becomes (map[v], map[u]), which is an edge too: the transpose's image of it.
                    match expand::edge_map(&base, &base.transposed(), &map) {
                        Some(edges) => map = edges,
                        None => return Ok(None),
                    }
                }
                Some(map)
            }
        },
        Expr::Degree(base, copies) => below(base)?.map(|(_, map)| {
            map.iter().flat_map(|vertex| (0..*copies).map(move |copy| vertex * copies + copy)).collect()
        }),
        Expr::Power(base, exponent) => below(base)?.map(|(_, map)| product(&vec![map; *exponent as usize])),
        Expr::Product(factors) => {
            let maps = factors.iter().map(|factor| Ok(below(factor)?.map(|(_, map)| map)));
            let maps = maps.collect::<Result<Option<Vec<Vec<u32>>>, Refusal>>()?;
            maps.map(|maps| product(&maps))
        }
        // The map of a graph is one of its transpose as well.
        Expr::Transposed(base) | Expr::Bidirectional(base) => below(base)?.map(|(_, map)| map),
    })
}

fn product(maps: &[Vec<u32>]) -> Vec<u32> {
    maps.iter().fold(vec![0], |whole, map| {
        let size = map.len() as u32;
        whole.iter().flat_map(|prefix| map.iter().map(move |digit| prefix * size + digit)).collect()
    })
}

fn of_family(family: &Family, graph: &Graph) -> Option<Vec<u32>> {
    let n = graph.n();
    match family {
        Family::UniRing { .. } | Family::DirectedCirculant { .. } => Some((0..n).map(|v| (n - v) % n).collect()),
        Family::DeBruijn { d, k } => Some((0..n).map(|v| reversed(v, *d, *k)).collect()),
        Family::Metacyclic(_) => by_colours(graph),
        _ => None,
    }
}

/// The number whose digits are those of `v`, the last first.
fn reversed(mut v: u32, base: u32, digits: u32) -> u32 {
    let mut reversed = 0;
    for _ in 0..digits {
        reversed = reversed * base + v % base;
        v /= base;
    }
    reversed
}

/// Of a Cayley graph, whose vertices list their links in the order of the generators: a map that takes vertex 0 to
/// itself and every generator's links to the reverse of one generator's. All assignments are tried, up to degree 5.
fn by_colours(graph: &Graph) -> Option<Vec<u32>> {
    let n = graph.n() as usize;
    let d = graph.edges().len() / n;
    let heads: Vec<u32> = graph.edges().iter().map(|edge| edge.head).collect();
    let mut backward = vec![0; heads.len()];
    for (edge, head) in heads.iter().enumerate() {
        backward[*head as usize * d + edge % d] = (edge / d) as u32;
    }
    let mut order: Vec<usize> = (0..d).collect();
    let mut found = None;
    if d <= 5 {
        permute(&mut order, 0, &mut |order| {
            found = along(&heads, &backward, order, n);
            found.is_some()
        });
    }
    found
}

/// The map along this assignment of generators, if it is one.
fn along(heads: &[u32], backward: &[u32], order: &[usize], n: usize) -> Option<Vec<u32>> {
    const OPEN: u32 = u32::MAX;
    let d = order.len();
    let mut map = vec![OPEN; n];
    let mut taken = vec![false; n];
    (map[0], taken[0]) = (0, true);
    let mut queue = vec![0_u32];
    let mut next = 0;
    while next < queue.len() {
        let v = queue[next] as usize;
        next += 1;
        for (generator, onto) in order.iter().enumerate() {
            let (head, image) = (heads[v * d + generator] as usize, backward[map[v] as usize * d + onto]);
            if map[head] == OPEN && !taken[image as usize] {
                (map[head], taken[image as usize]) = (image, true);
                queue.push(head as u32);
            } else if map[head] != image {
                return None;
            }
        }
    }
    (queue.len() == n).then_some(map)
}

/// Tries all orders from `at` on until `stop` says so.
fn permute(order: &mut Vec<usize>, at: usize, stop: &mut impl FnMut(&[usize]) -> bool) -> bool {
    if at == order.len() {
        return stop(order);
    }
    for i in at..order.len() {
        order.swap(at, i);
        if permute(order, at + 1, stop) {
            return true;
        }
        order.swap(at, i);
    }
    false
}
