//! What one flow got on a bottleneck is worth trying for the others there: the best delivered rate on every link.

use super::Host;
use super::flows::Flow;
use super::links::Links;
use crate::units::{FlowId, LinkId, Rate};

/// The best delivered rate of the last slots on a link, and the best of all flows but the one that had it.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    rate: Rate,
    of: Option<FlowId>,
    /// The best of the other flows.
    next: Rate,
}

/// What this host's managed flows delivered at best on each link, by index of the link.
#[derive(Debug, Default)]
pub(super) struct BestOnLinks(Vec<Best>);

impl BestOnLinks {
    fn note(&mut self, link: usize, flow: FlowId, rate: Rate) {
        if self.0.len() <= link {
            self.0.resize(link + 1, Best::default());
        }
        let best = &mut self.0[link];
        if best.of.is_none() || rate > best.rate {
            *best = Best { rate, of: Some(flow), next: best.rate };
        } else {
            best.next = best.next.max(rate);
        }
    }

    /// The best delivered rate of the host's other flows on a link; zero if there are none.
    fn of_others(&self, link: usize, flow: FlowId) -> Rate {
        match self.0.get(link) {
            Some(best) if best.of == Some(flow) => best.next,
            Some(best) => best.rate,
            None => Rate::ZERO,
        }
    }
}

/// The link of a path that leaves managed flows least. Of equal ones it is the one nearest to the receiver: fewest flows
/// of the host share it, and what one of them got there says most of the whole path.
fn tightest(links: &Links, path: &[usize]) -> Option<usize> {
    path.iter().rev().copied().min_by_key(|&link| links.usable(link))
}

impl Host {
    /// Is this a link that some path of this host crosses, or by which it receives? Nobody is asked for any other.
    pub fn knows(&self, link: LinkId) -> bool {
        self.links.know(link)
    }

    /// What every managed flow of this host delivered at best in the remembered slots, by link.
    fn best_on_links(&self) -> BestOnLinks {
        let mut bests = BestOnLinks::default();
        for flow in self.flows.values().filter(|flow| !flow.released) {
            let rate = flow.ceiling.best();
            flow.path.iter().for_each(|&link| bests.note(link, flow.spec.flow, rate));
        }
        bests
    }

    /// B_f: the highest rate worth trying, by what the flow and the host's others on its tightest link delivered. `bests` is
    /// that of [`Host::best_on_links`], worked out by the first flow that needs it: most have no ceiling, whatever others got.
    pub(super) fn ceiling_of(&self, flow: &Flow, bests: &mut Option<BestOnLinks>) -> Rate {
        if flow.ceiling.rate(Rate::ZERO) == Rate::MAX {
            return Rate::MAX;
        }
        let bests = bests.get_or_insert_with(|| self.best_on_links());
        let others = tightest(&self.links, &flow.path);
        flow.ceiling.rate(others.map_or(Rate::ZERO, |link| bests.of_others(link, flow.spec.flow)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition, flow by flow, for all orders in which three rates can come.
    #[test]
    fn the_best_of_the_others_leaves_the_flow_itself_out() {
        for rates in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1], [2, 2, 1], [0, 0, 0]] {
            let mut bests = BestOnLinks::default();
            for (flow, rate) in rates.iter().enumerate() {
                bests.note(4, FlowId(flow as u64), Rate(*rate));
            }
            for flow in 0..3 {
                let others = (0..3).filter(|other| *other != flow).map(|other| rates[other]).max();
                assert_eq!(bests.of_others(4, FlowId(flow as u64)).0, others.unwrap_or(0), "{rates:?} without {flow}");
            }
            assert_eq!(bests.of_others(4, FlowId(9)).0, 3.min(*rates.iter().max().unwrap_or(&0)));
            assert_eq!((bests.of_others(3, FlowId(0)), bests.of_others(5, FlowId(0))), (Rate::ZERO, Rate::ZERO));
        }
    }
}
