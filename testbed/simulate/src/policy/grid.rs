//! When rounds may begin: every job that was given a shift has a grid of moments, one per iteration, and keeps to it
//! (`simulation.md` section 7.5.2).

use std::collections::BTreeMap;

use sluice_schedule::Nanos;

use crate::world::JobIx;

/// A round may be late by this part of the period before the grid moves.
const LATE: f64 = 0.05;
/// A job that takes its place waits for a whole moment: one that began a little late would stay late by that for ever, and
/// run into the next job every time. Only rounding is let through, nanoseconds.
const ROUNDING: i128 = 1000;

/// A job's place on its circle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Seconds after the anchor at which its iterations begin.
    pub shift_s: f64,
    /// Seconds of one iteration on the circle.
    pub period_s: f64,
    /// Seconds of an iteration before its round.
    pub lead_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Grid {
    /// Jobs whose grids move together.
    group: usize,
    shift: Shift,
    /// An iteration begins here, and every period before and after.
    base: i128,
    /// Where its next round should begin; unknown until its first round after the grid was laid.
    next: Option<i128>,
    /// The grid was laid through where it stands.
    anchor: bool,
}

/// The grids of all jobs.
#[derive(Clone, Debug, Default)]
pub struct Grids {
    of: BTreeMap<JobIx, Grid>,
    groups: BTreeMap<usize, Vec<JobIx>>,
    /// Where an iteration of a job really began last.
    began: BTreeMap<JobIx, i128>,
    realigned: u64,
}

fn nanos(seconds: f64) -> i128 {
    (seconds * 1e9).round() as i128
}

impl Grids {
    /// Lays the grids of a group: `anchor` is the job with shift 0, `started` when it started. A job that stands already
    /// where it should keeps its next moment.
    ///
    /// The anchor's grid goes through the start of its last known iteration (its own start in the beginning), so laying a
    /// grid does not delay the anchor.
    pub fn lay(&mut self, group: usize, anchor: JobIx, started: Nanos, jobs: &[(JobIx, Shift)]) {
        self.clear(group);
        let kept = self.of.get(&anchor).map(|g| g.base);
        let zero = kept.or_else(|| self.began.get(&anchor).copied()).unwrap_or(i128::from(started.0));
        for &(job, shift) in jobs {
            let base = zero + nanos(shift.shift_s);
            let same = self.of.get(&job).filter(|g| g.shift == shift && g.base == base);
            let next = same.and_then(|g| g.next);
            self.of.insert(job, Grid { group, shift, base, next, anchor: job == anchor });
        }
        self.groups.insert(group, jobs.iter().map(|j| j.0).collect());
    }

    /// A group has no grid any more; the places of its jobs are remembered until they are given others or freed.
    pub fn clear(&mut self, group: usize) {
        self.groups.remove(&group);
    }

    /// A job may begin its rounds when it likes.
    pub fn free(&mut self, job: JobIx) {
        self.of.remove(&job);
    }

    /// A job has ended.
    pub fn forget(&mut self, job: JobIx) {
        self.of.remove(&job);
        self.began.remove(&job);
    }

    /// How often grids were moved because a job came too late.
    pub fn realigned(&self) -> u64 {
        self.realigned
    }

    /// A job's round could begin now: not before which time it may. `lead_s` seconds of compute lie behind it.
    pub fn round(&mut self, job: JobIx, now: Nanos, lead_s: f64) -> Nanos {
        let here = i128::from(now.0);
        let Some(grid) = self.of.get_mut(&job) else {
            self.began.insert(job, here - nanos(lead_s));
            return Nanos::ZERO;
        };
        let period = nanos(grid.shift.period_s).max(1);
        let late = nanos(grid.shift.period_s * LATE);
        let lead = nanos(grid.shift.lead_s);
        let first = grid.base + lead;
        // The first moment of the grid that is not past.
        let slack = if grid.anchor { late } else { ROUNDING.min(late) };
        let onward = first + period * div_ceil(here - slack - first, period);
        let point = grid.next.unwrap_or(onward);
        let begins = point.max(here);
        self.began.insert(job, begins - lead);
        if here - point <= late {
            grid.next = Some(point + period);
        } else {
            let (group, delta) = (grid.group, here - point);
            self.realigned += 1;
            self.realign(group, delta);
            if let Some(grid) = self.of.get_mut(&job) {
                grid.next = Some(here + period);
            }
        }
        Nanos(u64::try_from(begins).unwrap_or(0))
    }

