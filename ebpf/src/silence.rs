//! Whose flow has been silent for long: no hook of it ran, or nothing of it was acknowledged. No kernel, no clock.
//!
//! A flow whose peer has vanished is not still: TCP sends again, after a second, two, four, up to two minutes, and each time a
//! hook runs. Only the bytes that were acknowledged say that nobody answers.

use sluice_schedule::Nanos;

/// Looks follow each other every second while rows run short. After a longer gap what was seen says nothing: a flow that
/// had nothing to send meanwhile may just have begun.
const GAP: Nanos = Nanos::from_millis(5_000);

/// Where a row's flow was when something of it was acknowledged last.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    generation: u32,
    acked: u64,
    since: Nanos,
    /// The last look.
    looked: Nanos,
}

/// What a look sees of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Whose it is.
    pub generation: u32,
    /// Bytes acknowledged.
    pub acked: u64,
    /// When a hook of it last ran, on the monotonic clock.
    pub touched: Nanos,
}

/// All rows, as of the looks so far.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    rows: Vec<Seen>,
}

impl Silence {
    /// Has the flow of the row at `index` been silent for `long`? Where hooks run, that is known after so many looks.
    pub(crate) fn lasts(&mut self, now: Nanos, index: u32, look: Look, long: Nanos) -> bool {
        let Look { generation, acked, touched } = look;
        let index = index as usize;
        if self.rows.len() <= index {
            self.rows.resize(index + 1, Seen::default());
        }
        let Some(seen) = self.rows.get_mut(index) else { return false };
        let same = (seen.generation, seen.acked) == (generation, acked) && now.minus(seen.looked) <= GAP;
        *seen = Seen { generation, acked, since: if same { seen.since } else { now }, looked: now };
        now.minus(touched) > long || now.minus(seen.since) > long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Nanos = Nanos::from_millis(60_000);

    fn s(seconds: u64) -> Nanos {
        Nanos::from_millis(seconds * 1_000)
    }

    #[test]
    fn who_sends_again_and_again_without_an_answer_is_silent() {
        let mut silence = Silence::default();
        // The last acknowledgement came after 99 s; it was sent again after 100, 101, 103, 107, 115, 131 and 163 s.
        for now in 100..=160 {
            let touched = [100, 101, 103, 107, 115, 131].into_iter().filter(|at| *at <= now).max().unwrap_or(100);
            let look = Look { generation: 1, acked: 5, touched: s(touched) };
            assert!(!silence.lasts(s(now), 7, look, LONG), "after {now} s");
        }
        let look = Look { generation: 1, acked: 5, touched: s(131) };
        assert!(silence.lasts(s(161), 7, look, LONG));
        assert!(!silence.lasts(s(162), 7, Look { acked: 6, ..look }, LONG), "something came");
        assert!(
            !silence.lasts(s(300), 7, Look { generation: 2, acked: 6, touched: s(299) }, LONG),
            "another flow's row"
        );
    }

    #[test]
    fn who_begins_after_a_pause_in_which_nobody_looked_is_not_silent() {
        let mut silence = Silence::default();
        let look = |touched| Look { generation: 1, acked: 5, touched: s(touched) };
        assert!(!silence.lasts(s(100), 0, look(100), LONG));
        assert!(!silence.lasts(s(300), 0, look(300), LONG), "its first segment is under way");
        assert!(!silence.lasts(s(301), 0, look(301), LONG));
    }

    #[test]
    fn whose_hooks_do_not_run_is_silent_at_the_first_look() {
        let mut silence = Silence::default();
        let look = Look { generation: 1, acked: 5, touched: s(100) };
        assert!(!silence.lasts(s(160), 0, look, LONG));
        let mut silence = Silence::default();
        assert!(silence.lasts(s(161), 0, look, LONG));
        assert!(!silence.lasts(s(99), 1, look, LONG), "a clock behind the kernel's");
    }
}
