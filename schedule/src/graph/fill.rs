//! Fills the graph: the predecessors of each flow that one process sends, and what it catches up with beside them, from
//! the roles of its flows.
//!
//! A process (one rank, or one server) sees its own sockets only, and that is enough: every rule of the table in the
//! graph's specification names flows that leave the process and flows that enter it.

use std::collections::BTreeMap;

use super::MAX_PREDECESSORS;
use crate::event::{PredKind, Predecessor, Role};
use crate::units::{Bytes, FlowId};

/// One flow of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leg {
    /// Id of the flow.
    pub flow: FlowId,
    /// Its part in the job.
    pub role: Role,
    /// Which of several parallel connections between the same ranks it is (a channel); 0 if there is one.
    pub lane: u32,
    /// The rank of the process at its other end; of different processes, where ranks are not known, the same one.
    pub peer: u32,
}

/// The lead of a ring flow: its rank's own first chunk, and one more for every local hop that was taken out between
/// it and its predecessor.
pub fn ring_lead(chunk: Bytes, local_hops: u64) -> Bytes {
    Bytes(chunk.0.saturating_mul(local_hops.saturating_add(1)))
}

/// The predecessors of each outgoing flow of one process, in the order of `outgoing`.
///
/// `lead` is that of ring flows ([`ring_lead`]); all others have none. Flows that stay on the host must have been left
/// out: local aggregation counts as finished when the round begins. A flow that would have more than
/// 64 keeps those with the lowest ids: it is then bound by fewer, never by wrong ones.
pub fn fill(outgoing: &[Leg], incoming: &[Leg], lead: Bytes) -> Vec<Vec<Predecessor>> {
    let entering = Entering::of(incoming);
    outgoing.iter().map(|leg| entering.predecessors(leg, lead)).collect()
}

/// The flows that each outgoing flow of one process catches up with and that do not bound it, in the order of `outgoing`:
/// for a flow to a parameter server those that come from that server. A server's own flows have them as predecessors.
///
/// A worker hears of the broadcasts that come to itself, and the progress of the furthest of those is what it looks at.
pub fn watches(outgoing: &[Leg], incoming: &[Leg]) -> Vec<Vec<FlowId>> {
    let mut back: BTreeMap<u32, Vec<FlowId>> = BTreeMap::new();
    for other in incoming.iter().filter(|other| other.role == Role::Broadcast) {
        back.entry(other.peer).or_default().push(other.flow);
    }
    back.values_mut().for_each(in_order);
    let of = |leg: &Leg| {
        let flows = back.get(&leg.peer).filter(|_| leg.role == Role::Aggregate);
        flows.into_iter().flatten().copied().take(MAX_PREDECESSORS).collect()
    };
    outgoing.iter().map(of).collect()
}

/// The flows that enter a process, so that those of one role need not be looked for among all: a process may have thousands,
/// and is looked at in every slot.
#[derive(Debug, Default)]
struct Entering {
    of_role: BTreeMap<Role, Vec<FlowId>>,
    of_lane: BTreeMap<(Role, u32), Vec<FlowId>>,
}

impl Entering {
    fn of(incoming: &[Leg]) -> Entering {
        let mut entering = Entering::default();
        for other in incoming {
            entering.of_role.entry(other.role).or_default().push(other.flow);
            entering.of_lane.entry((other.role, other.lane)).or_default().push(other.flow);
        }
        entering.of_role.values_mut().chain(entering.of_lane.values_mut()).for_each(in_order);
        entering
    }

