//! Sharing by priority: one ready flow after the other takes the least that is left on its route.
//!
//! The order is by given ranks, else by how urgent collectives are; behind that the flow goes first whose chain has more left to do.
//! Planners count in floats, so times that are equal may come to differ in their last digits: among the ready flows, times
//! count as equal that are within one part in 2³⁰ of the next longer one.

use std::cmp::Reverse;

use super::fixed::{Fixed, OutOfRange};
use super::instance::Instance;
use super::replay::Rule;

/// A flow that would get less than one part of so many of what it has alone gets nothing.
const LEAST: u64 = 1_000_000_000;
/// Times are equal within one part of so many.
const EQUAL: u64 = 1 << 30;

/// The rule, and how much is left to do.
pub struct Priority<'a> {
    instance: &'a Instance,
    /// By flow; `None`: computed anew at every event.
    ranks: Option<Vec<u64>>,
    /// By group: how long what is left of it takes, each flow alone on its route.
    chains: Vec<Fixed>,
    /// By flow: how long those behind it in its group take so.
    behind: Vec<Fixed>,
    /// What is left of each collective on each link.
    parts: Vec<Part>,
    /// By flow, the parts that it moves.
    parts_of: Vec<Vec<u32>>,
    /// By link, what nobody has taken.
    left: Vec<Fixed>,
}

/// What is left of a collective on a link.
struct Part {
    collective: usize,
    capacity: Fixed,
    volume: Fixed,
    /// How long it takes if nobody else uses the link.
    seconds: Fixed,
}

impl<'a> Priority<'a> {
    /// By these ranks, one for each flow.
    pub fn by_rank(instance: &'a Instance, ranks: Vec<u64>) -> Result<Priority<'a>, OutOfRange> {
        let mut priority = Priority::new(instance)?;
        priority.ranks = Some(ranks);
        Ok(priority)
    }

    /// The collective first that would end first if it were alone.
    pub fn recomputed(instance: &'a Instance) -> Result<Priority<'a>, OutOfRange> {
        let mut priority = Priority::new(instance)?;
        let mut places = std::collections::HashMap::new();
        for of in &instance.transfers {
            let mut parts = Vec::with_capacity(of.route.len());
            for link in &of.route {
                let next = priority.parts.len();
                let place = *places.entry((of.collective, *link)).or_insert(next);
                if place == next {
                    let capacity = instance.capacities[*link as usize];
                    let (volume, seconds) = (Fixed::ZERO, Fixed::ZERO);
                    priority.parts.push(Part { collective: of.collective, capacity, volume, seconds });
                }
                let part = &mut priority.parts[place];
                part.volume = part.volume.plus(of.size)?;
                parts.push(place as u32);
            }
            priority.parts_of.push(parts);
        }
        for part in &mut priority.parts {
            part.seconds = part.volume.over(part.capacity)?;
        }
        Ok(priority)
    }

    fn new(instance: &'a Instance) -> Result<Priority<'a>, OutOfRange> {
        let mut behind = vec![Fixed::ZERO; instance.transfers.len()];
        let mut chains = Vec::with_capacity(instance.groups.len());
        for group in &instance.groups {
            let mut left = Fixed::ZERO;
            for flow in group.iter().rev() {
                behind[*flow] = left;
                left = left.plus(instance.takes(*flow, instance.transfers[*flow].alone)?)?;
            }
            chains.push(left);
        }
        let left = vec![Fixed::ZERO; instance.capacities.len()];
        Ok(Priority { instance, ranks: None, chains, behind, parts: Vec::new(), parts_of: Vec::new(), left })
    }

    /// By collective, how long it takes at least from now on.
    fn urgency(&self) -> Vec<Fixed> {
        let mut longest = vec![Fixed::ZERO; self.instance.collectives];
        let chains = self.instance.groups.iter().zip(&self.chains).filter_map(|(group, left)| {
            let first = group.first()?;
            Some((self.instance.transfers[*first].collective, *left))
        });
        for (collective, seconds) in chains.chain(self.parts.iter().map(|part| (part.collective, part.seconds))) {
            longest[collective] = longest[collective].max(seconds);
        }
        longest
    }
}

impl Rule for Priority<'_> {
    fn share(&mut self, ready: &[usize], rates: &mut [Fixed]) -> Result<u64, OutOfRange> {
        let flows = &self.instance.transfers;
        let of = |flow: &usize| &flows[*flow];
        let chains = classes(&ready.iter().map(|flow| self.chains[of(flow).group]).collect::<Vec<_>>());
        let urgency: Vec<(u64, usize)> = match &self.ranks {
            Some(ranks) => ready.iter().map(|flow| (ranks[*flow], 0)).collect(),
            None => {
                let urgency = self.urgency();
                let classes = classes(&ready.iter().map(|flow| urgency[of(flow).collective]).collect::<Vec<_>>());
                classes.into_iter().zip(ready.iter().map(|flow| of(flow).collective)).collect()
            }
        };
        let mut order: Vec<usize> = (0..ready.len()).collect();
        order.sort_unstable_by_key(|place| (urgency[*place], Reverse(chains[*place]), of(&ready[*place]).id));
        for link in ready.iter().flat_map(|flow| &of(flow).route) {
            self.left[*link as usize] = self.instance.capacities[*link as usize];
        }
        let mut visits = (self.parts.len() + if self.ranks.is_none() { self.chains.len() } else { 0 }) as u64;
        for place in order {
            let of = of(&ready[place]);
            let least = of.route.iter().map(|link| self.left[*link as usize]).min().unwrap_or(Fixed::ZERO);
            if of.alone.is_none_or(|alone| least < alone.nth(LEAST)) {
                continue;
            }
            rates[place] = least;
            for link in &of.route {
                self.left[*link as usize] = self.left[*link as usize].less(least);
            }
            visits += 2 * of.route.len() as u64;
        }
        Ok(visits)
    }

    fn moved(&mut self, flow: usize, moved: Fixed, left: Fixed) -> Result<(), OutOfRange> {
        let of = &self.instance.transfers[flow];
        if let Some(alone) = of.alone {
            self.chains[of.group] = left.over(alone)?.plus(self.behind[flow])?;
        }
        for part in self.parts_of.get(flow).into_iter().flatten() {
            let part = &mut self.parts[*part as usize];
            part.volume = part.volume.less(moved);
            part.seconds = part.volume.over(part.capacity)?;
        }
        Ok(())
    }
}

/// Places of these times in ascending order, the same for times that count as equal.
fn classes(times: &[Fixed]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_unstable_by_key(|place| times[*place]);
    let mut classes = vec![0; times.len()];
    let mut class = 0;
    for pair in order.windows(2) {
        class += u64::from(times[pair[1]] > times[pair[0]].about(EQUAL));
        classes[pair[1]] = class;
    }
    classes
}
