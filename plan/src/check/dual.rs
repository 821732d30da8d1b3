//! Lower bounds of T/M that prices of the limits prove.
//!
//! Whatever a plan does, in T it moves at most T · capacity over every limit, so that all its data at these prices costs
//! at most T · Σ price · capacity. What it must cost at least is known: data for one node takes the cheapest way, data
//! for many the cheapest tree, and a sum the cheapest tree the other way round. The quotient bounds T from below, whoever
//! chose the prices. A tree branches at nodes that can copy (or add up): all participants, and as many others as help.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arborescence::cheapest;
use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Collective, Plan};
use sluice_formats::quantity::{Rational, common_denominator};

/// Entries that searches for ways and trees may look at, all together.
const MAX_SEARCH_STEPS: usize = 1 << 28;
/// Nodes that take no part and can branch, at most: every set of them is tried.
const MAX_HELPERS: usize = 12;

/// The bound that these prices prove; `None` where finding out would take too long.
pub fn bound(plan: &Plan, fabric: &Fabric<'_>, prices: &[Rational]) -> Result<Option<Rational>, Violation> {
    let bad = |message: String| Violation::new(Code::BadCertificate, "/claim/certificate/prices", message);
    let links = fabric.topology.links();
    let limited = links.iter().enumerate().filter_map(|(i, link)| Some((i, link.capacity.finite()?)));
    let limited: Vec<(usize, &Rational)> = limited.collect();
    let expected = limited.len() + fabric.groups().len();
    if prices.len() != expected {
        let message = format!("{} prices; there are {expected} limits: finite links, then groups", prices.len());
        return Err(bad(message));
    }
    if let Some(place) = prices.iter().position(Rational::is_negative) {
        return Err(bad(format!("the price at place {place} is below zero")));
    }
    // In whole numbers, which sums and comparisons of prices then stay.
    let scale = common_denominator(prices).and_then(|common| Rational::from_big(common, 1.into()));
    let Some(scale) = scale else {
        let message = "no common denominator of at most 4096 bits";
        return Err(Violation::new(Code::TooFine, "/claim/certificate/prices", message));
    };
    let whole: Vec<Rational> = prices.iter().map(|price| price * &scale).collect();
    let (of_links, of_groups) = whole.split_at(limited.len());
    let mut of_link = vec![Rational::ZERO; links.len()];
    let mut room = Rational::ZERO;
    for ((link, capacity), price) in limited.iter().zip(of_links) {
        of_link[*link] += price;
        room += &(*capacity * price);
    }
    for (group, price) in fabric.groups().iter().zip(of_groups).filter(|(_, price)| !price.is_zero()) {
        let Some(capacity) = group.capacity.finite() else {
            return Err(bad(format!("a price of the group `{}`, which has no limit", super::quoted(&group.name))));
        };
        group.links.iter().for_each(|link| of_link[*link] += price);
        room += &(capacity * price);
    }
    if room.is_zero() {
        return Err(bad("all prices are zero, which proves nothing".into()));
    }
    let Some(ways) = Ways::new(fabric, &of_link) else { return Ok(None) };
    let far =
        ways.closed(fabric).map(|(from, to)| format!("no way leads from {} to {}", fabric.id(from), fabric.id(to)));
    if let Some(message) = far {
        return Err(bad(message));
    }
    Ok(ways.least(plan.body.collective, fabric)?.and_then(|cost| cost.checked_div(&room)))
}

/// What the cheapest ways between nodes that can branch cost.
struct Ways {
    /// Topology indices: first all participants, then the others that can copy or add up.
    nodes: Vec<usize>,
    /// From each of `nodes` to each; `None`: no way leads there.
    costs: Vec<Vec<Option<Rational>>>,
    patience: usize,
}

impl Ways {
    fn new(fabric: &Fabric<'_>, prices: &[Rational]) -> Option<Ways> {
        let all = fabric.topology.nodes();
        let mut nodes = fabric.participants.clone();
        let branches = |node: &usize| !fabric.takes_part(*node) && (all[*node].can.copy || all[*node].can.reduce);
        nodes.extend((0..all.len()).filter(branches));
        let patience = MAX_SEARCH_STEPS.checked_sub(nodes.len().checked_mul(prices.len() + all.len())?)?;
        let mut near: Vec<Vec<(usize, &Rational)>> = vec![Vec::new(); all.len()];
        for (link, price) in fabric.topology.links().iter().zip(prices) {
            near[link.from].push((link.to, price));
        }
        let costs = nodes.iter().map(|from| {
            let distance = distances(&near, *from);
            nodes.iter().map(|to| distance[*to].clone()).collect()
        });
        Some(Ways { costs: costs.collect(), nodes, patience })
    }

