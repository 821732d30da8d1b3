//! Which connections of a process carry its tensors, the part each flow plays, and what bounds it.
//!
//! A process lists its connections in its page; the flow *out* of each and the flow *into* it are both known by their
//! 4-tuple. Trees are taken to be numbered from the root, so a peer of lower rank is the parent.

use std::collections::BTreeMap;

use sluice_progress::{PageView, Pattern as PagePattern, Peer, PeerKind, Role as PageRole};
use sluice_schedule::graph::{Leg, PlanFlows, fill, ring_lead, watches};
use sluice_schedule::{Bytes, FlowId, Pattern, Predecessor, Role, Share, Terms};

use super::tuple::Tuple;
use crate::fabric::Fabric;

/// One connection of a process as its page lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    pub tuple: Tuple,
    /// Does the process send tensors on it?
    pub sends: bool,
    /// The part of what it sends.
    pub role: Role,
    /// The flows that bound its progress.
    pub preds: Vec<Predecessor>,
    /// The flows that it catches up with, though they do not bound it.
    pub watches: Vec<FlowId>,
    /// What it carries against the job's other flows.
    pub share: Share,
    /// What a plan of rates, weights or an order gives it.
    pub terms: Terms,
}

impl Connection {
    /// One on which the process sends nothing of the round.
    pub fn silent(tuple: Tuple) -> Connection {
        Connection {
            tuple,
            sends: false,
            role: Role::Plain,
            preds: Vec::new(),
            watches: Vec::new(),
            share: Share::FULL,
            terms: Terms::default(),
        }
    }
}

/// How the ranks of a page's job talk.
pub fn pattern(view: &PageView) -> Pattern {
    match view.pattern {
        PagePattern::Ring => Pattern::Ring,
        PagePattern::Tree => Pattern::Tree,
        PagePattern::ParameterServer => Pattern::ParameterServer,
        _ => Pattern::Unknown,
    }
}

