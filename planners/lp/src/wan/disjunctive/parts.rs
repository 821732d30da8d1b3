//! Searching anew a part of a solution: the order of some jobs is left open, all else keeps the solution's.

use super::bits;
use super::order::Order;
use sluice_planners_wan::random::Random;

/// Jobs of which a first part leaves the order open.
const FIRST: f64 = 24.0;
/// The share of all jobs, or of the time, that a part leaves open at least.
const LEAST: f64 = 0.02;
/// By what a part grows when the last one was searched to its end, or shrinks when it was not.
const PACE: f64 = 1.03;

/// Chooses parts, larger ones while they are searched to their end.
#[derive(Debug)]
pub struct Parts {
    random: Random,
    share: f64,
}

impl Parts {
    /// For so many jobs; the same seed gives the same parts.
    pub fn new(jobs: usize, seed: u64) -> Parts {
        Parts { random: Random::new(seed), share: (FIRST / jobs.max(1) as f64).clamp(LEAST, 1.0) }
    }

    /// Says how the search of the last part ended.
    pub fn learn(&mut self, exhausted: bool) {
        let share = if exhausted { self.share * PACE } else { self.share / PACE };
        self.share = share.clamp(LEAST, 1.0);
    }

    /// Keeps the order of a solution but for a part: the jobs of some time, of some links, or of two owners in some
    /// time.
    pub fn keep(&mut self, order: &mut Order<'_>, starts: &[f64]) {
        let open = self.choose(order, starts);
        let jobs = order.jobs;
        // By link the last job that keeps its place, and the open ones since.
        let mut last: Vec<Option<usize>> = vec![None; jobs.links.len()];
        let mut since: Vec<Vec<usize>> = vec![Vec::new(); jobs.links.len()];
        for job in jobs.sequence(starts) {
            for &link in &jobs.on[job] {
                if let Some(last) = last[link] {
                    order.put(last, job);
                }
                if bits::has(&open, job) {
                    since[link].push(job);
                } else {
                    since[link].drain(..).for_each(|before| {
                        order.put(before, job);
                    });
                    last[link] = Some(job);
                }
            }
        }
    }

    fn choose(&mut self, order: &Order<'_>, starts: &[f64]) -> Vec<u64> {
        let jobs = order.jobs;
        let mut open = vec![0; bits::words(jobs.count())];
        let ends = starts.iter().zip(&jobs.durations).map(|(start, duration)| start + duration);
        let whole = ends.fold(0.0, f64::max);
        let window = |random: &mut Random, length: f64| {
            let from = random.unit() * (whole + length) - length;
            move |job: usize| starts[job] + jobs.durations[job] > from && starts[job] < from + length
        };
        match self.random.below(3) {
            0 => {
                let within = window(&mut self.random, whole * self.share);
                (0..jobs.count()).filter(|job| within(*job)).for_each(|job| bits::insert(&mut open, job));
            }
            1 => {
                for _ in 0..(jobs.links.len() as f64 * self.share).ceil() as usize {
                    let link = self.random.below(jobs.links.len());
                    jobs.links[link].iter().for_each(|job| bits::insert(&mut open, *job));
                }
            }
            _ => {
                let within = window(&mut self.random, 2.0 * whole * self.share);
                let pair = [self.random.below(jobs.owner_count), self.random.below(jobs.owner_count)];
                let of_pair = (0..jobs.count()).filter(|job| pair.contains(&jobs.owners[*job]) && within(*job));
                of_pair.for_each(|job| bits::insert(&mut open, job));
            }
        }
        open
    }
}
