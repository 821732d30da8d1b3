//! What a collective costs at least, where every link has a price: data for one node takes the cheapest way, data for many
//! the cheapest tree, and a sum the cheapest tree the other way round.
//!
//! A tree branches at nodes that can copy (or add up): all it must reach, and as many others as help. Up to
//! [`MAX_HELPERS`] others every set of them is tried; beyond, or where that would take too long, what the dual ascent
//! proves takes the place of the cheapest tree, which costs no less.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::arborescence::cheapest;
use super::ascent;
use super::demand::Demand;
use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Collective, Plan};
use sluice_formats::quantity::{Rational, common_denominator};

/// Entries that searches for ways may look at, all together.
const MAX_SEARCH_STEPS: usize = 1 << 28;
/// Entries that searches for trees may look at, all together: a few seconds for the trees of 256 participants.
const MAX_TREE_STEPS: usize = 1 << 30;
/// Nodes that need not be reached and can branch, at most, where every set of them is tried.
const MAX_HELPERS: usize = 12;

/// What moving M costs at least at these prices of links; `None` where finding out would take too long. `at` is where the
/// prices stand.
pub fn least(plan: &Plan, fabric: &Fabric<'_>, prices: &[Rational], at: &str) -> Result<Option<Rational>, Violation> {
    // In whole numbers, which sums and comparisons of prices then stay.
    let scale = common_denominator(prices).and_then(|common| Rational::from_big(common, 1.into()));
    let Some(scale) = scale else {
        return Err(Violation::new(Code::TooFine, at, "no common denominator of at most 4096 bits"));
    };
    let whole: Vec<Rational> = prices.iter().map(|price| price * &scale).collect();
    let demand = match plan.body.collective {
        Collective::Custom => Some(Demand::new(plan, fabric)?),
        _ => None,
    };
    let Some(ways) = Ways::new(fabric, &whole) else { return Ok(None) };
    if let Some((from, to)) = ways.closed(fabric, demand.as_ref()) {
        let message = format!("no way leads from {} to {}", fabric.id(from), fabric.id(to));
        return Err(Violation::new(Code::BadCertificate, at, message));
    }
    let cost = match &demand {
        Some(demand) => ways.of_demand(fabric, demand),
        None => ways.least(plan.body.collective, fabric),
    };
    Ok(cost.and_then(|cost| cost.checked_div(&scale)))
}

/// What the cheapest ways between nodes that can branch cost.
struct Ways {
    /// Topology indices: first all participants, then the others that can copy or add up.
    nodes: Vec<usize>,
    /// From each of `nodes` to each; `None`: no way leads there.
    costs: Vec<Vec<Option<Rational>>>,
    /// For each of `nodes` the first that costs nothing to reach from it and back.
    same: Vec<usize>,
    /// More than any tree of ways that there are.
    never: Rational,
    /// Entries that the search for one tree may look at.
    patience: usize,
}

impl Ways {
    fn new(fabric: &Fabric<'_>, prices: &[Rational]) -> Option<Ways> {
        let all = fabric.topology.nodes();
        let mut nodes = fabric.participants.clone();
        let branches = |node: &usize| !fabric.takes_part(*node) && (all[*node].can.copy || all[*node].can.reduce);
        nodes.extend((0..all.len()).filter(branches));
        if nodes.len().checked_mul(prices.len() + all.len())? > MAX_SEARCH_STEPS {
            return None;
        }
        let mut near: Vec<Vec<(usize, &Rational)>> = vec![Vec::new(); all.len()];
        for (link, price) in fabric.topology.links().iter().zip(prices) {
            near[link.from].push((link.to, price));
        }
        let costs = nodes.iter().map(|from| {
            let distance = distances(&near, *from);
            nodes.iter().map(|to| distance[*to].clone()).collect()
        });
        let costs: Vec<Vec<Option<Rational>>> = costs.collect();
        let free = |a: usize, b: usize| costs[a][b].as_ref().is_some_and(Rational::is_zero);
        let first = |a: usize| (0..a).find(|b| free(a, *b) && free(*b, a)).unwrap_or(a);
        let same = (0..nodes.len()).map(first).collect();
        let never = &costs.iter().flatten().flatten().sum::<Rational>() + &Rational::ONE;
        Some(Ways { nodes, costs, same, never, patience: MAX_TREE_STEPS })
    }

