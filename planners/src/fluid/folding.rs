//! Jobs that a group of permutations carries onto each other, so that one of each class is planned and moved round.
//!
//! The group is semiregular on the roots: only the identity keeps one in its place. So each job of a class is the image of
//! the representative under exactly one element, and what the representative does can be moved there whole.

use super::demand::{Block, Demand};
use super::network::Network;
use super::refusal::Refusal;
use super::symmetry::automorphism::Automorphism;
use std::collections::BTreeMap;

/// What one route, or the two of an all-reduce, are for.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// A block; of an all-reduce the sum at a root, and its spread.
    pub blocks: Vec<Block>,
}

/// Jobs that are images of each other.
#[derive(Clone, Debug)]
pub struct JobClass {
    /// The one of them that is planned for all.
    pub job: Job,
    /// By which elements of the group the jobs are reached, by their place; the identity first.
    pub images: Vec<usize>,
}

/// Jobs and limits up to a group.
#[derive(Clone, Debug)]
pub struct Folding {
    /// The group, the identity first.
    pub elements: Vec<Automorphism>,
    /// The classes of jobs.
    pub classes: Vec<JobClass>,
    /// By limit its class.
    pub limits: Vec<u32>,
    /// By class of limits how many they are.
    pub sizes: Vec<usize>,
    /// Do all jobs share one unit? Else each moves its own.
    pub shares_roots: bool,
}

impl Folding {
    /// What a group does to a demand. Elements that do not carry jobs onto jobs are refused.
    ///
    /// # Errors
    /// `NotAnAutomorphism`.
    pub fn of(network: &Network, demand: &Demand, elements: Vec<Automorphism>) -> Result<Folding, Refusal> {
        let shares_roots = matches!(demand, Demand::AllReduce { .. });
        let blocks = demand.blocks();
        let jobs: Vec<Job> =
            blocks.chunks(if shares_roots { 2 } else { 1 }).map(|blocks| Job { blocks: blocks.to_vec() }).collect();
        let key = |job: &Job| -> Vec<(u32, super::demand::Direction, Vec<u32>)> {
            job.blocks.iter().map(|block| (block.root, block.direction, block.ends.clone())).collect()
        };
        let places: BTreeMap<_, usize> = jobs.iter().zip(0..).map(|(job, place)| (key(job), place)).collect();
        let moved = |job: &Job, by: &Automorphism| -> Option<usize> {
            let image = |block: &Block| {
                let mut ends: Vec<u32> = block.ends.iter().map(|end| by.nodes[*end as usize]).collect();
                ends.sort_unstable();
                (by.nodes[block.root as usize], block.direction, ends)
            };
            let place = *places.get(&job.blocks.iter().map(image).collect::<Vec<_>>())?;
            let same =
                jobs[place].blocks.iter().zip(&job.blocks).all(|(a, b)| a.units == b.units && a.shape == b.shape);
            same.then_some(place)
        };
        let mut reached = vec![false; jobs.len()];
        let mut classes = Vec::new();
        for place in 0..jobs.len() {
            if reached[place] {
                continue;
            }
            let mut images = Vec::with_capacity(elements.len());
            for (number, element) in elements.iter().enumerate() {
                let Some(image) = moved(&jobs[place], element) else {
                    return Err(Refusal::NotAnAutomorphism { what: "it does not carry demands onto demands".into() });
                };
                if std::mem::replace(&mut reached[image], true) {
                    return Err(Refusal::NotAnAutomorphism { what: "two elements move a demand to one place".into() });
                }
                images.push(number);
            }
            classes.push(JobClass { job: jobs[place].clone(), images });
        }
        let limits = of_limits(network, &elements);
        let mut sizes = vec![0; limits.iter().map(|class| *class as usize + 1).max().unwrap_or(0)];
        limits.iter().for_each(|class| sizes[*class as usize] += 1);
        Ok(Folding { elements, classes, limits, sizes, shares_roots })
    }

    /// By link the classes of limits that it counts in, each with how many limits of the class it is in.
    pub fn counts(&self, network: &Network) -> Vec<Vec<(u32, u32)>> {
        let mut counts: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); network.edges.len()];
        for (place, group) in network.limits() {
            for edge in &group.edges {
                *counts[*edge as usize].entry(self.limits[place]).or_default() += 1;
            }
        }
        counts.into_iter().map(|counts| counts.into_iter().collect()).collect()
    }
}

/// By limit the class of those that the group carries onto each other.
fn of_limits(network: &Network, elements: &[Automorphism]) -> Vec<u32> {
    let mut classes = vec![u32::MAX; network.groups.len()];
    let mut next = 0;
    for place in 0..network.groups.len() {
        if classes[place] == u32::MAX {
            classes[place] = next;
            elements.iter().for_each(|element| classes[element.groups[place] as usize] = next);
            next += 1;
        }
    }
    classes
}
