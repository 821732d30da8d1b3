//! The table of catch-up and cut, and the bounds against a fluid ring, server and tree.

use super::*;
use crate::units::FlowId;
use proptest::prelude::*;

fn at(bytes: u64, demand: u64) -> Progress {
    Progress { bytes: Bytes(bytes), demand: Bytes(demand), ended: demand > 0 && bytes >= demand }
}

fn fed(lead: u64, progress: Progress) -> PredecessorProgress {
    PredecessorProgress { by: Predecessor { flow: FlowId(0), kind: PredKind::Pipelined, lead: Bytes(lead) }, progress }
}

#[test]
fn a_ring_may_be_one_chunk_ahead() {
    assert_eq!(bound(Bytes(400), [fed(100, at(0, 400))]), Bytes(100));
    assert_eq!(bound(Bytes(400), [fed(100, at(250, 400))]), Bytes(350));
    assert_eq!(bound(Bytes(400), [fed(100, at(350, 400))]), Bytes(400), "never more than the round");
    assert_eq!(bound(Bytes(400), [fed(0, at(400, 400))]), Bytes(400));
}

#[test]
fn rounds_of_different_size_are_compared_by_part() {
    assert_eq!(bound(Bytes(1000), [fed(0, at(50, 200))]), Bytes(250));
    assert_eq!(bound(Bytes(3), [fed(0, at(199, 200))]), Bytes(2), "rounded down");
    assert_eq!(bound(Bytes(u64::MAX), [fed(u64::MAX, at(u64::MAX - 1, u64::MAX))]), Bytes(u64::MAX));
}

#[test]
fn an_unknown_size_counts_as_equal() {
    assert_eq!(bound(Bytes(400), [fed(10, at(50, 0))]), Bytes(60));
    assert_eq!(bound(Bytes::ZERO, [fed(10, at(50, 400))]), Bytes(60));
    assert_eq!(bound(Bytes::ZERO, []), Bytes(u64::MAX));
}

#[test]
fn the_slowest_predecessor_bounds() {
    assert_eq!(bound(Bytes(100), [fed(0, at(60, 100)), fed(0, at(20, 100)), fed(0, at(90, 100))]), Bytes(20));
    assert_eq!(bound(Bytes(100), []), Bytes(100));
}

#[test]
fn a_flow_group_waits_for_the_end_of_all() {
    let after = |progress| PredecessorProgress {
        by: Predecessor { flow: FlowId(0), kind: PredKind::FinishToStart, lead: Bytes::ZERO },
        progress,
    };
    assert_eq!(bound(Bytes(100), [after(at(100, 100)), after(at(99, 100))]), Bytes::ZERO);
    assert_eq!(bound(Bytes(100), [after(at(100, 100)), after(at(5, 5))]), Bytes(100));
}

#[test]
fn catch_up_follows_the_table() {
    let flow = at(30, 100);
    let others = || [at(50, 100), at(40, 100)];
    for (role, delta) in [
        (Role::RingNext, 10),
        (Role::Broadcast, 10), // F_a^min
        (Role::Aggregate, 20), // F_b^max
        (Role::Reduce, 10),
        (Role::Spread, 10),
        (Role::Plain, 0),
    ] {
        assert_eq!(catch_up(role, flow, others()), Bytes(delta), "{role:?}");
    }
    assert_eq!(catch_up(Role::RingNext, at(60, 100), others()), Bytes::ZERO);
    assert_eq!(catch_up(Role::Aggregate, flow, []), Bytes::ZERO);
    assert_eq!(catch_up(Role::RingNext, at(90, 100), [at(100, 100)]), Bytes(10), "never more than is left");
}

#[test]
fn a_successor_is_cut_by_what_it_cannot_be_fed() {
    // Ring without and with a lead; server.
    assert_eq!(excess(at(70, 100), [fed(0, at(50, 100))]), Bytes(20));
    assert_eq!(excess(at(70, 100), [fed(25, at(50, 100))]), Bytes::ZERO);
    assert_eq!(excess(at(70, 100), [fed(0, at(50, 100)), fed(0, at(30, 100))]), Bytes(40));
}

#[test]
fn planned_bytes_count_as_progress_but_never_beyond_the_round() {
    let slot = Nanos::from_millis(60);
    let planned = Progress::with_plan(Bytes(1_000), Bytes(2_000_000), Rate::mbps(100), slot);
    assert_eq!((planned.bytes, planned.ended), (Bytes(751_000), false));
    let last = Progress::with_plan(Bytes(1_000), Bytes(2_000), Rate::mbps(100), slot);
    assert_eq!((last.bytes, last.ended), (Bytes(2_000), false), "sent is not delivered");
}

