//! Places of a table that all users share: who has how many, who may take one more, and who gives one up. Pure.
//!
//! Users share equally. Where all tenants are one user, as containers that run as root are, their cgroups tell them apart: a
//! user's cgroups share equally what the user has. Nobody is kept out by many who were first: in a full table whoever has
//! more than one place more than somebody who asks gives one up.

use std::collections::BTreeMap;

use sluice_progress::gives_way;
use sluice_schedule::units::fnv1a64;

use super::holders;

/// This part of a table, one in so many, is kept for users that have less than an equal share of it.
const KEPT_PART: usize = 8;

/// Whose a place is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant {
    pub uid: u32,
    /// Digest of the cgroup's path; 0: it has none, or is not known.
    pub cgroup: u64,
}

impl Tenant {
    /// Whose a process is.
    pub fn of(uid: Option<u32>, pid: Option<u32>) -> Tenant {
        let path = pid.and_then(holders::cgroup_of);
        let digest = |path: std::path::PathBuf| fnv1a64(path.as_os_str().as_encoded_bytes());
        Tenant { uid: uid.unwrap_or(0), cgroup: path.map_or(0, digest) }
    }
}

/// Who has how many places of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// By user, then by cgroup; none is 0.
    users: BTreeMap<u32, BTreeMap<u64, usize>>,
    all: usize,
}

impl Shares {
    pub fn of(owners: impl IntoIterator<Item = Tenant>) -> Shares {
        let mut shares = Shares::default();
        owners.into_iter().for_each(|owner| shares.add(owner));
        shares
    }

    pub fn add(&mut self, owner: Tenant) {
        *self.users.entry(owner.uid).or_default().entry(owner.cgroup).or_default() += 1;
        self.all += 1;
    }

    pub fn remove(&mut self, owner: Tenant) {
        let Some(cgroups) = self.users.get_mut(&owner.uid) else { return };
        let Some(places) = cgroups.get_mut(&owner.cgroup) else { return };
        *places -= 1;
        self.all -= 1;
        cgroups.retain(|_, places| *places > 0);
        self.users.retain(|_, cgroups| !cgroups.is_empty());
    }

    /// Is one of `max` places free for this one?
    pub fn has_room_for(&self, tenant: Tenant, max: usize) -> bool {
        may_take(self.all, max, self.of_user(tenant.uid), self.users.len())
    }

    /// Who gives up a place for this one, where none is free.
    pub fn gives_way(&self, to: Tenant) -> Option<Tenant> {
        let most = self.users.iter().map(|(uid, cgroups)| (cgroups.values().sum::<usize>(), *uid)).max()?;
        let (places, uid) = most;
        if uid != to.uid && gives_way(places, self.of_user(to.uid)) {
            let (_, cgroup) = largest(self.users.get(&uid)?)?;
            return Some(Tenant { uid, cgroup });
        }
        let own = self.users.get(&to.uid)?;
        let (places, cgroup) = largest(own)?;
        let mine = own.get(&to.cgroup).copied().unwrap_or(0);
        (cgroup != to.cgroup && gives_way(places, mine)).then_some(Tenant { uid: to.uid, cgroup })
    }

    fn of_user(&self, uid: u32) -> usize {
        self.users.get(&uid).map_or(0, |cgroups| cgroups.values().sum())
    }
}

/// The largest share and whose it is.
fn largest(cgroups: &BTreeMap<u64, usize>) -> Option<(usize, u64)> {
    cgroups.iter().map(|(cgroup, places)| (*places, *cgroup)).max()
}

/// May a user take one more place of a table? `used` of `max` are taken, `mine` of them by that user; `users` have some. The
/// last eighth is for those with less than an equal share, so that a newcomer need not wait for anybody.
pub(crate) fn may_take(used: usize, max: usize, mine: usize, users: usize) -> bool {
    used < max && (used < max - max / KEPT_PART || mine < max / users.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 64;

    /// Asks for a place as the tables' owners do.
    fn ask(shares: &mut Shares, tenant: Tenant) -> bool {
        if !shares.has_room_for(tenant, MAX) {
            let Some(other) = shares.gives_way(tenant) else { return false };
            shares.remove(other);
        }
        shares.add(tenant);
        true
    }

    fn has(shares: &Shares, tenant: Tenant) -> usize {
        shares.users.get(&tenant.uid).and_then(|cgroups| cgroups.get(&tenant.cgroup)).copied().unwrap_or(0)
    }

    #[test]
    fn many_small_users_who_were_first_keep_nobody_out() {
        let mut shares = Shares::default();
        let user = |uid| Tenant { uid, cgroup: 1 };
        (1000..1008).for_each(|uid| assert!((0..7).all(|_| ask(&mut shares, user(uid)))));
        for newcomer in [1, 2].map(user) {
            let found = (0..20).filter(|_| ask(&mut shares, newcomer)).count();
            assert_eq!((found, has(&shares, newcomer)), (6, 6), "beside eight that have seven each");
        }
        assert_eq!(shares.all, MAX);
        // Nobody goes to and fro.
        let before = shares.users.clone();
        (1000..1008).chain([1, 2]).for_each(|uid| assert!(!ask(&mut shares, user(uid))));
        assert_eq!(shares.users, before);
        assert!(before.values().all(|cgroups| (6..=7).contains(&cgroups[&1])), "{before:?}");
    }

    #[test]
    fn where_all_are_one_user_cgroups_share() {
        let mut shares = Shares::default();
        let pod = |cgroup| Tenant { uid: 0, cgroup };
        (0..1000).for_each(|_| _ = ask(&mut shares, pod(1)));
        assert_eq!(has(&shares, pod(1)), MAX - MAX / 8, "the rest is for other users");
        (0..10).for_each(|_| assert!(ask(&mut shares, pod(2))));
        assert_eq!((has(&shares, pod(1)), has(&shares, pod(2))), (MAX - MAX / 8 - 10, 10));
        // More cgroups bring a user nothing that another user has.
        (0..10).for_each(|_| assert!(ask(&mut shares, Tenant { uid: 7, cgroup: 9 })));
        (3..100).for_each(|cgroup| _ = ask(&mut shares, pod(cgroup)));
        assert_eq!(has(&shares, Tenant { uid: 7, cgroup: 9 }), 10);
    }

    proptest! {
        #[test]
        fn a_full_table_is_shared_and_comes_to_rest(asks in prop::collection::vec((0_u32..6, 0_u64..4), 0..600)) {
            let mut shares = Shares::default();
            for (uid, cgroup) in asks {
                ask(&mut shares, Tenant { uid, cgroup });
                prop_assert!(shares.all <= MAX);
                prop_assert_eq!(shares.all, shares.users.values().flat_map(BTreeMap::values).sum::<usize>());
            }
            // Whoever asks again and again has as many as anybody else, or one less, or all it wants.
            for uid in 0..6_u32 {
                let tenant = Tenant { uid, cgroup: 0 };
                (0..MAX).for_each(|_| _ = ask(&mut shares, tenant));
                let most = shares.users.values().map(|cgroups| cgroups.values().sum::<usize>()).max().unwrap_or(0);
                prop_assert!(shares.of_user(uid) + 1 >= most, "{:?}", shares.users);
                prop_assert!(!ask(&mut shares, tenant) || shares.of_user(uid) + 1 >= most);
            }
        }
    }
}
