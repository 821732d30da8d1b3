//! The search for an automorphism that takes one ordered partition to another: nodes are made cells of their own on both
//! sides in step, and a way that looks different on both sides is left.

use super::automorphism::Automorphism;
use super::refine::{Partition, Refiner, Structure};
use crate::fluid::network::Network;
use crate::run::{Run, Stopped};

/// What a search may spend.
pub(super) struct Budget<'a> {
    /// So many partitions may still be refined.
    pub(super) left: usize,
    pub(super) run: &'a Run<'a>,
}

/// How a search ended.
pub(super) enum Found {
    /// One was found, and checked.
    Automorphism(Automorphism),
    /// All was tried: there is none.
    Nothing,
    /// Nobody knows: the budget is spent.
    LimitReached,
}

/// How a search goes on.
enum Advance {
    /// With another image for the last step, or for an earlier one.
    Onward,
    /// Every image has been tried.
    Exhausted,
    LimitReached,
}

/// A step of the left side: which node became a cell of its own, out of which cell, and what that looked like.
struct Step {
    cell: u32,
    node: u32,
    trace: u64,
}

/// Where a node of the left side may go: candidates, and how many of them have been tried.
struct Choice {
    images: Vec<u32>,
    tried: usize,
}

impl Choice {
    fn image(&self) -> u32 {
        self.images[self.tried - 1]
    }
}

/// A search in one fabric.
pub(super) struct Search<'a> {
    network: &'a Network,
    marks: &'a [u32],
    pub(super) refiner: Refiner<'a>,
    budget: Budget<'a>,
}

impl<'a> Search<'a> {
    pub(super) fn new(network: &'a Network, marks: &'a [u32], structure: &'a Structure, budget: Budget<'a>) -> Self {
        Search { network, marks, refiner: Refiner::new(structure), budget }
    }

    pub(super) fn check(&self) -> Result<(), Stopped> {
        self.budget.run.check()
    }

    /// The partition that every search begins with.
    pub(super) fn coarsest(&mut self) -> Partition {
        self.refiner.coarsest()
    }

    /// An automorphism that takes every cell on the left to the one in the same place on the right. `guess`: try early
    /// whether it can leave alone what the partitions do not say; without it, nodes of a cell go in ascending order where
    /// that is possible, so that the same cells always give the same images.
    pub(super) fn between(&mut self, mut left: Partition, mut right: Partition, guess: bool) -> Result<Found, Stopped> {
        let begin = right.clone();
        let mut steps: Vec<Step> = Vec::new();
        let mut choices: Vec<Choice> = Vec::new();
        loop {
            let depth = choices.len();
            if steps.len() == depth {
                let done = left.smallest_cell().is_none();
                let images = (done || guess && (depth + 1).is_power_of_two()).then(|| images(&left, &right));
                if let Some(found) = images.and_then(|images| self.verified(&images)) {
                    return Ok(Found::Automorphism(found));
                }
                if let Some(node) = left.smallest_cell().and_then(|cell| cell.iter().min().copied()) {
                    let cell = left.start(node);
                    let trace = self.refiner.individualise(&mut left, node);
                    steps.push(Step { cell, node, trace });
                }
            }
            if let Some(step) = steps.get(depth) {
                let mut images = right.cell(step.cell).to_vec();
                images.sort_unstable_by_key(|image| (*image != step.node, *image));
                choices.push(Choice { images, tried: 0 });
            }
            match self.advance(&begin, &mut right, &steps, &mut choices)? {
                Advance::Onward => {}
                Advance::Exhausted => return Ok(Found::Nothing),
                Advance::LimitReached => return Ok(Found::LimitReached),
            }
        }
    }

    /// The next images that look on the right as the nodes do on the left.
    fn advance(
        &mut self,
        begin: &Partition,
        right: &mut Partition,
        steps: &[Step],
        choices: &mut Vec<Choice>,
    ) -> Result<Advance, Stopped> {
        while let Some(choice) = choices.last_mut() {
            if choice.tried == choice.images.len() {
                choices.pop();
                continue;
            }
            choice.tried += 1;
            let first = choice.tried == 1;
            let earlier = choices.len() - 1;
            let cost = if first { 1 } else { earlier + 1 };
            self.check()?;
            if self.budget.left < cost {
                return Ok(Advance::LimitReached);
            }
            self.budget.left -= cost;
            if !first {
                right.clone_from(begin);
                choices[..earlier].iter().for_each(|choice| _ = self.refiner.individualise(right, choice.image()));
            }
            if self.refiner.individualise(right, choices[earlier].image()) == steps[earlier].trace {
                return Ok(Advance::Onward);
            }
        }
        Ok(Advance::Exhausted)
    }

    fn verified(&self, images: &[u32]) -> Option<Automorphism> {
        Automorphism::verify(self.network, self.marks, images).ok()
    }
}

/// Images of nodes: those in cells of their own go to what stands in the same place, all others stay, or close the cycle
/// that begins with them where another has come in their place.
fn images(left: &Partition, right: &Partition) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let count = left.cells().map(<[u32]>::len).sum();
    let (mut images, mut sources) = (vec![NONE; count], vec![NONE; count]);
    for cell in left.cells().filter(|cell| cell.len() == 1) {
        // What looks the same on both sides by chance can still be something else.
        if let [image] = *right.cell(left.start(cell[0]))
            && (image as usize) < count
        {
            images[cell[0] as usize] = image;
            sources[image as usize] = cell[0];
        }
    }
    for node in 0..count as u32 {
        if images[node as usize] == NONE {
            let mut image = node;
            while sources[image as usize] != NONE {
                image = sources[image as usize];
            }
            images[node as usize] = image;
            sources[image as usize] = node;
        }
    }
    images
}
