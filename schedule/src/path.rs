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

/// The rate that every flow with demand keeps: the larger of `least` and `ratio` of the bottleneck, never more than a
/// tenth of the bottleneck, so that many flows on a slow path do not fill it with floors.
pub fn floor(bottleneck: Rate, least: Rate, ratio: f64) -> Rate {
    least.max(bottleneck.times(ratio)).min(bottleneck.share(10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_floor_is_the_larger_of_two_and_at_most_a_tenth() {
        let least = Rate::mbps(10);
        assert_eq!(floor(Rate::mbps(25_000), least, 0.01), Rate::mbps(250));
        assert_eq!(floor(Rate::mbps(500), least, 0.01), least);
        assert_eq!(floor(Rate::mbps(50), least, 0.01), Rate::mbps(5));
        assert_eq!(floor(Rate::ZERO, least, 0.01), Rate::ZERO);
    }

    proptest! {
        #[test]
        fn a_floor_is_never_more_than_a_tenth(bottleneck: u64, least: u64, ratio: f64) {
            prop_assert!(floor(Rate(bottleneck), Rate(least), ratio).0 <= bottleneck / 10);
        }
    }
}