    fn predecessors(&self, leg: &Leg, lead: Bytes) -> Vec<Predecessor> {
        let others = |flows: Option<&Vec<FlowId>>| {
            let flows = flows.into_iter().flatten().filter(|flow| **flow != leg.flow);
            flows.copied().take(MAX_PREDECESSORS).collect::<Vec<_>>()
        };
        let spread = || !others(self.of_role.get(&Role::Spread)).is_empty();
        let (role, lead) = match leg.role {
            Role::Plain | Role::Aggregate => return Vec::new(),
            Role::RingNext => (Role::RingNext, lead),
            Role::Broadcast => (Role::Aggregate, Bytes::ZERO),
            Role::Reduce => (Role::Reduce, Bytes::ZERO),
            // At the root nothing is spread to it: what it spreads is what was reduced into it.
            Role::Spread if spread() => (Role::Spread, Bytes::ZERO),
            Role::Spread => (Role::Reduce, Bytes::ZERO),
        };
        // Parallel channels run side by side, each fed by its own; but a parameter server adds up all of them.
        let lane = self.of_lane.get(&(role, leg.lane)).filter(|_| leg.role != Role::Broadcast);
        let same_lane = others(lane);
        let fed_by = if same_lane.is_empty() { others(self.of_role.get(&role)) } else { same_lane };
        fed_by.into_iter().map(|flow| Predecessor { flow, kind: PredKind::Pipelined, lead }).collect()
    }
}

