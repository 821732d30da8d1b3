//! One machine that may interrupt its work: shortest remaining time first has the smallest sum of completion times.
//!
//! L. Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time Discipline", Operations Research 16
//! (1968).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The smallest sum of completion times of jobs (release, work), seconds, neither negative.
pub fn srpt(jobs: &[(f64, f64)]) -> f64 {
    let mut jobs = jobs.to_vec();
    jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Work that is left, as bits: positive floats order like these.
    let mut open: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let (mut now, mut sum) = (0.0f64, 0.0);
    let mut next = jobs.iter().peekable();
    loop {
        let Some(Reverse(bits)) = open.pop() else {
            let Some(&(release, work)) = next.next() else { return sum };
            now = now.max(release);
            open.push(Reverse(work.to_bits()));
            continue;
        };
        let left = f64::from_bits(bits);
        match next.next_if(|(release, _)| *release < now + left) {
            Some(&(release, work)) => {
                let run = (release - now).max(0.0);
                now += run;
                open.push(Reverse((left - run).max(0.0).to_bits()));
                open.push(Reverse(work.to_bits()));
            }
            None => {
                now += left;
                sum += now;
            }
        }
    }
}

/// When a machine that is never idle without need has done all jobs (release, work), seconds.
pub fn last_end(jobs: &[(f64, f64)]) -> f64 {
    let mut jobs = jobs.to_vec();
    jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
    jobs.iter().fold(0.0, |now, (release, work)| now.max(*release) + work)
}
