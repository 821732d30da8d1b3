//! What a slot on a path costs: the exponential price of online primal–dual packing, and the paper's bare load.
//!
//! A price is a fixed-point number, so that sums and comparisons are exact and a decision never hangs on the order in
//! which floats were added. Who is loaded by whom, and what a flow does with the price, is left to [`crate::path`] and
//! [`crate::greedy`].

use crate::units::Rate;

/// A dimensionless price in units of 2⁻²⁰; a link exactly full by other jobs costs [`Price::ONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

impl Price {
    /// How many bits of a price lie behind the binary point.
    pub(crate) const BITS: u32 = 20;
    /// The price of an idle path.
    pub const ZERO: Price = Price(0);
    /// The price of a link that is exactly full.
    pub const ONE: Price = Price(1 << Price::BITS);
    /// The dearest there is: 2²⁰. With it bytes × price × weight stay below 2¹²⁸.
    pub const MAX: Price = Price(1 << (2 * Price::BITS));

    /// The nearest price; NaN and negative values are zero, the rest is cut at [`Price::MAX`].
    pub fn new(value: f64) -> Price {
        let scaled = (value.max(0.0) * Price::ONE.0 as f64).round();
        if scaled >= Price::MAX.0 as f64 { Price::MAX } else { Price(scaled as u64) }
    }
    /// The sum, at most [`Price::MAX`].
    pub const fn plus(self, other: Price) -> Price {
        let sum = self.0 + other.0; // Neither is more than 2⁴⁰.
        if sum > Price::MAX.0 { Price::MAX } else { Price(sum) }
    }
    /// In units of 2⁻²⁰.
    pub const fn units(self) -> u64 {
        self.0
    }
}

/// w: how many slots of delay one unit of price is worth, in units of 2⁻¹⁰ slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// How many bits of a weight lie behind the binary point.
    pub(crate) const BITS: u32 = 10;
    /// One slot per unit of price.
    pub const ONE: Weight = Weight(1 << Weight::BITS);
    /// The largest `schedule.delay_weight`: a hundred slots.
    pub(crate) const MAX: Weight = Weight(100 << Weight::BITS);

    /// The nearest weight to a number of slots, within 0 and 100; NaN is zero.
    pub fn new(slots: f64) -> Weight {
        Weight((slots.clamp(0.0, 100.0) * f64::from(Weight::ONE.0)).round() as u32).min(Weight::MAX)
    }
    /// In units of 2⁻¹⁰ slots.
    pub const fn units(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::ONE
    }
}

/// The part of `usable` that `load` takes, within 0 and [`MAX_UTILISATION`]; a link without capacity is as full as can be.
fn utilisation(load: Rate, usable: Rate) -> f64 {
    if usable == Rate::ZERO { MAX_UTILISATION } else { load.ratio_of(usable).min(MAX_UTILISATION) }
}

/// Where the price stops growing: a link promised twice over has no headroom left, dearer would change nothing.
const MAX_UTILISATION: f64 = 2.0;

/// How the load of a link becomes a price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curve {
    /// λ(ρ) = (μ^ρ − 1)/(μ − 1): 0 on an idle link, 1 on a full one, convex between.
    Exponential(Exponential),
    /// λ(ρ) = ρ: 0 on an idle link, 1 on a full one, as convex as can just be. No setting chooses it: it is there for
    /// comparison with exact references, because it is rational and its prices need no rounding where ρ is a binary
    /// fraction.
    Linear,
    /// The paper's: the load itself, in Gbit/s. It has a unit, so what a slot of delay is worth changes with link speed.
    BareLoad,
}

/// The curve λ(ρ) = (μ^ρ − 1)/(μ − 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    ln_mu: f64,
    per: f64,
}

impl Exponential {
    /// The range of `schedule.price_mu`.
    const MU: std::ops::RangeInclusive<f64> = 1.1..=1e6;

    /// The curve for this μ, cut to 1.1 to 10⁶; NaN is its lower end.
    pub fn new(mu: f64) -> Exponential {
        let mu = mu.max(*Exponential::MU.start()).min(*Exponential::MU.end());
        Exponential { ln_mu: mu.ln(), per: (mu - 1.0).recip() }
    }
    /// λ at this utilisation.
    pub fn at(self, utilisation: f64) -> Price {
        // Near zero the subtraction loses digits that a price in units of 2⁻²⁰ does not have.
        Price::new(((utilisation.clamp(0.0, MAX_UTILISATION) * self.ln_mu).exp() - 1.0) * self.per)
    }
}

