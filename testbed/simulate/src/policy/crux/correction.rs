//! Two periodic jobs on one link: which of them should go first so that the GPUs wait least?

/// A job on one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodic {
    /// Seconds of compute of an iteration.
    pub compute_s: f64,
    /// Seconds of communication when it has the link.
    pub round_s: f64,
    /// Work of one iteration.
    pub work: f64,
}

/// Periods of the slower job that are simulated.
const PERIODS: f64 = 32.0;
/// How far a corrected priority stands from the other one.
const NUDGE: f64 = 1e-6;
/// Utilisations nearer than this are equal.
const SAME: f64 = 1e-9;

/// The factor on the intensity of `job` that puts it on the side of `reference` (whose factor is 1) on which the GPUs do
/// more work; 1 where it stands there already or the side makes no difference.
pub fn correction(job: Periodic, reference: Periodic) -> f64 {
    let (first, second) = (work_done(job, reference), work_done(reference, job));
    let intensity = |j: Periodic| j.work / j.round_s;
    let ratio = intensity(reference) / intensity(job);
    if !ratio.is_finite() || ratio <= 0.0 || (first - second).abs() <= SAME * first.max(second) {
        return 1.0;
    }
    if first > second && ratio >= 1.0 {
        ratio * (1.0 + NUDGE)
    } else if first < second && ratio <= 1.0 {
        ratio * (1.0 - NUDGE)
    } else {
        1.0
    }
}

/// Work per second that two jobs do, both starting with compute at 0, when `first` always has the link before `second`.
fn work_done(first: Periodic, second: Periodic) -> f64 {
    let slow = (first.compute_s + first.round_s).max(second.compute_s + second.round_s);
    let end = PERIODS * slow;
    let jobs = [first, second];
    // Seconds of the phase that are left; true while it computes.
    let mut left = jobs.map(|j| j.compute_s);
    let mut computing = [true, true];
    let (mut now, mut work) = (0.0, 0.0);
    while now < end {
        for i in 0..2 {
            // A phase without length is over at once; one without either has no period and is not simulated.
            for _ in 0..2 {
                if left[i] <= 0.0 {
                    computing[i] = !computing[i];
                    left[i] = if computing[i] { jobs[i].compute_s } else { jobs[i].round_s };
                }
            }
        }
        let runs = [true, computing[0] || computing[1]];
        let until = (0..2).filter(|&i| runs[i]).map(|i| left[i]).fold(end - now, f64::min);
        if until <= 0.0 {
            break;
        }
        for i in 0..2 {
            if runs[i] {
                left[i] -= until;
                if computing[i] && jobs[i].compute_s > 0.0 {
                    work += jobs[i].work * until / jobs[i].compute_s;
                }
            }
        }
        now += until;
    }
    work / end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(compute_s: f64, round_s: f64, work: f64) -> Periodic {
        Periodic { compute_s, round_s, work }
    }

    #[test]
    fn alone_in_effect_the_work_is_that_of_both() {
        // Halves that fit into each other: after the first round both run as if alone.
        let (a, b) = (job(1.0, 1.0, 4.0), job(1.0, 1.0, 2.0));
        let done = work_done(a, b);
        assert!((done - 3.0).abs() < 0.1, "{done}");
    }

    #[test]
    fn the_second_waits() {
        // Both want the link all the time: the first gets it whenever it does not compute.
        let (a, b) = (job(1.0, 3.0, 1.0), job(1.0, 9.0, 1.0));
        // a: 1 per 4 s; b sends only while a computes, 1 s in 4: a round takes 36 s.
        let done = work_done(a, b);
        assert!((done - (0.25 + 1.0 / 37.0)).abs() < 0.02, "{done}");
    }

    #[test]
    fn the_correction_makes_the_better_order_win() {
        for (j, r) in [
            (job(0.2, 0.5, 0.2), job(2.0, 1.0, 0.4)),
            (job(2.0, 1.0, 3.0), job(0.2, 0.5, 0.6)),
            (job(0.5, 0.1, 1.0), job(1.0, 2.0, 1.5)),
        ] {
            let (first, second) = (work_done(j, r), work_done(r, j));
            let k = correction(j, r);
            let ahead = k * j.work / j.round_s > r.work / r.round_s;
            if (first - second).abs() > 1e-6 {
                assert_eq!(ahead, first > second, "{j:?} {r:?} {first} {second} {k}");
            }
        }
        assert_eq!(correction(job(1.0, 1.0, 1.0), job(1.0, 1.0, 1.0)), 1.0);
    }
}
