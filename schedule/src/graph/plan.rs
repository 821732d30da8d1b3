//! The graph of a plan: what flows between two ranks follows from the trees that cross there.
//!
//! All tree edges from one rank to another are one flow. Within a tree an edge passes on what the edges into its tail
//! brought, and at the root of an all-reduce what was added up on the way in goes out again. A flow of several trees is
//! bound by each predecessor in what that one feeds; the rest it may send at any time, and that is its lead.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::MAX_PREDECESSORS;
use crate::event::{PredKind, Predecessor};
use crate::units::{Bytes, FlowId, Share};

/// A tree over ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTree<'a> {
    /// True: towards the root, adding up; false: away from it.
    pub inward: bool,
    /// The rank where its data ends, or comes from.
    pub root: u32,
    /// Which part of the collective's data it carries, in parts of any whole that all trees share.
    pub part: Range<u64>,
    /// Its edges (from, to), in flow direction.
    pub edges: &'a [(u32, u32)],
}

/// What flows from one rank to another in a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFlow {
    /// How much, in parts.
    pub parts: u64,
    /// By the rank that sends to this flow's tail: how much of `parts` that one's flow feeds.
    pub feeds: BTreeMap<u32, u64>,
}

/// Every flow of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFlows {
    flows: BTreeMap<(u32, u32), PlanFlow>,
    most: u64,
}

