//! Which jobs meet on a link: an event costs work for the jobs it can touch, and for no others.
//!
//! Two jobs that share no link, not even through others, cannot slow each other down, so an order among the jobs of
//! one group is as good as an order among all. With packed placement groups are small; when every job crosses the same
//! core link there is one group with all of them, and an event costs as much as the cluster is large.

use sluice_scenario::LinkIx;

use crate::world::JobIx;

/// Jobs, the links they use, and which of them something has happened to.
#[derive(Clone, Debug, Default)]
pub struct Meeting {
    /// Jobs on each link, in no order.
    on: Vec<Vec<JobIx>>,
    /// Links of each job that is inside, sorted.
    links: Vec<Option<Vec<LinkIx>>>,
    touched: Vec<JobIx>,
    seen_job: Vec<u64>,
    seen_link: Vec<u64>,
    search: u64,
}

impl Meeting {
    /// True while the job is inside.
    pub fn has(&self, job: JobIx) -> bool {
        self.links(job).is_some()
    }

    /// Links of a job that is inside, sorted.
    pub fn links(&self, job: JobIx) -> Option<&[LinkIx]> {
        self.links.get(job.0)?.as_deref()
    }

    /// Jobs on a link, in no order.
    pub fn on(&self, link: LinkIx) -> &[JobIx] {
        self.on.get(link.0).map_or(&[], Vec::as_slice)
    }

    /// A job begins to use these links (in any order, with repetitions); it is touched.
    pub fn enter(&mut self, job: JobIx, mut links: Vec<LinkIx>) {
        self.leave(job);
        links.sort_unstable();
        links.dedup();
        if let Some(&LinkIx(last)) = links.last()
            && self.on.len() <= last
        {
            self.on.resize_with(last + 1, Vec::new);
            self.seen_link.resize(last + 1, 0);
        }
        for link in &links {
            self.on[link.0].push(job);
        }
        if self.links.len() <= job.0 {
            self.links.resize_with(job.0 + 1, || None);
            self.seen_job.resize(job.0 + 1, 0);
        }
        self.links[job.0] = Some(links);
        self.touched.push(job);
    }

    /// A job uses its links no longer; those it met there are touched.
    pub fn leave(&mut self, job: JobIx) {
        let Some(links) = self.links.get_mut(job.0).and_then(Option::take) else { return };
        for link in links {
            let jobs = &mut self.on[link.0];
            jobs.retain(|&j| j != job);
            self.touched.extend_from_slice(jobs);
        }
    }

    /// Something happened to a job.
    pub fn touch(&mut self, job: JobIx) {
        self.touched.push(job);
    }

    /// The groups of jobs that share links, directly or through others, in which a job was touched since the last call.
    /// Each sorted by index, the groups by their first job.
    pub fn take_touched(&mut self) -> Vec<Vec<JobIx>> {
        self.search += 1;
        let touched = std::mem::take(&mut self.touched);
        let mut groups = Vec::new();
        for start in touched {
            if !self.has(start) || !see(&mut self.seen_job, start.0, self.search) {
                continue;
            }
            let mut group = vec![start];
            let mut at = 0;
            while let Some(&job) = group.get(at) {
                at += 1;
                for link in self.links[job.0].iter().flatten() {
                    if see(&mut self.seen_link, link.0, self.search) {
                        let met = self.on[link.0].iter();
                        group.extend(met.filter(|j| see(&mut self.seen_job, j.0, self.search)));
                    }
                }
            }
            group.sort_unstable();
            groups.push(group);
        }
        groups.sort_unstable();
        groups
    }
}

/// True the first time this place is seen in this search.
fn see(seen: &mut [u64], at: usize, search: u64) -> bool {
    std::mem::replace(&mut seen[at], search) != search
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn links(ids: &[usize]) -> Vec<LinkIx> {
        ids.iter().map(|&i| LinkIx(i)).collect()
    }

    #[test]
    fn who_leaves_touches_those_it_met() {
        let mut m = Meeting::default();
        m.enter(JobIx(0), links(&[1, 2]));
        m.enter(JobIx(1), links(&[2, 3]));
        m.enter(JobIx(2), links(&[3]));
        m.enter(JobIx(3), links(&[9]));
        assert_eq!(m.take_touched(), [vec![JobIx(0), JobIx(1), JobIx(2)], vec![JobIx(3)]]);
        assert!(m.take_touched().is_empty());
        m.leave(JobIx(1));
        assert_eq!(m.take_touched(), [vec![JobIx(0)], vec![JobIx(2)]]);
        m.touch(JobIx(1));
        assert!(m.take_touched().is_empty());
    }

    proptest! {
        /// Two jobs are in one group exactly when a chain of shared links leads from one to the other.
        #[test]
        fn groups_are_the_connected_parts(
            uses in prop::collection::vec(prop::collection::vec(0usize..8, 0..4), 1..9),
            gone in prop::collection::vec(any::<bool>(), 9),
        ) {
            let mut m = Meeting::default();
            for (j, u) in uses.iter().enumerate() {
                m.enter(JobIx(j), links(u));
            }
            let inside: Vec<usize> = (0..uses.len()).filter(|&j| !gone[j]).collect();
            (0..uses.len()).filter(|&j| gone[j]).for_each(|j| m.leave(JobIx(j)));
            inside.iter().for_each(|&j| m.touch(JobIx(j)));
            // Reference: labels that spread until nothing changes.
            let mut label: Vec<usize> = (0..uses.len()).collect();
            for _ in 0..uses.len() {
                for &a in &inside {
                    for &b in &inside {
                        if uses[a].iter().any(|l| uses[b].contains(l)) {
                            label[a] = label[a].min(label[b]);
                        }
                    }
                }
            }
            let mut want: std::collections::BTreeMap<usize, Vec<JobIx>> = Default::default();
            inside.iter().for_each(|&j| want.entry(label[j]).or_default().push(JobIx(j)));
            prop_assert_eq!(m.take_touched(), want.into_values().collect::<Vec<_>>());
        }
    }
}
