//! A group of automorphisms of which only the identity fixes an origin: with it, a solution for one origin has exactly one
//! image for every origin that it reaches.
//!
//! Candidates are the plain regular moves of origins in their order: rotations of all, of blocks and within blocks, and
//! exchanges of halves. Each is extended to the whole fabric and verified, and kept where what it generates stays regular.

use super::MAX_SEARCH_NODES;
use super::automorphism::Automorphism;
use super::refine::Structure;
use super::search::{Budget, Found, Search};
use crate::fluid::network::Network;
use crate::run::{Run, Stopped};
use std::collections::HashSet;

/// All elements of such a group, the identity first; `machines` by node which one it stands in.
///
/// # Errors
/// [`Stopped`], if the work was called off or the deadline has passed.
pub fn regular(
    network: &Network,
    marks: &[u32],
    origins: &[u32],
    machines: &[Option<u32>],
    run: &Run<'_>,
) -> Result<Vec<Automorphism>, Stopped> {
    // Origins of a machine stand together.
    let mut order = origins.to_vec();
    order.sort_by_key(|origin| (machines.get(*origin as usize).copied().flatten(), *origin));
    let mut group = vec![Automorphism::identity(network)];
    let structure = Structure::of(network, marks);
    for moves in candidates(order.len()) {
        run.check()?;
        let reached = |element: &Automorphism| element.nodes[order[0] as usize] == order[moves[0]];
        if group.len() == order.len() || group.iter().any(reached) {
            continue;
        }
        let mut search = Search::new(network, marks, &structure, Budget { left: MAX_SEARCH_NODES, run });
        if let Some(found) = extended(&mut search, &order, &moves)?
            && let Some(larger) = generated(&group, &found, origins)
        {
            group = larger;
        }
    }
    Ok(group)
}

/// Regular moves of so many places: by place where it goes. Nothing stays where it is.
fn candidates(count: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let blocks: Vec<usize> = (2..=count).filter(|block| count.is_multiple_of(*block)).collect();
    // Within blocks, the largest first: one of them all is a rotation of everything.
    for block in blocks.iter().rev() {
        all.push((0..count).map(|place| place / block * block + (place % block + 1) % block).collect());
    }
    // Whole blocks.
    for block in &blocks {
        all.push((0..count).map(|place| (place + block) % count).collect());
    }
    // Halves of blocks change places.
    for block in blocks.iter().filter(|block| block.is_multiple_of(2)) {
        let half = block / 2;
        all.push((0..count).map(|place| place / block * block + (place % block + half) % block).collect());
    }
    all
}

/// The automorphism that moves origins so, if there is one.
fn extended(search: &mut Search<'_>, order: &[u32], moves: &[usize]) -> Result<Option<Automorphism>, Stopped> {
    let mut left = search.coarsest();
    let mut right = left.clone();
    for (place, image) in moves.iter().enumerate() {
        let trace = search.refiner.individualise(&mut left, order[place]);
        if search.refiner.individualise(&mut right, order[*image]) != trace {
            return Ok(None);
        }
    }
    Ok(match search.between(left, right, false)? {
        Found::Automorphism(found) => Some(found),
        Found::Nothing | Found::LimitReached => None,
    })
}

/// What a group and one more element generate, if only its identity fixes an origin. Such a group has no more elements than
/// there are origins.
fn generated(group: &[Automorphism], further: &Automorphism, origins: &[u32]) -> Option<Vec<Automorphism>> {
    let mut all = group.to_vec();
    let mut known: HashSet<Automorphism> = all.iter().cloned().collect();
    let generators: Vec<Automorphism> = group.iter().skip(1).chain([further]).cloned().collect();
    let mut next = 0;
    while next < all.len() {
        for generator in &generators {
            let product = all[next].then(generator);
            if known.contains(&product) {
                continue;
            }
            let fixes = |origin: &u32| product.nodes[*origin as usize] == *origin;
            if origins.iter().any(fixes) || all.len() == origins.len() {
                return None;
            }
            known.insert(product.clone());
            all.push(product);
        }
        next += 1;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Rails, dgx, ring, star, two_box};
    use super::*;

    fn check(network: &Network, origins: &[u32], machines: &[Option<u32>]) -> usize {
        let mut marks = vec![0; network.nodes()];
        origins.iter().for_each(|origin| marks[*origin as usize] = 1);
        let group = regular(network, &marks, origins, machines, &Run::quiet(1)).expect("not stopped");
        assert_eq!(group[0], Automorphism::identity(network));
        for element in &group {
            assert_eq!(
                Automorphism::verify(network, &marks, &element.nodes).as_ref().map(|e| &e.nodes),
                Ok(&element.nodes)
            );
            assert!(group.iter().all(|other| group.contains(&element.then(other))), "closed");
        }
        let fixes = |element: &&Automorphism| origins.iter().any(|origin| element.nodes[*origin as usize] == *origin);
        assert_eq!(group.iter().filter(fixes).count(), 1, "only the identity fixes an origin");
        group.len()
    }

    #[test]
    fn rings_stars_and_boxes_are_turned_whole() {
        for (network, count) in [(ring(6), 6), (star(5), 5), (two_box(), 4)] {
            let origins: Vec<u32> = (0..count).collect();
            assert_eq!(check(&network, &origins, &[]), count as usize);
        }
    }

    #[test]
    fn clusters_are_turned_whole() {
        for rails in [Rails::Nvlink, Rails::Pcie, Rails::All] {
            for machines in [1, 2, 4] {
                let (cluster, of) = dgx(machines, rails);
                let origins: Vec<u32> =
                    (0..cluster.nodes() as u32).filter(|node| cluster.can[*node as usize].reduce).collect();
                assert_eq!(check(&cluster, &origins, &of), 8 * machines as usize, "{machines} machines");
            }
        }
    }
}