    /// Two nodes between which data must go and no way leads, if there are: any participants, or a source and its ends.
    fn closed(&self, fabric: &Fabric<'_>, demand: Option<&Demand>) -> Option<(usize, usize)> {
        let closed = |(from, to): &(usize, usize)| self.costs[*from][*to].is_none();
        let ends = match demand {
            None => {
                let taking_part = 0..fabric.participants.len();
                taking_part.clone().flat_map(|from| taking_part.clone().map(move |to| (from, to))).find(closed)
            }
            Some(demand) => {
                let rank = ranks(fabric);
                let groups = demand.groups.iter();
                groups.flat_map(|group| group.ends.iter().map(|end| (rank[&group.source], rank[end]))).find(closed)
            }
        };
        ends.map(|(from, to)| (self.nodes[from], self.nodes[to]))
    }

    /// What the chunks of demands cost at least, per M: each group the cheapest tree to its ends.
    fn of_demand(&self, fabric: &Fabric<'_>, demand: &Demand) -> Option<Rational> {
        let rank = ranks(fabric);
        let patience = self.patience / demand.groups.len();
        let mut sum = Rational::ZERO;
        for group in &demand.groups {
            let ends: Vec<usize> = group.ends.iter().map(|end| rank[end]).collect();
            let tree = self.tree(fabric, rank[&group.source], &ends, false, patience)?;
            sum += &(&tree * &Rational::from(group.units));
        }
        sum.checked_div(&Rational::from(demand.units))
    }

    /// The cheapest ways between these ends, added up.
    fn sum(&self, ends: impl Iterator<Item = (usize, usize)>) -> Rational {
        ends.filter_map(|(from, to)| self.costs[from][to].as_ref()).sum()
    }

    /// What a collective of one unit of data costs at least.
    fn least(mut self, collective: Collective, fabric: &Fabric<'_>) -> Option<Rational> {
        let n = fabric.participants.len();
        let root = fabric.root.and_then(|root| fabric.participants.iter().position(|node| *node == root));
        let part = Rational::new(1, n as i128).unwrap_or(Rational::ZERO);
        let owned = |rank: usize| Rational::from(fabric.share(fabric.participants[rank])).checked_div(&fabric.whole());
        match collective {
            Collective::AllToAll => Some(&part * &self.sum((0..n).flat_map(|from| (0..n).map(move |to| (from, to))))),
            Collective::Scatter => Some(&part * &self.sum(root.iter().flat_map(|root| (0..n).map(|to| (*root, to))))),
            Collective::Gather => {
                Some(&part * &self.sum(root.iter().flat_map(|root| (0..n).map(|from| (from, *root)))))
            }
            Collective::AllGather | Collective::Broadcast | Collective::ReduceScatter | Collective::Reduce => {
                let inwards = matches!(collective, Collective::ReduceScatter | Collective::Reduce);
                let of_rank = |rank| owned(rank).filter(Rational::is_positive).map(|share| (rank, share));
                let owners: Vec<(usize, Rational)> = (0..n).filter_map(of_rank).collect();
                let roots = owners.iter().map(|(rank, _)| *rank);
                let trees = self.trees(fabric, roots, inwards);
                let both = owners.iter().zip(trees.into_iter().flatten());
                let sum: Vec<Rational> = both.map(|((_, share), tree)| share * &tree).collect();
                (sum.len() == owners.len()).then(|| sum.iter().sum())
            }
            Collective::AllReduce => {
                // Every part may be added up where that is cheapest.
                self.patience /= 2;
                let ways = self.trees(fabric, 0..n, true).zip(self.trees(fabric, 0..n, false));
                ways.and_then(|(into, out)| into.iter().zip(&out).map(|(into, out)| into + out).min())
            }
            // Its demands say what it is.
            Collective::Custom => None,
        }
    }

