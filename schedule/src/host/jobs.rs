//! A job's state: its rounds, its key in the order of rounds, its promotion, and what its other hosts say.

use std::collections::BTreeMap;

use super::change::Change;
use super::{Host, JobReport, Stall};
use crate::deciding;
use crate::event::{Now, Pattern};
use crate::message::{JobStatus, Rank};
use crate::path::{KeyHysteresis, Waiting};
use crate::policy::{Planned, Why};
use crate::units::{Bytes, HolderId, HostId, JobId, Nanos, Rate};

/// Hosts of one job whose status is remembered.
const MAX_HOSTS: usize = 4096;
/// A round is held at the floor for this part of its patience, if that is longer than the longest wait there is.
const HELD_PATIENCE: f64 = 0.5;
/// Weight of the newest period or pause in the running average.
const NEWEST_WEIGHT: f64 = 0.25;

/// A job's bytes on one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Index into the host's links.
    pub link: usize,
    /// Of the round, still to deliver.
    pub left: Bytes,
    /// Of the round in all.
    pub whole: Bytes,
}

fn averaged(known: Option<Nanos>, newest: Nanos) -> Nanos {
    known.map_or(newest, |average| average.scaled(1.0 - NEWEST_WEIGHT).plus(newest.scaled(NEWEST_WEIGHT)))
}

/// What another host of the job said last, by whom and when that was heard, on the monotonic clock.
#[derive(Debug)]
struct Heard {
    status: JobStatus,
    by: HolderId,
    at: Nanos,
}

/// How much a host says otherwise of a round than before. That the round has less left is small news: whoever comes before
/// another then still does, mostly, and if not, that can wait for the next look.
fn change(was: &JobStatus, is: &JobStatus) -> Change {
    let begun = |status: &JobStatus| (status.key > Nanos::ZERO, status.t0, status.promoted);
    if begun(was) != begun(is) {
        return Change::Large;
    }
    match (was.offer.0.abs_diff(is.offer.0), was.key != is.key || was.round_time != is.round_time) {
        (0, false) => Change::None,
        (0, true) => Change::Small,
        (by, _) => Change::moving(Rate(by), was.offer.max(is.offer)),
    }
}

/// How many other hosts a holder knows of that tells only of those that decide.
#[derive(Clone, Copy, Debug)]
struct Told {
    by: HolderId,
    hosts: usize,
    at: Nanos,
}

/// One job with flows on this host.
#[derive(Debug)]
pub(super) struct Job {
    pub id: JobId,
    /// The host that this is.
    host: HostId,
    pub pattern: Pattern,
    /// The round's bytes per link, as of the last ranking.
    pub work: Vec<Work>,
    /// D: largest density of the job's links.
    pub density: f64,
    rounds: u64,
    /// Round start on the cluster's clock, as seen here.
    t0: Nanos,
    began: Nanos,
    period: Nanos,
    /// Running average of the time from the end of a round here to the next start: compute.
    pause: Option<Nanos>,
    /// When the last round ended here.
    ended: Option<Nanos>,
    last_round: Nanos,
    open: bool,
    /// Remaining bottleneck time over the links this host knows, as published.
    own_key: Nanos,
    key: KeyHysteresis,
    /// Bottleneck time of the whole round over those links (m).
    own_round_time: Nanos,
    promoted: bool,
    rank: Rank,
    /// This host's part of the key at the last ranking.
    ranked_key: Nanos,
    /// How long every flow here has been held at its floor.
    waiting: Waiting,
    /// The last status of each other host of the job.
    others: BTreeMap<HostId, Heard>,
    /// What holders say of how many they are, where they do not tell of each.
    told: Vec<Told>,
    /// When it was last accounted for, and the time from the plan before to that one.
    accounted: Nanos,
    passed: Nanos,
    /// Of the last plan: has it flows there, and are they all at their floor?
    planned: bool,
    all_held: bool,
    stalls: [Stall; 3],
}

impl Job {
    pub fn new(id: JobId, host: HostId) -> Job {
        Job {
            id,
            host,
            pattern: Pattern::Unknown,
            work: Vec::new(),
            density: 0.0,
            rounds: 0,
            t0: Nanos::ZERO,
            began: Nanos::ZERO,
            period: Nanos::ZERO,
            pause: None,
            ended: None,
            last_round: Nanos::ZERO,
            open: false,
            own_key: Nanos::ZERO,
            key: KeyHysteresis::default(),
            own_round_time: Nanos::ZERO,
            promoted: false,
            rank: Rank::default(),
            ranked_key: Nanos::ZERO,
            waiting: Waiting::default(),
            others: BTreeMap::new(),
            told: Vec::new(),
            accounted: Nanos::ZERO,
            passed: Nanos::ZERO,
            planned: false,
            all_held: false,
            stalls: [Why::Rank, Why::Job, Why::Predecessor].map(|why| Stall { why, time: Nanos::ZERO }),
        }
    }

