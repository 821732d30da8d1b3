//! The lead as a rate: how fast a flow may go without running further ahead of what feeds it than its lead.
//!
//! Bytes are compared, not rates. A flow held to its predecessor's present rate would keep every dip for the rest of the
//! round, since around a ring such rates can only fall; one held to its lead goes faster than its predecessor as long as
//! it has some of the lead left, and of n flows of a ring at least one has.
//!
//! What is known of a predecessor is some milliseconds old. On a ring of small chunks that alone would let flows wait for
//! each other by turns, for ever, so a lead counts as no less than what the path carries in [`WITHIN`]. Servers and trees
//! have no lead and no circle.

use super::{PredecessorProgress, Progress, bound};
use crate::event::{PredKind, Predecessor};
use crate::units::{Bytes, Nanos, Rate};

/// The time for which a rate is looked at. What is left of a lead is used up over some such times, and what a predecessor
/// is ahead is made up for; it is longer than the news of a predecessor takes, which would count as a lag otherwise.
const WITHIN: Nanos = Nanos::from_millis(20);

/// A predecessor that sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feeding {
    /// The predecessor, and how it bounds.
    pub by: Predecessor,
    /// What it has delivered by now.
    pub progress: Progress,
    /// What it takes.
    pub rate: Rate,
}

/// The most that a flow of `demand` bytes can use that has delivered `delivered` of them; `None`: nothing that feeds it
/// bounds it. `path` is what its path carries. Predecessors that have to end first do not count: a flow that waits for those
/// has nothing to send.
pub fn fed(demand: Bytes, delivered: Bytes, path: Rate, preds: impl IntoIterator<Item = Feeding>) -> Option<Rate> {
    let soon = |Feeding { mut by, progress, rate }: Feeding| {
        if by.lead > Bytes::ZERO {
            by.lead = by.lead.max(path.over(WITHIN));
        }
        let bytes = progress.bytes.plus(rate.over(WITHIN));
        PredecessorProgress { by, progress: Progress { bytes, ..progress } }
    };
    let pipelined = preds.into_iter().filter(|pred| pred.by.kind == PredKind::Pipelined);
    let allowed = bound(demand, pipelined.map(soon));
    (allowed < demand).then(|| Rate::needed(allowed.minus(delivered), WITHIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FlowId;
    use proptest::prelude::*;

    /// 1 MB in 20 ms.
    const PATH: Rate = Rate::mbps(400);
    const FULL: Rate = Rate::mbps(10_000);

    fn feeding(lead: u64, delivered: u64, demand: u64, rate: Rate) -> Feeding {
        let by = Predecessor { flow: FlowId(0), kind: PredKind::Pipelined, lead: Bytes(lead) };
        Feeding { by, progress: Progress::with_plan(Bytes(delivered), Bytes(demand), Rate::ZERO, Nanos::ZERO), rate }
    }

    #[test]
    fn a_flow_with_all_of_its_lead_used_goes_as_fast_as_it_is_fed() {
        let (rate, demand) = (Rate::mbps(800), Bytes(1_000_000_000));
        // 100 Mbit/s are 250 kB in 20 ms.
        assert_eq!(fed(demand, Bytes(6_000_000), PATH, [feeding(1_000_000, 5_000_000, demand.0, rate)]), Some(rate));
        let with_some_left = fed(demand, Bytes(5_750_000), PATH, [feeding(1_000_000, 5_000_000, demand.0, rate)]);
        assert_eq!(with_some_left, Some(Rate::mbps(900)));
        let too_far = fed(demand, Bytes(20_000_000), PATH, [feeding(0, 5_000_000, demand.0, rate)]);
        assert_eq!(too_far, Some(Rate::ZERO));
    }

    #[test]
    fn what_is_over_or_not_there_bounds_nothing() {
        let demand = Bytes(100_000_000);
        assert_eq!(fed(demand, Bytes::ZERO, PATH, []), None);
        assert_eq!(fed(demand, Bytes::ZERO, PATH, [feeding(0, demand.0, demand.0, Rate::ZERO)]), None);
        let ends_soon = feeding(0, demand.0 - 1_000, demand.0, Rate::mbps(100));
        assert_eq!(fed(demand, Bytes::ZERO, PATH, [ends_soon]), None);
        let mut after = feeding(0, 0, demand.0, Rate::ZERO);
        after.by.kind = PredKind::FinishToStart;
        assert_eq!(fed(demand, Bytes::ZERO, PATH, [after]), None);
    }

    /// Flows that hear of each other after one exchange of 5 ms, each with a link of its own.
    struct Ring {
        rate: Vec<Rate>,
        done: Vec<Bytes>,
        demand: Bytes,
        chunk: Bytes,
    }

    impl Ring {
        fn step(&mut self, free: &[Rate]) {
            let (n, exchange) = (self.rate.len(), Nanos::from_millis(5));
            let rate = |f: usize| {
                let pred = (f + n - 1) % n;
                let by = feeding(self.chunk.0, self.done[pred].0, self.demand.0, self.rate[pred]);
                fed(self.demand, self.done[f], FULL, [by]).map_or(free[f], |fed| fed.min(free[f]))
            };
            let rates: Vec<Rate> = (0..n).map(rate).collect();
            for (done, rate) in self.done.iter_mut().zip(&rates) {
                *done = done.plus(rate.over(exchange));
            }
            self.rate = rates;
        }
    }

    proptest! {
        /// While its predecessor goes on as it does, a flow at that rate is never further ahead than its lead, and nothing is
        /// kept from it that it could use.
        #[test]
        fn nobody_runs_further_ahead_than_its_lead(
            lead in 0_u64..50_000_000, pred in 0_u64..900_000_000, own in 0_u64..900_000_000, rate in 0_u64..25_000_000_000,
            scale in 1_u64..4,
        ) {
            let (demand, of_pred) = (Bytes(1_000_000_000), 1_000_000_000 * scale);
            let pred = pred * scale;
            if let Some(fed) = fed(demand, Bytes(own), Rate::ZERO, [feeding(lead, pred, of_pred, Rate(rate))]) {
                let there = lead + (pred + Rate(rate).over(WITHIN).0) / scale;
                let gets = own + fed.over(WITHIN).0;
                prop_assert!(gets.abs_diff(there.max(own)) <= 2, "{gets} of {there}");
            }
        }

        /// A flow that stood still for a while costs the ring no more than that: all are back at the full rate within as
        /// many exchanges as the ring has flows, and two more.
        #[test]
        fn a_ring_never_locks_in(
            n in 2_usize..9, at in 0_usize..9, dip in 1_usize..100, left in 0.0_f64..1.0, chunk in 1_u64..50_000_000,
        ) {
            let demand = Bytes(1 << 60);
            let mut ring =
                Ring { rate: vec![FULL; n], done: vec![Bytes::ZERO; n], demand, chunk: Bytes(chunk) };
            let free = vec![FULL; n];
            let mut dipped = free.clone();
            dipped[at % n] = FULL.times(left);
            (0..10).for_each(|_| ring.step(&free));
            (0..dip).for_each(|_| ring.step(&dipped));
            (0..n + 2).for_each(|_| ring.step(&free));
            for _ in 0..50 {
                ring.step(&free);
                prop_assert!(ring.rate.iter().all(|rate| *rate >= FULL.times(0.99)), "{:?}", ring.rate);
            }
        }
    }
}
