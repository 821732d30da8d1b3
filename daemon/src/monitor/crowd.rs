//! Jobs and flows that find no place among those of all users, those that give theirs up, and processes none of whose
//! connections exists: to look for these costs ever less as time goes on, and in the end they are forgotten.

use std::collections::{BTreeMap, VecDeque};

use sluice_progress::PageKey;
use sluice_schedule::{Event, Nanos, Now};

use super::processes::Process;
use super::round::Rounds;
use super::shares::{Shares, Tenant};
use super::tuple::{NetNs, Place, Tuple};
use super::{MAX_JOBS, Monitor, ProcessKey};

/// A process none of whose connections exists is like any other for so long, ...
const HOPEFUL: Nanos = Nanos::from_millis(5_000);
/// ... then it is looked at in one slot of so many, ...
const SELDOM: u32 = 8;
/// ... after this long ...
const LONG: Nanos = Nanos::from_millis(60_000);
/// ... in one of these, ...
const RARELY: u32 = 64;
/// ... and after this its page is as good as new.
const FORGOTTEN: Nanos = Nanos::from_millis(600_000);
/// The connections of a process that nobody knows are asked for again after this long, twice as long after each time, ...
const ASK_AGAIN: Nanos = Nanos::from_millis(2_000);
/// ... and at most this.
const ASK_RARELY: Nanos = Nanos::from_millis(64_000);
/// Pages that are tried in one slot for the place of a job that ended.
const TRIES: usize = 8;
/// What was counted of a process counts for its next page if that comes within this time.
const REMEMBERED: Nanos = Nanos::from_millis(60_000);
/// Processes whose pages are gone that are remembered.
const MAX_PAST: usize = 1024;

/// Whether the connections that a process sends on, as it says, exist.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sight {
    /// It names such ones.
    names: bool,
    /// Since when none of them exists.
    unseen: Option<Nanos>,
    /// It names other ones than at the last look.
    anew: bool,
    ask_after: Nanos,
    ask_wait: Nanos,
}

impl Sight {
    /// Takes in whether one of them exists now.
    pub fn look(&mut self, now: Nanos, unseen: bool) {
        if unseen && self.names {
            self.unseen.get_or_insert(now);
        } else {
            self.unseen = None;
        }
    }

    /// Does it name any?
    pub fn says(&mut self, names: bool) {
        self.names = names;
    }

    /// One of them was found, or it receives: what is received is counted by its page.
    pub fn stir(&mut self) {
        *self = Sight { names: self.names, ..Sight::default() };
    }

    /// It names other ones than before. That alone makes it no other: who names new ones all the time would never rest.
    pub fn changed(&mut self) {
        *self = Sight { names: self.names, unseen: self.unseen, anew: true, ..Sight::default() };
    }

    /// Has none of them existed for so long that it is left out of what is done in every slot?
    pub fn is_dormant(&self, now: Nanos) -> bool {
        self.unseen.is_some_and(|since| now.minus(since) > HOPEFUL)
    }

    /// Is a dormant one looked at in this slot? `turn` tells processes apart.
    pub fn is_due(&self, now: Now, turn: u32) -> bool {
        let Some(since) = self.unseen.filter(|_| !self.anew) else { return true };
        let every = if now.mono.minus(since) > LONG { RARELY } else { SELDOM };
        now.slot.0.wrapping_add(turn).is_multiple_of(every)
    }

    fn is_forgotten(&self, now: Nanos) -> bool {
        self.unseen.is_some_and(|since| now.minus(since) > FORGOTTEN)
    }

    /// May those that nobody knows be asked for?
    pub fn may_ask(&mut self, now: Nanos) -> bool {
        self.anew = false;
        if now < self.ask_after {
            return false;
        }
        self.ask_wait = self.ask_wait.times(2).max(ASK_AGAIN).min(ASK_RARELY);
        self.ask_after = now.plus(self.ask_wait);
        true
    }
}

/// Who found no place, who gave one up, and who may be tried again.
#[derive(Debug, Default)]
pub struct Crowd {
    now: Nanos,
    /// A socket has come that may be a dormant process's.
    fresh: bool,
    /// Pages whose jobs found no place, in order.
    waiting: VecDeque<PageKey>,
    /// How many of them may be tried.
    tries: usize,
    /// What was counted of processes whose pages are gone, by user and pid.
    past: BTreeMap<(u32, u32), (Nanos, Rounds)>,
    /// Jobs that found no place, by their pages.
    pub refused_jobs: u64,
    /// Flows that found no place.
    pub refused_flows: u64,
    /// Jobs that gave theirs up.
    pub given_jobs: u64,
    /// Flows that gave theirs up.
    pub given_flows: u64,
    /// Pages that gave theirs up.
    pub given_pages: u64,
    /// Pages none of whose connections ever existed, or for long.
    pub forgotten_pages: u64,
}

impl Crowd {
    /// The time of the present look.
    pub fn at(&mut self, now: Nanos) {
        self.now = now;
    }

    /// The data path told of a socket.
    pub fn socket_came(&mut self) {
        self.fresh = true;
    }

    /// A process whose job found no place.
    pub fn waits(&mut self, key: ProcessKey) {
        if let ProcessKey::Page(page) = key {
            self.waiting.push_back(page);
        }
    }

    /// A page is gone.
    pub fn left(&mut self, key: ProcessKey) {
        if let ProcessKey::Page(gone) = key {
            self.waiting.retain(|page| *page != gone);
        }
    }

    /// A job has ended.
    pub fn room_for_one(&mut self) {
        self.tries = (self.tries + TRIES).min(self.waiting.len());
    }