/// The connections of a page, each with its part. Those that stay on this host are left out.
pub fn connections(view: &PageView, fabric: &Fabric, round: Bytes) -> Vec<Connection> {
    let abroad = |peer: &&Peer| fabric.covers(peer.local.ip(), peer.remote.ip());
    let peers: Vec<&Peer> = view.peers.iter().filter(abroad).collect();
    let any_next = peers.iter().any(|peer| ring_out(view, peer));
    let (mut outgoing, mut incoming, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for peer in peers {
        let tuple = Tuple::of(peer.local, peer.remote);
        let Ways { mut out, mut back } = match view.pattern {
            PagePattern::Ring => ring(view, peer, any_next),
            PagePattern::ParameterServer => parameter_server(view.role),
            PagePattern::Tree => tree(view, peer),
            _ => Ways { out: Some(Role::Plain), back: Some(Role::Plain) },
        };
        if one_way(view, peer) {
            // Two connections to the same peer: who connected sends on it.
            if peer.kind == PeerKind::Connected { back = None } else { out = None }
        }
        let rank = peer.rank.unwrap_or(u32::MAX);
        let lane =
            |role: Role, list: &[Leg]| list.iter().filter(|leg| leg.peer == rank && leg.role == role).count() as u32;
        if let Some(role) = back {
            let flow = tuple.incoming(fabric.host_of(peer.remote.ip()));
            incoming.push(Leg { flow, role, lane: lane(role, &incoming), peer: rank });
        }
        if let Some(role) = out {
            let flow = tuple.outgoing(fabric.host);
            outgoing.push(Leg { flow, role, lane: lane(role, &outgoing), peer: rank });
        }
        let role = out.unwrap_or_default();
        all.push(Connection { sends: out.is_some(), role, ..Connection::silent(tuple) });
    }
    let preds = fill(&outgoing, &incoming, ring_lead(chunk(view, round), local_hops(view)));
    let senders = all.iter_mut().filter(|connection| connection.sends);
    for ((connection, preds), watches) in senders.zip(preds).zip(watches(&outgoing, &incoming)) {
        (connection.preds, connection.watches) = (preds, watches);
    }
    all
}

/// The connections of a page whose job follows a plan of trees or sends: what each carries is what the plan's trees say. `round`: bytes
/// that the process sends in a round. `None`: the page does not say which rank it is.
pub fn planned(view: &PageView, fabric: &Fabric, round: Bytes, plan: &PlanFlows) -> Option<Vec<Connection>> {
    let own = view.rank?;
    let abroad = |peer: &&Peer| fabric.covers(peer.local.ip(), peer.remote.ip());
    let whole = parts_of(plan, own);
    let (mut outgoing, mut incoming) = (BTreeMap::<u32, u64>::new(), BTreeMap::<u32, Vec<FlowId>>::new());
    let mut found = Vec::new();
    for peer in view.peers.iter().filter(abroad) {
        let tuple = Tuple::of(peer.local, peer.remote);
        let of = |from: Option<u32>, to: Option<u32>| from.zip(to).and_then(|(from, to)| plan.flow(from, to));
        let (mut out, mut back) = (of(Some(own), peer.rank), of(peer.rank, Some(own)));
        if one_way(view, peer) {
            if peer.kind == PeerKind::Connected { back = None } else { out = None }
        }
        let rank = peer.rank.unwrap_or(u32::MAX);
        if back.is_some() {
            incoming.entry(rank).or_default().push(tuple.incoming(fabric.host_of(peer.remote.ip())));
        }
        let lane = outgoing.get(&rank).copied().unwrap_or(0);
        if out.is_some() {
            *outgoing.entry(rank).or_default() += 1;
        }
        found.push((tuple, rank, lane, out));
    }
    let connection = |(tuple, rank, lane, out): (Tuple, u32, u64, Option<&_>)| {
        let Some(flow) = out else {
            return Connection::silent(tuple);
        };
        // Several connections between two ranks carry the flow together.
        let lanes = outgoing.get(&rank).copied().unwrap_or(1);
        let share = plan.share(flow).divided(lanes);
        let demand = u128::from(round.0) * u128::from(share.parts()) / u128::from(whole.max(1));
        let demand = Bytes(u64::try_from(demand).unwrap_or(u64::MAX));
        let of_lane = |flows: &Vec<FlowId>| flows.get(lane as usize).or(flows.last()).copied();
        let preds = plan.predecessors(flow, demand, |rank| incoming.get(&rank).and_then(of_lane));
        // Level with what feeds it is where a flow should be; one that nothing feeds waits for nobody.
        let role = if flow.feeds.is_empty() { Role::Plain } else { Role::Spread };
        Connection { sends: true, role, preds, share, ..Connection::silent(tuple) }
    };
    Some(found.into_iter().map(connection).collect())
}

/// The shares of all flows that leave a rank, in parts: what its round is split by.
pub fn parts_of(plan: &PlanFlows, own: u32) -> u64 {
    plan.of(own).map(|flow| plan.share(flow).parts()).sum()
}

/// Does the page list connections of both kinds to this peer's process? Then each carries tensors one way only, as
/// with NCCL and PS-Lite; a single one carries them both ways, as with Gloo.
pub fn one_way(view: &PageView, peer: &Peer) -> bool {
    let same = |other: &&Peer| match (other.rank, peer.rank) {
        (Some(a), Some(b)) => a == b,
        _ => other.remote.ip() == peer.remote.ip(),
    };
    let has = |kind: PeerKind| view.peers.iter().filter(same).any(|other| other.kind == kind);
    peer.kind != PeerKind::Unknown && has(PeerKind::Connected) && has(PeerKind::Accepted)
}

/// A rank's own chunk of a ring all-reduce: it sends 2(n−1) chunks in a round.
fn chunk(view: &PageView, round: Bytes) -> Bytes {
    let steps = u64::from(view.nranks.max(2) - 1) * 2;
    Bytes(round.0 / steps)
}

/// Ranks of this host between the predecessor's rank and this one.
fn local_hops(view: &PageView) -> u64 {
    match (view.nranks, view.nnodes) {
        (ranks, nodes) if nodes > 0 && ranks > nodes => u64::from(ranks / nodes - 1),
        _ => 0,
    }
}

/// The part a connection plays in each direction; `None`: nothing of the round goes that way.
struct Ways {
    out: Option<Role>,
    back: Option<Role>,
}

fn ring_out(view: &PageView, peer: &Peer) -> bool {
    peer.kind != PeerKind::Accepted && (view.ring_next.is_none() || peer.rank.is_none() || peer.rank == view.ring_next)
}

fn ring(view: &PageView, peer: &Peer, any_next: bool) -> Ways {
    let role = Some(Role::RingNext);
    if !any_next {
        // The page does not say which way: every connection may be the one, and none can be said to bound another.
        return Ways { out: Some(Role::Plain), back: None };
    }
    if ring_out(view, peer) {
        return Ways { out: role, back: None };
    }
    let previous = view.ring_prev.is_none() || peer.rank.is_none() || peer.rank == view.ring_prev;
    Ways { out: None, back: role.filter(|_| previous) }
}

fn parameter_server(role: PageRole) -> Ways {
    match role {
        PageRole::Server => Ways { out: Some(Role::Broadcast), back: Some(Role::Aggregate) },
        PageRole::Worker => Ways { out: Some(Role::Aggregate), back: Some(Role::Broadcast) },
        PageRole::Scheduler => Ways { out: None, back: None },
        PageRole::Peer => Ways { out: Some(Role::Plain), back: None },
    }
}

fn tree(view: &PageView, peer: &Peer) -> Ways {
    match (view.rank, peer.rank) {
        (Some(own), Some(other)) if other < own => Ways { out: Some(Role::Reduce), back: Some(Role::Spread) },
        (Some(own), Some(other)) if other > own => Ways { out: Some(Role::Spread), back: Some(Role::Reduce) },
        _ => Ways { out: Some(Role::Plain), back: None },
    }
}
