//! Algorithm 2: the current slot's rate of a flow that lags behind what it depends on.

use crate::units::{Bytes, Nanos, Rate};

/// Which of Algorithm 2's three cases it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Δ = 0: the initial schedule stands.
    Kept,
    /// The lag is made up for within this slot.
    CaughtUp,
    /// The lag is larger than the path can make up for: the ceiling is applied.
    AtCeiling,
}

/// The current slot's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjusted {
    /// The rate to apply.
    pub rate: Rate,
    /// Which case it was.
    pub step: Step,
}

/// One step of Algorithm 2 for a flow with the initial rate `initial` in the current slot, of which `rest` is left,
/// that lags by `behind` (Δ) and may try at most `ceiling` (B_f).
///
/// In the third case the ceiling is applied as the paper says, whether it is above or below the initial rate. At the
/// very end of a slot any lag is more than can be made up for.
pub fn adjust(initial: Rate, behind: Bytes, rest: Nanos, ceiling: Rate) -> Adjusted {
    if behind == Bytes::ZERO {
        return Adjusted { rate: initial, step: Step::Kept };
    }
    let raised = initial.plus(Rate::needed(behind, rest));
    if raised < ceiling {
        Adjusted { rate: raised, step: Step::CaughtUp }
    } else {
        Adjusted { rate: ceiling, step: Step::AtCeiling }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOT: Nanos = Nanos::from_millis(60);

    #[test]
    fn the_three_cases_of_the_paper() {
        let initial = Rate::mbps(100);
        let kept = adjust(initial, Bytes::ZERO, SLOT, Rate::mbps(50));
        assert_eq!((kept.rate, kept.step), (initial, Step::Kept));
        // 750 kB in 60 ms are 100 Mbit/s.
        let caught_up = adjust(initial, Bytes(750_000), SLOT, Rate::mbps(201));
        assert_eq!((caught_up.rate, caught_up.step), (Rate::mbps(200), Step::CaughtUp));
        let at_ceiling = adjust(initial, Bytes(750_000), SLOT, Rate::mbps(200));
        assert_eq!((at_ceiling.rate, at_ceiling.step), (Rate::mbps(200), Step::AtCeiling));
        let below = adjust(initial, Bytes(750_000), SLOT, Rate::mbps(80));
        assert_eq!(below.rate, Rate::mbps(80));
    }

    #[test]
    fn without_a_ceiling_at_the_end_of_a_slot_nothing_overflows() {
        let end = adjust(Rate::mbps(1), Bytes(1), Nanos::ZERO, Rate::MAX);
        assert_eq!((end.rate, end.step), (Rate::MAX, Step::AtCeiling));
    }

    proptest! {
        #[test]
        fn it_is_one_of_three_rates(initial: u64, behind: u64, rest in 0_u64..1 << 40, ceiling: u64) {
            let adjusted = adjust(Rate(initial), Bytes(behind), Nanos(rest), Rate(ceiling));
            let raised = Rate(initial).plus(Rate::needed(Bytes(behind), Nanos(rest)));
            prop_assert_eq!(adjusted.rate, match adjusted.step {
                Step::Kept => Rate(initial),
                Step::CaughtUp => raised,
                Step::AtCeiling => Rate(ceiling),
            });
            prop_assert_eq!(adjusted.step == Step::Kept, behind == 0);
            prop_assert!(adjusted.step != Step::CaughtUp || adjusted.rate.0 < ceiling);
        }
    }
}