/// Flows that move in small steps, each held to its bound by what the others *have* delivered.
struct Fluid {
    done: Vec<u64>,
    demand: Vec<u64>,
    preds: Vec<Vec<(usize, u64)>>,
}

impl Fluid {
    fn ring(demand: Vec<u64>, lead: u64) -> Fluid {
        let n = demand.len();
        Fluid { done: vec![0; n], demand, preds: (0..n).map(|i| vec![((i + n - 1) % n, lead)]).collect() }
    }
    fn bound(&self, f: usize) -> Bytes {
        let fed_by = |&(p, lead): &(usize, u64)| fed(lead, at(self.done[p], self.demand[p]));
        bound(Bytes(self.demand[f]), self.preds[f].iter().map(fed_by))
    }
    /// Everybody tries to send its speed; progress of the others is that of the step before.
    fn step(&mut self, speed: &[u64]) {
        let send = |f: usize| {
            let delivered = Bytes(self.done[f]);
            Bytes(self.demand[f]).min(self.bound(f)).minus(delivered).0.min(speed[f])
        };
        let sent: Vec<u64> = (0..self.done.len()).map(send).collect();
        self.done.iter_mut().zip(sent).for_each(|(done, more)| *done += more);
    }
    fn over(&self) -> bool {
        self.done == self.demand
    }
}

proptest! {
    #[test]
    fn on_a_ring_nobody_outruns_its_predecessor_and_the_tight_bounds_form_no_cycle(
        n in 2_usize..8, chunk in 1_u64..1000, speeds in prop::collection::vec(0_u64..500, 1..200), uneven in 0_u64..3,
    ) {
        let demand: Vec<u64> = (0..n as u64).map(|i| chunk * 2 * (n as u64 - 1) * (1 + i * uneven % 3)).collect();
        let mut ring = Fluid::ring(demand.clone(), chunk);
        for round in 0..speeds.len() {
            let speed: Vec<u64> = (0..n).map(|i| speeds[(round * 7 + i * 3) % speeds.len()]).collect();
            ring.step(&speed);
            let mut tight = 0;
            for f in 0..n {
                let p = (f + n - 1) % n;
                // F_f ≤ lead + ρ·F_pred, cross-multiplied.
                let (left, right) = (
                    u128::from(ring.done[f]) * u128::from(demand[p]),
                    u128::from(chunk) * u128::from(demand[p]) + u128::from(ring.done[p]) * u128::from(demand[f]),
                );
                prop_assert!(left <= right);
                let ended = ring.done[p] == demand[p];
                tight += usize::from(!ended && left == right);
            }
            prop_assert!(tight < n);
        }
    }

    #[test]
    fn a_ring_always_gets_through(n in 2_usize..8, chunk in 1_u64..50, speed in 1_u64..40) {
        let demand = vec![chunk * 2 * (n as u64 - 1); n];
        let mut ring = Fluid::ring(demand.clone(), chunk);
        let speeds: Vec<u64> = (0..n as u64).map(|i| speed + i).collect();
        let mut steps = 0;
        while !ring.over() {
            ring.step(&speeds);
            steps += 1;
            // A flow with the slowest speed is never more than a step of everybody behind.
            prop_assert!(steps <= (demand[0] / speed.min(chunk) + 1) * (n as u64 + 1), "stuck at {:?}", ring.done);
        }
    }

    #[test]
    fn a_server_never_broadcasts_what_it_does_not_have(
        workers in 1_usize..6, shard in 1_u64..1000, speeds in prop::collection::vec(1_u64..200, 1..100),
    ) {
        // Flows 0..workers aggregate, the rest broadcast.
        let all: Vec<(usize, u64)> = (0..workers).map(|a| (a, 0)).collect();
        let preds = (0..2 * workers).map(|f| if f < workers { vec![] } else { all.clone() }).collect();
        let mut server = Fluid { done: vec![0; 2 * workers], demand: vec![shard; 2 * workers], preds };
        for round in 0.. {
            if server.over() {
                break;
            }
            prop_assert!(round < 3000);
            let speed: Vec<u64> = (0..2 * workers).map(|i| speeds[(round * 5 + i) % speeds.len()]).collect();
            server.step(&speed);
            let (aggregated, broadcast) = server.done.split_at(workers);
            prop_assert!(broadcast.iter().max() <= aggregated.iter().min());
        }
    }

    #[test]
    fn a_tree_passes_on_what_came_up(
        ranks in 2_usize..10, bytes in 1_u64..500, speeds in prop::collection::vec(1_u64..100, 1..60),
    ) {
        // Rank i > 0 sends flow i−1 up to (i−1)/2 and receives flow ranks−1+i−1 from it, filled per process.
        let (up, down) = (|i: usize| i - 1, |i: usize| ranks - 1 + i - 1);
        let leg = |flow: usize, role| Leg { flow: FlowId(flow as u64), role, ..Leg::default() };
        let children = |i: usize| (1..ranks).filter(move |&c| (c - 1) / 2 == i);
        let mut preds = vec![Vec::new(); 2 * (ranks - 1)];
        for i in 0..ranks {
            let mut outgoing: Vec<Leg> = children(i).map(|c| leg(down(c), Role::Spread)).collect();
            let mut incoming: Vec<Leg> = children(i).map(|c| leg(up(c), Role::Reduce)).collect();
            if i > 0 {
                outgoing.push(leg(up(i), Role::Reduce));
                incoming.push(leg(down(i), Role::Spread));
            }
            for (out, found) in outgoing.iter().zip(fill(&outgoing, &incoming, Bytes::ZERO)) {
                preds[out.flow.0 as usize] = found.iter().map(|p| (p.flow.0 as usize, p.lead.0)).collect();
            }
        }
        let mut tree = Fluid { done: vec![0; preds.len()], demand: vec![bytes; preds.len()], preds };
        for round in 0.. {
            if tree.over() {
                break;
            }
            prop_assert!(round < 5000);
            let speed: Vec<u64> = (0..tree.done.len()).map(|i| speeds[(round * 3 + i) % speeds.len()]).collect();
            tree.step(&speed);
            for c in 1..ranks {
                prop_assert!(children(c).all(|g| tree.done[up(c)] <= tree.done[up(g)]));
                prop_assert!((1..ranks).filter(|&g| (g - 1) / 2 == 0).all(|g| tree.done[down(c)] <= tree.done[up(g)]));
            }
        }
    }

    #[test]
    fn a_bound_only_grows_with_its_predecessors(
        demand in 1_u64.., lead: u64, size in 1_u64.., a in 0.0_f64..1.0, b in 0.0_f64..1.0,
    ) {
        let progress = |part: f64| at((size as f64 * part) as u64, size);
        let (low, high) = (a.min(b), a.max(b));
        let bound = |part| bound(Bytes(demand), [fed(lead, progress(part))]);
        prop_assert!(bound(low) <= bound(high));
        prop_assert!(bound(high).0 <= demand);
    }
}

