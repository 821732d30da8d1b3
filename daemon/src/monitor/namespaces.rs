//! The network namespaces in which jobs run: this daemon's own, and those of containers.
//!
//! Entering another one needs CAP_SYS_ADMIN; without it the flows of containers are left as they are, and a condition says
//! so. No socket of a namespace outlives the look into it, so that none is kept alive by being watched. So many are
//! looked into and no more; a user who makes more of them than others gives way to those.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::sched::{CloneFlags, setns};
use sluice_progress::{gives_way, most_of};
use sluice_schedule::Nanos;

use super::tuple::NetNs;
use crate::privilege::eyes::{Eyes, diag_for};
use crate::sock_diag::{self, DiagSocket};

/// New processes are looked for this often.
const LIST_EVERY: Nanos = Nanos::from_millis(1_000);
/// A process may exec shortly after it appeared, and its environment is another one then.
const LOOKS: u8 = 3;
/// Namespaces looked into at most.
pub(crate) const MAX_FOREIGN: usize = 64;

/// The network namespaces of jobs that could not be entered at the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncovered {
    /// How many.
    pub count: usize,
    /// What the system said of the last of them; empty if there is none.
    pub why: String,
}

#[derive(Debug, Default)]
pub struct Namespaces {
    listed: Option<Nanos>,
    /// How often a process has been looked at.
    looked: HashMap<u32, u8>,
    /// By inode: a process of a job in it. In their order they are looked into, and where connections are too many the last ones
    /// are left out.
    foreign: BTreeMap<NetNs, Inside>,
}

/// A process of a job, by which its namespace is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inside {
    pid: u32,
    /// Whose it is.
    uid: u32,
}

impl Namespaces {
    /// Every connection of the own namespace, then of those in which a process is a job's, each with its namespace and a
    /// process in it. Gives those that it may not enter.
    pub fn each(
        &mut self,
        now: Nanos,
        eyes: &dyn Eyes,
        is_jobs: impl Fn(u32) -> bool,
        mut take: impl FnMut(NetNs, u32, &DiagSocket),
    ) -> Uncovered {
        let mut dump = |netns: NetNs, pid: u32| {
            let netlink = diag_for(eyes, pid, Some(netns))?;
            match sock_diag::dump(&netlink) {
                Ok(all) => all.iter().for_each(|seen| take(netns, pid, seen)),
                Err(error) => sock_diag::warn(&error.into()),
            }
            Ok(())
        };
        let own: io::Result<()> = dump(of(std::process::id()).unwrap_or_default(), std::process::id());
        if let Err(error) = own {
            sock_diag::warn(&error);
        }
        if self.listed.is_none_or(|at| now.minus(at) >= LIST_EVERY) {
            self.listed = Some(now);
            self.list(eyes, is_jobs);
        }
        let mut uncovered = Uncovered::default();
        self.foreign.retain(|namespace, Inside { pid, .. }| {
            if eyes.netns(*pid) != Some(*namespace) {
                return false;
            }
            if let Err(error) = dump(*namespace, *pid) {
                uncovered = Uncovered { count: uncovered.count + 1, why: error.to_string() };
            }
            true
        });
        uncovered
    }

