//! The rounds of jobs on a link, the own ones and others': how much of it they would fill (D), and what other hosts of a job
//! have left there.

use super::{Link, Links};
use crate::event::Now;
use crate::message::FlowPromise;
use crate::units::{Bytes, JobId, Nanos};

/// How many jobs are remembered per link for the demand density D.
const MAX_JOBS_PER_LINK: usize = 256;

/// The last round of a job that used a link, for the demand density.
#[derive(Debug)]
pub(super) struct RoundOnLink {
    /// The job has flows on this host.
    own: bool,
    /// Start of the round that was seen last, and when it was first seen to be over.
    t0: Nanos,
    over: Option<Nanos>,
    /// From round to round if it never waited for others; zero until the second round.
    period: Nanos,
    /// Bytes of the job's round on the link, as time at the link's rate.
    time: Nanos,
    at: Nanos,
}

impl RoundOnLink {
    /// The part of the link that the job would fill if nothing ever waited. It is all of it as long as nobody knows
    /// how long the job pauses.
    fn density(&self) -> f64 {
        if self.period == Nanos::ZERO { 1.0 } else { (self.time.0 as f64 / self.period.0 as f64).min(1.0) }
    }
}

/// A job's round on a link as far as other hosts carry it.
#[derive(Clone, Copy, Debug)]
pub(in crate::host) struct Foreign {
    pub(super) job: JobId,
    /// Bytes still to deliver.
    pub left: Bytes,
    /// Bytes of the whole round.
    pub whole: Bytes,
    /// The latest start any of them names.
    t0: Nanos,
}

impl Links {
    /// Notes a job's round on a link of this host, for the density.
    pub fn note_own_round(&mut self, now: Now, index: usize, job: JobId, time: Nanos, period: Nanos) {
        let rounds = &mut self.all[index].rounds;
        if rounds.len() < MAX_JOBS_PER_LINK || rounds.contains_key(&job) {
            rounds.insert(job, RoundOnLink { own: true, t0: Nanos::ZERO, over: None, period, time, at: now.mono });
        }
    }

    /// D of a link: how much of it the rounds of all jobs seen there would fill, Σ (round's time on the link / period
    /// on empty links). More than 1 where they ask for more than it has.
    pub fn density(&self, index: usize) -> f64 {
        self.all[index].rounds.values().map(RoundOnLink::density).sum()
    }

    /// A job with flows here is over.
    pub fn forget_job(&mut self, job: JobId) {
        self.all.iter_mut().for_each(|link| {
            link.rounds.remove(&job);
        });
    }

    /// Forgets jobs that were not seen for ten of their periods.
    pub fn forget_jobs(&mut self, now: Now) {
        let patience = |round: &RoundOnLink| round.period.times(10).max(Nanos::from_millis(10_000));
        for link in &mut self.all {
            link.rounds.retain(|_, round| now.mono.minus(round.at) <= patience(round));
        }
    }
}

impl Link {
    /// Adds what other hosts have left of a job's round.
    pub(super) fn take_round(&mut self, promise: &FlowPromise) {
        let &FlowPromise { job, demand, delivered, t0, .. } = promise;
        let left = demand.minus(delivered);
        match self.foreign.iter_mut().find(|foreign| foreign.job == job) {
            Some(known) => {
                (known.left, known.whole) = (known.left.plus(left), known.whole.plus(demand));
                known.t0 = known.t0.max(t0);
            }
            None => self.foreign.push(Foreign { job, left, whole: demand, t0 }),
        }
    }

    /// Learns the rounds of other hosts' jobs from the view: how long each fills the link, and how long it pauses.
    pub(super) fn remember_jobs(&mut self, now: Now) {
        let capacity = self.capacity();
        // A job that is not listed need not be over where not all are.
        let cut = !self.view.rest.is_empty();
        for (job, round) in self.rounds.iter_mut().filter(|(_, round)| !cut && !round.own && round.over.is_none()) {
            if !self.foreign.iter().any(|foreign| foreign.job == *job) {
                round.over = Some(now.wall);
            }
        }
        for &Foreign { job, whole, t0, .. } in &self.foreign {
            let room = self.rounds.len() < MAX_JOBS_PER_LINK;
            let time = whole.at(capacity);
            match self.rounds.get_mut(&job) {
                Some(known) if known.own => {}
                Some(known) => {
                    let over = known.over.take();
                    if t0 > known.t0 {
                        known.t0 = t0;
                        known.period = over.map_or(known.period, |over| time.plus(t0.minus(over)).max(Nanos(1)));
                    }
                    (known.time, known.at) = (time, now.mono);
                }
                None if room => {
                    let round = RoundOnLink { own: false, t0, over: None, period: Nanos::ZERO, time, at: now.mono };
                    self.rounds.insert(job, round);
                }
                None => {}
            }
        }
    }
}