    /// Pages that are to be tried now.
    fn tried(&mut self) -> Vec<PageKey> {
        let many = self.tries.min(TRIES).min(self.waiting.len());
        self.tries -= many;
        self.waiting.drain(..many).collect()
    }

    /// Keeps what was counted of a process that is gone, lest a new page make a liar honest.
    pub fn keep(&mut self, process: Process) {
        let (now, late) = (self.now, |at: Nanos| self.now.minus(at) > REMEMBERED);
        let (Some(uid), Some(pid), true) = (process.uid, process.pid, process.view.is_some()) else { return };
        if self.past.len() >= MAX_PAST {
            self.past.retain(|_, (at, _)| !late(*at));
        }
        if self.past.len() < MAX_PAST {
            self.past.insert((uid, pid), (now, process.rounds.past()));
        }
    }

    /// Gives a process what was counted of it when it had another page.
    pub fn remember(&mut self, process: &mut Process) {
        let known = process.uid.zip(process.pid).and_then(|key| self.past.remove(&key));
        if let Some((_, rounds)) = known.filter(|(at, _)| self.now.minus(*at) <= REMEMBERED) {
            process.rounds = rounds;
        }
    }
}

impl Monitor {
    /// May this tenant have one more job? One of a tenant that has more gives way if need be.
    pub(super) fn has_room_for_job(&mut self, tenant: Tenant, out: &mut Vec<Event>) -> bool {
        let shares = Shares::of(self.jobs.values().map(|job| job.tenant));
        if shares.has_room_for(tenant, MAX_JOBS) {
            return true;
        }
        let newest = shares.gives_way(tenant).and_then(|other| {
            let theirs = self.jobs.values().filter(|job| job.tenant == other);
            theirs.min_by_key(|job| job.rounds).map(|job| (job.name.clone(), job.processes.clone()))
        });
        let Some((job, processes)) = newest else {
            self.crowd.refused_jobs += 1;
            return false;
        };
        self.crowd.given_jobs += 1;
        tracing::info!(event = "place-given", what = "job", job, "one of who has more gave its place up");
        for key in processes {
            self.gone(key, out);
            self.crowd.waits(key);
        }
        true
    }

    /// Tries pages whose jobs found no place, after others have ended.
    pub(super) fn try_waiting(&mut self, out: &mut Vec<Event>) {
        for page in self.crowd.tried() {
            self.page_appeared(page, out);
        }
    }

    /// Looks whether a connection of those processes exists by now that have had none for a while.
    pub(super) fn look_for_dormant(&mut self, now: Now) {
        let fresh = std::mem::take(&mut self.crowd.fresh);
        let mut unknown: Vec<(u32, NetNs, Vec<Tuple>)> = Vec::new();
        for process in self.processes.values_mut().filter(|process| process.sight.is_dormant(now.mono)) {
            if !fresh && !process.sight.is_due(now, process.turn()) {
                continue;
            }
            let plan = self.jobs.get(&process.job).and_then(|job| job.following.plan());
            let connections = process.connections(&self.fabric, plan);
            let netns = process.netns;
            let tuples: Vec<Tuple> = connections.iter().filter(|found| found.sends).map(|found| found.tuple).collect();
            if tuples.iter().any(|tuple| self.sockets.at(Place { netns, tuple: *tuple }).is_some()) {
                process.sight.stir();
                self.rematch = true;
            } else if let Some(pid) = process.pid
                && process.sight.may_ask(now.mono)
            {
                unknown.push((pid, netns, tuples));
            }
        }
        for (pid, netns, tuples) in unknown {
            self.discovery.ask(now.mono, pid, netns, tuples);
        }
    }

    /// Forgets pages none of whose connections has existed for long; what is a page still is found anew.
    pub(super) fn forget_dormant(&mut self, now: Nanos, out: &mut Vec<Event>) {
        let forgotten = |(key, process): (&ProcessKey, &Process)| match key {
            ProcessKey::Page(page) if process.sight.is_forgotten(now) => Some(*page),
            _ => None,
        };
        let pages: Vec<PageKey> = self.processes.iter().filter_map(forgotten).collect();
        for page in pages {
            self.crowd.forgotten_pages += 1;
            tracing::info!(event = "page-forgotten", "no connection that a page names has existed for long");
            self.scan.close(page);
            self.gone(ProcessKey::Page(page), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_schedule::Slot;

    use super::*;

    #[test]
    fn looking_for_connections_that_do_not_exist_costs_ever_less() {
        let mut sight = Sight::default();
        sight.look(Nanos::ZERO, true);
        assert!(!sight.is_dormant(Nanos::MAX), "who only receives is heeded for ever");
        sight.says(true);
        let at = |ms: u64| Now { mono: Nanos::from_millis(ms), slot: Slot((ms / 60) as u32), ..Now::default() };
        let (mut looks, mut asked) = (0, 0);
        for slot in 0..11_000_u64 {
            let now = at(slot * 60);
            sight.look(now.mono, true);
            looks += usize::from(!sight.is_dormant(now.mono) || sight.is_due(now, 3));
            asked += usize::from(sight.may_ask(now.mono));
        }
        // Eleven minutes: 84 slots, then one of 8 for 55 s, then one of 64.
        assert!((84 + 114 + 150..84 + 114 + 160).contains(&looks), "{looks}");
        assert!(asked < 18, "{asked}");
        assert!(sight.is_forgotten(Nanos::from_millis(11_000 * 60)));
        // One that is seen, or names others, is like any other.
        sight.look(Nanos::from_millis(660_060), false);
        assert!(!sight.is_dormant(Nanos::from_millis(660_060)) && sight.is_due(at(660_060), 3));
        sight.stir();
        assert!(sight.may_ask(Nanos::from_millis(660_060)));
    }
}