fn in_order(flows: &mut Vec<FlowId>) {
    flows.sort_unstable();
    flows.dedup();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leg(flow: u64, role: Role) -> Leg {
        Leg { flow: FlowId(flow), role, ..Leg::default() }
    }

    fn ids(preds: &[Predecessor]) -> Vec<u64> {
        preds.iter().map(|pred| pred.flow.0).collect()
    }

    #[test]
    fn a_ring_flow_follows_the_one_that_enters_its_rank() {
        let preds = fill(&[leg(2, Role::RingNext)], &[leg(1, Role::RingNext)], ring_lead(Bytes(100), 0));
        let expected = Predecessor { flow: FlowId(1), kind: PredKind::Pipelined, lead: Bytes(100) };
        assert_eq!(preds, [vec![expected]]);
        assert_eq!(ring_lead(Bytes(100), 2), Bytes(300), "two local hops in between");
    }

    #[test]
    fn channels_of_a_ring_are_kept_apart() {
        let lane = |flow, lane| Leg { lane, ..leg(flow, Role::RingNext) };
        let preds = fill(&[lane(10, 0), lane(11, 1), lane(12, 2)], &[lane(1, 0), lane(2, 1)], Bytes(1));
        assert_eq!(preds.iter().map(|p| ids(p)).collect::<Vec<_>>(), [vec![1], vec![2], vec![1, 2]]);
    }

    #[test]
    fn a_server_broadcasts_what_all_workers_gave_it() {
        let incoming = [leg(1, Role::Aggregate), leg(2, Role::Aggregate)];
        let preds = fill(&[leg(7, Role::Broadcast), leg(8, Role::Broadcast)], &incoming, Bytes(9));
        assert_eq!(preds.iter().map(|p| ids(p)).collect::<Vec<_>>(), [vec![1, 2], vec![1, 2]]);
        assert!(preds.iter().flatten().all(|pred| pred.lead == Bytes::ZERO));
        // The worker's own flow is free, although broadcasts enter the worker.
        assert_eq!(fill(&[leg(1, Role::Aggregate)], &[leg(7, Role::Broadcast)], Bytes(9)), [vec![]]);
    }

    #[test]
    fn a_worker_looks_at_what_comes_back_from_the_server_it_sends_to() {
        let with = |flow, role, peer| Leg { peer, ..leg(flow, role) };
        let (up, down) = (Role::Aggregate, Role::Broadcast);
        // Two servers, ranks 8 and 9; the second one sends over two connections.
        let incoming = [with(3, down, 9), with(1, down, 8), with(2, down, 9), with(4, up, 9)];
        let found = watches(&[with(11, up, 8), with(12, up, 9), with(13, down, 9)], &incoming);
        assert_eq!(found, [vec![FlowId(1)], vec![FlowId(2), FlowId(3)], vec![]]);
        let many: Vec<Leg> = (0..1000).map(|flow| leg(flow, down)).collect();
        assert_eq!(watches(&[leg(5000, up)], &many)[0].len(), MAX_PREDECESSORS);
    }

    #[test]
    fn a_tree_reduces_up_and_spreads_down_and_turns_at_the_root() {
        let (up, down) = (Role::Reduce, Role::Spread);
        // Inner rank: children 1 and 2 reduce into it, 9 spreads into it.
        let incoming = [leg(1, up), leg(2, up), leg(9, down)];
        let preds = fill(&[leg(3, up), leg(4, down), leg(5, down)], &incoming, Bytes(0));
        assert_eq!(preds.iter().map(|p| ids(p)).collect::<Vec<_>>(), [vec![1, 2], vec![9], vec![9]]);
        // Root: only reduce flows enter it. Leaf: only a spread flow enters it.
        assert_eq!(ids(&fill(&[leg(4, down)], &[leg(1, up), leg(2, up)], Bytes(0))[0]), [1, 2]);
        assert_eq!(fill(&[leg(6, up)], &[leg(4, down)], Bytes(0)), [vec![]]);
    }

    /// The rules as they are said, flow by flow.
    fn said(leg: &Leg, incoming: &[Leg], lead: Bytes) -> Vec<Predecessor> {
        let with = |role: Role| incoming.iter().filter(move |other| other.role == role && other.flow != leg.flow);
        let (role, lead) = match leg.role {
            Role::Plain | Role::Aggregate => return Vec::new(),
            Role::RingNext => (Role::RingNext, lead),
            Role::Broadcast => (Role::Aggregate, Bytes::ZERO),
            Role::Reduce => (Role::Reduce, Bytes::ZERO),
            Role::Spread if with(Role::Spread).next().is_some() => (Role::Spread, Bytes::ZERO),
            Role::Spread => (Role::Reduce, Bytes::ZERO),
        };
        let same_lane = leg.role != Role::Broadcast && with(role).any(|other| other.lane == leg.lane);
        let fed_by = with(role).filter(|other| !same_lane || other.lane == leg.lane);
        let mut preds: Vec<Predecessor> =
            fed_by.map(|other| Predecessor { flow: other.flow, kind: PredKind::Pipelined, lead }).collect();
        preds.sort_by_key(|pred| pred.flow);
        preds.dedup();
        preds.truncate(MAX_PREDECESSORS);
        preds
    }

    fn watched(leg: &Leg, incoming: &[Leg]) -> Vec<FlowId> {
        let back =
            |other: &&Leg| leg.role == Role::Aggregate && other.role == Role::Broadcast && other.peer == leg.peer;
        let mut flows: Vec<FlowId> = incoming.iter().filter(back).map(|other| other.flow).collect();
        in_order(&mut flows);
        flows.truncate(MAX_PREDECESSORS);
        flows
    }

    fn any_leg(flows: u64) -> impl Strategy<Value = Leg> {
        let roles = [Role::Plain, Role::RingNext, Role::Aggregate, Role::Broadcast, Role::Reduce, Role::Spread];
        (0..flows, prop::sample::select(roles.to_vec()), 0..3_u32, 0..3_u32).prop_map(|(flow, role, lane, peer)| Leg {
            flow: FlowId(flow),
            role,
            lane,
            peer,
        })
    }

    proptest! {
        #[test]
        fn flows_that_are_found_by_role_are_those_of_the_rules(
            outgoing in prop::collection::vec(any_leg(12), 0..8),
            incoming in prop_oneof![
                prop::collection::vec(any_leg(12), 0..24),
                prop::collection::vec(any_leg(1_000), 150..400),
            ],
        ) {
            let lead = Bytes(7);
            let expected: Vec<_> = outgoing.iter().map(|leg| said(leg, &incoming, lead)).collect();
            prop_assert_eq!(fill(&outgoing, &incoming, lead), expected);
            let expected: Vec<_> = outgoing.iter().map(|leg| watched(leg, &incoming)).collect();
            prop_assert_eq!(watches(&outgoing, &incoming), expected);
        }
    }

    #[test]
    fn there_are_never_more_than_the_most() {
        let incoming: Vec<Leg> = (0..1000).map(|flow| leg(flow, Role::Aggregate)).collect();
        assert_eq!(fill(&[leg(5000, Role::Broadcast)], &incoming, Bytes(0))[0].len(), MAX_PREDECESSORS);
    }
}
