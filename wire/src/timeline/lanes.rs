//! Who sent when, job by job: the last slots of a timeline as one digit each, for a picture.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluice_schedule::{Bytes, JobId, Nanos, Rate};

use super::Timeline;
use crate::snapshot::Label;

/// Lanes of one picture at most: beyond it are those that sent least.
const MAX_LANES: usize = 256;
/// Slots of one picture at most.
const MAX_SLOTS: i32 = 12_000;

/// What the jobs of a host delivered over the last slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lanes {
    /// The slot of the last digit of each lane; `null`: nothing was recorded yet.
    pub newest: Option<u32>,
    /// How many slots were looked at, the newest included.
    pub slots: u32,
    /// Length of a slot, in nanoseconds.
    pub slot_length_ns: u64,
    /// The jobs that delivered anything, by name.
    pub jobs: Vec<Lane>,
}

/// One job's part of [`Lanes`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// Name of the job.
    pub job: Label,
    /// One digit for each slot up to the newest: 0 nothing was delivered, 9 as much as the host's links carry. Slots before the
    /// first digit have none.
    pub levels: String,
}

impl Timeline {
    /// What jobs delivered in the last part of the timeline, against what the host's links carry.
    pub fn lanes(&self, last: Nanos, full: Rate) -> Lanes {
        let slots = i32::try_from(last.0.div_ceil(self.slot_length.0)).unwrap_or(MAX_SLOTS).clamp(1, MAX_SLOTS);
        let looked_at = u32::try_from(slots).unwrap_or(1);
        let empty = Lanes { slots: looked_at, slot_length_ns: self.slot_length.0, ..Lanes::default() };
        let Some(newest) = self.newest else { return empty };
        let mut sums: BTreeMap<JobId, Vec<Bytes>> = BTreeMap::new();
        for record in self.flows.newest_first() {
            let age = newest.since(record.slot);
            if age >= slots {
                break;
            }
            let Ok(age) = usize::try_from(age) else { continue };
            if record.delivered == Bytes::ZERO {
                continue;
            }
            let lane = sums.entry(record.job).or_default();
            if lane.len() <= age {
                lane.resize(age + 1, Bytes::ZERO);
            }
            if let Some(sum) = lane.get_mut(age) {
                *sum = sum.plus(record.delivered);
            }
        }
        let mut all: Vec<(JobId, Vec<Bytes>)> = sums.into_iter().collect();
        if all.len() > MAX_LANES {
            let total = |lane: &[Bytes]| lane.iter().fold(Bytes::ZERO, |sum, bytes| sum.plus(*bytes));
            all.sort_by_cached_key(|(_, lane)| std::cmp::Reverse(total(lane)));
            all.truncate(MAX_LANES);
        }
        let whole = full.over(self.slot_length);
        let lane = |(job, ages): (JobId, Vec<Bytes>)| Lane {
            job: Label::new(&self.job_name(job)),
            levels: ages.iter().rev().map(|bytes| level(*bytes, whole)).collect(),
        };
        let mut jobs: Vec<Lane> = all.into_iter().map(lane).collect();
        jobs.sort_by(|a, b| a.job.cmp(&b.job));
        Lanes { newest: Some(newest.0), jobs, ..empty }
    }
}

/// Whatever was delivered is at least 1.
fn level(bytes: Bytes, whole: Bytes) -> char {
    let ninths = match (bytes.0, whole.0) {
        (0, _) => 0,
        (_, 0) => 9,
        (some, whole) => u128::from(some).saturating_mul(9).div_ceil(u128::from(whole)).clamp(1, 9),
    };
    u32::try_from(ninths).ok().and_then(|digit| char::from_digit(digit, 10)).unwrap_or('9')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluice_schedule::policy::Why;
    use sluice_schedule::{FlowId, Slot};

    use super::*;
    use crate::timeline::{FlowRecord, Limits, Trigger};

    const SLOT: Nanos = Nanos(60_000_000);

    fn record(job: JobId, slot: u32, delivered: u64) -> FlowRecord {
        FlowRecord {
            flow: FlowId(1),
            job,
            ordered: Rate::ZERO,
            delivered: Bytes(delivered),
            remaining: Bytes::ZERO,
            slot: Slot(slot),
            why: Why::Rank,
            trigger: Trigger::Slot,
        }
    }

    #[test]
    fn a_lane_has_a_digit_for_each_slot_and_flows_add_up() {
        let (a, b) = (JobId::of("a"), JobId::of("b"));
        let mut timeline = Timeline::new("h", SLOT, Limits::default());
        timeline.name_job(a, "a");
        timeline.name_job(b, "b");
        // 1 Gbit/s for a slot is 7.5 MB. Slots wrap.
        let first = u32::MAX - 1;
        for (n, (of_a, of_b)) in [(7_500_000, 0), (0, 1), (3_750_000, 0), (0, 0)].into_iter().enumerate() {
            let slot = first.wrapping_add(n as u32);
            timeline.flow(record(a, slot, of_a));
            timeline.flow(record(b, slot, of_b));
            timeline.flow(record(b, slot, of_b * 2));
        }
        let lanes = timeline.lanes(Nanos(1_000_000_000), Rate(1_000_000_000));
        assert_eq!((lanes.newest, lanes.slots, lanes.slot_length_ns), (Some(1), 17, SLOT.0));
        let shown: Vec<(&str, &str)> = lanes.jobs.iter().map(|l| (l.job.as_str(), l.levels.as_str())).collect();
        assert_eq!(shown, [("a", "9050"), ("b", "100")]);
        let last = timeline.lanes(Nanos(SLOT.0 * 2), Rate(1_000_000_000));
        assert_eq!(last.jobs.iter().map(|lane| lane.levels.as_str()).collect::<Vec<_>>(), ["50"]);
        assert_eq!(Timeline::new("h", SLOT, Limits::default()).lanes(SLOT, Rate(1)).newest, None);
    }

    proptest! {
        #[test]
        fn lanes_are_what_the_records_say(
            steps in prop::collection::vec((0_u32..3, 0_u64..4, 0_u64..9_000_000), 0..200),
            last in 1_u64..80,
            full in 0_u64..2_000_000_000,
        ) {
            let mut timeline = Timeline::new("h", SLOT, Limits::default());
            let mut slot = 4_294_967_200_u32;
            let mut all = Vec::new();
            for (later, job, delivered) in steps {
                slot = slot.wrapping_add(later);
                all.push(record(JobId(job), slot, delivered));
                timeline.flow(record(JobId(job), slot, delivered));
            }
            let lanes = timeline.lanes(Nanos(SLOT.0 * last), Rate(full));
            for job in 0..4 {
                let name = JobId(job).to_string();
                let lane = lanes.jobs.iter().find(|lane| lane.job.as_str() == name);
                let digits: Vec<char> = lane.map(|lane| lane.levels.chars().rev().collect()).unwrap_or_default();
                for age in 0..last as usize {
                    let of = |record: &&FlowRecord| record.job.0 == job && slot.wrapping_sub(record.slot.0) as usize == age;
                    let sum: u64 = all.iter().filter(of).map(|record| record.delivered.0).sum();
                    let digit = digits.get(age).copied().unwrap_or('0');
                    prop_assert_eq!(digit, level(Bytes(sum), Rate(full).over(SLOT)));
                }
                prop_assert!(digits.len() <= last as usize);
            }
        }
    }
}
