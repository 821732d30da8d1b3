//! Compute phases: how long each is, how much of it comes before the round (`simulation.md` sections 2.10 and 4.4).

use sluice_scenario::Job;
use sluice_scenario::random::Stream;

/// Nanoseconds of compute of one iteration, jitter included. Draws are keyed by job and iteration, so that they do not
/// depend on the order of events.
pub(super) fn length(seed: u64, job: &Job, iteration: u64) -> u64 {
    let base = job.compute_of(iteration).0;
    if job.jitter <= 0.0 {
        return base;
    }
    let mut rng = Stream::new(seed, &format!("jitter|{}|{iteration}", job.id));
    let factor = (1.0 + job.jitter * rng.normal()).clamp(0.5, 2.0);
    (base as f64 * factor).round_ties_even() as u64
}

/// The part of a compute phase of this length that comes before the round.
pub(super) fn before_round(job: &Job, length: u64) -> u64 {
    if job.overlap <= 0.0 {
        return length;
    }
    (length as f64 * (1.0 - job.overlap).max(0.0)).round_ties_even() as u64
}

/// Nanoseconds of a whole run whose rounds take `round` each: the next iteration begins when compute and round are over.
pub(super) fn isolated_run(seed: u64, job: &Job, round: u64) -> u64 {
    let one = |length: u64| length.max(before_round(job, length).saturating_add(round));
    if job.jitter <= 0.0 && job.computes.is_empty() {
        return one(job.compute.0).saturating_mul(u64::from(job.iterations));
    }
    (0..u64::from(job.iterations)).map(|k| one(length(seed, job, k))).fold(0, u64::saturating_add)
}