impl Curve {
    /// The exponential price with this μ.
    pub fn exponential(mu: f64) -> Curve {
        Curve::Exponential(Exponential::new(mu))
    }
    /// What one link costs that carries `load` of other jobs and could carry `usable`.
    pub fn link(self, load: Rate, usable: Rate) -> Price {
        match self {
            Curve::Exponential(curve) => match (load, usable) {
                (Rate::ZERO, Rate(1..)) => Price::ZERO,
                _ => curve.at(utilisation(load, usable)),
            },
            Curve::Linear => Price::new(utilisation(load, usable)),
            Curve::BareLoad => Price::new(load.0 as f64 / 1e9),
        }
    }
    /// What a path costs: the sum over its links, each given as (load, usable).
    pub fn path(self, links: impl IntoIterator<Item = (Rate, Rate)>) -> Price {
        links.into_iter().fold(Price::ZERO, |sum, (load, usable)| sum.plus(self.link(load, usable)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(price: Price) -> f64 {
        price.0 as f64 / Price::ONE.0 as f64
    }
    use proptest::prelude::*;

    #[test]
    fn an_idle_link_is_free_and_a_full_one_costs_one() {
        for mu in [1.1, 2.0, 100.0, 1e6] {
            let curve = Curve::exponential(mu);
            assert_eq!(curve.link(Rate::ZERO, Rate::mbps(10)), Price::ZERO);
            assert_eq!(curve.link(Rate::mbps(10), Rate::mbps(10)), Price::ONE);
        }
    }

    #[test]
    fn half_a_link_costs_an_eleventh_at_the_default() {
        // (√100 − 1)/(100 − 1) = 1/11
        let half = Curve::exponential(100.0).link(Rate::mbps(5), Rate::mbps(10));
        assert!((real(half) - 1.0 / 11.0).abs() < 1e-6, "{half:?}");
    }

    #[test]
    fn a_link_without_capacity_is_as_dear_as_can_be_and_never_nan() {
        let curve = Curve::exponential(100.0);
        let worst = curve.link(Rate(u64::MAX), Rate(1));
        assert_eq!(curve.link(Rate::ZERO, Rate::ZERO), worst);
        assert_eq!(curve.link(Rate::MAX, Rate::ZERO), worst);
        assert_eq!(curve.path([(Rate::ZERO, Rate::ZERO); 3]), worst.plus(worst).plus(worst));
        assert_eq!(Price::new(f64::NAN), Price::ZERO);
        assert_eq!(Price::new(f64::INFINITY), Price::MAX);
        assert_eq!(Weight::new(f64::NAN), Weight::new(0.0));
    }

    #[test]
    fn the_linear_price_is_the_utilisation_up_to_twice_the_link() {
        let at = |load| real(Curve::Linear.link(Rate::mbps(load), Rate::mbps(8)));
        assert_eq!([at(0), at(1), at(8), at(16), at(17)], [0.0, 0.125, 1.0, 2.0, 2.0]);
        assert_eq!(real(Curve::Linear.link(Rate::ZERO, Rate::ZERO)), 2.0);
    }

    #[test]
    fn the_bare_load_is_a_sum_in_gigabits() {
        let path = Curve::BareLoad.path([(Rate::mbps(2_500), Rate::ZERO), (Rate::mbps(1_500), Rate::mbps(1))]);
        assert_eq!(real(path), 4.0);
    }

    proptest! {
        #[test]
        fn it_grows_and_is_convex(mu in 1.1_f64..1e6, a in 0.0_f64..2.0, b in 0.0_f64..2.0) {
            let curve = Exponential::new(mu);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(curve.at(low) <= curve.at(high));
            let middle = real(curve.at((low + high) / 2.0));
            let chord = (real(curve.at(low)) + real(curve.at(high))) / 2.0;
            prop_assert!(middle <= chord + 2.0 / Price::ONE.units() as f64);
        }

        #[test]
        fn scaling_loads_and_links_changes_nothing(load in 0_u64..1 << 40, usable in 1_u64..1 << 40, by in 1_u64..1000) {
            let curve = Curve::exponential(100.0);
            let (small, large) =
                (curve.link(Rate(load), Rate(usable)), curve.link(Rate(load * by), Rate(usable * by)));
            prop_assert!(small.units().abs_diff(large.units()) <= 1);
        }
    }
}