    pub fn round_began(&mut self, now: Now) {
        if self.rounds > 0 {
            let known = Some(self.period).filter(|period| *period > Nanos::ZERO);
            self.period = averaged(known, now.mono.minus(self.began));
        }
        if let Some(ended) = self.ended.take() {
            self.pause = Some(averaged(self.pause, now.mono.minus(ended)));
        }
        self.rounds += 1;
        self.t0 = now.wall;
        self.began = now.mono;
        self.open = true;
        self.promoted = false;
        self.waiting = Waiting::default();
        self.key.reset();
        self.own_key = Nanos::ZERO;
    }

    /// All of the job's flows here are gone.
    pub fn ended(&mut self) {
        self.open = false;
        self.ended = None;
        self.own_key = Nanos::ZERO;
        self.own_round_time = Nanos::ZERO;
    }

    /// Takes in what is left of the round and what all of it was, as bottleneck times over the links known here.
    pub fn measure(&mut self, now: Now, remaining: Nanos, whole: Nanos) {
        self.own_round_time = whole;
        if remaining == Nanos::ZERO {
            if self.open {
                self.open = false;
                self.ended = Some(now.mono);
                self.last_round = now.mono.minus(self.began);
            }
            self.own_key = Nanos::ZERO;
            self.promoted = false;
            self.waiting = Waiting::default();
            self.key.reset();
            return;
        }
        self.own_key = self.key.key(remaining).max(Nanos(1));
    }

    /// Promotes a round that is older than κ(1+D)m, or that was held at the floor for too long.
    pub fn promote(&mut self, now: Now, kappa: f64, max_wait: Nanos) {
        if self.own_key == Nanos::ZERO {
            return;
        }
        let patience = self.round_time().scaled(kappa * (1.0 + self.density));
        // A long round may be held for longer: promoted after less than its own length it would go first come, first served.
        let most = max_wait.max(patience.scaled(HELD_PATIENCE));
        self.promoted |= now.wall.minus(self.stamp()) > patience || self.waiting.due(now.mono, most);
    }

    /// The job's place in the order of rounds, as of the last ranking: the same on all its hosts once they have heard
    /// each other.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Works the place out from what is known by now; true if it or this host's part of it has changed.
    pub fn take_rank(&mut self) -> bool {
        let promoted = self.promoted();
        let rank = Rank { ordinary: !promoted, key: if promoted { self.stamp() } else { self.key() }, job: self.id };
        let moved = (rank, self.own_key) != (self.rank, self.ranked_key);
        (self.rank, self.ranked_key) = (rank, self.own_key);
        moved
    }

    /// Remaining bottleneck time of the round: the largest any host of the job published.
    pub fn key(&self) -> Nanos {
        self.alive().map(|s| s.key).fold(self.own_key, Nanos::max)
    }

    /// This host's part of the key, as published.
    pub fn own_key(&self) -> Nanos {
        self.own_key
    }

    /// What one host of the job waited too long for, all of them need: a round that goes first here and waits there
    /// holds others up for nothing.
    pub fn promoted(&self) -> bool {
        self.promoted || self.alive().any(|s| s.promoted && s.key > Nanos::ZERO)
    }

    /// When the round began, as stamped by the lowest id among the job's hosts that have some of it left: the same for all
    /// hosts that have heard each other.
    pub fn stamp(&self) -> Nanos {
        let own = (self.own_key > Nanos::ZERO).then_some((self.host, self.t0));
        let others = self.alive().filter(|s| s.key > Nanos::ZERO && s.t0 > Nanos::ZERO).map(|s| (s.origin, s.t0));
        own.into_iter().chain(others).min_by_key(|(host, _)| *host).map_or(self.t0, |(_, t0)| t0)
    }

    /// Least offer of the job's flows on its other hosts.
    pub fn peer_offer(&self) -> Rate {
        self.alive().filter(|s| s.key > Nanos::ZERO).map(|s| s.offer).min().unwrap_or(Rate::MAX)
    }

    /// The period that the job would have on empty links (p): compute and its round's bottleneck time. How long it
    /// waits for others says how full links are, not how much it asks of them. Zero before the second round.
    pub fn period_alone(&self) -> Nanos {
        self.pause.map_or(Nanos::ZERO, |pause| pause.plus(self.round_time()).max(Nanos(1)))
    }

    fn round_time(&self) -> Nanos {
        self.alive().map(|s| s.round_time).fold(self.own_round_time, Nanos::max)
    }

    fn alive(&self) -> impl Iterator<Item = &JobStatus> + Clone {
        self.others.values().map(|heard| &heard.status)
    }

    /// Another host's status by a holder; older news than what is known changes nothing. Says how much is new.
    pub fn heard(&mut self, now: Now, by: HolderId, status: JobStatus) -> Change {
        let full = self.others.len() >= MAX_HOSTS;
        match self.others.get_mut(&status.origin) {
            Some(known) if known.status.boot == status.boot && known.status.seq >= status.seq => Change::None,
            Some(known) => {
                let change = change(&known.status, &status);
                *known = Heard { status, by, at: now.mono };
                change
            }
            None if full => Change::None,
            None => {
                self.others.insert(status.origin, Heard { status, by, at: now.mono });
                Change::Large
            }
        }
    }

