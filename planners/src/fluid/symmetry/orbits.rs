//! Orbits: what automorphisms take to each other, of nodes, links, limits, and pairs of an origin and a destination.

use super::automorphism::Automorphism;
use super::find;
use super::refine::ranks;
use crate::fluid::network::Network;
use crate::run::{Run, Stopped};

/// A partition of nodes, links or limits into orbits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orbits {
    /// By index its orbit; orbits are numbered in the order of their representatives.
    pub classes: Vec<u32>,
    /// By orbit its least member.
    pub representatives: Vec<u32>,
    /// By orbit how many members it has.
    pub sizes: Vec<u32>,
}

impl Orbits {
    /// Orbits of nodes under the group that these generate.
    pub fn of_nodes(network: &Network, generators: &[Automorphism]) -> Orbits {
        Orbits::of(network.nodes(), generators.iter().map(|generator| &generator.nodes[..]))
    }
    /// Orbits of links, by their places in the network.
    pub fn of_edges(network: &Network, generators: &[Automorphism]) -> Orbits {
        Orbits::of(network.edges.len(), generators.iter().map(|generator| &generator.edges[..]))
    }
    /// Orbits of limits, by their places in the network.
    pub fn of_groups(network: &Network, generators: &[Automorphism]) -> Orbits {
        Orbits::of(network.groups.len(), generators.iter().map(|generator| &generator.groups[..]))
    }

    pub(crate) fn of<'a>(count: usize, generators: impl Iterator<Item = &'a [u32]>) -> Orbits {
        let mut parents: Vec<u32> = (0..count as u32).collect();
        let root = |parents: &mut [u32], mut index: u32| {
            while parents[index as usize] != index {
                parents[index as usize] = parents[parents[index as usize] as usize];
                index = parents[index as usize];
            }
            index
        };
        for images in generators {
            for (index, image) in (0..).zip(images) {
                let (one, other) = (root(&mut parents, index), root(&mut parents, *image));
                // The lesser is the root, so that a root is the least member.
                parents[one.max(other) as usize] = one.min(other);
            }
        }
        let mut orbits = Orbits { classes: vec![0; count], representatives: Vec::new(), sizes: Vec::new() };
        for index in 0..count as u32 {
            let least = root(&mut parents, index);
            if least == index {
                orbits.classes[index as usize] = orbits.representatives.len() as u32;
                orbits.representatives.push(index);
                orbits.sizes.push(0);
            }
            let class = orbits.classes[least as usize];
            orbits.classes[index as usize] = class;
            orbits.sizes[class as usize] += 1;
        }
        orbits
    }

    /// The orbit of one.
    pub fn class(&self, index: u32) -> u32 {
        self.classes[index as usize]
    }
    /// The members of an orbit, ascending.
    pub fn members(&self, class: u32) -> Vec<u32> {
        (0..).zip(&self.classes).filter(|(_, of)| **of == class).map(|(index, _)| index).collect()
    }
}

/// Destinations that look the same from an origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The least of them.
    pub end: u32,
    /// All of them, ascending.
    pub orbit: Vec<u32>,
    /// Generators of the symmetries that fix both the origin and `end`.
    pub stabiliser: Vec<Automorphism>,
}

/// What symmetries that fix an origin make of destinations.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// Generators of the symmetries that fix the origin.
    pub stabiliser: Vec<Automorphism>,
    /// By orbit of destinations, in the order of their least members.
    pub pairs: Vec<Pair>,
    /// Were all searches exhaustive? Otherwise there may be fewer orbits than these, and more symmetries.
    pub complete: bool,
}

/// The destinations of an origin in orbits under the symmetries that fix it and keep the marks.
///
/// # Errors
/// [`Stopped`], if the work was called off or the deadline has passed.
pub fn pairs(
    network: &Network,
    marks: &[u32],
    origin: u32,
    destinations: &[u32],
    run: &Run<'_>,
) -> Result<Pairs, Stopped> {
    // A mark of its own fixes a node; ranks of marks are less than the number of nodes.
    let mut marks = ranks(marks.iter());
    let (first, second) = (network.nodes() as u32, network.nodes() as u32 + 1);
    marks[origin as usize] = first;
    let around = find(network, &marks, &[], run)?;
    let orbits = Orbits::of_nodes(network, &around.generators);
    let mut complete = around.complete;
    let mut classes: Vec<u32> = destinations.iter().map(|end| orbits.class(*end)).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut pairs = Vec::with_capacity(classes.len());
    for class in classes {
        let orbit: Vec<u32> =
            orbits.members(class).into_iter().filter(|member| destinations.contains(member)).collect();
        let Some(end) = orbit.first().copied() else { continue };
        let kept = std::mem::replace(&mut marks[end as usize], second);
        let both = find(network, &marks, &[], run)?;
        marks[end as usize] = kept;
        complete &= both.complete;
        pairs.push(Pair { end, orbit, stabiliser: both.generators });
    }
    Ok(Pairs { stabiliser: around.generators, pairs, complete })
}