/// One slot of Algorithm 2 on a ring: everybody plans `rate`, catches up, is cut where it runs ahead, and then sends
/// what its link carries and its predecessor delivered.
fn algorithm_2(ring: &mut Fluid, rate: Rate, carries: &[Rate]) -> Vec<Rate> {
    let (n, slot) = (ring.done.len(), Nanos::from_millis(60));
    let plan = |f: usize, rate| Progress::with_plan(Bytes(ring.done[f]), Bytes(ring.demand[f]), rate, slot);
    let lead = ring.preds[0][0].1;
    let raised = |f: usize| {
        let behind = catch_up(Role::RingNext, plan(f, rate), [plan((f + n - 1) % n, rate)]);
        adjust(rate, behind, slot, Rate(rate.0 * 2)).rate
    };
    let rates: Vec<Rate> = (0..n).map(raised).collect();
    let cut = |f: usize| {
        let pred = (f + n - 1) % n;
        let ahead = excess(plan(f, rates[f]), [fed(lead, plan(pred, rates[pred]))]);
        rates[f].minus(Rate::needed(ahead, slot)).min(carries[f])
    };
    let rates: Vec<Rate> = (0..n).map(cut).collect();
    ring.step(&rates.iter().map(|rate| rate.over(slot).0).collect::<Vec<_>>());
    rates
}

proptest! {
    #[test]
    fn a_dip_on_a_ring_does_not_stay(n in 2_usize..8, at in 0_usize..8, slots in 1_usize..6, left in 0.0_f64..1.0) {
        let (rate, chunk) = (Rate::mbps(100), 1_500_000);
        let mut ring = Fluid::ring(vec![chunk * 1000; n], chunk);
        let free = vec![Rate::mbps(200); n];
        let mut dipped = free.clone();
        dipped[at % n] = rate.times(left);
        for _ in 0..3 {
            algorithm_2(&mut ring, rate, &free);
        }
        for _ in 0..slots {
            algorithm_2(&mut ring, rate, &dipped);
        }
        // A dip runs around the ring once, then everybody is back at the full rate, for good.
        for _ in 0..n {
            algorithm_2(&mut ring, rate, &free);
        }
        let before = ring.done.clone();
        for _ in 0..10 {
            algorithm_2(&mut ring, rate, &free);
        }
        for (after, before) in ring.done.iter().zip(&before) {
            prop_assert!(after - before >= 10 * rate.over(Nanos::from_millis(60)).0 * 99 / 100);
        }
    }
}
