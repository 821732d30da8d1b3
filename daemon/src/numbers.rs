//! A small number for each flow among those of its job on this host, by which metrics tell flows apart without an address.
//!
//! A flow keeps its number while it lives; then the next new flow of the job gets it, so that there are never more numbers
//! than there were flows at one time.

use std::collections::{BTreeMap, BTreeSet};

use sluice_schedule::{FlowId, JobId};

/// The numbers that are given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    of: BTreeMap<FlowId, (JobId, u32)>,
}

impl Numbers {
    /// These are the flows there are now: frees the numbers of others, and gives new ones the least that are free in their job.
    pub fn follow(&mut self, flows: impl Iterator<Item = (JobId, FlowId)>) {
        let now: BTreeMap<FlowId, JobId> = flows.map(|(job, flow)| (flow, job)).collect();
        self.of.retain(|flow, (job, _)| now.get(flow) == Some(job));
        let mut new: BTreeMap<JobId, Vec<FlowId>> = BTreeMap::new();
        for (flow, job) in now.iter().filter(|(flow, _)| !self.of.contains_key(flow)) {
            new.entry(*job).or_default().push(*flow);
        }
        if new.is_empty() {
            return;
        }
        let mut taken: BTreeMap<JobId, BTreeSet<u32>> = BTreeMap::new();
        for (job, number) in self.of.values() {
            taken.entry(*job).or_default().insert(*number);
        }
        for (job, flows) in new {
            let taken = taken.remove(&job).unwrap_or_default();
            let free = (0..).filter(|number| !taken.contains(number));
            self.of.extend(flows.into_iter().zip(free).map(|(flow, number)| (flow, (job, number))));
        }
    }

    /// The number of a flow; `None`: it has none.
    pub fn of(&self, flow: FlowId) -> Option<u32> {
        self.of.get(&flow).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flows(list: &[(u64, u64)]) -> impl Iterator<Item = (JobId, FlowId)> {
        list.iter().map(|(job, flow)| (JobId(*job), FlowId(*flow)))
    }

    #[test]
    fn a_number_is_kept_for_life_and_given_again() {
        let mut numbers = Numbers::default();
        numbers.follow(flows(&[(1, 10), (1, 11), (2, 12)]));
        let of = |numbers: &Numbers, list: &[u64]| list.iter().map(|f| numbers.of(FlowId(*f))).collect::<Vec<_>>();
        assert_eq!(of(&numbers, &[10, 11, 12, 13]), [Some(0), Some(1), Some(0), None]);
        numbers.follow(flows(&[(1, 11), (1, 13), (1, 14), (2, 12)]));
        assert_eq!(of(&numbers, &[10, 11, 12, 13, 14]), [None, Some(1), Some(0), Some(0), Some(2)]);
        // A connection that is another job's now is another flow to metrics.
        numbers.follow(flows(&[(2, 11), (2, 12)]));
        assert_eq!(of(&numbers, &[11, 12, 13]), [Some(1), Some(0), None]);
    }

    proptest! {
        #[test]
        fn numbers_are_small_apart_and_kept(turns in prop::collection::vec(prop::collection::btree_set(0_u64..24, 0..24), 1..12)) {
            let mut numbers = Numbers::default();
            let mut most = BTreeMap::<u64, usize>::new();
            let mut before = BTreeMap::<u64, u32>::new();
            for turn in turns {
                let list: Vec<(u64, u64)> = turn.iter().map(|flow| (flow % 3, *flow)).collect();
                numbers.follow(flows(&list));
                let mut seen = BTreeSet::new();
                let mut after = BTreeMap::new();
                for (job, flow) in &list {
                    let count = list.iter().filter(|(other, _)| other == job).count();
                    let most = most.entry(*job).or_default();
                    *most = (*most).max(count);
                    let number = numbers.of(FlowId(*flow)).expect("each has one");
                    prop_assert!((number as usize) < *most && seen.insert((*job, number)));
                    prop_assert!(before.get(flow).is_none_or(|known| *known == number));
                    after.insert(*flow, number);
                }
                before = after;
            }
        }
    }
}
