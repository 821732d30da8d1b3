//! Sharing by filling up: ready flows have what they reserved, and what is left of the links is divided by weighted max-min.
//!
//! All flows rise together, each in proportion to its weight, until a link is full; its flows stay where they are, and the others
//! rise on. Without reservations this is plain weighted max-min.

use super::fixed::{Fixed, OutOfRange};
use super::instance::Instance;
use super::replay::Rule;

/// Links that fill up within one part of so many of each other do so together.
const TOGETHER: u64 = 1 << 40;

/// The rule, and what it needs at every event.
pub struct Fill<'a> {
    instance: &'a Instance,
    /// By flow; none of the flows that no link limits is ever asked for.
    reserved: Vec<Fixed>,
    weights: Vec<Fixed>,
    links: Vec<Link>,
    /// Links that ready flows take.
    used: Vec<u32>,
}

/// A link that ready flows take.
#[derive(Clone, Default)]
struct Link {
    /// What is not given away.
    left: Fixed,
    /// Weights of the flows that still rise.
    weight: Fixed,
    /// How far they rise until the link is full.
    level: Fixed,
    /// Do `left` and `weight` say something new about `level`?
    stale: bool,
    /// Places of its flows among the ready ones.
    flows: Vec<usize>,
}

impl<'a> Fill<'a> {
    /// Flows with these reservations and weights, by flow.
    pub fn new(instance: &'a Instance, reserved: Vec<Fixed>, weights: Vec<Fixed>) -> Fill<'a> {
        let links = vec![Link::default(); instance.capacities.len()];
        Fill { instance, reserved, weights, links, used: Vec::new() }
    }

    /// Puts the ready flows on their links, with what they reserved.
    fn begin(&mut self, ready: &[usize], rates: &mut [Fixed]) -> Result<u64, OutOfRange> {
        for link in self.used.drain(..) {
            self.links[link as usize].flows.clear();
        }
        let mut visits = 0;
        for (place, flow) in ready.iter().enumerate() {
            let (reserved, weight) = (self.reserved[*flow], self.weights[*flow]);
            rates[place] = reserved;
            for link in &self.instance.transfers[*flow].route {
                let of = &mut self.links[*link as usize];
                if of.flows.is_empty() {
                    self.used.push(*link);
                    (of.left, of.weight) = (self.instance.capacities[*link as usize], Fixed::ZERO);
                    of.stale = true;
                }
                of.left = of.left.less(reserved);
                of.weight = of.weight.plus(weight)?;
                of.flows.push(place);
                visits += 1;
            }
        }
        Ok(visits)
    }
}

impl Rule for Fill<'_> {
    fn share(&mut self, ready: &[usize], rates: &mut [Fixed]) -> Result<u64, OutOfRange> {
        let mut visits = self.begin(ready, rates)?;
        let mut rising = vec![true; ready.len()];
        let mut left = ready.len();
        let mut open = self.used.clone();
        while left > 0 {
            // Weights are taken away exactly as they were added: where no flow rises any more, none is left.
            open.retain(|link| !self.links[*link as usize].weight.is_zero());
            visits += open.len() as u64;
            let mut level = Fixed::MOST;
            for link in &open {
                let of = &mut self.links[*link as usize];
                if std::mem::take(&mut of.stale) {
                    of.level = of.left.over(of.weight)?;
                }
                level = level.min(of.level);
            }
            let together = level.about(TOGETHER);
            let full = |link: &&u32| self.links[**link as usize].level <= together;
            let full: Vec<u32> = open.iter().filter(full).copied().collect();
            let before = left;
            for link in full {
                let flows = std::mem::take(&mut self.links[link as usize].flows);
                for place in flows.iter().filter(|place| std::mem::take(&mut rising[**place])) {
                    let flow = ready[*place];
                    let more = level.times(self.weights[flow])?;
                    rates[*place] = rates[*place].plus(more)?.as_rate()?;
                    for link in &self.instance.transfers[flow].route {
                        let of = &mut self.links[*link as usize];
                        (of.left, of.weight) = (of.left.less(more), of.weight.less(self.weights[flow]));
                        of.stale = true;
                        visits += 1;
                    }
                    left -= 1;
                }
                self.links[link as usize].flows = flows;
            }
            if left == before {
                // A flow without any limited link: nobody asks for its rate.
                return Err(OutOfRange);
            }
        }
        Ok(visits)
    }
}
