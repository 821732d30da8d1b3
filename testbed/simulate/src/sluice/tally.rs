//! What is counted: messages, decisions and how long they took, promotions, guards, expiries.

use std::collections::HashSet;

use sluice_schedule::{Announcement, JobId, Nanos};

/// Decision times kept at most; past that every other one is dropped and every other one taken.
const MAX_TIMES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub decisions: u64,
    pub orders: u64,
    /// Orders that ran out because nobody renewed them.
    pub expired: u64,
    /// How many flows were given back.
    pub released: u64,
    pub connections_lost: u64,
    promoted: HashSet<(JobId, Nanos)>,
    promotions: u64,
    times: Vec<f64>,
    stride: u64,
}

impl Tally {
    /// A decision took so many seconds of the machine's clock.
    pub fn decided(&mut self, seconds: f64) {
        self.decisions += 1;
        let stride = self.stride.max(1);
        if !self.decisions.is_multiple_of(stride) {
            return;
        }
        self.times.push(seconds);
        if self.times.len() >= MAX_TIMES {
            let mut at = 0;
            self.times.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.stride = stride * 2;
        }
    }

    /// Seconds of a regular sample of the decisions, in order.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Rounds that go first because they are old, each counted once.
    pub fn promotions(&self) -> u64 {
        self.promotions
    }

    /// Looks for promoted rounds in what a host says.
    pub fn announced(&mut self, announcement: &Announcement) {
        for promise in announcement.flows.iter().filter(|promise| promise.promoted) {
            self.promotions += u64::from(self.promoted.insert((promise.job, promise.t0)));
        }
    }

    /// A job is over: its rounds need not be told apart any more.
    pub fn ended(&mut self, job: JobId) {
        self.promoted.retain(|(known, _)| *known != job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_regular_sample_of_bounded_length() {
        let mut tally = Tally::default();
        for n in 1..=5_000_000_u32 {
            tally.decided(f64::from(n));
        }
        assert_eq!(tally.decisions, 5_000_000);
        assert!(tally.times().len() < MAX_TIMES && tally.times().len() > MAX_TIMES / 4);
        let gaps: HashSet<u64> = tally.times().windows(2).map(|w| (w[1] - w[0]) as u64).collect();
        assert_eq!(gaps.len(), 1, "{gaps:?}");
    }
}