    fn list(&mut self, eyes: &dyn Eyes, is_jobs: impl Fn(u32) -> bool) {
        let own = of(std::process::id());
        let mut living = HashMap::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let looks = self.looked.get(&pid).copied().unwrap_or(0);
            let Ok(uid) = entry.metadata().map(|meta| meta.uid()) else { continue };
            if looks < LOOKS && self.foreign.len() >= MAX_FOREIGN && self.gives_way(uid).is_none() {
                // It is looked at when there is room.
                living.insert(pid, looks);
                continue;
            }
            living.insert(pid, looks.saturating_add(1).min(LOOKS));
            if looks < LOOKS
                && let Some(namespace) = eyes.netns(pid).filter(|namespace| Some(*namespace) != own)
                && !self.foreign.contains_key(&namespace)
                && is_jobs(pid)
                && let Some(passed) = self.look_into(namespace, Inside { pid, uid })
            {
                // It is looked at again once there is room.
                living.remove(&passed);
                self.looked.remove(&passed);
            }
        }
        self.looked = living;
    }

    /// Looks into one more from now on, if need be in place of one of a user who has more of them: the process by which
    /// that one was entered.
    fn look_into(&mut self, namespace: NetNs, inside: Inside) -> Option<u32> {
        let mut passed = None;
        if self.foreign.len() >= MAX_FOREIGN {
            passed = self.foreign.remove(&self.gives_way(inside.uid)?).map(|inside| inside.pid);
        }
        self.foreign.insert(namespace, inside);
        passed
    }

    /// Which namespace is looked into no more for one of this user, where there is no room.
    fn gives_way(&self, uid: u32) -> Option<NetNs> {
        let mut shares: HashMap<u32, usize> = HashMap::new();
        self.foreign.values().for_each(|inside| *shares.entry(inside.uid).or_default() += 1);
        let mine = shares.get(&uid).copied().unwrap_or(0);
        let (of, _) = most_of(&shares).filter(|(_, theirs)| gives_way(*theirs, mine))?;
        // The process that came last.
        let theirs = self.foreign.iter().filter(|(_, inside)| inside.uid == of);
        theirs.max_by_key(|(_, inside)| inside.pid).map(|(namespace, _)| *namespace)
    }
}

/// The network namespace of a process; `None` if it is gone or may not be looked at.
pub fn of(pid: u32) -> Option<NetNs> {
    // The kernel's numbers of namespaces have 32 bits.
    std::fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|meta| NetNs(meta.ino() as u32))
}

/// Calls this in the network namespace of a process.
///
/// # Errors
/// If the process is gone or its namespace may not be entered; nothing was called then.
pub fn within<R>(pid: u32, call: impl FnOnce() -> R) -> io::Result<R> {
    let own = File::open("/proc/thread-self/ns/net")?;
    let other = File::open(format!("/proc/{pid}/ns/net"))?;
    setns(&other, CloneFlags::CLONE_NEWNET)?;
    let result = call();
    if let Err(error) = setns(&own, CloneFlags::CLONE_NEWNET) {
        // A daemon in a container's network would be worse than none: flows fall back by themselves.
        tracing::error!(
            event = "netns-lost",
            %error,
            cost = "the daemon ends; flows fall back to ordinary congestion control within their orders' life",
            next = "the service manager starts it again; if it comes again, report it with this line",
            "there is no way back into the own network namespace"
        );
        std::process::abort();
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_user(namespaces: &Namespaces, uid: u32) -> usize {
        namespaces.foreign.values().filter(|inside| inside.uid == uid).count()
    }

    /// Promises: P-36
    #[test]
    fn a_user_with_thousands_of_namespaces_keeps_nobody_out() {
        let mut namespaces = Namespaces::default();
        let mut next = 0;
        let mut make = |namespaces: &mut Namespaces, uid| {
            next += 1;
            namespaces.look_into(NetNs(next), Inside { pid: next, uid });
        };
        (0..5000).for_each(|_| make(&mut namespaces, 1000));
        assert_eq!((namespaces.foreign.len(), of_user(&namespaces, 1000)), (MAX_FOREIGN, MAX_FOREIGN));
        // Those that were first stay.
        assert!((1..=MAX_FOREIGN as u32).all(|at| namespaces.foreign.contains_key(&NetNs(at))));
        (0..3).for_each(|_| make(&mut namespaces, 1001));
        assert_eq!((of_user(&namespaces, 1001), of_user(&namespaces, 1000)), (3, MAX_FOREIGN - 3));
        // Whatever the first one makes, the other keeps what it has; at most they have equally many.
        (0..5000).for_each(|_| make(&mut namespaces, 1000));
        assert_eq!(of_user(&namespaces, 1001), 3);
        (0..5000).for_each(|_| make(&mut namespaces, 1001));
        assert_eq!((of_user(&namespaces, 1000), of_user(&namespaces, 1001)), (MAX_FOREIGN / 2, MAX_FOREIGN / 2));
        // Where a place was given away and one has become free, nobody is displaced.
        namespaces.foreign.remove(&NetNs(1));
        make(&mut namespaces, 1002);
        assert_eq!((of_user(&namespaces, 1002), namespaces.foreign.len()), (1, MAX_FOREIGN));
    }
}
