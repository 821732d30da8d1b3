//! What a path offers one flow: the ceiling learnt from deliveries, what the flow takes of its order, what unmanaged
//! traffic needs, what a flow takes beyond its order, and the guards that keep a decision from starving a flow and from flapping.
//!
//! All of it is arithmetic on what was measured and heard. Prices are [`crate::price`]'s, rates over time
//! [`crate::greedy`]'s; who measures, and when, is the host's.

mod ceiling;
mod cross;
mod guard;
mod surplus;
mod uptake;

pub use ceiling::{Ceiling, Sample};
pub use cross::CrossTraffic;
pub use guard::{KeyHysteresis, Waiting};
pub use surplus::{Signs, Surplus};
pub use uptake::Uptake;

use crate::units::Rate;

/// No flow's floor is cut below this on account of others: two segments every 23 ms keep acknowledgements coming, so that
/// a flow hears of a new order soon and its retransmission timer stays quiet.
pub const LEAST_FLOOR: Rate = Rate::mbps(1);

/// The rate that every flow with demand keeps: the larger of `least` and `ratio` of the bottleneck. All `flows` with demand
/// there keep a tenth of the bottleneck together, or [`LEAST_FLOOR`] each if that is more, so that many flows on a path do
/// not fill it with floors and leave nothing to the order of rounds.
pub fn floor(bottleneck: Rate, least: Rate, ratio: f64, flows: u64) -> Rate {
    let tenth = bottleneck.share(10);
    least.max(bottleneck.times(ratio)).min(tenth.share(flows.max(1)).max(LEAST_FLOOR)).min(tenth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_floor_is_the_larger_of_two_and_at_most_a_tenth() {
        let least = Rate::mbps(10);
        assert_eq!(floor(Rate::mbps(25_000), least, 0.01, 1), Rate::mbps(250));
        assert_eq!(floor(Rate::mbps(500), least, 0.01, 1), least);
        assert_eq!(floor(Rate::mbps(50), least, 0.01, 1), Rate::mbps(5));
        assert_eq!(floor(Rate::ZERO, least, 0.01, 1), Rate::ZERO);
    }

    #[test]
    fn many_floors_share_a_tenth() {
        let least = Rate::mbps(10);
        assert_eq!(floor(Rate::mbps(25_000), least, 0.01, 10), Rate::mbps(250));
        assert_eq!(floor(Rate::mbps(25_000), least, 0.01, 100), Rate::mbps(25));
        assert_eq!(floor(Rate::mbps(500), least, 0.01, 20), Rate(2_500_000));
        assert_eq!(floor(Rate::mbps(500), least, 0.01, 4096), LEAST_FLOOR);
        assert_eq!(floor(Rate::mbps(5), least, 0.01, 4096), Rate(500_000));
    }

    proptest! {
        #[test]
        fn floors_are_never_more_than_a_tenth(bottleneck: u64, least: u64, ratio: f64, flows in 0_u64..10_000) {
            let one = floor(Rate(bottleneck), Rate(least), ratio, flows);
            prop_assert!(one.0 <= bottleneck / 10);
            prop_assert!(one <= LEAST_FLOOR || one.0.saturating_mul(flows) <= bottleneck / 10);
        }
    }
}