    /// The cheapest trees from each of some participants to all others, or from all others to it. `None` where they take too
    /// long.
    fn trees(&self, fabric: &Fabric<'_>, roots: impl Iterator<Item = usize>, inwards: bool) -> Option<Vec<Rational>> {
        let roots: Vec<usize> = roots.collect();
        let all: Vec<usize> = (0..fabric.participants.len()).collect();
        // Where it costs nothing to change the root, the tree costs the same.
        let mut known: Vec<Option<Rational>> = vec![None; self.nodes.len()];
        let mut different: Vec<usize> = roots.iter().map(|root| self.same[*root]).collect();
        different.sort_unstable();
        different.dedup();
        for root in &different {
            known[*root] = Some(self.tree(fabric, *root, &all, inwards, self.patience / different.len())?);
        }
        roots.iter().map(|root| known[self.same[*root]].clone()).collect()
    }

    /// The cheapest tree from a root to all ends, or from all ends to it, or what it costs at least. `None` where finding out
    /// takes more entries than `patience`.
    fn tree(
        &self,
        fabric: &Fabric<'_>,
        root: usize,
        ends: &[usize],
        inwards: bool,
        patience: usize,
    ) -> Option<Rational> {
        let entry = |a: usize, b: usize| if inwards { &self.costs[b][a] } else { &self.costs[a][b] };
        if let [end] = ends {
            return entry(root, *end).clone();
        }
        let all = fabric.topology.nodes();
        let helps = |place: &usize| {
            let can = &all[self.nodes[*place]].can;
            if inwards { can.reduce } else { can.copy }
        };
        // Of nodes that cost nothing to reach from each other one stands for all.
        let mut seen = vec![false; self.nodes.len()];
        let mut new = |place: &usize| !std::mem::replace(&mut seen[self.same[*place]], true);
        let mut places: Vec<usize> = std::iter::once(root).chain(ends.iter().copied()).filter(&mut new).collect();
        let count = places.len();
        places.extend((0..self.nodes.len()).filter(helps).filter(&mut new));
        let row = |a: &usize| -> Vec<Rational> {
            places.iter().map(|b| entry(*a, *b).clone().unwrap_or_else(|| self.never.clone())).collect()
        };
        let costs: Vec<Vec<Rational>> = places.iter().map(row).collect();
        steiner(&costs, count, patience)
    }
}

/// What the cheapest tree costs that leads from the first node to all below `ends`, by way of others where that helps; or, where
/// finding it takes more entries than `patience`, what it costs at least. `None` where that does, too.
fn steiner(costs: &[Vec<Rational>], ends: usize, patience: usize) -> Option<Rational> {
    if costs.len() == ends {
        return with(costs, ends, &[], &mut { patience });
    }
    let bound = ascent::bound(costs, 0, ends, &mut { patience });
    if costs.len() - ends > MAX_HELPERS {
        return bound;
    }
    // Mostly a tree that is easily found costs as little as the bound says, and then nothing need be tried.
    if bound.is_some() && by_dropping(costs, ends, patience) == bound {
        return bound;
    }
    // Sets are many, and tried for little.
    by_trying(costs, ends, patience / 4).or(bound)
}

/// What the cheapest tree costs that reaches all below `ends` and these others.
fn with(costs: &[Vec<Rational>], ends: usize, others: &[usize], patience: &mut usize) -> Option<Rational> {
    let places: Vec<usize> = (0..ends).chain(others.iter().copied()).collect();
    let row = |a: &usize| places.iter().map(|b| costs[*a][*b].clone()).collect();
    cheapest(places.iter().map(row).collect(), 0, patience)
}

/// What a tree costs that others are left out of, one after the other, where that makes it cheaper.
fn by_dropping(costs: &[Vec<Rational>], ends: usize, mut patience: usize) -> Option<Rational> {
    let mut others: Vec<usize> = (ends..costs.len()).collect();
    let mut best = with(costs, ends, &others, &mut patience)?;
    for other in ends..costs.len() {
        let fewer: Vec<usize> = others.iter().copied().filter(|kept| *kept != other).collect();
        let cost = with(costs, ends, &fewer, &mut patience)?;
        if cost <= best {
            (best, others) = (cost, fewer);
        }
    }
    Some(best)
}