    /// Moves all grids of a group; its jobs find their next moments anew.
    fn realign(&mut self, group: usize, delta: i128) {
        for job in self.groups.get(&group).map_or(&[][..], Vec::as_slice) {
            if let Some(grid) = self.of.get_mut(job).filter(|g| g.group == group) {
                grid.base += delta;
                grid.next = None;
            }
        }
    }
}

fn div_ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: JobIx = JobIx(0);
    const B: JobIx = JobIx(1);

    fn s(seconds: f64) -> Nanos {
        Nanos(nanos(seconds) as u64)
    }

    /// One second of period, half of it compute; b is half a period behind a.
    fn laid() -> Grids {
        let mut g = Grids::default();
        let shift = |shift_s| Shift { shift_s, period_s: 1.0, lead_s: 0.5 };
        g.lay(7, A, s(10.0), &[(A, shift(0.0)), (B, shift(0.5))]);
        g
    }

    #[test]
    fn rounds_wait_for_their_moments() {
        let mut g = laid();
        assert_eq!(g.round(A, s(10.5), 0.5), s(10.5));
        // b's iteration begins at 10.5, its round at 11.
        assert_eq!(g.round(B, s(10.6), 0.5), s(11.0));
        assert_eq!(g.round(A, s(11.4), 0.5), s(11.5));
        assert_eq!(g.round(B, s(12.04), 0.5), s(12.04));
        // The little lateness does not add up: the grid stands.
        assert_eq!(g.round(B, s(12.9), 0.5), s(13.0));
        assert_eq!(g.realigned(), 0);
    }

    #[test]
    fn who_is_late_moves_everyone() {
        let mut g = laid();
        assert_eq!(g.round(A, s(10.5), 0.5), s(10.5));
        assert_eq!(g.round(B, s(11.0), 0.5), s(11.0));
        assert_eq!(g.round(A, s(11.8), 0.5), s(11.8));
        assert_eq!(g.realigned(), 1);
        // b's rounds begin at 12.3 now, not at 12.
        assert_eq!(g.round(B, s(12.0), 0.5), s(12.3));
        assert_eq!(g.round(A, s(12.7), 0.5), s(12.8));
    }

    #[test]
    fn the_same_grid_again_is_no_new_grid() {
        let mut g = laid();
        g.round(A, s(10.5), 0.5);
        g.round(B, s(11.0), 0.5);
        let before = g.clone();
        let shift = |shift_s| Shift { shift_s, period_s: 1.0, lead_s: 0.5 };
        g.lay(7, A, s(10.0), &[(A, shift(0.0)), (B, shift(0.5))]);
        assert_eq!((g.of, g.groups), (before.of, before.groups));
    }

    #[test]
    fn free_jobs_do_not_wait_and_anchor_where_they_are() {
        let mut g = Grids::default();
        assert_eq!(g.round(A, s(3.7), 0.5), Nanos::ZERO);
        let shift = |shift_s| Shift { shift_s, period_s: 1.0, lead_s: 0.5 };
        g.lay(1, A, s(0.0), &[(A, shift(0.0)), (B, shift(0.25))]);
        // a's iteration began at 3.2: its next round is at 4.7, b's at 3.95 or 4.95.
        assert_eq!(g.round(A, s(4.7), 0.5), s(4.7));
        assert_eq!(g.round(B, s(4.0), 0.5), s(4.95));
        assert_eq!(g.round(B, s(5.8), 0.5), s(5.95));
    }
}
