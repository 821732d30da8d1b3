//! Symmetry of a fabric: permutations of its nodes that keep everything a program can see, found by colour refinement.
//!
//! Nothing here is trusted: every permutation, wherever it comes from, passes [`Automorphism::verify`] before anybody gets
//! it, and products of verified ones are automorphisms too. A search that ends early gives fewer symmetries, never wrong
//! ones.
//!
//! | module | is |
//! | --- | --- |
//! | [`automorphism`] | one verified permutation, with what it does to links and limits |
//! | `refine` | ordered partitions of nodes that no symmetry mixes |
//! | `search` | an automorphism between two such partitions |
//! | [`orbits`] | what a set of automorphisms takes to each other; pairs of ends |
//! | [`regular`] | a group of which only the identity fixes an origin |

pub mod automorphism;
pub mod orbits;
mod refine;
pub mod regular;
#[cfg(test)]
mod samples;
mod search;
#[cfg(test)]
mod tests;

use super::network::Network;
use crate::run::{Run, Stopped};
use automorphism::Automorphism;
use num_bigint::BigUint;
use orbits::Orbits;
use refine::{Partition, Structure};
use search::{Budget, Found, Search};

/// Partitions that a search refines before it ends with what it has.
pub const MAX_SEARCH_NODES: usize = 50_000;

/// One step of the base: a node that the symmetries of all further steps fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its place in the network.
    pub node: u32,
    /// Where the symmetries that fix the nodes of all earlier steps take it; ascending, with itself.
    pub orbit: Vec<u32>,
    /// Generators that fix the nodes of all earlier steps.
    generators: usize,
}

/// A group of automorphisms, by a base and a strong generating set.
#[derive(Clone, Debug, PartialEq)]
pub struct Symmetries {
    /// They generate it; those that fix more of the base stand first.
    pub generators: Vec<Automorphism>,
    /// By step of the base. Only the identity fixes the nodes of all of them.
    pub levels: Vec<Level>,
    /// Was the search exhaustive? Otherwise there may be more symmetries than these.
    pub complete: bool,
}

impl Symmetries {
    /// Generators of those symmetries that fix the first `depth` nodes of the base.
    pub fn stabiliser(&self, depth: usize) -> &[Automorphism] {
        let count = match depth {
            0 => self.generators.len(),
            _ => self.levels.get(depth).map_or(0, |level| level.generators),
        };
        &self.generators[..count]
    }

    /// How many permutations of nodes they are; of an incomplete search so many at least.
    pub fn order(&self) -> BigUint {
        self.levels.iter().map(|level| BigUint::from(level.orbit.len())).product()
    }
}

/// The automorphisms of a fabric that keep the marks of its nodes. `marks` say by node what part it plays; `base` are nodes
/// that the base begins with.
///
/// # Errors
/// [`Stopped`], if the work was called off or the deadline has passed.
pub fn find(network: &Network, marks: &[u32], base: &[u32], run: &Run<'_>) -> Result<Symmetries, Stopped> {
    find_within(network, marks, base, MAX_SEARCH_NODES, run)
}

/// As [`find`], with at most so many refined partitions.
fn find_within(
    network: &Network,
    marks: &[u32],
    base: &[u32],
    limit: usize,
    run: &Run<'_>,
) -> Result<Symmetries, Stopped> {
    let structure = Structure::of(network, marks);
    let mut search = Search::new(network, marks, &structure, Budget { left: limit, run });
    let coarsest = search.coarsest();
    let path = path(&mut search, &coarsest, base)?;
    let mut levels: Vec<Level> = Vec::with_capacity(path.len());
    let mut generators: Vec<Automorphism> = Vec::new();
    let mut complete = true;
    for (depth, node) in path.iter().enumerate().rev() {
        let mut here = coarsest.clone();
        path[..depth].iter().for_each(|earlier| _ = search.refiner.individualise(&mut here, *earlier));
        run.check()?;
        let mut left = here.clone();
        let trace = search.refiner.individualise(&mut left, *node);
        let mut orbits = Orbits::of_nodes(network, &generators);
        let mut hopeless: Vec<u32> = Vec::new();
        let mut images = here.members(*node).to_vec();
        images.sort_unstable();
        for image in images {
            // What takes an image to another fixes the nodes before: where one cannot be reached, the other cannot either.
            let class = orbits.class(image);
            if class == orbits.class(*node) || hopeless.iter().any(|dead| orbits.class(*dead) == class) {
                continue;
            }
            let mut right = here.clone();
            if search.refiner.individualise(&mut right, image) != trace {
                hopeless.push(image);
                continue;
            }
            match search.between(left.clone(), right, true)? {
                Found::Automorphism(found) => {
                    generators.push(found);
                    orbits = Orbits::of_nodes(network, &generators);
                }
                Found::Nothing => hopeless.push(image),
                Found::LimitReached => complete = false,
            }
        }
        let orbit = orbits.members(orbits.class(*node));
        levels.push(Level { node: *node, orbit, generators: generators.len() });
    }
    levels.reverse();
    Ok(Symmetries { generators, levels, complete })
}

/// A base: the wanted nodes, then a node of the smallest cell until every node is a cell of its own.
fn path(search: &mut Search<'_>, coarsest: &Partition, base: &[u32]) -> Result<Vec<u32>, Stopped> {
    let mut path = base.to_vec();
    let mut here = coarsest.clone();
    base.iter().for_each(|node| _ = search.refiner.individualise(&mut here, *node));
    while let Some(node) = here.smallest_cell().and_then(|cell| cell.iter().min().copied()) {
        search.check()?;
        search.refiner.individualise(&mut here, node);
        path.push(node);
    }
    Ok(path)
}