/// What the cheapest tree costs that leads from the first node to all below `ends`: of all sets of others. `None` where that
/// takes too long.
fn by_trying(costs: &[Vec<Rational>], ends: usize, mut patience: usize) -> Option<Rational> {
    let helpers = costs.len() - ends;
    let entries = costs.len().checked_mul(costs.len())?.checked_mul(1 << helpers.min(MAX_HELPERS))?;
    // Sets have half the helpers on average.
    if helpers > MAX_HELPERS || entries / 4 > patience {
        return None;
    }
    let mut best: Option<Rational> = None;
    for chosen in 0..1_usize << helpers {
        let others: Vec<usize> = (0..helpers).filter(|bit| chosen >> bit & 1 == 1).map(|bit| ends + bit).collect();
        let cost = with(costs, ends, &others, &mut patience)?;
        best = best.into_iter().chain([cost]).min();
    }
    best
}

/// The ranks of participants by their nodes.
fn ranks(fabric: &Fabric<'_>) -> HashMap<usize, usize> {
    fabric.participants.iter().zip(0..).map(|(node, rank)| (*node, rank)).collect()
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;

    /// The root, others to be reached, helpers, and prices from each node to each.
    fn small() -> impl Strategy<Value = (usize, usize, Vec<i64>)> {
        (2_usize..6, 0_usize..5, proptest::collection::vec(0_i64..12, 81))
    }

    /// Where a detour is cheaper, that is the price.
    fn closed(list: &[i64], n: usize, detours: bool) -> Vec<Vec<Rational>> {
        let mut costs: Vec<Vec<i64>> =
            (0..n).map(|from| (0..n).map(|to| if from == to { 0 } else { list[from * 9 + to] }).collect()).collect();
        for via in (0..n).filter(|_| detours) {
            for from in 0..n {
                for to in 0..n {
                    costs[from][to] = costs[from][to].min(costs[from][via] + costs[via][to]);
                }
            }
        }
        let exact = |row: &Vec<i64>| row.iter().map(|cost| Rational::new(*cost, 1).expect("whole")).collect();
        costs.iter().map(exact).collect()
    }

    #[test]
    fn the_ascent_is_never_above_the_cheapest_tree_and_mostly_reaches_it() {
        let (all, equal) = (Cell::new(0), Cell::new(0));
        let mut runner = TestRunner::new_with_rng(
            Config { cases: 2_000, failure_persistence: None, ..Config::default() },
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let tried = runner.run(&small(), |(ends, helpers, list)| {
            for detours in [false, true] {
                let costs = closed(&list, ends + helpers, detours);
                let least = by_trying(&costs, ends, usize::MAX).expect("found");
                let bound = ascent::bound(&costs, 0, ends, &mut usize::MAX.clone()).expect("found");
                prop_assert!(bound <= least, "{bound} > {least}");
                let dropping = by_dropping(&costs, ends, usize::MAX).expect("found");
                prop_assert!(dropping >= least, "{dropping} < {least}");
                prop_assert_eq!(steiner(&costs, ends, 1 << 40), Some(least.clone()));
                // Where everybody must be reached it is the cheapest tree.
                prop_assert!(helpers > 0 || bound == least, "{bound} < {least}");
                all.set(all.get() + usize::from(helpers > 0));
                equal.set(equal.get() + usize::from(helpers > 0 && bound == least));
            }
            Ok(())
        });
        assert!(tried.is_ok(), "{tried:?}");
        println!("the dual ascent reaches the cheapest tree in {} of {} cases with helpers", equal.get(), all.get());
        assert!(equal.get() * 10 > all.get() * 9, "{} of {}", equal.get(), all.get());
    }

    #[test]
    fn both_searches_end_when_patience_does() {
        let costs = closed(&[3; 81], 7, false);
        assert_eq!(by_trying(&costs, 4, 48), None);
        assert_eq!(ascent::bound(&costs, 0, 4, &mut 60), None);
        assert_eq!(ascent::bound(&costs, 0, 4, &mut 1_000), Rational::new(9, 1));
    }
}
