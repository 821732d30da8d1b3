//! Whether flows that were given back are as fast as plain TCP alone makes them, in the time that a row has for it.

use std::time::Duration;

use sluice_schedule::Rate;

use super::figure::{Figure, Unit};
use super::ground::Stage;

/// What all flows of host 0 together got, Mbit/s of payload.
#[derive(Clone, Copy, Debug)]
pub struct Back {
    /// In the second before the fault, under Sluice.
    before: f64,
    /// In the second that begins when the last of them should be under plain TCP.
    due: f64,
    /// When they had settled under plain TCP, until now.
    plain: f64,
    /// The link is slow enough for it to be what limits them, rather than the machine.
    by_link: bool,
}

impl Back {
    /// They are back at this part of it.
    pub const LEAST: f64 = 0.95;
    /// Two cores carry so much with any number of flows, whatever drives them.
    const CARRIED: Rate = Rate::mbps(200);
    /// Shorter times tell of single segments.
    const SECOND: u64 = Duration::from_secs(1).as_nanos() as u64;

    /// Around a fault at `at`, where flows should be given back by `due` and had settled by `settled`; all of
    /// CLOCK_MONOTONIC in ns.
    pub fn of(stage: &Stage, at: u64, due: u64, settled: u64) -> Back {
        let rate = |from, to| stage.live.rate(0, from, to);
        Back {
            before: rate(at.saturating_sub(Back::SECOND), at),
            due: rate(due, due + Back::SECOND),
            plain: rate(settled, Stage::now()),
            by_link: stage.plan.fabric.rate(0) <= Back::CARRIED,
        }
    }

    /// As a figure: over what plain TCP gives the same flows afterwards. Where the link limits them it is over what they had before, if
    /// that was more: a fault that spoils plain TCP for good would spoil the former as well.
    pub fn figure(self, case: &str) -> Figure {
        let Back { before, due, plain, by_link } = self;
        let most = if by_link { plain.max(before) } else { plain };
        let ratio = if most > 0.0 { due / most } else { 0.0 };
        let what = format!("{case}: rate in the second after that, over that under plain TCP");
        Figure::at_least(what, ratio, Unit::Ratio, Back::LEAST)
            .noted(format!("before {before:.1}, then {due:.1}, under plain TCP afterwards {plain:.1} Mbit/s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_held_against_plain_tcp_and_on_a_slow_link_against_what_it_was_before_too() {
        let back = Back { before: 90.0, due: 45.0, plain: 45.0, by_link: true };
        assert!(!back.figure("spoilt").passes(0.0));
        assert!(Back { by_link: false, ..back }.figure("the machine's rate").passes(0.0));
        assert!(!Back { plain: 50.0, by_link: false, ..back }.figure("not back yet").passes(0.0));
        assert!(!Back { before: 0.0, due: 0.0, plain: 0.0, by_link: true }.figure("nothing moved").passes(0.0));
    }
}
