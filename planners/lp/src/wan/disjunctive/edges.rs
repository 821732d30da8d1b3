//! Edge finding on one link: who must come after all of a set of other jobs, because the set and the job do not fit
//! into the time that is left to the set.
//!
//! Source: Nuijten's algorithm, as in Baptiste, Le Pape, Nuijten, Constraint-Based Scheduling (2001), section 2.1.4;
//! its mirror image finds who must come before.

/// A job on the link, with the time that it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stay {
    pub job: usize,
    pub duration: f64,
    /// It starts no earlier.
    pub head: f64,
    /// It ends no later.
    pub latest: f64,
}

/// One job precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub one: usize,
    pub other: usize,
}

/// Sums of times may round by this share.
const ROUNDING: f64 = 1e-12;

/// Adds what follows to `edges`. False where no order of the jobs fits.
pub fn find(stays: &mut [Stay], edges: &mut Vec<Edge>) -> bool {
    if !after(stays, edges) {
        return false;
    }
    let forward = edges.len();
    // Backwards in time a latest end is an earliest start.
    for stay in stays.iter_mut() {
        (stay.head, stay.latest) = (-stay.latest, -stay.head);
    }
    if !after(stays, edges) {
        return false;
    }
    for edge in &mut edges[forward..] {
        (edge.one, edge.other) = (edge.other, edge.one);
    }
    true
}

/// Who comes after a set: for every latest end the set of jobs that end no later.
fn after(stays: &mut [Stay], edges: &mut Vec<Edge>) -> bool {
    stays.sort_unstable_by(|one, other| one.head.total_cmp(&other.head).then(one.job.cmp(&other.job)));
    let largest = stays.iter().map(|stay| stay.head.abs().max(stay.latest.abs())).fold(0.0, f64::max);
    let rounding = ROUNDING * largest;
    for at in 0..stays.len() {
        let latest = stays[at].latest;
        let within = |stay: &Stay| stay.latest <= latest;
        // The work of the set's jobs that start no earlier than each of them, and when all of it is done at the
        // earliest.
        let (mut work, mut done) = (0.0, f64::NEG_INFINITY);
        for stay in stays.iter().rev().filter(|stay| within(stay)) {
            work += stay.duration;
            done = f64::max(done, stay.head + work);
        }
        if done > latest + rounding {
            return false;
        }
        let mut done = f64::NEG_INFINITY;
        for (place, stay) in stays.iter().enumerate() {
            if within(stay) {
                done = done.max(stay.head + work);
                work -= stay.duration;
                continue;
            }
            // It ends too late for any of the set to come after it, or too late for those that start no earlier.
            let first = if done + stay.duration > latest + rounding {
                0
            } else if work > rounding && stay.head + work + stay.duration > latest + rounding {
                place + 1
            } else {
                continue;
            };
            let set = stays[first..].iter().filter(|stay| within(stay));
            edges.extend(set.map(|member| Edge { one: member.job, other: stay.job }));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(job: usize, head: f64, duration: f64, latest: f64) -> Stay {
        Stay { job, duration, head, latest }
    }

    #[test]
    fn a_job_that_fits_only_at_the_end_comes_after_the_others() {
        let mut stays = [stay(0, 0.0, 2.0, 5.0), stay(1, 0.0, 2.0, 5.0), stay(2, 0.0, 2.0, 20.0)];
        let mut edges = Vec::new();
        assert!(find(&mut stays, &mut edges));
        assert!(edges.contains(&Edge { one: 0, other: 2 }) && edges.contains(&Edge { one: 1, other: 2 }));
        assert!(!edges.contains(&Edge { one: 0, other: 1 }));
    }

    #[test]
    fn a_job_that_fits_only_at_the_start_comes_before_the_others() {
        let mut stays = [stay(0, 5.0, 2.0, 9.0), stay(1, 5.0, 2.0, 9.0), stay(2, 0.0, 2.0, 9.0)];
        let mut edges = Vec::new();
        assert!(find(&mut stays, &mut edges));
        assert!(edges.contains(&Edge { one: 2, other: 0 }) && edges.contains(&Edge { one: 2, other: 1 }));
    }

    #[test]
    fn too_much_work_fits_in_no_order() {
        let mut stays = [stay(0, 0.0, 3.0, 5.0), stay(1, 1.0, 3.0, 5.0)];
        assert!(!find(&mut stays, &mut Vec::new()));
    }
}