    /// Two participants between which no way leads, if there are.
    fn closed(&self, fabric: &Fabric<'_>) -> Option<(usize, usize)> {
        let taking_part = fabric.participants.len();
        let ends = (0..taking_part).flat_map(|from| (0..taking_part).map(move |to| (from, to)));
        let closed = ends.into_iter().find(|(from, to)| self.costs[*from][*to].is_none())?;
        Some((self.nodes[closed.0], self.nodes[closed.1]))
    }

    /// The cheapest ways between these ends, added up.
    fn sum(&self, ends: impl Iterator<Item = (usize, usize)>) -> Rational {
        ends.filter_map(|(from, to)| self.costs[from][to].as_ref()).sum()
    }

    /// What a collective of one unit of data costs at least.
    fn least(mut self, collective: Collective, fabric: &Fabric<'_>) -> Result<Option<Rational>, Violation> {
        let n = fabric.participants.len();
        let root = fabric.root.and_then(|root| fabric.participants.iter().position(|node| *node == root));
        let part = Rational::new(1, n as i128).unwrap_or(Rational::ZERO);
        let owned = |rank: usize| Rational::from(fabric.share(fabric.participants[rank])).checked_div(&fabric.whole());
        let sum = match collective {
            Collective::AllToAll => Some(&part * &self.sum((0..n).flat_map(|from| (0..n).map(move |to| (from, to))))),
            Collective::Scatter => Some(&part * &self.sum(root.iter().flat_map(|root| (0..n).map(|to| (*root, to))))),
            Collective::Gather => {
                Some(&part * &self.sum(root.iter().flat_map(|root| (0..n).map(|from| (from, *root)))))
            }
            Collective::AllGather | Collective::Broadcast | Collective::ReduceScatter | Collective::Reduce => {
                let inwards = matches!(collective, Collective::ReduceScatter | Collective::Reduce);
                let mut sum = Some(Rational::ZERO);
                for rank in 0..n {
                    if let Some(share) = owned(rank).filter(Rational::is_positive) {
                        let tree = self.tree(fabric, rank, inwards);
                        sum = sum.zip(tree).map(|(sum, tree)| &sum + &(&share * &tree));
                    }
                }
                sum
            }
            Collective::AllReduce => {
                // Every part may be added up where that is cheapest.
                let mut both = |root: usize| Some(&self.tree(fabric, root, true)? + &self.tree(fabric, root, false)?);
                let roots: Option<Vec<Rational>> = (0..n).map(&mut both).collect();
                roots.and_then(|roots| roots.into_iter().min())
            }
            Collective::Custom => return Err(Fabric::unserved(collective, "dual")),
        };
        Ok(sum)
    }

    /// The cheapest tree from a participant to all others, or from all of them to it. `None` where it takes too long.
    fn tree(&mut self, fabric: &Fabric<'_>, root: usize, inwards: bool) -> Option<Rational> {
        let all = fabric.topology.nodes();
        let n = fabric.participants.len();
        let helps = |place: &usize| {
            let can = &all[self.nodes[*place]].can;
            if inwards { can.reduce } else { can.copy }
        };
        let helpers: Vec<usize> = (n..self.nodes.len()).filter(helps).collect();
        if helpers.len() > MAX_HELPERS {
            return None;
        }
        // More than any tree of ways that there are.
        let never = &self.costs.iter().flatten().flatten().sum::<Rational>() + &Rational::ONE;
        let mut best: Option<Rational> = None;
        for chosen in 0..1_usize << helpers.len() {
            let with = helpers.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, place)| *place);
            let places: Vec<usize> = (0..n).chain(with).collect();
            let entry = |a: usize, b: usize| if inwards { &self.costs[b][a] } else { &self.costs[a][b] };
            let row =
                |a: &usize| places.iter().map(|b| entry(*a, *b).clone().unwrap_or_else(|| never.clone())).collect();
            let cost = cheapest(places.iter().map(row).collect(), root, &mut self.patience)?;
            best = best.into_iter().chain([cost]).min();
        }
        best
    }
}

/// What the cheapest way from a node to every other costs.
fn distances(near: &[Vec<(usize, &Rational)>], start: usize) -> Vec<Option<Rational>> {
    let mut distance: Vec<Option<Rational>> = vec![None; near.len()];
    distance[start] = Some(Rational::ZERO);
    let mut queue = BinaryHeap::from([Reverse((Rational::ZERO, start))]);
    while let Some(Reverse((so_far, node))) = queue.pop() {
        if distance[node].as_ref().is_some_and(|least| *least < so_far) {
            continue;
        }
        for (to, price) in &near[node] {
            let there = &so_far + price;
            if distance[*to].as_ref().is_none_or(|least| there < *least) {
                distance[*to] = Some(there.clone());
                queue.push(Reverse((there, *to)));
            }
        }
    }
    distance
}
