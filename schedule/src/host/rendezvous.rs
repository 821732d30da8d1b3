//! Where the hosts of a job hear each other, on a fabric of several switches.
//!
//! A host announces its flows to the switches on their paths, and the hosts of a ring over many leaves have no such switch
//! in common. So each also tells what it knows of a job to one switch that all of them find without asking: the one with
//! the highest weight, a hash of job and switch (rendezvous hashing, Thaler and Ravishankar, 1998). Jobs spread evenly
//! over the switches, and when one is lost only its jobs move, each to its second choice.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::{HolderId, JobId, mixed};

/// The switch at which each job of this host is met.
#[derive(Debug, Default)]
pub(super) struct Rendezvous {
    of: BTreeMap<JobId, HolderId>,
}

impl Rendezvous {
    /// Chooses anew for jobs that came and drops those that went; all others keep their place until [`Self::forget`]. True
    /// if any has another place than before.
    pub fn arrange<'a>(
        &mut self,
        jobs: impl Iterator<Item = &'a JobId> + Clone,
        switches: &[HolderId],
        lost: &BTreeSet<HolderId>,
    ) -> bool {
        if switches.len() < 2 || jobs.clone().eq(self.of.keys()) {
            return false;
        }
        let before = std::mem::take(&mut self.of);
        let place = |job: &JobId| before.get(job).copied().or_else(|| choose(*job, switches, lost));
        self.of = jobs.filter_map(|job| Some((*job, place(job)?))).collect();
        true
    }

    /// A switch came or went: all jobs are to be placed anew.
    pub fn forget(&mut self) {
        self.of.clear();
    }

    /// Where this job is met.
    pub fn of(&self, job: JobId) -> Option<HolderId> {
        self.of.get(&job).copied()
    }

    /// Is any job met there?
    pub fn is_at(&self, holder: HolderId) -> bool {
        self.of.values().any(|at| *at == holder)
    }

    /// The switches at which jobs are met, some of them more than once.
    pub fn all(&self) -> impl Iterator<Item = HolderId> + '_ {
        self.of.values().copied()
    }
}

/// The switch of highest weight that is not lost.
fn choose(job: JobId, switches: &[HolderId], lost: &BTreeSet<HolderId>) -> Option<HolderId> {
    switches
        .iter()
        .copied()
        .filter(|switch| !lost.contains(switch))
        .max_by_key(|switch| (weight(job, *switch), *switch))
}

/// Evenly spread and the same everywhere.
fn weight(job: JobId, switch: HolderId) -> u64 {
    mixed(job.0 ^ u64::from(switch.0).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(job: u64, switches: &[HolderId], lost: &[HolderId]) -> Option<HolderId> {
        let job = JobId::of(&format!("j{job}"));
        choose(job, switches, &lost.iter().copied().collect())
    }

    fn named(count: u32) -> Vec<HolderId> {
        (0..count).map(|n| HolderId::of(&format!("leaf{n}"))).collect()
    }

    proptest! {
        #[test]
        fn all_hosts_choose_the_same_and_a_loss_moves_only_its_jobs(job: u64, count in 2_u32..40, gone in 0_u32..40) {
            let switches = named(count);
            let place = at(job, &switches, &[]);
            prop_assert!(place.is_some_and(|place| switches.contains(&place)));
            let turned: Vec<HolderId> = switches.iter().rev().copied().collect();
            prop_assert_eq!(at(job, &turned, &[]), place, "in whatever order they are configured");
            let lost = switches[(gone % count) as usize];
            let moved = at(job, &switches, &[lost]);
            prop_assert!(moved.is_some() && moved != Some(lost));
            prop_assert!(place == Some(lost) || moved == place);
        }
    }

    #[test]
    fn jobs_are_spread_evenly() {
        let switches = named(12);
        let mut jobs = BTreeMap::new();
        (0..6000).for_each(|job| *jobs.entry(at(job, &switches, &[])).or_insert(0_u32) += 1);
        // 500 each; four standard deviations.
        assert!(jobs.len() == 12 && jobs.values().all(|count| (410..590).contains(count)), "{jobs:?}");
    }

    #[test]
    fn one_switch_or_none_is_no_choice_and_all_lost_is_none() {
        let (jobs, switches) = ([JobId::of("a"), JobId::of("b")], named(2));
        let mut met = Rendezvous::default();
        met.arrange(jobs.iter(), &switches[..1], &BTreeSet::new());
        assert_eq!(met.all().count(), 0);
        met.arrange(jobs.iter(), &switches, &BTreeSet::new());
        assert!(met.all().count() == 2 && jobs.iter().all(|job| met.of(*job).is_some_and(|at| met.is_at(at))));
        met.arrange(jobs[..1].iter(), &switches, &BTreeSet::new());
        assert_eq!((met.all().count(), met.of(jobs[1])), (1, None), "it went");
        met.forget();
        met.arrange(jobs.iter(), &switches, &switches.iter().copied().collect());
        assert_eq!(met.all().count(), 0);
    }
}
