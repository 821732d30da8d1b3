//! Of the statuses of a job's hosts the few from which all follows that a host needs to know of the others.
//!
//! A host asks of its job's other hosts the longest remaining time, the longest round, the least offer, when the round
//! began (as the lowest id says that has some of it left) and whether any of them has promoted it. At most five statuses
//! answer that, however many hosts the job has. [`of`] finds them in a list; [`Deciding`] keeps them found while statuses
//! come and go, and can leave out any one host, since nobody has to be told of itself.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::message::JobStatus;
use crate::units::{HostId, Nanos, Rate};

/// Up to so many hosts of a job are told of one by one.
pub const MAX_TOLD: usize = 16;

/// Has the host something of the round left?
fn runs(status: &JobStatus) -> bool {
    status.key > Nanos::ZERO
}

/// The statuses that decide, by their hosts; of equal ones the lowest host's.
pub fn of<'a>(statuses: impl Iterator<Item = &'a JobStatus> + Clone) -> Vec<&'a JobStatus> {
    let running = || statuses.clone().filter(|status| runs(status));
    let found = [
        running().min_by_key(|s| (Reverse(s.key), s.origin)),
        statuses.clone().min_by_key(|s| (Reverse(s.round_time), s.origin)),
        running().min_by_key(|s| (s.offer, s.origin)),
        running().filter(|s| s.t0 > Nanos::ZERO).min_by_key(|s| s.origin),
        running().filter(|s| s.promoted).min_by_key(|s| s.origin),
    ];
    let mut found: Vec<&JobStatus> = found.into_iter().flatten().collect();
    found.sort_unstable_by_key(|status| status.origin);
    found.dedup_by_key(|status| status.origin);
    found
}

/// Keeps the hosts of one job in the orders that decide.
#[derive(Clone, Debug, Default)]
pub struct Deciding {
    keys: BTreeSet<(Reverse<Nanos>, HostId)>,
    round_times: BTreeSet<(Reverse<Nanos>, HostId)>,
    offers: BTreeSet<(Rate, HostId)>,
    started: BTreeSet<HostId>,
    promoted: BTreeSet<HostId>,
}

impl Deciding {
    /// A host's status counts from now on; one that counted before has to be removed first.
    pub fn insert(&mut self, status: &JobStatus) {
        let host = status.origin;
        self.round_times.insert((Reverse(status.round_time), host));
        if !runs(status) {
            return;
        }
        self.keys.insert((Reverse(status.key), host));
        self.offers.insert((status.offer, host));
        if status.t0 > Nanos::ZERO {
            self.started.insert(host);
        }
        if status.promoted {
            self.promoted.insert(host);
        }
    }

    /// The status that was inserted of a host counts no more.
    pub fn remove(&mut self, status: &JobStatus) {
        let host = status.origin;
        self.round_times.remove(&(Reverse(status.round_time), host));
        self.keys.remove(&(Reverse(status.key), host));
        self.offers.remove(&(status.offer, host));
        self.started.remove(&host);
        self.promoted.remove(&host);
    }

    /// The hosts whose statuses decide for `me`, in order.
    pub fn without(&self, me: HostId) -> Vec<HostId> {
        let other = |host: &HostId| *host != me;
        let found = [
            self.keys.iter().map(|(_, host)| *host).find(other),
            self.round_times.iter().map(|(_, host)| *host).find(other),
            self.offers.iter().map(|(_, host)| *host).find(other),
            self.started.iter().copied().find(other),
            self.promoted.iter().copied().find(other),
        ];
        let mut hosts: Vec<HostId> = found.into_iter().flatten().collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// Does this host's status decide for anybody?
    pub fn decides(&self, host: HostId) -> bool {
        let is = |other: HostId| other == host;
        self.keys.iter().take(2).any(|(_, other)| is(*other))
            || self.round_times.iter().take(2).any(|(_, other)| is(*other))
            || self.offers.iter().take(2).any(|(_, other)| is(*other))
            || self.started.iter().take(2).copied().any(is)
            || self.promoted.iter().take(2).copied().any(is)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn status() -> impl Strategy<Value = JobStatus> {
        // Few values, so that many are equal.
        (0_u32..40, 0_u64..4, 0_u64..4, 0_u64..4, 0_u64..3, any::<bool>()).prop_map(
            |(origin, key, round_time, offer, t0, promoted)| JobStatus {
                origin: HostId(origin),
                key: Nanos(key),
                round_time: Nanos(round_time),
                offer: Rate(offer),
                t0: Nanos(t0),
                promoted,
                ..JobStatus::default()
            },
        )
    }

    proptest! {
        /// While statuses come, change and go, what is kept is what a search finds, for every host that asks.
        #[test]
        fn what_is_kept_is_what_a_search_finds(steps in prop::collection::vec((status(), any::<bool>()), 1..80)) {
            let (mut kept, mut all) = (Deciding::default(), BTreeMap::<HostId, JobStatus>::new());
            for (status, stays) in steps {
                let host = status.origin;
                if let Some(before) = all.remove(&host) {
                    kept.remove(&before);
                }
                if stays {
                    kept.insert(&status);
                    all.insert(host, status);
                }
            }
            let found = |me: HostId| of(all.values().filter(move |s| s.origin != me)).into_iter().map(|s| s.origin).collect::<Vec<_>>();
            let mut decide = BTreeSet::new();
            for me in (0..41).map(HostId) {
                prop_assert_eq!(kept.without(me), found(me));
                decide.extend(found(me));
            }
            for host in all.keys() {
                prop_assert_eq!(kept.decides(*host), decide.contains(host), "{:?}", host);
            }
        }

        /// From the few follows what follows from all.
        #[test]
        fn the_few_say_what_all_say(statuses in prop::collection::vec(status(), 0..60)) {
            let all: Vec<JobStatus> =
                statuses.into_iter().map(|s| (s.origin, s)).collect::<BTreeMap<_, _>>().into_values().collect();
            let few: Vec<JobStatus> = of(all.iter()).into_iter().cloned().collect();
            prop_assert!(few.len() <= 5);
            let says = |list: &[JobStatus]| {
                let running = || list.iter().filter(|s| runs(s));
                (
                    running().map(|s| s.key).max(),
                    list.iter().map(|s| s.round_time).max(),
                    running().map(|s| s.offer).min(),
                    running().filter(|s| s.t0 > Nanos::ZERO).map(|s| (s.origin, s.t0)).min(),
                    running().any(|s| s.promoted),
                )
            };
            prop_assert_eq!(says(&few), says(&all));
        }
    }
}
