//! The last orders of a process that ends in order: what flows are held to until the next process decides, for a bounded
//! time.
//!
//! Every flow keeps the larger of its order and its equal share of the own link, all scaled down to what the link carries.

use crate::units::Rate;

/// The least part of its present order that a coasting flow keeps.
const LEAST: f64 = 0.5;

/// A flow while nobody decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coasting {
    /// Place among the own links.
    pub link: usize,
    /// As of the last slot in which somebody decided.
    pub order: Rate,
}

/// Rates while nobody decides, one per flow; a link that is not known sets no bound.
pub fn rates(flows: &[Coasting], capacities: &[Rate]) -> Vec<Rate> {
    let capacity = |link: usize| capacities.get(link).copied().unwrap_or(Rate::MAX);
    let count = |link: usize| flows.iter().filter(|other| other.link == link).count() as u64;
    let wish = |&Coasting { link, order }: &Coasting| match capacity(link) {
        Rate::MAX => order,
        capacity => order.max(capacity.share(count(link))),
    };
    let wishes: Vec<Rate> = flows.iter().map(wish).collect();
    let sum = |link: usize| {
        flows.iter().zip(&wishes).filter(|(flow, _)| flow.link == link).fold(Rate::ZERO, |s, (_, w)| s.plus(*w))
    };
    let rate = |(flow, wish): (&Coasting, &Rate)| {
        let scale = (1.0 / sum(flow.link).ratio_of(capacity(flow.link))).min(1.0);
        wish.times(scale).max(flow.order.times(LEAST))
    };
    flows.iter().zip(&wishes).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn coasting_flows_share_the_link_and_keep_half_their_order() {
        let link = Rate::mbps(100);
        // One flow sends at full speed, three wait at the floor: all get something, and the link is not over-promised.
        let flow = |mbps| Coasting { order: Rate::mbps(mbps), ..Coasting::default() };
        let flows = [90, 2, 2, 2].map(flow);
        let rates_of = rates(&flows, &[link]);
        let sum = rates_of.iter().fold(Rate::ZERO, |sum, rate| sum.plus(*rate));
        assert!(sum <= link.plus(Rate(4)), "{sum}");
        assert!(rates_of[0] >= Rate::mbps(45) && rates_of[1] >= Rate::mbps(10), "{rates_of:?}");
        // Alone on a link a flow gets all of it.
        assert_eq!(rates(&[flow(10)], &[link]), [link]);
        assert_eq!(rates(&[], &[link]), []);
    }

    proptest! {
        #[test]
        fn what_fitted_still_fits(orders in prop::collection::vec(0_u64..=1_000_000_000, 1..64), spare in 0_u64..1_000_000_000) {
            let flows: Vec<Coasting> = orders.iter().map(|&rate| Coasting { link: 0, order: Rate(rate) }).collect();
            let capacity = Rate(orders.iter().sum::<u64>() + spare);
            let sum = rates(&flows, &[capacity]).iter().fold(Rate::ZERO, |sum, rate| sum.plus(*rate));
            // Wishes come to twice the link at most, so that nothing is scaled to less than the half that is kept anyway.
            prop_assert!(sum <= capacity.times(1.000_001).plus(Rate(flows.len() as u64)), "{} of {}", sum, capacity);
        }
    }
}