impl PlanFlows {
    /// The flows that these trees make, all edges from one rank to another in one.
    pub fn new(trees: &[PlanTree<'_>]) -> PlanFlows {
        let mut flows: BTreeMap<(u32, u32), PlanFlow> = BTreeMap::new();
        for tree in trees {
            let parts = size(&tree.part);
            let mut into: HashMap<u32, Vec<u32>> = HashMap::new();
            for &(from, to) in tree.edges {
                into.entry(to).or_default().push(from);
            }
            for &(from, to) in tree.edges {
                let flow = flows.entry((from, to)).or_default();
                flow.parts = flow.parts.saturating_add(parts);
                for before in into.get(&from).into_iter().flatten() {
                    feed(flow, *before, parts);
                }
            }
        }
        turn(&mut flows, trees);
        let most = flows.values().map(|flow| flow.parts).max().unwrap_or(0);
        PlanFlows { flows, most }
    }

    /// What flows from one rank to another; `None`: nothing.
    pub fn flow(&self, from: u32, to: u32) -> Option<&PlanFlow> {
        self.flows.get(&(from, to))
    }
    /// What leaves a rank.
    pub fn of(&self, from: u32) -> impl Iterator<Item = &PlanFlow> {
        self.flows.range((from, 0)..=(from, u32::MAX)).map(|(_, flow)| flow)
    }
    /// Every flow by (from, to).
    pub fn iter(&self) -> impl Iterator<Item = ((u32, u32), &PlanFlow)> {
        self.flows.iter().map(|(ends, flow)| (*ends, flow))
    }
    /// What a flow carries against the one that carries most.
    pub fn share(&self, flow: &PlanFlow) -> Share {
        Share::of(flow.parts, self.most)
    }
    /// The predecessors of a flow that has `demand` bytes in a round. `incoming` names the flow that a rank sends to
    /// this flow's tail; ranks it does not name (those of the same host, or not found yet) do not bound.
    pub fn predecessors(
        &self,
        flow: &PlanFlow,
        demand: Bytes,
        incoming: impl Fn(u32) -> Option<FlowId>,
    ) -> Vec<Predecessor> {
        let known = flow.feeds.iter().filter_map(|(from, fed)| Some((incoming(*from)?, *fed)));
        let of = |(id, fed): (FlowId, u64)| {
            let free = flow.parts.saturating_sub(fed);
            let lead = u128::from(demand.0) * u128::from(free) / u128::from(flow.parts.max(1));
            let lead = Bytes(u64::try_from(lead).unwrap_or(u64::MAX));
            (fed, Predecessor { flow: id, kind: PredKind::Pipelined, lead })
        };
        let mut preds: Vec<(u64, Predecessor)> = known.map(of).collect();
        // Those that feed most bound most.
        preds.sort_by_key(|(fed, pred)| (u64::MAX - fed, pred.flow));
        preds.truncate(MAX_PREDECESSORS);
        preds.into_iter().map(|(_, pred)| pred).collect()
    }
}

/// Out-trees of an all-reduce are fed at their root by the in-trees that carried the same part there.
fn turn(flows: &mut BTreeMap<(u32, u32), PlanFlow>, trees: &[PlanTree<'_>]) {
    let mut inward: HashMap<u32, Vec<&PlanTree<'_>>> = HashMap::new();
    for tree in trees.iter().filter(|tree| tree.inward) {
        inward.entry(tree.root).or_default().push(tree);
    }
    for out in trees.iter().filter(|tree| !tree.inward) {
        for tree in inward.get(&out.root).into_iter().flatten() {
            let both = tree.part.start.max(out.part.start)..tree.part.end.min(out.part.end);
            if size(&both) == 0 {
                continue;
            }
            for &(_, to) in out.edges.iter().filter(|(from, _)| *from == out.root) {
                for &(before, _) in tree.edges.iter().filter(|(_, to)| *to == out.root) {
                    feed(flows.entry((out.root, to)).or_default(), before, size(&both));
                }
            }
        }
    }
}

fn feed(flow: &mut PlanFlow, before: u32, parts: u64) {
    let fed = flow.feeds.entry(before).or_default();
    *fed = fed.saturating_add(parts);
}

fn size(part: &Range<u64>) -> u64 {
    part.end.saturating_sub(part.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn out(root: u32, part: Range<u64>, edges: &[(u32, u32)]) -> PlanTree<'_> {
        PlanTree { inward: false, root, part, edges }
    }

    #[test]
    fn a_ring_of_trees_leads_by_its_own_part() {
        // All-gather on a ring of three, one way: each root's tree goes round.
        let trees =
            [out(0, 0..10, &[(0, 1), (1, 2)]), out(1, 10..20, &[(1, 2), (2, 0)]), out(2, 20..30, &[(2, 0), (0, 1)])];
        let flows = PlanFlows::new(&trees);
        let flow = flows.flow(0, 1).expect("there");
        assert_eq!((flow.parts, flow.feeds.clone()), (20, BTreeMap::from([(2, 10)])));
        let preds = flows.predecessors(flow, Bytes(1000), |rank| Some(FlowId(u64::from(rank))));
        assert_eq!(preds, [Predecessor { flow: FlowId(2), kind: PredKind::Pipelined, lead: Bytes(500) }]);
        assert_eq!(flows.predecessors(flow, Bytes(1000), |_| None), []);
        assert_eq!(flows.flow(1, 0), None);
        assert_eq!(flows.iter().count(), 3);
    }

    #[test]
    fn an_all_reduce_turns_at_the_root_part_by_part() {
        // Both trees of root 0; what comes in is split 6 to 4, what goes out 5 to 5.
        let inward = |part: Range<u64>, edges| PlanTree { inward: true, root: 0, part, edges };
        let trees = [
            inward(0..6, &[(2, 1), (1, 0)]),
            inward(6..10, &[(1, 2), (2, 0)]),
            out(0, 0..5, &[(0, 1), (1, 2)]),
            out(0, 5..10, &[(0, 2), (2, 1)]),
        ];
        let flows = PlanFlows::new(&trees);
        let feeds = |from, to| flows.flow(from, to).expect("there").feeds.clone();
        assert_eq!(feeds(0, 1), BTreeMap::from([(1, 5)]));
        assert_eq!(feeds(0, 2), BTreeMap::from([(1, 1), (2, 4)]));
        // 2 to 1 carries 6 of the way in, unfed, and 5 of the way out.
        assert_eq!((flows.flow(2, 1).expect("there").parts, feeds(2, 1)), (11, BTreeMap::from([(0, 5)])));
        assert_eq!(flows.share(flows.flow(2, 1).expect("there")), Share::FULL);
        assert_eq!(flows.share(flows.flow(0, 1).expect("there")), Share::of(5, 11));
    }

    /// A random tree over `ranks`: everybody hangs on someone nearer to the root.
    fn tree(ranks: u32, root: u32, seeds: &[u32]) -> Vec<(u32, u32)> {
        let name = |i: u32| (i + root) % ranks;
        (1..ranks).map(|i| (name(seeds[i as usize] % i), name(i))).collect()
    }

    proptest! {
        /// Against the definition: every pair of edges, one into the other's tail, of one tree.
        #[test]
        fn flows_are_what_the_trees_say(ranks in 2_u32..7, seeds in prop::collection::vec(prop::collection::vec(any::<u32>(), 7), 1..6)) {
            let edges: Vec<_> = seeds.iter().zip(0..).map(|(seed, i)| tree(ranks, i % ranks, seed)).collect();
            let up: Vec<Vec<(u32, u32)>> = edges.iter().map(|tree| tree.iter().map(|(a, b)| (*b, *a)).collect()).collect();
            let part = |i: usize| i as u64 * 7..i as u64 * 7 + 7;
            let mut trees = Vec::new();
            for (i, (down, up)) in edges.iter().zip(&up).enumerate() {
                trees.push(PlanTree { inward: true, root: i as u32 % ranks, part: part(i), edges: up });
                trees.push(PlanTree { inward: false, root: i as u32 % ranks, part: part(i), edges: down });
            }
            let flows = PlanFlows::new(&trees);
            for a in 0..ranks {
                for b in 0..ranks {
                    let parts = 7 * trees.iter().filter(|t| t.edges.contains(&(a, b))).count() as u64;
                    prop_assert_eq!(flows.flow(a, b).map_or(0, |f| f.parts), parts);
                    for w in 0..ranks {
                        let through = trees.iter().filter(|t| t.edges.contains(&(w, a)) && t.edges.contains(&(a, b))).count();
                        let turned = edges.iter().zip(&up).zip(0..).filter(|((down, up), i)| i % ranks == a && up.contains(&(w, a)) && down.contains(&(a, b))).count();
                        let fed = flows.flow(a, b).and_then(|f| f.feeds.get(&w)).copied().unwrap_or(0);
                        prop_assert_eq!(fed, 7 * (through + turned) as u64);
                    }
                    if let Some(flow) = flows.flow(a, b) {
                        // Nothing feeds more than there is, so that no lead is lost.
                        prop_assert!(flow.feeds.values().all(|fed| *fed <= flow.parts));
                    }
                }
            }
        }
    }
}
