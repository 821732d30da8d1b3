//! Which network card a message takes where its rank has several at hand.
//!
//! The runtime decides that by the channel: of a rank's nearest cards, in order, channel `c` takes number `c` modulo how
//! many they are. So a tree edge whose path goes through one of several cards needs a channel that leads there.

use std::collections::{HashMap, VecDeque};

use crate::plan::{NodeId, Plan};
use sluice_formats::topology::{Kind, Topology};

/// The channels that lead over one network card: those that leave `index` when divided by `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rail {
    /// The card's place among those nearest to the rank.
    pub index: u32,
    /// How many these are, two or more.
    pub of: u32,
}

impl Rail {
    /// Does this channel lead there?
    pub fn takes(self, channel: u32) -> bool {
        channel % self.of == self.index
    }
}

/// The network cards among which ranks can choose.
#[derive(Debug, Default)]
pub struct Rails {
    /// By rank and card.
    of: HashMap<(NodeId, NodeId), Rail>,
}

impl Rails {
    /// Looks for the cards nearest to every rank: over the fewest links, through nodes that are no rank.
    pub fn new(plan: &Plan, topology: &Topology, ranks: &HashMap<NodeId, u32>) -> Rails {
        let mut rails = Rails::default();
        let nodes = topology.nodes();
        if nodes.iter().all(|node| node.kind != Kind::Nic) {
            return rails;
        }
        let named: Vec<Option<NodeId>> = nodes.iter().map(|node| plan.names.find(&node.id)).collect();
        let mut next = vec![Vec::new(); nodes.len()];
        for link in topology.links() {
            next[link.from].push(link.to);
        }
        let is_rank = |node: usize| named[node].is_some_and(|name| ranks.contains_key(&name));
        for rank in (0..nodes.len()).filter(|node| is_rank(*node)) {
            let cards = nearest(rank, &next, |node| nodes[node].kind == Kind::Nic, is_rank);
            for (index, card) in (0..).zip(&cards).filter(|_| cards.len() > 1) {
                if let (Some(rank), Some(card)) = (named[rank], named[*card]) {
                    rails.of.insert((rank, card), Rail { index, of: cards.len() as u32 });
                }
            }
        }
        rails
    }

    /// What a message over this path needs, from the sending rank to the receiving one: a channel that leads to the card at
    /// the sender, and where that one has no choice, at the receiver.
    pub fn rail(&self, path: &[NodeId]) -> Option<Rail> {
        let (&[from, ref via @ .., to], false) = (path, self.of.is_empty()) else { return None };
        let at = |rank, card: &NodeId| self.of.get(&(rank, *card)).copied();
        via.iter().find_map(|card| at(from, card)).or_else(|| via.iter().rev().find_map(|card| at(to, card)))
    }
}

/// The cards that are reached over the fewest links, in the order of their nodes.
fn nearest(
    rank: usize,
    next: &[Vec<usize>],
    is_card: impl Fn(usize) -> bool,
    is_rank: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let (mut far, mut queue) = (HashMap::from([(rank, 0)]), VecDeque::from([rank]));
    let (mut cards, mut least) = (Vec::new(), u32::MAX);
    while let Some(node) = queue.pop_front() {
        let hops = far[&node] + 1;
        if hops > least {
            break;
        }
        for &other in &next[node] {
            if is_rank(other) || far.contains_key(&other) {
                continue;
            }
            far.insert(other, hops);
            if is_card(other) {
                least = hops;
                cards.push(other);
            } else {
                queue.push_back(other);
            }
        }
    }
    cards.sort_unstable();
    cards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_cards_count_and_ranks_forward_nothing() {
        // 0 is a rank; 1 a switch with cards 2 and 3; 4 a rank beside it with card 5; card 6 lies behind 2.
        let next = [vec![1, 4], vec![3, 2, 0], vec![6], vec![], vec![5, 0], vec![], vec![]];
        let cards = nearest(0, &next, |node| [2, 3, 5, 6].contains(&node), |node| node == 0 || node == 4);
        assert_eq!(cards, [2, 3]);
        assert_eq!(nearest(4, &next, |node| [2, 3, 5, 6].contains(&node), |node| node == 0 || node == 4), [5]);
        assert!(nearest(0, &next, |_| false, |node| node == 0).is_empty());
    }
}
