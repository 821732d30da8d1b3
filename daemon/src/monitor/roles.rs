//! Which connections of a process carry its tensors, the part each flow plays, and what bounds it.
//!
//! A process lists its connections in its page; the flow *out* of each and the flow *into* it are both known by their
//! 4-tuple. Trees are taken to be numbered from the root, so a peer of lower rank is the parent.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

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
    let kinds = Kinds::of(view);
    let (mut lanes_out, mut lanes_in) = (LaneCounts::new(), LaneCounts::new());
    let (mut outgoing, mut incoming, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for peer in peers {
        let tuple = Tuple::of(peer.local, peer.remote);
        let Ways { mut out, mut back } = match view.pattern {
            PagePattern::Ring => ring(view, peer, any_next),
            PagePattern::ParameterServer => parameter_server(view.role),
            PagePattern::Tree => tree(view, peer),
            _ => Ways { out: Some(Role::Plain), back: Some(Role::Plain) },
        };
        if kinds.one_way(peer) {
            // Two connections to the same peer: who connected sends on it.
            if peer.kind == PeerKind::Connected { back = None } else { out = None }
        }
        let rank = peer.rank.unwrap_or(u32::MAX);
        if let Some(role) = back {
            let flow = tuple.incoming(fabric.host_of(peer.remote.ip()));
            incoming.push(Leg { flow, role, lane: next_lane(&mut lanes_in, rank, role), peer: rank });
        }
        if let Some(role) = out {
            let flow = tuple.outgoing(fabric.host);
            outgoing.push(Leg { flow, role, lane: next_lane(&mut lanes_out, rank, role), peer: rank });
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
    let (kinds, mut found) = (Kinds::of(view), Vec::new());
    for peer in view.peers.iter().filter(abroad) {
        let tuple = Tuple::of(peer.local, peer.remote);
        let of = |from: Option<u32>, to: Option<u32>| from.zip(to).and_then(|(from, to)| plan.flow(from, to));
        let (mut out, mut back) = (of(Some(own), peer.rank), of(peer.rank, Some(own)));
        if kinds.one_way(peer) {
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

/// How many connections there are so far to each rank in each role.
type LaneCounts = BTreeMap<(u32, Role), u32>;

/// Which of several connections to the same rank this one is.
fn next_lane(lanes: &mut LaneCounts, rank: u32, role: Role) -> u32 {
    let next = lanes.entry((rank, role)).or_default();
    *next += 1;
    *next - 1
}

/// Who connected: both, on different connections, or one side only.
#[derive(Clone, Copy, Debug, Default)]
struct Sides {
    connected: bool,
    accepted: bool,
}

impl Sides {
    fn add(&mut self, kind: PeerKind) {
        self.connected |= kind == PeerKind::Connected;
        self.accepted |= kind == PeerKind::Accepted;
    }
}

/// Of all connections of a page, who made those to each process: to a rank, or where it has none to an address. Counted once,
/// for a page or a process may have thousands.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    of_rank: HashMap<u32, Sides>,
    of_address: HashMap<IpAddr, Sides>,
    /// Those without a rank alone.
    unranked: HashMap<IpAddr, Sides>,
}

impl Kinds {
    /// Those of a page.
    pub fn of(view: &PageView) -> Kinds {
        let mut kinds = Kinds::default();
        for peer in &view.peers {
            let address = peer.remote.ip();
            match peer.rank {
                Some(rank) => kinds.of_rank.entry(rank).or_default().add(peer.kind),
                None => kinds.unranked.entry(address).or_default().add(peer.kind),
            }
            kinds.of_address.entry(address).or_default().add(peer.kind);
        }
        kinds
    }

    /// Does the page list connections of both kinds to this peer's process? Then each carries tensors one way only, as
    /// with NCCL and PS-Lite; a single one carries them both ways, as with Gloo.
    pub fn one_way(&self, peer: &Peer) -> bool {
        let (own, others) = match peer.rank {
            Some(rank) => (self.of_rank.get(&rank), self.unranked.get(&peer.remote.ip())),
            None => (self.of_address.get(&peer.remote.ip()), None),
        };
        let has = |side: fn(&Sides) -> bool| own.is_some_and(side) || others.is_some_and(side);
        peer.kind != PeerKind::Unknown && has(|sides| sides.connected) && has(|sides| sides.accepted)
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluice_schedule::Nanos;

    use super::*;
    use crate::testing::{at, config, fabric};

    fn peer(rank: Option<u32>, kind: PeerKind, host: usize, port: u16) -> Peer {
        Peer { rank, kind, local: at(0, port), remote: at(host, 5000), cookie: 0, tx_bytes: 0 }
    }

    fn any_peer() -> impl Strategy<Value = Peer> {
        let kinds = [PeerKind::Connected, PeerKind::Accepted, PeerKind::Unknown];
        (prop::option::of(0..3_u32), prop::sample::select(kinds.to_vec()), 1..4_usize, 4000..4100_u16)
            .prop_map(|(rank, kind, host, port)| peer(rank, kind, host, port))
    }

    proptest! {
        #[test]
        fn connections_that_go_one_way_are_those_of_the_rule(peers in prop::collection::vec(any_peer(), 0..12)) {
            let view = PageView { peers, ..PageView::default() };
            let kinds = Kinds::of(&view);
            for peer in &view.peers {
                let same = |other: &&Peer| match (other.rank, peer.rank) {
                    (Some(a), Some(b)) => a == b,
                    _ => other.remote.ip() == peer.remote.ip(),
                };
                let has = |kind: PeerKind| view.peers.iter().filter(same).any(|other| other.kind == kind);
                let said = peer.kind != PeerKind::Unknown && has(PeerKind::Connected) && has(PeerKind::Accepted);
                prop_assert_eq!(kinds.one_way(peer), said);
            }
        }
    }

    #[test]
    fn parallel_connections_to_a_rank_are_lanes_in_their_order() {
        let mut lanes = LaneCounts::new();
        let mut next = |rank, role| next_lane(&mut lanes, rank, role);
        let seen = [next(1, Role::Plain), next(1, Role::Plain), next(1, Role::Reduce), next(2, Role::Plain)];
        assert_eq!(seen, [0, 1, 0, 0]);
    }

    /// A look at all connections of a process comes with every slot while one of them waits to be captured: with what grows as
    /// their square, orders of a process of some thousands would run out.
    #[test]
    fn eight_times_the_connections_take_about_eight_times_as_long() {
        let fabric = fabric(0, &config(0, true));
        let took = |count: u16| {
            let peers = (0..count).map(|n| peer(None, PeerKind::Connected, 1, 4000 + n)).collect();
            let view = PageView { peers, ..PageView::default() };
            let once = || {
                let began = crate::clock::thread_cpu();
                assert_eq!(connections(&view, &fabric, Bytes(1 << 20)).len(), usize::from(count));
                crate::clock::thread_cpu().minus(began)
            };
            (0..5).map(|_| once()).min().unwrap_or(Nanos::MAX)
        };
        let (few, many) = (took(1_000), took(8_000));
        assert!(many.0 < 32 * few.0, "{few:?} for 1000, {many:?} for 8000");
    }
}