    /// A holder tells of so many hosts only by the statuses that decide, and has just told those of `origins`: what it told
    /// of others before does not decide any more. True if that says something new.
    pub fn crowded(&mut self, now: Now, by: HolderId, hosts: usize, origins: impl Fn(HostId) -> bool) -> bool {
        let before = self.others.len();
        self.others.retain(|origin, heard| heard.by != by || origins(*origin));
        self.told.retain(|told| told.by != by);
        self.told.push(Told { by, hosts, at: now.mono });
        before != self.others.len()
    }

    /// Forgets hosts that were silent for longer than a lease (2 slots, and one for the way).
    pub fn forget_old(&mut self, now: Now, slot: Nanos) {
        self.others.retain(|_, heard| now.mono.minus(heard.at) <= slot.times(3));
        self.told.retain(|told| now.mono.minus(told.at) <= slot.times(3));
    }

    /// Statuses of other hosts, to be relayed where a holder may not have heard them: all, or of many those that decide.
    pub fn relayed(&self) -> Vec<JobStatus> {
        if self.others.len() <= deciding::MAX_TOLD {
            return self.alive().cloned().collect();
        }
        deciding::of(self.alive()).into_iter().cloned().collect()
    }

    /// This host's own status, but for who says it and its number.
    pub fn own_status(&self, offer: Rate) -> JobStatus {
        JobStatus {
            job: self.id,
            round: self.rounds,
            t0: self.t0,
            key: self.own_key,
            round_time: self.own_round_time,
            period: self.period,
            offer,
            promoted: self.promoted,
            ..JobStatus::default()
        }
    }

    /// A plan was made: how long after the one before is known from here on.
    fn begin_account(&mut self, now: Now) {
        let first = self.accounted == Nanos::ZERO;
        self.passed = if first { Nanos::ZERO } else { now.mono.minus(self.accounted) };
        (self.accounted, self.planned, self.all_held) = (now.mono, false, true);
    }

    /// It has this flow in the plan; what the flow waited for since the last one is written down.
    fn account_flow(&mut self, floor: Rate, plan: &Planned) {
        self.planned = true;
        // What the fill adds comes and goes; only what the rank gives counts as service.
        self.all_held &= plan.rates.first().is_none_or(|rate| *rate <= floor);
        if let Some(stall) = self.stalls.iter_mut().find(|stall| stall.why == plan.why) {
            stall.time = stall.time.plus(self.passed);
        }
    }

    pub fn report(&self) -> JobReport {
        JobReport {
            job: self.id,
            rounds: self.rounds,
            key: self.key(),
            promoted: self.promoted(),
            peers: self.told.iter().map(|told| told.hosts).fold(self.others.len(), usize::max),
            period: self.period,
            last_round: self.last_round,
            stalls: self.stalls,
        }
    }
}

impl Host {
    /// Keeps the books of waiting; a job all of whose flows here are at their floor is held.
    pub(super) fn account(&mut self, now: Now, planned: &[Planned]) {
        self.jobs.values_mut().for_each(|job| job.begin_account(now));
        let scene = &self.scene;
        let mut flows = scene.flows.iter().zip(planned).peekable();
        // Flows of a job stand together in the scene.
        while let Some((first, _)) = flows.peek().copied() {
            let mut job = scene.jobs.get(first.job).and_then(|of| self.jobs.get_mut(&of.job));
            while let Some((flow, plan)) = flows.next_if(|(flow, _)| flow.job == first.job) {
                if let Some(job) = &mut job {
                    job.account_flow(flow.floor, plan);
                }
            }
        }
        for job in self.jobs.values_mut() {
            job.waiting.decided(now.mono, job.planned && job.all_held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Slot;
    use proptest::prelude::*;

    proptest! {
        /// Whoever began first and whoever is done: hosts that have heard each other name one moment.
        #[test]
        fn all_hosts_of_a_job_agree_on_when_its_round_began(hosts in prop::collection::vec((1_u64..1000, 0_u64..3), 1..6)) {
            let at = |ms| Now { mono: Nanos::from_millis(ms), wall: Nanos::from_millis(ms), slot: Slot(0), ..Now::default() };
            let id = JobId::of("a");
            let mut jobs: Vec<Job> = Vec::new();
            for (n, &(began, left)) in (0..).zip(&hosts) {
                let mut job = Job::new(id, HostId(n));
                job.round_began(at(began));
                job.measure(at(began), Nanos(left), Nanos(3));
                jobs.push(job);
            }
            let said: Vec<JobStatus> = jobs
                .iter()
                .map(|job| JobStatus { origin: job.host, seq: 1, ..job.own_status(Rate::MAX) })
                .collect();
            for job in &mut jobs {
                for status in &said {
                    if status.origin != job.host {
                        job.heard(at(1000), HolderId(1), status.clone());
                    }
                }
            }
            let first = hosts.iter().find(|(_, left)| *left > 0).map(|(began, _)| Nanos::from_millis(*began));
            for (job, &(began, _)) in jobs.iter().zip(&hosts) {
                prop_assert_eq!(job.stamp(), first.unwrap_or(Nanos::from_millis(began)));
            }
        }
    }
}
