//! What a path offers one flow: headroom, load, the ceiling learnt from deliveries, what unmanaged traffic needs, and
//! the guards that keep a decision from starving a flow, from flapping, and from holding back for nothing.
//!
//! All of it is arithmetic on what was measured and heard. Prices are [`crate::price`]'s, rates over time
//! [`crate::greedy`]'s; who measures, and when, is the host's.

mod ceiling;
mod cross;
mod guard;
mod uptake;
mod useful;

pub use ceiling::{Ceiling, Sample};
pub use cross::CrossTraffic;
pub use guard::{KeyHysteresis, RateHysteresis, Waiting};
pub use uptake::Uptake;
pub use useful::Benefit;

use crate::price::utilisation;
use crate::units::Rate;

/// One link of a path in one slot: what other jobs promised there, and what managed flows may use of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSlot {
    /// b: the sum of the rates of other jobs' flows.
    pub load: Rate,
    /// u: the link's rate less cross traffic and reserve.
    pub usable: Rate,
}

impl LinkSlot {
    /// max(u − b, 0).
    pub const fn room(self) -> Rate {
        self.usable.minus(self.load)
    }
}

/// h: the least room over the links of a path; [`Rate::MAX`] over no link.
pub fn headroom(links: impl IntoIterator<Item = LinkSlot>) -> Rate {
    links.into_iter().map(LinkSlot::room).min().unwrap_or(Rate::MAX)
}

/// Path load: the sum of the links' utilisation by other jobs; 0 on an idle path.
pub fn load(links: impl IntoIterator<Item = LinkSlot>) -> f64 {
    links.into_iter().map(|link| utilisation(link.load, link.usable)).sum()
}

/// The rate that every flow with demand keeps: the larger of `least` and `ratio` of the bottleneck, never more than a
/// tenth of the bottleneck, so that many flows on a slow path do not fill it with floors.
pub fn floor(bottleneck: Rate, least: Rate, ratio: f64) -> Rate {
    least.max(bottleneck.times(ratio)).min(bottleneck.share(10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(load: u64, usable: u64) -> LinkSlot {
        LinkSlot { load: Rate(load), usable: Rate(usable) }
    }

    #[test]
    fn headroom_is_that_of_the_tightest_link_and_never_negative() {
        assert_eq!(headroom([link(3, 10), link(1, 5), link(0, 9)]), Rate(4));
        assert_eq!(headroom([link(3, 10), link(7, 5)]), Rate::ZERO);
        assert_eq!(headroom([]), Rate::MAX);
    }

    #[test]
    fn path_load_adds_parts_of_links() {
        assert_eq!(load([link(5, 10), link(1, 4)]), 0.75);
        assert_eq!(load([link(0, 0)]), crate::price::MAX_UTILISATION);
    }

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
